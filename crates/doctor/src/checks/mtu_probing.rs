use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "mtu-probing",
    group: CheckGroup::Configuration,
    title: "large packets are sent, and nothing finds out where they don't pass",
    evidence: "MTU of devices; net.ipv4.tcp_mtu_probing",
    rule: "MTU of 9000 or more and probing 0; probing 2 is a note",
    severity: Severity::Note,
    why: "where a router's message that a packet is too big is lost, connections hang; always probing (2) has hurt some",
    remedies: &["net.ipv4.tcp_mtu_probing=1: only after a black hole was noticed"],
    source: "fasterdata.es.net, MTU; RFC 4821; Documentation/networking/ip-sysctl.rst, tcp_mtu_probing",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let key = "net/ipv4/tcp_mtu_probing";
    let probing = facts.now.texts.number(key)?;
    let jumbo = facts.devices()?.find(|(device, _)| device.link.mtu >= 9000 && device.is_hardware());
    let seen = Evidence::count("tcp_mtu_probing", probing, "/proc/sys/net/ipv4");
    let finding = match (probing, jumbo) {
        (0, Some((device, _))) => CHECK
            .finding(&device.link.name, CHECK.title)
            .saw(Evidence::amount("MTU", device.link.mtu.into(), "bytes", "ip -s -s link")),
        (2, _) => CHECK.finding("this host", "path MTU is probed on every connection"),
        _ => return Ok(CheckOutcome::Fine),
    };
    outcome(&CHECK, [finding.saw(seen).cure(Remedy::sysctl(key, "1"))])
}
