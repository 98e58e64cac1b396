use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "tcp-mem-in-bytes",
    group: CheckGroup::Configuration,
    title: "tcp_mem allows more memory than there is: it counts pages, not bytes",
    evidence: "net.ipv4.tcp_mem times the page size against MemTotal",
    rule: "the second figure is more than all memory",
    severity: Severity::Serious,
    why: "TCP then never notices that memory is short, and the host runs out of it",
    remedies: &["remove the line: the kernel computes it from the memory at boot"],
    source: "Documentation/networking/ip-sysctl.rst, tcp_mem: pages",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    const PAGE: u64 = 4096;
    let numbers = facts.now.texts.numbers("net/ipv4/tcp_mem")?;
    let memory = facts.now.texts.memory()?;
    let Some(pressure) = numbers.get(1) else {
        return Err("net/ipv4/tcp_mem is not three numbers".to_owned());
    };
    if pressure.saturating_mul(PAGE) <= memory {
        return Ok(CheckOutcome::Fine);
    }
    let gib = |bytes: f64| bytes / (1u64 << 30) as f64;
    // The kernel's own: 1/8 of the memory, in shares of 3, 4 and 6 quarters (tcp_init_mem).
    let own = (memory / PAGE / 16).max(128);
    let mut finding = CHECK
        .finding("net.ipv4.tcp_mem", CHECK.title)
        .saw(Evidence::amount("tcp_mem", *pressure, "pages", "/proc/sys/net/ipv4"))
        .saw(Evidence::number("that is", gib(*pressure as f64 * PAGE as f64), "GiB", "calculated"))
        .saw(Evidence::number("MemTotal", gib(memory as f64), "GiB", "/proc/meminfo"))
        .cure(Remedy::sysctl(
            "net/ipv4/tcp_mem",
            format!("{} {} {}", own / 4 * 3, own, own / 4 * 3 * 2),
        ));
    if let Some(set) = facts.now.set_by("net/ipv4/tcp_mem") {
        finding = finding.saw(Evidence::text("set by", format!("line {}", set.line), set.file));
    }
    outcome(&CHECK, [finding])
}
