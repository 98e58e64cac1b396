//! What the figures of a path mean. Pure.
//!
//! A loss is on the path only where what goes further suffers it too: probes to later hops pass the earlier ones. Whether two losses differ is told by
//! their intervals (95 %, Clopper and Pearson); where these overlap, nothing is claimed. Any router, and to UDP the end too, answers with ICMP errors, which
//! may be limited, and so may its echo replies: what TCP answers shows that anything is lost, and echo replies do where no limit would have left out just
//! those (limiter.rs).

use super::known::{Hop, Known, Narrow, Outcome, Shape, Who};
use super::session::{Method, Session};
use crate::ping::text::{count, percent};
use quell_probe::path::MARKED;
use quell_stats::interval::{Batch, Interval};
use quell_units::Tos;
use quell_wire::icmp_error::why_unreachable;
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Most routers of a loop that is looked for.
const MOST_ROUND: usize = 8;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathFinding {
    /// In a word, for programs.
    pub kind: &'static str,
    /// The hop, where it is about one.
    pub hop: Option<usize>,
    /// In a sentence or two.
    pub text: String,
}

/// All that can be told.
pub fn of(session: &Session, known: &Known) -> Vec<PathFinding> {
    let mut found = Vec::new();
    found.extend(stopped(session, known));
    found.extend(expired_at_end(session, known));
    found.extend(going_round(session, known));
    found.extend(too_big(session, known));
    found.extend(losses(session, known));
    found.extend(sizes(session, known));
    found.extend(marks(known));
    found.extend(ways(session, known));
    found.extend(back(known));
    found.extend(duplicates(known));
    found.extend(unmatched(known));
    found
}

fn interval(lost: u64, sent: u64) -> Option<Interval> {
    Interval::of_loss(&[vec![Batch { sent: sent as f64, lost: lost as f64 }]])
}

fn loss(outcome: Outcome) -> String {
    let part = |lost: u64| percent(lost as f64 / outcome.sent.max(1) as f64);
    match outcome.unsure {
        0 => part(outcome.most_lost()),
        _ => format!("{} to {}", part(outcome.least_lost()), part(outcome.most_lost())),
    }
}

/// Hops that answered anything, with what became of their probes.
fn answering(known: &Known) -> Vec<(usize, Outcome)> {
    let of = known.hops().map(|(hop, _, counts)| (hop, Outcome::of(&counts)));
    of.filter(|(_, outcome)| outcome.answered > 0).collect()
}

/// Whether the one surely loses more than the other, whatever became of those of which nobody knows.
fn is_more(worse: Outcome, better: Outcome) -> bool {
    match (interval(worse.least_lost(), worse.sent), interval(better.most_lost(), better.sent)) {
        (Some(worse), Some(better)) => worse.low > better.high,
        _ => false,
    }
}

/// Whether hops are asked more often, by all flows in turn, than many answer with ICMP errors, of which they send a peer so many and no more (Linux one a
/// second, `icmp_ratelimit` of ip-sysctl.rst).
fn is_often(session: &Session) -> bool {
    session.interval_ns < 1_000_000_000
}

/// Whether the other end, at this hop, may answer less than it gets: to UDP it answers with ICMP errors, and a limit may explain which echo requests it
/// answered. Then what is not answered there need not be lost.
fn may_limit(session: &Session, known: &Known, end: usize) -> bool {
    match session.method {
        Method::Udp => is_often(session),
        Method::Icmp => known.may_be_limited(end, session.survey),
        Method::Tcp => false,
    }
}

