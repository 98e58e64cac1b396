use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "device-errors",
    group: CheckGroup::Errors,
    title: "the device reports errors",
    evidence: "rx_errors, tx_errors of rtnetlink",
    rule: "5 in 10 minutes",
    severity: Severity::Warning,
    why: "packets are damaged or lost below the stack",
    remedies: &["cable, optic, switch port; driver and firmware"],
    source: "netdata's alarm: 5 in 10 minutes",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    each_counted(facts, &CHECK, |device| device.knows("rx_errors"), |device, before| {
        // Those that another check names by their kind are left to it.
        let sum = |device: &Device| {
            let stats = &device.link.stats;
            let named = [stats.rx_crc_errors, stats.rx_fifo_errors, stats.rx_missed_errors];
            let others = named.into_iter().fold(stats.rx_errors, u64::saturating_sub);
            others.saturating_add(stats.tx_errors)
        };
        let moved = CounterReading::between(before.map(sum), sum(device));
        if !facts.is_over(moved, Threshold { least: 5, per_hour: 30.0 }) {
            return None;
        }
        let stats = &device.link.stats;
        let mut finding = CHECK
            .finding(&device.link.name, CHECK.title)
            .saw(Evidence::amount("rx_errors", stats.rx_errors, "since the start", "ip -s -s link"))
            .saw(Evidence::amount("tx_errors", stats.tx_errors, "since the start", "ip -s -s link"));
        finding.evidence.extend(moved.new_evidence("ip -s -s link"));
        Some(finding)
    })
}
