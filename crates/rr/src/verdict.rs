//! What is told of calls that waited: which side, for what, what shows it, what to change. Pure.

use crate::cause::{Cause, Stalls};
use crate::counters::Counters;
use quell_finding::{Evidence, Finding, Remedy, Severity};

/// Where figures come from.
const CALLS: &str = "quell rr";
const SERVER: &str = "quell serve";
const KERNEL: &str = "TCP_INFO";
const NETSTAT: &str = "/proc/net/netstat";

const NAGLE: &str = "RFC 896; RFC 1122, section 4.2.3.2";
const LOSS: &str = "RFC 6298; RFC 8985, section 7";

/// What is told of a cause.
struct Told {
    name: &'static str,
    severity: Severity,
    /// Which side waited, and for what.
    says: &'static str,
    why: &'static str,
    /// What to change, the best first.
    changes: &'static [&'static str],
    source: &'static str,
}

const DELAYED: &str =
    "a delayed ACK comes 40 ms later on Linux, and each such call takes that longer";
const TIMER: &str =
    "the timer lasts 200 ms at least on Linux, and each such call takes that longer";
const UP_TO_A_ROUND_TRIP: &str = "that costs up to a round trip of each such call, less what the segments before it took on the line; \
                                  an ACK at once does not mend it";
const QUICK_HERE: &str = "here: TCP_QUICKACK set again after each receive (--fix quickack), or `ip route change … quickack 1`";
const ONE_WRITE: &str =
    "here: TCP_NODELAY (--fix nodelay), or one write instead of several (--fix one-write)";
const ASK_MORE: &str = "to know: sizes from 32 bytes against a `quell serve`, which says what it sent again, or `quell trace` of a capture \
                        at each end";

impl Cause {
    /// Its name, by which programs know it.
    pub fn name(self) -> &'static str {
        self.told(&Stalls::default()).name
    }

    fn told(self, stalls: &Stalls) -> Told {
        let told = |name, severity, says, why, changes, source| Told {
            name,
            severity,
            says,
            why,
            changes,
            source,
        };
        match self {
            Self::Early => told(
                "early",
                Severity::Warning,
                "nobody waited: the server answered before it had the whole request, so that these times are no round trips",
                "what is measured so is not how long a call takes",
                &["answer when the request is whole, as `quell serve` does; measure against that"],
                CALLS,
            ),
            Self::NagleAndDelayedAck => told(
                "nagle-and-delayed-ack",
                Severity::Serious,
                "this end held its last segment (Nagle) and waited for the ACK of the server, which delayed it",
                DELAYED,
                &[
                    ONE_WRITE,
                    "at the server: TCP_QUICKACK set again after each receive (--fix quickack), or `ip route change … quickack 1`",
                ],
                NAGLE,
            ),
            Self::DelayedAckHere => told(
                "delayed-ack-here",
                Severity::Serious,
                "the server held its reply (Nagle) and waited for the ACK of this end, which delayed it",
                DELAYED,
                &["at the server: TCP_NODELAY, or one write of the whole reply", QUICK_HERE],
                NAGLE,
            ),
            Self::Retransmission => told(
                "retransmission",
                Severity::Warning,
                "this end lost packets and waited for its retransmission timer, or the tail-loss probe before it",
                TIMER,
                &[
                    "find where packets are lost (`quell trace` tells by which end, counters of interfaces and queues where); no \
                   socket option mends it",
                ],
                LOSS,
            ),
            Self::RetransmissionThere => told(
                "retransmission-there",
                Severity::Warning,
                "packets of the server were lost on their way here, and its retransmission timer, or one of this end's, was waited for",
                TIMER,
                &[
                    "find where packets are lost on the way from the server (`quell trace` there, counters of interfaces and \
                   queues); no socket option mends it",
                ],
                LOSS,
            ),
            Self::RetransmissionSomewhere => told(
                "retransmission-somewhere",
                Severity::Warning,
                "packets were lost, and a retransmission timer was waited for; on which way, nothing tells",
                TIMER,
                &[ASK_MORE, "find where packets are lost; no socket option mends it"],
                LOSS,
            ),
            Self::Server => told(
                "server",
                Severity::Warning,
                "this end had sent everything and waited for the server, which took most of the time itself",
                "neither TCP nor the path took this time",
                &["look at the server's program and its load"],
                SERVER,
            ),
            Self::Slow => told(
                "slow",
                Severity::Warning,
                "this end had sent everything and waited for the reply",
                "TCP held nothing back here, and the path took less for the handshake",
                &["look at the server first: it does not say what it took itself"],
                CALLS,
            ),
            Self::Unknown if stalls.unknown + stalls.unknown_there + stalls.unknown_timer == 0 => {
                told(
                    "unknown",
                    Severity::Note,
                    "this end held its last segment (Nagle) until the server acknowledged one of those before; whether the line carried \
                     those until then, or that cost time, nothing tells",
                    UP_TO_A_ROUND_TRIP,
                    &[ONE_WRITE, "to know: more --calls"],
                    NAGLE,
                )
            }
            Self::Unknown if stalls.unknown + stalls.unknown_there == 0 => told(
                "unknown",
                Severity::Note,
                "this end waited for the answer; whether a packet was lost, so that a retransmission timer was waited for, or the server or the \
                 path took the time, nothing tells",
                TIMER,
                &[ASK_MORE],
                LOSS,
            ),
            Self::Unknown if stalls.unknown == 0 => told(
                "unknown",
                Severity::Note,
                "this end delayed an ACK, and the rest of the reply came later; whether the server held it for that ACK (Nagle), or its \
                 program or the path took the time, nothing tells",
                DELAYED,
                &[
                    "to know: more --calls, or --fix quickack, which changes nothing unless it was held",
                ],
                NAGLE,
            ),
            Self::Unknown => told(
                "unknown",
                Severity::Note,
                "this end held its last segment (Nagle) until the server acknowledged the one before; whether the server delayed that ACK \
                 or the path took the time, nothing tells",
                DELAYED,
                &[
                    ONE_WRITE,
                    "to know: more --calls, or sizes from 32 bytes against a `quell serve` on a host that nobody else talks to, which says what it delayed",
                ],
                NAGLE,
            ),
            Self::Nagle => told(
                "nagle",
                Severity::Warning,
                match stalls.nagle_ms {
                    None => {
                        "this end held its last segment (Nagle) until the server acknowledged the one before"
                    }
                    Some(_) => {
                        "this end held its last segment (Nagle) until the server acknowledged one of those before"
                    }
                },
                match stalls.nagle_ms {
                    None => {
                        "that costs a round trip of each such call; an ACK at once does not mend it"
                    }
                    Some(_) => UP_TO_A_ROUND_TRIP,
                },
                &[ONE_WRITE],
                NAGLE,
            ),
        }
    }
}