fn losses(session: &Session, known: &Known) -> Vec<PathFinding> {
    let hops = answering(known);
    let mut found = limits(&hops);
    let limited: BTreeSet<usize> = found.iter().filter_map(|found| found.hop).collect();
    let Some(((end, total), before)) = hops.split_last().map(|(last, before)| (*last, before))
    else {
        return found;
    };
    let clean = before.iter().rev().find(|(_, outcome)| is_more(total, *outcome)).copied();
    // The first behind that whose answers are those of the path, as far as is known.
    let next = clean.and_then(|(clean, _)| {
        hops.iter().map(|(hop, _)| *hop).find(|hop| *hop > clean && !limited.contains(hop))
    });
    let next = next.unwrap_or(end);
    // No limit holds back an answer of TCP; but any ICMP error, and perhaps an echo reply.
    let is_end = known.shape.hops.get(end - 1).is_some_and(|hop| hop.arrived_at(session.to.ip()));
    let is_forced = is_end && session.method != Method::Udp && !may_limit(session, known, end);
    if total.least_lost() == 0 {
        found.extend(unknown(end, total));
    } else if !is_forced {
        found.push(loss_or_limit(session, (end, total), clean, is_end));
    } else if let Some((hop, theirs)) = clean {
        // Where a router is asked that often, that it answers no more of them than the end need not be the path's doing.
        let is_exact = next == end || !is_often(session);
        let between = match next == hop + 1 && is_exact {
            true => format!("between hop {hop} and hop {next}, there or on the way back"),
            false => format!("behind hop {hop}, there or on the way back"),
        };
        // Before it, hops may limit their answers.
        let earlier = before.iter().find(|(_, outcome)| is_more(theirs, *outcome));
        let more =
            earlier.and_then(|_| before.iter().find(|(_, outcome)| !is_more(theirs, *outcome)));
        let (begins, more) = match more {
            Some((first, _)) => (
                "grows",
                format!(
                    " What has no answer from hop {first} on is lost before, or these hops limit their answers."
                ),
            ),
            None => ("begins", String::new()),
        };
        found.push(PathFinding {
            kind: "loss",
            hop: is_exact.then_some(next),
            text: format!(
                "{} % are lost to hop {end}, {} % to hop {hop}: the loss {begins} {between}.{more}",
                loss(total),
                loss(theirs)
            ),
        });
    } else if !before.is_empty() {
        found.push(PathFinding {
            kind: "loss",
            hop: None,
            text: format!(
                "{} % are lost to hop {end} ({} of {}); where can't be told from so few, since no hop before it has surely less.",
                loss(total),
                total.least_lost(),
                total.sent
            ),
        });
    }
    found
}

/// Hops that answer less than one behind them: that is no loss on the path, whatever else is.
fn limits(hops: &[(usize, Outcome)]) -> Vec<PathFinding> {
    let mut found = Vec::new();
    for (index, (hop, outcome)) in hops.iter().enumerate() {
        let later = hops[index + 1..].iter().find(|(_, later)| is_more(*outcome, *later));
        if let Some((better, theirs)) = later {
            found.push(PathFinding {
                kind: "answers-limited",
                hop: Some(*hop),
                text: format!(
                    "hop {hop} answers {} of {}, hop {better} behind it {} of {}: it limits its answers (ICMP rate limit), and those that are missing tell nothing of the path.",
                    outcome.answered, outcome.sent, theirs.answered, theirs.sent
                ),
            });
        }
    }
    found
}

/// Nothing is known to be lost, and of some probes nobody knows.
fn unknown(end: usize, total: Outcome) -> Option<PathFinding> {
    (total.unsure > 0).then(|| PathFinding {
        kind: "loss-unknown",
        hop: Some(end),
        text: format!(
            "of {} of {} probes to hop {end} nobody can know whether they were lost or late.",
            total.unsure, total.sent
        ),
    })
}

/// What is not answered with ICMP errors, or with echo replies that may be limited, may be lost, or held back by a limit of any hop behind the last that
/// has surely more.
fn loss_or_limit(
    session: &Session,
    (end, total): (usize, Outcome),
    clean: Option<(usize, Outcome)>,
    is_end: bool,
) -> PathFinding {
    let clean = match clean {
        Some((hop, theirs)) => format!(", {} % to hop {hop}", loss(theirs)),
        None => String::new(),
    };
    let hint = match (session.method, is_often(session)) {
        (Method::Udp, true) => " -m icmp, -m tcp or a longer -i may tell which.",
        (Method::Udp, false) => " -m icmp or -m tcp may tell which.",
        (Method::Icmp, _) if is_end => " -m tcp, another -i or more probes may tell which.",
        (_, true) => " A longer -i may tell which.",
        (_, false) => "",
    };
    let limit = match session.method {
        Method::Icmp if is_end => format!(
            "it limits its echo replies, which would leave out just such: 0 to {} % are lost.",
            percent(total.most_lost() as f64 / total.sent.max(1) as f64)
        ),
        _ => "it limits its answers, which are ICMP errors (Linux sends one a second).".to_owned(),
    };
    PathFinding {
        kind: "loss-or-limit",
        hop: Some(end),
        text: format!(
            "{} % to hop {end} have no answer{clean}: they are lost, or {limit}{hint}",
            loss(total)
        ),
    }
}

