//! What the u32 filter compares, in the words in which people ask `tc` for it.
//!
//! ```text
//!   0a090007/ffffffff at 16  ──► ip dst 10.9.0.7        00000016/0000ffff at 20 ──► ip dport 22
//! ```
//!
//! The kernel keeps 32-bit comparisons only; where in a packet they lie tells what was meant, as far as the protocol is known.

use quell_tc::{IpProto, MatchKey};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The protocol within IPv4 that a filter asks for.
pub fn ip_protocol(keys: &[MatchKey]) -> Option<u8> {
    let asks = |key: &&MatchKey| (key.at, key.mask, key.next_header) == (8, 0x00ff_0000, false);
    keys.iter().find(asks).map(|key| (key.value >> 16) as u8)
}

/// That a table is looked through next.
pub fn link(table: &str) -> String {
    format!("then table {table}:")
}

/// All comparisons of a filter that looks at `protocol`; `within` is the protocol within that where a filter before it has asked for one.
pub fn words(protocol: &str, keys: &[MatchKey], within: Option<u8>) -> Vec<String> {
    let keys: Vec<MatchKey> = keys.iter().copied().filter(|key| key.mask != 0).collect();
    match protocol {
        "ip" => {
            let icmp = ip_protocol(&keys).or(within) == Some(1);
            let words = |key: &MatchKey| match icmp {
                true => self::icmp(key).or_else(|| ipv4(key)),
                false => ipv4(key),
            };
            keys.iter().map(|key| words(key).unwrap_or_else(|| raw(key))).collect()
        }
        "ipv6" => ipv6(&keys),
        _ => keys.iter().map(raw).collect(),
    }
}

fn raw(key: &MatchKey) -> String {
    let from = if key.next_header { "nexthdr+" } else { "" };
    format!("u32 {:#x} {:#x} at {from}{}", key.value, key.mask, key.at)
}

fn ipv4(key: &MatchKey) -> Option<String> {
    let MatchKey { value, mask, .. } = *key;
    if key.next_header {
        return ports("ip", key, 0);
    }
    match (key.at, mask) {
        (0, m) if m & !0x00ff_0000 == 0 => Some(byte("ip tos", value >> 16, m >> 16)),
        (8, 0x00ff_0000) => Some(format!("ip protocol {}", IpProto((value >> 16) as u8))),
        (8, 0xff00_0000) => Some(format!("ip ttl {}", value >> 24)),
        (12 | 16, m) if m.leading_ones() + m.trailing_zeros() == 32 => {
            let way = if key.at == 12 { "src" } else { "dst" };
            let mut text = format!("ip {way} {}", Ipv4Addr::from(value));
            if m != u32::MAX {
                // A `String` takes whatever is written.
                let _ = write!(text, "/{}", m.leading_ones());
            }
            Some(text)
        }
        (20, _) => ports("ip", key, 20),
        _ => None,
    }
}

/// The first bytes of ICMP, which are no ports: type and code.
fn icmp(key: &MatchKey) -> Option<String> {
    if !(key.next_header && key.at == 0 || !key.next_header && key.at == 20) {
        return None;
    }
    let (kind, code) = (key.value >> 24, (key.value >> 16) & 0xff);
    match key.mask {
        0xff00_0000 => Some(format!("icmp type {kind}")),
        0x00ff_0000 => Some(format!("icmp code {code}")),
        0xffff_0000 => Some(format!("icmp type {kind} code {code}")),
        _ => None,
    }
}

fn byte(what: &str, value: u32, mask: u32) -> String {
    if mask == 0xff { format!("{what} {value:#x}") } else { format!("{what} {value:#x} {mask:#x}") }
}

fn ports(family: &str, key: &MatchKey, at: i32) -> Option<String> {
    let port = |way, value: u32, mask: u32| match mask {
        0xffff => format!("{family} {way} {value}"),
        _ => format!("{family} {way} {value:#x} {mask:#x}"),
    };
    match key.mask {
        _ if key.at != at => None,
        m if m & 0xffff_0000 == 0 => Some(port("dport", key.value, m)),
        m if m & 0x0000_ffff == 0 => Some(port("sport", key.value >> 16, m >> 16)),
        _ => None,
    }
}

