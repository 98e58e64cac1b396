//! Probes over the loopback interface: what they say must be so, whatever the machine is busy with.

use quell_model::task::{PingStream, TcpPingStream, UdpEcho};
use quell_model::{EchoSample, EchoStatus, Event};
use quell_probe::{Listener, ProbeOptions, Reflector, ping, plain, tcp, udp};
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::socket::Way;
use quell_sys::wait::Bell;
use quell_sys::wall::realtime_ns;
use quell_units::{Span, Tos};
use quell_wire::stamp::{ReflectorPacket, SenderPacket};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

fn window(millis: u64) -> Window {
    let start = monotonic_ns() + 5_000_000;
    Window { origin_ns: start, start_ns: start, duration_ns: millis * 1_000_000 }
}

/// So many packets, however long this machine takes for them: a window may end while a busy one holds its sender up.
fn packets(count: u64) -> ProbeOptions {
    ProbeOptions { count: Some(count), ..ProbeOptions::default() }
}

/// Longer than any of these takes.
fn hour() -> Window {
    window(3_600_000)
}

/// Where nobody listens. A port that was free a moment ago may be another test's by now.
const NOBODY: &str = "127.0.0.1:1";

/// Collects echo rows by stream.
#[derive(Default)]
struct Rows(Mutex<BTreeMap<String, Vec<EchoSample>>>);

impl Rows {
    fn take(&self, event: Event) {
        if let Event::Echo { stream, samples } = event {
            self.0.lock().unwrap().entry(stream).or_default().extend(samples);
        }
    }

    fn of(&self, stream: &str) -> Vec<EchoSample> {
        self.0.lock().unwrap().get(stream).cloned().unwrap_or_default()
    }
}

fn ping_to(stream: &str, to: &str, size: u32) -> PingStream {
    PingStream {
        stream: stream.into(),
        to: to.parse().unwrap(),
        interval: Span::from_millis(2),
        size,
        tos: Tos::from_byte(0xb8),
        linger: Span::from_secs(20),
    }
}

#[test]
fn several_ping_streams_at_once_lose_nothing_and_don_t_mix() {
    let streams = [
        ping_to("v4", "127.0.0.1", 56),
        ping_to("v6", "::1", 56),
        ping_to("again", "127.0.0.1", 1400),
        ping_to("tiny", "127.0.0.1", 4),
    ];
    let rows = Rows::default();
    let before = monotonic_ns();
    let ping = ping::open(&streams.clone().map(|s| (s, packets(150))), 1).unwrap();
    ping.run(&hour(), &Bell::new().unwrap(), &|event| rows.take(event)).unwrap();
    let took = monotonic_ns() - before;
    for stream in &streams {
        let rows = rows.of(&stream.stream);
        assert_eq!(rows.len(), 150, "{}", stream.stream);
        for (n, row) in rows.iter().enumerate() {
            assert_eq!(row.seq, n as u64);
            assert_eq!(row.status, EchoStatus::Ok);
            assert_eq!(row.bytes, stream.size);
            assert!(row.t_ns >= n as i64 * 2_000_000, "not before its time");
            assert!(row.rtt_ns.unwrap() < took);
            assert!(row.seen_late_ns.is_some(), "by the kernel's stamp");
            assert!(row.queued_ns.is_some_and(|queued| queued < took), "the kernel told twice");
        }
    }
}

fn echo_to(to: SocketAddr) -> UdpEcho {
    UdpEcho {
        stream: "udp".into(),
        to,
        interval: Span::from_millis(2),
        size: 500,
        tos: Tos::from_byte(0),
        linger: Span::from_secs(20),
        other_clock: false,
    }
}