fn sizes(session: &Session, known: &Known) -> Vec<PathFinding> {
    let mut found = Vec::new();
    // IP and TCP without options.
    let headers = if session.to.is_ipv6() { 60 } else { 40 };
    let mut before: Option<usize> = None;
    for (number, hop, _) in known.hops() {
        let mtu = hop.mtu.unwrap_or(0);
        match hop.narrow {
            Some(Narrow::Said(by)) => found.push(PathFinding {
                kind: "narrow-link",
                hop: Some(number),
                text: format!(
                    "{by}{} says that packets above {mtu} bytes don't fit behind it.",
                    place(known, by)
                ),
            }),
            Some(Narrow::Vanish) => {
                let from =
                    before.map_or("before".to_owned(), |hop| format!("between hop {hop} and"));
                found.push(PathFinding {
                    kind: "mtu-black-hole",
                    hop: Some(number),
                    text: format!(
                        "packets above {mtu} bytes vanish {from} hop {number}, while smaller ones right behind them are answered, and nobody says why: a path MTU black hole. Let the router there send \
                         ICMP \"too big\", or clamp TCP's MSS to {}.",
                        mtu.saturating_sub(headers)
                    ),
                });
            }
            None => {}
        }
        if hop.answers_less {
            found.push(PathFinding {
                kind: "answers-small",
                hop: Some(number),
                text: format!(
                    "hop {number} answers no packets above {mtu} bytes, hops behind it do: its own limit, not the path's."
                ),
            });
        }
        before = if hop.mtu.is_some() { Some(number) } else { before };
    }
    if let Some(hop) = known.shape.search_left {
        found.push(PathFinding {
            kind: "sizes-unknown",
            hop: Some(hop.into()),
            text: format!("how large packets may be was searched for a minute and left at hop {hop}: its answers lead nowhere."),
        });
    } else if known.shape.surveyed
        && known.shape.too_big.is_none()
        && known.reached(session.to.ip())
        && known.mtu(session.to.ip()).is_none()
    {
        found.push(PathFinding {
            kind: "sizes-unknown",
            hop: None,
            text: "how large packets get to the end is unknown: too little of what asked for that was answered.".into(),
        });
    }
    found
}

/// The probes themselves are too big for a link, or somebody says so.
fn too_big(session: &Session, known: &Known) -> Option<PathFinding> {
    let (by, mtu) = known.shape.too_big?;
    let headers = if session.to.is_ipv6() { 48 } else { 28 };
    let bytes = session.size.saturating_add(headers);
    let (probes, are) = match session.method {
        Method::Tcp => ("SYNs".to_owned(), None),
        _ => (format!("probes of {bytes} bytes"), Some(bytes)),
    };
    // What every link carries (RFC 791, RFC 8200).
    let least = if session.to.is_ipv6() { 1280 } else { 68 };
    let what = match are.is_some_and(|bytes| mtu < bytes) {
        _ if mtu < least => "don't fit behind it, and names no size that can be".to_owned(),
        true => format!("don't fit behind it, where {mtu} do: a smaller -s may get there"),
        false => format!(
            "don't fit behind it, and names {mtu} bytes as what does: that is wrong, or they grow on the way (a tunnel)"
        ),
    };
    Some(PathFinding {
        kind: "probes-too-big",
        hop: None,
        text: format!("{by}{} says that {probes} {what}.", place(known, by)),
    })
}

/// Which hop an address is, in words.
fn place(known: &Known, address: IpAddr) -> String {
    let hop = known.hops().find(|(_, hop, _)| hop.who.iter().any(|who| who.address == address));
    hop.map_or(String::new(), |(number, _, _)| format!(" (hop {number})"))
}

