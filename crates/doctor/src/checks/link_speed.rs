use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "link-speed",
    group: CheckGroup::Configuration,
    title: "the link runs below the speed that both ends can do",
    evidence: "ethtool: speed, duplex, supported and peer's link modes",
    rule: "below the highest common one, or half duplex; less severe where the other end does not tell",
    severity: Severity::Serious,
    why: "half duplex loses packets whenever both send; a lower speed is often a bad pair in a cable",
    remedies: &["leave autonegotiation on at both ends; another cable"],
    source: "IEEE 802.3, clause 28; Documentation/networking/ethtool-netlink.rst, LINKMODES_GET",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let told = |device: &Device| {
        let modes = device.hardware.modes.clone()?;
        modes.speed.map(|speed| (modes, speed))
    };
    each_card(facts, &CHECK, told, |device, (modes, speed)| {
        // What the other end offers is known only where both negotiate.
        let common = modes.supported.iter().filter(|m| modes.peer.is_empty() || modes.peer.contains(*m));
        let most = common.filter_map(|mode| speed_of(mode)).max().unwrap_or(speed);
        let half = modes.duplex == Some(0);
        if speed >= most && !half {
            return None;
        }
        let mut finding = CHECK.finding(&device.link.name, CHECK.title);
        // A card that can do more than the switch is no fault; one at 100 Mbit/s or less hardly ever meets a switch that can't do more.
        if modes.peer.is_empty() && !half {
            finding.says = "the link runs below what this card can do; what the other end can is not known".to_owned();
            let slow = speed <= 100 && most >= 1000;
            finding.severity = if slow { Severity::Warning } else { Severity::Note };
        }
        if half {
            finding.says = "the link is half duplex".to_owned();
        }
        finding = finding
            .saw(Evidence::amount("speed", speed.into(), "Mbit/s", "ethtool"))
            .saw(Evidence::amount("possible", most.into(), "Mbit/s", "ethtool"));
        if modes.autonegotiation == Some(false) {
            finding = finding
                .saw(Evidence::text("autonegotiation", "off", "ethtool"))
                .cure(Remedy::command(format!("ethtool -s {} autoneg on", device.link.name)));
        }
        Some(finding)
    })
}

/// Mbit/s of "1000baseT/Full"; none of what is no speed, as "Autoneg".
fn speed_of(mode: &str) -> Option<u32> {
    let (number, _) = mode.split_once("base")?;
    number.parse().ok()
}
