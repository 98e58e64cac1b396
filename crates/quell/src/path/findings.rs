//! What the figures of a path mean. Pure.
//!
//! A loss is on the path only where what goes further suffers it too: probes to later hops pass the earlier ones. Whether two losses differ is told by
//! their intervals (95 %, Clopper and Pearson); where these overlap, nothing is claimed.

use super::known::{Known, Narrow, Outcome, Who};
use super::session::{Method, Session};
use crate::ping::text::{count, percent};
use quell_stats::interval::{Batch, Interval};
use quell_units::Tos;
use quell_wire::icmp_error::why_unreachable;
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::IpAddr;

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
    found.extend(losses(session, known));
    found.extend(sizes(session, known));
    found.extend(marks(known));
    found.extend(ways(session, known));
    found.extend(back(known));
    if known.shape.unmatched > 0 {
        found.push(PathFinding {
            kind: "unmatched",
            hop: None,
            text: format!(
                "{} did not say which packet they were about (a router quoted too little of it); since the first of them one packet at a time was sent.",
                count(known.shape.unmatched, "answer")
            ),
        });
    }
    found
}

fn interval(outcome: Outcome) -> Option<Interval> {
    let lost = outcome.sent.saturating_sub(outcome.answered) as f64;
    Interval::of_loss(&[vec![Batch { sent: outcome.sent as f64, lost }]])
}

fn loss(outcome: Outcome) -> String {
    percent(1.0 - outcome.answered as f64 / outcome.sent.max(1) as f64)
}

/// Hops that answered anything, with what became of their probes.
fn answering(known: &Known) -> Vec<(usize, Outcome)> {
    let of = known
        .hops()
        .map(|(hop, _, counts)| (hop, Outcome { sent: counts.sent, answered: counts.answered() }));
    of.filter(|(_, outcome)| outcome.answered > 0).collect()
}

fn is_more(worse: Outcome, better: Outcome) -> bool {
    match (interval(worse), interval(better)) {
        (Some(worse), Some(better)) => worse.low > better.high,
        _ => false,
    }
}

/// Whether the end may answer less than it gets: to UDP it answers with ICMP errors, of which hosts send a peer so many and no more (Linux one a second,
/// `icmp_ratelimit` of ip-sysctl.rst). Then what is not answered there need not be lost.
fn may_limit(session: &Session) -> bool {
    let a_second = session.ports.len() as f64 * 1e9 / session.interval_ns.max(1) as f64;
    session.method == Method::Udp && a_second > 1.0
}

fn losses(session: &Session, known: &Known) -> Vec<PathFinding> {
    let hops = answering(known);
    let mut found = Vec::new();
    for (index, (hop, outcome)) in hops.iter().enumerate() {
        let later = hops[index + 1..].iter().find(|(_, later)| is_more(*outcome, *later));
        if let Some((better, theirs)) = later {
            found.push(PathFinding {
                kind: "answers-limited",
                hop: Some(*hop),
                text: format!(
                    "hop {hop} answers {} of {}, hop {better} behind it {} of {}: it limits its answers (ICMP rate limit), and the path does not lose them.",
                    outcome.answered, outcome.sent, theirs.answered, theirs.sent
                ),
            });
        }
    }
    // The end's loss begins behind the last hop that surely has less.
    let Some(((end, total), before)) = hops.split_last().map(|(last, before)| (*last, before))
    else {
        return found;
    };
    if total.answered < total.sent {
        let clean = before.iter().rev().find(|(_, outcome)| is_more(total, *outcome));
        let (hop, text) = match clean {
            Some((hop, theirs)) => {
                let next = hops.iter().find(|(later, _)| later > hop).map_or(end, |(hop, _)| *hop);
                if next == end && may_limit(session) {
                    found.push(loss_or_limit(end, total));
                    return found;
                }
                let between = match next == hop + 1 {
                    true => format!("between hop {hop} and hop {next}, there or on the way back"),
                    false => format!("behind hop {hop}, there or on the way back"),
                };
                (
                    Some(next),
                    format!(
                        "{} % are lost to hop {end}, {} % to hop {hop}: the loss begins {between}.",
                        loss(total),
                        loss(*theirs)
                    ),
                )
            }
            None => {
                if may_limit(session) {
                    found.push(loss_or_limit(end, total));
                    return found;
                }
                let first = hops.first().filter(|(hop, _)| *hop != end);
                let text = match first {
                    Some(_) => format!(
                        "{} % are lost to hop {end} ({} of {}); where can't be told from so few, since no hop before it has surely less.",
                        loss(total),
                        total.sent - total.answered,
                        total.sent
                    ),
                    None => return found,
                };
                (None, text)
            }
        };
        found.push(PathFinding { kind: "loss", hop, text });
    }
    found
}

