//! The data movers over the loopback interface: the two ends must agree, whatever the machine is busy with.

use quell_load::bulk::{
    Copying, Ended, Limit, Open, Payload, Tally, TcpSending, UdpHeader, UdpReceiving, UdpSending,
    UdpTally, tcp_receive, tcp_send, udp_receive, udp_send,
};
use quell_stats::log_histogram::highest;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::bulk::prepare_receiving;
use quell_sys::socket::stream::{Connected, StreamOptions, TcpSocket, accept, listen};
use quell_sys::wait::{Bell, readable, wait};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

/// As much as goes, in large pieces.
const SENDING: TcpSending = TcpSending {
    block: 1 << 20,
    limit: Limit::NONE,
    rate: None,
    pacing: None,
    copying: Copying::Once,
    payload: Payload::Random,
};

fn connection() -> (TcpSocket, TcpSocket) {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = TcpSocket::new(false, &StreamOptions::default()).unwrap();
    let to = listener.local_addr().unwrap();
    let soon = monotonic_ns() + 60_000_000_000;
    assert_eq!(client.connect(to, soon, &Bell::new().unwrap()), Ok(Connected::Yes));
    wait(&mut [readable(&listener)]).unwrap();
    let (server, _) = accept(&listener).unwrap().unwrap();
    (client, server)
}

fn sockets() -> (UdpSocket, UdpSocket) {
    let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    (a, b)
}

/// Tries on a machine that may be too busy to be in time; each is checked for what holds on any.
const TRIES: usize = 50;

