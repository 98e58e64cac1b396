use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "queue-imbalance",
    group: CheckGroup::Utilisation,
    title: "one receive queue of the hardware gets most of the packets",
    evidence: "the driver's packets of each queue (ethtool -S)",
    rule: "twice the mean of four queues or more, 10000 packets while watching",
    severity: Severity::Note,
    why: "its CPU is the limit; one flow always has one queue, many should spread",
    remedies: &["look at ethtool -x; set the hash (ethtool -N) or the table (ethtool -X)"],
    source: "Documentation/networking/scaling.rst; the factor is our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    each_device(facts, &CHECK, |device, before| {
        let before = before.filter(|_| device.is_hardware())?;
        let queues: Vec<(&str, u64)> = device
            .counters
            .iter()
            .filter(|(name, _)| is_queue(name))
            .filter_map(|(name, now)| {
                Some((name.as_str(), now.saturating_sub(*before.counters.get(name)?)))
            })
            .collect();
        let all = queues.iter().fold(0, |all: u64, (_, packets)| all.saturating_add(*packets));
        let (name, most) = queues.iter().max_by_key(|(_, packets)| *packets)?;
        if queues.len() < 4 || all < 10_000 || *most as f64 * queues.len() as f64 <= 2.0 * all as f64 {
            return None;
        }
        let finding = CHECK
            .finding(&device.link.name, CHECK.title)
            .saw(Evidence::amount(*name, *most, "while watching", "ethtool -S"))
            .saw(Evidence::amount("all queues", all, "while watching", "ethtool -S"));
        Some(finding)
    })
}

/// As drivers name them: rx_queue_0_packets, rx0_packets, rx-0.packets, rx_0_packets.
fn is_queue(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("rx").and_then(|rest| rest.strip_suffix("packets")) else {
        return false;
    };
    let middle = rest.trim_matches(['_', '-', '.']);
    let number = middle.strip_prefix("queue_").unwrap_or(middle);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}
