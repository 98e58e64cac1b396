//! What is told of pings, for programs: one document at the end, or an object a line while it goes on.

use crate::{Method, PingSession, Tally, Target};
use quell_grade::Assessment;
use quell_model::EchoSample;
use quell_report::analysis::{Clocks, LATE_NS};
use quell_stats::Summary;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

#[derive(Debug, Serialize)]
pub struct PingReport {
    /// `end`, where lines came before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<&'static str>,
    pub method: Method,
    pub interval_ms: f64,
    pub run: Option<String>,
    pub streams: Vec<StreamFigures>,
}

#[derive(Debug, Serialize)]
pub struct PingStart {
    event: &'static str,
    method: Method,
    interval_ms: f64,
    streams: Vec<StreamAddress>,
}

#[derive(Debug, Serialize)]
pub struct StreamAddress {
    pub stream: String,
    pub host: String,
    pub address: IpAddr,
    pub tos: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
}

impl PingSession {
    /// The port of a stream; none for ICMP.
    pub fn port_of(&self, target: &Target) -> Option<u16> {
        (self.method != Method::Icmp).then(|| target.to.port())
    }

    /// The payload of a stream; none of a handshake.
    pub fn bytes_of(&self, target: &Target) -> Option<u32> {
        (self.method != Method::Tcp).then_some(target.size)
    }

    fn address_of(&self, target: &Target) -> StreamAddress {
        StreamAddress {
            stream: target.name.clone(),
            host: target.host.clone(),
            address: target.to.ip(),
            tos: target.tos.byte(),
            port: self.port_of(target),
            bytes: self.bytes_of(target),
        }
    }
}

/// A line for a packet. Times in nanoseconds; what is not known is left out. One-way times are raw, as the two clocks tell them.
#[derive(Debug, Serialize)]
pub struct PacketLine<'a> {
    event: &'static str,
    stream: &'a str,
    seq: u64,
    t_ns: i64,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    up_raw_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    down_raw_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen_late_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_late_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queued_ns: Option<u64>,
}

impl<'a> PacketLine<'a> {
    pub fn of(stream: &'a str, sample: &EchoSample) -> Self {
        Self {
            event: "packet",
            stream,
            seq: sample.seq,
            t_ns: sample.t_ns,
            status: sample.status.name(),
            rtt_ns: sample.rtt_ns,
            up_raw_ns: sample.up_ns,
            down_raw_ns: sample.down_ns,
            seen_late_ns: sample.seen_late_ns,
            sent_late_ns: sample.sent_late_ns,
            queued_ns: sample.queued_ns,
        }
    }
}

impl PingStart {
    pub fn of(session: &PingSession) -> Self {
        Self {
            event: "start",
            method: session.method,
            interval_ms: session.interval.nanos() as f64 / 1e6,
            streams: session.targets.iter().map(|target| session.address_of(target)).collect(),
        }
    }
}

