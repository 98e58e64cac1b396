use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "reverse-path-filter",
    group: CheckGroup::Errors,
    title: "packets were dropped: they came in by another interface than answers to them go out by",
    evidence: "TcpExt IPReversePathFilter",
    rule: "more than 4, and 60 an hour",
    severity: Severity::Warning,
    why: "a strict filter (rp_filter 1) takes paths that differ by direction for forged senders; connections over them do not open",
    remedies: &[
        "a route back by the interface that the packets come in by",
        "net.ipv4.conf.all.rp_filter=2, which takes what is reachable by any interface",
    ],
    source: "RFC 3704; Documentation/networking/ip-sysctl.rst, rp_filter; fib_validate_source of net/ipv4/fib_frontend.c",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let limit = Threshold { least: 5, per_hour: 60.0 };
    let texts = &facts.now.texts;
    let mode = |device: &str| texts.number(&format!("net/ipv4/conf/{device}/rp_filter"));
    let all = mode("all").unwrap_or(0);
    // Of the two the larger one is in force.
    let modes = facts.devices()?.map(|(device, _)| {
        let name = device.link.name.as_str();
        (name, mode(name).unwrap_or(0).max(all))
    });
    let modes: Vec<(&str, u64)> = modes.filter(|(_, mode)| *mode > 0).collect();
    let words = |mode| if mode == 1 { "strict" } else { "loose" };
    let seen = modes.iter().map(|(name, mode)| format!("{name} {mode} ({})", words(*mode)));
    let seen = seen.collect::<Vec<_>>().join(", ");
    let is_loose = !modes.is_empty() && modes.iter().all(|(_, mode)| *mode == 2);
    rising(facts, &CHECK, &["TcpExt.IPReversePathFilter"], limit, |mut finding, _| {
        if is_loose {
            finding.says = "packets were dropped: no route leads back to their sender".to_owned();
            finding.remedies = vec![Remedy::advice("a route to that sender, unless it is forged")];
        }
        match seen.is_empty() {
            true => finding,
            false => finding.saw(Evidence::text("rp_filter", seen, "/proc/sys/net/ipv4/conf")),
        }
    })
}
