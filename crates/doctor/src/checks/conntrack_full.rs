use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "conntrack-full",
    group: CheckGroup::Utilisation,
    title: "the table of tracked connections is nearly full",
    evidence: "nf_conntrack_count, nf_conntrack_max; drop and early_drop of /proc/net/stat/nf_conntrack",
    rule: "90 % of the table, or connections dropped for want of room",
    severity: Severity::Serious,
    why: "when it is full, packets of new connections are dropped",
    remedies: &["raise nf_conntrack_max; exempt what needs no tracking (notrack); shorten the timeouts of idle connections"],
    source: "Documentation/networking/nf_conntrack-sysctl.rst; netdata's alarm for 90 and 95 %",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let Ok(most) = facts.now.texts.number("net/netfilter/nf_conntrack_max") else {
        return Ok(CheckOutcome::NotApplicable("no connections are tracked here".to_owned()));
    };
    let count = facts.now.texts.number("net/netfilter/nf_conntrack_count")?;
    let dropped = |name: &str| {
        let stat = |s: &quell_host::Snapshot| s.stat("nf_conntrack", name).ok();
        stat(facts.now).map(|now| CounterReading::between(facts.before.and_then(stat), now))
    };
    // drop: the table was full and nothing could be thrown out; early_drop: something was.
    let lost = ["drop", "early_drop"].map(|name| (name, dropped(name).unwrap_or_default()));
    let share = percent(count, most);
    let turned_away = lost.iter().any(|(_, moved)| {
        facts.is_over(*moved, Threshold { least: 1, per_hour: 10.0 })
    });
    if share < 90.0 && !turned_away {
        return Ok(CheckOutcome::Fine);
    }
    let mut finding = CHECK.finding("this host", CHECK.title);
    if turned_away {
        finding.says = "the table of tracked connections was full: new ones were turned away".to_owned();
    }
    let source = "/proc/sys/net/netfilter";
    finding = finding
        .saw(Evidence::count("nf_conntrack_count", count, source))
        .saw(Evidence::count("nf_conntrack_max", most, source))
        .saw(Evidence::number("share", share, "%", "calculated"));
    for (name, moved) in lost.iter().filter(|(_, moved)| moved.total > 0) {
        finding.evidence.extend(moved.evidence(name, "/proc/net/stat/nf_conntrack"));
    }
    let cure = Remedy::sysctl("net/netfilter/nf_conntrack_max", (most * 2).to_string());
    outcome(&CHECK, [finding.cure(cure).cure(Remedy::advice(CHECK.remedies[0]))])
}
