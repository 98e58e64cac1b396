//! Streams over TLS that others could feel: they stand still, they send what nobody asked for, they are there when their connection ends.

use crate::PATIENT;
use crate::client::{NEVER, Test, at_last, byte, from, good, reset, served};
use crate::secure::{Secure, TAKES_NOTHING, folder, head, requests, secure};
use crate::server::Served;
use crate::web::{frame, http2};
use quell_tls::trust::Trust;
use rustls::ClientConfig;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn tls() -> Arc<ClientConfig> {
    quell_tls::trust::client(&Trust::Anyone).expect("nobody needs to be believed")
}

/// A connection over TLS on which this was said.
fn says(tls: &Arc<ClientConfig>, from: Ipv4Addr, to: SocketAddr, said: &[u8]) -> Option<Secure> {
    let mut stream = secure(tls, from, to)?;
    stream.write_all(&http2(said)).and_then(|()| stream.flush()).ok()?;
    Some(stream)
}

/// A window that nothing fills.
fn wide() -> Vec<u8> {
    [frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]), frame(8, 0, 0, &[0x7f, 0xff, 0, 0])].concat()
}

/// How long another network waits until it is served, and none where that is longer than this.
fn waits(at: SocketAddr, number: &mut u64, most: Duration) -> Option<Duration> {
    let begun = Instant::now();
    while begun.elapsed() < most {
        *number += 1;
        if served(at, *number).is_some() {
            return Some(begun.elapsed());
        }
    }
    None
}

/// What is said of one whose folder is this.
type Says<'s> = &'s dyn Fn(&str) -> Vec<u8>;

#[test]
fn flows_over_tls_that_stand_still_keep_nobody_waiting_longer_than_a_step() {
    let tls = tls();
    let downloads = |folder: &str| requests(8, true, &head(false, &format!("{folder}/large")));
    let states: [(&str, Says<'_>); 3] = [
        ("uploads", &|folder| requests(1, false, &head(true, &format!("{folder}/upload")))),
        ("downloads that nobody reads", &|folder| [wide(), downloads(folder)].concat()),
        ("downloads without a window", &|folder| {
            [frame(4, 0, 0, &TAKES_NOTHING), downloads(folder)].concat()
        }),
    ];
    for (state, said) in states {
        // Where a busy machine has no CPU for anybody within a step, steps are longer. What keeps its place keeps it for two minutes.
        let steps = [1, 1, 3, 10].map(Duration::from_secs);
        let all = steps.into_iter().map(|step| longest(&tls, state, said, step));
        let late: Vec<_> = all.take_while(|of_a_step| *of_a_step >= 5.0).collect();
        assert!(late.len() < steps.len(), "{state}: another waits for steps: {late:?}");
    }
}

/// For how many steps another waits at most while flows of 40 clients stand still.
fn longest(tls: &Arc<ClientConfig>, state: &str, said: Says<'_>, step: Duration) -> f64 {
    let served = Served::new(&format!("web handshake_ms={}", step.as_millis()));
    let (mut number, mut all, mut longest) = (1, Vec::new(), 0.0);
    // As often again as it takes for some to have given way.
    for round in 0..3 {
        let held = (0..40).filter_map(|n| {
            let from = from(150 + n, round);
            says(tls, from, served.at, &said(&folder(from, served.at)?))
        });
        let held: Vec<_> = held.collect();
        let waited = waits(served.at, &mut number, 10 * step);
        println!("{state}, round {round}: {} held, waited {waited:?}", held.len());
        let steps = waited.unwrap_or(10 * step).as_secs_f64() / step.as_secs_f64();
        longest = f64::max(longest, steps);
        all.push(held);
    }
    longest
}

/// Reads frames up to one of this kind.
pub fn hears(stream: &mut Secure, kind: u8) {
    let mut head = [0; 9];
    while head[3] != kind {
        stream.read_exact(&mut head).expect("a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).expect("all of it");
    }
}

/// Sends data for stream 1 until the other end has enough: how many bytes, and how long that took.
fn pours(stream: &mut Secure) -> (u64, Duration) {
    const MOST: u64 = 64 << 20;
    let (begun, data) = (Instant::now(), frame(0, 0, 1, &[7; 16_000]));
    stream.sock.set_write_timeout(Some(NEVER)).expect("a limit");
    let mut sent = 0;
    while sent < MOST && stream.write_all(&data).and_then(|()| stream.flush()).is_ok() {
        sent += data.len() as u64;
    }
    (sent, begun.elapsed())
}

#[test]
fn data_for_a_stream_that_is_over_is_paid_for_and_soon_ends_the_connection() {
    let tls = tls();
    let server = Served::new(&format!("web secret rate=1000000 {PATIENT}"));
    let asks = requests(1, false, &head(true, "/nothing"));
    let mut stream = says(&tls, from(140, 1), server.at, &asks).expect("it shakes hands");
    // It was refused, and is reset (RST_STREAM).
    hears(&mut stream, 3);
    let (sent, lasted) = pours(&mut stream);
    println!("{sent} bytes in {lasted:?}");
    // What the two kernels hold is not read.
    assert!(sent < 24 << 20, "{sent} bytes were read");
    assert!(lasted > Duration::from_secs(1), "256 kB at 1 Mbit/s take longer than {lasted:?}");
    assert!(server.log.will_hold("that no stream takes"));
    served(server.at, 1);
}

#[test]
fn a_connection_that_ends_with_streams_under_way_ends_in_order() {
    let tls = tls();
    let server = Served::new(&format!("web {PATIENT}"));
    let folder = folder(from(142, 1), server.at).expect("a key");
    let small = head(true, &format!("{folder}/small"));
    let large = head(false, &format!("{folder}/large"));
    let upload = head(true, &format!("{folder}/upload"));
    let nothing = frame(4, 0, 0, &TAKES_NOTHING);
    for said in [
        requests(9, false, &small),
        [&nothing[..], &requests(9, false, &small)].concat(),
        [&nothing[..], &requests(9, true, &large)].concat(),
        requests(9, true, &large),
        requests(9, false, &upload),
    ] {
        for abrupt in [false, true] {
            let stream = says(&tls, from(142, 1), server.at, &said).expect("it shakes hands");
            // It was heard, and answered as far as that can be.
            good(server.at);
            if abrupt {
                reset(&stream.sock);
            }
        }
    }
    assert_eq!(server.panics(), Vec::<String>::new());
}

#[test]
fn a_hello_that_comes_again_while_the_first_still_waits_takes_no_other_streams_place() {
    const ASKED: &str =
        r#"{"udp":true,"time":30,"parallel":2,"reverse":true,"len":100,"bandwidth":1000}"#;
    let server = Served::new(PATIENT);
    for n in 0..10 {
        let client = from(150 + n, 1);
        let agreed = |number| Test::new(client, server.at, number).agreed(ASKED);
        let mut test = at_last("a place", agreed);
        let streams = [0; 2].map(|_| {
            let socket = UdpSocket::bind((client, 0)).expect("a port");
            socket.connect(server.at).expect("an address");
            socket.set_read_timeout(Some(NEVER)).expect("a limit");
            socket
        });
        // As a client does whose first was not answered, the server having had no CPU.
        for _ in 0..8 {
            streams[0].send(b"9876").expect("sent");
        }
        streams[1].send(b"9876").expect("sent");
        for socket in &streams {
            assert_eq!(socket.recv(&mut [0; 100]).expect("each has its place"), 4);
        }
        assert_eq!([byte(&mut test.control), byte(&mut test.control)], [Some(1), Some(2)]);
    }
}
