use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "congestion-control",
    group: CheckGroup::Configuration,
    title: "the congestion control that is asked for is not the one in force",
    evidence: "the value in sysctl.d files against net.ipv4.tcp_congestion_control and tcp_available_congestion_control",
    rule: "they differ, and the module is not there",
    severity: Severity::Warning,
    why: "the setting was refused at boot, most often since its module was not loaded then",
    remedies: &["name the module in /etc/modules-load.d, or remove the line"],
    source: "Documentation/networking/ip-sysctl.rst, tcp_congestion_control; modules-load.d(5)",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let key = "net/ipv4/tcp_congestion_control";
    let now = facts.now.texts.setting(key)?;
    let available = facts.now.texts.setting("net/ipv4/tcp_available_congestion_control")?;
    let Some(set) = facts.now.set_by(key) else { return Ok(CheckOutcome::Fine) };
    if set.value == now || available.split_whitespace().any(|name| name == set.value) {
        return Ok(CheckOutcome::Fine);
    }
    let finding = CHECK
        .finding("net.ipv4.tcp_congestion_control", CHECK.title)
        .saw(Evidence::text("in force", now, "/proc/sys/net/ipv4"))
        .saw(Evidence::text("available", available, "/proc/sys/net/ipv4"))
        .saw(Evidence::text("asked for", &set.value, format!("{}:{}", set.file, set.line)))
        .cure(Remedy::command(format!("modprobe tcp_{}", set.value)));
    outcome(&CHECK, [finding.cure(Remedy::advice(CHECK.remedies[0]))])
}