fn loss_or_limit(end: usize, total: Outcome) -> PathFinding {
    PathFinding {
        kind: "loss-or-limit",
        hop: Some(end),
        text: format!(
            "{} % to hop {end} have no answer: they are lost, or it limits its answers, which to UDP are ICMP errors (Linux sends one a second). -m icmp, \
             -m tcp or a longer -i tells which.",
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
                        "packets above {mtu} bytes vanish {from} hop {number}, each asked for twice, and nobody says why: a path MTU black hole. Let the router there send \
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
    found
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
        for (sent, came) in seen {
            let last = before.iter().find(|(asked, ..)| *asked == sent).copied();
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
    let end = known.length();
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
    // The end's limit may fall on the same flows each time.
    if member.is_none() && may_limit(session) {
        return None;
    }
    let sum = |flows: &mut dyn Iterator<Item = usize>| {
        flows.fold(Outcome::default(), |sum, flow| Outcome {
            sent: sum.sent + all[flow].sent,
            answered: sum.answered + all[flow].answered,
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
            "answers of hop {number} seem to come back over {hops} hops (their TTL is {} here): the way back is another one, or that router begins with an unusual TTL.",
            who.back_ttl.unwrap_or(0)
        ),
    })
}

fn stopped(session: &Session, known: &Known) -> Option<PathFinding> {
    let stops = |who: &&Who| who.stops.is_some();
    let (number, who) =
        known.hops().find_map(|(number, hop, _)| Some((number, hop.who.iter().find(stops)?)))?;
    let code = who.stops?;
    // The other end itself says so of a port, which is an answer.
    let (mark, why) = why_unreachable(session.to.is_ipv6(), code);
    let text = match who.address == session.to.ip() {
        true => format!("the host answers with \"unreachable\", code {code} ({mark}): it {why}."),
        false => format!("{} (hop {number}) {why} ({mark}, code {code}).", who.address),
    };
    Some(PathFinding { kind: "unreachable", hop: Some(number), text })
}

#[cfg(test)]
mod tests {
    use super::super::known::Hop;
    use super::super::session::Method;
    use super::*;
    use quell_model::{EchoSample, EchoStatus};
    use quell_probe::path::{HopAnswer, News};
    use quell_wire::icmp_error::Meaning;

    fn session(flows: u16) -> Session {
        Session {
            host: "b".into(),
            to: ([192, 0, 2, 99], 0).into(),
            others: Vec::new(),
            method: Method::Icmp,
            ports: (0..flows).collect(),
            interval_ns: 1_000_000_000,
            size: 56,
            tos: 0,
            survey: true,
            sees_marks: true,
        }
    }

    /// Hops of which so many of so many probes of each flow were answered; each flow's hops have addresses of this network.
    fn known(flows: &[(u8, &[(u64, u64)])]) -> Known {
        let mut known = Known::new(flows.len() as u16, 1_000_000_000);
        for (flow, (network, hops)) in flows.iter().enumerate() {
            let flow = flow as u16;
            for (index, (answered, sent)) in hops.iter().enumerate() {
                let ttl = index as u8 + 1;
                for seq in 0..*sent {
                    let status = if seq < *answered { EchoStatus::Ok } else { EchoStatus::Lost };
                    let rtt_ns = status.is_answered().then_some(1_000_000);
                    let sample = EchoSample { rtt_ns, ..EchoSample::new(0, seq, 56, status) };
                    known.sample(flow, ttl, &sample);
                }
                let last = index + 1 == hops.len();
                let from = if last { [192, 0, 2, 99] } else { [192, 0, *network, ttl] };
                if *answered > 0 {
                    known.take(&answer(flow, ttl, from.into(), None));
                }
            }
            known.take(&News::Ends { flow, ttl: Some(hops.len() as u8) });
        }
        known
    }

    fn answer(flow: u16, ttl: u8, from: IpAddr, marks: Option<(u8, u8)>) -> News {
        News::Answer(HopAnswer {
            flow,
            ttl,
            from,
            said: Some(Meaning::Expired),
            back_ttl: None,
            marks: marks.map(|(sent, came)| (Tos::from_byte(sent), Tos::from_byte(came))),
            labels: Vec::new(),
        })
    }

    fn found(known: &Known) -> Vec<(&'static str, Option<usize>)> {
        of(&session(known.flows.len() as u16), known).iter().map(|f| (f.kind, f.hop)).collect()
    }

    #[test]
    fn less_answers_of_a_hop_than_of_one_behind_it_are_no_loss() {
        let limited = known(&[(3, &[(100, 100), (40, 100), (100, 100)])]);
        assert_eq!(found(&limited), [("answers-limited", Some(2))]);
        let lossy = known(&[(3, &[(100, 100), (70, 100), (68, 100)])]);
        assert_eq!(found(&lossy), [("loss", Some(2))]);
        let both = known(&[(3, &[(100, 100), (10, 100), (70, 100), (70, 100)])]);
        assert_eq!(found(&both), [("answers-limited", Some(2)), ("loss", Some(2))]);
    }

    #[test]
    fn an_end_that_answers_udp_seldom_need_not_lose_it() {
        let fast = |method, flows| Session { method, interval_ns: 500_000_000, ..session(flows) };
        let seldom = known(&[(3, &[(100, 100), (100, 100), (20, 100)])]);
        let kinds = |session: &Session, known: &Known| -> Vec<_> {
            of(session, known).iter().map(|f| (f.kind, f.hop)).collect()
        };
        assert_eq!(kinds(&fast(Method::Udp, 1), &seldom), [("loss-or-limit", Some(3))]);
        assert_eq!(kinds(&fast(Method::Icmp, 1), &seldom), [("loss", Some(3))]);
        let slowly = Session { method: Method::Udp, ..session(1) };
        assert_eq!(kinds(&slowly, &seldom), [("loss", Some(3))]);
        // One flow has no answers, and goes where the others go.
        let whole: &[(u64, u64)] = &[(50, 50), (50, 50), (50, 50)];
        let none: &[(u64, u64)] = &[(50, 50), (50, 50), (1, 50)];
        let one_way = known(&[(3, whole), (3, none)]);
        assert_eq!(kinds(&fast(Method::Udp, 2), &one_way), [("loss-or-limit", Some(3))]);
        assert!(kinds(&fast(Method::Icmp, 2), &one_way).contains(&("bad-member", None)));
    }

    #[test]
    fn of_few_probes_nothing_is_claimed() {
        assert_eq!(found(&known(&[(3, &[(3, 3), (2, 3), (3, 3)])])), []);
        // The end lost one of three: that is told, and that nobody knows where.
        assert_eq!(found(&known(&[(3, &[(3, 3), (3, 3), (2, 3)])])), [("loss", None)]);
        assert_eq!(found(&known(&[(3, &[(3, 3), (3, 3), (3, 3)])])), []);
    }

    #[test]
    fn a_change_of_marks_is_placed_behind_the_last_hop_that_saw_them_whole() {
        let mut known = known(&[(3, &[(3, 3), (3, 3), (3, 3), (3, 3)])]);
        for (ttl, came) in [(1, 0xba), (3, 0xb8), (4, 0x00)] {
            known.take(&answer(0, ttl, [192, 0, 3, ttl].into(), Some((0xba, came))));
        }
        // The end has another address here than its answers: two at one hop are a finding of their own.
        known.shape.hops[3] = Hop { who: known.shape.hops[3].who.split_off(1), ..Hop::default() };
        assert_eq!(found(&known), [("ecn-changed", Some(3)), ("dscp-changed", Some(4))]);
        let texts: Vec<String> = of(&session(1), &known).into_iter().map(|f| f.text).collect();
        assert!(
            texts[0].contains("between hop 1 and hop 3: ECN ect0 becomes not-ect"),
            "{texts:?}"
        );
        assert!(texts[1].contains("DSCP EF becomes CS0"), "{texts:?}");
    }

    #[test]
    fn flows_that_lose_more_than_others_name_the_address_that_only_they_pass() {
        let good: &[(u64, u64)] = &[(50, 50), (50, 50), (50, 50)];
        let bad: &[(u64, u64)] = &[(50, 50), (50, 50), (25, 50)];
        let found = found(&known(&[(3, good), (4, bad), (3, good)]));
        assert!(found.contains(&("bad-member", Some(1))), "{found:?}");
        assert!(found.contains(&("several-ways", Some(1))), "{found:?}");
    }
}
