//! What is scarce, held by those who do nothing with it: places, streams, rates, descriptors.
//!
//! Each attack holds all that there is of one thing, in the cheapest way that there is. A good client is served beside it in its usual time.

use crate::client::{Test, byte, called, connect, from};
use crate::server::Served;
use crate::{DOWN, MOST_WAIT, Siege, UP, taken};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const ALL_STREAMS: &str =
    r#"{"tcp":true,"time":30,"parallel":128,"bidirectional":true,"len":131072}"#;

/// A good client calls, and has its reply.
#[track_caller]
fn is_called(at: SocketAddr) {
    assert!(called(from(200, 2), at).is_some(), "a call is answered");
}

#[test]
fn nobody_takes_the_rate_from_others_with_a_test_that_is_half_agreed() {
    let mut siege = Siege::of("rate=40000000");
    let mut held = Vec::new();
    for network in 0..4 {
        let number = siege.next();
        held.extend(Test::new(from(network, 1), siege.at(), number).agreed(DOWN));
        siege.serves("half-agreed tests of any rate");
        is_called(siege.at());
    }
}

#[test]
fn nobody_takes_the_rate_from_others_with_a_test_that_runs() {
    const RATE: u64 = 20_000_000;
    let served = Served::new(&format!("rate={RATE}"));
    let lasts = Duration::from_secs(2);
    let since = Instant::now();
    let took = std::thread::scope(|scope| {
        // Eight tests of one network that take all they can get, and one of another.
        let all = (0..9u8).map(|n| {
            let at = served.at;
            let address = if n == 8 { from(2, 1) } else { from(1, n) };
            scope.spawn(move || {
                let test = Test::new(address, at, n.into()).running(DOWN, 1);
                let mut test = test.expect("each is let in");
                taken(&mut test.streams[0], since, lasts).last().map_or(0, |(_, bytes)| *bytes)
            })
        });
        let all: Vec<_> = all.collect();
        all.into_iter().map(|one| one.join().expect("no panic")).collect::<Vec<_>>()
    });
    let all: u64 = took.iter().sum();
    // Half, but for what the busy machine has its readers miss.
    assert!(took[8] > all / 4, "one of nine, and one of two networks: {took:?}");
    assert!(took.iter().all(|one| *one > all / 64), "each has some: {took:?}");
}

#[test]
fn half_agreed_tests_keep_no_streams_from_others() {
    let mut siege = Siege::new();
    let mut held = Vec::new();
    for network in 0..4 {
        let number = siege.next();
        let test = Test::new(from(network, 1), siege.at(), number).agreed(ALL_STREAMS);
        held.push(test.expect("there are streams enough"));
    }
    siege.serves("all streams in half-agreed tests");
    // Renewed, and of one network.
    for n in 0..8 {
        let number = siege.next();
        held.extend(Test::new(from(5, n), siege.at(), number).agreed(ALL_STREAMS));
        siege.serves("all streams in half-agreed tests, renewed");
    }
}

#[test]
fn tests_whose_streams_stand_still_give_them_to_a_newcomer() {
    // Of several networks; nobody reads, so that every window closes. Where a busy machine can't begin them within the time that the server gives for that, it
    // gives more.
    let begun = ["handshake_ms=1000", "handshake_ms=5000"].into_iter().find_map(|limits| {
        let siege = Siege::of(limits);
        let held = (0..4u8).map(|network| {
            let test = Test::new(from(network, 1), siege.at(), network.into());
            test.running(ALL_STREAMS, 256)
        });
        let held: Option<Vec<_>> = held.collect();
        Some((siege, held?))
    });
    let (siege, held) = begun.expect("there are streams enough");
    let begun = Instant::now();
    for number in 100.. {
        if Test::new(from(200, 1), siege.at(), number).running(UP, 1).is_some() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(40), "all streams are held for ever");
    }
    drop(held);
}

