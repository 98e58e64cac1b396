//! What is scarce, held by those who do nothing with it: places, streams, rates, descriptors.
//!
//! Each attack holds all that there is of one thing, in the cheapest way that there is. A good client is served beside it in its usual time.

use crate::client::{NEVER, Test, at_last, byte, called, connect, from, good};
use crate::server::Served;
use crate::{DOWN, PATIENT, Siege, UP, taken};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const ALL_STREAMS: &str =
    r#"{"tcp":true,"time":600,"parallel":128,"bidirectional":true,"len":131072}"#;

/// A good client calls, and has its reply, at last.
#[track_caller]
fn is_called(at: SocketAddr) {
    at_last("a call is answered", |_| called(from(200, 2), at));
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
    // A machine that stands still for seconds does so in five tries but one.
    let tries: Vec<_> = (0..5).map(|_| nine()).take_while(|took| !is_shared(took)).collect();
    assert!(tries.len() < 5, "one of nine, and one of two networks: {tries:?}");
}

/// What each of nine tests gets: eight of one network that take all they can get, and one of another.
fn nine() -> Vec<u64> {
    const RATE: u64 = 20_000_000;
    let served = Served::new(&format!("rate={RATE}"));
    let at = served.at;
    let tests = (0..9).map(|n| {
        let address = if n == 8 { from(2, 1) } else { from(1, n) };
        Test::under_way(address, at, DOWN, 1)
    });
    let tests: Vec<_> = tests.collect();
    let (since, lasts) = (Instant::now(), Duration::from_secs(2));
    std::thread::scope(|scope| {
        let all = tests.into_iter().map(|test| {
            scope.spawn(move || {
                // All of it, with its control connection.
                let mut test = test;
                taken(&mut test.streams[0], since, lasts).last().map_or(0, |(_, bytes)| *bytes)
            })
        });
        let all: Vec<_> = all.collect();
        all.into_iter().map(|one| one.join().expect("no panic")).collect()
    })
}

/// Half is the other network's, but for what the busy machine has its readers miss, and each has some.
fn is_shared(took: &[u64]) -> bool {
    let all: u64 = took.iter().sum();
    took[8] > all / 4 && took.iter().all(|one| *one > all / 64)
}

#[test]
fn half_agreed_tests_keep_no_streams_from_others() {
    let mut siege = Siege::new();
    let mut held = Vec::new();
    for network in 0..4 {
        let at = siege.at();
        held.push(at_last("there are streams enough", |number| {
            Test::new(from(network, 1), at, number).agreed(ALL_STREAMS)
        }));
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
    let steps = ["handshake_ms=1000", "handshake_ms=5000", "handshake_ms=20000"];
    let begun = steps.into_iter().find_map(|limits| {
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
        assert!(begun.elapsed() < 2 * NEVER, "all streams are held for ever");
    }
    drop(held);
}

/// Six bytes of results, and then nothing: they have a step's time, and one more since words came; their places, a step's alone.
#[test]
fn who_stands_still_in_its_results_gives_its_place_to_a_newcomer() {
    // A busy machine takes its time to begin all of them, while those that came first wait already.
    for step in [4, 20, 60].map(Duration::from_secs) {
        let siege = Siege::of(&format!("handshake_ms={}", step.as_millis()));
        let begun = Instant::now();
        let held = (0..32u8).map(|n| {
            let (address, at) = (from(1 + n % 2, n / 8), siege.at());
            let mut test = at_last("there are places enough", |number| {
                Test::new(address, at, number).ended(UP)
            });
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
            // One that had no CPU for a step's time is given up.
            let at = siege.at();
            held.extend((0..3).find_map(|_| called(from(1 + n % 2, n / 2 % 4), at)));
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
        held.push(Test::under_way(from(1 + n % 2, n / 8), siege.at(), UP, 1));
    }
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
    let mut test = Test::under_way(from(1, 1), served.at, MANY, 16);
    // One is read, and fifteen are not: what they could have had lies somewhere.
    taken(&mut test.streams[0], Instant::now(), Duration::from_secs(3));
    let since = Instant::now();
    let there: u64 = test.streams.iter().map(waiting).sum();
    for stream in &test.streams {
        stream.set_nonblocking(true).expect("an option");
    }
    let (mut got, mut bytes) = (0, vec![0; 1 << 20]);
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
    let served = Served::new(&format!("one_off {PATIENT}"));
    let mut stranger = connect(from(1, 1), served.at);
    let hello = [&b"QUELLRR1"[..], &[0, 0, 0, 64, 0, 0, 0, 64], &[0; 16]].concat();
    stranger.write_all(&hello).expect("sent");
    crate::half_close(&stranger);
    assert_eq!(byte(&mut stranger), None, "its connection is over");
    assert!(good(served.at) > Duration::ZERO, "and the server is there");
    served.ended();
}

#[test]
fn a_server_of_one_test_waits_for_the_next_size_of_its_callers() {
    // The next is waited for for a second: a machine that has no CPU for it does so in five tries but one.
    let waits = |_| {
        let served = Served::new("one_off");
        (0..3).all(|_| called(from(1, 1), served.at).map(drop).is_some()).then_some(served)
    };
    at_last("each size has its connection", waits).ended();
}

#[test]
fn a_server_of_one_test_lets_the_others_end_that_are_under_way_and_takes_no_more() {
    // Who does nothing for the time of a step is not waited for.
    let served = Served::new(&format!("one_off {PATIENT}"));
    let mut first = Test::under_way(from(1, 1), served.at, DOWN, 1);
    let mut calls = called(from(2, 1), served.at).expect("a call is answered");
    good(served.at);
    let since = Instant::now();
    // Its client knows a little earlier that it is over.
    while called(from(3, 1), served.at).is_some() {
        assert!(since.elapsed() < NEVER, "it takes new ones");
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
        assert!(since.elapsed() < NEVER, "it goes on for ever");
    }
    assert_eq!(byte(&mut other), None, "whoever rests is not waited for");
    served.ended();
}

#[test]
fn a_call_that_is_never_finished_ends_with_the_time_of_its_connection() {
    let served = Served::new("time_ms=500");
    // A busy machine may take all of its time for the first call, or longer for the end.
    at_last("half a call is not waited for longer than 5 s", |_| {
        let mut stream = called(from(1, 1), served.at)?;
        stream.write_all(&[1; 32]).ok()?;
        let begun = Instant::now();
        assert_eq!(byte(&mut stream), None);
        (begun.elapsed() < Duration::from_secs(5)).then_some(())
    });
}

#[test]
fn a_client_that_never_stops_talking_where_its_test_is_over_is_left() {
    let served = Served::new("");
    let talks = || {
        let mut test =
            at_last("a place", |number| Test::new(from(1, 1), served.at, number).ended(DOWN));
        // Results of two bytes, and then what no test has.
        test.control.write_all(&[0, 0, 0, 2, b'{', b'}']).expect("sent");
        let since = Instant::now();
        loop {
            match test.control.write_all(&[b'['; 65536]) {
                Err(_) => break since.elapsed(),
                Ok(()) => assert!(since.elapsed() < NEVER, "it listens for ever"),
            }
        }
    };
    // A step, and half a second for its last words; a machine that stands still for as long again does so in five tries but one.
    let most = Duration::from_secs(10);
    let tries: Vec<_> = (0..5).map(|_| talks()).take_while(|left| *left >= most).collect();
    assert!(tries.len() < 5, "{tries:?}");
}
