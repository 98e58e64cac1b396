//! Threads that ask for turns, in a time of their own.

use super::*;
use crate::rate::EARLY_NS;
use quell_stats::rng::Rng;
use std::collections::BTreeSet;

const RATE: u64 = 10_000_000;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A thread that asks for pieces as soon as it may, and then again after so long.
struct Mover {
    path: Path,
    piece: usize,
    /// What it wants after that piece, in turn with it.
    other: usize,
    /// How long it is about a piece that it may move: what a system call takes, or what a busy machine makes of that.
    takes_ns: u64,
    next_ns: u64,
    got: u64,
    longest_ns: u64,
    asked_ns: u64,
}

fn mover(ip: &str, test: u64, stream: u64, piece: usize, takes_ns: u64) -> Mover {
    let path = path(self::ip(ip), test, stream);
    Mover { path, piece, other: piece, takes_ns, next_ns: 0, got: 0, longest_ns: 0, asked_ns: 0 }
}

/// These share a line for so many seconds: an account with a burst of 20 ms, as the server's.
fn share(movers: &mut [Mover], rate: u64, seconds: u64) {
    let (mut turns, mut rng) = (Turns::new(rate), Rng::new(1));
    let (mut paid, burst, retry) = (0u64, 20 * MS, 500 * US);
    loop {
        let next = movers.iter_mut().min_by_key(|mover| mover.next_ns).unwrap();
        let now = next.next_ns;
        if now >= seconds * 1000 * MS {
            return;
        }
        let opens = paid.saturating_sub(burst);
        // A thread has a CPU when it has one.
        let wakes = rng.below(50 * US);
        if opens > now {
            let again = opens.max(now + retry);
            next.next_ns = wakes + turns.wait(&next.path, next.piece, now, again);
        } else if !turns.may(&next.path, next.piece, now, paid > now + EARLY_NS) {
            next.next_ns = wakes + turns.wait(&next.path, next.piece, now, now + retry);
        } else {
            turns.moved(&next.path, next.piece, now);
            paid = paid.max(now) + (next.piece as f64 * turns.byte_ns) as u64;
            next.got += next.piece as u64;
            next.longest_ns = next.longest_ns.max(now - next.asked_ns);
            next.next_ns = now + next.takes_ns;
            next.asked_ns = next.next_ns;
            std::mem::swap(&mut next.piece, &mut next.other);
        }
    }
}

fn of_all(movers: &[Mover], of: impl Fn(&Mover) -> bool) -> f64 {
    let sum = |of: &dyn Fn(&Mover) -> bool| -> u64 {
        movers.iter().filter(|mover| of(mover)).map(|mover| mover.got).sum()
    };
    sum(&of) as f64 / sum(&|_| true) as f64
}

#[test]
fn a_client_with_many_streams_has_its_networks_half_also_where_the_other_is_slow_to_ask_again() {
    for rate in [RATE, 3 * RATE, 10 * RATE] {
        for streams in [1, 16, 128] {
            for takes_ns in [20 * US, 2 * MS] {
                let many = (0..streams).map(|n| mover("11.1.0.1", 1, n, 16 << 10, 20 * US));
                let mut movers: Vec<_> = many.collect();
                movers.push(mover("12.9.0.1", 2, 0, 16 << 10, takes_ns));
                share(&mut movers, rate, 4);
                let part = of_all(&movers, |mover| mover.path[2] == 2);
                let what = format!("{part} beside {streams} streams, {takes_ns} ns, {rate}");
                assert!((0.45..=0.55).contains(&part), "{what}");
                let all: u64 = movers.iter().map(|mover| mover.got).sum();
                assert!(all > rate / 8 * 4 * 95 / 100, "the rate is used: {all}");
            }
        }
    }
}

