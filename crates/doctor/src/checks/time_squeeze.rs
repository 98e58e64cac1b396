use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "time-squeeze",
    group: CheckGroup::Saturation,
    title: "packet processing was cut short with work left",
    evidence: "time_squeeze of /proc/net/softnet_stat",
    rule: "more than 10 while watching; since the start more than one in 1000 packets",
    severity: Severity::Note,
    why: "packets wait a little longer; a CPU has more of them than its turn allows",
    remedies: &["raise net.core.netdev_budget and netdev_budget_usecs together; spread interrupts over more CPUs"],
    source: "Documentation/admin-guide/sysctl/net.rst, netdev_budget; netdata's alarm: 10",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let sums = |s: &quell_host::Snapshot| -> Option<(u64, u64)> {
        let cpus = s.softnet().ok()?;
        let squeezed = cpus.iter().map(|cpu| cpu.squeezed).sum();
        Some((squeezed, cpus.iter().map(|cpu| cpu.processed).sum()))
    };
    facts.now.softnet()?;
    let Some((squeezed, processed)) = sums(facts.now) else { return Ok(CheckOutcome::Fine) };
    let before = facts.before.and_then(sums).map(|(squeezed, _)| squeezed);
    let moved = CounterReading::between(before, squeezed);
    if moved.watched <= 10 && percent(squeezed, processed) < 0.1 {
        return Ok(CheckOutcome::Fine);
    }
    let mut finding = CHECK.finding("this host", CHECK.title);
    finding.evidence = moved.evidence("time_squeeze", "/proc/net/softnet_stat");
    let source = "/proc/net/softnet_stat";
    outcome(&CHECK, [finding.saw(Evidence::amount("of", processed, "packets", source))])
}
