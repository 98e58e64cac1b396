//! What the figures of a path mean. Pure.
//!
//! A loss is on the path only where what goes further suffers it too: probes to later hops pass the earlier ones. Whether two losses differ is told by
//! their intervals (95 %, Clopper and Pearson); where these overlap, nothing is claimed. Routers, and to UDP the end too, answer with ICMP errors, of
//! which many send one a second (`icmp_ratelimit` of ip-sysctl.rst), and a host may limit its echo replies. So a loss is sure where TCP answers at the
//! end, or where a router on the way that is asked once a second at most loses as much as the end.

use crate::hops::{Hop, PathHops, ProbeCounts, Responder};
use crate::session::{PathSession, ProbeMethod};
use quell_cause::{Cause, SizeFacts};
use quell_probe::path::MARKED;
use quell_stats::interval::{Batch, Interval};
use quell_units::Tos;
use quell_units::fmt::plural;
use quell_wire::icmp_error::why_unreachable;
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Most routers of a loop that is looked for.
const MOST_ROUND: usize = 8;
/// More often than this hops are asked than many answer.
const OFTEN_NS: u64 = 1_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathFinding {
    /// In a word, for programs: a cause's name where it is one of the table.
    pub id: &'static str,
    pub hop: Option<usize>,
    pub sure: bool,
    pub text: String,
}

impl PathFinding {
    fn new(id: &'static str, hop: impl Into<Option<usize>>, text: String) -> Self {
        Self { id, hop: hop.into(), sure: true, text }
    }

    fn unsure(self) -> Self {
        Self { sure: false, ..self }
    }
}

pub fn findings(session: &PathSession, hops: &PathHops) -> Vec<PathFinding> {
    let mut found = Vec::new();
    found.extend(stopped(session, hops));
    found.extend(expired_at_end(session, hops));
    found.extend(going_round(session, hops));
    found.extend(too_big(session, hops));
    found.extend(losses(session, hops));
    found.extend(sizes(session, hops));
    found.extend(marks(hops));
    found.extend(ways(session, hops));
    found.extend(back(hops));
    found.extend(duplicates(hops));
    found.extend(unmatched(hops));
    found
}

fn interval(lost: u64, sent: u64) -> Option<Interval> {
    Interval::of_loss(&[vec![Batch { sent: sent as f64, lost: lost as f64 }]])
}

/// In percent; a range where nobody knows of some.
fn loss(counts: ProbeCounts) -> String {
    let part = |lost: u64| format!("{:.1}", lost as f64 / counts.sent.max(1) as f64 * 100.0);
    match counts.unsure {
        0 => part(counts.most_lost()),
        _ => format!("{} to {}", part(counts.least_lost()), part(counts.most_lost())),
    }
}

/// "between hop 2 and", or "before" where no hop before it was seen.
fn from(hop: Option<usize>) -> String {
    hop.map_or("before".to_owned(), |hop| format!("between hop {hop} and"))
}

/// Whether the one surely loses more than the other, whatever became of those of which nobody knows.
fn is_more(worse: ProbeCounts, better: ProbeCounts) -> bool {
    match (interval(worse.least_lost(), worse.sent), interval(better.most_lost(), better.sent)) {
        (Some(worse), Some(better)) => worse.low > better.high,
        _ => false,
    }
}

