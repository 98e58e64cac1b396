//! Each state in which a client can be, and what it may do then.

use crate::client::{Test, calls, connect, cookie, frame, half_close, reset};
use quell_tls::trust::Trust;
use quell_wire::ends::{self, Ask, HELLO, MOST};
use quell_wire::iperf3::HelloToken;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};

pub const UP: &str = r#"{"tcp":true,"time":30,"parallel":1,"len":1000}"#;
pub const DOWN: &str = r#"{"tcp":true,"time":30,"parallel":1,"reverse":true,"len":131072}"#;
const BOTH: &str = r#"{"tcp":true,"time":30,"parallel":1,"bidirectional":true,"len":131072}"#;
const PAGES: &str = r#"{"tcp":true,"time":30,"parallel":1,"reverse":true,"len":1048576,
    "quell":{"version":1,"look_ms":10,"zero_copy":true}}"#;
pub const UDP_UP: &str = r#"{"udp":true,"time":30,"parallel":1,"len":1000,"bandwidth":1000000}"#;
const UDP_DOWN: &str =
    r#"{"udp":true,"time":30,"parallel":1,"reverse":true,"len":1000,"bandwidth":1000000}"#;

/// Brings a client from an address into a state; none where the server would not have it.
pub type State = (&'static str, fn(Ipv4Addr, SocketAddr, u64) -> Option<Test>);

pub const TESTS: [State; 14] = [
    ("connected", |from, to, n| Some(Test::new(from, to, n))),
    ("half a cookie", |from, to, n| Some(Test::says(from, to, &cookie(n)[..20]))),
    ("half the parameters", |from, to, n| {
        let mut test = Test::new(from, to, n).introduced()?;
        test.control.write_all(&frame(UP)[..9]).ok()?;
        Some(test)
    }),
    ("streams awaited", |from, to, n| Test::new(from, to, n).agreed(UP)),
    ("UDP streams awaited", |from, to, n| Test::new(from, to, n).agreed(UDP_UP)),
    ("running up", |from, to, n| Test::new(from, to, n).running(UP, 1)),
    ("running down", |from, to, n| Test::new(from, to, n).running(DOWN, 1)),
    ("running both ways", |from, to, n| Test::new(from, to, n).running(BOTH, 2)),
    ("running without copies", |from, to, n| Test::new(from, to, n).running(PAGES, 1)),
    ("running UDP up", |from, to, n| Test::new(from, to, n).running(UDP_UP, 1)),
    ("running UDP down", |from, to, n| Test::new(from, to, n).running(UDP_DOWN, 1)),
    ("results awaited", |from, to, n| Test::new(from, to, n).ended(DOWN)),
    ("calls", |from, to, _| {
        // A whole call of 4 KiB, and half of the next request.
        let mut test = Test::says(from, to, &[&calls(4096)[..], &[1; 4096]].concat());
        test.control.read_exact(&mut [0; 4096]).ok()?;
        test.control.write_all(&[1; 2048]).ok()?;
        Some(test)
    }),
    ("proof of a secret", |from, to, _| Some(Test::says(from, to, b"QUELAUT1 and so on"))),
];

/// Said hello, and asked this.
fn asks(from: Ipv4Addr, to: SocketAddr, ask: &Ask) -> Test {
    Test::says(from, to, &[&HELLO[..], &ends::framed(ask)].concat())
}

pub const ASKERS: [State; 5] = [
    ("half a question", |from, to, _| {
        let question = ends::framed(&Ask::View);
        Some(Test::says(from, to, &[HELLO, &question[..question.len() / 2]].concat()))
    }),
    ("flows that never come", |from, to, _| {
        Some(asks(from, to, &Ask::Flows { token: HelloToken::new([8; 16]), count: 1 }))
    }),
    ("it speaks and nobody reads", |from, to, _| {
        let sizes = vec![MOST.datagram; MOST.datagrams];
        Some(asks(from, to, &Ask::Say { sizes, wait_ms: MOST.hearing_ms }))
    }),
    ("it gives and nobody reads", |from, to, _| {
        Some(asks(from, to, &Ask::Give { bytes: MOST.bytes }))
    }),
    ("it takes, and half of it came", |from, to, _| {
        let mut test = asks(from, to, &Ask::Take { bytes: MOST.bytes });
        test.control.write_all(&vec![7; MOST.bytes as usize / 2]).ok()?;
        Some(test)
    }),
];

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

/// A page's test, with a connection that carries data where it has its turn.
fn page(from: Ipv4Addr, to: SocketAddr, carrier: Option<(&str, &str, &[u8])>) -> Test {
    let mut test = Test::says(from, to, &request("GET", "/web/test", ""));
    let Some((method, more, data)) = carrier else { return test };
    let said = up_to(&mut test.control, "\"seconds\"");
    let number = said.split("\"test\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let Some(number) = number else { return test };
    let path = format!("/web/{}?t={number}", if method == "GET" { "down" } else { "up" });
    let said = [&request(method, &path, more)[..], data].concat();
    test.streams.push(Test::says(from, to, &said).control);
    test
}

pub type Secure = StreamOwned<ClientConnection, TcpStream>;

/// A connection over TLS; none where the server would not have it.
pub fn secure(from: Ipv4Addr, to: SocketAddr) -> Option<Secure> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        quell_tls::trust::client(&Trust::Anyone).expect("nobody needs to be believed")
    });
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let tls = ClientConnection::new(Arc::clone(config), name).expect("it begins");
    let mut stream = StreamOwned::new(tls, connect(from, to));
    stream.flush().ok()?;
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).ok()?;
    }
    Some(stream)
}

