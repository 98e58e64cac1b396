//! Check 22: this connection sends less than it could: its program has nothing more to send.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 22,
    name: "application-limited",
    group: Group::Saturation,
    title: "this connection sends less than it could: its program has nothing more to send",
    evidence: "TCP_INFO app_limited, notsent_bytes, of connections that move data",
    rule: "delivery limited by the application, and nothing waits",
    severity: Severity::Note,
    why: "the network is not the limit here",
    fix: "look at the program: its disk, its CPU, how it waits for answers",
    source: "tcp_rate_check_app_limited of net/ipv4/tcp_rate.c",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    const MOVES: u64 = 1_000_000;
    let connections = facts.connections()?;
    let limited = connections.iter().filter(|c| {
        let moves = c.earlier.is_some() && c.went(|info| info.bytes_acked) >= MOVES;
        moves && c.info.app_limited && c.info.notsent_bytes == Some(0) && !c.is_local()
    });
    let one = |c: &Connection<'_>| {
        CHECK
            .finding(facts.name(c.now), CHECK.title)
            .saw(Evidence::amount("sent", c.went(|i| i.bytes_acked), "bytes while watching", "TCP_INFO"))
            .saw(Evidence::count("notsent", 0, "TCP_INFO"))
    };
    told(&CHECK, limited.take(5).map(one))
}
