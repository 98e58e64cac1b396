//! Calls over loopback, against the kernel of this machine: the stall, its cures, and a server that keeps its limits.

use quell_cause::Cause;
use quell_cause::calls::Endpoint;
use quell_model::task::{QuickAck, RrPattern};
use quell_rr::{CallShape, CallSink, Limits, RrError, RrPlan, RrServer, SizeResult, run};
use quell_sys::socket::preface::PrefaceError;
use quell_sys::wait::Bell;
use quell_units::Span;
use quell_wire::auth::Secret;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const STALLING: CallShape = CallShape {
    pattern: RrPattern::WriteWriteRead,
    size: 64,
    nodelay: false,
    one_write: false,
    quickack: None,
};

/// Tells a story beside a server, and ends it.
fn with_server<T>(bind: &str, limits: Limits, story: impl FnOnce(SocketAddr) -> T) -> T {
    let server = RrServer::prepare(bind.parse().expect("an address"), limits).expect("a free port");
    serving(server, story)
}

fn serving<T>(server: RrServer, story: impl FnOnce(SocketAddr) -> T) -> T {
    let to = server.local().expect("it listens");
    let stop = Bell::new().expect("a bell");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| server.run(&stop));
        // Also when the story fails: else the scope would wait for the server for ever.
        struct Ring<'a>(&'a Bell);
        impl Drop for Ring<'_> {
            fn drop(&mut self) {
                self.0.ring();
            }
        }
        let ring = Ring(&stop);
        let told = story(to);
        drop(ring);
        thread.join().expect("no panic").expect("it ends well");
        told
    })
}

struct Nobody;

impl CallSink for Nobody {
    fn made(&mut self, _: u64, _: u32) {}
}

/// What calls of one size showed, or why there is nothing.
fn sweep(
    to: SocketAddr,
    secret: Option<&Secret>,
    shape: CallShape,
    calls: u32,
) -> Result<SizeResult, RrError> {
    let plan = RrPlan {
        to,
        secret: secret.cloned(),
        shape,
        sizes: vec![shape.size],
        calls,
        patience: Span::from_secs(120),
        fix: None,
    };
    let sweep = run(&plan, &Bell::new().expect("a bell"), &mut Nobody).before;
    match sweep.failed {
        Some(error) => Err(error),
        None => Ok(sweep.rows.into_iter().next().expect("a row")),
    }
}

fn calls(to: SocketAddr, shape: CallShape, n: u32) -> SizeResult {
    sweep(to, None, shape, n).expect("the server answers")
}

/// Tries on a machine that holds a caller up, which stalls where nothing else does, or lets an acknowledgement pass meanwhile.
const TRIES: usize = 20;

/// Calls again until a row is as it must be on a machine that has time for it.
#[track_caller]
fn calls_until(to: SocketAddr, shape: CallShape, n: u32, is_so: impl Fn(&SizeResult) -> bool) {
    let mut others = Vec::new();
    while others.len() < TRIES {
        let row = calls(to, shape, n);
        assert_eq!((row.calls, row.lost), (u64::from(n), 0), "{shape:?}");
        if is_so(&row) {
            return;
        }
        others.push(row);
    }
    panic!("{shape:?}: {others:?}");
}

#[test]
fn two_small_writes_stall_and_three_changes_cure_it_but_quickack_once_does_not() {
    with_server("127.0.0.1:0", Limits::default(), |to| {
        let is_stalling = |row: &SizeResult| {
            row.stalls >= 5
                && row.cause == Some(Cause::DelayedAck)
                && row.end == Some(Endpoint::Here)
                && row.counted.is_some_and(|seen| seen.delayed_acks >= row.stalls)
                && row.latency_ms.is_some_and(|latency| latency.p50 > 30.0)
        };
        for shape in [STALLING, CallShape { quickack: Some(QuickAck::Once), ..STALLING }] {
            calls_until(to, shape, 6, is_stalling);
        }
        let is_cured = |row: &SizeResult| {
            row.latency_ms.is_some_and(|latency| latency.p50 < 20.0)
                && row.cause != Some(Cause::DelayedAck)
        };
        for shape in [
            CallShape { nodelay: true, ..STALLING },
            CallShape { one_write: true, ..STALLING },
            CallShape { quickack: Some(QuickAck::Rearmed), ..STALLING },
        ] {
            calls_until(to, shape, 20, is_cured);
        }
    });
}

#[test]
fn every_pattern_works_over_both_families_with_large_and_small_sizes() {
    for bind in ["127.0.0.1:0", "[::1]:0"] {
        with_server(bind, Limits::default(), |to| {
            for pattern in [RrPattern::RequestResponse, RrPattern::Connect] {
                for size in [1, 1448, 300_000] {
                    let row = calls(to, CallShape { pattern, size, ..STALLING }, 5);
                    assert_eq!((row.calls, row.lost), (5, 0), "{bind} {pattern:?} {size}: {row:?}");
                }
            }
        });
    }
}

#[test]
fn a_reply_with_more_than_was_asked_for_is_no_reply() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let to = server.local_addr().expect("it listens");
    std::thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            // A hello, and a request of 64 bytes.
            stream.read_exact(&mut [0; 32 + 64]).expect("a whole request");
            stream.write_all(&[0; 65]).expect("it is read");
            let _ = stream.read(&mut [0]);
        }
    });
    let row = calls(to, CallShape { pattern: RrPattern::Connect, ..STALLING }, 4);
    assert!(row.lost > 0 && row.lost == row.calls, "{row:?}");
    assert_eq!(row.lost_why.as_deref(), Some("its reply had more than 64 bytes"));
}

