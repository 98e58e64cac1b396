use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "context-switches",
    group: CheckGroup::Utilisation,
    title: "the CPUs change between tasks far more often than before the load",
    evidence: "ctxt of /proc/stat before and while a command ran (--during)",
    rule: "three times as often, and 20000 a second",
    severity: Severity::Note,
    why: "each change costs the CPU time that packets need",
    remedies: &["pin the application and its interrupts; net.core.busy_poll=50 for latency at the price of a CPU"],
    source: "Documentation/admin-guide/sysctl/net.rst, busy_poll; the factor is our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let (Some(quiet), Some(before)) = (facts.quiet_switches, facts.before) else {
        let why = "needs a time before the load to compare with: --during".to_owned();
        return Ok(CheckOutcome::NotApplicable(why));
    };
    let switched = facts.now.switches()?.saturating_sub(before.switches()?);
    let rate = switched as f64 / facts.seconds().max(0.001);
    if rate < 3.0 * quiet || rate < 20_000.0 {
        return Ok(CheckOutcome::Fine);
    }
    let finding = CHECK
        .finding("this host", CHECK.title)
        .saw(Evidence::number("before", quiet, "a second", "/proc/stat"))
        .saw(Evidence::number("while watching", rate, "a second", "/proc/stat"));
    outcome(&CHECK, [finding])
}