#[test]
fn large_datagrams_neither_go_first_nor_starve() {
    for (rate, streams) in [(RATE, 1), (RATE, 128), (10 * RATE, 128)] {
        let many = (0..streams).map(|n| mover("11.1.0.1", 1, n, 65_507, 20 * US));
        let mut movers: Vec<_> = many.collect();
        movers.push(mover("12.9.0.1", 2, 0, 1_460, MS));
        share(&mut movers, rate, 8);
        let got = movers.last().map_or(0, |mover| mover.got);
        // Half, or all that it asks for: a datagram a millisecond.
        let most = (rate / 8 * 8 / 2).min(1_460 * 8 * 1000) as f64;
        let of_that = got as f64 / most;
        assert!((0.9..=1.1).contains(&of_that), "{of_that} beside {streams} streams at {rate}");
        let all: u64 = movers.iter().map(|mover| mover.got).sum();
        assert!(all > rate / 8 * 8 * 95 / 100, "the rate is used: {all}");
    }
    let eight = (0..8u64)
        .flat_map(|n| (0..16).map(move |s| mover(&format!("11.{n}.0.1"), n, s, 65_000, 20 * US)));
    let mut movers: Vec<_> = eight.collect();
    share(&mut movers, RATE, 20);
    for n in 0..8 {
        let part = of_all(&movers, |mover| mover.path[2] == n);
        assert!((0.10..=0.15).contains(&part), "{part} of one of eight");
    }
    // Each stream of a test has its part of that.
    let streams = || movers.iter().filter(|mover| mover.path[2] == 3).map(|mover| mover.got);
    assert!(streams().max() <= streams().min().map(|least| least + 2 * 65_000));
}

#[test]
fn a_small_call_waits_for_what_is_being_sent_and_not_for_the_others_turns() {
    let many = (0..128).map(|n| mover("11.1.0.1", 1, n, 65_507, 20 * US));
    let mut movers: Vec<_> = many.collect();
    movers.extend((0..16).map(|n| mover("12.9.0.1", 2, n, 16 << 10, 20 * US)));
    // One who calls ten times a second, and one who does so fifty times.
    movers.push(mover("12.55.0.1", 3, 0, 64, 100 * MS));
    movers.push(mover("13.55.0.1", 4, 0, 64, 20 * MS));
    share(&mut movers, RATE, 8);
    for caller in &movers[144..] {
        // A datagram takes 52 ms, and two pieces of 13 ms may be ahead.
        assert!(caller.longest_ns < 80 * MS, "{} ns", caller.longest_ns);
        assert!(caller.got > 64 * 50, "{} bytes", caller.got);
    }
}

#[test]
fn who_waits_for_nothing_is_owed_little_and_who_comes_again_nothing() {
    let mut turns = Turns::new(RATE);
    let (one, other) = (path(ip("11.1.0.1"), 1, 0), path(ip("12.1.0.1"), 2, 0));
    turns.moved(&one, 1000, 0);
    turns.moved(&other, 1000, 0);
    // It is there all the time, and moves next to nothing.
    for ms in 0..1000 {
        turns.moved(&one, 2_500, ms * MS);
        if ms % 10 == 0 {
            turns.moved(&other, 1, ms * MS);
        }
    }
    let stands = |turns: &Turns, path: &Path| turns.all.parts[&path[0]].bytes;
    let behind = stands(&turns, &one) - stands(&turns, &other);
    assert!(behind <= turns.owed + 25_000, "{behind} bytes");
    turns.moved(&one, 2_500, 5000 * MS);
    assert!(turns.may(&other, 100, 5000 * MS, true));
    assert_eq!(stands(&turns, &one), stands(&turns, &other), "and nothing after a while");
}

#[test]
fn who_is_gone_is_forgotten() {
    let mut turns = Turns::new(RATE);
    for n in 0..100_000u32 {
        let ip = IpAddr::from((0x0b00_0000 + (n << 8)).to_be_bytes());
        turns.moved(&path(ip, n.into(), 0), 1, u64::from(n) * 10 * MS);
    }
    assert!(turns.all.parts.len() <= KEPT + 1, "{}", turns.all.parts.len());
}

#[test]
fn a_large_piece_beside_a_small_one_of_its_client_stops_nobody() {
    // A test of each of two networks, and a question for 64 KiB beside one of them.
    let mut movers = [
        mover("11.1.0.1", 1, 0, 12_500, 20 * US),
        mover("12.9.0.1", 2, 0, 12_500, 20 * US),
        mover("12.9.0.1", 3, 0, 64 << 10, 20 * US),
    ];
    share(&mut movers, RATE, 8);
    let parts = [1, 2, 3].map(|test| of_all(&movers, |mover| mover.path[2] == test));
    assert!((0.45..=0.55).contains(&parts[0]), "{parts:?}");
    assert!(parts[1..].iter().all(|part| (0.2..=0.3).contains(part)), "{parts:?}");
    assert!(movers.iter().map(|mover| mover.got).sum::<u64>() > RATE / 8 * 8 * 95 / 100);
}

#[test]
fn who_asks_for_little_and_then_for_much_stops_nobody() {
    let mut movers = [
        mover("11.1.0.1", 1, 0, 12_500, 20 * US),
        mover("12.9.0.1", 2, 0, 64, 20 * US),
        mover("12.9.0.1", 3, 0, 1_460, 20 * US),
    ];
    movers[1].other = 64 << 10;
    share(&mut movers, RATE, 8);
    let part = of_all(&movers, |mover| mover.path[2] == 1);
    assert!((0.45..=0.55).contains(&part), "{part}");
    assert!(movers[1].got > RATE / 8 * 8 / 5, "{}", movers[1].got);
}

