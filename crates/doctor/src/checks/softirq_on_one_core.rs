use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "softirq-on-one-core",
    group: CheckGroup::Utilisation,
    title: "one CPU does nearly all of the packet work",
    evidence: "softirq time of each CPU (/proc/stat)",
    rule: "one over 80 %, the others below 20 % on average",
    severity: Severity::Warning,
    why: "it is the limit, while the others have nothing to do",
    remedies: &["more receive queues (ethtool -L) or RPS, so that flows spread over CPUs"],
    source: "Documentation/networking/scaling.rst; the shares are our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let Some(before) = facts.before else {
        return Ok(CheckOutcome::NotApplicable("needs two looks".to_owned()));
    };
    let (was, now) = (before.cpus()?, facts.now.cpus()?);
    let shares: Vec<f64> = was
        .iter()
        .zip(&now)
        .map(|(was, now)| {
            let all = now.all.saturating_sub(was.all);
            percent(now.softirq.saturating_sub(was.softirq), all)
        })
        .collect();
    if shares.len() < 2 {
        return Ok(CheckOutcome::NotApplicable("there is one CPU".to_owned()));
    }
    let Some((at, most)) = shares.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
    else {
        return Ok(CheckOutcome::Fine);
    };
    let others = (shares.iter().sum::<f64>() - most) / (shares.len() - 1) as f64;
    if most <= 80.0 || others >= 20.0 {
        return Ok(CheckOutcome::Fine);
    }
    let finding = CHECK
        .finding(format!("CPU {at}"), CHECK.title)
        .saw(Evidence::number("softirq", most, "%", "/proc/stat"))
        .saw(Evidence::number("mean of the others", others, "%", "/proc/stat"));
    outcome(&CHECK, [finding])
}
