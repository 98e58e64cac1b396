//! Check 32: many losses are only found by a timeout.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 32,
    name: "timeouts",
    group: Group::Errors,
    title: "many losses are only found by a timeout",
    evidence: "TcpExt TCPTimeouts against Tcp RetransSegs",
    rule: "20, and half of all retransmissions, which are 0.1 % of what is sent",
    severity: Severity::Warning,
    why: "a timeout is 200 ms or more of silence; the last packets of a burst are lost, or too few follow to tell",
    fix: "keep tcp_early_retrans=3 and tcp_recovery=1 (tail loss probes, RACK); find the losses",
    source: "RFC 8985; Documentation/networking/ip-sysctl.rst, tcp_early_retrans",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let again = facts.moved("Tcp.RetransSegs")?;
    let sent = facts.moved("TcpExt.TCPOrigDataSent")?;
    let timeouts = facts.moved("TcpExt.TCPTimeouts")?;
    // Those of SYNs are another check's.
    let syns = facts.moved("TcpExt.TCPSynRetrans").unwrap_or_default();
    let (of_data, all) =
        (timeouts.total.saturating_sub(syns.total), again.total.saturating_sub(syns.total));
    if of_data < 20 || percent(of_data, all) < 50.0 || percent(all, sent.total) < 0.1 {
        return Ok(Outcome::Fine);
    }
    let mut finding = CHECK.finding("this host", CHECK.title);
    finding.evidence = timeouts.evidence("TCPTimeouts", "/proc/net/netstat");
    finding = finding
        .saw(Evidence::count("RetransSegs", again.total, "/proc/net/snmp"))
        .saw(Evidence::count("TCPSynRetrans", syns.total, "/proc/net/netstat"));
    for (key, right) in [("net/ipv4/tcp_early_retrans", 3), ("net/ipv4/tcp_recovery", 1)] {
        if facts.now.texts.number(key).is_ok_and(|value| value == 0) {
            finding = finding
                .saw(Evidence::count(key, 0, "/proc/sys"))
                .cure(Remedy::sysctl(key, right.to_string()));
        }
    }
    told(&CHECK, [finding])
}
