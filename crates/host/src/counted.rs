//! What a host counts that matters to a flow: of its TCP and UDP, of one device and its queues.

use crate::counters::pairs;
use quell_netlink::tc::dump_qdiscs;
use quell_netlink::{LinkName, Stack};
use quell_wire::iperf3::HostCounters;
use std::collections::BTreeMap;

/// What the host's kernel counted since its start; of the calling thread's network namespace. What can't be read is 0.
pub fn now(device: Option<&str>) -> HostCounters {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let mut all =
        from_text(&read("/proc/thread-self/net/snmp"), &read("/proc/thread-self/net/netstat"));
    if let Some(device) = device {
        of_device(device, &mut all);
    }
    all
}

/// How far counters went from one look to another.
pub fn between(before: &HostCounters, after: &HostCounters) -> HostCounters {
    let less = u64::saturating_sub;
    HostCounters {
        retransmitted: less(after.retransmitted, before.retransmitted),
        timeouts: less(after.timeouts, before.timeouts),
        tcp_dropped: less(after.tcp_dropped, before.tcp_dropped),
        udp_receive_dropped: less(after.udp_receive_dropped, before.udp_receive_dropped),
        udp_send_dropped: less(after.udp_send_dropped, before.udp_send_dropped),
        device_receive_dropped: less(after.device_receive_dropped, before.device_receive_dropped),
        device_send_dropped: less(after.device_send_dropped, before.device_send_dropped),
        device_errors: less(after.device_errors, before.device_errors),
        queue_dropped: less(after.queue_dropped, before.queue_dropped),
    }
}

fn from_text(snmp: &str, netstat: &str) -> HostCounters {
    let (snmp, netstat) = (pairs(snmp), pairs(netstat));
    let of = |all: &BTreeMap<String, u64>, name: &str| all.get(name).copied().unwrap_or(0);
    let dropped = ["TCPRcvQDrop", "TCPBacklogDrop", "PruneCalled", "RcvPruned", "OfoPruned"];
    HostCounters {
        retransmitted: of(&snmp, "Tcp.RetransSegs"),
        timeouts: of(&netstat, "TcpExt.TCPTimeouts"),
        tcp_dropped: dropped.iter().map(|name| of(&netstat, &format!("TcpExt.{name}"))).sum(),
        // Those of IPv6 stand elsewhere (/proc/net/snmp6) and are counted by both since Linux 5.x only in part.
        udp_receive_dropped: of(&snmp, "Udp.RcvbufErrors"),
        udp_send_dropped: of(&snmp, "Udp.SndbufErrors"),
        ..HostCounters::default()
    }
}

fn of_device(device: &str, all: &mut HostCounters) {
    let Ok(name) = device.parse::<LinkName>() else { return };
    let Ok(mut stack) = Stack::open() else { return };
    let Ok(link) = stack.link(&name) else { return };
    all.device_receive_dropped = link.stats.rx_dropped;
    all.device_send_dropped = link.stats.tx_dropped;
    all.device_errors = link.stats.rx_errors + link.stats.tx_errors;
    if let Ok(queues) = dump_qdiscs(stack.socket(), link.index) {
        // A queue's drops are counted again by those above it: the root's are all.
        let roots = queues.iter().filter(|q| q.parent == quell_tc::Handle::ROOT);
        all.queue_dropped = roots.map(|q| u64::from(q.stats.drops)).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names_in_any_order() {
        let snmp = "Tcp: RtoAlgorithm RetransSegs\nTcp: 1 77\nUdp: InErrors RcvbufErrors SndbufErrors\nUdp: 1 5 6\n\
                    UdpLite: InErrors RcvbufErrors\nUdpLite: 9 9\n";
        let netstat = "TcpExt: PruneCalled TCPTimeouts TCPRcvQDrop\nTcpExt: 2 3 4\nIpExt: InNoRoutes\nIpExt: 1\n";
        let found = from_text(snmp, netstat);
        let right = HostCounters {
            retransmitted: 77,
            timeouts: 3,
            tcp_dropped: 6,
            udp_receive_dropped: 5,
            udp_send_dropped: 6,
            ..HostCounters::default()
        };
        assert_eq!(found, right);
        assert_eq!(from_text("", "TcpExt: PruneCalled\n"), HostCounters::default());
    }

    #[test]
    fn a_device_that_is_not_there_has_counted_nothing() {
        now(Some("lo"));
        assert_eq!(now(Some("none such device")).device_errors, 0);
    }
}