fn marks(known: &Known) -> Vec<PathFinding> {
    let mut found = Vec::new();
    // As sent, as it came to the hop before, and which that was.
    let mut before: Vec<(u8, u8, usize)> = Vec::new();
    for (number, hop, _) in known.hops() {
        // Flows may go several ways.
        let seen: BTreeSet<(u8, u8)> = hop.who.iter().flat_map(|who| who.marks.clone()).collect();
        let earlier = before.clone();
        for (sent, came) in seen {
            let last = earlier.iter().find(|(asked, ..)| *asked == sent).copied();
            let (_, was, from) = last.unwrap_or((sent, sent, 0));
            if was != came {
                let from = match from {
                    0 => "before".to_owned(),
                    from => format!("between hop {from} and"),
                };
                found.push(PathFinding {
                    kind: if was ^ came < 4 { "ecn-changed" } else { "dscp-changed" },
                    hop: Some(number),
                    text: format!(
                        "the TOS byte is changed {from} hop {number}: {}.",
                        changed(Tos::from_byte(was), Tos::from_byte(came))
                    ),
                });
            }
            before.retain(|(asked, ..)| *asked != sent);
            before.push((sent, came, number));
        }
        if hop.marks_vanish {
            let last = earlier.iter().find(|(asked, ..)| *asked == MARKED.byte());
            let from =
                last.map_or("before".to_owned(), |(_, _, hop)| format!("between hop {hop} and"));
            found.push(PathFinding {
                kind: "marks-vanish",
                hop: Some(number),
                text: format!(
                    "packets marked EF and ECT(0) vanish {from} hop {number}, or are not answered there, while unmarked ones right behind them are: who is there drops what is marked."
                ),
            });
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

fn ways(session: &Session, known: &Known) -> Vec<PathFinding> {
    let mut found = Vec::new();
    if let Some((number, hop, _)) = known.hops().find(|(_, hop, _)| hop.who.len() > 1) {
        let one: BTreeSet<u16> = hop.who.iter().flat_map(|who| who.flows.clone()).collect();
        let split =
            one.iter().any(|flow| hop.who.iter().filter(|w| w.flows.contains(flow)).count() > 1);
        let text = if split {
            format!(
                "at hop {number} packets of one flow went {} ways: the route changed, or a router spreads packets one by one.",
                hop.who.len()
            )
        } else {
            format!("from hop {number} on, flows go {} ways.", hop.who.len())
        };
        let kind = if split { "several-ways-in-a-flow" } else { "several-ways" };
        found.push(PathFinding { kind, hop: Some(number), text });
    }
    found.extend(bad_member(session, known));
    found
}

/// Flows that lose more than the others, and where only they go.
fn bad_member(session: &Session, known: &Known) -> Option<PathFinding> {
    // The end's limit may fall on the same flows each time, and these may be those that go one way.
    let end = known.length();
    if may_limit(session, known, end) {
        return None;
    }
    let all: Vec<Outcome> = (0..known.flows.len())
        .map(|flow| known.outcome(flow, known.shape.ends[flow].map_or(end, usize::from)))
        .collect();
    let best = all.iter().filter(|o| o.sent > 0).max_by(|a, b| {
        let ratio = |o: &Outcome| o.answered as f64 / o.sent as f64;
        ratio(a).total_cmp(&ratio(b))
    })?;
    let bad: BTreeSet<u16> =
        (0..all.len()).filter(|f| is_more(all[*f], *best)).map(|f| f as u16).collect();
    if bad.is_empty() || bad.len() == all.len() {
        return None;
    }
    // The end is no link that only some flows take, at however many hops it seems to be.
    let only_theirs = |who: &&Who| {
        !who.flows.is_empty() && who.flows.is_subset(&bad) && who.address != session.to.ip()
    };
    let member = known.hops().find_map(|(number, hop, _)| {
        let who: Vec<&Who> = hop.who.iter().filter(only_theirs).collect();
        (!who.is_empty()).then(|| (number, who[0].address))
    });
    let sum = |flows: &mut dyn Iterator<Item = usize>| {
        flows.fold(Outcome::default(), |sum, flow| Outcome {
            sent: sum.sent + all[flow].sent,
            answered: sum.answered + all[flow].answered,
            unsure: sum.unsure + all[flow].unsure,
        })
    };
    let theirs = sum(&mut bad.iter().map(|flow| usize::from(*flow)));
    let others = sum(&mut (0..all.len()).filter(|flow| !bad.contains(&(*flow as u16))));
    let by = match member {
        Some((number, address)) => {
            format!(
                " Only they go by {address} (hop {number}): a bad link of several, there or behind it."
            )
        }
        None => String::new(),
    };
    Some(PathFinding {
        kind: "bad-member",
        hop: member.map(|(number, _)| number),
        text: format!(
            "{} {} loses {} %, the others {} %.{by}",
            if bad.len() == 1 { "flow" } else { "of flows" },
            numbers(&bad),
            loss(theirs),
            loss(others)
        ),
    })
}

/// Numbers of flows as people count them: `1, 3`.
pub fn numbers(flows: &BTreeSet<u16>) -> String {
    flows.iter().map(|flow| (flow + 1).to_string()).collect::<Vec<_>>().join(", ")
}

fn back(known: &Known) -> Option<PathFinding> {
    let (number, who, hops) = known.hops().find_map(|(number, hop, _)| {
        let who = hop.who.first()?;
        let hops = who.back_hops().filter(|hops| usize::from(*hops) != number)?;
        Some((number, who, hops))
    })?;
    Some(PathFinding {
        kind: "asymmetric",
        hop: Some(number),
        text: format!(
            "answers of hop {number} seem to come back over {} (their TTL is {} here): the way back is another one, or that router begins with an unusual TTL.",
            count(hops.into(), "hop"),
            who.back_ttl.unwrap_or(0)
        ),
    })
}

/// Hops that answered a probe more than once.
fn duplicates(known: &Known) -> Option<PathFinding> {
    let times = known.hops().map(|(hop, _, counts)| (hop, counts.duplicates));
    let times: Vec<(usize, u64)> = times.filter(|(_, times)| *times > 0).collect();
    let (first, _) = *times.first()?;
    let words: Vec<String> =
        times.iter().map(|(hop, times)| format!("{times} of hop {hop}")).collect();
    Some(PathFinding {
        kind: "duplicates",
        hop: (times.len() == 1).then_some(first),
        text: format!(
            "answers came more than once: {} besides the first ones, which alone count.",
            words.join(", ")
        ),
    })
}

/// Routers that send packets to each other and not to the end: the same addresses answer by turns, as far as was asked.
fn going_round(session: &Session, known: &Known) -> Option<PathFinding> {
    if known.reached(session.to.ip()) {
        return None;
    }
    let hops: Vec<Option<IpAddr>> =
        known.hops().map(|(_, hop, _)| hop.who.first().map(|who| who.address)).collect();
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
    Some(PathFinding {
        kind: "routing-loop",
        hop: Some(start + 1),
        text: format!(
            "packets go round: from hop {} on {} answer by turns, as far as was asked. Each sends them to the next, and none to the host.",
            start + 1,
            words.join(" and ")
        ),
    })
}

/// The end's address answers as a router on the way does.
fn expired_at_end(session: &Session, known: &Known) -> Option<PathFinding> {
    let to = session.to.ip();
    let is_router = |who: &Who| who.address == to && !who.arrived && who.stops.is_none();
    let (number, ..) = known.hops().find(|(_, hop, _)| hop.who.iter().any(is_router))?;
    Some(PathFinding {
        kind: "router-with-the-end's-address",
        hop: Some(number),
        text: format!(
            "{to} says at hop {number} that a TTL was over there: that is a router with the host's address (a NAT, or a loop), and packets did not arrive at the host."
        ),
    })
}

/// What came and is about none of the packets, for all that is known.
fn unmatched(known: &Known) -> Vec<PathFinding> {
    let Shape { unmatched, strange, trusted, .. } = &known.shape;
    let mut found = Vec::new();
    let mut tell = |kind, text| found.push(PathFinding { kind, hop: None, text });
    let short = format!(
        "{} did not say which packet they were about (a router quoted too little of it)",
        count(*unmatched, "answer")
    );
    if *trusted {
        tell(
            "unmatched",
            format!(
                "{short}; since the first of them one packet at a time was sent, and what came then was taken for its answer. Strangers can forge that: hops, times and sizes may be theirs. As root (or \
                 with setcap cap_net_raw+ep) it is known by its checksum."
            ),
        );
    } else if *unmatched > 0 {
        tell("unmatched", format!("{short}; they count for nothing."));
    }
    if *strange > 0 {
        tell(
            "strange-answers",
            format!(
                "{} told of no packet that was under way: strangers made them up, or a NAT changed what they quote. They count for nothing.",
                count(*strange, "answer")
            ),
        );
    }
    found
}

fn stopped(session: &Session, known: &Known) -> Option<PathFinding> {
    let stops = |who: &&Who| who.stops.is_some();
    let (number, who) =
        known.hops().find_map(|(number, hop, _)| Some((number, hop.who.iter().find(stops)?)))?;
    let code = who.stops?;
    // The other end itself says so of a port, which is an answer.
    let (mark, why) = why_unreachable(session.to.is_ipv6(), code);
    let passes = |hop: &Hop| hop.who.iter().any(|who| who.stops.is_none());
    let behind = known.hops().find(|(behind, hop, _)| *behind > number && passes(hop));
    let (kind, text) = match behind {
        _ if who.address == session.to.ip() => (
            "unreachable",
            format!("the host answers with \"unreachable\", code {code} ({mark}): it {why}."),
        ),
        Some((behind, ..)) => (
            "unreachable-contradicted",
            format!(
                "{} (hop {number}) {why} ({mark}, code {code}), as it says, and hop {behind} behind it answers: for the packets that go there that is not true.",
                who.address
            ),
        ),
        None => {
            ("unreachable", format!("{} (hop {number}) {why} ({mark}, code {code}).", who.address))
        }
    };
    Some(PathFinding { kind, hop: Some(number), text })
}

#[cfg(test)]
mod tests;
