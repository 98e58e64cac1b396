//! Check 21: this connection's send buffer is too small for its path.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 21,
    name: "send-buffer",
    group: Group::Saturation,
    title: "this connection's send buffer is too small for its path",
    evidence: "TCP_INFO sndbuf_limited, busy_time; what the buffer holds (SK_MEMINFO)",
    rule: "more than 10 % of its busy time; or full of what is in flight, at both looks, while both windows have room",
    severity: Severity::Warning,
    why: "what is not acknowledged has to be kept, and there is no room for more",
    fix: "no SO_SNDBUF in the program; a larger third figure of net.ipv4.tcp_wmem (quell tune computes it)",
    source: "tcp(7); Documentation/networking/ip-sysctl.rst, tcp_wmem; the share is our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let most = facts.now.texts.numbers("net/ipv4/tcp_wmem").ok().and_then(|all| all.get(2).copied());
    let mut findings = Vec::new();
    for connection in facts.connections()?.iter().filter(|c| !c.is_local()) {
        let Some(held) = connection.held_by_send_buffer() else { continue };
        let buffer = connection.now.memory.map_or(0, |memory| memory.send_buffer);
        // One that may not grow any more is another check's.
        if most.is_some_and(|most| is_at_most(buffer, most)) {
            continue;
        }
        let finding = CHECK.finding(facts.name(connection.now), CHECK.title);
        let (weight, finding) = match held {
            HeldBySendBuffer::Counted { share, busy } => (
                busy as f64 * share,
                finding
                    .saw(Evidence::number("sndbuf_limited", share * 100.0, "% of its busy time", "TCP_INFO"))
                    .saw(Evidence::number("busy", busy as f64 / 1e6, "s", "TCP_INFO")),
            ),
            HeldBySendBuffer::Full(memory) => (
                connection.went(|info| info.busy_time) as f64,
                finding
                    .saw(Evidence::amount("held at both looks", memory.queued.into(), "bytes", "sock_diag"))
                    .saw(Evidence::amount("in flight", connection.info.unacked.into(), "segments", "TCP_INFO"))
                    .saw(Evidence::amount("cwnd", connection.info.snd_cwnd.into(), "segments", "TCP_INFO")),
            ),
        };
        let rate = connection.info.delivery_rate.unwrap_or(0) as f64 * 8.0 / 1e6;
        let finding = finding
            .saw(Evidence::number("rate", rate, "Mbit/s", "TCP_INFO"))
            .saw(Evidence::number("round trip", f64::from(connection.info.rtt) / 1e3, "ms", "TCP_INFO"))
            .saw(Evidence::amount("buffer", buffer.into(), "bytes", "sock_diag"));
        findings.push((weight, finding));
    }
    findings.sort_by(|a, b| b.0.total_cmp(&a.0));
    told(&CHECK, findings.into_iter().take(MOST).map(|(_, finding)| finding))
}

/// Connections that are named, the longest held up first.
const MOST: usize = 5;
