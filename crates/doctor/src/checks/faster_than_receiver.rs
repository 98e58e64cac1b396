use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "faster-than-receiver",
    group: CheckGroup::Configuration,
    title: "the sender's link is faster than the receiver's",
    evidence: "both ends' link speeds (--peer)",
    rule: "this end's is higher",
    severity: Severity::Note,
    why: "bursts at the sender's speed overflow a queue on the way",
    remedies: &["pace: fq with maxrate, or SO_MAX_PACING_RATE"],
    source: "fasterdata.es.net, packet pacing: 2 to 4 times gain",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    with_ends(facts, |ends, path| {
        let (Some(here), Some(there)) = (ends.here.link_mbit, ends.there.link_mbit) else {
            return Err("the device of one end has no speed".to_owned());
        };
        if here <= there {
            return Ok(CheckOutcome::Fine);
        }
        let finding = CHECK
            .finding(path, CHECK.title)
            .saw(Evidence::amount("here", here.into(), "Mbit/s", "/sys/class/net"))
            .saw(Evidence::amount("there", there.into(), "Mbit/s", "quell serve"));
        outcome(&CHECK, [finding])
    })
}
