//! The server against clients that reset, half-close, fall silent and lie: what must hold whatever they do.
//!
//! ```text
//!   no state and no silence of one client stops another      in each state each manner, floods, places that are held
//!   memory                                                   below 64 MB, below 128 MB beside TLS
//!   --max-rate, --max-rate-per-client                        within 10 %
//!   a forged source gets no more than came                   the UDP port
//!   a secret holds for everything
//! ```
//!
//! What the limits do in between is tested with a clock of its own, in `limits.rs`.

mod client;
mod server;
mod states;

use client::{Test, at_last, byte, calls, connect, cookie, frame, from, is_soon, served};
use server::{SECRET, Served};
use states::{ASKERS, BROWSERS, DOWN, MANNERS, State, TESTS, UDP_UP, UP};
use states::{folder, head, http2, request, secretly, up_to};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Most memory that a server may hold in bytes; twice that beside TLS.
const MOST_MEMORY: u64 = 64 << 20;
/// What it may hold more than in the beginning when all have gone: pages that are in use in part.
const LEFT: u64 = 12 << 20;
/// A good client waits no longer than this, on a busy machine too.
const MOST_WAIT: Duration = Duration::from_secs(20);
/// A server that gives up late who agrees on something: a busy machine has no CPU for a good client for the time of a usual step.
const PATIENT: &str = "handshake_ms=60000";

#[test]
#[ignore = "it is started by the others, as a process of its own"]
fn the_server_itself() {
    server::serve();
}

/// A good client is served at its first try.
#[track_caller]
fn serves(server: &Served, number: u64, after: &str) {
    let waited = served(server.at, number);
    assert!(waited.is_some_and(|waited| waited < MOST_WAIT), "after {after}: {waited:?}");
}

#[track_caller]
fn is_small(server: &Served, most: u64) {
    let held = server.most_memory();
    assert!(held < most, "it held {:.1} MB", held as f64 / 1e6);
}

#[test]
fn in_each_state_whatever_a_client_does_others_are_served_and_memory_is_bounded() {
    let server = Served::new(&format!("web {PATIENT}"));
    let states = TESTS.iter().chain(&ASKERS).chain(&BROWSERS);
    let mut number = 0;
    for (network, (state, bring)) in states.enumerate() {
        for (manner, act) in MANNERS {
            let held = (0..4).filter_map(|client| {
                let from = from(network as u8, client);
                act(at_last(state, |number| bring(from, server.at, number)))
            });
            let held: Vec<Test> = held.collect();
            number += 1;
            serves(&server, number, &format!("{state}, {manner}"));
            drop(held);
        }
    }
    is_small(&server, 2 * MOST_MEMORY);
}

#[test]
fn in_no_state_a_silent_client_costs_a_cpu() {
    const WINDOW: Duration = Duration::from_millis(500);
    let server = Served::new(&format!("web {PATIENT}"));
    for (network, (state, bring)) in TESTS.iter().chain(&ASKERS).chain(&BROWSERS).enumerate() {
        let from = from(network as u8, 1);
        let held = at_last(state, |number| bring(from, server.at, number));
        let rests = || {
            let before = server.cpu_of_threads();
            std::thread::sleep(WINDOW);
            let after = server.cpu_of_threads();
            let used = |(id, time): (_, &Duration)| Some(time.saturating_sub(*before.get(id)?));
            after.iter().filter_map(used).all(|used: Duration| used < WINDOW / 2)
        };
        assert!(is_soon(rests), "{state}: a thread of the server is always busy");
        drop(held);
    }
}

#[test]
fn hundreds_of_silent_connections_keep_nobody_out() {
    let server = Served::new(PATIENT);
    let mut held: Vec<TcpStream> = Vec::new();
    for (round, addresses) in [1, 6, 6, 600].into_iter().enumerate() {
        held.extend((0..600u32).map(|n| {
            let n = n % addresses;
            connect(from(1 + (n / 250) as u8, (n % 250) as u8), server.at)
        }));
        serves(&server, round as u64, &format!("600 silent connections of {addresses} addresses"));
    }
    is_small(&server, MOST_MEMORY);
}

