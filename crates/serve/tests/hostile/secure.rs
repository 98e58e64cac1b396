//! Memory over TLS: in each state in which a client can be, many of them at once, of many networks; and when all have gone.
//!
//! ```text
//!   half a handshake ─ TLS and nothing in it ─ half a record ─ half a head ─ answers that nobody takes ─ bodies that nobody asked for
//!   downloads that nobody reads ─ uploads without end, of bytes, of little pieces
//! ```

use crate::client::{connect, from, reset};
use crate::web::{HEAD, frame, http2, request, up_to};
use crate::{Siege, is_soon};
use quell_tls::trust::Trust;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

/// Clients of a state: some times as many as may be there at once.
const CLIENTS: usize = 480;
/// Those of one address.
const OF_ONE: usize = 12;
/// Least that gets so far, of all that may be there at once: others come meanwhile, and some go for them.
pub const LEAST: usize = 120;
/// Where so many shake hands again and again, it is not the CPU time of that which is to be scarce.
pub const HANDSHAKES: &str = "web handshakes_cpu_ms=100000";
/// What a server may hold more than in the beginning when all have gone.
const LEFT: u64 = 12 << 20;

pub type Secure = StreamOwned<ClientConnection, TcpStream>;

/// A connection of HTTP/2 with these settings; none where the server would not have it.
pub fn secure(tls: &Arc<ClientConfig>, from: Ipv4Addr, to: SocketAddr) -> Option<Secure> {
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let tls = ClientConnection::new(Arc::clone(tls), name).expect("it begins");
    let mut stream = StreamOwned::new(tls, connect(from, to));
    stream.flush().ok()?;
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).ok()?;
    }
    Some(stream)
}

/// A number in as few bytes as HPACK has for it behind a prefix that is full (RFC 7541, section 5.1).
fn number(mut left: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while left >= 128 {
        bytes.push(left as u8 | 128);
        left /= 128;
    }
    bytes.push(left as u8);
    bytes
}

/// A line of a head whose name stands in the table, not to be kept (section 6.2.2).
fn line(name: u8, value: &str) -> Vec<u8> {
    let length = match value.len() {
        length @ ..127 => vec![length as u8],
        length => [vec![127], number(length - 127)].concat(),
    };
    [&[name][..], &length, value.as_bytes()].concat()
}

/// GET or POST of this path.
pub fn head(post: bool, path: &str) -> Vec<u8> {
    [&[if post { 0x83 } else { 0x82 }, 0x87][..], &line(4, path), &line(1, "127.0.0.1")].concat()
}

/// Requests of this head, and whether their bodies are over.
pub fn requests(many: u32, ends: bool, head: &[u8]) -> Vec<u8> {
    let flags = if ends { 5 } else { 4 };
    (0..many).flat_map(|n| frame(1, flags, 2 * n + 1, head)).collect()
}

/// The folder of this address, with its key; none where the server would not.
pub fn folder(from: Ipv4Addr, to: SocketAddr) -> Option<String> {
    let mut stream = connect(from, to);
    stream.write_all(&request("GET", "/.well-known/nq", "")).ok()?;
    let text = up_to(&mut stream, "/large");
    let path = text.rsplit_once("/nq/").and_then(|(_, rest)| rest.split_once('/'));
    path.map(|(key, _)| format!("/nq/{key}"))
}

/// What is said over TLS, of one whose folder is this.
pub type Says = fn(&str) -> Vec<u8>;

/// Windows of nothing: no answer may be sent (RFC 9113, section 6.5.2).
pub const TAKES_NOTHING: [u8; 6] = [0, 4, 0, 0, 0, 0];