/// What is told of `calls` calls of `size` bytes; none where nothing is wrong with them.
pub fn finding(
    size: u32,
    stalls: &Stalls,
    calls: u64,
    counted: Option<Counters>,
) -> Option<Finding> {
    let cause = stalls.cause()?;
    let told = cause.told(stalls);
    let mut says = told.says.to_owned();
    let mut changes = told.changes.to_vec();
    // What others of the stalled calls waited for, which may be the other end's.
    let also = stalls.causes().into_iter().filter(|(also, calls)| *also != cause && *calls > 0);
    for (also, calls) in also.filter(|_| stalls.is_stall(cause)) {
        let more = also.told(stalls);
        says += &format!("; in {calls} of them {}", more.says);
        changes.extend(more.changes.iter().filter(|change| !told.changes.contains(*change)));
    }
    if cause != Cause::Nagle && stalls.nagled > 0 {
        let more = Cause::Nagle.told(stalls);
        says += &format!("; in {} calls {}", stalls.nagled, more.says);
        changes.extend(
            more.changes
                .iter()
                .filter(|change| !changes.contains(*change))
                .copied()
                .collect::<Vec<_>>(),
        );
    }
    Some(Finding {
        id: told.name.to_owned(),
        subject: format!("calls of {size} bytes"),
        severity: told.severity,
        sure: true,
        says,
        evidence: evidence(stalls, cause, calls, counted),
        why: told.why.to_owned(),
        remedies: changes.into_iter().map(Remedy::advice).collect(),
        source: told.source.to_owned(),
    })
}