#[test]
fn a_udp_stream_comes_back_with_delays_both_ways_and_the_reflectors_order() {
    for bind in ["127.0.0.1:0", "[::1]:0"] {
        let reflector = Reflector::prepare(bind.parse().unwrap()).unwrap();
        let echo = echo_to(reflector.local().unwrap());
        let (stop, never) = (Bell::new().unwrap(), Bell::new().unwrap());
        let rows = Rows::default();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| reflector.run(&stop));
            let client = udp::open(&[(echo.clone(), packets(150))], 2).unwrap();
            client.run(&hour(), &never, &|event| rows.take(event)).unwrap();
            stop.ring();
            server.join().unwrap().unwrap();
        });
        let rows = rows.of("udp");
        assert_eq!(rows.len(), 150);
        for (n, row) in rows.iter().enumerate() {
            assert_eq!((row.seq, row.status), (n as u64, EchoStatus::Ok));
            assert_eq!((row.up_order, row.down_order), (Some(n as u64), Some(n as u64)));
            let (up, down) = (row.up_ns.unwrap(), row.down_ns.unwrap());
            assert!(up > 0 && down > 0, "{up} {down}");
            let rtt = row.rtt_ns.unwrap() as i64;
            assert!((up + down - rtt).abs() <= 1, "what the reflector took is no part: {rtt}");
        }
    }
}

#[test]
fn losses_at_a_reflector_that_copies_our_numbers_have_no_direction() {
    // An answer that a busy machine's reflector gives too late is one that was lost: then all have more time.
    let lingers = [3, 3, 20, 60].map(Span::from_secs);
    let mut tries = lingers.into_iter().map(losses_at_a_copying_reflector);
    assert!(tries.any(|counts| counts == (19, 131)));
}

/// How many of 150 packets are lost and answered, where every eighth is not answered and that is known after so long.
fn losses_at_a_copying_reflector(linger: Span) -> (usize, usize) {
    let reflector = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let echo = UdpEcho { linger, ..echo_to(reflector.local_addr().unwrap()) };
    let rows = Rows::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = [0; 500];
            // Every eighth packet is not answered, and the last one sent ends it.
            for n in 0..150 {
                let (_, from) = reflector.recv_from(&mut bytes).unwrap();
                let sent = SenderPacket::read(&bytes).unwrap();
                let now = realtime_ns();
                ReflectorPacket::reflect(&mut bytes, sent.seq, now, now, 64);
                if n % 8 != 3 {
                    reflector.send_to(&bytes, from).unwrap();
                }
            }
        });
        let client = udp::open(&[(echo, packets(150))], 2).unwrap();
        client.run(&hour(), &Bell::new().unwrap(), &|event| rows.take(event)).unwrap();
    });
    let rows = rows.of("udp");
    let count = |status| rows.iter().filter(|r| r.status == status).count();
    assert!(rows.iter().all(|r| r.up_order.is_none()), "it numbers nothing");
    assert!(count(EchoStatus::Lost) >= 19, "what is not answered is lost");
    (count(EchoStatus::Lost), count(EchoStatus::Ok))
}

#[test]
fn a_reflector_whose_times_can_t_be_is_believed_no_one_way_delay() {
    const LONG_NS: u64 = 60_000_000_000;
    // When it says that it received and sent: sent before it received, longer apart than all of it, and, on one host, by another clock.
    let lies: [fn(u64) -> (u64, u64); 3] = [
        |now| (now + LONG_NS, now - LONG_NS),
        |now| (now - LONG_NS, now + LONG_NS),
        |now| (now - LONG_NS, now - LONG_NS),
    ];
    for (n, lie) in lies.into_iter().enumerate() {
        let reflector = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = reflector.local_addr().unwrap();
        let rows = Rows::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut bytes = [0; 500];
                for _ in 0..20 {
                    let (_, from) = reflector.recv_from(&mut bytes).unwrap();
                    let (received, sent) = lie(realtime_ns());
                    ReflectorPacket::reflect(&mut bytes, 0, received, sent, 64);
                    reflector.send_to(&bytes, from).unwrap();
                }
            });
            let client = udp::open(&[(echo_to(to), packets(20))], 2).unwrap();
            client.run(&hour(), &Bell::new().unwrap(), &|event| rows.take(event)).unwrap();
        });
        let rows = rows.of("udp");
        assert_eq!(rows.len(), 20);
        for row in &rows {
            assert_eq!((row.up_ns, row.down_ns), (None, None), "lie {n}");
            assert!(row.rtt_ns.is_some_and(|rtt| rtt < LONG_NS), "ours is known: {row:?}");
        }
    }
}

