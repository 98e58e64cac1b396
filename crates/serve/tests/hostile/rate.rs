//! The server's rate, whatever is moved beside each other: all of it is used, each network has its part, nobody waits for ever.
//!
//! ```text
//!   network 1:  a download                                           half of the rate, and more where the others want less
//!   network 2:  a download, and from time to time or all the time:   the rest
//!               questions for 64 KiB │ large datagrams │ uploads │ calls small and large │ pieces given and taken
//! ```

use crate::client::{Test, byte, connect, frame, from};
use crate::secure::{folder, head, secure};
use crate::server::Served;
use crate::streams::hears;
use crate::web::{self, http2, request, up_to};
use crate::{DOWN, PATIENT, is_soon, taken};
use quell_tls::trust::Trust;
use rustls::ClientConfig;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Small, so that a piece is long: 64 KiB take 50 ms.
const RATE: u64 = 10_000_000;
const LASTS: Duration = Duration::from_secs(3);

/// Moves what it can from an address until that time; false where it was let wait too long for its turn.
type Beside = fn(Ipv4Addr, SocketAddr, Instant) -> bool;

/// Asks as `quell doctor --peer` does, again and again; whether it was answered more than twice.
fn asks(word: &str, from: Ipv4Addr, to: SocketAddr, end: Instant) -> bool {
    let mut answered = 0;
    while Instant::now() < end {
        answered += u32::from(asks_once(word, from, to).is_ok());
    }
    answered > 2
}

/// The same, once. Errors where the server would not, or gave it up: it had no CPU for a step's time.
fn asks_once(word: &str, from: Ipv4Addr, to: SocketAddr) -> std::io::Result<()> {
    let mut stream = connect(from, to);
    stream.write_all(b"QUELL-E1")?;
    stream.write_all(&frame(&format!(r#"{{"{word}":{{"bytes":65536}}}}"#)))?;
    if word == "take" {
        let _ = stream.write_all(&[0; 65_536]);
    }
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut text = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut text)?;
    if word == "give" {
        stream.read_exact(&mut [0; 65_536])?;
    }
    Ok(())
}

/// Calls with requests and replies of this size.
fn calls(size: u32, from: Ipv4Addr, to: SocketAddr, end: Instant) -> bool {
    let mut stream = connect(from, to);
    stream.write_all(&crate::client::calls(size)).expect("sent");
    let mut bytes = vec![0; size as usize];
    while Instant::now() < end {
        let answered = stream.write_all(&bytes).and_then(|()| stream.read_exact(&mut bytes));
        answered.expect("a reply");
    }
    true
}

fn datagrams(asked: &str, from: Ipv4Addr, to: SocketAddr, end: Instant) -> bool {
    let mut test = Test::under_way(from, to, asked, 1);
    let socket = test.sockets.remove(0);
    let mut bytes = vec![0; 70_000];
    while Instant::now() < end {
        let _ = socket.recv(&mut bytes);
    }
    true
}

const BESIDE: [(&str, Beside); 7] = [
    ("pieces that are given", |from, to, end| asks("give", from, to, end)),
    ("pieces that are taken", |from, to, end| asks("take", from, to, end)),
    ("small calls", |from, to, end| calls(64, from, to, end)),
    ("large calls", |from, to, end| calls(64 << 10, from, to, end)),
    ("large datagrams", |from, to, end| {
        const ASKED: &str = r#"{"udp":true,"time":30,"parallel":1,"reverse":true,"len":65507,
            "bandwidth":10000000}"#;
        datagrams(ASKED, from, to, end)
    }),
    ("small datagrams", |from, to, end| {
        const ASKED: &str = r#"{"udp":true,"time":30,"parallel":1,"reverse":true,"len":100,
            "bandwidth":1000000}"#;
        datagrams(ASKED, from, to, end)
    }),
    ("uploads", |from, to, end| {
        const UP: &str = r#"{"tcp":true,"time":30,"parallel":1,"len":131072}"#;
        let mut test = Test::under_way(from, to, UP, 1);
        let limit = Some(Duration::from_millis(50));
        test.streams[0].set_write_timeout(limit).expect("a limit");
        while Instant::now() < end {
            let _ = test.streams[0].write(&[1; 16 << 10]);
        }
        true
    }),
];

/// What came of it when two networks shared the server.
#[derive(Debug)]
struct Shared {
    /// What the download of each got, in bytes.
    downloads: [u64; 2],
    /// Whether each that moved something beside the second had its turns.
    had_turns: Vec<bool>,
}

