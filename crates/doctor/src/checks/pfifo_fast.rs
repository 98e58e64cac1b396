use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "pfifo-fast",
    group: CheckGroup::Configuration,
    title: "the queue of this device is pfifo_fast: it shares nothing and marks nothing",
    evidence: "kind of the root queue, or of those below mq (rtnetlink)",
    rule: "pfifo_fast; a warning where packets waited or were dropped, else a note",
    severity: Severity::Warning,
    why: "one bulk transfer fills it, and all others wait behind that; having no AQM, it never marks, so ECN does nothing here",
    remedies: &["fq_codel, for hosts that send bulk data fq; net.core.default_qdisc makes it the default"],
    source: "fasterdata.es.net, fair queueing; RFC 7567",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let queues = facts.now.queues()?;
    let up: Vec<&str> = facts.devices()?.map(|(device, _)| device.link.name.as_str()).collect();
    let mut findings: Vec<Finding> = Vec::new();
    for queue in queues.iter().filter(|queue| queue.kind == "pfifo_fast") {
        let told = findings.iter().any(|finding| finding.subject == queue.device);
        if told || !up.contains(&queue.device.as_str()) {
            continue;
        }
        let waits = queue.backlog_packets > 0 || queue.drops > 0;
        let mut finding = CHECK
            .finding(&queue.device, CHECK.title)
            .saw(Evidence::amount("waiting", queue.backlog_packets, "packets", "tc -s qdisc"))
            .saw(Evidence::amount("dropped", queue.drops, "packets", "tc -s qdisc"));
        if !waits {
            finding.severity = Severity::Note;
        }
        findings.push(finding.cure(Remedy::Queue {
            device: queue.device.clone(),
            queue: "fq_codel".to_owned(),
        }));
    }
    outcome(&CHECK, findings)
}
