use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::FastRetransmit,
    CheckGroup::Errors,
    "Tcp RetransSegs against TcpExt TCPOrigDataSent",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    sent_again(facts, &CHECK)
}
