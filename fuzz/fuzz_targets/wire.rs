//! Any bytes as each packet and each hello: no panic, and what was read comes out as it went in.
//!
//! ```text
//!   bytes ──► icmp  stamp  oneway  hello of a flow  hello of calls        the first byte says which
//!             with ICMP, its errors too: what they quote, labels behind it
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_wire::hop_probe::{Quote, UdpFlow};
use quell_wire::oneway::{self, OneWay};
use quell_wire::stamp::{self, Presence, ReflectorPacket, SenderPacket};
use quell_wire::{Hello, hop_probe, icmp, icmp_error};

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 5 {
        0 => echo(bytes),
        1 => reflected(bytes),
        2 => one_way(bytes),
        3 => flow_hello(bytes),
        _ => call_hello(bytes),
    }
});

fn echo(bytes: &[u8]) {
    for ipv6 in [false, true] {
        error(ipv6, bytes);
        for reply in [icmp::reply(ipv6, bytes), icmp::quoted_request(ipv6, bytes)] {
            let Some(reply) = reply else { continue };
            assert!(bytes.len() >= icmp::HEADER);
            let number = reply.whole_number();
            assert_eq!(number.is_some(), bytes.len() >= icmp::HEADER + icmp::FULL);
            let next = number.unwrap_or(1 << 20);
            let request = icmp::request(ipv6, reply.identifier, 7, next, reply.payload.len());
            let is_of_it =
                next as u16 == reply.short_seq && request.ends_with(&bytes[icmp::HEADER..]);
            assert_eq!(reply.answers(&request), is_of_it);
            assert_eq!(reply.quotes(&request), is_of_it, "nothing of it was cut");
            if let Some(seq) = icmp::widen16(reply.short_seq, next) {
                assert_eq!(seq as u16, reply.short_seq);
                assert!(seq < next && next - seq <= 1 << 16);
            }
        }
    }
}

fn error(ipv6: bool, bytes: &[u8]) {
    assert!(icmp_error::labels(bytes).len() <= icmp_error::MOST_LABELS);
    let Some(error) = icmp_error::read(ipv6, bytes) else { return };
    let extension = error.extension.unwrap_or_default();
    assert!(error.quoted.rest.len() + extension.len() < bytes.len());
    assert!(icmp_error::labels(extension).len() <= icmp_error::MOST_LABELS);
    assert_eq!(error.quoted.destination.is_ipv6(), ipv6);
    let _ = error.quoted.ports();
    hop(error.quoted.rest);
}

/// Any bytes as what is quoted of a path's datagram: a number only where its flow sent that very start of a packet.
fn hop(payload: &[u8]) {
    let secret = payload.first_chunk().map_or(7, |first| u64::from_be_bytes(*first));
    let end = |port| std::net::SocketAddr::from(([192, 0, 2, 1], port));
    let flow = UdpFlow { from: end(1), to: end(2), secret };
    for next in [0, 5, 1 << 33] {
        if let Quote::Number(number) = flow.quoted(payload, next) {
            assert!(number < next);
            assert!(payload.starts_with(&flow.datagram(number, hop_probe::LEAST)));
        }
        let before = flow.quoted_before(payload, true, next);
        assert!(before == flow.quoted(payload, next) || before == Quote::Short);
    }
}

fn reflected(bytes: &[u8]) {
    if let Some(presence) = Presence::read(bytes) {
        let mut again = bytes.to_vec();
        presence.tell(&mut again);
        assert_eq!(Presence::read(&again), Some(presence));
    }
    let sender = SenderPacket::read(bytes);
    let mut reflected = bytes.to_vec();
    let done = ReflectorPacket::reflect(&mut reflected, 1, 2, 3, 64);
    assert_eq!(done, sender.is_some());
    assert_eq!(reflected.len(), bytes.len(), "a reply is as large as its request");
    if let (Some(sender), true) = (sender, done) {
        let reflected = ReflectorPacket::read(&reflected).expect("it was just written");
        assert_eq!(reflected.sender_seq, sender.seq);
        assert_eq!(reflected.sender_sent_ns, sender.sent_ns);
        assert_eq!((reflected.ssid, reflected.sender_ttl), (sender.ssid, 64));
        if let Some(seq) = stamp::widen32(sender.seq, sender.sent_ns) {
            assert_eq!(seq as u32, sender.seq);
        }
    }
    let _ = ReflectorPacket::read(bytes);
}

fn one_way(bytes: &[u8]) {
    let Some(packet) = OneWay::read(bytes) else { return };
    let mut again =
        OneWay::template(packet.name, packet.each, bytes.len()).expect("it came in this size");
    oneway::restamp(&mut again, packet.seq, packet.sent_ns);
    assert_eq!(OneWay::read(&again), Some(packet));
}

fn flow_hello(bytes: &[u8]) {
    let Some(hello) = bytes.first_chunk().and_then(Hello::read) else { return };
    let again = hello.write().expect("what was read can be written");
    assert_eq!(Hello::read(&again), Some(hello));
}

fn call_hello(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk() else { return };
    let Some(hello) = quell_rr::protocol::Hello::read(bytes) else { return };
    assert_eq!(hello.write(), *bytes);
    assert!(hello.reply <= hello.request);
}
