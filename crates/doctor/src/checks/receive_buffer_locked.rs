use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "receive-buffer-locked",
    group: CheckGroup::Saturation,
    title: "this program has fixed its receive buffer (SO_RCVBUF), and that holds the connection up",
    evidence: "receive buffer (SK_MEMINFO) below the second figure of tcp_rmem, or not growing with rcv_space; rcv_rtt",
    rule: "what is received in a round trip fills a fixed buffer",
    severity: Severity::Warning,
    why: "the kernel would let the buffer grow with the path; a program that sets it switches that off",
    remedies: &["remove SO_RCVBUF from the program's settings"],
    source: "tcp(7), SO_RCVBUF; tcp_rcv_space_adjust of net/ipv4/tcp_input.c",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let numbers = facts.now.texts.numbers("net/ipv4/tcp_rmem")?;
    let &[_, first, most] = numbers.as_slice() else {
        return Err("net/ipv4/tcp_rmem is not three numbers".to_owned());
    };
    let mut findings = Vec::new();
    for c in facts.connections()?.iter().filter(|c| !c.is_local()) {
        let Some(memory) = c.now.memory else { continue };
        let buffer = u64::from(memory.receive_buffer);
        let space = u64::from(c.info.rcv_space);
        // Left to itself it starts with the second figure, and grows to twice what was read in a round trip (up to the third).
        let fixed = buffer < first || (space * 2 > buffer && buffer * 100 < most * 95);
        let window = buffer / 2;
        let rtt = f64::from(c.info.rcv_rtt.max(1)) / 1e6;
        let bound = window as f64 / rtt;
        let came = c.went(|info| info.bytes_received);
        let seconds = if c.earlier.is_some() { facts.seconds().max(0.001) } else { f64::MAX };
        // A program that does not read is another check's.
        let read = c.now.receive_queue < memory.receive_buffer / 4;
        if !fixed || !read || c.info.rcv_rtt == 0 || came < 50_000 || (came as f64 / seconds) < 0.3 * bound {
            continue;
        }
        let finding = CHECK
            .finding(facts.name(c.now), CHECK.title)
            .saw(Evidence::amount("buffer", buffer, "bytes", "sock_diag"))
            .saw(Evidence::amount("the kernel starts with", first, "bytes", "/proc/sys/net/ipv4/tcp_rmem"))
            .saw(Evidence::number("round trip", rtt * 1e3, "ms", "TCP_INFO"))
            .saw(Evidence::number("bounds it to some", bound * 8.0 / 1e6, "Mbit/s", "calculated"));
        findings.push(finding);
    }
    outcome(&CHECK, findings.into_iter().take(5))
}