fn losses(session: &PathSession, hops: &PathHops) -> Vec<PathFinding> {
    let answering = hops.hops().map(|(hop, _, counts)| (hop, ProbeCounts::of(&counts)));
    let answering: Vec<_> = answering.filter(|(_, counts)| counts.answered > 0).collect();
    let mut found = limits(&answering);
    let Some(((end, total), before)) = answering.split_last() else { return found };
    let (end, total) = (*end, *total);
    if total.least_lost() == 0 {
        found.extend((total.unsure > 0).then(|| {
            let text = format!(
                "of {} of {} probes to hop {end} it is unknown whether they were lost or late.",
                total.unsure, total.sent
            );
            PathFinding::new("loss-unknown", end, text)
        }));
        return found;
    }
    let limited: BTreeSet<usize> = found.iter().filter_map(|found| found.hop).collect();
    let clean = before.iter().rev().find(|(_, counts)| is_more(total, *counts)).copied();
    // The first behind that whose answers are those of the path, as far as is known.
    let first = clean.map_or(0, |(clean, _)| clean);
    let next = answering.iter().map(|(hop, _)| *hop);
    let next = next.filter(|hop| *hop > first && !limited.contains(hop)).min().unwrap_or(end);
    let is_end = hops.shape.hops.get(end - 1).is_some_and(|hop| hop.arrived_at(session.to.ip()));
    let is_often = session.interval_ns < OFTEN_NS;
    let is_tcp = is_end && session.method == ProbeMethod::Tcp;
    let Some((hop, theirs)) = clean else {
        let text = format!(
            "{} of {} probes to hop {end} have no answer; too few were sent to tell where.",
            total.least_lost(),
            total.sent
        );
        found.extend(match is_tcp {
            true => (!before.is_empty()).then(|| PathFinding::new("loss", None, text)),
            false => Some(or_limit(session, end, total, None)),
        });
        return found;
    };
    // A router on the way that loses as much as the end shows that no limit of the end does it.
    let is_sure = is_tcp || is_end && !is_often && next != end;
    if !is_sure {
        found.push(or_limit(session, end, total, Some((hop, theirs))));
        return found;
    }
    // Where a router is asked that often, that it answers no more of them than the end need not be the path's doing.
    let is_exact = next == end || !is_often;
    let place = match next == hop + 1 && is_exact {
        true => format!("between hop {hop} and hop {next}"),
        false => format!("behind hop {hop}"),
    };
    let verb = if theirs.least_lost() > 0 { "grows" } else { "begins" };
    let text = format!(
        "{} % are lost to hop {end}, {} % to hop {hop}: loss {verb} {place}, up or down.",
        loss(total),
        loss(theirs)
    );
    found.push(PathFinding::new("loss", is_exact.then_some(next), text));
    found
}

/// Hops that answer less than one behind them: that is no loss on the path, whatever else is.
fn limits(answering: &[(usize, ProbeCounts)]) -> Vec<PathFinding> {
    let mut found = Vec::new();
    for (index, (hop, counts)) in answering.iter().enumerate() {
        let later = answering[index + 1..].iter().find(|(_, later)| is_more(*counts, *later));
        if let Some((better, theirs)) = later {
            let text = format!(
                "hop {hop} answers {} of {}, hop {better} behind it {} of {}: it limits its answers, and the path loses nothing there.",
                counts.answered, counts.sent, theirs.answered, theirs.sent
            );
            found.push(PathFinding::new("answers-limited", *hop, text));
        }
    }
    found
}

/// What is not answered with ICMP may be lost, or held back by a limit.
fn or_limit(
    session: &PathSession,
    end: usize,
    total: ProbeCounts,
    clean: Option<(usize, ProbeCounts)>,
) -> PathFinding {
    let clean =
        clean.map_or(String::new(), |(hop, theirs)| format!(", {} % to hop {hop}", loss(theirs)));
    let hint = match session.method {
        ProbeMethod::Tcp => "-i 1s or more may tell",
        _ => "-m tcp may tell",
    };
    let text = format!(
        "{} % to hop {end} have no answer{clean}: they are lost, or it limits its answers; {hint}.",
        loss(total)
    );
    PathFinding::new("loss-or-limit", end, text).unsure()
}

