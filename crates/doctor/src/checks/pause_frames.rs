use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "pause-frames",
    group: CheckGroup::Configuration,
    title: "the link is stopped again and again by pause frames",
    evidence: "ethtool: pause settings and counters",
    rule: "frames while watching or 600 an hour; off at 40 Gbit/s or more is a note",
    severity: Severity::Warning,
    why: "sent ones: this host is too slow; received ones: the switch is congested, and stops all traffic of this port for one flow's sake",
    remedies: &["sent: rings, CPU, fewer flows on one core; received: look at the switch"],
    source: "fasterdata.es.net, flow control; IEEE 802.3, annex 31B",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let mut seen = 0;
    let mut findings = Vec::new();
    for (device, before) in facts.devices()?.filter(|(device, _)| device.is_hardware()) {
        let Some(pause) = device.hardware.pause else { continue };
        seen += 1;
        let earlier = before.and_then(|before| before.hardware.pause);
        let ways = [
            ("sent", pause.tx_frames, earlier.and_then(|p| p.tx_frames)),
            ("received", pause.rx_frames, earlier.and_then(|p| p.rx_frames)),
        ];
        for (way, frames, before) in ways {
            let Some(frames) = frames else { continue };
            let moved = CounterReading::between(before, frames);
            if !facts.is_over(moved, Threshold { least: 10, per_hour: 600.0 }) {
                continue;
            }
            let mut finding = CHECK.finding(&device.link.name, CHECK.title);
            finding.evidence = moved.evidence(&format!("{way} pause frames"), "ethtool");
            findings.push(finding);
        }
        let off = pause.rx == Some(false) && pause.tx == Some(false);
        if off && device.speed().is_some_and(|speed| speed >= 40_000) {
            let says = "pause frames are off on a fast link: bursts overflow instead of waiting";
            let mut finding = CHECK
                .finding(&device.link.name, says)
                .saw(Evidence::text("pause", "off", "ethtool"))
                .cure(Remedy::command(format!("ethtool -A {} rx on tx on", device.link.name)));
            finding.severity = Severity::Note;
            findings.push(finding);
        }
    }
    if seen == 0 {
        return unseen(facts);
    }
    outcome(&CHECK, findings)
}
