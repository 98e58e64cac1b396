//! The hash of flows and hosts, as `docs/classifier.md` describes it. The same in C is `../../src/bpf/hash.h`.

use super::parse::{Address, Headers, Packet, Parsed};
use quell_classify::{Key, Keys};

fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 32)
}

fn finish(hash: u64) -> u32 {
    (hash.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as u32
}

/// The hash as a number below `count`.
pub fn scale(hash: u32, count: u32) -> u32 {
    ((u64::from(hash) * u64::from(count)) >> 32) as u32
}

/// IPv4 has no upper half.
fn mix_address(hash: u64, address: Address) -> u64 {
    let hash = if address.high == 0 { hash } else { mix(hash, address.high) };
    mix(hash, address.low)
}

/// The five keys of one header, in the order of [`Key::ALL`].
fn mix_headers(mut hash: u64, keys: Keys, five: &[Key], h: &Headers) -> u64 {
    for (key, address) in [(five[0], h.src), (five[1], h.dst)] {
        if keys.has(key) {
            hash = mix_address(hash, address);
        }
    }
    let ports = [
        (five[2], u64::from(h.proto) << 32),
        (five[3], u64::from(h.src_port) << 16),
        (five[4], u64::from(h.dst_port)),
    ];
    mix_selected(hash, keys, &ports)
}

/// One word of the selected keys, whose bits lie side by side.
fn mix_selected(hash: u64, keys: Keys, of: &[(Key, u64)]) -> u64 {
    let selected = || of.iter().filter(|(key, _)| keys.has(*key));
    if selected().count() == 0 { hash } else { mix(hash, selected().map(|(_, bits)| bits).sum()) }
}

/// The hash of a packet's flow.
pub fn flow_hash(seed: u64, keys: Keys, packet: &Packet<'_>, parsed: &Parsed) -> u32 {
    let mut hash = mix_headers(seed, keys, &Key::ALL[..5], &parsed.outer);
    if parsed.tunnels > 0 {
        hash = mix_headers(hash, keys, &Key::ALL[5..10], &parsed.inner);
    }
    let rest = [
        (Key::Mark, u64::from(packet.mark)),
        (Key::Dscp, u64::from(parsed.outer.dscp) << 32),
        (Key::Vlan, u64::from(parsed.vlan) << 40),
    ];
    finish(mix_selected(hash, keys, &rest))
}

/// The hash of a host.
pub fn host_hash(seed: u64, host: Address) -> u32 {
    finish(mix_address(seed, host))
}