/// Two downloads of two networks, while that goes on beside the second.
fn shared(beside: &[(&str, Beside)]) -> Shared {
    let served = Served::new(&format!("rate={RATE}"));
    let at = served.at;
    std::thread::scope(|scope| {
        let downloads =
            [from(1, 1), from(2, 1)].map(|address| Test::under_way(address, at, DOWN, 1));
        let since = Instant::now();
        let beside = beside.iter().zip(0..).map(|((_, beside), n)| {
            // Of the address of the download, where one is enough.
            scope.spawn(move || beside(from(2, 1 + n % 2), at, since + LASTS))
        });
        let beside: Vec<_> = beside.collect();
        let readers = downloads.map(|test| {
            scope.spawn(move || {
                let mut test = test;
                let seen = taken(&mut test.streams[0], since, LASTS);
                seen.last().map_or(0, |(_, bytes)| *bytes)
            })
        });
        let downloads = readers.map(|reader| reader.join().expect("no panic"));
        let had_turns = beside.into_iter().map(|one| one.join().expect("it was served"));
        Shared { downloads, had_turns: had_turns.collect() }
    })
}

/// Half of the rate is the first network's, but for what a busy machine has its reader miss; the second's download has some, and what goes on
/// beside it its turns. A machine that stands still for seconds may do so in five tries but one.
#[track_caller]
fn is_fair(what: &str, beside: &[(&str, Beside)]) {
    let all = RATE / 8 * LASTS.as_secs();
    let fair = |got: &Shared| {
        let [first, second] = got.downloads;
        first > all * 3 / 8 && second > all / 64 && got.had_turns.iter().all(|had| *had)
    };
    let tries: Vec<_> = (0..5).map(|_| shared(beside)).take_while(|got| !fair(got)).collect();
    assert!(tries.len() < 5, "beside {what}: {tries:?} of {all}");
}

#[test]
fn whatever_one_network_moves_the_download_of_another_has_its_part() {
    for beside in BESIDE {
        is_fair(beside.0, &[beside]);
    }
    is_fair("all at once", &BESIDE);
}