/// Looks until it is so, for a minute at most; whether it is.
fn seen(what: impl Fn() -> bool) -> bool {
    let end = monotonic_ns() + 60_000_000_000;
    while !what() {
        if monotonic_ns() > end {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    true
}

#[test]
fn what_is_sent_over_a_connection_arrives_copied_or_not() {
    for copying in [Copying::Once, Copying::None] {
        let (client, server) = connection();
        let (sent, got) = (Tally::new(), Tally::new());
        let bell = Bell::new().unwrap();
        let bytes = 30_000_001;
        std::thread::scope(|scope| {
            let receiver =
                scope.spawn(|| tcp_receive(&Open, &server, Limit::NONE, &got, &bell).unwrap());
            let what = TcpSending { limit: Limit::bytes(bytes), copying, ..SENDING };
            assert_eq!(tcp_send(&Open, &client, &what, &sent, &bell).unwrap(), Ended::Done);
            client.finish();
            assert_eq!(receiver.join().unwrap(), Ended::Closed);
        });
        assert_eq!((sent.bytes(), got.bytes()), (bytes, bytes), "{copying:?}");
    }
}

#[test]
fn a_ring_ends_a_sender_that_has_no_room_and_a_receiver_that_gets_nothing() {
    let (client, server) = connection();
    let (sent, got) = (Tally::new(), Tally::new());
    let bell = Bell::new().unwrap();
    std::thread::scope(|scope| {
        // Nobody reads: the sender fills both buffers and waits.
        let sender = scope.spawn(|| tcp_send(&Open, &client, &SENDING, &sent, &bell));
        let receiver = scope.spawn(|| tcp_receive(&Open, &client, Limit::NONE, &got, &bell));
        let began = seen(|| sent.bytes() > 0);
        bell.ring();
        assert!(began);
        assert_eq!(sender.join().unwrap(), Ok(Ended::Stopped));
        assert_eq!(receiver.join().unwrap(), Ok(Ended::Stopped));
    });
    drop(server);
}

#[test]
fn the_time_ends_a_sender_that_has_no_room_and_a_reset_is_told() {
    let (client, server) = connection();
    let bell = Bell::new().unwrap();
    let end = monotonic_ns() + 20_000_000;
    let what = TcpSending { limit: Limit::until(end), ..SENDING };
    assert_eq!(tcp_send(&Open, &client, &what, &Tally::new(), &bell), Ok(Ended::Done));
    assert!(monotonic_ns() >= end);
    // With data that nobody has read.
    drop(server);
    let error = tcp_receive(&Open, &client, Limit::NONE, &Tally::new(), &bell).unwrap_err();
    assert!(error.to_string().contains("ECONNRESET"), "{error}");
}

#[test]
fn the_kernel_keeps_a_connection_to_its_rate() {
    let (client, server) = connection();
    let (sent, got) = (Tally::new(), Tally::new());
    let bell = Bell::new().unwrap();
    let took_ns = std::thread::scope(|scope| {
        scope.spawn(|| tcp_receive(&Open, &server, Limit::NONE, &got, &bell));
        let begun = monotonic_ns();
        let what = TcpSending {
            limit: Limit::until(begun + 300_000_000),
            pacing: Some(10_000_000),
            block: 64 << 10,
            ..SENDING
        };
        assert_eq!(tcp_send(&Open, &client, &what, &sent, &bell), Ok(Ended::Done));
        client.abort();
        monotonic_ns() - begun
    });
    // 3 MB at this rate, a little at once in the beginning; without a rate it were hundreds. Who is late to end it has it go on as long.
    let most = 5_000_000 + took_ns / 100;
    assert!(got.bytes() < most, "{} in {took_ns} ns", got.bytes());
}

#[test]
fn the_writes_keep_a_connection_to_its_rate_from_the_first_one_on() {
    for copying in [Copying::Once, Copying::None] {
        let sends = || {
            let (client, _server) = connection();
            let sent = Tally::new();
            let begun = monotonic_ns();
            let what = TcpSending {
                limit: Limit::until(begun + 300_000_000),
                rate: Some(5_000_000),
                copying,
                ..SENDING
            };
            let ended = tcp_send(&Open, &client, &what, &sent, &Bell::new().unwrap());
            assert_eq!(ended, Ok(Ended::Done));
            // 187.5 kB until then; the loopback interface's segments are cut to what is due in 10 ms.
            assert!(sent.bytes() <= 187_500 + 6250, "{copying:?}: {}", sent.bytes());
            sent.bytes()
        };
        // A busy machine may come to it when the time is over.
        assert!((0..TRIES).any(|_| sends() > 0), "{copying:?}");
    }
}

fn count_all(header: UdpHeader, trains: bool, size: usize, rate: Option<u64>) {
    let counted = (0..TRIES).any(|_| counts_all(header, trains, size, rate));
    assert!(counted, "{header:?}, trains {trains}, size {size}: no room each time");
}

/// False where this system grants the socket no such buffer, and what there is of it was too small.
fn counts_all(header: UdpHeader, trains: bool, size: usize, rate: Option<u64>) -> bool {
    let (client, server) = sockets();
    let (sent, got) = (Tally::new(), UdpTally::new());
    let bell = Bell::new().unwrap();
    let bytes = 300 * size as u64;
    // So that what comes before the receiver runs has room.
    let room = prepare_receiving(server.as_fd(), 64 << 20, trains).buffer;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let what = UdpReceiving { header, trains, buffer: 64 << 20, ..UdpReceiving::default() };
            udp_receive(&server, &what, &got, &bell)
        });
        let payload = Payload::default();
        let what = UdpSending {
            size,
            rate,
            limit: Limit::bytes(bytes),
            header,
            trains,
            burst: 1,
            payload,
        };
        assert_eq!(udp_send(&Open, &client, &what, &sent, &bell), Ok(Ended::Done));
        let all = || got.counts().packets + got.counts().socket_drops >= 300;
        let came = seen(all);
        bell.ring();
        assert!(came, "{header:?}, trains {trains}, size {size}: {:?}", got.counts());
        assert_eq!(receiver.join().unwrap(), Ok(Ended::Stopped));
    });
    let counts = got.counts();
    assert_eq!((sent.packets(), sent.bytes()), (300, bytes));
    if counts.socket_drops > 0 && room < 64 << 20 {
        return false;
    }
    assert_eq!((counts.packets, counts.bytes, counts.lost()), (300, bytes, 0), "{counts:?}");
    assert_eq!((counts.reordered, counts.duplicates, counts.foreign), (0, 0, 0));
    assert_eq!(got.gaps().total(), 299);
    true
}

#[test]
fn datagrams_are_counted_one_by_one_however_they_travel() {
    for header in [UdpHeader::Bits32, UdpHeader::Bits64] {
        for trains in [true, false] {
            count_all(header, trains, 1000, None);
            count_all(header, trains, 100, Some(100 * 8 * 10_000));
        }
    }
    // Cut into fragments of IP: no trains then.
    count_all(UdpHeader::Bits32, true, 65_507, Some(65_507 * 8 * 3000));
}

