//! Browsers, good and bad: heads that never end, half requests, endless uploads, resets in each state, a hundred phones, pages of others.

use crate::client::{connect, from, half_close, in_time, reset};
use crate::server::Served;
use crate::{Siege, is_soon};
use quell_tls::trust::Trust;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Instant;

/// A request of the page.
pub fn request(method: &str, path: &str, more: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Quell: 1\r\n{more}\r\n").into_bytes()
}

/// The next bytes up to this word.
pub fn up_to(stream: &mut TcpStream, word: &str) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(word.as_bytes()) && text.len() < 20_000 {
        match stream.read(&mut byte) {
            Ok(1) => text.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The status of the answer to this; 0 where there is none.
fn status(from: Ipv4Addr, to: SocketAddr, bytes: &[u8]) -> u16 {
    let answered = in_time(|| {
        let mut stream = connect(from, to);
        let _ = stream.write_all(bytes);
        let head = up_to(&mut stream, "\r\n");
        head.split(' ').nth(1).and_then(|code| code.parse().ok())
    });
    answered.unwrap_or(0)
}

/// Whether a connection has ended, of which what comes is taken: a read that took too long is no end.
fn has_ended(stream: &mut TcpStream, bytes: &mut [u8]) -> bool {
    match stream.read(bytes) {
        Ok(got) => got == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// A page's test that has its turn, and its number; none where it waits.
fn test(from: Ipv4Addr, to: SocketAddr) -> (TcpStream, Option<String>) {
    let mut control = connect(from, to);
    control.write_all(&request("GET", "/web/test", "")).expect("sent");
    let _ = up_to(&mut control, "\r\n\r\n");
    let _ = up_to(&mut control, "\r\n");
    let line = up_to(&mut control, "\r\n");
    let number = line.split("\"test\":\"").nth(1).and_then(|rest| rest.split('"').next());
    (control, number.map(str::to_owned))
}

/// A browser in a state.
type State = (&'static str, fn(Ipv4Addr, SocketAddr) -> Vec<TcpStream>);

fn says(from: Ipv4Addr, to: SocketAddr, bytes: &[u8]) -> Vec<TcpStream> {
    let mut stream = connect(from, to);
    stream.write_all(bytes).expect("sent");
    vec![stream]
}

fn running(
    from: Ipv4Addr,
    to: SocketAddr,
    method: &str,
    more: &str,
    data: &[u8],
) -> Vec<TcpStream> {
    let (control, number) = test(from, to);
    let Some(number) = number else { return vec![control] };
    let mut carrier = connect(from, to);
    let path = format!("/web/{}?t={number}", if method == "GET" { "down" } else { "up" });
    carrier.write_all(&request(method, &path, more)).expect("sent");
    let _ = carrier.write_all(data);
    vec![control, carrier]
}

/// The same over TLS.
fn says_secretly(from: Ipv4Addr, to: SocketAddr, bytes: &[u8]) -> Vec<TcpStream> {
    let config = quell_tls::trust::client(&Trust::Anyone).expect("nobody needs to be believed");
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let tls = ClientConnection::new(config, name).expect("it begins");
    let mut stream = StreamOwned::new(tls, connect(from, to));
    // The server may have ended it before all of it was there.
    let _ = stream.write_all(bytes).and_then(|()| stream.flush());
    vec![stream.sock]
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// What begins a connection of HTTP/2, and what follows.
pub fn http2(more: &[u8]) -> Vec<u8> {
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, b""), more].concat()
}

/// GET / of this host: its head, as HPACK has it without tables (RFC 7541).
pub const HEAD: &[u8] = b"\x82\x87\x84\x01\x09127.0.0.1";

const STATES: [State; 16] = [
    ("half a line", |from, to| says(from, to, b"GET /web/p")),
    ("half a head", |from, to| says(from, to, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")),
    ("half a body", |from, to| {
        says(
            from,
            to,
            &[&request("POST", "/web/results", "Content-Length: 900\r\n")[..], b"{"].concat(),
        )
    }),
    ("between two requests", |from, to| {
        let mut streams = says(from, to, &request("GET", "/web/ping", ""));
        let _ = up_to(&mut streams[0], "\r\n\r\n.");
        streams
    }),
    ("a hundred at once", |from, to| says(from, to, &request("GET", "/", "").repeat(100))),
    ("a test, or waiting for one", |from, to| vec![test(from, to).0]),
    ("downloading", |from, to| running(from, to, "GET", "", b"")),
    ("uploading", |from, to| {
        running(from, to, "POST", "Content-Length: 99999999999\r\n", &[7; 50_000])
    }),
    ("half way to chunks", |from, to| {
        running(from, to, "POST", "Transfer-Encoding: chunked\r\n", b"5\r\nab")
    }),
    ("half a handshake", |from, to| {
        says(from, to, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    }),
    ("TLS and nothing in it", |from, to| says_secretly(from, to, b"")),
    ("HTTP/2 and no request", |from, to| says_secretly(from, to, &http2(b""))),
    ("settings without end", |from, to| {
        says_secretly(from, to, &http2(&frame(4, 0, 0, b"").repeat(5000)))
    }),
    ("a head without end", |from, to| {
        let more = frame(9, 0, 1, &[0x40; 4000]).repeat(50);
        says_secretly(from, to, &http2(&[frame(1, 0, 1, HEAD), more].concat()))
    }),
    ("requests that are called off", |from, to| {
        let both = |n| [frame(1, 5, n, HEAD), frame(3, 0, n, &[0, 0, 0, 8])].concat();
        let all: Vec<u8> = (0..2000).flat_map(|n| both(2 * n + 1)).collect();
        says_secretly(from, to, &http2(&all))
    }),
    ("a body that nobody asked for", |from, to| {
        let data = frame(0, 0, 1, &[7; 16_000]).repeat(100);
        says_secretly(from, to, &http2(&[frame(1, 4, 1, HEAD), data].concat()))
    }),
];

type Manner = (&'static str, fn(Vec<TcpStream>) -> Vec<TcpStream>);

const MANNERS: [Manner; 5] = [
    ("reset", |streams| {
        streams.iter().for_each(reset);
        vec![]
    }),
    ("half-close", |streams| {
        streams.iter().for_each(half_close);
        streams
    }),
    ("silence", |streams| streams),
    ("close", |_| vec![]),
    ("garbage", |mut streams| {
        let garbage: Vec<u8> =
            (0..9000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        // The server may have ended it at the first byte.
        streams.iter_mut().for_each(|stream| drop(stream.write_all(&garbage)));
        streams
    }),
];

#[test]
fn in_each_state_whatever_a_browser_does_others_are_served_and_memory_is_bounded() {
    let mut siege = Siege::of("web");
    for (place, (state, bring)) in STATES.iter().enumerate() {
        for (manner, act) in MANNERS {
            let held: Vec<_> = (0..4)
                .flat_map(|client| act(bring(from(20 + place as u8, client), siege.at())))
                .collect();
            siege.serves(&format!("a browser, {state}, {manner}"));
            drop(held);
        }
    }
    siege.is_small();
}

#[test]
fn heads_that_grow_by_a_byte_a_time_end_and_keep_nobody_out() {
    let mut siege = Siege::of("web handshake_ms=1000");
    let mut held: Vec<_> = (0..300u32)
        .map(|n| {
            let mut stream = connect(from(40, (n % 8) as u8), siege.at());
            // Its time may be over by then.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n");
            stream
        })
        .collect();
    for _ in 0..4 {
        held.iter_mut().for_each(|stream| drop(stream.write_all(b"X")));
        siege.serves("heads that grow by a byte a time");
    }
    // Each word took it further, and still its time is over.
    for stream in &mut held {
        assert!(is_soon(|| has_ended(stream, &mut [0; 100])));
    }
    siege.is_small();
}

#[test]
fn what_is_too_long_or_says_two_things_is_refused_in_words() {
    let siege = Siege::of("web");
    let ask = |bytes: &[u8]| status(from(41, 1), siege.at(), bytes);
    let head =
        |lines: &str| format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n").into_bytes();
    assert_eq!(ask(&head("")), 200);
    assert_eq!(ask(&head(&format!("X: {}\r\n", "x".repeat(20_000)))), 431);
    assert_eq!(ask(&head("Content-Length: 1\r\nContent-Length: 2\r\n")), 400);
    assert_eq!(ask(&head("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n")), 400);
    assert_eq!(ask(b"GET / HTTP/1.1\r\n\x01\x02: \r\n\r\n"), 400);
    assert_eq!(ask(&request("POST", "/web/results", "Content-Length: 100000\r\n")), 413);
    assert_eq!(
        ask(&[&request("POST", "/web/results", "Content-Length: 2\r\n")[..], b"[]"].concat()),
        400
    );
    assert_eq!(ask(&request("POST", "/web/up?t=none", "Content-Length: 2\r\n")), 410);
    assert_eq!(ask(&request("GET", "/nq/forged-key/large", "")), 403);
    assert_eq!(
        ask(b"OPTIONS /web/test HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        405,
        "no foreign page may"
    );
}

#[test]
fn another_page_can_not_make_a_browser_use_this_server() {
    let siege = Siege::of("web");
    let ask = |path: &str, lines: &str| {
        let text = format!("GET {path} HTTP/1.1\r\n{lines}\r\n");
        status(from(42, 1), siege.at(), text.as_bytes())
    };
    // A picture or a script of a foreign page: it can't send a header of its own.
    assert_eq!(ask("/web/test", "Host: 127.0.0.1\r\n"), 403);
    assert_eq!(
        ask("/web/test", "Host: 127.0.0.1\r\nX-Quell: 1\r\nOrigin: http://evil.example.com\r\n"),
        403
    );
    assert_eq!(
        ask("/web/test", "Host: 127.0.0.1\r\nX-Quell: 1\r\nSec-Fetch-Site: cross-site\r\n"),
        403
    );
    // A foreign name that leads to this address.
    assert_eq!(ask("/", "Host: evil.example.com\r\n"), 421);
    assert_eq!(
        ask("/.well-known/nq", "Host: evil.example.com\r\nOrigin: http://evil.example.com\r\n"),
        421
    );
}

#[test]
fn a_hundred_phones_at_once_are_told_how_many_are_before_them_and_others_are_served() {
    let mut siege = Siege::of("web");
    let begun = Instant::now();
    let mut phones: Vec<_> = (0..100u8).map(|n| test(from(50 + n % 10, n), siege.at())).collect();
    let with_turn = phones.iter().filter(|(_, number)| number.is_some()).count();
    // Who measures and moves nothing while others wait has its turn for five seconds.
    let turns = 1 + begun.elapsed().as_secs() as usize / 5;
    let few = (4..=4 * turns).contains(&with_turn);
    assert!(few, "few at a time, so that each has the line, not {with_turn} in {turns} turns");
    siege.serves("a hundred phones");
    let first = phones.iter().position(|(_, number)| number.is_some()).expect("some have turns");
    drop(phones.remove(first));
    // It left in the middle of its test: the next has its turn within a look.
    let next = phones.iter_mut().find(|(_, number)| number.is_none()).expect("one waits");
    let mut all = String::new();
    let turned = is_soon(|| {
        all += &up_to(&mut next.0, "\r\n");
        all.contains("\"test\"")
    });
    assert!(turned, "{all}");
    siege.is_small();
}

#[test]
fn a_phone_that_leaves_in_the_middle_ends_all_that_it_had() {
    let siege = Siege::of("web");
    let mut streams = running(from(60, 1), siege.at(), "GET", "", b"");
    let mut carrier = streams.pop().expect("it carries data");
    let mut piece = vec![0; 100_000];
    carrier.read_exact(&mut piece).expect("data flows");
    drop(streams);
    // What was on its way comes; then there is an end, of whatever kind.
    assert!(is_soon(|| has_ended(&mut carrier, &mut piece)));
    assert!(siege.attacked.log.will_hold("sent,"));
}

#[test]
fn where_there_is_a_secret_a_browser_gets_the_page_and_nothing_else() {
    let served = Served::new("web secret");
    let ask = |path: &str| status(from(61, 1), served.at, &request("GET", path, ""));
    assert_eq!(ask("/"), 200);
    assert_eq!(ask("/web/hello"), 200);
    for path in ["/web/test", "/web/ping", "/web/fresh", "/web/results", "/.well-known/nq"] {
        assert_eq!(ask(path), 401, "{path}");
    }
    let guess = br#"{"nonce":"0.0000000000000000.00000000000000000000000000000000","proof":"00"}"#;
    let enter = request("POST", "/web/enter", &format!("Content-Length: {}\r\n", guess.len()));
    assert_eq!(status(from(61, 1), served.at, &[&enter[..], guess].concat()), 401);
}

#[test]
fn without_a_page_a_browser_is_turned_away() {
    let served = Served::new("");
    assert_eq!(status(from(62, 1), served.at, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), 0);
}
