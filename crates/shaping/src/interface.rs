//! An interface: what a person should know before one queue is put there, its IFB, and why packets may go around its queues.

use quell_netlink::flowtable::{self, Flowtable};
use quell_netlink::link::Link;
use quell_netlink::offload::Offloads;
use quell_netlink::{LinkName, Stack};
use quell_policy::LinePolicy;
use quell_tc::Qdisc;
use quell_units::Rate;
use std::net::IpAddr;

/// What there is to say of an interface, by its name and number.
pub fn remarks(name: &str, index: u32, all: &LinePolicy) -> Vec<String> {
    let link = Stack::open().and_then(|mut stack| stack.link_at(index)).ok();
    let queues =
        link.as_ref().filter(|link| has_a_queue_each(link)).and_then(|link| link.tx_queues);
    let kind = link.and_then(|link| link.kind);
    let mut said = Vec::new();
    said.extend(one_in_place_of(name, queues.unwrap_or(1), all));
    // Of a tun its driver says 10 Mbit/s, which nothing holds it to.
    if kind.as_deref() != Some("tun") {
        said.extend(quell_host::end::speed(name).and_then(|megabits| above(name, megabits, all)));
    }
    said
}

/// Whether its transmit queues have a queue of packets each, as those of hardware have. Most interfaces that are made by software have none at
/// all, however many they count (`IFF_NO_QUEUE`), unless somebody gives them some.
fn has_a_queue_each(link: &Link) -> bool {
    let by_default = matches!(link.kind.as_deref(), None | Some("ifb" | "tun"));
    by_default || link.qdisc.as_deref().is_some_and(|root| root.starts_with("mq"))
}

/// That one queue holds the rate where the interface has several.
fn one_in_place_of(name: &str, queues: u32, all: &LinePolicy) -> Option<String> {
    let shapes = match &all.tree {
        Some(tree) => tree.queue.as_ref().is_some_and(|root| !matches!(root.qdisc, Qdisc::Mq(_))),
        None => all.rates().0.is_some(),
    };
    (queues > 1 && shapes).then(|| {
        format!(
            "one queue in place of {queues}: {name} has {queues} transmit queues, and a rate is held by one alone, at which all CPUs take turns; \
             `off` gives the {queues} back"
        )
    })
}

/// That a rate is more than the interface itself carries.
fn above(name: &str, megabits: u32, all: &LinePolicy) -> Option<String> {
    let speed = Rate::from_bps(u64::from(megabits) * 1_000_000);
    let (up, down) = all.rates();
    let one = |way: &str, rate: Option<Rate>| {
        rate.filter(|rate| *rate > speed).map(|rate| format!("{way} {rate}"))
    };
    let above: Vec<String> = [one("up", up), one("down", down)].into_iter().flatten().collect();
    (!above.is_empty()).then(|| {
        format!(
            "{} is above the {speed} that {name} itself carries, as its driver says: packets wait in it or before it, and not in these queues; \
             give less than that",
            above.join(", ")
        )
    })
}

/// The IFB that queues what comes in at an interface.
pub fn ifb_of(device: &str) -> String {
    quell_lab::build::ifb_name(device)
}

/// The address by which an IFB is known to be ours: that of its interface's name, hashed, marked as given by hand.
pub fn mac_of(device: &str) -> [u8; 6] {
    let hash = quell_tc::hash(device.bytes()).to_be_bytes();
    [0x02, b'Q', b'l', hash[5], hash[6], hash[7]]
}

/// Why packets go around the queues of a device, as far as this machine itself tells, between this machine and `to`.
pub fn ways_around(device: &str, to: IpAddr) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(leaves_by(to).and_then(|by| another_way(device, to, &by)));
    if forwards_by_itself(device) == Some(true) {
        found.push(format!(
            "hw-tc-offload is on, so that {device} may forward past its queues: ethtool -K {device} hw-tc-offload off"
        ));
    }
    let tables = flowtable::all().unwrap_or_default();
    found.extend(tables.iter().filter_map(|table| short_way(device, table)));
    found
}

/// The interface by which packets leave.
fn leaves_by(to: IpAddr) -> Option<String> {
    let mut stack = Stack::open().ok()?;
    let index = stack.leaves_by(to).ok()??;
    Some(stack.link_at(index).ok()?.name)
}

fn forwards_by_itself(device: &str) -> Option<bool> {
    let features = Offloads::open().ok()?.features(&device.parse::<LinkName>().ok()?).ok()?;
    Some(features.active.contains("hw-tc-offload"))
}

fn another_way(device: &str, to: IpAddr, by: &str) -> Option<String> {
    (by != device).then(|| format!("the way to {to} leaves by {by}, and not by {device}"))
}

fn short_way(device: &str, table: &Flowtable) -> Option<String> {
    let Flowtable { table, name, devices, in_hardware } = table;
    let hardware = if *in_hardware { " in hardware" } else { "" };
    devices.iter().any(|one| one == device).then(|| {
        format!("connections take a short way{hardware} past {device}: nftables' flowtable {name} in {table}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(up: Option<u64>, down: Option<u64>) -> LinePolicy {
        let rate = |megabits: u64| Rate::from_bps(megabits * 1_000_000);
        LinePolicy { up: up.map(rate), down: down.map(rate), ..LinePolicy::default() }
    }

    #[test]
    fn several_transmit_queues_are_told_where_one_takes_their_place() {
        let said = one_in_place_of("eth0", 4, &rates(Some(9), None)).expect("it is said");
        assert!(said.starts_with("one queue in place of 4: eth0"), "{said}");
        assert_eq!(one_in_place_of("eth0", 1, &rates(Some(9), None)), None);
        assert_eq!(one_in_place_of("eth0", 4, &rates(None, Some(9))), None, "they stay");
        let tree = |text: &str| LinePolicy {
            tree: Some(toml::from_str(text).expect("a tree")),
            ..LinePolicy::default()
        };
        assert_eq!(one_in_place_of("eth0", 4, &tree("queue = \"mq\"")), None);
        assert!(one_in_place_of("eth0", 4, &tree("queue = \"fq_codel\"")).is_some());
    }

    #[test]
    fn a_rate_above_what_the_interface_carries_is_told_with_both() {
        let said = above("eth0", 100, &rates(Some(101), Some(950))).expect("it is said");
        assert!(
            said.starts_with("up 101Mbit, down 950Mbit is above the 100Mbit that eth0"),
            "{said}"
        );
        assert_eq!(above("eth0", 100, &rates(Some(100), None)), None);
        assert_eq!(above("eth0", 100, &rates(None, None)), None);
    }

    #[test]
    fn what_leads_around_the_queue_is_named_and_what_does_not_is_left_out() {
        let to = IpAddr::from([192, 0, 2, 7]);
        assert_eq!(another_way("wan", to, "wan"), None);
        let said = another_way("wan", to, "lte").expect("another");
        assert_eq!(said, "the way to 192.0.2.7 leaves by lte, and not by wan");
        let mut table = Flowtable {
            table: "filter".into(),
            name: "fast".into(),
            devices: vec!["wan".into(), "lan".into()],
            in_hardware: true,
        };
        let said = short_way("wan", &table).expect("it has wan");
        assert!(
            said.contains("short way in hardware") && said.contains("fast in filter"),
            "{said}"
        );
        table.devices.remove(0);
        assert_eq!(short_way("wan", &table), None);
    }
}