/// Any of these.
fn any(rng: &mut Rng, of: &[u64]) -> u64 {
    of[rng.below(of.len() as u64) as usize]
}

#[test]
fn whatever_wants_to_move_all_of_the_rate_is_used_and_each_network_has_its_part_of_it() {
    let mut rng = Rng::new(7);
    for round in 0..20 {
        let networks = 2 + rng.below(4);
        let mut movers = Vec::new();
        for network in 0..networks {
            let ip = |client| format!("{}.1.0.{client}", 11 + network);
            for test in 0..1 + rng.below(5) {
                let client = rng.below(2);
                for stream in 0..1 + rng.below(4) {
                    let sizes = [64, 1_460, 12_500, 16 << 10, 64 << 10, 65_507];
                    let takes = any(&mut rng, &[20 * US, 20 * US, MS, 8 * MS, 30 * MS, 70 * MS]);
                    let piece = any(&mut rng, &sizes) as usize;
                    let mut one = mover(&ip(client), 10 * network + test, stream, piece, takes);
                    one.other = any(&mut rng, &sizes) as usize;
                    movers.push(one);
                }
            }
            // One of each network wants all that it can get.
            let piece = any(&mut rng, &[12_500, 16 << 10, 65_507]) as usize;
            movers.push(mover(&ip(0), 10 * network + 9, 0, piece, 20 * US));
        }
        let seconds = 20;
        share(&mut movers, RATE, seconds);
        let all: u64 = movers.iter().map(|mover| mover.got).sum();
        assert!(all > RATE / 8 * seconds * 95 / 100, "round {round}: {all} bytes");
        for network in 0..networks {
            let part = of_all(&movers, |mover| mover.path[2] / 10 == u128::from(network));
            let fair = 1.0 / networks as f64;
            assert!(part > 0.9 * fair, "round {round}: {part} of {networks} networks");
        }
        // Nobody waits for ever: some times what the largest piece takes at its part of the rate.
        for mover in &movers {
            let beside = |level: usize| {
                let siblings =
                    movers.iter().filter(|other| other.path[..level] == mover.path[..level]);
                siblings.map(|other| other.path[level]).collect::<BTreeSet<_>>().len() as u64
            };
            let among: u64 = (0..4).map(beside).product();
            let most = 8 * among * 65_536 * 800;
            let waited = mover.longest_ns.max((seconds * 1000 * MS).saturating_sub(mover.asked_ns));
            let what = format!("one of {among} waits {waited} ns");
            assert!(waited < most, "round {round}: {what}");
        }
    }
}

#[test]
fn newcomers_with_little_pieces_do_not_keep_a_large_one_waiting() {
    // Networks of which always one waits. Each takes what it gets at once, is away for long enough to be new, and comes again.
    let mut turns = Turns::new(RATE);
    let large = path(ip("200.1.0.1"), 1, 0);
    let newcomer = |n: u64| path(IpAddr::from([11 + (n % 100) as u8, 1, 0, 1]), 2 + n, 0);
    for n in 0..200 {
        let now = n * 10 * MS;
        turns.wait(&newcomer(n), 12_500, now, now);
        if turns.may(&large, 64 << 10, now, false) {
            return;
        }
        turns.wait(&large, 64 << 10, now, now);
        if turns.may(&newcomer(n), 12_500, now, false) {
            turns.moved(&newcomer(n), 12_500, now);
        }
        turns.wait(&newcomer(n + 1), 12_500, now, now);
    }
    panic!("it waits for ever");
}

#[test]
fn small_calls_in_a_row_leave_the_rest_of_the_rate_to_others() {
    for takes_ns in [20 * US, 500 * US, 2 * MS, 5 * MS, 9 * MS, 15 * MS] {
        for calls in [64, 1_000] {
            let mut movers = [
                mover("11.1.0.1", 1, 0, 12_500, 20 * US),
                mover("12.9.0.1", 2, 0, calls, takes_ns),
            ];
            share(&mut movers, RATE, 8);
            let all: u64 = movers.iter().map(|mover| mover.got).sum();
            let what = format!("{:?} calls of {calls}, {takes_ns} ns", movers[1].got);
            assert!(all > RATE / 8 * 8 * 98 / 100, "{what} leave {all}");
        }
    }
}
