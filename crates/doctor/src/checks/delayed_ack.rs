use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::DelayedAck,
    CheckGroup::Saturation,
    "TCP_INFO: one segment unacknowledged, less than one more held back, idle for longer than the path takes; answers in pieces, and DelayedACKs",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    if facts.looks.count < 4 {
        return Ok(CheckOutcome::NotApplicable("needs several looks".to_owned()));
    }
    let delayed = facts.counter("TcpExt.DelayedACKs").unwrap_or_default();
    waiting(facts, &CHECK, |c, seen| {
        let acks = Evidence::amount("DelayedACKs here", delayed.watched, "while watching", "/proc/net/netstat");
        let (held, looks) = (seen.held_back.into(), seen.looks.into());
        let split = Evidence::count("answers in pieces", seen.split_answers, "TCP_INFO");
        let by_looks = vec![
            Evidence::part("waiting so", held, looks, "looks", "TCP_INFO"),
            Evidence::amount("mss", c.info.snd_mss.into(), "bytes", "TCP_INFO"),
            acks.clone(),
        ];
        if seen.is_sender_there() { vec![split, acks] } else { by_looks }
    })
}
