use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "dead-knobs",
    group: CheckGroup::Configuration,
    title: "a line sets something that has no effect any more",
    evidence: "sysctl.d files for tcp_fack, tcp_tw_recycle, tcp_adv_win_scale and the like",
    rule: "set in a file that counts",
    severity: Severity::Note,
    why: "nothing is gained, and some print an error at each boot; they come from old guides, whose other lines are best looked at too",
    remedies: &["remove the line"],
    source: "Documentation/networking/ip-sysctl.rst, tcp_fack; commits 4396e46187ca (tcp_tw_recycle, 4.12) and dfa2f0483360 (tcp_adv_win_scale, 6.6)",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let kernel = facts.now.kernel()?;
    let dead = |key: &str, since: (u32, u32)| {
        (kernel >= since).then(|| facts.now.set_by(&format!("net/ipv4/{key}"))).flatten()
    };
    let one = |(key, since): (&str, (u32, u32))| {
        let set = dead(key, since)?;
        let finding = CHECK
            .finding(format!("net.ipv4.{key}"), CHECK.title)
            .saw(Evidence::text("value", &set.value, format!("{}:{}", set.file, set.line)))
            .saw(Evidence::text("without effect since", format!("{}.{}", since.0, since.1), "kernel"));
        Some(finding)
    };
    outcome(&CHECK, DEAD.into_iter().filter_map(one))
}

/// Settings, and since which kernel they do nothing: looked up in the kernel's history.
const DEAD: [(&str, (u32, u32)); 4] = [
    ("tcp_fack", (4, 15)),
    ("tcp_tw_recycle", (4, 12)),
    ("tcp_low_latency", (4, 14)),
    ("tcp_adv_win_scale", (6, 6)),
];
