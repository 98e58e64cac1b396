use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::ReceiverWindow,
    CheckGroup::Saturation,
    "TCP_INFO rwnd_limited, busy_time; at the receiver unread data and TCPToZeroWindowAdv",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    waiting(facts, &CHECK, |c, seen| {
        if seen.unread {
            let bytes = c.now.receive_queue.into();
            return vec![Evidence::amount("unread", bytes, "bytes", "sock_diag")];
        }
        let share = seen.window_share * 100.0;
        let window = c.info.snd_wnd.unwrap_or(0).into();
        vec![
            Evidence::number("rwnd_limited", share, "% of its busy time", "TCP_INFO"),
            Evidence::amount("window", window, "bytes", "TCP_INFO"),
        ]
    })
}
