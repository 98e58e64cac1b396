use super::prelude::*;
use std::net::SocketAddr;

pub(super) const CHECK: Check = Check {
    name: "address-translation",
    group: CheckGroup::Path,
    title: "the two ends see different addresses or ports",
    evidence: "the 5-tuple at both ends (--peer)",
    rule: "they differ",
    severity: Severity::Note,
    why: "a translation is between the ends, and forgets idle connections",
    remedies: &["keepalives below the timeout of that state"],
    source: "RFC 5382",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    with_ends(facts, |ends, path| {
        let tcp = [(ends.here.local, ends.there.remote), (ends.here.remote, ends.there.local)];
        let udp = ends.udp.map(|(here, there)| (Some(here), Some(there)));
        let named = ["own address of TCP", "the other end's", "own address of UDP"];
        let mut finding = CHECK.finding(path, CHECK.title);
        for (name, pair) in named.into_iter().zip(tcp.into_iter().chain(udp)) {
            let (Some(here), Some(there)) = pair else { continue };
            if canonical(here) != canonical(there) {
                let text = format!("{here} here, {there} there");
                finding = finding.saw(Evidence::text(name, text, "both ends"));
            }
        }
        if finding.evidence.is_empty() {
            return Ok(CheckOutcome::Fine);
        }
        outcome(&CHECK, [finding])
    })
}

/// A socket of both families names IPv4 addresses as IPv6 ones.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
