//! What the figures of a path mean. Pure.
//!
//! A loss is on the path only where what goes further suffers it too: probes to later hops pass the earlier ones. Whether two losses differ is told by
//! their intervals (95 %, Clopper and Pearson); where these overlap, nothing is claimed. Any router, and to UDP the end too, answers with ICMP errors, which
//! may be limited, and so may its echo replies: what TCP answers shows that anything is lost, and echo replies do where no limit would have left out just
//! those (limiter.rs).

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
    found.extend(too_big(session, known));
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
    let is_end = known.shape.hops.get(end - 1).is_some_and(|hop| hop.is_at(session.to.ip()));
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
    let what = match are.is_some_and(|bytes| mtu < bytes) {
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
    use quell_probe::path::{HopAnswer, HopSize, News};
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

    /// Whether this one of so many probes is among those that are answered, which no limit chose.
    fn is_answered(answered: u64, sent: u64, hop: usize, seq: u64) -> bool {
        let order = |seq: u64| {
            let mut z = ((hop as u64) << 32 | seq).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (z ^ z >> 27, seq)
        };
        (0..sent).filter(|other| order(*other) < order(seq)).count() < answered as usize
    }

    /// Hops of which so many of so many probes of each flow were answered; each flow's hops have addresses of this network.
    fn known(flows: &[(u8, &[(u64, u64)])]) -> Known {
        let mut known = Known::new(flows.len() as u16, 1_000_000_000);
        for (flow, (network, hops)) in flows.iter().enumerate() {
            let flow = flow as u16;
            for (index, (answered, sent)) in hops.iter().enumerate() {
                let ttl = index as u8 + 1;
                for seq in 0..*sent {
                    let status = match is_answered(*answered, *sent, index, seq) {
                        true => EchoStatus::Ok,
                        false => EchoStatus::Lost,
                    };
                    let rtt_ns = status.is_answered().then_some(1_000_000);
                    let t_ns = seq as i64 * 1_000_000_000 + i64::from(flow) * 300_000_000;
                    let sample = EchoSample { rtt_ns, ..EchoSample::new(t_ns, seq, 56, status) };
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
        // The loss shows at the third, and may be before the second.
        assert_eq!(found(&both), [("answers-limited", Some(2)), ("loss", Some(3))]);
        let text = of(&session(1), &both).remove(1).text;
        assert!(text.contains("begins behind hop 1"), "{text}");
    }

    /// One router answers all, the others and the end one a second.
    #[test]
    fn hops_that_limit_their_answers_otherwise_than_one_before_them_place_no_loss() {
        let often = |method| Session { method, interval_ns: 100_000_000, ..session(1) };
        let limited = known(&[(3, &[(25, 200), (200, 200), (25, 200), (23, 200)])]);
        let kinds = |session: &Session, known: &Known| -> Vec<_> {
            of(session, known).iter().map(|f| (f.kind, f.hop)).collect()
        };
        assert_eq!(
            kinds(&often(Method::Udp), &limited),
            [("answers-limited", Some(1)), ("loss-or-limit", Some(4))]
        );
        let text = of(&often(Method::Udp), &limited).remove(1).text;
        assert!(text.contains("88.5 % to hop 4 have no answer, 0.0 % to hop 2"), "{text}");
        // No limit explains the end's echo replies; the router before it answers one a second, and tells nothing of where they are lost.
        let behind = known(&[(3, &[(200, 200), (200, 200), (25, 200), (160, 200)])]);
        assert_eq!(
            kinds(&often(Method::Icmp), &behind),
            [("answers-limited", Some(3)), ("loss", Some(4))]
        );
        let text = of(&often(Method::Icmp), &behind).remove(1).text;
        assert!(text.contains("begins behind hop 2"), "{text}");
        // A path of which the end keeps silent: the last hop that answers is a router.
        let mut silent = known(&[(3, &[(60, 60), (60, 60), (20, 60)])]);
        silent.shape.hops[2].who[0].address = [192, 0, 3, 3].into();
        assert_eq!(kinds(&session(1), &silent), [("loss-or-limit", Some(3))]);
    }

    #[test]
    fn what_nobody_knows_of_is_no_loss() {
        let unsure = |answered: u64, unsure: u64, lost: u64| {
            let whole = (60, 60);
            let mut known = known(&[(3, &[whole, whole, (answered, answered + lost)])]);
            for seq in 0..unsure {
                let t_ns = (1000 + seq as i64) * 1_000_000_000;
                let sample = EchoSample::new(t_ns, 1000 + seq, 56, EchoStatus::Unsure);
                known.sample(0, 3, &sample);
            }
            (found(&known), of(&session(1), &known))
        };
        let (kinds, said) = unsure(20, 40, 0);
        assert_eq!(kinds, [("loss-unknown", Some(3))]);
        assert!(said[0].text.starts_with("of 40 of 60 probes to hop 3 nobody can know"));
        // One that is lost places no others.
        assert_eq!(unsure(20, 39, 1).0, [("loss-or-limit", Some(3))]);
        let (kinds, said) = unsure(20, 10, 30);
        assert_eq!(kinds, [("loss", Some(3))]);
        assert!(said[0].text.starts_with("50.0 to 66.7 % are lost to hop 3"), "{said:?}");
    }

    #[test]
    fn a_loss_that_grows_does_not_begin_there() {
        let text = |hops| of(&session(1), &known(&[(3, hops)])).remove(0).text;
        let once = text(&[(400, 400), (400, 400), (340, 400), (340, 400)]);
        assert!(once.contains("the loss begins between hop 2 and hop 3"), "{once}");
        let twice = text(&[(400, 400), (378, 400), (379, 400), (338, 400), (338, 400)]);
        assert!(twice.contains("the loss grows between hop 3 and hop 4"), "{twice}");
        assert!(twice.contains("no answer from hop 2 on is lost before"), "{twice}");
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
        assert_eq!(kinds(&slowly, &seldom), [("loss-or-limit", Some(3))]);
        // One flow has no answers, and goes where the others go.
        let whole: &[(u64, u64)] = &[(50, 50), (50, 50), (50, 50)];
        let none: &[(u64, u64)] = &[(50, 50), (50, 50), (1, 50)];
        let one_way = known(&[(3, whole), (3, none)]);
        assert_eq!(kinds(&fast(Method::Udp, 2), &one_way), [("loss-or-limit", Some(3))]);
        assert!(kinds(&fast(Method::Tcp, 2), &one_way).contains(&("bad-member", None)));
        // A limit of one echo reply a round falls on the same flow each time.
        assert_eq!(kinds(&fast(Method::Icmp, 2), &one_way), [("loss-or-limit", Some(3))]);
    }

    /// As the lab had it of a host that limits its echo replies (`icmp_ratemask`): six at once, then one a second, five times as often asked.
    #[test]
    fn echo_replies_that_a_limit_explains_need_not_be_lost() {
        let mut known = known(&[(3, &[(60, 60), (60, 60), (0, 0)])]);
        for seq in 0..60_u64 {
            let is_answered = seq < 7 || seq % 5 == 2;
            let status = if is_answered { EchoStatus::Ok } else { EchoStatus::Lost };
            let rtt_ns = is_answered.then_some(12_000_000);
            let t_ns = seq as i64 * 200_000_000;
            known.sample(0, 3, &EchoSample { rtt_ns, ..EchoSample::new(t_ns, seq, 56, status) });
        }
        known.take(&answer(0, 3, [192, 0, 2, 99].into(), None));
        assert_eq!(found(&known), [("loss-or-limit", Some(3))]);
        let text = of(&session(1), &known).remove(0).text;
        assert!(text.contains("limits its echo replies"), "{text}");
        assert!(text.contains(": 0 to 70.0 % are lost."), "{text}");
        assert!(!text.contains("begins"), "{text}");
    }

    /// Packets of one flow take two hops or three, one by one.
    #[test]
    fn an_end_that_answered_was_reached_wherever_the_path_ended_last() {
        let (mut known, to) = (Known::new(1, 1), session(1).to.ip());
        known.take(&answer(0, 1, [192, 0, 3, 1].into(), None));
        for who in [to, [192, 0, 3, 2].into()] {
            known.take(&answer(0, 2, who, None));
        }
        known.take(&News::Ends { flow: 0, ttl: Some(2) });
        known.take(&News::Ends { flow: 0, ttl: None });
        assert!(known.reached(to));
        assert!(!known.reached([192, 0, 2, 98].into()));
    }

    #[test]
    fn a_router_that_sends_no_further_is_not_the_end_to_which_packets_get() {
        let (mut known, to) = (Known::new(1, 1), session(1).to.ip());
        let size = HopSize { bytes: Some(1500), ..HopSize::default() };
        known.take(&answer(0, 1, [192, 0, 3, 1].into(), None));
        known.take(&News::Ends { flow: 0, ttl: Some(1) });
        known.take(&News::Sizes(vec![size]));
        assert_eq!((known.mtu(to), known.mtu([192, 0, 3, 1].into())), (None, Some(1500)));
        let text = super::super::text::summary(&session(1), &known, 100);
        assert!(!text.contains("get to the end"), "{text}");
    }

    #[test]
    fn who_says_of_probes_that_they_are_too_big_is_named_with_what_is_wrong_in_that() {
        let mut known = known(&[(3, &[(3, 3)])]);
        let by: IpAddr = [192, 0, 3, 1].into();
        let text = |known: &Known| of(&session(1), known).remove(0).text;
        known.take(&News::TooBig { by, mtu: 68 });
        let said = text(&known);
        assert!(said.starts_with("192.0.3.1 says that probes of 84 bytes don't fit"), "{said}");
        assert!(said.contains("where 68 do: a smaller -s may"), "{said}");
        known.shape.too_big = Some((by, 1400));
        assert!(text(&known).contains("names 1400 bytes as what does: that is wrong"));
    }

    #[test]
    fn of_few_probes_nothing_is_claimed() {
        assert_eq!(found(&known(&[(3, &[(3, 3), (2, 3), (3, 3)])])), []);
        // One of three has no answer of the end: that is told, and that nobody knows whether it was lost.
        let one = [("loss-or-limit", Some(3))];
        assert_eq!(found(&known(&[(3, &[(3, 3), (3, 3), (2, 3)])])), one);
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
    fn marks_that_vary_at_a_hop_are_placed_before_it_and_not_between_it_and_itself() {
        let mut known = known(&[(2, &[(3, 3), (3, 3)])]);
        for came in [0x11, 0x22, 0x33] {
            known.take(&answer(0, 1, [192, 0, 2, 1].into(), Some((0xba, came))));
        }
        let found = of(&session(1), &known);
        let texts: Vec<String> = found.into_iter().map(|f| f.text).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts.iter().all(|text| text.contains("changed before hop 1:")), "{texts:?}");
    }

    #[test]
    fn flows_that_lose_more_than_others_name_the_address_that_only_they_pass() {
        let good: &[(u64, u64)] = &[(50, 50), (50, 50), (50, 50)];
        let bad: &[(u64, u64)] = &[(50, 50), (50, 50), (25, 50)];
        let known = known(&[(3, good), (4, bad), (3, good)]);
        let found = of(&Session { method: Method::Tcp, ..session(3) }, &known);
        let found: Vec<_> = found.iter().map(|f| (f.kind, f.hop)).collect();
        assert!(found.contains(&("bad-member", Some(1))), "{found:?}");
        assert!(found.contains(&("several-ways", Some(1))), "{found:?}");
    }
}
