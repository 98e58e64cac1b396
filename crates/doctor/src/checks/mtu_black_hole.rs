use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::MtuBlackHole,
    CheckGroup::Path,
    "connections whose full-sized segments are sent again and again; TCPMTUPSuccess; UDP of several sizes with DF and TCP, in both directions (--peer)",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    on_path(facts, of_connections(facts), of_path)
}

fn of_connections(facts: &Facts<'_>) -> CheckResult {
    let mut findings = waiting(facts, &CHECK, |c, seen| {
        let acknowledged = c.info.bytes_acked.unwrap_or(0);
        vec![
            Evidence::amount("segment", c.info.snd_mss.into(), "bytes", "TCP_INFO"),
            Evidence::count("timeouts in a row", seen.timeouts.into(), "TCP_INFO"),
            Evidence::amount("acknowledged", acknowledged, "bytes", "TCP_INFO"),
            Evidence::amount("waiting", c.now.send_queue.into(), "bytes", "sock_diag"),
        ]
    })?.findings().to_vec();
    // The kernel itself found a smaller size that passes, after timeouts.
    let probed = facts.counter("TcpExt.TCPMTUPSuccess").unwrap_or_default();
    if findings.is_empty() && probed.total > 0 && facts.now.texts.number("net/ipv4/tcp_mtu_probing") == Ok(1) {
        let mut finding = Cause::MtuBlackHole.finding("this host", "this end", "the other end");
        finding.evidence = probed.evidence("TCPMTUPSuccess", "/proc/net/netstat");
        findings.push(finding);
    }
    Ok(CheckOutcome::of(findings))
}

fn of_path(ends: &BothEnds, path: &str) -> Vec<Finding> {
    let ways = [("there", "this end", &ends.to_there), ("back", "the other end", &ends.to_here)];
    let found = ways.map(|(way, sender, sizes)| swallowed(&format!("{path}, the way {way}"), sender, sizes));
    found.into_iter().flatten().collect()
}

/// Of one way of a path both of whose ends told what got through.
fn swallowed(subject: &str, sender: &str, sizes: &PacketSizes) -> Option<Finding> {
    let (most, lost) = sizes.swallows()?;
    // Where TCP of that size passes, it is no question of size alone.
    if sizes.bulk == Some(true) && sizes.segment >= lost {
        return None;
    }
    let mut finding = Cause::MtuBlackHole
        .finding(subject, sender, "")
        .saw(Evidence::amount("UDP up to", most.into(), "bytes arrives", "quell serve"))
        .saw(Evidence::amount("none from", lost.into(), "bytes on, and nobody says why", "quell serve"));
    match sizes.bulk {
        Some(true) => {
            finding.says = "large datagrams do not arrive, small ones do; TCP's segments are small enough".to_owned();
            finding.severity = Severity::Warning;
        }
        Some(false) => {
            let text = format!("packets of {} bytes don't arrive", sizes.segment);
            finding = finding.saw(Evidence::text("TCP", text, "TCP_INFO"));
        }
        None => {}
    }
    Some(finding)
}