fn evidence(stalls: &Stalls, cause: Cause, calls: u64, counted: Option<Counters>) -> Vec<Evidence> {
    let mut seen = of_cause(stalls, cause, calls);
    if !stalls.is_stall(cause) && stalls.count > 0 {
        // What is told of parts of them below is of these, and not of what was said above.
        seen.extend(stalled(stalls, calls));
    }
    if let Some(rtt) = stalls.rtt_us {
        seen.push(Evidence::number("the least round trip", f64::from(rtt) / 1000.0, "ms", KERNEL));
    }
    let of_them = |name, count| Evidence::part(name, count, stalls.count, "calls", CALLS);
    if stalls.held > 0 {
        let how = match (stalls.delayed_there, stalls.nagle_ms) {
            (None, None) => ", and the ACK took longer than the rest of the call, call after call",
            _ => "",
        };
        seen.push(of_them("held here", stalls.held).in_words(format!(
            "in {} of them {} right after the last write{how}",
            stalls.held,
            unsent(stalls),
        )));
        let held = [
            ("unsent", stalls.held_bytes, "bytes"),
            ("unacknowledged", stalls.unacked, "segments"),
        ];
        seen.extend(held.map(|(name, value, unit)| {
            Evidence::amount(name, value.into(), unit, KERNEL).told_above()
        }));
        if let Some(delayed) = stalls.delayed_there {
            let words = format!("meanwhile its host delayed {delayed} ACKs");
            seen.push(Evidence::count("delayed ACKs", delayed, SERVER).in_words(words));
        }
    }
    if let Some(ms) = stalls.nagle_ms.filter(|_| stalls.held + stalls.nagled + stalls.unknown > 0) {
        let calls = stalls.nodelay_controls as u64;
        let words = format!("with TCP_NODELAY here {calls} more calls took {ms:.1} ms less");
        seen.push(Evidence::number("with TCP_NODELAY less", ms, "ms", CALLS).in_words(words));
        seen.push(Evidence::amount("with TCP_NODELAY", calls, "calls", CALLS).told_above());
    }
    if let Some(ms) = stalls.delay_ms.filter(|_| stalls.held > 0) {
        let calls = stalls.quickack_controls as u64;
        let words = format!("with TCP_QUICKACK at the server {calls} more took {ms:.1} ms less");
        seen.push(Evidence::number("with TCP_QUICKACK less", ms, "ms", CALLS).in_words(words));
        seen.push(Evidence::amount("with TCP_QUICKACK", calls, "calls", CALLS).told_above());
    }
    if stalls.held_there > 0 {
        let words = format!(
            "in {} of them the rest of the reply came a round trip after an ACK that this host had delayed, and sooner by that delay in {} \
             more calls in which it sent its ACKs at once",
            stalls.held_there, stalls.controls
        );
        seen.push(of_them("held there", stalls.held_there).in_words(words));
        let controls = stalls.controls as u64;
        seen.push(Evidence::amount("with ACKs at once", controls, "calls", CALLS).told_above());
    }
    for (name, count, what) in [
        ("sent again here", stalls.retransmitted, "this end sent segments again that were lost"),
        (
            "sent again there",
            stalls.retransmitted_there,
            "the server sent segments again that were lost",
        ),
        (
            "sent again somewhere",
            stalls.retransmitted_somewhere,
            "segments were sent again, and nothing tells which way they were lost",
        ),
    ] {
        if count > 0 {
            seen.push(of_them(name, count).in_words(format!("in {count} of them {what}")));
        }
    }
    if stalls.needless > 0 {
        let needless = stalls.needless;
        let apart = if stalls.count > 0 { ", none that stalled," } else { "" };
        let words =
            format!("in {needless} of {calls} calls{apart} segments were sent again needlessly");
        let needless = Evidence::part("sent again needlessly", needless, calls, "calls", CALLS);
        seen.push(needless.in_words(words));
    }
    if stalls.perhaps_needless > 0 {
        let again = stalls.perhaps_needless;
        let words = format!(
            "in {again} of {calls} calls segments were sent again, whether needed is unknown"
        );
        let again = Evidence::part("sent again, perhaps needlessly", again, calls, "calls", CALLS);
        seen.push(again.in_words(words));
    }
    let ways = [("to", stalls.path_doubles), ("from", stalls.path_doubles_there)];
    for (way, _) in ways.into_iter().filter(|(_, doubles)| *doubles) {
        let words = format!(
            "the path doubles packets {way} the server: more came twice than had been sent again"
        );
        let name = format!("doubled {way} the server");
        seen.push(Evidence::text(name, "yes", KERNEL).in_words(words));
    }
    if let Some(counted) = counted {
        let words = format!(
            "on this host DelayedACKs rose by {} and TCPTimeouts by {}",
            counted.delayed_acks, counted.timeouts
        );
        let delayed = Evidence::count("DelayedACKs", counted.delayed_acks, NETSTAT);
        seen.push(delayed.in_words(words));
        seen.push(Evidence::count("TCPTimeouts", counted.timeouts, NETSTAT).told_above());
    }
    if stalls.count > 0 {
        seen.push(Evidence::number("ato here", f64::from(stalls.ato_us) / 1000.0, "ms", KERNEL));
    }
    seen
}

/// What was held, behind what.
fn unsent(stalls: &Stalls) -> String {
    format!(
        "up to {} bytes were unsent behind {} unacknowledged segment{}",
        stalls.held_bytes,
        stalls.unacked,
        if stalls.unacked == 1 { "" } else { "s" },
    )
}

