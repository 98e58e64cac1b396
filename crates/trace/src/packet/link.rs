//! What stands before the network header: Ethernet, Linux cooked captures, loopback, or nothing.
//!
//! Numbers and layouts: <https://www.tcpdump.org/linktypes.html>.

use super::Skip;
use super::bytes::{u16_at, u32_at};

const NULL: u32 = 0;
const ETHERNET: u32 = 1;
/// Raw IP as the number is on some systems; 101 is the one that files should have.
const RAW: [u32; 3] = [12, 14, 101];
const LOOP: u32 = 108;
const COOKED: u32 = 113;
const IPV4: u32 = 228;
const IPV6: u32 = 229;
const COOKED_2: u32 = 276;

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
/// VLAN tags: 802.1Q, 802.1ad, and what was used before the latter.
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// More tags inside each other than any network has.
const MOST_TAGS: usize = 8;

/// Where the IP header begins.
pub(super) fn network_header(link: u32, bytes: &[u8]) -> Result<usize, Skip> {
    match link {
        ETHERNET => behind_type(bytes, 12),
        COOKED => behind_type(bytes, 14),
        COOKED_2 => match u16_at(bytes, 0).ok_or(Skip::CutShort)? {
            TYPE_IPV4 | TYPE_IPV6 => Ok(20),
            kind if VLAN.contains(&kind) => behind_type(bytes, 22),
            _ => Err(Skip::NotIp),
        },
        NULL | LOOP => {
            // NULL is in the order of the capturing machine, LOOP in network order; the families are small numbers.
            let family = u32_at(bytes, 0).ok_or(Skip::CutShort)?;
            match if family > 0xffff { family.swap_bytes() } else { family } {
                // IPv6 has another number on each system: Linux, NetBSD, FreeBSD, macOS.
                2 | 10 | 24 | 28 | 30 => Ok(4),
                _ => Err(Skip::NotIp),
            }
        }
        IPV4 | IPV6 => Ok(0),
        raw if RAW.contains(&raw) => Ok(0),
        other => Err(Skip::Link(other)),
    }
}

/// Where the header behind a 16-bit type at `at` begins, and behind all VLAN tags.
fn behind_type(bytes: &[u8], at: usize) -> Result<usize, Skip> {
    let mut at = at;
    for _ in 0..MOST_TAGS {
        match u16_at(bytes, at).ok_or(Skip::CutShort)? {
            TYPE_IPV4 | TYPE_IPV6 => return Ok(at + 2),
            kind if VLAN.contains(&kind) => at += 4,
            _ => return Err(Skip::NotIp),
        }
    }
    Err(Skip::NotIp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(zeros: usize, types: &[u16]) -> Vec<u8> {
        let mut bytes = vec![0; zeros];
        bytes.extend(types.iter().flat_map(|t| t.to_be_bytes()));
        bytes
    }

    #[test]
    fn vlan_tags_are_passed_over() {
        assert_eq!(network_header(ETHERNET, &frame(12, &[0x0800])), Ok(14));
        assert_eq!(network_header(ETHERNET, &frame(12, &[0x8100, 7, 0x86dd])), Ok(18));
        let twice = frame(12, &[0x88a8, 7, 0x8100, 8, 0x0800]);
        assert_eq!(network_header(ETHERNET, &twice), Ok(22));
        assert_eq!(network_header(ETHERNET, &frame(12, &[0x0806])), Err(Skip::NotIp));
        assert_eq!(network_header(ETHERNET, &frame(12, &[0x8100, 7])), Err(Skip::CutShort));
    }

    #[test]
    fn cooked_captures_have_their_type_elsewhere() {
        assert_eq!(network_header(COOKED, &frame(14, &[0x86dd])), Ok(16));
        assert_eq!(network_header(COOKED_2, &frame(0, &[0x0800])), Ok(20));
    }

    #[test]
    fn loopback_is_read_in_either_order() {
        assert_eq!(network_header(NULL, &[2, 0, 0, 0]), Ok(4));
        assert_eq!(network_header(NULL, &[0, 0, 0, 30]), Ok(4));
        assert_eq!(network_header(LOOP, &[0, 0, 0, 24]), Ok(4));
        assert_eq!(network_header(NULL, &[7, 0, 0, 0]), Err(Skip::NotIp));
    }

    #[test]
    fn a_link_that_is_not_known_is_named() {
        assert_eq!(network_header(127, &[0; 64]), Err(Skip::Link(127)));
    }
}