fn sizes(session: &PathSession, hops: &PathHops) -> Vec<PathFinding> {
    let mut found = Vec::new();
    let mut before: Option<usize> = None;
    for (number, hop, _) in hops.hops() {
        let mtu = hop.mtu.unwrap_or(0);
        if let Some(by) = hop.mtu_said_by {
            let place = place(hops, by);
            let text =
                format!("{by}{place} says that packets above {mtu} bytes don't fit behind it.");
            found.push(PathFinding::new("narrow-link", number, text));
        }
        // What vanished was tried again and again, one byte larger than what arrives.
        let facts = SizeFacts {
            sent: &[mtu, mtu + 1],
            arrived: &[mtu],
            named: (!hop.larger_vanish).then_some(mtu),
        };
        if let Some(Cause::MtuBlackHole) = facts.cause() {
            let text = format!(
                "packets above {mtu} bytes vanish {} hop {number}, smaller ones arrive, and no router says why: an MTU black hole.",
                from(before)
            );
            found.push(PathFinding::new(Cause::MtuBlackHole.name(), number, text));
        }
        if hop.answers_less {
            let text = format!(
                "hop {number} answers no packets above {mtu} bytes, hops behind it do: its own limit, not the path's."
            );
            found.push(PathFinding::new("answers-small", number, text));
        }
        before = if hop.mtu.is_some() { Some(number) } else { before };
    }
    let to = session.to.ip();
    if let Some(hop) = hops.shape.search_left {
        let text = format!(
            "how large packets may be was searched for a minute and left at hop {hop}: its answers lead nowhere."
        );
        found.push(PathFinding::new("sizes-unknown", usize::from(hop), text).unsure());
    } else if hops.shape.surveyed
        && hops.shape.too_big.is_none()
        && hops.reached(to)
        && hops.mtu(to).is_none()
    {
        let text = "how large packets get to the end is unknown: too little of what asked for that was answered.";
        found.push(PathFinding::new("sizes-unknown", None, text.to_owned()).unsure());
    }
    found
}

/// The probes themselves are too big for a link, or somebody says so.
fn too_big(session: &PathSession, hops: &PathHops) -> Option<PathFinding> {
    let (by, mtu) = hops.shape.too_big?;
    let headers = if session.to.is_ipv6() { 48 } else { 28 };
    let bytes = session.size.saturating_add(headers);
    let is_tcp = session.method == ProbeMethod::Tcp;
    let probes = if is_tcp { "SYNs".to_owned() } else { format!("probes of {bytes} bytes") };
    // What every link carries (RFC 791, RFC 8200).
    let least = if session.to.is_ipv6() { 1280 } else { 68 };
    let what = match !is_tcp && mtu < bytes {
        _ if mtu < least => "don't fit behind it, and names no size that can be".to_owned(),
        true => format!("don't fit behind it, where {mtu} do: a smaller -s may get there"),
        false => format!("don't fit behind it, and names {mtu} bytes as what does, which can't be"),
    };
    let text = format!("{by}{} says that {probes} {what}.", place(hops, by));
    Some(PathFinding::new("probes-too-big", None, text))
}

fn place(hops: &PathHops, address: IpAddr) -> String {
    let is_there = |hop: &Hop| hop.responders.iter().any(|one| one.address == address);
    let hop = hops.hops().find(|(_, hop, _)| is_there(hop));
    hop.map_or(String::new(), |(number, _, _)| format!(" (hop {number})"))
}

fn marks(hops: &PathHops) -> Vec<PathFinding> {
    let mut found = Vec::new();
    // As sent, as it came to the hop before, and which that was.
    let mut before: Vec<(u8, u8, usize)> = Vec::new();
    for (number, hop, _) in hops.hops() {
        // Flows may go several ways.
        let seen = hop.responders.iter().flat_map(|one| one.marks.clone());
        let seen: BTreeSet<(u8, u8)> = seen.collect();
        let earlier = before.clone();
        let last = |mark: u8| earlier.iter().find(|(sent, ..)| *sent == mark);
        for (sent, came) in seen {
            let was = last(sent).map_or(sent, |(_, was, _)| *was);
            if was != came {
                let id = if was ^ came < 4 { "ecn-changed" } else { "dscp-changed" };
                let text = format!(
                    "the TOS byte is changed {} hop {number}: {}.",
                    from(last(sent).map(|(.., hop)| *hop)),
                    changed(Tos::from_byte(was), Tos::from_byte(came))
                );
                found.push(PathFinding::new(id, number, text));
            }
            before.retain(|(mark, ..)| *mark != sent);
            before.push((sent, came, number));
        }
        if hop.marked_vanish {
            let text = format!(
                "packets marked EF and ECT(0) vanish {} hop {number}, unmarked ones right behind them are answered.",
                from(last(MARKED.byte()).map(|(.., hop)| *hop))
            );
            found.push(PathFinding::new("marks-vanish", number, text));
        }
    }
    found
}

