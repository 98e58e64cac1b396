//! Round trips of TCP flows, packet by packet.

use crate::kernel::skipped;
use crate::namespace::cable;
use nix::sys::socket::{ControlMessageOwned, LinkAddr, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use quell_classify::{RoundTrip, RoundTrips};
use quell_wire::layers::{Layer, packet};
use std::collections::BTreeMap;
use std::io::{IoSliceMut, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// One segment of a flow between 192.0.2.1 and 198.51.100.1.
#[derive(Clone, Copy)]
struct Segment {
    leaves: bool,
    seq: u32,
    ack: u32,
    data: usize,
    /// Its time stamp and the one that it echoes.
    stamps: Option<(u32, u32)>,
}

fn leaves(seq: u32, data: usize) -> Segment {
    Segment { leaves: true, seq, ack: 1, data, stamps: None }
}

fn comes(ack: u32, data: usize) -> Segment {
    Segment { leaves: false, seq: 1, ack, data, stamps: None }
}

impl Segment {
    fn frame(self, v6: bool) -> Vec<u8> {
        let ports = if self.leaves { (5000, 443) } else { (443, 5000) };
        let mut data = vec![0; self.data];
        if let Some((stamp, echo)) = self.stamps {
            let options = [0x0101_080a, stamp, echo].into_iter().flat_map(u32::to_be_bytes);
            data.splice(0..0, options);
        }
        let near = ([192, 0, 2, 1], "2001:db8::1");
        let far = ([198, 51, 100, 1], "2001:db8:ffff::1");
        let (from, to) = if self.leaves { (near, far) } else { (far, near) };
        let ip = match v6 {
            true => Layer::v6(from.1.parse().unwrap(), to.1.parse().unwrap()),
            false => Layer::v4(from.0, to.0),
        };
        let tcp = Layer::Tcp { src: ports.0, dst: ports.1 };
        let mut frame = packet(&[Layer::Ethernet, ip, tcp, Layer::Bytes { proto: 0, bytes: data }]);
        let at = if v6 { 54 } else { 34 };
        frame[at + 4..at + 8].copy_from_slice(&self.seq.to_be_bytes());
        frame[at + 8..at + 12].copy_from_slice(&self.ack.to_be_bytes());
        frame[at + 12] = if self.stamps.is_some() { 0x80 } else { 0x50 };
        frame[at + 13] = 0x10;
        // A short one is padded on its way.
        frame.resize(frame.len().max(60), 0);
        frame
    }
}

fn load() -> Option<RoundTrips> {
    match RoundTrips::load() {
        Ok(program) => Some(program),
        Err(error) if error.proves_no_program_loads() => {
            skipped("round trips", &error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// What is told of these segments, over both protocols; no more than one in 10 ms is.
fn told(segments: &[Segment]) -> Option<Option<RoundTrip>> {
    let [v4, v6] = [false, true].map(|v6| {
        let mut program = load()?;
        for segment in segments {
            program.test_run(&segment.frame(v6), segment.leaves, 1).unwrap();
        }
        Some(program.next_trip())
    });
    let (v4, v6) = (v4?, v6?);
    assert_eq!(v4.map(|trip| trip.comes), v6.map(|trip| trip.comes), "{v4:?} {v6:?}");
    Some(v4)
}

/// Enough data for a flow to count, in ten segments from 1000 on.
fn much() -> Vec<Segment> {
    (0..10).map(|n| leaves(1000 + 3500 * n, 3500)).collect()
}
const END: u32 = 1000 + 35_000;

#[test]
fn an_ack_of_exactly_what_left_ends_a_round_trip_and_what_is_doubtful_ends_none() {
    let with = |more: &[Segment]| [much(), more.to_vec()].concat();
    let Some(exact) = told(&with(&[comes(END, 0)])) else { return };
    let trip = exact.expect("a round trip");
    assert!(!trip.comes && trip.sent_ns < trip.seen_ns, "{trip:?}");
    assert!(trip.least_ns == trip.seen_ns - trip.sent_ns, "{trip:?}");
    let none: [(&str, Vec<Segment>); 5] = [
        ("little data", vec![leaves(1000, 3500), comes(4500, 0)]),
        ("an ACK of half a segment", with(&[comes(END - 1000, 0)])),
        ("sent again", with(&[leaves(END - 3500, 3500), comes(END, 0)])),
        ("told before", vec![comes(END, 0)]),
        ("an ACK that is old", with(&[comes(END + 5, 0), comes(END, 0)])),
    ];
    for (name, segments) in none {
        assert_eq!(told(&segments), Some(None), "{name}");
    }
    let after = with(&[leaves(END - 3500, 3500), leaves(END, 3500), comes(END + 3500, 0)]);
    assert!(told(&after).flatten().is_some(), "beyond what was sent again all is well");
}

#[test]
fn data_that_echo_the_first_ack_of_a_stamp_end_a_round_trip_of_what_comes() {
    let ack = |stamp| Segment { stamps: Some((stamp, 1)), ..leaves(1, 0) };
    let data = |echo| Segment { stamps: Some((9, echo)), ..comes(1, 3500) };
    let much: Vec<Segment> = [ack(70)].into_iter().chain((0..10).map(|_| data(70))).collect();
    let with = |more: &[Segment]| [much.clone(), more.to_vec()].concat();
    let Some(trip) = told(&with(&[ack(71), ack(71), data(71)])) else { return };
    assert!(trip.is_some_and(|trip| trip.comes), "{trip:?}");
    assert_eq!(told(&with(&[ack(71), data(70)])), Some(None), "an echo that was seen");
    let bare = Segment { data: 0, ..data(71) };
    assert_eq!(told(&with(&[ack(71), bare])), Some(None), "an ACK of its own");
}

/// A packet as a capture has it: when, whether it leaves, where its data end, and what it acknowledges.
#[derive(Debug)]
struct Captured {
    at_ns: u64,
    leaves: bool,
    end: u32,
    data: usize,
    ack: u32,
}

/// Everything that was captured of TCP, by the kernel's stamps.
fn captured(socket: &OwnedFd) -> Vec<Captured> {
    let mut packets = Vec::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        let mut space = nix::cmsg_space!(TimeSpec);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let got = recvmsg::<LinkAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags);
        let Ok(got) = got else { return packets };
        let stamp = got.cmsgs().unwrap().find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(time) => Some(time),
            _ => None,
        });
        let at = stamp.expect("a stamp");
        let (length, from) = (got.bytes, got.address.unwrap());
        let leaves = from.as_ref().sll_pkttype == libc::PACKET_OUTGOING;
        let ip = &buffer[..length];
        if ip[9] != 6 {
            continue;
        }
        let word = |at: usize| u32::from_be_bytes(ip[at..at + 4].try_into().unwrap());
        let data =
            usize::from(u16::from_be_bytes([ip[2], ip[3]])) - 20 - usize::from(ip[32] >> 4) * 4;
        let end = word(24).wrapping_add(data as u32);
        let at_ns = at.tv_sec() as u64 * 1_000_000_000 + at.tv_nsec() as u64;
        packets.push(Captured { at_ns, leaves, end, data, ack: word(28) });
    }
}

#[test]
fn round_trips_are_those_that_a_capture_of_the_same_packets_has() {
    let Some(mut program) = load() else { return };
    let (here, there) = cable();
    let (heard, link) = there.run(|| {
        let heard = TcpListener::bind("10.0.0.2:0").unwrap();
        (heard.local_addr().unwrap(), heard)
    });
    let (packets, trips) = here.run(|| {
        let index = nix::net::if_::if_nametoindex("a0").unwrap();
        let capture = packet_socket(index);
        program.watch(index).unwrap();
        let mut sender = std::net::TcpStream::connect(heard).unwrap();
        let (mut receiver, _) = link.accept().unwrap();
        let (mut packets, mut trips) = (Vec::new(), Vec::new());
        let data = vec![0; 32 << 10];
        // As much at a time as a socket's buffers take, so that nobody waits.
        for _ in 0..4000 {
            sender.write_all(&data).unwrap();
            receiver.read_exact(&mut data.clone()).unwrap();
            packets.append(&mut captured(&capture));
            trips.extend(std::iter::from_fn(|| program.next_trip()));
        }
        (packets, trips)
    });
    assert!(!trips.is_empty(), "none of {} packets ended a round trip", packets.len());
    let offset = nix::time::clock_gettime(nix::time::ClockId::CLOCK_REALTIME).unwrap();
    let monotonic = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    let ns = |time: TimeSpec| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64;
    let offset = ns(offset) - ns(monotonic);
    // What left first with each end, and the first ACK of exactly that.
    let mut sent = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet.leaves && packet.data > 0) {
        sent.entry(packet.end).or_insert(packet.at_ns);
    }
    let mut answered: Vec<(u64, u64)> = Vec::new();
    for packet in packets.iter().filter(|packet| !packet.leaves) {
        answered.extend(sent.remove(&packet.ack).map(|at| (packet.at_ns, packet.at_ns - at)));
    }
    let error = |trip: &RoundTrip| {
        let away = |(at, _): &&(u64, u64)| at.abs_diff(trip.seen_ns + offset);
        let (_, took) = answered.iter().min_by_key(away).expect("an answer");
        took.abs_diff(trip.seen_ns - trip.sent_ns)
    };
    let mut errors: Vec<u64> = trips.iter().map(error).collect();
    errors.sort_unstable();
    let median = errors[errors.len() / 2];
    // A millisecond is another packet; how near they are is printed, since a busy machine comes between the two.
    assert!(median < 1_000_000, "{median} ns are between program and capture, of {}", errors.len());
    println!(
        "{} round trips, {median} ns from the capture's in the median, {} at most",
        errors.len(),
        errors[errors.len() - 1]
    );
}

/// A socket that has every packet of a device, from its IP header on.
fn packet_socket(index: u32) -> OwnedFd {
    // SAFETY: the address is all zeros before it is filled, lives through the call, and the size is its own.
    let socket = unsafe {
        let all = (libc::ETH_P_ALL as u16).to_be();
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, i32::from(all));
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        let socket = OwnedFd::from_raw_fd(socket);
        let mut at: libc::sockaddr_ll = std::mem::zeroed();
        at.sll_family = libc::AF_PACKET as u16;
        at.sll_protocol = all;
        at.sll_ifindex = index as i32;
        let size = size_of_val(&at) as u32;
        assert_eq!(libc::bind(socket.as_raw_fd(), (&raw const at).cast(), size), 0);
        socket
    };
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).unwrap();
    setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).unwrap();
    socket
}
