use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::SenderIdle,
    CheckGroup::Saturation,
    "TCP_INFO app_limited, notsent_bytes, of connections that sent 1 MB while watching",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    waiting(facts, &CHECK, |c, _| {
        let sent = c.went(|info| info.bytes_acked);
        vec![Evidence::amount("sent", sent, "bytes while watching", "TCP_INFO")]
    })
}
