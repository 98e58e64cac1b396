use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "queue-classes",
    group: CheckGroup::Configuration,
    title: "the classes of this queue do not do what they were made for",
    evidence: "queues, classes and filters (rtnetlink), as quell tree reads them",
    rule: "packets that no filter matches pass unshaped or are dropped, or a burst is below one packet",
    severity: Severity::Warning,
    why: "what is not shaped fills the modem's buffer, and what no class takes is lost",
    remedies: &["a default class for htb and hfsc, a last filter for all, a burst of 1600 and more; quell tree shows where"],
    source: "htb_classify and htb_accnt_tokens, net/sched/sch_htb.c; tc-htb(8)",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let queues = facts.now.queues()?.iter();
    let told = queues.flat_map(|queue| queue.troubles.iter().map(|words| (&queue.device, words)));
    outcome(&CHECK, told.map(|(device, words)| CHECK.finding(device, words)))
}
