//! Packets that the kernel dropped, as a bounded fold: of each reason, place and flow how many.
//!
//! ```text
//!   DroppedPacket ─ flow of its head ─► (reason, place, device, flow) ─► count      at most MOST rows; what finds no room is counted together
//! ```

use quell_netlink::drops::DroppedPacket;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};

/// How the flow of a router's word ends, that a packet was too big for its next link.
pub const TOO_BIG: &str = "a packet was too big";

/// Most rows that are kept.
pub const MOST: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct DropRow {
    /// Why, by the kernel's word, as "NO_SOCKET"; none of kernels before 5.17.
    pub reason: Option<String>,
    /// The function of the kernel that dropped it.
    pub place: String,
    /// The interface by which it came, or was to leave.
    pub device: Option<String>,
    /// Who sent it to whom: "UDP 10.0.0.1:4000 to 10.0.0.2:53".
    pub flow: String,
}

/// A reason, a place, a flow, and how many packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CountedDrop {
    #[serde(flatten)]
    pub row: DropRow,
    /// What the kernel's word means.
    pub meaning: Option<&'static str>,
    pub packets: u64,
}

/// Those with most packets first.
fn counted(rows: impl IntoIterator<Item = (DropRow, u64)>) -> Vec<CountedDrop> {
    let one = |(row, packets): (DropRow, u64)| {
        let meaning = row.reason.as_deref().and_then(meaning);
        CountedDrop { row, meaning, packets }
    };
    let mut rows: Vec<_> = rows.into_iter().map(one).collect();
    rows.sort_by(|a, b| b.packets.cmp(&a.packets).then_with(|| a.row.cmp(&b.row)));
    rows
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DroppedPackets {
    rows: HashMap<DropRow, u64>,
    /// Packets that found no room among the rows.
    pub others: u64,
}

impl DroppedPackets {
    pub fn take(&mut self, packet: DroppedPacket) {
        let flow = flow(packet.protocol, &packet.head);
        let DroppedPacket { reason, place, device, .. } = packet;
        let row = DropRow { reason, place, device, flow };
        if let Some(count) = self.rows.get_mut(&row) {
            *count += 1;
        } else if self.rows.len() < MOST {
            self.rows.insert(row, 1);
        } else {
            self.others += 1;
        }
    }

    pub fn rows(self) -> Vec<CountedDrop> {
        counted(self.rows)
    }
}

/// Rows that differ in the port of one end alone, as those of many short flows, become one that says how many ports it has: first those
/// of whoever sent, then those to whom.
pub fn merged(rows: &[CountedDrop]) -> Vec<CountedDrop> {
    let rows = rows.iter().map(|one| (one.row.clone(), one.packets)).collect();
    counted(merge(merge(rows, " to ", false), " to ", true))
}

/// Merges rows by the end before or behind the word.
fn merge(rows: Vec<(DropRow, u64)>, word: &str, behind: bool) -> Vec<(DropRow, u64)> {
    let mut groups: BTreeMap<DropRow, Vec<(DropRow, u64)>> = BTreeMap::new();
    for (row, count) in rows {
        let without = row.flow.split_once(word).and_then(|(from, to)| {
            let end = if behind { to } else { from };
            let (address, port) = end.rsplit_once(':')?;
            port.parse::<u16>().ok()?;
            Some(match behind {
                true => format!("{from}{word}{address} (PORTS)"),
                false => format!("{address} (PORTS){word}{to}"),
            })
        });
        let flow = without.unwrap_or_else(|| row.flow.clone());
        groups.entry(DropRow { flow, ..row.clone() }).or_default().push((row, count));
    }
    let one = |(mut key, group): (DropRow, Vec<(DropRow, u64)>)| {
        if let [row] = &group[..] {
            return row.clone();
        }
        key.flow = key.flow.replace("(PORTS)", &format!("({} ports)", group.len()));
        (key, group.iter().map(|(_, count)| count).sum())
    };
    groups.into_iter().map(one).collect()
}

/// Who sent a packet to whom, from its first bytes: those of its Ethernet header, or those of IP where it has none (yet).
fn flow(protocol: u16, head: &[u8]) -> String {
    let ethernet = head.get(12..14).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let tagged = head.get(16..18).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    // Within a header of Ethernet stands what the kernel took the packet for; behind a VLAN's tag too.
    let start = match ethernet {
        Some(kind) if kind == protocol => 14,
        Some(0x8100 | 0x88a8) if tagged == Some(protocol) => 18,
        _ => 0,
    };
    let network = head.get(start..).unwrap_or_default();
    let found = match i32::from(protocol) {
        libc::ETH_P_IP => ipv4(network),
        libc::ETH_P_IPV6 => ipv6(network),
        libc::ETH_P_ARP => Some("ARP".to_owned()),
        _ => None,
    };
    found.unwrap_or_else(|| format!("protocol {protocol:#06x}"))
}

fn ipv4(bytes: &[u8]) -> Option<String> {
    let header = bytes.first_chunk::<20>()?;
    if header[0] >> 4 != 4 {
        return None;
    }
    let address =
        |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    let rest = bytes.get(usize::from(header[0] & 15) * 4..).filter(|_| fragment == 0);
    Some(ends(
        header[9],
        &address(12).to_string(),
        &address(16).to_string(),
        rest.unwrap_or_default(),
    ))
}

fn ipv6(bytes: &[u8]) -> Option<String> {
    let header = bytes.first_chunk::<40>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let address = |at: usize| {
        let octets: [u8; 16] = header[at..at + 16].try_into().unwrap_or_default();
        format!("[{}]", Ipv6Addr::from(octets))
    };
    let (protocol, rest) = behind_extensions(header[6], &bytes[40..]);
    Some(ends(protocol, &address(8), &address(24), rest))
}

/// What stands behind the headers that only extend that of IPv6 (RFC 8200, section 4): its protocol, and its bytes where they are there.
fn behind_extensions(mut protocol: u8, mut rest: &[u8]) -> (u8, &[u8]) {
    loop {
        let Some([next, length, offset_high, offset_low]) = rest.first_chunk::<4>() else {
            return (protocol, rest);
        };
        let size = match i32::from(protocol) {
            libc::IPPROTO_HOPOPTS | libc::IPPROTO_ROUTING | libc::IPPROTO_DSTOPTS => {
                (usize::from(*length) + 1) * 8
            }
            // A later fragment begins in the middle.
            libc::IPPROTO_FRAGMENT if u16::from_be_bytes([*offset_high, *offset_low]) >> 3 != 0 => {
                return (*next, &[]);
            }
            libc::IPPROTO_FRAGMENT => 8,
            _ => return (protocol, rest),
        };
        (protocol, rest) = (*next, rest.get(size..).unwrap_or_default());
    }
}

/// Both ends, with ports where the protocol has some.
fn ends(protocol: u8, from: &str, to: &str, rest: &[u8]) -> String {
    let name = match protocol {
        1 => "ICMP",
        6 => "TCP",
        17 => "UDP",
        58 => "ICMPv6",
        132 => "SCTP",
        other => return format!("IP protocol {other} {from} to {to}"),
    };
    match rest.first_chunk::<4>() {
        Some([a, b, c, d]) if matches!(protocol, 6 | 17 | 132) => {
            let (source, target) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
            format!("{name} {from}:{source} to {to}:{target}")
        }
        // RFC 792, type 3 code 4; RFC 4443, type 2.
        Some([3, 4, ..]) if protocol == 1 => format!("{name} {from} to {to}, {TOO_BIG}"),
        Some([2, ..]) if protocol == 58 => format!("{name} {from} to {to}, {TOO_BIG}"),
        _ => format!("{name} {from} to {to}"),
    }
}

/// What a reason of the kernel means (`enum skb_drop_reason` of `include/net/dropreason.h`), for those that say something.
fn meaning(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "NOT_SPECIFIED" => "the kernel gives no reason there",
        "NO_SOCKET" => "no program listens there",
        "SOCKET_RCVBUFF" => "the socket's receive buffer is full",
        "SOCKET_BACKLOG" => "the socket is busy and its backlog is full",
        "SOCKET_FILTER" => "a filter of the socket refused it",
        "PKT_TOO_SMALL" => "it is shorter than its headers say",
        "TCP_CSUM" | "UDP_CSUM" | "IP_CSUM" | "ICMP_CSUM" => "its checksum is wrong",
        "NETFILTER_DROP" => "a rule of the firewall",
        "OTHERHOST" => "it is for another host",
        "IP_INHDR" => "its IP header is wrong",
        "IP_RPFILTER" => "its sender is not reached by the way it came (rp_filter)",
        "UNICAST_IN_L2_MULTICAST" => "it was sent to many and addressed to one",
        "XFRM_POLICY" => "a rule of IPsec",
        "IP_NOPROTO" => "nobody here speaks its protocol",
        "PROTO_MEM" => "TCP or UDP has all the memory that it may have",
        "TCP_AUTH_HDR" | "TCP_MD5NOTFOUND" | "TCP_MD5UNEXPECTED" | "TCP_MD5FAILURE" => {
            "its signature is missing or wrong"
        }
        "TCP_FLAGS" => "its TCP flags make no sense",
        "TCP_ZEROWINDOW" => "it came though the window was closed",
        "TCP_OLD_DATA" => "its data came before",
        "TCP_OVERWINDOW" => "it is beyond the window",
        "TCP_OFOMERGE" => "its data came before, out of order",
        "TCP_RFC7323_PAWS" => "its timestamp is older than one before",
        "TCP_INVALID_SEQUENCE" => "its sequence number is out of the window",
        "TCP_RESET" => "it reset the connection",
        "TCP_INVALID_SYN" => "a SYN within a connection",
        "TCP_CLOSE" => "the connection is closed",
        "TCP_OFO_QUEUE_PRUNE" | "TCP_OFO_DROP" => {
            "the receive buffer is full, and others have to come before it"
        }
        "IP_OUTNOROUTES" => "there is no route",
        "BPF_CGROUP_EGRESS" => "a BPF program of the group of processes",
        "IPV6DISABLED" => "IPv6 is switched off here",
        "NEIGH_CREATEFAIL" => "there is no room for the neighbour",
        "NEIGH_FAILED" => "the neighbour does not answer",
        "NEIGH_QUEUEFULL" => "too many wait for the neighbour's answer",
        "NEIGH_DEAD" => "the neighbour is gone",
        "TC_EGRESS" | "TC_INGRESS" => "a filter of the queue",
        "QDISC_DROP" => "a queue is full, or tells its sender to slow down",
        "CPU_BACKLOG" => "the CPU's backlog is full",
        "XDP" => "an XDP program",
        "UNHANDLED_PROTO" => "nobody here speaks its protocol",
        "SKB_GSO_SEG" => "it could not be cut into segments",
        "NOMEM" => "there is no memory",
        "TAP_FILTER" | "TAP_TXFILTER" => "a filter of the virtual machine's interface",
        "FULL_RING" => "the ring of the virtual interface is full",
        "DEV_READY" => "the device is not up",
        "DEV_HDR" | "HDR_TRUNC" => "its header can't be made",
        "DUP_FRAG" | "FRAG_REASM_TIMEOUT" | "FRAG_TOO_FAR" => "it is a fragment that can't be used",
        "PKT_TOO_BIG" => "it is larger than the way takes",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp4() -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend([0x0f, 0xa0, 0, 53, 0, 12, 0, 0]);
        bytes
    }

    #[test]
    fn who_sent_it_is_read_with_and_without_ethernet() {
        let wanted = "UDP 10.0.0.1:4000 to 10.0.0.2:53";
        assert_eq!(flow(0x0800, &udp4()), wanted);
        let mut ethernet = vec![2; 12];
        ethernet.extend([0x08, 0]);
        ethernet.extend(udp4());
        assert_eq!(flow(0x0800, &ethernet), wanted);
        let mut tagged = vec![2; 12];
        tagged.extend([0x81, 0, 0, 7, 0x08, 0]);
        tagged.extend(udp4());
        assert_eq!(flow(0x0800, &tagged), wanted);
        let mut v6 = vec![0x60, 0, 0, 0, 0, 8, 6, 64];
        v6.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        v6.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        v6.extend([0, 80, 0x9c, 0x40]);
        assert_eq!(flow(0x86dd, &v6), "TCP [fd00::1]:80 to [fd00::2]:40000");
        // Behind a router alert, as in what tells routers of groups; and in a fragment, the first or a later one.
        let with = |protocol: u8, header: [u8; 8]| {
            let mut bytes = v6.clone();
            bytes[6] = protocol;
            bytes.splice(40..40, header);
            flow(0x86dd, &bytes)
        };
        let ports = "TCP [fd00::1]:80 to [fd00::2]:40000";
        assert_eq!(with(0, [6, 0, 5, 2, 0, 0, 1, 0]), ports);
        assert_eq!(with(44, [6, 0, 0, 1, 0, 0, 0, 7]), ports);
        assert_eq!(with(44, [6, 0, 1, 0, 0, 0, 0, 7]), "TCP [fd00::1] to [fd00::2]");
    }

    #[test]
    fn what_is_cut_or_strange_is_named_by_what_is_known() {
        assert_eq!(flow(0x0800, &udp4()[..20]), "UDP 10.0.0.1 to 10.0.0.2");
        assert_eq!(flow(0x0800, &[0x45]), "protocol 0x0800");
        assert_eq!(flow(0x86dd, &udp4()), "protocol 0x86dd");
        assert_eq!(flow(0x88b5, &[]), "protocol 0x88b5");
        // A later fragment has no ports.
        let mut fragment = udp4();
        fragment[7] = 100;
        assert_eq!(flow(0x0800, &fragment), "UDP 10.0.0.1 to 10.0.0.2");
    }

    #[test]
    fn flows_that_differ_in_a_port_alone_are_told_together() {
        let row = |flow: &str| DropRow {
            reason: Some("NO_SOCKET".into()),
            place: "udp".into(),
            device: None,
            flow: flow.into(),
        };
        let flows = [
            "UDP 10.0.0.1:4000 to 10.0.0.2:53",
            "UDP 10.0.0.1:4001 to 10.0.0.2:53",
            "UDP 10.0.0.3:9 to 10.0.0.2:53",
            "TCP [fd00::1]:80 to [fd00::2]:1",
            "TCP [fd00::1]:80 to [fd00::2]:2",
            "ICMP 10.0.0.1 to 10.0.0.2",
        ];
        let rows = counted(flows.map(|flow| (row(flow), 10)));
        let merged: Vec<_> =
            super::merged(&rows).into_iter().map(|one| (one.row.flow, one.packets)).collect();
        let wanted = [
            ("TCP [fd00::1]:80 to [fd00::2] (2 ports)", 20),
            ("UDP 10.0.0.1 (2 ports) to 10.0.0.2:53", 20),
            ("ICMP 10.0.0.1 to 10.0.0.2", 10),
            ("UDP 10.0.0.3:9 to 10.0.0.2:53", 10),
        ];
        assert_eq!(merged, wanted.map(|(flow, count)| (flow.to_owned(), count)));
    }

    #[test]
    fn a_flood_from_very_many_is_counted_in_bounded_room() {
        let mut drops = DroppedPackets::default();
        let packet = |port: u16| {
            let mut head = udp4();
            head[20..22].copy_from_slice(&port.to_be_bytes());
            let reason = Some("NO_SOCKET".to_owned());
            DroppedPacket { reason, place: "udp".into(), device: None, protocol: 0x0800, head }
        };
        (0..2000).for_each(|port| drops.take(packet(port)));
        (0..3).for_each(|_| drops.take(packet(7)));
        assert_eq!(drops.others, 2000 - MOST as u64);
        let rows = drops.rows();
        let most = (rows[0].row.flow.as_str(), rows[0].packets);
        assert_eq!((rows.len(), most), (MOST, ("UDP 10.0.0.1:7 to 10.0.0.2:53", 4)));
    }
}
