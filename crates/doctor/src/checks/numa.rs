use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "numa",
    group: CheckGroup::Configuration,
    title: "interrupts of a card are served by CPUs of another node",
    evidence: "numa_node and local_cpulist of the card; effective_affinity_list of its interrupts",
    rule: "a CPU that serves them is not local, on a host with several nodes",
    severity: Severity::Note,
    why: "each packet crosses the link between the nodes",
    remedies: &["set the affinity of its interrupts to its node's CPUs, and run the application there (numactl)"],
    source: "fasterdata.es.net, NUMA; Documentation/core-api/irq/irq-affinity.rst",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let mut seen = false;
    let mut findings = Vec::new();
    for (device, _) in facts.devices()? {
        let text = |name: &str| device.bus.get(name);
        let (Some(node), Some(local), Some(serving)) =
            (text("numa_node"), text("local_cpulist"), text("interrupt_cpus"))
        else {
            continue;
        };
        // -1: the host has one node, or does not tell.
        if node.starts_with('-') {
            continue;
        }
        seen = true;
        let near = cpus(local);
        let far: Vec<u32> = cpus(serving).into_iter().filter(|cpu| !near.contains(cpu)).collect();
        if far.is_empty() || near.is_empty() {
            continue;
        }
        let finding = CHECK
            .finding(&device.link.name, CHECK.title)
            .saw(Evidence::text("node", node, "/sys/class/net/…/device"))
            .saw(Evidence::text("local CPUs", local, "/sys/class/net/…/device"))
            .saw(Evidence::text("served by", serving, "/proc/irq"));
        findings.push(finding);
    }
    if !seen {
        return Ok(CheckOutcome::NotApplicable("this host has one node".to_owned()));
    }
    outcome(&CHECK, findings)
}

/// "0-3,8" as single numbers.
fn cpus(list: &str) -> std::collections::BTreeSet<u32> {
    const MOST: u32 = 65_536;
    let one = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (last < MOST).then_some(first..=last)
    };
    list.split(',').filter_map(one).flatten().collect()
}