/// Six bytes of results, and then nothing: they have a step's time, and one more since words came; their places, a step's alone.
#[test]
fn who_stands_still_in_its_results_gives_its_place_to_a_newcomer() {
    // A busy machine takes its time to begin all of them, while those that came first wait already.
    for step in [Duration::from_secs(4), Duration::from_secs(20)] {
        let siege = Siege::of(&format!("handshake_ms={}", step.as_millis()));
        let begun = Instant::now();
        let held = (0..32u8).map(|n| {
            let test = Test::new(from(1 + n % 2, n / 8), siege.at(), n.into());
            let mut test = test.ended(UP).expect("there are places enough");
            test.control.write_all(&[0, 0, 0, 99, b'{', b' ']).expect("sent");
            test
        });
        let held: Vec<_> = held.collect();
        let is_quick = begun.elapsed() < step / 4;
        let number = (100..)
            .find(|number| Test::new(from(200, 1), siege.at(), *number).running(UP, 1).is_some());
        let waited = begun.elapsed();
        drop(held);
        // Two steps is when they are late.
        if waited < step * 15 / 8 {
            return;
        }
        assert!(!is_quick, "{number:?}: {waited:?}");
    }
    panic!("nobody is served before those who stand still are late");
}

#[test]
fn idle_connections_of_calls_keep_nobody_out() {
    for limits in ["", "rate=40000000"] {
        let mut siege = Siege::of(limits);
        // As many as there are places, and more, of two networks; each has made a call.
        let mut held = Vec::new();
        for n in 0..48u8 {
            held.extend(called(from(1 + n % 2, n / 2 % 4), siege.at()));
        }
        assert!(held.len() >= 32, "they took all places: {}", held.len());
        siege.serves("idle connections of calls");
        is_called(siege.at());
        for n in 0..20u8 {
            held.extend(called(from(1 + n % 2, n / 2 % 4), siege.at()));
            siege.serves("idle connections of calls, renewed");
        }
    }
}

#[test]
fn tests_that_run_and_move_nothing_keep_nobody_out() {
    let mut siege = Siege::new();
    let mut held = Vec::new();
    for n in 0..32u8 {
        let number = siege.next();
        held.extend(Test::new(from(1 + n % 2, n / 8), siege.at(), number).running(UP, 1));
    }
    assert_eq!(held.len(), 32, "they took all places");
    siege.serves("silent tests in all places");
    is_called(siege.at());
}

#[test]
fn one_network_has_half_of_the_places_whatever_it_does() {
    let mut siege = Siege::new();
    let mut held = Vec::new();
    for n in 0..40 {
        let number = siege.next();
        let Some(mut test) = Test::new(from(1, n), siege.at(), number).running(UP, 1) else {
            continue;
        };
        test.streams[0].write_all(&[1; 1000]).expect("sent");
        held.push(test);
    }
    siege.serves("tests of 40 addresses of one network");
    is_called(siege.at());
}