fn changed(was: Tos, came: Tos) -> String {
    let name = |tos: Tos| {
        tos.dscp().name().map_or_else(|| format!("{:#04x}", tos.byte() & 0xfc), str::to_owned)
    };
    let mut parts = Vec::new();
    if was.dscp() != came.dscp() {
        parts.push(format!("DSCP {} becomes {}", name(was), name(came)));
    }
    if was.ecn() != came.ecn() {
        parts.push(format!("ECN {} becomes {}", was.ecn(), came.ecn()));
    }
    parts.join(", ")
}

fn ways(session: &PathSession, hops: &PathHops) -> Vec<PathFinding> {
    let mut found = Vec::new();
    if let Some((number, hop, _)) = hops.hops().find(|(_, hop, _)| hop.responders.len() > 1) {
        let all = &hop.responders;
        let goes = |flow: &u16| all.iter().filter(|one| one.flows.contains(flow)).count();
        let is_split = all.iter().flat_map(|one| &one.flows).any(|flow| goes(flow) > 1);
        found.push(match is_split {
            true => PathFinding::new(
                "several-ways-in-a-flow",
                number,
                format!(
                    "at hop {number} packets of one flow went {} ways: the route changed, or a router spreads packets.",
                    all.len()
                ),
            ),
            false => {
                let text = format!("from hop {number} on, flows go {} ways.", all.len());
                PathFinding::new("several-ways", number, text)
            }
        });
    }
    found.extend(bad_member(session, hops));
    found
}

/// Flows that lose more than the others, and where only they go.
fn bad_member(session: &PathSession, hops: &PathHops) -> Option<PathFinding> {
    // The end's limit may fall on the same flows each time, and these may be those that go one way.
    if session.method != ProbeMethod::Tcp && session.interval_ns < OFTEN_NS {
        return None;
    }
    let end = hops.length();
    let of_flow = |flow: usize| hops.counts(flow, hops.shape.ends[flow].map_or(end, usize::from));
    let all: Vec<ProbeCounts> = (0..hops.flows.len()).map(of_flow).collect();
    let ratio = |counts: &ProbeCounts| counts.answered as f64 / counts.sent as f64;
    let sent = all.iter().filter(|counts| counts.sent > 0);
    let best = sent.max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let bad = (0..all.len()).filter(|flow| is_more(all[*flow], *best)).map(|flow| flow as u16);
    let bad: BTreeSet<u16> = bad.collect();
    if bad.is_empty() || bad.len() == all.len() {
        return None;
    }
    // The end is no link that only some flows take, at however many hops it seems to be.
    let only_theirs = |one: &&Responder| {
        !one.flows.is_empty() && one.flows.is_subset(&bad) && one.address != session.to.ip()
    };
    let member = hops.hops().find_map(|(number, hop, _)| {
        hop.responders.iter().find(only_theirs).map(|one| (number, one.address))
    });
    let is_bad = |flow: &usize| bad.contains(&(*flow as u16));
    let theirs = (0..all.len()).filter(is_bad).map(|flow| all[flow]).sum();
    let others = (0..all.len()).filter(|flow| !is_bad(flow)).map(|flow| all[flow]).sum();
    let by = member.map_or(String::new(), |(number, address)| {
        format!(" Only they go by {address} (hop {number}).")
    });
    let text = format!(
        "{} {} loses {} %, the others {} %.{by}",
        if bad.len() == 1 { "flow" } else { "of flows" },
        flow_numbers(&bad),
        loss(theirs),
        loss(others)
    );
    Some(PathFinding::new("bad-member", member.map(|(number, _)| number), text))
}

/// Numbers of flows as people count them: `1, 3`.
pub fn flow_numbers(flows: &BTreeSet<u16>) -> String {
    flows.iter().map(|flow| (flow + 1).to_string()).collect::<Vec<_>>().join(", ")
}

fn back(hops: &PathHops) -> Option<PathFinding> {
    let (number, ttl, back) = hops.hops().find_map(|(number, hop, _)| {
        let first = hop.responders.first()?;
        let back = first.hops_back().filter(|back| usize::from(*back) != number)?;
        Some((number, first.answer_ttl.unwrap_or(0), back))
    })?;
    let text = format!(
        "answers of hop {number} come back over {} by their TTL of {ttl}: another way, or an unusual first TTL.",
        plural(back, "hop")
    );
    Some(PathFinding::new("asymmetric", number, text).unsure())
}

