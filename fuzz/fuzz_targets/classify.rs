//! Any bytes as a packet for the classifier's twin: no panic, a class within what was configured, the same for the same packet, and for each
//! host a class of its own while there are some.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_classify::{Config, HostKey, Hosts, Keys, Layout, Parts};
use quell_tc::Handle;
use twin::{Packet, Twin, parse};

#[path = "../../crates/classify/tests/twin/mod.rs"]
mod twin;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[choice, mark], frame)) = bytes.split_first_chunk() else { return };
    let Some(packet) = Packet::of_frame(frame) else { return };
    let packet = Packet { mark: mark.into(), ..packet };
    if let Some(parsed) = parse(&packet, 4789) {
        assert!(parsed.tunnels <= 2 && parsed.vlan <= 0xfff);
        assert!(parsed.outer.dscp < 64 && parsed.inner.dscp < 64);
        assert!(parsed.tunnels > 0 || parsed.inner == parsed.outer);
    }
    let by = [HostKey::Src, HostKey::Dst, HostKey::TunnelSrc, HostKey::TunnelDst, HostKey::Mark, HostKey::Vlan];
    let classes = 1 + u16::from(choice);
    let parts = Parts {
        keys: Keys::ALL_FLOWS,
        flows: 16,
        hosts: Some(Hosts::new(by[usize::from(choice) % by.len()], classes)),
        layout: Layout::Classes { major: 1, base: 1, host_step: 16, tier_step: 0, flow_step: 1 },
        other: Some(Handle::class(1, 0xfff0)),
        ..Parts::flows(1, 16)
    };
    let mut twin = Twin::new(&Config::new(parts).expect("it makes sense"));
    let first = twin.classify(&packet, 1).class;
    assert_eq!(first >> 16, 1);
    let minor = (first & 0xffff) as u16;
    assert!((1..=classes * 16).contains(&minor) || minor == 0xfff0);
    assert_eq!(twin.classify(&packet, 2).class, first);
    assert_eq!(twin.sharing(), 0);
});