#[test]
fn whoever_holds_a_place_and_does_nothing_gives_it_to_a_newcomer() {
    let streams: State = ("all streams", |from, to, n| {
        const ALL: &str = r#"{"tcp":true,"time":300,"parallel":128,"len":1000}"#;
        Test::new(from, to, n).running(ALL, 128)
    });
    // 32 places, 1,024 streams: in turn agreed on, running, calling, asking.
    for (state, many) in
        [(TESTS[3], 32), (TESTS[5], 32), (TESTS[12], 32), (ASKERS[0], 32), (streams, 8)]
    {
        let server = Served::new(PATIENT);
        let held: Vec<Test> = (0..many)
            .map(|n| at_last(state.0, |number| (state.1)(from(n / 2, n), server.at, number)))
            .collect();
        // Within 5 s of its last byte each is idle.
        assert!(is_soon(|| served(server.at, 1).is_some()), "beside {many} of {}", state.0);
        drop(held);
    }
}

/// 120 streams each, of the largest datagrams and blocks, looked at as often as Quell's own client asks.
const KINDS: [(&str, &str); 3] = [
    (
        "UDP up",
        r#"{"udp":true,"time":60,"parallel":120,"len":65507,"bandwidth":50000,
        "quell":{"version":1,"look_ms":100}}"#,
    ),
    (
        "TCP down",
        r#"{"tcp":true,"time":60,"parallel":120,"reverse":true,"len":1048576,"bandwidth":20000,
        "quell":{"version":1,"look_ms":100}}"#,
    ),
    (
        "UDP both ways",
        r#"{"udp":true,"time":60,"parallel":60,"bidirectional":true,"len":65507,"bandwidth":50000,
        "quell":{"version":1,"look_ms":100}}"#,
    ),
];

/// Eight clients with all the streams that there are, of which each moved something.
fn eight(server: &Served, (kind, asked): (&str, &str)) -> Vec<Test> {
    let at = server.at;
    let one = |n: u8| {
        let mut test =
            at_last(kind, |number| Test::new(from(100 + n, 1), at, number).running(asked, 120));
        for socket in &test.sockets {
            let _ = socket.send(&[1; 60_000]);
        }
        for stream in &mut test.streams {
            assert!(byte(stream).is_some(), "data flows");
        }
        test
    };
    (0..8).map(one).collect()
}

#[test]
fn all_streams_that_may_be_take_little_memory_and_give_it_back() {
    let server = Served::new(PATIENT);
    serves(&server, 1, "nothing");
    let before = server.memory();
    // As many sessions of STAMP as a server counts.
    for n in 0..=u16::MAX / 4 {
        let [network, host] = n.to_be_bytes();
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 120, network, host), 0)).expect("ours");
        socket.send_to(&[0; 44], server.at).expect("sent");
    }
    for kind in KINDS {
        let held = eight(&server, kind);
        is_small(&server, MOST_MEMORY);
        drop(held);
        assert!(is_soon(|| served(server.at, 2).is_some()), "after {}", kind.0);
    }
    println!("{} kB at most", server.most_memory() >> 10);
    is_small(&server, MOST_MEMORY);
    let given_back = is_soon(|| {
        served(server.at, 3);
        server.memory() < before + LEFT
    });
    assert!(given_back, "{before} bytes before, {} behind it", server.memory());
}

/// What is said over TLS by one whose folder is this.
type Says = fn(&str) -> Vec<u8>;

