use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "listen-overflow",
    group: CheckGroup::Saturation,
    title: "connections came faster than a program accepts them",
    evidence: "TcpExt ListenOverflows; the queue of each listener",
    rule: "more than 1, and 10 an hour",
    severity: Severity::Serious,
    why: "the client waits a second or more and tries again, or gives up",
    remedies: &["raise the backlog that the program gives to listen(2), and net.core.somaxconn, which bounds it; let it accept faster"],
    source: "listen(2); Documentation/networking/ip-sysctl.rst, somaxconn; netdata's alarm: 1",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let listeners = facts.now.sockets().map_or(&[][..], |sockets| &sockets.listeners);
    let full = listeners.iter().find(|l| l.receive_queue > 0 && l.receive_queue >= l.send_queue);
    let limit = Threshold { least: 2, per_hour: 10.0 };
    let counted = rising(facts, &CHECK, &["TcpExt.ListenOverflows"], limit, |mut finding, _| {
        if let Some(full) = full {
            let owner = facts.owners.get(&full.inode).map(|owner| format!("{owner}, "));
            finding.subject = format!("{}listening at {}", owner.unwrap_or_default(), full.local);
            finding = finding
                .saw(Evidence::count("waiting now", full.receive_queue.into(), "sock_diag"))
                .saw(Evidence::count("backlog", full.send_queue.into(), "sock_diag"));
        }
        if let Ok(most) = facts.now.texts.number("net/core/somaxconn") {
            finding = finding.saw(Evidence::count("somaxconn", most, "/proc/sys/net/core"));
            // The kernel's own value since 5.4.
            if most < 4096 {
                finding = finding.cure(Remedy::sysctl("net/core/somaxconn", "4096"));
            }
        }
        finding.cure(Remedy::advice("raise the backlog that the program gives to listen(2), and let it accept faster"))
    });
    or_dropped_at(counted, facts, &CHECK, listeners.iter())
}
