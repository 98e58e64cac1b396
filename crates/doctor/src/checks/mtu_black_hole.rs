//! Check 56: large packets don't arrive, small ones do.

use super::prelude::*;
use crate::peer::Way;

pub(super) const CHECK: Check = Check {
    number: 56,
    name: "mtu-black-hole",
    group: Group::Path,
    title: "large packets don't arrive, small ones do",
    evidence: "connections whose full-sized segments are sent again and again; TCPMTUPSuccess, TCPMTUPFail; UDP of several sizes with DF and TCP, both ways (--peer)",
    rule: "three doublings of the timeout with full-sized segments, after small ones were acknowledged; or all above some size is lost, and no ICMP says so",
    severity: Severity::Serious,
    why: "a hop drops what is too big for it, and its message about that is lost: connections open, and then hang",
    fix: "mend the hop or its firewall (ICMP type 3 code 4, ICMPv6 type 2); net.ipv4.tcp_mtu_probing=1 finds a way; clamp the MSS",
    source: "RFC 2923; RFC 4821",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    sure(facts, on_path(facts, of_connections(facts), of_path))
}

fn of_connections(facts: &Facts<'_>) -> Look {
    let mut findings = Vec::new();
    for c in facts.connections()?.iter().filter(|c| !c.is_local()) {
        let full = c.info.snd_mss >= 1000 && c.now.send_queue >= c.info.snd_mss;
        // More than the handshake was acknowledged, or there came an answer: the other end is there.
        let small = c.info.bytes_acked.unwrap_or(0) > 1 || c.info.bytes_received.unwrap_or(0) > 0;
        let little = c.info.bytes_acked.unwrap_or(0) < u64::from(c.info.snd_mss);
        if c.info.backoff < 3 || !full || !little {
            continue;
        }
        let mut finding = CHECK
            .finding(facts.name(c.now), CHECK.title)
            .saw(Evidence::amount("segment", c.info.snd_mss.into(), "bytes", "TCP_INFO"))
            .saw(Evidence::count("timeouts in a row", c.info.backoff.into(), "TCP_INFO"))
            .saw(Evidence::amount("acknowledged", c.info.bytes_acked.unwrap_or(0), "bytes", "TCP_INFO"))
            .saw(Evidence::amount("waiting", c.now.send_queue.into(), "bytes", "sock_diag"));
        if !small {
            finding.says = "full-sized packets don't arrive; whether small ones do was not seen".to_owned();
            finding.severity = Severity::Warning;
        }
        findings.push(finding.cure(Remedy::sysctl("net/ipv4/tcp_mtu_probing", "1")).cure(Remedy::advice(CHECK.fix)));
    }
    // The kernel itself found a smaller size that passes, after timeouts.
    let probed = facts.moved("TcpExt.TCPMTUPSuccess").unwrap_or_default();
    if findings.is_empty() && probed.total > 0 && facts.now.texts.number("net/ipv4/tcp_mtu_probing") == Ok(1) {
        let mut finding = CHECK.finding("this host", CHECK.title);
        finding.evidence = probed.evidence("TCPMTUPSuccess", "/proc/net/netstat");
        findings.push(finding);
    }
    told(&CHECK, findings.into_iter().take(5))
}

fn of_path(ends: &Ends, path: &str) -> Vec<Finding> {
    let ways = [("there", &ends.to_there), ("back", &ends.to_here)];
    let found = ways.map(|(name, way)| swallowed(&format!("{path}, the way {name}"), way));
    found.into_iter().flatten().collect()
}

/// Of one way of a path both of whose ends told what got through.
fn swallowed(subject: &str, way: &Way) -> Option<Finding> {
    let (most, lost) = way.swallows()?;
    // Where TCP of that size passes, it is no question of size alone.
    if way.bulk == Some(true) && way.segment >= lost {
        return None;
    }
    let mut finding = CHECK
        .finding(subject, CHECK.title)
        .saw(Evidence::amount("UDP up to", most.into(), "bytes arrives", "quell serve"))
        .saw(Evidence::amount("none from", lost.into(), "bytes on, and nobody says why", "quell serve"));
    match way.bulk {
        Some(true) => {
            finding.says = "large datagrams don't arrive, small ones do; TCP's segments are small enough".to_owned();
            finding.severity = Severity::Warning;
        }
        Some(false) => {
            let text = format!("packets of {} bytes don't arrive", way.segment);
            finding = finding.saw(Evidence::text("TCP", text, "TCP_INFO"));
        }
        None => {}
    }
    Some(finding.cure(Remedy::advice(CHECK.fix)))
}
