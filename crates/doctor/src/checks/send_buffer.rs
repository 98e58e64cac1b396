use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::SendBuffer,
    CheckGroup::Saturation,
    "TCP_INFO sndbuf_limited, busy_time; what the buffer holds at both looks (SK_MEMINFO); the third figure of tcp_wmem",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    let wmem = facts.now.texts.numbers("net/ipv4/tcp_wmem").ok();
    waiting(facts, &CHECK, |c, seen| {
        let buffer = c.now.memory.map_or(0, |memory| memory.send_buffer);
        let most = wmem.as_ref().and_then(|all| all.get(2).copied());
        let most = most.filter(|most| is_at_most(buffer, *most));
        let share = seen.buffer_share * 100.0;
        let mut saw = vec![
            Evidence::number("sndbuf_limited", share, "% of the time", "TCP_INFO"),
            Evidence::amount("in flight", c.info.unacked.into(), "segments", "TCP_INFO"),
            Evidence::amount("buffer", buffer.into(), "bytes", "sock_diag"),
        ];
        saw.extend(most.map(|most| {
            Evidence::amount("net/ipv4/tcp_wmem", most, "bytes at most", "/proc/sys")
        }));
        saw
    })
}