#[test]
fn a_rate_is_kept_and_a_ring_ends_its_longest_pause() {
    let (client, _server) = sockets();
    let sent = Tally::new();
    let bell = Bell::new().unwrap();
    let begun = monotonic_ns();
    let what = UdpSending {
        size: 1000,
        rate: Some(8_000_000),
        limit: Limit::until(begun + 100_000_000),
        header: UdpHeader::Bits32,
        trains: true,
        burst: 1,
        payload: Payload::default(),
    };
    assert_eq!(udp_send(&Open, &client, &what, &sent, &bell), Ok(Ended::Done));
    // A busy machine may skip some, and never sends more.
    assert!(sent.packets() <= 101, "{}", sent.packets());
    std::thread::scope(|scope| {
        let slow = UdpSending { rate: Some(1), limit: Limit::NONE, ..what };
        let (bell, tally, client) = (&bell, Tally::new(), &client);
        let sender = scope.spawn(move || udp_send(&Open, client, &slow, &tally, bell));
        bell.ring();
        assert_eq!(sender.join().unwrap(), Ok(Ended::Stopped));
    });
}

#[test]
fn datagrams_that_can_not_be_are_refused_with_a_reason() {
    let (client, _server) = sockets();
    let bell = Bell::new().unwrap();
    let what = |size| UdpSending {
        size,
        rate: None,
        limit: Limit::bytes(1),
        header: UdpHeader::Bits32,
        trains: true,
        burst: 1,
        payload: Payload::default(),
    };
    let small = udp_send(&Open, &client, &what(11), &Tally::new(), &bell).unwrap_err();
    assert!(small.to_string().contains("12 bytes"), "{small}");
    let large = udp_send(&Open, &client, &what(65_508), &Tally::new(), &bell).unwrap_err();
    assert!(large.to_string().contains("EMSGSIZE"), "{large}");
}

#[test]
fn nobody_who_listens_is_no_reason_to_stop_sending() {
    let (client, server) = sockets();
    drop(server);
    let sent = Tally::new();
    let what = UdpSending {
        size: 100,
        rate: Some(100 * 8 * 1000),
        limit: Limit::bytes(2000),
        header: UdpHeader::Bits32,
        trains: true,
        burst: 1,
        payload: Payload::default(),
    };
    assert_eq!(udp_send(&Open, &client, &what, &sent, &Bell::new().unwrap()), Ok(Ended::Done));
    assert_eq!(sent.packets(), 20);
}

#[test]
fn a_burst_leaves_together_and_the_rate_is_kept_all_the_same() {
    // Who is late with one burst makes no pause before the next, and one who is held up within a burst makes one there.
    let tries = (0..TRIES).map(|_| pauses_between_bursts()).take_while(|long| *long != 3);
    assert!(tries.count() < TRIES, "a pause between each two bursts, and none in one");
}

/// Forty datagrams in bursts of ten: how many of them came long after the one before.
fn pauses_between_bursts() -> u64 {
    let (client, server) = sockets();
    let (sent, got, bell) = (Tally::new(), UdpTally::new(), Bell::new().unwrap());
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| udp_receive(&server, &UdpReceiving::default(), &got, &bell));
        // 100 a second: one every 10 ms, or ten every 100 ms.
        let what = UdpSending {
            size: 100,
            rate: Some(100 * 8 * 100),
            limit: Limit::bytes(4000),
            header: UdpHeader::Bits32,
            trains: true,
            burst: 10,
            payload: Payload::Digits,
        };
        let begun = monotonic_ns();
        assert_eq!(udp_send(&Open, &client, &what, &sent, &bell), Ok(Ended::Done));
        assert!(monotonic_ns() - begun >= 300_000_000, "the fourth ten are due after 300 ms");
        let came = seen(|| got.counts().packets == 40);
        bell.ring();
        assert!(came, "{:?}", got.counts());
        assert_eq!(receiver.join().unwrap(), Ok(Ended::Stopped));
    });
    let gaps = got.gaps();
    gaps.counts().filter(|(class, _)| highest(*class) > 50_000_000).map(|(_, n)| n).sum()
}
