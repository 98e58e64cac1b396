use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "lowered-setting",
    group: CheckGroup::Configuration,
    title: "a setting is below the kernel's own default",
    evidence: "net.ipv4.tcp_rmem, tcp_wmem, net.core.rmem_max and others against the kernel's defaults; files of sysctl.d",
    rule: "below it",
    severity: Severity::Warning,
    why: "it was set for the hosts of another time, and slows this one",
    remedies: &["remove the line, so that the kernel's default holds"],
    source: "tcp_init of net/ipv4/tcp.c, net/core/sock.c; Documentation/networking/ip-sysctl.rst",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let memory = facts.now.texts.memory()?;
    let kernel = facts.now.kernel()?;
    // tcp_init: 1/128 of the memory, at most 4 MiB to send and 6 MiB to receive. What is free when it is computed is less than all.
    let share = memory / 128 * 3 / 4;
    let defaults: [(&str, usize, u64); 10] = [
        ("net/ipv4/tcp_rmem", 1, if kernel >= (4, 20) { 131_072 } else { 87_380 }),
        ("net/ipv4/tcp_rmem", 2, share.min(6 << 20)),
        ("net/ipv4/tcp_wmem", 1, 16_384),
        ("net/ipv4/tcp_wmem", 2, share.min(4 << 20)),
        ("net/core/rmem_max", 0, 212_992.min(share)),
        ("net/core/wmem_max", 0, 212_992.min(share)),
        ("net/core/netdev_max_backlog", 0, 1000),
        ("net/core/netdev_budget", 0, 300),
        ("net/core/somaxconn", 0, if kernel >= (5, 4) { 4096 } else { 128 }),
        ("net/ipv4/tcp_moderate_rcvbuf", 0, 1),
    ];
    let mut findings: Vec<Finding> = Vec::new();
    let mut why = None;
    let mut seen = 0;
    for (key, at, least) in defaults {
        let values = match facts.now.texts.numbers(key) {
            Ok(values) => values,
            Err(error) => {
                why = Some(error);
                continue;
            }
        };
        seen += 1;
        let Some(value) = values.get(at).copied().filter(|value| *value < least) else { continue };
        let name = key.replace('/', ".");
        if findings.iter().any(|finding| finding.subject == name) {
            continue;
        }
        let mut finding = CHECK
            .finding(name, CHECK.title)
            .saw(Evidence::count("value", value, format!("/proc/sys/{key}")))
            .saw(Evidence::count("default at least", least, "the kernel's source"));
        finding = match facts.now.set_by(key) {
            Some(set) => {
                let line = format!("line {}, \"{}\"", set.line, set.value);
                finding.saw(Evidence::text("set by", line, set.file))
            }
            None => finding.saw(Evidence::text("set by", "no file that was found", "sysctl.d(5)")),
        };
        let mut right = values;
        right[at] = least;
        let right: Vec<String> = right.iter().map(ToString::to_string).collect();
        findings.push(finding.cure(Remedy::sysctl(key, right.join(" "))));
    }
    match why {
        Some(why) if seen == 0 => Err(why),
        _ => outcome(&CHECK, findings),
    }
}