#[test]
fn beside_tls_memory_is_bounded_in_each_state() {
    let says: [(&str, Says); 5] = [
        ("half a record of data", |_| http2(0, 0, 1, &[7; 16_384])[..16_000].to_vec()),
        ("answers that nobody takes", |_| {
            let head = head(false, "/.well-known/nq");
            let asks = (0..128).flat_map(|n| http2(1, 5, 2 * n + 1, &head)).collect::<Vec<_>>();
            [http2(4, 0, 0, &[0, 4, 0, 0, 0, 0]), asks].concat()
        }),
        ("downloads that nobody reads", |folder| {
            let head = head(false, &format!("{folder}/large"));
            (0..4).flat_map(|n| http2(1, 5, 2 * n + 1, &head)).collect()
        }),
        ("uploads that stop", |folder| {
            let head = head(true, &format!("{folder}/upload"));
            [http2(1, 4, 1, &head), http2(0, 0, 1, &[7; 16_000]).repeat(4)].concat()
        }),
        ("uploads byte by byte", |folder| {
            let head = head(true, &format!("{folder}/upload"));
            [http2(1, 4, 1, &head), http2(0, 0, 1, &[7]).repeat(20_000)].concat()
        }),
    ];
    let server = Served::new(&format!("web {PATIENT}"));
    for ((state, says), kind) in says.into_iter().zip(KINDS.iter().cycle()) {
        let held = eight(&server, *kind);
        // More than may be there at once.
        let secure = (0..200u8).filter_map(|n| {
            let from = from(150 + n / 10, n);
            secretly(from, server.at, &says(&folder(from, server.at)?))
        });
        let secure: Vec<_> = secure.collect();
        println!("{state}: {} there, {} kB", secure.len(), server.memory() >> 10);
        assert!(secure.len() >= 100, "{state}: {} got so far", secure.len());
        is_small(&server, 2 * MOST_MEMORY);
        drop((held, secure));
    }
    assert!(is_soon(|| served(server.at, 1).is_some()), "when all are gone");
}

/// Small enough that a busy machine can carry it, in bits a second.
const RATE: u64 = 16_000_000;
const LASTS: Duration = Duration::from_secs(4);

/// Takes what comes until then, in bytes.
fn taken(stream: &mut TcpStream, end: Instant) -> u64 {
    stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a limit");
    let (mut all, mut bytes) = (0, vec![0; 64 << 10]);
    while Instant::now() < end {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            got => all += got.unwrap_or(0) as u64,
        }
    }
    all
}

/// What a client moves from an address until then, in bytes of payload, there and back.
type Greed = fn(Ipv4Addr, SocketAddr, Instant) -> u64;

const GREEDS: [(&str, Greed); 5] = [
    ("a download over many streams", |from, to, end| {
        const ASKED: &str = r#"{"tcp":true,"time":30,"parallel":64,"reverse":true,"len":131072}"#;
        let test = at_last("a place", |n| Test::new(from, to, n).running(ASKED, 64));
        std::thread::scope(|scope| {
            let each = |mut stream| scope.spawn(move || taken(&mut stream, end));
            let all: Vec<_> = test.streams.into_iter().map(each).collect();
            all.into_iter().map(|one| one.join().expect("no panic")).sum()
        })
    }),
    ("short downloads", |from, to, end| {
        let mut all = 0;
        while Instant::now() < end {
            let mut test = at_last("a place", |n| Test::new(from, to, n).running(DOWN, 1));
            let soon = Instant::now() + Duration::from_millis(200);
            all += taken(&mut test.streams[0], soon.min(end));
        }
        all
    }),
    ("large datagrams", |from, to, end| {
        const ASKED: &str = r#"{"udp":true,"time":30,"parallel":1,"reverse":true,"len":65507,
            "bandwidth":16000000}"#;
        let test = at_last("a place", |n| Test::new(from, to, n).running(ASKED, 1));
        let (mut all, mut bytes) = (0, vec![0; 70_000]);
        while Instant::now() < end {
            all += test.sockets[0].recv(&mut bytes).unwrap_or(0) as u64;
        }
        all
    }),
    ("large calls", |from, to, end| {
        const SIZE: usize = 64 << 10;
        let mut stream = connect(from, to);
        stream.write_all(&calls(SIZE as u32)).expect("sent");
        let (mut all, mut bytes) = (0, vec![0; SIZE]);
        while Instant::now() < end {
            stream.write_all(&bytes).and_then(|()| stream.read_exact(&mut bytes)).expect("a reply");
            all += 2 * SIZE as u64;
        }
        all
    }),
    ("pages", |from, to, end| {
        let mut all = 0;
        while Instant::now() < end {
            let mut test = Test::says(from, to, &request("GET", "/", "").repeat(1000));
            all += taken(&mut test.control, end);
        }
        all
    }),
];

