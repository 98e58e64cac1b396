use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "options-refused",
    group: CheckGroup::Path,
    title: "a connection has no window scaling or no SACK, though this end offers them",
    evidence: "options of TCP_INFO against net.ipv4.tcp_window_scaling and tcp_sack; both ends' (--peer)",
    rule: "a connection that moved 100 kB; or both ends offer it, and it is not in force at both",
    severity: Severity::Warning,
    why: "the other end, or a middlebox that strips options, holds it at 64 kB in flight or makes each loss dear",
    remedies: &["look at the other end's settings; if they are on there, a middlebox is in between: compare captures"],
    source: "RFC 7323; RFC 2018; RFC 3449",
    look,
};

/// Bits of `tcpi_options` (include/uapi/linux/tcp.h).
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const WINDOW_SCALING: u8 = 4;

fn look(facts: &Facts<'_>) -> CheckResult {
    on_path(facts, of_connections(facts), of_path)
}

fn of_connections(facts: &Facts<'_>) -> CheckResult {
    let mut findings = Vec::new();
    let offered = [
        ("tcp_window_scaling", WINDOW_SCALING, "window scaling"),
        ("tcp_sack", SACK, "SACK"),
    ];
    let mut lacking = Vec::new();
    for (name, bit, words) in offered {
        if facts.now.texts.number(&format!("net/ipv4/{name}"))? != 0 {
            lacking.push((bit, words));
        }
    }
    for c in facts.connections()?.iter().filter(|c| !c.is_local()) {
        let moved = c.info.bytes_acked.unwrap_or(0).max(c.info.bytes_received.unwrap_or(0));
        let without: Vec<&str> = lacking
            .iter()
            .filter(|(bit, _)| c.info.options & bit == 0)
            .map(|(_, words)| *words)
            .collect();
        if moved < 100_000 || without.is_empty() {
            continue;
        }
        let finding = CHECK
            .finding(facts.name(c.now), CHECK.title)
            .saw(Evidence::text("without", without.join(", "), "TCP_INFO"))
            .saw(Evidence::amount("moved", moved, "bytes", "TCP_INFO"));
        findings.push(finding);
    }
    outcome(&CHECK, findings.into_iter().take(5))
}

/// What both ends offer, and one of them did not hear; or a scale that is not what was told.
fn of_path(ends: &BothEnds, path: &str) -> Vec<Finding> {
    let (here, there) = (&ends.here, &ends.there);
    let (Some(ours), Some(theirs)) = (here.offers, there.offers) else { return Vec::new() };
    let mut without = Vec::new();
    for (words, bit, both) in [
        ("SACK", SACK, ours.sack && theirs.sack),
        ("window scaling", WINDOW_SCALING, ours.window_scaling && theirs.window_scaling),
        ("timestamps", TIMESTAMPS, ours.timestamps && theirs.timestamps),
    ] {
        let at = [("here", here), ("there", there)];
        let lack: Vec<&str> =
            at.iter().filter(|(_, end)| end.options & bit == 0).map(|(name, _)| *name).collect();
        if both && !lack.is_empty() {
            without.push(format!("{words} (not in force {})", lack.join(" and ")));
        }
    }
    let scaled = here.options & there.options & WINDOW_SCALING != 0;
    for (told, heard) in [(here.told_scale, there.got_scale), (there.told_scale, here.got_scale)] {
        if scaled && told != heard {
            without.push(format!("window scale {told}, which arrived as {heard}"));
        }
    }
    if without.is_empty() {
        return Vec::new();
    }
    let text = "both ends offer an option of TCP, and a middlebox strips or changes it";
    let finding = CHECK
        .finding(path, text)
        .saw(Evidence::text("lost on the way", without.join(", "), "TCP_INFO of both ends"));
    vec![finding.cure(Remedy::advice("find the middlebox: a firewall that normalises TCP, a load balancer, a satellite or mobile proxy"))]
}
