use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::SenderIdle,
    CheckGroup::Saturation,
    "TCP_INFO busy_time against the time watched, of connections that sent 100 kB meanwhile and answered nothing",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    waiting(facts, &CHECK, |c, seen| {
        let sent = c.went(|info| info.bytes_acked);
        vec![
            Evidence::number("idle", seen.idle_share * 100.0, "% of the time", "TCP_INFO"),
            Evidence::amount("sent", sent, "bytes while watching", "TCP_INFO"),
        ]
    })
}
