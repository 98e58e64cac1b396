//! What an interface is like, as far as a person should know before one queue is put there.

use quell_netlink::Stack;
use quell_netlink::link::Link;
use quell_shaper::BothWays;
use quell_tc::Qdisc;
use quell_units::Rate;

/// What there is to say of an interface, by its name and number.
pub fn remarks(name: &str, index: u32, all: &BothWays) -> Vec<String> {
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
fn one_in_place_of(name: &str, queues: u32, all: &BothWays) -> Option<String> {
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
fn above(name: &str, megabits: u32, all: &BothWays) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(up: Option<u64>, down: Option<u64>) -> BothWays {
        let rate = |megabits: u64| Rate::from_bps(megabits * 1_000_000);
        BothWays { up: up.map(rate), down: down.map(rate), ..BothWays::default() }
    }

    #[test]
    fn several_transmit_queues_are_told_where_one_takes_their_place() {
        let said = one_in_place_of("eth0", 4, &rates(Some(9), None)).expect("it is said");
        assert!(said.starts_with("one queue in place of 4: eth0"), "{said}");
        assert_eq!(one_in_place_of("eth0", 1, &rates(Some(9), None)), None);
        assert_eq!(one_in_place_of("eth0", 4, &rates(None, Some(9))), None, "they stay");
        let tree = |text: &str| BothWays {
            tree: Some(toml::from_str(text).expect("a tree")),
            ..BothWays::default()
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
}