/// What each of these moved, in bits a second.
fn moved(server: &Served, greeds: &[(u8, Greed)]) -> Vec<f64> {
    let begun = Instant::now();
    let seconds = |moved: u64| moved as f64 * 8.0 / begun.elapsed().as_secs_f64();
    std::thread::scope(|scope| {
        let each = |(host, greed): &(u8, Greed)| {
            let (host, greed, at) = (*host, *greed, server.at);
            scope.spawn(move || greed(from(30, host), at, begun + LASTS))
        };
        let all: Vec<_> = greeds.iter().map(each).collect();
        all.into_iter().map(|one| seconds(one.join().expect("no panic"))).collect()
    })
}

#[test]
fn the_servers_rate_holds_within_a_tenth_whatever_is_asked_of_it() {
    let beside: Vec<(u8, Greed)> =
        (1..).zip(GREEDS).map(|(host, (_, greed))| (host, greed)).collect();
    let each = GREEDS.iter().map(|(what, greed)| (*what, vec![(1, *greed)]));
    for (what, greeds) in each.chain([("all at once", beside)]) {
        let server = Served::new(&format!("web {PATIENT} rate={RATE}"));
        let sum: f64 = moved(&server, &greeds).iter().sum();
        println!("{what}: {:.2} Mbit/s", sum / 1e6);
        assert!(sum < RATE as f64 * 1.1, "{what}: {sum} bit/s");
        // A busy machine carries less.
        assert!(sum > RATE as f64 * 0.3, "{what}: {sum} bit/s");
    }
}

#[test]
fn a_clients_rate_holds_within_a_tenth_whatever_is_asked_of_it() {
    let server = Served::new(&format!("web {PATIENT} rate_of_one={RATE}"));
    let greeds: Vec<(u8, Greed)> =
        GREEDS.iter().flat_map(|(_, greed)| [(1, *greed), (2, *greed)]).collect();
    let moved = moved(&server, &greeds);
    for client in [0, 1] {
        let sum: f64 = moved.iter().skip(client).step_by(2).sum();
        println!("client {client}: {:.2} Mbit/s", sum / 1e6);
        assert!(sum < RATE as f64 * 1.1, "{sum} bit/s: {moved:?}");
        assert!(sum > RATE as f64 * 0.3, "{sum} bit/s: {moved:?}");
    }
}

#[test]
fn nothing_goes_to_a_forged_source_beyond_what_came() {
    let server = Served::new(PATIENT);
    let socket = UdpSocket::bind((from(1, 1), 0)).expect("a port");
    socket.connect(server.at).expect("an address");
    let mut answer = vec![0; 70_000];
    let mut back = |sent: &[u8], patience_ms| {
        socket.set_read_timeout(Some(Duration::from_millis(patience_ms))).expect("a limit");
        socket.send(sent).expect("sent");
        socket.recv(&mut answer).ok()
    };
    for size in [0, 1, 4, 20, 37, 43] {
        for fill in [0, 0x39, 0xff] {
            assert_eq!(back(&vec![fill; size], 1), None, "{size} bytes of {fill}");
        }
    }
    assert_eq!(back(b"9876", 1), None, "no test waits for it");
    for size in [44, 56, 1000, 60_000] {
        assert_eq!(back(&vec![0; size], 60_000), Some(size), "as much as came, once");
        assert_eq!(back(&vec![0xff; size], 1), None, "a reflected packet is not reflected");
    }
    // A test that waits for a stream of this address answers with as much as came, too.
    let _test =
        at_last("a place", |number| Test::new(from(1, 1), server.at, number).agreed(UDP_UP));
    assert_eq!(back(b"9876", 60_000), Some(4));
    serves(&server, 1, "packets that are none");
}

