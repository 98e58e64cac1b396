//! Large packets do not arrive, small ones do.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::MtuBlackHole,
    name: "mtu-black-hole",
    title: "large packets do not arrive, small ones do",
    sentence: "large packets of {sender} do not arrive, small ones do",
    rule: "full-sized segments are sent again and again while small ones are acknowledged; or all above some size is lost, and no ICMP says so",
    severity: Severity::Serious,
    why: "a hop drops what is too big for it, and its message about that is lost: connections open, and then hang",
    remedies: &[
        "mend the hop or its firewall: ICMP type 3 code 4, ICMPv6 type 2",
        "net.ipv4.tcp_mtu_probing=1 at the sender finds a size that passes",
        "clamp the MSS at the router",
    ],
    source: "RFC 2923; RFC 4821",
};