impl PingReport {
    pub fn of(session: &PingSession, tallies: &[Tally], run: Option<String>) -> Self {
        let streams = session.targets.iter().zip(tallies);
        Self {
            event: None,
            method: session.method,
            interval_ms: session.interval.nanos() as f64 / 1e6,
            run,
            streams: streams
                .map(|(target, tally)| StreamFigures::of(session.address_of(target), tally))
                .collect(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct StreamFigures {
    #[serde(flatten)]
    pub at: StreamAddress,
    pub sent: u64,
    pub received: u64,
    pub received_late: u64,
    pub lost: u64,
    pub lost_up_at_least: u64,
    pub lost_down_at_least: u64,
    pub errors: u64,
    pub duplicates: u64,
    pub reordered: u64,
    pub unfinished: u64,
    pub unsure: u64,
    pub left_unanswered_at_most: u64,
    pub not_sent: u64,
    pub answers_without_number: u64,
    pub lost_up: Option<u64>,
    pub lost_down: Option<u64>,
    pub errors_by_kind: BTreeMap<String, u64>,
    pub clock: Option<String>,
    pub loss_ratio: Option<f64>,
    pub loss_at_least: Option<f64>,
    pub loss_at_most: Option<f64>,
    pub rtt_ms: Option<DelayFigures>,
    pub rtt_at_least_ms: Option<DelayFigures>,
    pub rtt_at_most_ms: Option<DelayFigures>,
    pub up_ms: Option<DelayFigures>,
    pub down_ms: Option<DelayFigures>,
    pub clock_offset: Option<ClockFigures>,
    pub jitter_ms: Option<f64>,
    pub jitter_rtt_ms: Option<f64>,
    pub jitter_up_ms: Option<f64>,
    pub jitter_down_ms: Option<f64>,
    pub jitter_of: &'static str,
    pub answered_after_retry: Option<RetryFigures>,
    pub queued_ms: Option<DelayFigures>,
    pub left_late: SentLate,
    pub seen_late: SeenLate,
    /// How well a call, a game and a page work beside what the line carries; none of too few answers.
    pub grade: Option<Assessment>,
}

#[derive(Debug, Serialize)]
pub struct ClockFigures {
    pub offset_ms: f64,
    pub bound_ms: f64,
    pub drift_ppm: f64,
}

#[derive(Debug, Serialize)]
pub struct RetryFigures {
    pub connects: u64,
    pub min_ms: Option<f64>,
    pub max_ms: Option<f64>,
    pub unsure: u64,
}

#[derive(Debug, Serialize)]
pub struct SentLate {
    pub packets: u64,
    pub more_than_ms: f64,
    pub max_ms: f64,
}

/// Replies that this program saw long after the kernel had them.
#[derive(Debug, Serialize)]
pub struct SeenLate {
    pub replies: u64,
    pub more_than_ms: f64,
    pub of: u64,
    pub max_ms: Option<f64>,
}

impl StreamFigures {
    fn of(at: StreamAddress, tally: &Tally) -> Self {
        let found = tally.fold.result();
        let counts = found.counts;
        let ways = counts.lost_ways();
        let least = found.rtt_ms.map(DelayFigures::of);
        let most = found.rtt_at_most_ms.map(DelayFigures::of);
        Self {
            at,
            sent: counts.sent,
            received: counts.received,
            received_late: counts.received_late,
            lost: counts.lost,
            lost_up_at_least: counts.lost_up,
            lost_down_at_least: counts.lost_down,
            errors: counts.errors,
            duplicates: counts.duplicates,
            reordered: found.reordered,
            unfinished: counts.unfinished,
            unsure: counts.unsure,
            left_unanswered_at_most: counts.unanswered,
            not_sent: counts.not_sent,
            answers_without_number: tally.numbered.gaps(),
            lost_up: ways.map(|(up, _)| up),
            lost_down: ways.map(|(_, down)| down),
            errors_by_kind: tally.kinds.iter().cloned().collect(),
            clock: tally.clock.clone(),
            loss_ratio: counts.loss_ratio(),
            loss_at_least: counts.loss_range().map(|(least, _)| least),
            loss_at_most: counts.loss_range().map(|(_, most)| most),
            rtt_ms: least.map(|least| most.map_or(least, |most| least.known_with(&most))),
            rtt_at_least_ms: least,
            rtt_at_most_ms: most.or(least),
            up_ms: found.up_ms.map(DelayFigures::of),
            down_ms: found.down_ms.map(DelayFigures::of),
            clock_offset: match &found.clocks {
                Clocks::Same | Clocks::Unsteady => None,
                Clocks::Apart { offset, .. } => Some(ClockFigures {
                    offset_ms: offset.middle_ns() as f64 / 1e6,
                    bound_ms: offset.bound_ns / 1e6,
                    drift_ppm: offset.drift_ppm(),
                }),
            },
            jitter_ms: found.jitter_ms(),
            jitter_rtt_ms: found.jitter_rtt_ms,
            jitter_up_ms: found.jitter_up_ms,
            jitter_down_ms: found.jitter_down_ms,
            jitter_of: found.jitter_of.name(),
            answered_after_retry: tally.retried.map(|retried| {
                let ms = |ns: u64| (retried.count > 0).then_some(ns as f64 / 1e6);
                RetryFigures {
                    connects: retried.count,
                    min_ms: ms(retried.least_ns),
                    max_ms: ms(retried.most_ns),
                    unsure: retried.unsure,
                }
            }),
            queued_ms: found.queued_ms.map(DelayFigures::of),
            grade: tally.grade(),
            left_late: SentLate {
                packets: found.left.late,
                more_than_ms: LATE_NS as f64 / 1e6,
                max_ms: found.left.worst_ns as f64 / 1e6,
            },
            seen_late: SeenLate {
                replies: found.seen.late,
                more_than_ms: LATE_NS as f64 / 1e6,
                of: found.seen.of,
                max_ms: (found.seen.of > 0).then_some(found.seen.worst_ns as f64 / 1e6),
            },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DelayFigures {
    pub n: usize,
    pub min: Option<f64>,
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
    pub sd: Option<f64>,
}

impl DelayFigures {
    fn of(Summary { n, min, mean, p50, p90, p95, p99, max, sd }: Summary) -> Self {
        let [min, mean, p50, p90, p95, p99, max] = [min, mean, p50, p90, p95, p99, max].map(Some);
        Self { n, min, mean, p50, p90, p95, p99, max, sd }
    }

    fn known_with(&self, other: &Self) -> Self {
        let same = |of: fn(&Self) -> Option<f64>| of(self).filter(|own| Some(*own) == of(other));
        Self {
            n: self.n,
            min: same(|s| s.min),
            mean: same(|s| s.mean),
            p50: same(|s| s.p50),
            p90: same(|s| s.p90),
            p95: same(|s| s.p95),
            p99: same(|s| s.p99),
            max: same(|s| s.max),
            sd: same(|s| s.sd),
        }
    }
}
