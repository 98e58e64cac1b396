use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "local-ports",
    group: CheckGroup::Utilisation,
    title: "nearly all local ports to one destination are in use",
    evidence: "connections by destination, those in TIME-WAIT too (sock_diag); ip_local_port_range",
    rule: "80 % of the range",
    severity: Severity::Warning,
    why: "when all are in use, connect(2) to that destination fails",
    remedies: &["keep connections open and share them (a pool); widen ip_local_port_range; use more addresses; net.ipv4.tcp_tw_reuse=1"],
    source: "Documentation/networking/ip-sysctl.rst, ip_local_port_range; the share is our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let range = facts.now.texts.numbers("net/ipv4/ip_local_port_range")?;
    let &[first, last] = range.as_slice() else {
        return Err("net/ipv4/ip_local_port_range is not two numbers".to_owned());
    };
    let ports = last.saturating_sub(first) + 1;
    let Some((destination, used)) = &facts.now.sockets()?.busiest_destination else {
        return Ok(CheckOutcome::Fine);
    };
    let share = percent(*used, ports);
    if share < 80.0 {
        return Ok(CheckOutcome::Fine);
    }
    let finding = CHECK
        .finding(format!("connections to {destination}"), CHECK.title)
        .saw(Evidence::count("connections", *used, "sock_diag"))
        .saw(Evidence::text("ip_local_port_range", format!("{first} {last}"), "/proc/sys/net/ipv4"))
        .saw(Evidence::number("share", share, "%", "calculated"));
    let waiting = facts.now.sockets()?.states.get("TimeWait").copied();
    let seen = waiting.map(|n| Evidence::count("in TIME-WAIT, of all", n, "sock_diag"));
    let finding = seen.into_iter().fold(finding, Finding::saw);
    let finding = match ports < 20_000 {
        true => finding.cure(Remedy::sysctl("net/ipv4/ip_local_port_range", "32768 60999")),
        false => finding,
    };
    outcome(&CHECK, [finding])
}
