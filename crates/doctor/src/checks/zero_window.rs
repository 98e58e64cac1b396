//! Check 23: a program here does not read what it receives.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 23,
    name: "zero-window",
    group: Group::Saturation,
    title: "a program here does not read what it receives",
    evidence: "TcpExt TCPToZeroWindowAdv against Tcp InSegs; unread data of each connection",
    rule: "a connection holds half of its buffer unread; or one in 100 segments received, 3 while watching, 20 and 20 an hour since the start",
    severity: Severity::Warning,
    why: "the sender is told to stop until there is room again",
    fix: "find why the program does not read: a slow disk, one thread for too much",
    source: "Documentation/networking/snmp_counter.rst, TCPToZeroWindowAdv",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let (moved, evidence) = facts.moved_all(&["TcpExt.TCPToZeroWindowAdv"])?;
    let received = facts.moved("Tcp.InSegs")?;
    let connections = facts.connections()?;
    let unread = connections.iter().filter(|c| c.now.receive_queue > 0);
    let unread = unread.max_by_key(|c| c.now.receive_queue);
    // One whose sender was told to stop, and that still holds what it has.
    let held = |c: &&Connection<'_>| c.now.memory.is_some_and(|m| m.received >= m.receive_buffer / 2);
    let stands = moved.total > 0 && unread.as_ref().is_some_and(held);
    // A fast sender fills a young buffer for a moment; that is no program that does not read.
    let often = |count: u64, of: u64| percent(count, of) >= 1.0;
    let lately = moved.watched >= 3 && often(moved.watched, received.watched);
    let all_along = facts.is_over(Moved { watched: 0, ..moved }, Limit { least: 20, per_hour: 20.0 })
        && often(moved.total, received.total);
    if !stands && !lately && !all_along {
        return Ok(Outcome::Fine);
    }
    let mut finding = CHECK.finding("this host", CHECK.title);
    finding.evidence = evidence;
    finding = finding.saw(Evidence::amount("of", received.total, "segments", "/proc/net/snmp"));
    if let Some(slow) = unread {
        finding.subject = facts.name(slow.now);
        let bytes = slow.now.receive_queue.into();
        finding = finding.saw(Evidence::amount("unread", bytes, "bytes", "sock_diag"));
    }
    told(&CHECK, [finding])
}