fn ipv6(keys: &[MatchKey]) -> Vec<String> {
    let mut words = Vec::new();
    for (way, first) in [("src", 8), ("dst", 24)] {
        let part = |key: &&MatchKey| !key.next_header && key.at >= first && key.at < first + 16;
        let (mut address, mut mask) = (0u128, 0u128);
        for key in keys.iter().filter(part) {
            let shift = 96 - (key.at - first) * 8;
            if key.at % 4 == 0 {
                address |= u128::from(key.value) << shift;
                mask |= u128::from(key.mask) << shift;
            }
        }
        if mask != 0 && mask.leading_ones() + mask.trailing_zeros() == 128 {
            let mut text = format!("ip6 {way} {}", Ipv6Addr::from(address));
            if mask != u128::MAX {
                let _ = write!(text, "/{}", mask.leading_ones());
            }
            words.push(text);
        } else {
            words.extend(keys.iter().filter(part).map(raw));
        }
    }
    let rest = keys.iter().filter(|key| key.next_header || !(8..40).contains(&key.at));
    words.extend(rest.map(|key| ipv6_field(key).unwrap_or_else(|| raw(key))));
    words
}

fn ipv6_field(key: &MatchKey) -> Option<String> {
    let MatchKey { value, mask, .. } = *key;
    if key.next_header {
        return ports("ip6", key, 0);
    }
    match (key.at, mask) {
        (0, m) if m & !0x0ff0_0000 == 0 => Some(byte("ip6 priority", value >> 20, m >> 20)),
        (4, 0x0000_ff00) => Some(format!("ip6 protocol {}", IpProto((value >> 8) as u8))),
        (40, _) => ports("ip6", key, 40),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(protocol: &str, keys: &[(u32, u32, i32)]) -> String {
        let key =
            |&(value, mask, at): &(u32, u32, i32)| MatchKey { value, mask, at, next_header: false };
        words(protocol, &keys.iter().map(key).collect::<Vec<_>>(), None).join(", ")
    }

    #[test]
    fn comparisons_of_ipv4_are_told_as_they_were_asked_for() {
        assert_eq!(
            said("ip", &[(0x0a09_0007, u32::MAX, 16), (0x0001_0000, 0x00ff_0000, 8)]),
            "ip dst 10.9.0.7, ip protocol icmp"
        );
        assert_eq!(said("ip", &[(0x00b8_0000, 0x00fc_0000, 0)]), "ip tos 0xb8 0xfc");
        assert_eq!(
            said("ip", &[(22, 0xffff, 20), (0x0a00_0000, 0xff00_0000, 12)]),
            "ip dport 22, ip src 10.0.0.0/8"
        );
    }

    #[test]
    fn the_four_parts_of_an_ipv6_address_are_one() {
        let whole =
            [(0x2001_0db8, u32::MAX, 24), (0, u32::MAX, 28), (0, u32::MAX, 32), (1, u32::MAX, 36)];
        assert_eq!(said("ipv6", &whole), "ip6 dst 2001:db8::1");
        assert_eq!(
            said("ipv6", &[(0x2001_0db8, u32::MAX, 8), (5060, 0xffff, 40)]),
            "ip6 src 2001:db8::/32, ip6 dport 5060"
        );
    }

    #[test]
    fn what_has_no_word_is_told_by_its_bits_and_what_matches_all_not_at_all() {
        assert_eq!(said("ip", &[(5, 0x00ff_00ff, 16)]), "u32 0x5 0xff00ff at 16");
        assert_eq!(said("all", &[(0x0a09_0007, u32::MAX, 16)]), "u32 0xa090007 0xffffffff at 16");
        assert_eq!(said("all", &[(0, 0, 0)]), "");
    }
}
