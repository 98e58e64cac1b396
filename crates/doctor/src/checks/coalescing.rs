use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "coalescing",
    group: CheckGroup::Configuration,
    title: "interrupts of a fast link are not held back",
    evidence: "ethtool: adaptive_rx, rx_usecs",
    rule: "10 Gbit/s or more, adaptive off and rx_usecs below 2",
    severity: Severity::Note,
    why: "an interrupt a packet costs CPU time that bulk transfers need; for the least latency it is right",
    remedies: &["ethtool -C DEVICE adaptive-rx on"],
    source: "fasterdata.es.net, interrupt coalescing",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    each_card(facts, &CHECK, |device| device.hardware.coalescing, |device, coalescing| {
        let fast = device.speed().is_some_and(|speed| speed >= 10_000);
        let at_once = coalescing.rx_usecs.is_some_and(|time| time < 2);
        if !fast || coalescing.adaptive_rx != Some(false) || !at_once {
            return None;
        }
        let time = coalescing.rx_usecs.unwrap_or(0).into();
        let finding = CHECK
            .finding(&device.link.name, CHECK.title)
            .saw(Evidence::text("adaptive_rx", "off", "ethtool"))
            .saw(Evidence::amount("rx_usecs", time, "us", "ethtool"))
            .cure(Remedy::command(format!("ethtool -C {} adaptive-rx on", device.link.name)));
        Some(finding)
    })
}
