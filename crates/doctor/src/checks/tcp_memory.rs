use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "tcp-memory",
    group: CheckGroup::Utilisation,
    title: "TCP uses as much memory as it may",
    evidence: "sockstat TCP mem against tcp_mem; TCPMemoryPressures",
    rule: "memory at the second figure of tcp_mem, or pressure since",
    severity: Severity::Serious,
    why: "beyond it all connections get smaller buffers, and beyond the third figure they are reset",
    remedies: &["find what holds the memory (quell doctor names slow readers); lower what one socket may have before raising tcp_mem"],
    source: "Documentation/networking/ip-sysctl.rst, tcp_mem; netdata's alarm tcp_memory",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let used = facts.now.sockstat("TCP.mem")?;
    let limits = facts.now.texts.numbers("net/ipv4/tcp_mem")?;
    let &[_, pressure, most] = limits.as_slice() else {
        return Err("net/ipv4/tcp_mem is not three numbers".to_owned());
    };
    let entered = facts.counter("TcpExt.TCPMemoryPressures").unwrap_or_default();
    if used < pressure && entered.watched == 0 {
        return Ok(CheckOutcome::Fine);
    }
    let source = "/proc/net/sockstat";
    let mut finding = CHECK
        .finding("this host", CHECK.title)
        .saw(Evidence::amount("TCP mem", used, "pages", source))
        .saw(Evidence::text("tcp_mem", format!("{pressure} pressure, {most} most"), "/proc/sys"));
    if entered.total > 0 {
        finding.evidence.extend(entered.evidence("TCPMemoryPressures", "/proc/net/netstat"));
    }
    outcome(&CHECK, [finding])
}
