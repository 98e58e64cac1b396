use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "carrier-lost",
    group: CheckGroup::Errors,
    title: "the link went away and came back",
    evidence: "carrier_changes of rtnetlink",
    rule: "while watching; since the start 8, and 2 an hour",
    severity: Severity::Warning,
    why: "each time everything stops for seconds",
    remedies: &["cable, optic, switch port, power saving (EEE) at either end"],
    source: "Documentation/ABI/testing/sysfs-class-net, carrier_changes",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    each_device(facts, &CHECK, |device, before| {
        let now = device.link.carrier_changes?;
        let before = before.and_then(|device| device.link.carrier_changes);
        let moved = CounterReading::between(before.map(u64::from), now.into());
        // To be switched on is a change or two, by a boot's scripts more.
        let often = facts.is_over(
            CounterReading { watched: 0, ..moved },
            Threshold { least: 8, per_hour: 2.0 },
        );
        if moved.watched < 2 && !often {
            return None;
        }
        let mut finding = CHECK.finding(&device.link.name, CHECK.title);
        finding.evidence = moved.evidence("carrier_changes", "ip -s -s link");
        Some(finding)
    })
}
