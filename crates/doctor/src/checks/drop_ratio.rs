use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "drop-ratio",
    group: CheckGroup::Errors,
    title: "the device drops a noticeable share of its packets",
    evidence: "rx_dropped and tx_dropped against packets (rtnetlink)",
    rule: "2 % of at least 1000 packets",
    severity: Severity::Warning,
    why: "at 2 % loss TCP keeps little of its rate",
    remedies: &["see what checks 11 to 13 say; packets of protocols that nobody here speaks count as well"],
    source: "netdata's alarm: 2 %",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    each_counted(facts, &CHECK, |device| device.knows("rx_dropped"), |device, before| {
        let none = quell_netlink::link::LinkStats::default();
        let (now, was) = (&device.link.stats, before.map_or(&none, |device| &device.link.stats));
        let directions = [
            ("rx_dropped", now.rx_dropped, was.rx_dropped, now.rx_packets, was.rx_packets),
            ("tx_dropped", now.tx_dropped, was.tx_dropped, now.tx_packets, was.tx_packets),
        ];
        let mut finding = None;
        for (name, dropped, dropped_before, passed, passed_before) in directions {
            let watched = dropped.saturating_sub(dropped_before);
            let all = passed.saturating_sub(passed_before).saturating_add(watched);
            let now_bad = all >= 1000 && percent(watched, all) >= 2.0;
            let share = percent(dropped, passed.saturating_add(dropped));
            if !now_bad && (passed < 1000 || share < 2.0) {
                continue;
            }
            let found = finding.unwrap_or_else(|| CHECK.finding(&device.link.name, CHECK.title));
            finding = Some(
                found
                    .saw(Evidence::count(name, dropped, "ip -s -s link"))
                    .saw(Evidence::amount("beside", passed, "packets", "ip -s -s link"))
                    .saw(Evidence::number("share", share, "%", "calculated")),
            );
        }
        finding
    })
}
