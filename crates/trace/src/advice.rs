//! Marks in words: what happened, what shows it, who waited for what, and what to change: a finding each.

use crate::remark::{Cause, Held, Need, Remark, Side};
use quell_finding::{Evidence, Finding, Remedy, Severity};
use quell_units::Span;

/// Where all figures come from.
pub(crate) const CAPTURE: &str = "the capture";

/// What a mark means for what `own` sent to `other`.
pub(crate) fn finding(mark: &Remark, own: &str, other: &str) -> Finding {
    let (severity, why, source) = matters(mark);
    let mut packets = mark.packets.iter().flatten();
    let first = packets.next().copied().unwrap_or_default();
    let packet = |number| Evidence::count("packet", number, CAPTURE);
    let mut seen = vec![packet(first).in_words(evidence(mark))];
    seen.extend(packets.map(|number| packet(*number).told_above()));
    if let Some(waited) = mark.waited {
        let ms = waited.nanos() as f64 / 1e6;
        seen.push(Evidence::number("waited", ms, "ms", CAPTURE).told_above());
    }
    Finding {
        id: mark.cause.name().to_owned(),
        subject: format!("{own} to {other}"),
        severity,
        sure: true,
        says: who(mark, own, other),
        evidence: seen,
        why: why.to_owned(),
        remedies: changes(mark, own, other).into_iter().map(Remedy::advice).collect(),
        source: source.to_owned(),
    }
}

/// How much a mark matters, why, and who says so.
fn matters(mark: &Remark) -> (Severity, &'static str, &'static str) {
    use Severity::{Note, Serious, Warning};
    const NAGLE: &str = "RFC 1122, section 4.2.3.4";
    match mark.cause {
        Cause::DelayedAck => (
            Serious,
            "a delayed ACK comes 40 ms later on Linux, and up to half a second elsewhere",
            "RFC 1122, sections 4.2.3.2 and 4.2.3.4",
        ),
        Cause::Nagle if mark.held.is_some_and(|held| held.perhaps_delayed) => (
            Warning,
            "that costs a round trip each time, and the delay of an ACK where the other end delays it: 40 ms on Linux. A capture there tells",
            "RFC 1122, sections 4.2.3.2 and 4.2.3.4",
        ),
        Cause::Nagle => (Warning, "that costs a round trip each time", NAGLE),
        Cause::PerhapsNagle => (
            Note,
            "Nagle's rule costs time where the line was idle until that ACK came; a window that was full would look the same",
            NAGLE,
        ),
        Cause::SynAnsweredAgain => (
            Note,
            "a SYN that comes twice is answered twice: of a loss it tells nothing",
            "RFC 9293, section 3.10.7.4",
        ),
        Cause::SynRetransmit if mark.side == Side::Client && mark.need.first_arrived() => (
            Note,
            "the connection opened when an answer came, and a SYN more did not make that sooner unless an answer was lost",
            "RFC 6298, section 5; RFC 7323, section 4.3",
        ),
        Cause::SynRetransmit if mark.waited.is_none() => (
            Note,
            "its timer lasts a second at first, and the path takes longer",
            "RFC 6298, section 5",
        ),
        Cause::SynRetransmit => (
            Warning,
            "each such attempt waits a second, then three, then seven",
            "RFC 6298, section 5",
        ),
        _ if mark.need.is_needless() => (
            Note,
            "it took room on the path a second time, and slows the sender down",
            "RFC 2883; RFC 3522",
        ),
        Cause::Timeout => (
            Warning,
            "nothing moves until the timer runs out, 200 ms at least on Linux, and then the sender begins with a small window",
            "RFC 6298",
        ),
        Cause::TimeoutOrProbe => (
            Warning,
            "nothing moves until a timer runs out, 200 ms at least on Linux: of a lone segment a capture does not tell the \
             retransmission timer, behind which the sender begins with a small window, from a tail loss probe, behind which it does not",
            "RFC 6298; RFC 8985, section 7.2",
        ),
        Cause::LateAck => (
            Note,
            "a sender whose window is full waits for it; Linux acknowledges what comes later where the program has not read what came before",
            "Linux, `__tcp_ack_snd_check`; RFC 9293, section 3.8.6.3",
        ),
        Cause::ZeroWindow => (
            Warning,
            "the sender may send nothing until that program has read",
            "RFC 9293, section 3.8.6",
        ),
        Cause::FullWindow => {
            (Warning, "no more than one window arrives each round trip", "RFC 9293, section 3.8.6")
        }
        Cause::Refused => {
            (Warning, "nothing listens there, or a filter says so", "RFC 9293, section 3.10.7.1")
        }
        Cause::FastRetransmit => {
            (Note, "a loss halves the rate of a classic sender", "RFC 5681, section 3.2; RFC 6675")
        }
        Cause::TailProbe => (Note, "the end of what was sent came late", "RFC 8985, section 7"),
        Cause::AfterTimeout => {
            (Note, "a timeout has all of the window sent again", "RFC 6298, section 5")
        }
        Cause::Retransmission => {
            (Note, "it took room on the path a second time", "RFC 9293, section 3.8.1")
        }
        Cause::OutOfOrder => (Note, "a sender may take it for loss", "RFC 4737"),
        Cause::PerhapsOutOfOrder => (
            Note,
            "packets that were too big are sent again in smaller ones as soon as a router says so, sooner than any answer",
            "RFC 1191; RFC 8201",
        ),
        Cause::Reset => (Note, "what was under way is thrown away", "RFC 9293, section 3.5.2"),
    }
}

