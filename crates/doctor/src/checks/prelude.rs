//! What most checks use.

pub(super) use crate::check::{Check, Group};
pub(super) use crate::facts::{Connection, Facts, HeldBySendBuffer, Limit, Moved};
pub(super) use crate::peer::Ends;
pub(super) use quell_finding::{Evidence, Finding, Outcome, Remedy, Severity};

/// What a look gives.
pub(super) type Look = Result<Outcome, String>;

/// Judges the sum of counters: beyond the limit it is one finding about this host, with every counter as evidence.
pub(super) fn rising(
    facts: &Facts<'_>,
    check: &Check,
    counters: &[&str],
    limit: Limit,
    finish: impl FnOnce(Finding, Moved) -> Finding,
) -> Look {
    let (moved, evidence) = facts.moved_all(counters)?;
    if !facts.is_over(moved, limit) {
        return Ok(Outcome::Fine);
    }
    let mut finding = check.finding("this host", check.title);
    finding.evidence = evidence;
    Ok(Outcome::Found(vec![advised(check, finish(finding, moved))]))
}

/// A finding that names nothing to do gets the check's general advice.
pub(super) fn advised(check: &Check, finding: Finding) -> Finding {
    if finding.remedies.is_empty() { finding.cure(Remedy::advice(check.fix)) } else { finding }
}

/// All of them with advice, or fine.
pub(super) fn told(check: &Check, findings: impl IntoIterator<Item = Finding>) -> Look {
    Ok(Outcome::of(findings.into_iter().map(|finding| advised(check, finding)).collect()))
}

/// A share in percent, of nothing is nothing.
pub(super) fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 * 100.0 }
}

/// Where no hardware told of it: why it could not be asked, or that none has it.
pub(super) fn unseen(facts: &Facts<'_>) -> Look {
    match facts.now.hardware_unseen.first() {
        Some(why) if facts.devices()?.any(|(device, _)| device.is_hardware()) => Err(why.clone()),
        _ => Ok(Outcome::NotApplicable("no device here tells of it".to_owned())),
    }
}

/// What needs the other end.
pub(super) fn needs_peer() -> Look {
    Ok(Outcome::NotApplicable("needs --peer: both ends have to be looked at".to_owned()))
}

/// Adds what both ends told each other of the path, where they did, to what was seen of connections.
pub(super) fn on_path(
    facts: &Facts<'_>,
    connections: Look,
    look: impl FnOnce(&Ends, &str) -> Vec<Finding>,
) -> Look {
    let Some(Ok(ends)) = facts.peer.map(|peer| &peer.ends) else { return connections };
    let path = facts.peer.map(|peer| format!("the path to {}", peer.host)).unwrap_or_default();
    let mut findings = look(ends, &path);
    if let Ok(Outcome::Found(found)) = connections {
        findings.extend(found);
    }
    Ok(Outcome::of(findings))
}

/// Looks at what both ends told each other, and names the path.
pub(super) fn with_ends(facts: &Facts<'_>, look: impl FnOnce(&Ends, &str) -> Look) -> Look {
    let Some(peer) = facts.peer else { return needs_peer() };
    match &peer.ends {
        Ok(ends) => look(ends, &format!("the path to {}", peer.host)),
        Err(why) => Err(why.clone()),
    }
}

/// Where nothing is found of the path it may be since the other end's word of a way is not to be relied on: why.
pub(super) fn sure(facts: &Facts<'_>, look: Look) -> Look {
    let Some(Ok(ends)) = facts.peer.map(|peer| &peer.ends) else { return look };
    let doubt = [&ends.to_there, &ends.to_here].into_iter().find_map(|way| way.unsure());
    match (look, doubt) {
        (Ok(Outcome::Fine), Some(doubt)) => Err(format!("large packets don't arrive; {doubt}")),
        (look, _) => look,
    }
}

/// Whether a buffer has grown as far as the kernel lets it. One that is larger was fixed by its program.
pub(super) fn is_at_most(buffer: u32, most: u64) -> bool {
    let buffer = u64::from(buffer);
    buffer <= most && buffer * 100 >= most * 95
}
