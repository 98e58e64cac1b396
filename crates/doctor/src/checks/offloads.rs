use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "offloads",
    group: CheckGroup::Configuration,
    title: "an offload that saves much CPU time is off, or one that harms forwarding is on",
    evidence: "ethtool: features of hardware",
    rule: "TSO, GSO, GRO or checksums off though they could be on; LRO on while forwarding",
    severity: Severity::Warning,
    why: "each packet is handled by itself: several times the CPU time for the same rate; LRO joins packets that a router must pass on as they came",
    remedies: &["switch it as named; not in a lab where packets have to be packets"],
    source: "osg-htc fasterdata-tuning.sh 1.3.10; Documentation/networking/segmentation-offloads.rst",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    each_card(facts, &CHECK, |device| device.hardware.features.clone(), |device, features| {
        const WANTED: [&str; 5] = [
            "tx-scatter-gather",
            "tx-tcp-segmentation",
            "tx-generic-segmentation",
            "rx-gro",
            "rx-checksum",
        ];
        // What is asked for and off all the same lacks what it needs: the card has not got it, or that is what somebody switched.
        let wrong = |name: &str, on: bool| {
            let set = [&features.active, &features.wanted].map(|all| all.contains(name));
            features.changeable.contains(name) && set == [!on, !on]
        };
        let forwards = facts.now.texts.number("net/ipv4/ip_forward").is_ok_and(|on| on == 1);
        let off = WANTED.into_iter().filter(|name| wrong(name, true)).map(|name| (name, true));
        let on = Some(("rx-lro", false)).filter(|(name, _)| forwards && wrong(name, false));
        let all: Vec<(&str, bool)> = off.chain(on).collect();
        if all.is_empty() {
            return None;
        }
        let mut finding = CHECK.finding(&device.link.name, CHECK.title);
        for (name, on) in all {
            let now = if on { "off" } else { "on" };
            finding = finding.saw(Evidence::text(name, now, "ethtool")).cure(Remedy::Offload {
                device: device.link.name.clone(),
                feature: name.to_owned(),
                on,
            });
        }
        Some(finding)
    })
}
