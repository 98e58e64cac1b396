use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "ring-missed",
    group: CheckGroup::Saturation,
    title: "the card dropped packets: the host did not take them from its ring in time",
    evidence: "rx_missed, rx_fifo, rx_over of rtnetlink; the driver's rx_no_buffer, rx_missed and the like",
    rule: "any while watching; 10 an hour",
    severity: Severity::Serious,
    why: "each has to be sent again; bursts are hit hardest",
    remedies: &["rings to their maximum (ethtool -G), except on 6.11 and later kernels, where larger ones cost cache (ESnet); more queues; a CPU that is not busy"],
    source: "fasterdata.es.net, ring buffers; driver documentation",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let has = |device: &Device| {
        device.knows("rx_missed_errors")
            || device.knows("rx_over_errors")
            || !device.counters.is_empty()
    };
    each_counted(facts, &CHECK, has, |device, before| {
        let sum = |device: &Device| {
            let stats = &device.link.stats;
            let own = device.counters.iter().filter(|(name, _)| is_missed(name));
            // A driver's own counters are summed in those of rtnetlink by some and not by others: the larger is taken.
            let own = own.map(|(_, count)| *count).fold(0, u64::saturating_add);
            let told = [stats.rx_missed_errors, stats.rx_fifo_errors, stats.rx_over_errors];
            own.max(told.into_iter().fold(0, u64::saturating_add))
        };
        let moved = CounterReading::between(before.map(sum), sum(device));
        if !facts.is_over(moved, Threshold { least: 1, per_hour: 10.0 }) {
            return None;
        }
        let mut finding = CHECK.finding(&device.link.name, CHECK.title);
        finding.evidence = moved.evidence("missed", "rtnetlink, ethtool -S");
        let named = device.counters.iter().filter(|(name, count)| **count > 0 && is_missed(name));
        for (name, count) in named.take(3) {
            finding = finding.saw(Evidence::count(name, *count, "ethtool -S"));
        }
        if let Some(rings) = device.hardware.rings
            && let (Some(now), Some(most)) = (rings.rx, rings.rx_max)
        {
            finding = finding
                .saw(Evidence::amount("ring", now.into(), "packets", "ethtool"))
                .saw(Evidence::amount("at most", most.into(), "packets", "ethtool"));
            if now < most && facts.now.kernel().is_ok_and(|version| version < (6, 11)) {
                let line = format!("ethtool -G {} rx {most}", device.link.name);
                finding = finding.cure(Remedy::command(line));
            }
        }
        Some(finding)
    })
}

/// Names that drivers give to packets for which there was no room (e1000, igb, ixgbe, i40e, ice, mlx5, bnxt, ena, tg3).
fn is_missed(name: &str) -> bool {
    const NAMES: [&str; 13] = [
        "rx_missed",
        "rx_missed_errors",
        "rx_no_buffer_count",
        "rx_no_dma_resources",
        "rx_fifo_errors",
        "rx_out_of_buffer",
        "rx_discards_phy",
        "port.rx_discards",
        "rx_dropped.nic",
        "rx_total_discard_pkts",
        "rx_overruns",
        "rxbds_empty",
        "rx_discards",
    ];
    NAMES.contains(&name)
}
