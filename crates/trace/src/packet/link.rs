//! What stands before the network header: Ethernet, Linux cooked captures, loopback, PPP, or nothing.
//!
//! Numbers and layouts: <https://www.tcpdump.org/linktypes.html>.

use super::ip::{u16_at, u32_at};
use super::skip::{NotTcp, Skip};

/// What comes next in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Ethernet,
    /// What an Ethernet type says.
    Type(u16),
    Ppp,
    /// IP of either version.
    Ip,
}

/// How many bytes belong to the link alone, and what comes behind them.
pub(super) fn network_header(link: u32, bytes: &[u8]) -> Result<(usize, Next), Skip> {
    let kind = |at| u16_at(bytes, at).map(Next::Type).ok_or(Skip::CutShort);
    match link {
        // EN10MB, LINUX_SLL, LINUX_SLL2.
        1 => Ok((0, Next::Ethernet)),
        113 => Ok((16, kind(14)?)),
        276 => Ok((20, kind(0)?)),
        // NULL is in the order of the capturing machine, LOOP in network order; the families are small numbers.
        0 | 108 => {
            let family = u32_at(bytes, 0).ok_or(Skip::CutShort)?;
            match if family > 0xffff { family.swap_bytes() } else { family } {
                // IPv6 has another number on each system: Linux, NetBSD, FreeBSD, macOS.
                2 | 10 | 24 | 28 | 30 => Ok((4, Next::Ip)),
                other => Err(Skip::NotIp(NotTcp::Family(other))),
            }
        }
        // PPP, PPP_HDLC, PPP_ETHER.
        9 | 50 => Ok((0, Next::Ppp)),
        51 => Ok((0, Next::Type(libc::ETH_P_PPP_SES as u16))),
        // RAW, as it is on some systems and as files should have it; IPV4, IPV6.
        12 | 14 | 101 | 228 | 229 => Ok((0, Next::Ip)),
        other => Err(Skip::Link(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cooked_captures_have_their_type_elsewhere() {
        let mut bytes = [0; 20];
        bytes[14..16].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(network_header(113, &bytes), Ok((16, Next::Type(0x86dd))));
        assert_eq!(network_header(276, &[8, 0]), Ok((20, Next::Type(0x0800))));
        assert_eq!(network_header(113, &bytes[..15]), Err(Skip::CutShort));
    }

    #[test]
    fn loopback_is_read_in_either_order() {
        assert_eq!(network_header(0, &[2, 0, 0, 0]), Ok((4, Next::Ip)));
        assert_eq!(network_header(0, &[0, 0, 0, 30]), Ok((4, Next::Ip)));
        assert_eq!(network_header(108, &[0, 0, 0, 24]), Ok((4, Next::Ip)));
        let foreign = Err(Skip::NotIp(NotTcp::Family(7)));
        assert_eq!(network_header(0, &[0, 0, 0, 7]), foreign);
    }

    #[test]
    fn a_link_that_is_not_known_is_named() {
        assert_eq!(network_header(127, &[0; 64]), Err(Skip::Link(127)));
    }
}
