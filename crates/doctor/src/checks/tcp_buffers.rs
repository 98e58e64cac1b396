use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "tcp-buffers",
    group: CheckGroup::Configuration,
    title: "the largest buffer that TCP may have is too small for this connection",
    evidence: "buffers of connections at the third figure of tcp_rmem and tcp_wmem, and full",
    rule: "the buffer is at its maximum, and holds the connection up",
    severity: Severity::Warning,
    why: "no more than a buffer's worth is under way in a round trip",
    remedies: &["raise the third figure to rate x round trip, times 2 for tcp_rmem, times 1.5 x (mss + 1280) / mss for tcp_wmem: quell tune computes it"],
    source: "Documentation/networking/ip-sysctl.rst, tcp_rmem, tcp_wmem; sk_stream_is_writeable of include/net/sock.h; twice is our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let last = |key: &str| -> Result<u64, String> {
        let numbers = facts.now.texts.numbers(key)?;
        numbers.get(2).copied().ok_or_else(|| format!("{key} is not three numbers"))
    };
    let (receive, send) = (last("net/ipv4/tcp_rmem")?, last("net/ipv4/tcp_wmem")?);
    let mut findings = Vec::new();
    for c in facts.connections()?.iter().filter(|c| !c.is_local()) {
        let Some(memory) = c.now.memory else { continue };
            // A program is woken when a third is free, and each segment costs some 1280 bytes besides its payload.
        let mss = f64::from(c.info.snd_mss.max(1));
        let payload = send as f64 * 2.0 / 3.0 * mss / (mss + 1280.0);
        let ways = [
            (
                "net/ipv4/tcp_wmem",
                is_at_most(memory.send_buffer, send) && facts.of_connection(c).cause() == Some(Cause::SendBuffer),
                send,
                payload,
                c.info.rtt,
            ),
            // What was copied in a round trip is nearly half of the buffer or more. Half is what kernels before 6.6 let a window be at most.
            (
                "net/ipv4/tcp_rmem",
                is_at_most(memory.receive_buffer, receive)
                    && u64::from(c.info.rcv_space) * 200 >= receive * 90
                    && c.went(|info| info.bytes_received) >= receive,
                receive,
                receive as f64 / 2.0,
                c.info.rcv_rtt,
            ),
        ];
        for (key, _, most, payload, rtt) in ways.into_iter().filter(|(_, held, ..)| *held) {
            let rate = payload * 8.0 / (f64::from(rtt.max(1)) / 1e6) / 1e6;
            let finding = CHECK
                .finding(facts.name(c.now), CHECK.title)
                .saw(Evidence::amount(key, most, "bytes at most", "/proc/sys"))
                .saw(Evidence::number("room for", payload, "bytes of payload", "calculated"))
                .saw(Evidence::number("round trip", f64::from(rtt) / 1e3, "ms", "TCP_INFO"))
                .saw(Evidence::number("bounds it to some", rate, "Mbit/s", "calculated"));
            findings.push(finding);
        }
    }
    outcome(&CHECK, findings.into_iter().take(5))
}
