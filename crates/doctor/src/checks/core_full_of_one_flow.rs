use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "core-full-of-one-flow",
    group: CheckGroup::Utilisation,
    title: "one connection fills a CPU",
    evidence: "CPU times; bytes of each connection while watching",
    rule: "one CPU over 90 % busy, and one connection with more than half of all bytes, at 1 Gbit/s or more",
    severity: Severity::Warning,
    why: "one flow is processed by one CPU: about 3 GHz for each 30 Gbit/s",
    remedies: &["several streams; larger packets; offloads on"],
    source: "fasterdata.es.net: 3 GHz for 30 Gbit/s",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let Some(before) = facts.before else {
        return Ok(CheckOutcome::NotApplicable("needs two looks".to_owned()));
    };
    let (was, now) = (before.cpus()?, facts.now.cpus()?);
    let busy = was.iter().zip(&now).map(|(was, now)| {
        let all = now.all.saturating_sub(was.all);
        // One that is switched off, or so idle that its clock stands, counts nothing.
        percent(all.saturating_sub(now.idle.saturating_sub(was.idle)), all)
    });
    let Some((at, busy)) = busy.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Err("/proc/stat names no CPU".to_owned());
    };
    let connections = facts.connections()?;
    let bytes = |c: &Connection<'_>| {
        c.went(|i| i.bytes_acked).saturating_add(c.went(|i| i.bytes_received))
    };
    let moved = connections.iter().filter(|c| c.earlier.is_some()).map(|c| (bytes(c), c));
    let moved: Vec<_> = moved.collect();
    let all = moved.iter().fold(0, |all: u64, (bytes, _)| all.saturating_add(*bytes));
    let Some((most, connection)) = moved.iter().max_by_key(|(bytes, _)| *bytes) else {
        return Ok(CheckOutcome::Fine);
    };
    let rate = *most as f64 * 8.0 / facts.seconds().max(0.001) / 1e9;
    if busy < 90.0 || *most <= all / 2 || rate < 1.0 {
        return Ok(CheckOutcome::Fine);
    }
    let finding = CHECK
        .finding(facts.name(connection.now), CHECK.title)
        .saw(Evidence::number(format!("CPU {at} busy"), busy, "%", "/proc/stat"))
        .saw(Evidence::number("the connection", rate, "Gbit/s", "TCP_INFO"));
    outcome(&CHECK, [finding])
}
