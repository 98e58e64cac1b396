//! Check 67: what stands between forgets flows that are idle.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 67,
    name: "forgotten-state",
    group: Group::Path,
    title: "something on the way forgets a UDP flow that is idle",
    evidence: "datagrams from the other end after flows were idle for longer and longer (--peer with --idle)",
    rule: "after some time none arrives; a warning below two minutes",
    severity: Severity::Note,
    why: "what comes from the other end after that is dropped: calls ring no more, tunnels and games hang until this end sends",
    fix: "keepalives more often than that, as WireGuard's PersistentKeepalive; raise the timeout of the NAT or firewall",
    source: "RFC 4787, REQ-5: at least two minutes, five recommended",
    look,
};

/// RFC 4787, REQ-5.
const LEAST_MS: u32 = 120_000;

fn look(facts: &Facts<'_>) -> Look {
    with_ends(facts, |ends, path| {
        let Some(idle) = &ends.idle else {
            return Ok(Outcome::NotApplicable("needs --idle: it takes that long".to_owned()));
        };
        if idle.lived.is_empty() {
            return Err("no datagram came, however short the flow was idle".to_owned());
        }
        let Some((lived, died)) = idle.between() else { return Ok(Outcome::Fine) };
        let seconds = |ms: u32| f64::from(ms) / 1000.0;
        let mut finding = CHECK
            .finding(path, CHECK.title)
            .saw(Evidence::number("alive after", seconds(lived), "s", "quell serve"))
            .saw(Evidence::number("forgotten after", seconds(died), "s", "quell serve"));
        if died < LEAST_MS {
            finding.severity = Severity::Warning;
        }
        told(&CHECK, [finding])
    })
}
