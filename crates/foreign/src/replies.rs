//! Replies that `ping` told of, as packets: what is missing between two numbers was lost, and up to the last packet sent.

use crate::error::ForeignError;
use crate::order;
use quell_model::{EchoSample, EchoStatus};

/// Numbers of packets in ICMP have 16 bits.
const WRAP: u64 = 1 << 16;

/// What is told of one packet: a reply, an error, or that none came yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PingReply {
    /// As `ping` counts.
    pub seq: u64,
    pub ttl: Option<u64>,
    pub rtt_ms: Option<f64>,
    pub status: EchoStatus,
    /// When it was printed, in seconds since 1970.
    pub printed_s: Option<f64>,
}

impl PingReply {
    pub fn answered(seq: u64, rtt_ms: f64) -> Self {
        let (rtt_ms, status) = (Some(rtt_ms), EchoStatus::Ok);
        Self { seq, ttl: None, rtt_ms, status, printed_s: None }
    }
}

/// What is told of the packets beside the replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PacketCounts {
    /// At least as many were sent.
    pub sent: u64,
    /// So many had an answer, listed or not.
    pub received: Option<u64>,
    /// What comes first is not the beginning.
    pub is_excerpt: bool,
}

/// All packets in order of their numbers, further replies after the first.
pub(crate) fn packets(
    replies: &[PingReply],
    counts: &PacketCounts,
    step_ns: i64,
    left: &mut usize,
) -> Result<Vec<EchoSample>, ForeignError> {
    let numbers = numbers(replies, counts);
    let all = counts.sent.max(numbers.iter().max().map_or(0, |n| n + 1));
    let rows = usize::try_from(all).unwrap_or(usize::MAX).saturating_add(replies.len());
    *left = left.checked_sub(rows).ok_or(ForeignError::TooMany)?;
    let mut replies: Vec<(u64, &PingReply)> = numbers.into_iter().zip(replies).collect();
    // Stable: of several replies to one packet, the one that ping printed first is its answer, whatever was said of it before.
    replies.sort_by_key(|(seq, reply)| (*seq, !reply.status.is_answered()));
    let printed = replies.iter().filter_map(|(_, reply)| sent_s(reply)).reduce(f64::min);
    // Answers that are counted and not listed: which they are is unknown, those that come first stand for them.
    let listed = replies.iter().filter(|(_, reply)| reply.status.is_answered());
    let mut listed: Vec<u64> = listed.map(|(seq, _)| *seq).collect();
    listed.dedup();
    let mut unlisted = counts.received.unwrap_or(0).saturating_sub(listed.len() as u64);
    let mut replies = replies.into_iter().peekable();
    let mut packets = Vec::new();
    let mut t_ns = -step_ns;
    for seq in 0..all {
        t_ns = t_ns.saturating_add(step_ns);
        let mut is_first = true;
        while let Some((_, reply)) = replies.next_if(|(number, _)| *number == seq) {
            if let Some((sent, first)) = sent_s(reply).zip(printed).filter(|_| is_first) {
                t_ns = crate::imported::from_s(sent - first).unwrap_or(t_ns);
            }
            let rtt_ns = reply.rtt_ms.map(|ms| (ms * 1e6).round() as u64);
            let status = match (is_first, reply.status.is_answered()) {
                (true, _) => reply.status,
                (false, true) => EchoStatus::Duplicate,
                (false, false) => continue,
            };
            packets.push(EchoSample { rtt_ns, ..EchoSample::new(t_ns, seq, 0, status) });
            is_first = false;
        }
        if is_first {
            let status = if unlisted > 0 { EchoStatus::Ok } else { EchoStatus::Lost };
            unlisted = unlisted.saturating_sub(1);
            packets.push(EchoSample::new(t_ns, seq, 0, status));
        }
    }
    order::arrivals(&mut packets);
    Ok(packets)
}

/// When it was sent: its round trip before it was printed.
fn sent_s(reply: &PingReply) -> Option<f64> {
    Some(reply.printed_s? - reply.rtt_ms? / 1e3)
}

/// Numbers of the replies from 0. `ping` counts from 1, and from 0 in BusyBox, BSD and old versions; a number beyond 16 bits begins anew. Where the
/// lines show that and no summary counts that far, the head may be cut off: numbers then begin with the first that is listed.
fn numbers(replies: &[PingReply], counts: &PacketCounts) -> Vec<u64> {
    // Replies may overtake each other, but not by half of all numbers.
    let is_anew = |seq: u64, last: u64| last < WRAP && seq + WRAP / 2 < last;
    let is_crossed = replies.windows(2).any(|two| is_anew(two[1].seq, two[0].seq));
    let wraps = counts.sent >= WRAP || is_crossed;
    let (mut begun, mut last) = (0, 0);
    let number = |seq: u64| {
        if wraps && seq < WRAP {
            if is_anew(seq, last) {
                begun += WRAP;
            }
            last = seq;
        }
        begun + seq
    };
    let numbers: Vec<u64> = replies.iter().map(|r| r.seq).map(number).collect();
    let first = match counts.is_excerpt || is_crossed && counts.sent < WRAP {
        true => numbers.iter().min().copied().unwrap_or(0),
        false => u64::from(!numbers.contains(&0)),
    };
    numbers.into_iter().map(|number| number.saturating_sub(first)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(replies: &[(u64, f64)], sent: u64) -> String {
        let replies = replies.iter().map(|(seq, rtt_ms)| PingReply::answered(*seq, *rtt_ms));
        let counts = PacketCounts { sent, ..PacketCounts::default() };
        let replies: Vec<_> = replies.collect();
        let packets = packets(&replies, &counts, 1, &mut { 1 << 20 }).expect("they fit");
        let one = |p: &EchoSample| match p.rtt_ns {
            Some(ns) => format!("{}:{} {}", p.seq, ns / 1_000_000, p.status.name()),
            None => format!("{}:lost", p.seq),
        };
        packets.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn missing_numbers_are_lost_up_to_the_last_packet_sent() {
        let replies = [(2, 20.0), (1, 21.0), (4, 22.0), (4, 30.0)];
        let wanted = "0:21 ok, 1:20 ok, 2:lost, 3:22 ok, 3:30 duplicate, 4:lost, 5:lost";
        assert_eq!(told(&replies, 6), wanted);
        assert_eq!(told(&[(0, 1.0), (2, 3.0)], 3), "0:1 ok, 1:lost, 2:3 ok", "of an old ping");
    }

    #[test]
    fn without_head_and_summary_the_lines_show_where_numbers_begin_anew() {
        let replies = [65_534, 65_535, 0, 1].map(|seq| (seq, 5.0));
        assert_eq!(told(&replies, 0), "0:5 ok, 1:5 ok, 2:5 ok, 3:5 ok");
    }

    #[test]
    fn numbers_that_begin_anew_go_on() {
        let replies: Vec<(u64, f64)> =
            (1..=70_000_u64).filter(|n| n % 1000 != 0).map(|n| (n % WRAP, 1.0)).collect();
        let told = told(&replies, 70_000);
        let lost: Vec<u64> =
            told.split(", ").filter_map(|p| p.strip_suffix(":lost")?.parse().ok()).collect();
        assert_eq!(lost, (1..=70).map(|n| n * 1000 - 1).collect::<Vec<_>>());
    }
}
