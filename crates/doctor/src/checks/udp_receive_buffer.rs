use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "udp-receive-buffer",
    group: CheckGroup::Saturation,
    title: "UDP packets arrived and were dropped: a program did not read them in time",
    evidence: "Udp RcvbufErrors, Udp6RcvbufErrors; drops of each UDP socket",
    rule: "more than 10, and 60 an hour",
    severity: Severity::Serious,
    why: "nothing sends them again",
    remedies: &["let the program read faster or ask for a larger SO_RCVBUF; raise net.core.rmem_max, which bounds that"],
    source: "udp(7); netdata's alarm: 10",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let sockets = facts.now.sockets().map_or(&[][..], |sockets| &sockets.udp);
    // The counters are the machine's; a program is named where its own socket dropped.
    let dropped = sockets.iter().filter(|socket| socket.memory.is_some_and(|m| m.drops > 0));
    let worst = dropped.max_by_key(|socket| socket.memory.map_or(0, |m| m.drops));
    let counters = ["Udp.RcvbufErrors", "Udp6RcvbufErrors"];
    let limit = Threshold { least: 11, per_hour: 60.0 };
    rising(facts, &CHECK, &counters, limit, |mut finding, _| {
        if let Some((socket, memory)) = worst.and_then(|socket| Some((socket, socket.memory?))) {
            let owner = facts.owners.get(&socket.inode).map(|owner| format!("{owner}, "));
            finding.subject = format!("{}UDP at {}", owner.unwrap_or_default(), socket.local);
            finding = finding
                .saw(Evidence::count("drops", memory.drops.into(), "sock_diag"))
                .saw(Evidence::amount("buffer", memory.receive_buffer.into(), "bytes", "sock_diag"));
        }
        finding
    })
}