#[test]
fn nobody_there_and_a_size_of_nothing_are_told() {
    // A port that was free a moment ago may be another test's by now; port 1 is nobody's.
    let to = "127.0.0.1:1".parse().expect("an address");
    let error = sweep(to, None, STALLING, 1).expect_err("nobody listens");
    assert!(matches!(error, RrError::System(_)), "{error}");
    let error = sweep(to, None, CallShape { size: 0, ..STALLING }, 1).expect_err("no such size");
    assert!(matches!(error, RrError::Parameter(_)), "{error}");
}

/// What is left to read until the server ends the connection.
fn rest(mut stream: TcpStream) -> usize {
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes.len(),
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => bytes.len(),
        Err(e) => panic!("the server did not end the connection: {e}"),
    }
}

#[test]
fn garbage_half_a_hello_and_silence_are_ended_and_others_are_served_on() {
    let soon = Span::from_millis(500);
    let limits = Limits { idle: soon, handshake: soon, ..Limits::default() };
    with_server("127.0.0.1:0", limits, |to| {
        let connect = || TcpStream::connect(to).expect("it listens");
        let mut garbage = connect();
        garbage.write_all(&[0x55; 100]).expect("sent");
        let mut half = connect();
        half.write_all(b"QUELLRR1\0\0").expect("sent");
        let silent = connect();
        // A caller that has no CPU for half a second is silent, too.
        let shape = CallShape { nodelay: true, ..STALLING };
        let is_served = || {
            let row = sweep(to, None, shape, 5);
            row.is_ok_and(|row| (row.calls, row.lost) == (5, 0))
        };
        let are_served = || assert!((0..TRIES).any(|_| is_served()), "others are served");
        are_served();
        for stream in [garbage, half, silent] {
            assert_eq!(rest(stream), 0, "not a byte to whom asked for nothing");
        }
        are_served();
    });
}

#[test]
fn a_connection_and_a_request_beyond_the_limits_are_refused() {
    let limits = Limits { connections: 1, request: 1000, ..Limits::default() };
    with_server("127.0.0.1:0", limits, |to| {
        let large = sweep(to, None, CallShape { size: 501, ..STALLING }, 1);
        assert!(matches!(large, Err(RrError::NotServing { .. })), "{large:?}");
    });
    let limits = Limits { connections: 1, ..limits };
    with_server("127.0.0.1:0", limits, |to| {
        let first = TcpStream::connect(to).expect("it listens");
        let second = TcpStream::connect(to).expect("it listens");
        assert_eq!(rest(second), 0, "the server is full");
        drop(first);
    });
}

#[test]
fn a_server_with_a_secret_answers_who_knows_it_and_nobody_else() {
    let secret = |text: &[u8]| Some(Secret::parse(text).expect("long enough"));
    let server = RrServer::prepare("127.0.0.1:0".parse().expect("an address"), Limits::default());
    let server = server.expect("a free port").with_secret(secret(b"correct horse battery"));
    serving(server, |to| {
        let call = |secret: Option<Secret>| sweep(to, secret.as_ref(), STALLING, 3);
        let row = call(secret(b"correct horse battery")).expect("it is the right one");
        assert_eq!((row.calls, row.lost), (3, 0));
        let wrong = call(secret(b"correct horse stapler"));
        assert!(matches!(wrong, Err(RrError::Preface(PrefaceError::Refused))), "{wrong:?}");
        let none = call(None);
        assert!(matches!(none, Err(RrError::NotServing { .. })), "{none:?}");
        let row = call(secret(b"correct horse battery")).expect("it serves on");
        assert_eq!((row.calls, row.lost), (3, 0));
    });
    with_server("127.0.0.1:0", Limits::default(), |to| {
        let asked = secret(b"correct horse battery");
        let error = sweep(to, asked.as_ref(), STALLING, 3);
        assert!(matches!(error, Err(RrError::Preface(PrefaceError::Refused))), "{error:?}");
    });
}

/// A client that asks for a large reply and never reads it.
#[test]
fn a_connection_is_over_when_its_time_is_whoever_keeps_it_waiting() {
    let time = Span::from_millis(500);
    let limits = Limits { time, idle: Span::from_secs(60), ..Limits::default() };
    let size: u32 = 2 << 20;
    let hello =
        quell_rr::protocol::Hello { request: size, reply: size, nodelay: false, quickack: None };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut client =
        TcpStream::connect(listener.local_addr().expect("it listens")).expect("a connection");
    let (served, _) =
        quell_sys::socket::stream::accept(&listener).expect("it works").expect("it waits");
    let begun = std::time::Instant::now();
    let answered = std::thread::scope(|scope| {
        let stop = Bell::new().expect("a bell");
        let server = scope.spawn(move || {
            let mut exchange =
                quell_sys::socket::exchange::Exchange::new(&served, None, &stop).expect("a bell");
            quell_rr::server::answer(&served, &mut exchange, &[], &limits, &mut |_| Ok(()))
        });
        client.write_all(&hello.write()).expect("room");
        // It may be sent away before it has written all.
        let _ = client.write_all(&vec![0; size as usize]);
        let _ = client.write_all(&vec![0; size as usize]);
        let answered = server.join().expect("no panic");
        drop(client);
        answered
    });
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let said = answered.expect_err("its time was up").to_string();
    assert!(said.contains("time was up") || said.contains("idle"), "{said}");
}
