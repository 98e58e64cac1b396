use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "syn-retransmissions",
    group: CheckGroup::Errors,
    title: "connection attempts were not answered",
    evidence: "TcpExt TCPSynRetrans; Tcp ActiveOpens",
    rule: "more than 4, 10 an hour, and one in 20 attempts",
    severity: Severity::Warning,
    why: "each costs a second, then three, then seven",
    remedies: &["find what does not answer: a firewall that drops, a host that is down, a full queue of SYNs there"],
    source: "tcp(7), tcp_syn_retries; RFC 6298, section 5.7",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let opened = facts.counter("Tcp.ActiveOpens")?;
    let (moved, _) = facts.counters(&["TcpExt.TCPSynRetrans"])?;
    // What this host dropped itself is no silence of another: reverse-path-filter.
    if facts.counter("TcpExt.IPReversePathFilter").is_ok_and(|count| count.watched > 0) {
        return Ok(CheckOutcome::Fine);
    }
    if percent(moved.total, opened.total) < 5.0 && percent(moved.watched, opened.watched) < 5.0 {
        return Ok(CheckOutcome::Fine);
    }
    let limit = Threshold { least: 5, per_hour: 10.0 };
    rising(facts, &CHECK, &["TcpExt.TCPSynRetrans"], limit, |finding, _| {
        let trying = facts.now.sockets().ok().and_then(|s| s.states.get("SynSent").copied());
        let finding = finding.saw(Evidence::count("ActiveOpens", opened.total, "/proc/net/snmp"));
        match trying {
            Some(trying) => finding.saw(Evidence::count("trying now", trying, "sock_diag")),
            None => finding,
        }
    })
}
