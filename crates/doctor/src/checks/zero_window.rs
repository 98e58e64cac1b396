//! Check 23: a program here does not read what it receives.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 23,
    name: "zero-window",
    group: Group::Saturation,
    title: "a program here does not read what it receives",
    evidence: "TcpExt TCPToZeroWindowAdv; unread data of each connection",
    rule: "more than 2, and 20 an hour; or one that is unread now",
    severity: Severity::Warning,
    why: "the sender is told to stop until there is room again",
    fix: "find why the program does not read: a slow disk, one thread for too much",
    source: "Documentation/networking/snmp_counter.rst, TCPToZeroWindowAdv",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let counters = ["TcpExt.TCPToZeroWindowAdv"];
    let connections = facts.connections()?;
    let slow = connections.iter().filter(|c| c.now.receive_queue > 0);
    let slow = slow.max_by_key(|c| c.now.receive_queue);
    let limit = Limit { least: 3, per_hour: 20.0 };
    let mut outcome = rising(facts, &CHECK, &counters, limit, |finding, _| finding)?;
    let (moved, evidence) = facts.moved_all(&counters)?;
    let Some(slow) = slow else { return Ok(outcome) };
    // One that was told to stop and still is counts as well: nobody reads it.
    let unread = slow.now.memory.is_some_and(|m| m.received >= m.receive_buffer / 2);
    if outcome == Outcome::Fine && moved.total > 0 && unread {
        let mut finding = CHECK.finding("", CHECK.title);
        finding.evidence = evidence;
        outcome = told(&CHECK, [finding])?;
    }
    if let Outcome::Found(findings) = &mut outcome {
        for finding in findings {
            finding.subject = facts.name(slow.now);
            let bytes = slow.now.receive_queue.into();
            finding.evidence.push(Evidence::amount("unread", bytes, "bytes", "sock_diag"));
        }
    }
    Ok(outcome)
}
