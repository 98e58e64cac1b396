use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::RetransmissionTimeout,
    CheckGroup::Errors,
    "TcpExt TCPTimeouts and TCPLossProbes against Tcp RetransSegs, those of SYNs left out",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    sent_again(facts, &CHECK)
}
