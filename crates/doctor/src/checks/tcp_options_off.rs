use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "tcp-options-off",
    group: CheckGroup::Configuration,
    title: "an option that TCP needs on today's paths is off",
    evidence: "net.ipv4.tcp_sack, tcp_timestamps, tcp_window_scaling",
    rule: "any of them 0",
    severity: Severity::Serious,
    why: "without window scaling at most 64 kB is in flight; without SACK each loss costs a round trip; without \
         timestamps old segments pass for new ones above 1 Gbit/s",
    remedies: &["1 for all three; the SACK weaknesses of 2019 are mended in every kernel that is kept"],
    source: "RFC 7323; RFC 2018; fasterdata.es.net",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let mut findings = Vec::new();
    for (name, severity) in [
        ("tcp_sack", Severity::Warning),
        ("tcp_timestamps", Severity::Warning),
        ("tcp_window_scaling", Severity::Serious),
    ] {
        let key = format!("net/ipv4/{name}");
        if facts.now.texts.number(&key)? != 0 {
            continue;
        }
        let mut finding = CHECK
            .finding(name, CHECK.title)
            .saw(Evidence::count(name, 0, "/proc/sys/net/ipv4"))
            .cure(Remedy::sysctl(&key, "1"));
        finding.severity = severity;
        if let Some(set) = facts.now.set_by(&key) {
            finding = finding.saw(Evidence::text("set by", format!("line {}", set.line), set.file));
        }
        findings.push(finding);
    }
    outcome(&CHECK, findings)
}
