use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "ecn-without-marks",
    group: CheckGroup::Configuration,
    title: "ECN is asked for, and no queue here can mark",
    evidence: "net.ipv4.tcp_ecn; kinds and options of the queues of devices that are up",
    rule: "tcp_ecn 1, and every queue of a device that queues is one that can't mark",
    severity: Severity::Note,
    why: "packets that this host sends are dropped where they could have been marked; routers on the way may still mark",
    remedies: &["fq_codel or cake at the device's root"],
    source: "RFC 3168; tc-fq_codel(8), tc-pfifo_fast(8)",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    if facts.now.texts.number("net/ipv4/tcp_ecn")? != 1 {
        return Ok(CheckOutcome::Fine);
    }
    let up: Vec<&str> = facts.devices()?.map(|(device, _)| device.link.name.as_str()).collect();
    let queues = facts.now.queues()?;
    let queues: Vec<_> = queues
        .iter()
        .filter(|q| up.contains(&q.device.as_str()) && !matches!(q.kind.as_str(), "noqueue" | "mq" | "ingress" | "clsact"))
        .collect();
    let marks = |queue: &&quell_host::QueueCounters| {
        let on = |name: &str| queue.options.as_ref().and_then(|options| options.get(name)).is_some_and(|v| v == true);
        match queue.kind.as_str() {
            "cake" | "cake_mq" | "dualpi2" => true,
            "fq_codel" => queue.options.as_ref().is_none_or(|options| options.get("ecn").is_none_or(|v| v == true)),
            "codel" | "pie" | "fq_pie" | "red" | "gred" => on("ecn"),
            "fq" => queue.options.as_ref().is_some_and(|options| options.contains_key("ce_threshold")),
            // Of kinds that are not known nothing is said.
            kind => !matches!(kind, "pfifo_fast" | "pfifo" | "bfifo" | "tbf" | "htb" | "sfq"),
        }
    };
    let Some(first) = queues.first() else { return Ok(CheckOutcome::Fine) };
    if queues.iter().any(marks) {
        return Ok(CheckOutcome::Fine);
    }
    let finding = CHECK
        .finding(&first.device, CHECK.title)
        .saw(Evidence::count("tcp_ecn", 1, "/proc/sys/net/ipv4"))
        .saw(Evidence::text("queue", &first.kind, "tc -s qdisc"))
        .cure(Remedy::Queue { device: first.device.clone(), queue: "fq_codel".to_owned() });
    outcome(&CHECK, [finding])
}
