//! Check 47: the largest buffer that TCP may have is too small for this connection.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 47,
    name: "tcp-buffers",
    group: Group::Configuration,
    title: "the largest buffer that TCP may have is too small for this connection",
    evidence: "buffers of connections at the third figure of tcp_rmem and tcp_wmem, and full",
    rule: "the buffer is at its maximum, and holds the connection up",
    severity: Severity::Warning,
    why: "no more than a buffer's worth is under way in a round trip",
    fix: "raise the maximum to twice rate x round trip: quell tune computes it",
    source: "Documentation/networking/ip-sysctl.rst, tcp_rmem, tcp_wmem; twice the BDP is our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let last = |key: &str| -> Result<u64, String> {
        let numbers = facts.now.texts.numbers(key)?;
        numbers.get(2).copied().ok_or_else(|| format!("{key} is not three numbers"))
    };
    let (receive, send) = (last("net/ipv4/tcp_rmem")?, last("net/ipv4/tcp_wmem")?);
    let mut findings = Vec::new();
    for c in facts.connections()?.iter().filter(|c| !c.is_local()) {
        let Some(memory) = c.now.memory else { continue };
        let near = |buffer: u32, most: u64| u64::from(buffer) * 100 >= most * 95;
        let sends = c.share_of_busy(|info| info.sndbuf_limited).is_some_and(|(share, _)| share > 0.1);
        let ways = [
            ("net/ipv4/tcp_wmem", near(memory.send_buffer, send) && sends, send, c.info.rtt),
            // What was copied in a round trip fills half of the buffer or more.
            (
                "net/ipv4/tcp_rmem",
                near(memory.receive_buffer, receive)
                    && u64::from(c.info.rcv_space) * 2 >= receive
                    && c.went(|info| info.bytes_received) >= receive,
                receive,
                c.info.rcv_rtt,
            ),
        ];
        for (key, _, most, rtt) in ways.into_iter().filter(|(_, held, ..)| *held) {
            let rate = most as f64 / 2.0 * 8.0 / (f64::from(rtt.max(1)) / 1e6) / 1e6;
            let finding = CHECK
                .finding(facts.name(c.now), CHECK.title)
                .saw(Evidence::amount(key, most, "bytes at most", "/proc/sys"))
                .saw(Evidence::number("round trip", f64::from(rtt) / 1e3, "ms", "TCP_INFO"))
                .saw(Evidence::number("bounds it to some", rate, "Mbit/s", "calculated"));
            findings.push(finding);
        }
    }
    told(&CHECK, findings.into_iter().take(5))
}
