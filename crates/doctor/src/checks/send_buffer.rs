use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::SendBuffer,
    CheckGroup::Saturation,
    "TCP_INFO sndbuf_limited, busy_time; what the buffer holds at both looks (SK_MEMINFO)",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    let most = facts.now.texts.numbers("net/ipv4/tcp_wmem").ok();
    let most = most.and_then(|all| all.get(2).copied());
    let buffer = |c: &Connection<'_>| c.now.memory.map_or(0, |memory| memory.send_buffer);
    // One that may not grow any more is the finding of tcp-buffers.
    waiting_where(facts, &CHECK, |c| !most.is_some_and(|most| is_at_most(buffer(c), most)), |c, seen| {
        let share = seen.buffer_share * 100.0;
        vec![
            Evidence::number("sndbuf_limited", share, "% of its busy time", "TCP_INFO"),
            Evidence::amount("in flight", c.info.unacked.into(), "segments", "TCP_INFO"),
            Evidence::amount("buffer", buffer(c).into(), "bytes", "sock_diag"),
        ]
    })
}