/// A span with three digits, as people say it: "19.6 ms".
pub(crate) fn spoken(span: Span) -> String {
    let nanos = span.nanos() as f64;
    let (value, unit) = match span.nanos() {
        0..1_000 => return format!("{} ns", span.nanos()),
        1_000..999_500 => (nanos / 1e3, "µs"),
        999_500..999_500_000 => (nanos / 1e6, "ms"),
        // From here on, a capture is more likely to lie than to last.
        999_500_000..10_000_000_000_000 => (nanos / 1e9, "s"),
        10_000_000_000_000..1_000_000_000_000_000 => (nanos / 3.6e12, "h"),
        _ => (nanos / 8.64e13, "d"),
    };
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

fn waited(mark: &Remark) -> String {
    spoken(mark.waited.unwrap_or_default())
}

/// What happened, in a few words.
pub(crate) fn text(mark: &Remark) -> String {
    let length = mark.length;
    let needless = match mark.need {
        Need::Needed => "",
        Need::OneOfSeveral => ", perhaps needlessly",
        Need::Needless | Need::FirstArrived | Need::FirstAnswered => ", needlessly",
    };
    let after = |mark: &Remark| match mark.waited {
        Some(waited) => format!(" after {}", spoken(waited)),
        None => String::new(),
    };
    match mark.cause {
        Cause::DelayedAck => {
            format!("stall, {}, delayed ACK after a {length}-byte segment", waited(mark))
        }
        Cause::Nagle => {
            format!("wait, {}, Nagle, for the ACK of a {length}-byte segment", waited(mark))
        }
        Cause::PerhapsNagle => format!(
            "perhaps a wait, {}, Nagle, for the ACK of a {length}-byte segment before others",
            waited(mark)
        ),
        Cause::Timeout => {
            format!(
                "stall, {}, retransmission timeout of {}{needless}",
                waited(mark),
                bytes(length)
            )
        }
        Cause::TimeoutOrProbe => format!(
            "stall, {}, a timeout or a tail loss probe of {}{needless}",
            waited(mark),
            bytes(length)
        ),
        Cause::LateAck => {
            format!("{} from the last of {} to their ACK", waited(mark), bytes(length))
        }
        Cause::ZeroWindow if mark.open => {
            format!("stall, {}, zero window, to the end", waited(mark))
        }
        Cause::ZeroWindow => format!("stall, {}, zero window", waited(mark)),
        Cause::FullWindow => {
            let window = match mark.windows {
                Some([least, most]) if least < most => format!("{least} to {}", bytes(most)),
                _ => bytes(length),
            };
            format!("held up for {} by a full window of {window}", waited(mark))
        }
        Cause::FastRetransmit => {
            format!("fast retransmission of {}{}{needless}", bytes(length), after(mark))
        }
        Cause::TailProbe => {
            format!("last segment sent again, {}{}{needless}", bytes(length), after(mark))
        }
        Cause::AfterTimeout => {
            format!("sent again in the wake of a timeout, {}{needless}", bytes(length))
        }
        Cause::Retransmission => format!("sent again, {}{}{needless}", bytes(length), after(mark)),
        Cause::SynRetransmit => match (mark.side, mark.need.first_arrived()) {
            (Side::Client, false) => format!("stall, {}, SYN sent again", waited(mark)),
            (Side::Client, true) => {
                format!("SYN sent again after {}, though one had arrived", waited(mark))
            }
            (Side::Server, _) if mark.waited.is_none() => "SYN-ACK sent again, needlessly".into(),
            (Side::Server, _) => format!("stall, {}, SYN-ACK sent again", waited(mark)),
        },
        Cause::SynAnsweredAgain => "SYN-ACK sent again behind a second SYN".into(),
        Cause::OutOfOrder => format!("out of order, {}", bytes(length)),
        Cause::PerhapsOutOfOrder => {
            format!("out of order, or sent again in pieces, {}", bytes(length))
        }
        Cause::Reset => "reset".into(),
        Cause::Refused => "refused".into(),
    }
}

fn bytes(length: u32) -> String {
    match length {
        0 => "FIN".into(),
        1 => "1 byte".into(),
        _ => format!("{length} bytes"),
    }
}

/// What shows it: packets as tcpdump counts them.
fn evidence(mark: &Remark) -> String {
    let [first, second, third] =
        mark.packets.map(|p| p.map_or("(not captured)".into(), |p| p.to_string()));
    match (mark.cause, mark.held) {
        (Cause::PerhapsNagle, Some(held)) => format!(
            "packet {first} carried {} bytes; packet {second} acknowledged it {} later, but not all that was under way; packet {third} followed {} \
             after that with {}",
            mark.length,
            waited(mark),
            spoken(held.after),
            what_was_held(&held)
        ),
        (Cause::DelayedAck | Cause::Nagle, Some(held)) => {
            let length = mark.length;
            let path = match held.path {
                Some(path) if held.perhaps_delayed => format!(
                    "the path takes {} at least; whether that ACK was delayed, or the path held it or its segment up, the packets do not tell",
                    spoken(path)
                ),
                Some(path) => format!("the path takes {}", spoken(path)),
                None => "what the path takes is not known".into(),
            };
            format!(
                "packet {first} carried {length} bytes; packet {second} acknowledged it alone {} later ({path}); \
                 packet {third} followed {} after that with {}",
                waited(mark),
                spoken(held.after),
                what_was_held(&held)
            )
        }
        (Cause::LateAck, _) => {
            format!("packet {first} acknowledged all that had passed, here next to who sent it")
        }
        (Cause::ZeroWindow, _) => {
            let probe = match mark.packets[2] {
                Some(probe) => format!(", packet {probe} asked"),
                None => String::new(),
            };
            match mark.packets[1] {
                Some(_) => {
                    format!("packet {first} closed the window{probe}, packet {second} opened it")
                }
                None => format!("packet {first} closed the window{probe}, and nothing opened it"),
            }
        }
        (Cause::FullWindow, _) => {
            let busy = mark.busy.unwrap_or_default();
            let share = mark.waited.unwrap_or_default().nanos() * 100 / busy.nanos().max(1);
            format!(
                "packet {first} filled it first; it was full for {share} % of the {} in which data was under way",
                spoken(busy)
            )
        }
        (Cause::OutOfOrder, _) if mark.packets[1].is_some() => {
            format!(
                "packet {first} was sent before packet {second}, which carries the same and came first"
            )
        }
        (Cause::OutOfOrder, _) => format!("packet {first} fills a gap that later data had left"),
        (Cause::PerhapsOutOfOrder, _) => format!(
            "packet {first} fills a gap that later data had left, sooner than an answer can have come and gone; neither a timestamp nor an \
             identification tells when it was sent"
        ),
        (Cause::Reset | Cause::Refused, _) => format!("packet {first}"),
        _ if mark.packets[0].is_none() => {
            let first = match (mark.is_missing, mark.need) {
                (true, Need::Needed) => {
                    "fills a gap; what was sent first is not in the capture, lost before it"
                }
                (true, Need::OneOfSeveral | Need::Needless) => {
                    "fills a gap; what was sent first is not in the capture, perhaps lost before it"
                }
                (true, Need::FirstArrived | Need::FirstAnswered) => {
                    "fills a gap; what was sent first is not in the capture, and arrived all the same"
                }
                (false, _) => "carries what had passed before, too long ago to say in which packet",
            };
            format!("packet {second} {first}")
        }
        (Cause::SynAnsweredAgain, _) => {
            format!(
                "packet {first}, and again packet {second}; the last SYN before it is packet {third}"
            )
        }
        (Cause::SynRetransmit, _) if mark.packets[2].is_some() => {
            format!("packet {first}, and again packet {second}; packet {third} had answered before")
        }
        _ if mark.packets[0] > mark.packets[1] && mark.packets[1].is_some() => {
            format!(
                "packet {second} came before packet {first}, which was sent first: that was late"
            )
        }
        _ if mark.need == Need::OneOfSeveral => {
            format!("packet {first}, and again packet {second}; this or another of it came twice")
        }
        _ => format!("packet {first}, and again packet {second}"),
    }
}

fn what_was_held(held: &Held) -> String {
    match (held.bytes, held.fin) {
        (0, _) => "FIN".into(),
        (length, true) => format!("{} and FIN", bytes(length)),
        (length, false) => bytes(length),
    }
}

/// Who waited, and for what.
fn who(mark: &Remark, own: &str, other: &str) -> String {
    match mark.cause {
        Cause::DelayedAck if mark.held.is_some_and(|held| !held.small) => {
            format!("{own} had its window full and waited for the ACK of {other}, which delayed it")
        }
        Cause::DelayedAck => format!(
            "{own} held a small segment (Nagle) and waited for the ACK of {other}, which delayed it"
        ),
        Cause::Nagle if mark.held.is_some_and(|held| held.perhaps_delayed) => format!(
            "{own} held a small segment (Nagle) until {other} acknowledged the one before; that ACK was late by {other} or by the path: \
             unknown which"
        ),
        Cause::Nagle => {
            format!("{own} held a small segment (Nagle) until {other} acknowledged the one before")
        }
        Cause::PerhapsNagle => format!(
            "{own} sent a small segment right when {other} acknowledged an earlier one, with more under way: it may have held it until then (Nagle)"
        ),
        Cause::SynRetransmit => match (mark.side, mark.need) {
            (Side::Client, Need::FirstAnswered) => {
                format!("{own} sent its SYN again, though the answer of {other} had passed here")
            }
            (Side::Client, need) if need.first_arrived() => format!(
                "{own} sent its SYN again, though {other} answered one that was sent before, as its timestamp says"
            ),
            (Side::Server, Need::FirstAnswered) => format!(
                "{own} sent its answer again before the ACK of {other}, which had passed here, can have come"
            ),
            (Side::Server, need) if need.first_arrived() => {
                format!("{own} sent its answer again, though the ACK of {other} had passed here")
            }
            _ => format!("{own} heard nothing from {other} until its timer ran out"),
        },
        Cause::SynAnsweredAgain => format!(
            "{own} answered the SYN of {other} again, of which more than one had passed here: each is answered, or its timer ran out; \
             which, nothing tells"
        ),
        Cause::Timeout => format!("{own} heard nothing from {other} until its timer ran out"),
        Cause::TimeoutOrProbe => {
            format!("{own} heard nothing from {other} until a timer of its last segment ran out")
        }
        Cause::LateAck => {
            format!("{other} acknowledged what {own} had sent long after it had come")
        }
        Cause::ZeroWindow => format!("{own} waited for the program at {other} to read"),
        Cause::FullWindow => {
            format!("{own} had sent all that {other}'s window lets it, and waited for ACKs")
        }
        Cause::FastRetransmit => format!("{other} told {own} of a gap"),
        Cause::TailProbe => format!("{own} had no ACK of its last segment from {other}"),
        Cause::AfterTimeout | Cause::Retransmission => format!("{own} sent it to {other} again"),
        Cause::OutOfOrder => format!("the path from {own} to {other} swapped packets"),
        Cause::PerhapsOutOfOrder => format!(
            "the path from {own} to {other} swapped packets, or dropped some that were too big, which came again in pieces"
        ),
        Cause::Refused => format!("{own} did not let {other} in"),
        Cause::Reset => format!("{own} broke the connection to {other} off"),
    }
}

/// What to change, the best first; nothing where nobody knows.
fn changes(mark: &Remark, own: &str, other: &str) -> Vec<String> {
    let quick = format!(
        "at {other}: TCP_QUICKACK set again after each receive, or `ip route change … quickack 1`"
    );
    let at_once = format!("at {own}: TCP_NODELAY, or one write instead of several");
    let one = match mark.cause {
        Cause::DelayedAck if mark.held.is_some_and(|held| !held.small) => quick,
        Cause::DelayedAck => return vec![at_once, quick],
        Cause::Nagle | Cause::PerhapsNagle => at_once,
        Cause::Timeout
        | Cause::TimeoutOrProbe
        | Cause::TailProbe
        | Cause::AfterTimeout
        | Cause::FastRetransmit
            if mark.need.is_needless() =>
        {
            match mark.need {
                Need::FirstAnswered => format!(
                    "what was sent first was answered, late: look for delay that varies between {own} and {other}, or for ACKs \
                     that are lost on the path from {other} to {own}"
                ),
                Need::FirstArrived => format!(
                    "what was sent first arrived: look for ACKs that are lost on the path from {other} to {own}, or for \
                     delay that varies"
                ),
                _ => format!(
                    "of what was sent before, one arrived: look for loss, and delay that varies, on the path from {own} to \
                     {other} and back"
                ),
            }
        }
        Cause::Timeout | Cause::TimeoutOrProbe => {
            format!("find where packets from {own} to {other} (or their ACKs) are lost")
        }
        Cause::SynRetransmit => match (mark.side, mark.need.first_arrived()) {
            (Side::Client, true) => format!(
                "look for answers that are lost, or late by a second and more, on the path from {other} to {own}"
            ),
            (Side::Client, false) => format!(
                "see whether the SYN arrives at {other} (a capture there): if not, it is lost on the path, or a filter drops it; if so, its \
                 answer is lost, or its queue of new connections is full (ListenDrops)"
            ),
            (Side::Server, true) if mark.waited.is_none() => return Vec::new(),
            (Side::Server, true) => format!(
                "see whether that ACK arrives at {own} (a capture there): if not, it is lost on the path; if so, the queue of connections \
                 that its program has not accepted is full (ListenOverflows)"
            ),
            (Side::Server, false) => format!(
                "find where answers from {own} to {other}, or ACKs on the way back, are lost"
            ),
        },
        Cause::LateAck => {
            format!(
                "at {other}: see whether the program reads what came, and whether it is given the CPU"
            )
        }
        Cause::ZeroWindow => {
            format!(
                "at {other}: let the program read sooner; a larger receive buffer only for bursts"
            )
        }
        Cause::FullWindow => {
            return vec![
                format!("at {other}: no SO_RCVBUF in the program, or a larger one"),
                "a larger third figure of net.ipv4.tcp_rmem there (quell tune computes it)".into(),
            ];
        }
        Cause::OutOfOrder => {
            "look for links used in parallel (LAG, ECMP) that spread one connection".into()
        }
        _ => return Vec::new(),
    };
    vec![one]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_said_with_three_digits() {
        let said = |nanos| spoken(Span::from_nanos(nanos));
        assert_eq!(said(0), "0 ns");
        assert_eq!(said(19_551_000), "19.6 ms");
        assert_eq!(said(9_996), "10.0 µs");
        assert_eq!(said(999_499), "999 µs");
        assert_eq!(said(999_500), "1.00 ms");
        assert_eq!(said(1_500_000_000), "1.50 s");
        assert_eq!(said(120_000_000_000), "120 s");
        assert_eq!(said(36_000_000_000_000), "10.0 h");
        assert!(said(u64::MAX).len() <= 8, "{}", said(u64::MAX));
    }
}