fn duplicates(hops: &PathHops) -> Option<PathFinding> {
    let times = hops.hops().map(|(hop, _, counts)| (hop, counts.duplicates));
    let times: Vec<(usize, u64)> = times.filter(|(_, times)| *times > 0).collect();
    let (first, _) = *times.first()?;
    let words: Vec<String> =
        times.iter().map(|(hop, times)| format!("{times} of hop {hop}")).collect();
    let text = format!("answers came more than once: {}; the first ones count.", words.join(", "));
    Some(PathFinding::new("duplicates", (times.len() == 1).then_some(first), text))
}

/// Routers that send packets to each other and not to the end: the same addresses answer by turns, as far as was asked.
fn going_round(session: &PathSession, hops: &PathHops) -> Option<PathFinding> {
    if hops.reached(session.to.ip()) {
        return None;
    }
    let hops: Vec<Option<IpAddr>> =
        hops.hops().map(|(_, hop, _)| hop.responders.first().map(|who| who.address)).collect();
    let (start, round) = (0..hops.len()).find_map(|start| {
        let rest = &hops[start..];
        (2..=MOST_ROUND).find_map(|period| {
            let round: BTreeSet<IpAddr> = rest.iter().take(period).copied().flatten().collect();
            let pairs = || rest.iter().zip(rest.iter().skip(period));
            let again = pairs().filter(|(one, next)| one.is_some() && one == next).count();
            // A hop may keep silent, or leave out an answer.
            let fits = pairs().all(|(one, next)| one == next || one.is_none() || next.is_none());
            let is_round = round.len() == period && again >= period && fits;
            is_round.then(|| (start, &rest[..period]))
        })
    })?;
    let words: Vec<String> = round.iter().flatten().map(IpAddr::to_string).collect();
    let text = format!(
        "packets go round: from hop {} on {} answer by turns, and none sends them to the host.",
        start + 1,
        words.join(" and ")
    );
    Some(PathFinding::new("routing-loop", start + 1, text))
}

/// The end's address answers as a router on the way does.
fn expired_at_end(session: &PathSession, hops: &PathHops) -> Option<PathFinding> {
    let to = session.to.ip();
    let is_router =
        |one: &Responder| one.address == to && !one.arrived && one.unreachable_code.is_none();
    let (number, ..) = hops.hops().find(|(_, hop, _)| hop.responders.iter().any(is_router))?;
    let text = format!(
        "{to} says at hop {number} that a TTL was over: a router with the host's address (a NAT, or a loop), not the host."
    );
    Some(PathFinding::new("router-with-the-end's-address", number, text))
}

/// What came and is about none of the packets.
fn unmatched(hops: &PathHops) -> Option<PathFinding> {
    let text = format!(
        "{} did not say which packet they were about, or are about none of ours; they count for nothing.",
        plural(hops.shape.unmatched, "answer")
    );
    (hops.shape.unmatched > 0).then(|| PathFinding::new("unmatched", None, text))
}

fn stopped(session: &PathSession, hops: &PathHops) -> Option<PathFinding> {
    let (number, address, code) = hops.hops().find_map(|(number, hop, _)| {
        let stop = hop.responders.iter().find(|one| one.unreachable_code.is_some())?;
        Some((number, stop.address, stop.unreachable_code?))
    })?;
    // The other end itself says so of a port, which is an answer.
    let (mark, why) = why_unreachable(session.to.is_ipv6(), code);
    let passes = |hop: &Hop| hop.responders.iter().any(|one| one.unreachable_code.is_none());
    let behind = hops.hops().find(|(behind, hop, _)| *behind > number && passes(hop));
    let (id, text) = match behind {
        _ if address == session.to.ip() => (
            "unreachable",
            format!("the host answers with \"unreachable\", code {code} ({mark}): it {why}."),
        ),
        Some((behind, ..)) => (
            "unreachable-contradicted",
            format!(
                "{address} (hop {number}) {why} ({mark}, code {code}), as it says, and hop {behind} behind it answers."
            ),
        ),
        None => ("unreachable", format!("{address} (hop {number}) {why} ({mark}, code {code}).")),
    };
    Some(PathFinding::new(id, number, text))
}

#[cfg(test)]
mod tests;