#[test]
fn a_secret_holds_for_everything() {
    let server = Served::new(&format!("web secret {PATIENT}"));
    let at = server.at;
    let denied = |what: &str, said: &[u8], wanted: &str| {
        let mut test = Test::says(from(1, 1), at, said);
        let heard = up_to(&mut test.control, "\r\n");
        assert!(heard.starts_with(wanted) && heard.len() < 60, "{what}: {heard:?}");
        if wanted.is_empty() {
            assert_eq!(heard, "", "{what}");
        }
    };
    denied("calls", &[&calls(64)[..], &[1; 64]].concat(), "");
    denied("a question", b"QUELL-E1", "");
    for path in ["/web/test", "/web/results", "/web/down?t=1", "/.well-known/nq"] {
        denied(path, &request("GET", path, ""), "HTTP/1.1 401");
    }
    let mut test = Test::says(from(1, 1), at, &cookie(7));
    assert_eq!((byte(&mut test.control), byte(&mut test.control)), (Some(0xff), None), "denied");
    // Who knows it is served; who saw the cookie on its way gets none of its streams.
    let secret = quell_wire::auth::Secret::parse(SECRET).expect("a secret");
    let proven = |from| {
        let tcp = connect(from, at);
        let second = std::os::fd::OwnedFd::from(tcp.try_clone().expect("a descriptor"));
        let stream = quell_sys::socket::stream::TcpSocket::accepted(second);
        let bell = quell_sys::wait::Bell::new().expect("a bell");
        let mut exchange =
            quell_sys::socket::exchange::Exchange::new(&stream, None, &bell).expect("a timer");
        quell_sys::socket::preface::prove(&mut exchange, &secret).expect("both know it");
        tcp
    };
    let mut control = proven(from(1, 1));
    control.write_all(&cookie(7)).expect("sent");
    assert_eq!(byte(&mut control), Some(9));
    control.write_all(&frame(DOWN)).expect("sent");
    assert_eq!(byte(&mut control), Some(10), "it waits for the stream");
    for address in [from(6, 6), from(1, 1)] {
        let mut sniffer = Test::says(address, at, &cookie(7)).control;
        assert_eq!((byte(&mut sniffer), byte(&mut sniffer)), (Some(0xff), None));
    }
    let mut data = proven(from(1, 2));
    data.write_all(&cookie(7)).expect("sent");
    assert_eq!([byte(&mut control), byte(&mut control)], [Some(1), Some(2)]);
    assert!(byte(&mut data).is_some(), "its own stream may come from another address");
}

#[test]
fn who_saw_a_tests_cookie_gets_none_of_its_streams_from_another_address() {
    let server = Served::new(PATIENT);
    let mut test = Test::new(from(1, 1), server.at, 1).agreed(DOWN).expect("a place");
    let mut other = Test::says(from(1, 2), server.at, &cookie(1)).control;
    assert_eq!(byte(&mut other), None, "not a byte");
    assert!(server.log.will_hold("the cookie of a test of another address"));
    test.stream();
    assert_eq!([byte(&mut test.control), byte(&mut test.control)], [Some(1), Some(2)]);
    test.streams[0].read_exact(&mut vec![0; 1_000_000]).expect("all of it is its own");
}

#[test]
fn one_client_can_not_fill_the_log() {
    let server = Served::new(PATIENT);
    let begun = Instant::now();
    for n in 0..600 {
        let mut test = Test::new(from(1, 1), server.at, n);
        match n % 3 {
            // Refused, …
            0 => drop(test.control.write_all(b"nonsense of a stranger")),
            // … broken off, …
            1 => drop(test.introduced()),
            // … a whole session.
            _ => drop(test.running(UP, 1)),
        }
    }
    assert!(is_soon(|| served(server.at, 1000).is_some()));
    let log = server.log.lines.lock().expect("no panic");
    // 20 refusals and 100 sessions of two lines; then one and five in a second, and a line of what was left out.
    let seconds = begun.elapsed().as_secs() as usize + 1;
    assert!(log.len() <= 222 + 12 * seconds, "{} lines in {seconds} s", log.len());
}