pub const STATES: [(&str, Says); 8] = [
    ("TLS and nothing in it", |_| Vec::new()),
    ("half a record of data", |_| {
        let mut data = http2(&frame(0, 0, 1, &[7; 16_384]));
        data.pop();
        data
    }),
    ("a head of many lines without end", |_| {
        let lines: Vec<u8> = (0..400)
            .flat_map(|n| [&[0, 3][..], format!("{n:03}").as_bytes(), &[0]].concat())
            .collect();
        http2(&frame(1, 1, 1, &[HEAD, &lines].concat()))
    }),
    ("answers that nobody takes", |_| {
        let asks = requests(128, true, &head(false, "/.well-known/nq"));
        http2(&[frame(4, 0, 0, &TAKES_NOTHING), asks].concat())
    }),
    ("requests whose bodies never end", |folder| {
        http2(&requests(128, false, &head(true, &format!("{folder}/small"))))
    }),
    ("downloads that nobody reads", |folder| {
        http2(&requests(4, true, &head(false, &format!("{folder}/large"))))
    }),
    ("uploads that stop in a record", |folder| {
        // Within the window that all have before they know ours (RFC 9113, section 6.9.2).
        let data = frame(0, 0, 1, &[7; 16_000]).repeat(4);
        let mut said = requests(2, false, &head(true, &format!("{folder}/upload")));
        said.extend_from_slice(&data[..data.len() - 1]);
        http2(&said)
    }),
    ("uploads byte by byte", |folder| {
        let data = frame(0, 0, 1, &[7]).repeat(20_000);
        http2(&[requests(1, false, &head(true, &format!("{folder}/upload"))), data].concat())
    }),
];

/// Clients that say this, of many networks at once; those that the server has.
pub fn many(at: SocketAddr, tls: &Arc<ClientConfig>, says: Says) -> Vec<Secure> {
    std::thread::scope(|scope| {
        let all = (0..CLIENTS / OF_ONE).map(|n| {
            scope.spawn(move || {
                let from = from(150 + n as u8, n as u8);
                let folder = (0..5).find_map(|_| folder(from, at)).expect("a key");
                let said = says(&folder);
                let all = (0..OF_ONE).filter_map(|_| {
                    let mut stream = secure(tls, from, at)?;
                    // Nobody may read at the other end any more.
                    stream
                        .sock
                        .set_write_timeout(Some(std::time::Duration::from_millis(200)))
                        .expect("a limit");
                    let _ = stream.write_all(&said).and_then(|()| stream.flush());
                    Some(stream)
                });
                all.collect::<Vec<_>>()
            })
        });
        let all: Vec<_> = all.collect();
        all.into_iter().flat_map(|one| one.join().expect("no panic")).collect()
    })
}

#[test]
fn over_tls_too_memory_is_bounded_in_each_state_and_given_back() {
    let mut siege = Siege::of(HANDSHAKES);
    siege.serves("nothing");
    let before = siege.attacked.memory();
    // Half a handshake: as much of it as TLS would keep.
    let hello = [&b"\x16\x03\x01\x3f\xf0\x01\x00\xff\xf0\x03\x03"[..], &[0; 0x3ff0 - 6]].concat();
    let more = [&b"\x16\x03\x03\x3f\xf0"[..], &[0; 0x3ff0]].concat();
    let held: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let mut stream = connect(from(200 + (n % 40) as u8, 1), siege.at());
            let _ = stream.write_all(&hello).and_then(|()| stream.write_all(&more.repeat(2)));
            stream
        })
        .collect();
    siege.serves("half a handshake over TLS");
    siege.is_small();
    drop(held);
    let tls = quell_tls::trust::client(&Trust::Anyone).expect("nobody needs to be believed");
    for (state, says) in STATES {
        let held = many(siege.at(), &tls, says);
        println!("{state}: {} there, {} kB", held.len(), siege.attacked.memory() >> 10);
        assert!(held.len() >= LEAST, "{state}: {} got so far", held.len());
        // Where data of a test moved a moment ago all places are theirs.
        if !state.contains("loads") {
            siege.serves(&format!("over TLS, {state}"));
            let other = (0..20).find_map(|n| secure(&tls, from(149, n), siege.at()));
            assert!(other.is_some(), "{state}: nobody else may shake hands");
        }
        siege.is_small();
        held.iter().for_each(|stream| reset(&stream.sock));
        drop(held);
    }
    siege.serves("all that was said over TLS");
    siege.is_small();
    let given_back = is_soon(|| siege.attacked.memory() < before + LEFT);
    let after = siege.attacked.memory();
    assert!(given_back, "{before} bytes before, {after} behind it");
}