/// The same, with this said in HTTP/2.
pub fn secretly(from: Ipv4Addr, to: SocketAddr, said: &[u8]) -> Option<Secure> {
    let mut stream = secure(from, to)?;
    let all = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &http2(4, 0, 0, b"")[..], said].concat();
    // Nobody may read at the other end any more.
    stream.sock.set_write_timeout(Some(std::time::Duration::from_millis(200))).expect("a limit");
    let _ = stream.write_all(&all).and_then(|()| stream.flush());
    Some(stream)
}

fn over_tls(from: Ipv4Addr, to: SocketAddr, said: &[u8]) -> Option<Test> {
    Some(Test::of(secretly(from, to, said)?.sock))
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
pub fn http2(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A head of HTTP/2 for this path, as HPACK has it without tables (RFC 7541).
pub fn head(post: bool, path: &str) -> Vec<u8> {
    let line = |name: u8, value: &str| {
        let length = match value.len() {
            length @ ..127 => vec![length as u8],
            length => vec![127, (length - 127) as u8],
        };
        [&[name][..], &length, value.as_bytes()].concat()
    };
    [&[if post { 0x83 } else { 0x82 }, 0x87][..], &line(4, path), &line(1, "127.0.0.1")].concat()
}

/// The folder of the draft for this address, with its key; none where the server would not.
pub fn folder(from: Ipv4Addr, to: SocketAddr) -> Option<String> {
    let mut test = Test::says(from, to, &request("GET", "/.well-known/nq", ""));
    let text = up_to(&mut test.control, "/large");
    let path = text.rsplit_once("/nq/").and_then(|(_, rest)| rest.split_once('/'));
    path.map(|(key, _)| format!("/nq/{key}"))
}

pub const BROWSERS: [State; 13] = [
    ("half a head", |from, to, _| Some(Test::says(from, to, b"GET / HTTP/1.1\r\nHost: 127.0"))),
    ("half a body", |from, to, _| {
        let head = request("POST", "/web/results", "Content-Length: 900\r\n");
        Some(Test::says(from, to, &[&head[..], b"{"].concat()))
    }),
    ("between two requests", |from, to, _| {
        let mut test = Test::says(from, to, &request("GET", "/web/ping", ""));
        up_to(&mut test.control, "\r\n\r\n.");
        Some(test)
    }),
    ("a hundred at once", |from, to, _| {
        Some(Test::says(from, to, &request("GET", "/", "").repeat(100)))
    }),
    ("a test, or waiting for one", |from, to, _| Some(page(from, to, None))),
    ("downloading", |from, to, _| Some(page(from, to, Some(("GET", "", b""))))),
    ("uploading", |from, to, _| {
        let more = "Content-Length: 99999999999\r\n";
        Some(page(from, to, Some(("POST", more, &[7; 50_000]))))
    }),
    ("half a handshake", |from, to, _| {
        Some(Test::says(from, to, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"))
    }),
    ("HTTP/2 and no request", |from, to, _| over_tls(from, to, b"")),
    ("PINGs of which nobody reads the answers", |from, to, _| {
        over_tls(from, to, &http2(6, 0, 0, &[7; 8]).repeat(400_000))
    }),
    ("a head without end", |from, to, _| {
        let more = http2(9, 0, 1, &[0x40; 4000]).repeat(50);
        over_tls(from, to, &[http2(1, 0, 1, &head(false, "/")), more].concat())
    }),
    ("requests that are called off", |from, to, _| {
        let head = head(false, "/");
        let both = |n| [http2(1, 5, n, &head), http2(3, 0, n, &[0, 0, 0, 8])].concat();
        over_tls(from, to, &(0..2000).flat_map(|n| both(2 * n + 1)).collect::<Vec<_>>())
    }),
    ("a body that nobody asked for", |from, to, _| {
        let data = http2(0, 0, 1, &[7; 16_000]).repeat(100);
        over_tls(from, to, &[http2(1, 4, 1, &head(false, "/")), data].concat())
    }),
];

/// What a client does then; what it gives back stays open until the good client was served.
pub type Manner = (&'static str, fn(Test) -> Option<Test>);

pub const MANNERS: [Manner; 5] = [
    ("reset", |test| {
        test.connections().for_each(reset);
        None
    }),
    ("half-close", |test| {
        test.connections().for_each(half_close);
        Some(test)
    }),
    ("silence", Some),
    ("close", |_| None),
    ("garbage", |mut test| {
        let garbage: Vec<u8> =
            (0..5000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for stream in std::iter::once(&mut test.control).chain(&mut test.streams) {
            // The server may have ended it at the first byte.
            let _ = stream.write_all(&garbage);
        }
        test.sockets.iter().for_each(|socket| drop(socket.send(&garbage[..1400])));
        Some(test)
    }),
];
