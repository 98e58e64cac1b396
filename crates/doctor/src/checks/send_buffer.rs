//! Check 21: this connection's send buffer is too small for its path.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 21,
    name: "send-buffer",
    group: Group::Saturation,
    title: "this connection's send buffer is too small for its path",
    evidence: "TCP_INFO sndbuf_limited, busy_time",
    rule: "more than 10 % of its busy time",
    severity: Severity::Warning,
    why: "what is not acknowledged has to be kept, and there is no room for more",
    fix: "no SO_SNDBUF in the program; a larger third figure of net.ipv4.tcp_wmem (quell tune computes it)",
    source: "tcp(7); Documentation/networking/ip-sysctl.rst, tcp_wmem; the share is our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let mut findings = Vec::new();
    for connection in facts.connections()?.iter().filter(|c| !c.is_local()) {
        let Some((share, busy)) = connection.share_of_busy(|info| info.sndbuf_limited) else { continue };
        if share <= 0.1 {
            continue;
        }
        let rate = connection.info.delivery_rate.unwrap_or(0) as f64 * 8.0 / 1e6;
        let finding = CHECK
            .finding(facts.name(connection.now), CHECK.title)
            .saw(Evidence::number("sndbuf_limited", share * 100.0, "% of its busy time", "TCP_INFO"))
            .saw(Evidence::number("busy", busy as f64 / 1e6, "s", "TCP_INFO"))
            .saw(Evidence::number("rate", rate, "Mbit/s", "TCP_INFO"))
            .saw(Evidence::number("round trip", f64::from(connection.info.rtt) / 1e3, "ms", "TCP_INFO"))
            .saw(Evidence::amount("buffer", connection.now.memory.map_or(0, |m| m.send_buffer).into(), "bytes", "sock_diag"));
        findings.push((busy as f64 * share, finding));
    }
    findings.sort_by(|a, b| b.0.total_cmp(&a.0));
    told(&CHECK, findings.into_iter().take(MOST).map(|(_, finding)| finding))
}

/// Connections that are named, the longest held up first.
const MOST: usize = 5;
