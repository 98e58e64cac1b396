//! What a server holds in memory while as much is asked of it as may be, again and again, and when all are gone.

use crate::client::{NEVER, Test, reset};
use crate::secure::{self, many};
use crate::{MOST_MEMORY, PATIENT, Siege, byte};
use quell_tls::trust::Trust;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// 120 streams each, of the largest datagrams and blocks, looked at as often as can be.
const KINDS: [(&str, &str); 3] = [
    (
        "UDP up",
        r#"{"udp":true,"time":60,"parallel":120,"len":65507,"bandwidth":50000,
        "quell":{"version":1,"look_ms":1}}"#,
    ),
    (
        "TCP down",
        r#"{"tcp":true,"time":60,"parallel":120,"reverse":true,"len":1048576,"bandwidth":20000,
        "quell":{"version":1,"look_ms":1}}"#,
    ),
    (
        "UDP both ways",
        r#"{"udp":true,"time":60,"parallel":60,"bidirectional":true,"len":65507,"bandwidth":50000,
        "quell":{"version":1,"look_ms":1}}"#,
    ),
];

/// What a server may hold more than in the beginning when all have gone: pages that are in use in part, and its program, of which more was needed.
const LEFT: u64 = 12 << 20;

/// Has packets of as many sessions reflected as a server counts, each of an address of its own.
fn reflected(at: SocketAddr) {
    let mut packet = [0; 44];
    for (network, host) in (0..64).flat_map(|network| (0..=255).map(move |host| (network, host))) {
        let from = Ipv4Addr::new(127, 120, network, host);
        let socket = UdpSocket::bind((from, 0)).expect("all of 127/8 is ours");
        socket.connect(at).expect("an address");
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a limit");
        // A busy machine may not have read it yet.
        let is_reflected = (0..30).any(|_| {
            socket.send(&[0; 44]).expect("sent");
            socket.recv(&mut packet).is_ok()
        });
        assert!(is_reflected, "of {from}");
    }
}

/// Eight clients of eight networks, each with all the streams that it may have, of which each moved something.
fn eight(siege: &mut Siege, kind: &str, asked: &str) -> Vec<Test> {
    let numbers: Vec<u64> = (0..8).map(|_| siege.next()).collect();
    let at = siege.at();
    std::thread::scope(|scope| {
        let all = numbers.iter().zip(1..).map(|(number, n)| {
            let from = Ipv4Addr::new(127, 120 + n, 1, 1);
            // Places of those who went a moment ago may not be known to be free yet.
            let again = move |n: u64| Test::new(from, at, *number * 1000 + n).running(asked, 120);
            scope.spawn(move || (0..20).find_map(again))
        });
        let all: Vec<_> = all.collect();
        let tests = all.into_iter().map(|one| {
            let mut test = one.join().expect("no panic").unwrap_or_else(|| panic!("no {kind}"));
            for socket in &test.sockets {
                let _ = socket.send(&[1; 60_000]);
            }
            for stream in &mut test.streams {
                assert!(byte(stream).is_some(), "data flows");
            }
            test
        });
        tests.collect()
    })
}

#[test]
fn rounds_of_all_streams_that_may_be_do_not_add_up_and_leave_nothing_behind() {
    let mut siege = Siege::of(PATIENT);
    siege.serves("nothing");
    let before = siege.attacked.memory();
    reflected(siege.at());
    for round in 0..2 {
        for (kind, asked) in KINDS {
            let held = eight(&mut siege, kind, asked);
            siege.is_small();
            drop(held);
            siege.serves(&format!("{kind}, round {round}"));
        }
    }
    println!("{} kB at most", siege.attacked.most_memory() >> 10);
    siege.is_small();
    // The last to go gives back what all had.
    let gone = Instant::now();
    while siege.attacked.memory() > before + LEFT {
        let held = siege.attacked.memory();
        let waited = gone.elapsed();
        assert!(waited < NEVER, "{before} bytes before, {held} behind it");
        siege.serves("all that may be, when it is over");
    }
}

#[test]
fn clients_over_tls_beside_all_streams_that_may_be_take_no_more_than_both_alone() {
    let mut siege = Siege::of(secure::HANDSHAKES);
    let tls = quell_tls::trust::client(&Trust::Anyone).expect("nobody needs to be believed");
    reflected(siege.at());
    for (kind, asked) in KINDS {
        let held = eight(&mut siege, kind, asked);
        for (state, says) in secure::STATES {
            let secure = many(siege.at(), &tls, says);
            let now = siege.attacked.memory();
            println!("{kind}, {state}: {} there, {} kB", secure.len(), now >> 10);
            assert!(secure.len() >= secure::LEAST, "{kind}, {state}: {} got so far", secure.len());
            secure.iter().for_each(|stream| reset(&stream.sock));
        }
        drop(held);
    }
    let most = siege.attacked.most_memory();
    println!("{} kB at most", most >> 10);
    assert!(most < 2 * MOST_MEMORY, "it held {:.1} MB", most as f64 / 1e6);
    siege.serves("clients over TLS beside all streams that may be");
}
