//! Check 26: small messages wait for a delayed acknowledgement.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 26,
    name: "delayed-ack-stall",
    group: Group::Saturation,
    title: "small messages wait for a delayed acknowledgement",
    evidence: "TCP_INFO: one segment unacknowledged, less than one more held back, idle for longer than the path takes; DelayedACKs",
    rule: "in two, and a third, of at least four looks",
    severity: Severity::Serious,
    why: "the program writes a message in two parts: Nagle's rule holds the second until the first is acknowledged, and the receiver delays that by 40 ms",
    fix: "write each message whole, or set TCP_NODELAY in the program that sends; at the receiver: ip route … quickack 1",
    source: "RFC 896; RFC 1122, section 4.2.3.2; measured: 44 ms a call becomes 0.02 ms",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    const ENOUGH: u32 = 4;
    if facts.stalls.looks < ENOUGH {
        return Ok(Outcome::NotApplicable("needs several looks".to_owned()));
    }
    let delayed = facts.moved("TcpExt.DelayedACKs").unwrap_or_default();
    let connections = facts.connections()?;
    let one = |c: &Connection<'_>| {
        let seen = *facts.stalls.seen.get(&c.now.cookie)?;
        (seen >= 2 && seen * 3 >= facts.stalls.looks).then(|| {
            let looks = format!("of {} looks", facts.stalls.looks);
            CHECK
                .finding(facts.name(c.now), CHECK.title)
                .saw(Evidence::text("waiting so in", format!("{seen} {looks}"), "TCP_INFO"))
                .saw(Evidence::amount("mss", c.info.snd_mss.into(), "bytes", "TCP_INFO"))
                .saw(Evidence::amount("DelayedACKs here", delayed.watched, "while watching", "/proc/net/netstat"))
                .cure(Remedy::advice("set TCP_NODELAY in that program, or let it write each message whole"))
                .cure(Remedy::advice("at the other end: ip route change … quickack 1"))
        })
    };
    told(&CHECK, connections.iter().filter_map(one).take(5))
}
