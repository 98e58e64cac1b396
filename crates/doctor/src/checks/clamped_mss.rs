use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "clamped-mss",
    group: CheckGroup::Path,
    title: "the other end takes smaller segments than the path would",
    evidence: "TCP_INFO snd_mss against the path MTU; the MSS that one end sent and the other received (--peer)",
    rule: "more than 100 bytes below what fits, on a connection that moved 100 kB",
    severity: Severity::Note,
    why: "more packets for the same data; a tunnel or a firewall clamps the MSS, or the other end's MTU is smaller",
    remedies: &["nothing, where a tunnel is in between; else look for a rule that sets the MSS"],
    source: "RFC 9293, section 3.7.1",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    on_path(facts, of_connections(facts), of_path)
}

fn of_connections(facts: &Facts<'_>) -> CheckResult {
    let mut findings: Vec<Finding> = Vec::new();
    for c in facts.connections()?.iter().filter(|c| !c.is_local()) {
        let headers = if c.now.remote.is_ipv4() { 40 } else { 60 };
        // Timestamps take 12 bytes of each segment.
        let options = if c.info.options & 1 != 0 { 12 } else { 0 };
        let fits = c.info.pmtu.saturating_sub(headers + options);
        let moved = c.info.bytes_acked.unwrap_or(0);
        if moved < 100_000 || c.info.snd_mss + 100 >= fits {
            continue;
        }
        let finding = CHECK
            .finding(facts.name(c.now), CHECK.title)
            .saw(Evidence::amount("segment", c.info.snd_mss.into(), "bytes", "TCP_INFO"))
            .saw(Evidence::amount("would fit", fits.into(), "bytes", "TCP_INFO"));
        findings.push(finding);
    }
    outcome(&CHECK, findings.into_iter().take(5))
}

/// What one end told and the other did not hear so, though the path would carry it.
fn of_path(ends: &BothEnds, path: &str) -> Vec<Finding> {
    let ways = [
        // The MSS that we told binds what comes here, and the other way round.
        ("here", &ends.here, &ends.there, &ends.to_here),
        ("there", &ends.there, &ends.here, &ends.to_there),
    ];
    let mut findings = Vec::new();
    for (name, teller, hearer, way) in ways {
        let options = if hearer.options & 1 != 0 { 12 } else { 0 };
        let heard = hearer.snd_mss + options;
        let carries = way.mtu().unwrap_or(hearer.pmtu).min(hearer.pmtu).saturating_sub(ends.headers());
        if hearer.snd_mss > 0 && heard + 100 < teller.advmss.min(carries) {
            findings.push(
                CHECK
                    .finding(path, "a middlebox clamps the size of TCP's segments below what the path carries")
                    .saw(Evidence::amount("MSS as told", teller.advmss.into(), name, "TCP_INFO"))
                    .saw(Evidence::amount("as heard", heard.into(), "at the other end", "TCP_INFO"))
                    .saw(Evidence::amount("would fit", carries.into(), "bytes", "quell serve"))
                    .cure(Remedy::advice(CHECK.remedies[0])),
            );
        }
    }
    findings
}
