use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "softnet-drops",
    group: CheckGroup::Saturation,
    title: "packets were dropped before the stack saw them: a CPU's backlog was full",
    evidence: "dropped of /proc/net/softnet_stat",
    rule: "more than 10",
    severity: Severity::Serious,
    why: "they came faster than one CPU takes them; matters where packets go through a backlog: RPS, veth, loopback, tunnels",
    remedies: &["double net.core.netdev_max_backlog, and spread the load over more CPUs"],
    source: "Documentation/admin-guide/sysctl/net.rst, netdev_max_backlog; netdata's alarm: 10",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let sum = |s: &quell_host::Snapshot| Some(s.softnet().ok()?.iter().map(|cpu| cpu.dropped).sum());
    let cpus = facts.now.softnet()?;
    let total = cpus.iter().map(|cpu| cpu.dropped).sum();
    let moved = CounterReading::between(facts.before.and_then(sum), total);
    if !facts.is_over_since_boot(moved, Threshold { least: 11, per_hour: 60.0 }) {
        return Ok(CheckOutcome::Fine);
    }
    let mut finding = CHECK.finding("this host", CHECK.title);
    finding.evidence = moved.evidence("dropped", "/proc/net/softnet_stat");
    let worst = cpus.iter().enumerate().max_by_key(|(_, cpu)| cpu.dropped).map_or(0, |(at, _)| at);
    finding = finding.saw(Evidence::count("most on CPU", worst as u64, "/proc/net/softnet_stat"));
    if let Ok(backlog) = facts.now.texts.number("net/core/netdev_max_backlog") {
        finding = finding
            .saw(Evidence::count("netdev_max_backlog", backlog, "/proc/sys/net/core"))
            .cure(Remedy::sysctl("net/core/netdev_max_backlog", backlog.saturating_mul(2).to_string()));
    }
    outcome(&CHECK, [finding])
}