#[test]
fn who_closes_while_it_waits_for_its_turn_waits_no_more() {
    // Sixteen seconds a piece.
    let served = Served::new("rate=8000");
    let held: Vec<_> = (0..16u8)
        .map(|n| {
            let mut stream = connect(from(n, 1), served.at);
            let ask = frame(r#"{"give":{"bytes":65536}}"#);
            stream.write_all(&[b"QUELL-E1", &ask[..]].concat()).expect("sent");
            stream.read_exact(&mut [0; 4]).expect("it is ready");
            stream
        })
        .collect();
    assert!(served.threads() > 16, "each waits for its pieces");
    // As programs close that have read all there was: what is sent to them later they answer with a reset.
    drop(held);
    // It has a few of its own.
    assert!(is_soon(|| served.threads() < 8), "{} threads are left", served.threads());
}

#[test]
fn many_streams_that_come_faster_than_they_may_are_told_as_what_the_limit_let_through() {
    // A server that has no CPU for its threads for seconds lets less through, and hears of some streams late; in five tries but one.
    let near = |told: &f64| (RATE as f64 / 2.0..RATE as f64 * 1.1).contains(told);
    let tries: Vec<_> = (0..5).map(|_| told()).take_while(|told| !near(told)).collect();
    assert!(tries.len() < 5, "told as {tries:?} bit/s");
}

/// As what rate the server tells what it took.
fn told() -> f64 {
    const STREAMS: usize = 128;
    let asked = r#"{"tcp":true,"time":3,"parallel":128,"len":131072}"#;
    let served = Served::new(&format!("rate={RATE}"));
    let mut test = Test::under_way(from(1, 1), served.at, asked, STREAMS);
    let end = Instant::now() + LASTS;
    for stream in &test.streams {
        stream.set_nonblocking(true).expect("an option");
    }
    let mut sent = 0;
    while Instant::now() < end {
        let before = sent;
        for stream in &mut test.streams {
            sent += stream.write(&[1; 64 << 10]).unwrap_or(0);
        }
        if sent == before {
            std::thread::yield_now();
        }
    }
    test.control.write_all(&[4]).expect("sent");
    assert_eq!(byte(&mut test.control), Some(13), "it wants results");
    test.control.write_all(&frame("{}")).expect("sent");
    let mut length = [0; 4];
    test.control.read_exact(&mut length).expect("a length");
    let mut results = vec![0; u32::from_be_bytes(length) as usize];
    test.control.read_exact(&mut results).expect("results");
    let results: serde_json::Value = serde_json::from_slice(&results).expect("JSON");
    let streams = results["streams"].as_array().expect("streams");
    let sum = |key: &str| streams.iter().filter_map(|stream| stream[key].as_f64()).sum::<f64>();
    let (bytes, seconds) = (sum("bytes"), sum("end_time") / STREAMS as f64);
    println!("{bytes} bytes in {seconds} s");
    bytes * 8.0 / seconds
}

/// Bits a second of uploads.
const UP: u64 = 1_000_000;
/// Bytes of all of them in a try: two seconds.
const UPLOADED: usize = 250_000;

/// Uploads of so many bytes in frames of that size, one after another on a connection; until all were answered.
fn over_tls(tls: &Arc<ClientConfig>, from: Ipv4Addr, to: SocketAddr, sizes: (usize, usize)) {
    let (bytes, piece) = sizes;
    let path = format!("{}/upload", folder(from, to).expect("a key"));
    let mut stream = secure(tls, from, to).expect("it shakes hands");
    let mut said = http2(b"");
    let many = (UPLOADED / bytes) as u32;
    for id in (0..many).map(|n| 2 * n + 1) {
        said.extend(web::frame(1, 4, id, &head(true, &path)));
        for at in (0..bytes).step_by(piece) {
            let is_last = u8::from(at + piece >= bytes);
            said.extend(web::frame(0, is_last, id, &vec![7; piece.min(bytes - at)]));
        }
    }
    stream.write_all(&said).and_then(|()| stream.flush()).expect("sent");
    (0..many).for_each(|_| hears(&mut stream, 1));
}

/// The same over plain HTTP.
fn plainly(from: Ipv4Addr, to: SocketAddr, bytes: usize) {
    let path = format!("{}/upload", folder(from, to).expect("a key"));
    let mut stream = connect(from, to);
    let mut said = request("POST", &path, &format!("Content-Length: {bytes}\r\n"));
    said.extend(vec![7; bytes]);
    for _ in 0..UPLOADED / bytes {
        stream.write_all(&said).expect("sent");
        assert!(up_to(&mut stream, "taken").ends_with("taken"), "it is answered");
    }
}

/// Uploads from an address.
type Uploads<'u> = &'u dyn Fn(Ipv4Addr, SocketAddr);

#[test]
fn uploads_of_any_size_wait_for_the_rate_over_tls_as_over_plain_http() {
    let tls = quell_tls::trust::client(&Trust::Anyone).expect("nobody needs to be believed");
    let ways: [(&str, Uploads<'_>); 6] = [
        ("one, plainly", &|from, to| plainly(from, to, UPLOADED)),
        ("small ones, plainly", &|from, to| plainly(from, to, 3000)),
        ("one", &|from, to| over_tls(&tls, from, to, (UPLOADED, 16_000))),
        ("small frames", &|from, to| over_tls(&tls, from, to, (UPLOADED, 1000))),
        ("some", &|from, to| over_tls(&tls, from, to, (16_000, 16_000))),
        ("small ones", &|from, to| over_tls(&tls, from, to, (9000, 9000))),
    ];
    let lasted = ways.map(|(way, uploads)| {
        let served = Served::new(&format!("web rate={UP} {PATIENT}"));
        let begun = Instant::now();
        uploads(from(144, 1), served.at);
        (way, begun.elapsed())
    });
    // But for a burst, and what did not make up a whole upload.
    let least = Duration::from_millis(1800);
    let held = lasted.iter().all(|(_, lasted)| *lasted > least);
    assert!(held, "{UPLOADED} bytes at {UP} bit/s last {lasted:?}");
}

/// What comes of a connection until that time, or until it ends, in bytes.
fn comes(stream: &mut TcpStream, end: Instant) -> u64 {
    let mut all = 0;
    let mut bytes = vec![0; 1 << 16];
    while Instant::now() < end {
        match stream.read(&mut bytes) {
            Ok(got @ 1..) => all += got as u64,
            _ => break,
        }
    }
    all
}

#[test]
fn pages_and_errors_that_anybody_asks_for_are_no_faster_than_the_rates() {
    for path in ["/", "/nothing", "/.well-known/nq"] {
        // A busy machine may have no CPU for any of it.
        assert!((0..5).any(|_| asked_for(path) > 0), "{path}: nothing comes");
    }
}

/// What comes of a page in two seconds in which it is asked for again and again, in bytes: no more than the rate.
fn asked_for(path: &str) -> u64 {
    let served = Served::new(&format!("web secret rate={RATE}"));
    let begun = Instant::now();
    let end = begun + Duration::from_secs(2);
    let mut came = 0;
    while Instant::now() < end {
        let mut stream = connect(from(144, 1), served.at);
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
        let asked = request("GET", path, "").repeat(200);
        // It may have closed already.
        let _ = stream.write_all(&asked);
        came += comes(&mut stream, end);
    }
    let most = RATE as f64 * (begun.elapsed().as_secs_f64() + 0.2) / 8.0;
    assert!((came as f64) < most, "{path}: {came} bytes, not {most}");
    came
}

#[test]
fn a_download_ends_with_its_time_though_nobody_says_so() {
    const ASKED: &str = r#"{"tcp":true,"time":1,"parallel":1,"reverse":true,"len":131072}"#;
    let served = Served::new(&format!("rate={RATE}"));
    let download = || {
        let mut test = Test::under_way(from(144, 1), served.at, ASKED, 1);
        let begun = Instant::now();
        test.streams[0].set_read_timeout(Some(Duration::from_secs(2))).expect("a limit");
        let came = comes(&mut test.streams[0], begun + Duration::from_secs(9));
        (came, begun.elapsed())
    };
    // Its second is carried, and it does not go on. A machine that stands still for seconds does so in five tries but one.
    let well =
        |(came, lasted): &(u64, Duration)| *came > RATE / 8 / 2 && *lasted < Duration::from_secs(6);
    let tries: Vec<_> = (0..5).map(|_| download()).take_while(|tried| !well(tried)).collect();
    assert!(tries.len() < 5, "{tries:?}");
}