/// What shows the cause itself.
fn of_cause(stalls: &Stalls, cause: Cause, calls: u64) -> Vec<Evidence> {
    let part = |name, count| Evidence::part(name, count, calls, "calls", CALLS);
    let time = |name, ms, source| Evidence::number(name, ms, "ms", source);
    match cause {
        Cause::Early => vec![part("answered early", stalls.early).in_words(format!(
            "in {} of {calls} calls a part of the request was unacknowledged, or not even sent, when the reply was there",
            stalls.early
        ))],
        Cause::Server => {
            let (own, all) = stalls.by_server.unwrap_or_default();
            let told = format!("of which the server says that it took {own:.1} ms");
            vec![
                time("the median call took", all, CALLS)
                    .in_words(format!("the median call took {all:.1} ms")),
                time("of that the server", own, SERVER).in_words(told),
            ]
        }
        Cause::Slow => {
            let (fastest, handshake) = stalls.slow.unwrap_or_default();
            vec![
                time("the fastest call took", fastest, CALLS)
                    .in_words(format!("the fastest of {calls} calls took {fastest:.1} ms")),
                time("the handshake", handshake, CALLS)
                    .in_words(format!("the handshake {handshake:.3} ms")),
            ]
        }
        Cause::Unknown => {
            let acks = stalls.unknown + stalls.unknown_there;
            let timer = stalls.unknown_timer;
            let acks = (acks > 0).then(|| {
                let words = format!("{acks} of {calls} calls may have waited for a delayed ACK");
                part("perhaps a delayed ACK", acks).in_words(words)
            });
            let timer = (timer > 0).then(|| {
                part("perhaps a timer", timer).in_words(format!(
                    "in {timer} of {calls} calls segments were sent again, whether needed is unknown (where packets overtake each other, those \
                     that come too late are thrown away, too; where the path doubles packets, what comes twice was perhaps sent once; a host with tcp_dsack 0 does not say what it had), or the answer came later than the path has it by a retransmission timeout \
                     (200 ms) or more"
                ))
            });
            let cost = stalls.unknown_cost;
            let cost = (cost > 0).then(|| {
                let words = format!(
                    "in {cost} of {calls} calls {} right after the last write, and {} more calls with TCP_NODELAY leave open whether they are \
                     sooner",
                    unsent(stalls),
                    stalls.nodelay_controls
                );
                part("perhaps held at a cost", cost).in_words(words)
            });
            [acks, timer, cost].into_iter().flatten().collect()
        }
        Cause::Nagle => vec![
            part("held here", stalls.nagled).in_words(format!(
                "in {} of {calls} calls {} right after the last write, and nothing tells of a delayed ACK",
                stalls.nagled,
                unsent(stalls)
            )),
            Evidence::amount("unsent", stalls.held_bytes.into(), "bytes", KERNEL).told_above(),
        ],
        _ => stalled(stalls, calls).into(),
    }
}

/// How many stalled, and how long they took.
fn stalled(stalls: &Stalls, calls: u64) -> [Evidence; 2] {
    let Stalls { count, median_ms, .. } = *stalls;
    let words = format!("{count} of {calls} calls stalled and took {median_ms:.1} ms");
    [
        Evidence::part("stalled", count, calls, "calls", CALLS).in_words(words),
        Evidence::number("took", median_ms, "ms", CALLS).told_above(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of 20 calls, in one line.
    fn told(stalls: &Stalls) -> String {
        let found = finding(64, stalls, 20, None).expect("something is wrong");
        quell_finding::lines(&found, 10_000).join(" ")
    }

    #[test]
    fn counts_of_calls_say_of_which_calls_they_are() {
        let of = |count, retransmitted| Stalls {
            count,
            retransmitted,
            needless: 9,
            ..Stalls::default()
        };
        let needless = "segments were sent again needlessly";
        let said = told(&of(4, 4));
        assert!(said.contains("4 of 20 calls stalled"), "{said}");
        assert!(said.contains("in 4 of them this end sent segments again"), "{said}");
        assert!(
            said.contains(&format!("in 9 of 20 calls, none that stalled, {needless}")),
            "{said}"
        );
        // Among those that were answered early may be any of the others.
        let said = told(&Stalls { early: 20, ..of(0, 0) });
        assert!(said.contains("in 20 of 20 calls a part of the request"), "{said}");
        assert!(said.contains(&format!("in 9 of 20 calls {needless}")), "{said}");
        let said = told(&Stalls { early: 20, ..of(4, 4) });
        let (before, after) = said.split_once("in 4 of them").expect("they are told");
        assert!(
            before.contains("4 of 20 calls stalled") && after.contains("none that stalled"),
            "{said}"
        );
    }
}