#[test]
fn where_nobody_answers_every_packet_is_an_error_with_its_own_row() {
    let rows = Rows::default();
    let echo = echo_to(NOBODY.parse().unwrap());
    let client = udp::open(&[(echo, packets(50))], 3).unwrap();
    client.run(&hour(), &Bell::new().unwrap(), &|event| rows.take(event)).unwrap();
    let mut rows = rows.of("udp");
    rows.sort_by_key(|r| r.seq);
    assert_eq!(rows.iter().map(|r| r.seq).collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
    assert!(rows.iter().all(|r| r.status == EchoStatus::Error), "{rows:?}");
}

#[test]
fn a_reflector_that_hears_and_says_nothing_makes_every_packet_lost_after_the_time_that_was_asked_for()
 {
    // It listens, and nobody runs it.
    let mute = Reflector::prepare("127.0.0.1:0".parse().unwrap()).unwrap();
    let rows = Rows::default();
    let echo = UdpEcho { linger: Span::from_millis(50), ..echo_to(mute.local().unwrap()) };
    let client = udp::open(&[(echo, packets(50))], 4).unwrap();
    client.run(&hour(), &Bell::new().unwrap(), &|event| rows.take(event)).unwrap();
    let rows = rows.of("udp");
    assert_eq!(rows.len(), 50);
    assert!(rows.iter().all(|r| r.status == EchoStatus::Lost), "50 ms were over: {rows:?}");
}

#[test]
fn a_probe_that_is_stopped_hands_over_what_it_has() {
    let stop = Bell::new().unwrap();
    stop.ring();
    let rows = Rows::default();
    let ping = ping::open(&plain(&[ping_to("v4", "127.0.0.1", 56)]), 1).unwrap();
    ping.run(&window(3_600_000), &stop, &|event| rows.take(event)).unwrap();
    assert!(rows.of("v4").len() <= 1);
}

#[test]
fn parameters_that_can_t_be_are_refused_with_their_reason() {
    let small = UdpEcho { size: 43, ..echo_to("127.0.0.1:9".parse().unwrap()) };
    let error = udp::prepare(&small, 1).unwrap_err().to_string();
    assert!(error.contains("44") && error.contains("43"), "{error}");
    let still = PingStream { interval: Span::from_nanos(0), ..ping_to("x", "127.0.0.1", 56) };
    assert!(ping::open(&plain(&[still]), 1).unwrap_err().to_string().contains("interval"));
    let huge = ping_to("x", "127.0.0.1", 65_508);
    assert!(ping::open(&plain(&[huge]), 1).unwrap_err().to_string().contains("65507"));
}

fn connect_to(stream: &str, to: SocketAddr) -> TcpPingStream {
    TcpPingStream {
        stream: stream.into(),
        to,
        interval: Span::from_millis(2),
        tos: Tos::from_byte(0),
        linger: Span::from_secs(20),
    }
}

#[test]
fn an_open_port_and_a_closed_one_answer_tcp_connects_and_are_told_apart() {
    let listener = Listener::prepare("127.0.0.1:0".parse().unwrap()).unwrap();
    let streams = [
        connect_to("open", listener.local().unwrap()),
        connect_to("closed", NOBODY.parse().unwrap()),
    ];
    let (stop, never) = (Bell::new().unwrap(), Bell::new().unwrap());
    let rows = Rows::default();
    let facts = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        let server = scope.spawn(|| listener.run(&stop));
        let client = tcp::open(&streams.map(|s| (s, packets(100))), 2).unwrap();
        let emit = |event| match event {
            Event::Fact(fact) => {
                drop(facts.lock().unwrap().insert(fact.subject.to_string(), fact.value));
            }
            event => rows.take(event),
        };
        client.run(&hour(), &never, &emit).unwrap();
        stop.ring();
        server.join().unwrap().unwrap();
    });
    for stream in ["open", "closed"] {
        let rows = rows.of(stream);
        assert_eq!(rows.len(), 100, "{stream}");
        assert!(rows.iter().all(|r| r.status == EchoStatus::Ok && r.rtt_ns.is_some()), "{stream}");
    }
    let facts = facts.into_inner().unwrap();
    assert_eq!(
        facts["stream/open/clock"],
        "transmit: program; receive: kernel, from SYN to answer (tcpi_rtt)"
    );
    assert_eq!(facts["stream/open/answers"], r#"{"open":100,"refused":0}"#);
    assert_eq!(facts["stream/closed/answers"], r#"{"open":0,"refused":100}"#);
}

#[test]
fn a_count_ends_a_stream_and_rows_come_as_often_as_they_are_asked_for() {
    let streams = [
        (
            ping_to("few", "127.0.0.1", 56),
            ProbeOptions { count: Some(10), ..ProbeOptions::default() },
        ),
        (
            ping_to("more", "127.0.0.1", 56),
            ProbeOptions { count: Some(60), ..ProbeOptions::default() },
        ),
    ];
    let (rows, handed) = (Rows::default(), AtomicUsize::new(0));
    let ping = ping::open(&streams, 1).unwrap().flushing_every(Span::from_millis(20));
    let emit = |event| {
        handed.fetch_add(1, Ordering::Relaxed);
        rows.take(event);
    };
    ping.run(&window(3_600_000), &Bell::new().unwrap(), &emit).unwrap();
    assert_eq!((rows.of("few").len(), rows.of("more").len()), (10, 60));
    assert!(handed.into_inner() >= 4, "60 packets take 120 ms");
}

#[test]
fn several_udp_streams_of_one_client_each_have_their_own_session() {
    let reflector = Reflector::prepare("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = reflector.local().unwrap();
    let way = Way {
        source: Some("127.0.0.9".parse().unwrap()),
        device: Some("lo".into()),
        ..Way::default()
    };
    let options = ProbeOptions { count: Some(20), way, ..ProbeOptions::default() };
    let named = |name: &str| (UdpEcho { stream: name.into(), ..echo_to(to) }, options.clone());
    let (stop, never) = (Bell::new().unwrap(), Bell::new().unwrap());
    let rows = Rows::default();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| reflector.run(&stop));
        let client = udp::open(&[named("a"), named("b")], 2).unwrap();
        client.run(&hour(), &never, &|event| rows.take(event)).unwrap();
        stop.ring();
        server.join().unwrap().unwrap();
    });
    for stream in ["a", "b"] {
        let orders: Vec<_> = rows.of(stream).iter().map(|r| r.up_order).collect();
        assert_eq!(orders, (0..20).map(Some).collect::<Vec<_>>());
    }
}

#[test]
fn the_kernel_times_both_ends() {
    let streams = [(ping_to("kernel", "127.0.0.1", 56), packets(20))];
    let facts = Mutex::new(BTreeMap::new());
    let emit = |event| {
        if let Event::Fact(fact) = event {
            facts.lock().unwrap().insert(fact.subject.to_string(), fact.value);
        }
    };
    ping::open(&streams, 1).unwrap().run(&hour(), &Bell::new().unwrap(), &emit).unwrap();
    let facts = facts.into_inner().unwrap();
    let clock = "transmit: kernel, before this host's queue; receive: kernel";
    assert_eq!(facts["stream/kernel/clock"], clock);
}
