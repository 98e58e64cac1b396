//! Those who are named, behind address translation: what leaves has all the router's address where it is queued, and a table of nftables wrote
//! its host's own IPv4 address into its mark (`quell_netlink::hosts_table`). The kernel's filter by marks finds it there.

use quell_tc::{Filter, Fw, Handle, Prefix};
use std::net::{IpAddr, Ipv4Addr};

/// The filter by mark of those who have addresses of this prefix; none for IPv6, which has no part in it, and for all addresses, which are
/// no mark's.
pub(crate) fn by_mark(prefix: Prefix, class: Handle, prio: u16) -> Option<Filter> {
    let IpAddr::V4(address) = prefix.address else { return None };
    // A mark holds the address as it lies on the wire.
    let mark = u32::from_ne_bytes(address.octets());
    let bits = u32::MAX.checked_shl(32 - u32::from(prefix.length))?;
    let mask = u32::from_ne_bytes(Ipv4Addr::from(bits).octets());
    if mark == 0 {
        return None;
    }
    // The kernel does not show a mask of all bits.
    let mut filter = Filter::new(Fw { mask: Some(mask).filter(|m| *m != u32::MAX) }, Some(class));
    filter.handle = Some(mark);
    filter.prio = Some(prio);
    Some(filter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_tc::FilterKind;

    #[test]
    fn a_mark_is_the_address_as_it_lies_on_the_wire() {
        let class = Handle::class(2, 1);
        let filter = |text: &str| by_mark(text.parse().expect("a prefix"), class, 1);
        let of = |text: &str| filter(text).map(|f| (f.handle, f.kind));
        let wire = |bytes| Some(u32::from_ne_bytes(bytes));
        assert_eq!(
            of("10.0.1.7/32"),
            Some((wire([10, 0, 1, 7]), FilterKind::Fw(Fw { mask: None })))
        );
        let mask = wire([255, 255, 255, 248]);
        assert_eq!(of("192.0.2.8/29"), Some((wire([192, 0, 2, 8]), FilterKind::Fw(Fw { mask }))));
        assert_eq!((of("2001:db8::7/128"), of("0.0.0.0/0")), (None, None));
    }
}
