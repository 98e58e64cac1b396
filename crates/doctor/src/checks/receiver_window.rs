use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::ReceiverWindow,
    CheckGroup::Saturation,
    "TCP_INFO rwnd_limited, busy_time; at the receiver unread data and TCPToZeroWindowAdv, its buffer, tcp_rmem and rcv_space",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    waiting(facts, &CHECK, |c, seen| {
        let round_trip = f64::from(c.info.rcv_rtt) / 1e3;
        let received = Evidence::number("round trip of what came", round_trip, "ms", "TCP_INFO");
        match facts.receive_limit(c) {
            Some(ReceiveLimit::Unread(bytes)) => {
                vec![Evidence::amount("unread", bytes, "bytes", "sock_diag")]
            }
            Some(ReceiveLimit::AtMost(most)) => {
                vec![Evidence::amount("net/ipv4/tcp_rmem", most, "bytes at most", "/proc/sys"), received]
            }
            Some(ReceiveLimit::Fixed(buffer)) => {
                vec![Evidence::amount("SO_RCVBUF", buffer, "bytes", "sock_diag"), received]
            }
            None => {
                let share = seen.window_share * 100.0;
                let limited = Evidence::number("rwnd_limited", share, "% of the time", "TCP_INFO");
                let window = |window: u32| Evidence::amount("window", window.into(), "bytes", "TCP_INFO");
                [limited].into_iter().chain(c.info.snd_wnd.map(window)).collect()
            }
        }
    })
}
