use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "link-utilisation",
    group: CheckGroup::Utilisation,
    title: "the link is full",
    evidence: "bytes of each device against its speed",
    rule: "90 % of the speed while watching",
    severity: Severity::Warning,
    why: "what more comes waits, and then is lost",
    remedies: &["a faster link or a bond; or share it well: quell shape"],
    source: "netdata's alarm: 90 %",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    if facts.before.is_none() {
        return Ok(CheckOutcome::NotApplicable("needs two looks".to_owned()));
    }
    let seconds = facts.seconds().max(0.001);
    let mut findings = Vec::new();
    for (device, before) in facts.devices()? {
        let (Some(speed), Some(before)) = (device.speed(), before) else { continue };
        let (now, was) = (&device.link.stats, &before.link.stats);
        let ways = [
            ("received", now.rx_bytes.saturating_sub(was.rx_bytes)),
            ("sent", now.tx_bytes.saturating_sub(was.tx_bytes)),
        ];
        for (way, bytes) in ways {
            let rate = bytes as f64 * 8.0 / seconds / 1e6;
            if rate < 0.9 * f64::from(speed) {
                continue;
            }
            let finding = CHECK
                .finding(&device.link.name, CHECK.title)
                .saw(Evidence::number(way, rate, "Mbit/s", "ip -s -s link"))
                .saw(Evidence::amount("speed", speed.into(), "Mbit/s", "ethtool"));
            findings.push(finding);
        }
    }
    outcome(&CHECK, findings)
}
