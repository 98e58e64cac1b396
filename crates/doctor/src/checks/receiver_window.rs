//! Check 20: the other end's receive window holds this connection up.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 20,
    name: "receiver-window",
    group: Group::Saturation,
    title: "the other end's receive window holds this connection up",
    evidence: "TCP_INFO rwnd_limited, busy_time",
    rule: "more than 10 % of its busy time",
    severity: Severity::Warning,
    why: "it could send more, and the receiver has no room announced for it",
    fix: "at the other end: no SO_RCVBUF in the program, a larger third figure of tcp_rmem, a program that reads faster",
    source: "tcp(7); tcp_chrono_start of net/ipv4/tcp_output.c; the share is our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let mut findings = Vec::new();
    for connection in facts.connections()?.iter().filter(|c| !c.is_local()) {
        let Some((share, busy)) = connection.share_of_busy(|info| info.rwnd_limited) else { continue };
        if share <= 0.1 {
            continue;
        }
        let rate = connection.info.delivery_rate.unwrap_or(0) as f64 * 8.0 / 1e6;
        let finding = CHECK
            .finding(facts.name(connection.now), CHECK.title)
            .saw(Evidence::number("rwnd_limited", share * 100.0, "% of its busy time", "TCP_INFO"))
            .saw(Evidence::number("busy", busy as f64 / 1e6, "s", "TCP_INFO"))
            .saw(Evidence::number("rate", rate, "Mbit/s", "TCP_INFO"))
            .saw(Evidence::number("round trip", f64::from(connection.info.rtt) / 1e3, "ms", "TCP_INFO"))
            .saw(Evidence::amount("window", connection.info.snd_wnd.unwrap_or(0).into(), "bytes", "TCP_INFO"));
        findings.push((busy as f64 * share, finding));
    }
    findings.sort_by(|a, b| b.0.total_cmp(&a.0));
    told(&CHECK, findings.into_iter().take(MOST).map(|(_, finding)| finding))
}

/// Connections that are named, the longest held up first.
const MOST: usize = 5;
