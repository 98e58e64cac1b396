use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "pcie-slot",
    group: CheckGroup::Utilisation,
    title: "the card runs on fewer or slower PCIe lanes than it could",
    evidence: "current_link_speed, current_link_width, max_link_speed, max_link_width in sysfs",
    rule: "below its own maximum, and less than 1.25 times the line's rate",
    severity: Severity::Warning,
    why: "the bus is slower than the line",
    remedies: &["put the card into another slot; look at the board's manual for shared lanes"],
    source: "PCI Express Base Specification; fasterdata.es.net, PCI",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let mut hardware = 0;
    let mut findings = Vec::new();
    for (device, _) in facts.devices()? {
        let text = |name: &str| device.bus.get(name).map(String::as_str);
        let lanes = |speed: &str, width: &str| {
            let speed: f64 = text(speed)?.split_whitespace().next()?.parse().ok()?;
            Some((speed, text(width)?.parse::<f64>().ok()?))
        };
        let Some(now) = lanes("current_link_speed", "current_link_width") else { continue };
        let Some(most) = lanes("max_link_speed", "max_link_width") else { continue };
        hardware += 1;
        // Encoding: 8b/10b up to 5 GT/s, 128b/130b from 8 GT/s on.
        let useful = |(speed, width): (f64, f64)| {
            speed * width * if speed <= 5.0 { 0.8 } else { 128.0 / 130.0 }
        };
        let line = device.speed().map_or(0.0, f64::from) / 1000.0;
        if useful(now) >= useful(most) || useful(now) >= 1.25 * line {
            continue;
        }
        let source = "/sys/class/net/…/device";
        let shown = |(speed, width): (f64, f64)| format!("{speed} GT/s x{width}");
        let finding = CHECK
            .finding(&device.link.name, CHECK.title)
            .saw(Evidence::text("now", shown(now), source))
            .saw(Evidence::text("at most", shown(most), source))
            .saw(Evidence::number("bus", useful(now), "Gbit/s", "calculated"))
            .saw(Evidence::number("line", line, "Gbit/s", "ethtool"));
        findings.push(finding);
    }
    if hardware == 0 {
        return Ok(CheckOutcome::NotApplicable("no device here is on PCIe".to_owned()));
    }
    outcome(&CHECK, findings)
}
