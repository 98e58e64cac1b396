//! Check 24: TCP wanted to send again what had not yet left this host.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 24,
    name: "stuck-in-own-queue",
    group: Group::Saturation,
    title: "TCP wanted to send again what had not yet left this host",
    evidence: "TcpExt TCPSpuriousRtxHostQueues against Tcp RetransSegs",
    rule: "one in ten of all that TCP wanted to send again, and 10 an hour",
    severity: Severity::Warning,
    why: "packets wait so long in a queue or driver here that TCP takes them for lost",
    fix: "a shorter queue with an AQM (fq_codel, cake), and a rate below that of the device behind it",
    source: "Documentation/networking/snmp_counter.rst, TCPSpuriousRtxHostQueues; the share is our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let counters = ["TcpExt.TCPSpuriousRtxHostQueues"];
    let (stuck, _) = facts.moved_all(&counters)?;
    let again = facts.moved("Tcp.RetransSegs")?;
    // What was found stuck was not sent. A few are met wherever packets are lost: a burst of losses is sent again together.
    let often = |stuck: u64, again: u64| percent(stuck, stuck.saturating_add(again)) >= 10.0;
    if !often(stuck.total, again.total) && !often(stuck.watched, again.watched) {
        return Ok(Outcome::Fine);
    }
    rising(facts, &CHECK, &counters, Limit { least: 1, per_hour: 10.0 }, |finding, _| {
        finding.saw(Evidence::count("RetransSegs", again.total, "/proc/net/snmp"))
    })
}
