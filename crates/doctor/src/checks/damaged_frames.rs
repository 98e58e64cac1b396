use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "damaged-frames",
    group: CheckGroup::Errors,
    title: "frames arrive damaged",
    evidence: "rx_crc_errors of rtnetlink; what error correction could not mend (ethtool)",
    rule: "any while watching; 2 an hour",
    severity: Severity::Serious,
    why: "each is lost; a cable or optic that damages some will damage more",
    remedies: &["clean or change the optic, change the cable, try another port"],
    source: "IEEE 802.3, frame check sequence and clause 91 (FEC)",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    each_counted(facts, &CHECK, |device| device.knows("rx_crc_errors"), |device, before| {
        let sum = |device: &Device| {
            let uncorrectable = device.hardware.uncorrectable.unwrap_or(0);
            device.link.stats.rx_crc_errors.saturating_add(uncorrectable)
        };
        let moved = CounterReading::between(before.map(sum), sum(device));
        if !facts.is_over(moved, Threshold { least: 1, per_hour: 2.0 }) {
            return None;
        }
        let damaged = device.link.stats.rx_crc_errors;
        let mut finding = CHECK
            .finding(&device.link.name, CHECK.title)
            .saw(Evidence::amount("rx_crc_errors", damaged, "since the start", "ip -s -s link"));
        if let Some(uncorrectable) = device.hardware.uncorrectable {
            finding = finding.saw(Evidence::amount("uncorrectable", uncorrectable, "blocks", "ethtool"));
        }
        finding.evidence.extend(moved.new_evidence("ip -s -s link"));
        Some(finding)
    })
}