/// Bytes that wait to be read.
fn waiting(stream: &std::net::TcpStream) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int.
    let result = unsafe { libc::ioctl(stream.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    assert_eq!(result, 0);
    u64::try_from(bytes).expect("an amount")
}

#[test]
fn a_client_that_stops_reading_and_begins_again_gets_no_more_than_the_rate() {
    const RATE: u64 = 20_000_000;
    const MANY: &str = r#"{"tcp":true,"time":30,"parallel":16,"reverse":true,"len":131072}"#;
    let served = Served::new(&format!("rate={RATE}"));
    let mut test = Test::new(from(1, 1), served.at, 1).running(MANY, 16).expect("a place");
    // One is read, and fifteen are not: what they could have had lies somewhere.
    taken(&mut test.streams[0], Instant::now(), Duration::from_secs(3));
    let there: u64 = test.streams.iter().map(waiting).sum();
    for stream in &test.streams {
        stream.set_nonblocking(true).expect("an option");
    }
    let (since, mut got) = (Instant::now(), 0);
    let mut bytes = vec![0; 1 << 20];
    while since.elapsed() < Duration::from_millis(100) {
        for stream in &mut test.streams {
            while let Ok(more @ 1..) = std::io::Read::read(stream, &mut bytes) {
                got += more as u64;
            }
        }
    }
    let lasted = since.elapsed().as_secs_f64();
    // The rate, 20 ms of it, as much again that waited in sockets, and a piece for each reader's turn.
    let most = RATE as f64 / 8.0 * (lasted + 0.04) + f64::from(64 << 10);
    let more = got.saturating_sub(there);
    assert!((more as f64) < most, "{more} bytes in {lasted:.3} s, not {most:.0}");
}

#[test]
fn a_stranger_who_says_hello_does_not_end_a_server_of_one_test() {
    let served = Served::new("one_off");
    let mut stranger = connect(from(1, 1), served.at);
    let hello = [&b"QUELLRR1"[..], &[0, 0, 0, 64, 0, 0, 0, 64], &[0; 16]].concat();
    stranger.write_all(&hello).expect("sent");
    crate::half_close(&stranger);
    assert_eq!(byte(&mut stranger), None, "its connection is over");
    assert!(crate::good(served.at, 1) > Duration::ZERO, "and the server is there");
    served.ended();
}

#[test]
fn a_server_of_one_test_waits_for_the_next_size_of_its_callers() {
    let served = Served::new("one_off");
    for _ in 0..3 {
        drop(called(from(1, 1), served.at).expect("each size has its connection"));
    }
    served.ended();
}

#[test]
fn a_server_of_one_test_lets_the_others_end_that_are_under_way_and_takes_no_more() {
    let served = Served::new("one_off");
    let mut first = Test::new(from(1, 1), served.at, 1).running(DOWN, 1).expect("a place");
    let mut calls = called(from(2, 1), served.at).expect("a call is answered");
    crate::good(served.at, 2);
    let since = Instant::now();
    // Its client knows a little earlier that it is over.
    while called(from(3, 1), served.at).is_some() {
        assert!(since.elapsed() < Duration::from_secs(10), "it takes new ones");
    }
    let data = (0..100).map(|_| byte(&mut first.streams[0]));
    assert!(data.into_iter().all(|byte| byte.is_some()), "its data flows still");
    calls.write_all(&[1; 64]).expect("sent");
    calls.read_exact(&mut [0; 64]).expect("whoever calls goes on too");
    drop((first, calls));
    served.ended();
}

#[test]
fn a_server_of_one_test_ends_behind_its_first_caller_whoever_else_calls() {
    let served = Served::new("one_off");
    let mut other = called(from(2, 1), served.at).expect("it is there before, and only rests");
    let mut first = called(from(1, 1), served.at).expect("a call is answered");
    // Over before the next one's are: on a busy machine the server may hear of that one's end first.
    crate::half_close(&first);
    assert_eq!(byte(&mut first), None, "its calls are over");
    let since = Instant::now();
    // It comes again and again.
    while called(from(3, 1), served.at).is_some() {
        assert!(since.elapsed() < Duration::from_secs(10), "it goes on for ever");
    }
    assert_eq!(byte(&mut other), None, "whoever rests is not waited for");
    served.ended();
}

#[test]
fn a_call_that_is_never_finished_ends_with_the_time_of_its_connection() {
    let served = Served::new("time_ms=500");
    let mut stream = called(from(1, 1), served.at).expect("a call is answered");
    stream.write_all(&[1; 32]).expect("half a request");
    let begun = Instant::now();
    assert_eq!(byte(&mut stream), None);
    assert!(begun.elapsed() < Duration::from_secs(5) + MOST_WAIT, "{:?}", begun.elapsed());
}

#[test]
fn a_client_that_never_stops_talking_where_its_test_is_over_is_left() {
    let served = Served::new("");
    let mut test = Test::new(from(1, 1), served.at, 1).ended(DOWN).expect("a place");
    // Results of two bytes, and then what no test has.
    test.control.write_all(&[0, 0, 0, 2, b'{', b'}']).expect("sent");
    let since = Instant::now();
    let left = loop {
        match test.control.write_all(&[b'['; 65536]) {
            Err(_) => break since.elapsed(),
            Ok(()) => assert!(since.elapsed() < Duration::from_secs(30), "it listens for ever"),
        }
    };
    // A step, and half a second for its last words.
    assert!(left < Duration::from_secs(10), "{left:?}");
}
