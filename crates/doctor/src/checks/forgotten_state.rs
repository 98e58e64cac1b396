//! Check 67: what stands between forgets flows that are idle.

use super::prelude::*;
use crate::peer::Idle;

pub(super) const CHECK: Check = Check {
    number: 67,
    name: "forgotten-state",
    group: Group::Path,
    title: "something on the way forgets a flow that is idle",
    evidence: "what the other end sends after flows of UDP and connections of TCP were idle for longer and longer (--peer with --idle)",
    rule: "after some time none arrives; a warning below what the RFCs ask for, two minutes of UDP and two hours of TCP",
    severity: Severity::Note,
    why: "what comes from the other end after that is dropped: calls ring no more, tunnels, games and sessions hang until this end sends",
    fix: "keepalives more often than that, as WireGuard's PersistentKeepalive or ssh's ServerAliveInterval; raise the timeout of the NAT or firewall",
    source: "RFC 4787, REQ-5: at least two minutes, five recommended; RFC 5382, REQ-5: two hours and four minutes",
    look,
};

/// RFC 4787, REQ-5.
const LEAST_UDP_MS: u32 = 120_000;
/// RFC 5382, REQ-5.
const LEAST_TCP_MS: u32 = 7_440_000;

fn look(facts: &Facts<'_>) -> Look {
    with_ends(facts, |ends, path| {
        let kinds = [("UDP", &ends.idle, LEAST_UDP_MS), ("TCP", &ends.idle_tcp, LEAST_TCP_MS)];
        let seen = || kinds.iter().filter_map(|(kind, idle, least)| Some((*kind, idle.as_ref()?, *least)));
        if seen().next().is_none() {
            return Ok(Outcome::NotApplicable("needs --idle: it takes that long".to_owned()));
        }
        let silent = |idle: &Idle| idle.died.is_empty() && !idle.unknown.is_empty();
        if let Some((kind, idle, _)) = seen().find(|(_, idle, _)| silent(idle)) {
            let after = f64::from(idle.unknown[0]) / 1000.0;
            return Err(format!(
                "the other end promised a word over idle flows of {kind} and did not say it after {after} s, though the flow lived or it had ended it itself"
            ));
        }
        if let Some((kind, ..)) = seen().find(|(_, idle, _)| idle.lived.is_empty()) {
            return Err(format!("nothing of {kind} came, however short the flow was idle"));
        }
        told(&CHECK, seen().filter_map(|(kind, idle, least)| forgotten(path, kind, idle, least)))
    })
}

fn forgotten(path: &str, kind: &str, idle: &Idle, least_ms: u32) -> Option<Finding> {
    let (lived, died) = idle.between()?;
    let seconds = |ms: u32| f64::from(ms) / 1000.0;
    let mut finding = CHECK
        .finding(path, format!("something on the way forgets a flow of {kind} that is idle"))
        .saw(Evidence::number("alive after", seconds(lived), "s", "quell serve"))
        .saw(Evidence::number("forgotten after", seconds(died), "s", "quell serve"));
    if died < least_ms {
        finding.severity = Severity::Warning;
    }
    if !idle.told {
        finding = finding.saw(Evidence::text("the other end", "did not tell whether it sent again", "quell serve"));
        finding.severity = Severity::Note;
    }
    Some(finding)
}
