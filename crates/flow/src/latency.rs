//! How long a small packet takes, first over the idle path, then beside the load.
//!
//! ```text
//!   STAMP to the server's UDP port   where a Quell answers there
//!   ICMP echo                        otherwise
//!   nothing, and why                 where ICMP is not allowed
//! ```

use crate::FlowPlan;
use quell_model::task::{PingStream, UdpEcho};
use quell_model::{EchoSample, EchoStatus, Event, Fact, Subject, Told};
use quell_probe::numbered::Numbered;
use quell_probe::{Patience, ProbeError, ProbeOptions};
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wait::Bell;
use quell_units::{Span, Tos};
use serde::Serialize;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub const STREAM: &str = "latency";

const IDLE: Span = Span::from_millis(1000);
const IDLE_EVERY: Span = Span::from_millis(25);
const LOADED_EVERY: Span = Span::from_millis(50);
/// A line on which the second of two answers is so much later than it was sent behind the first is slow: pings at these intervals would be a load of
/// their own. It gets one when two would have passed, and beside the load when four would; but so often at least.
const SLOW: Span = Span::from_millis(10);
const IDLE_SELDOM: Span = Span::from_millis(250);
const LOADED_SELDOM: Span = Span::from_millis(1000);
/// Beside a load what is known of pings is handed on so often, so that it is soon seen that none is under way any more.
pub(crate) const FLUSH: Span = Span::from_millis(100);
/// How long replies are awaited at least, …
const LINGER: Span = Span::from_millis(1000);
/// … and at most: longer than any queue that somebody still uses.
const MOST_LINGER: Span = Span::from_secs(60);
const TRIES: u64 = 2;
const TRY_EVERY: Span = Span::from_millis(10);
const KNOCK_LINGER: Span = Span::from_millis(600);
pub(crate) const SIZE: u32 = 56;
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// STAMP over UDP (RFC 8762).
    Stamp,
    Icmp,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::Stamp => "STAMP over UDP",
            Method::Icmp => "ICMP",
        }
    }
}

/// Round-trip times of small packets: of those that were answered, however late.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RttSummary {
    pub sent: usize,
    /// Those that were waited for as long as the path showed to be needed, in vain. They are none of the next.
    pub lost: usize,
    /// Those without an answer that the server left unanswered, or may have: at most so many.
    pub unanswered: usize,
    /// Those that had no answer when waiting ended, and may still have been on their way.
    pub late: usize,
    /// Of the answers, those that lacked the server's number which others had: it had left packets unanswered before them, or no room to count.
    pub without_number: u64,
    /// Mean difference between one round trip and the next, in milliseconds.
    pub jitter_ms: Option<f64>,
    /// Median of the way there, in milliseconds by two clocks: only differences mean something.
    #[serde(skip)]
    pub up_ms: Option<f64>,
    #[serde(skip)]
    pub down_ms: Option<f64>,
    pub min_ms: f64,
    pub p50_ms: f64,
    /// 90 of 100 were at most this.
    pub p90_ms: f64,
    /// 95 of 100 were at most this.
    pub p95_ms: f64,
    /// 99 of 100 were at most this.
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl RttSummary {
    /// Of these packets; none where not one was answered.
    pub fn of(samples: &[EchoSample]) -> Option<Self> {
        let ok = || samples.iter().filter(|s| s.status.is_answered());
        let sample = quell_stats::Sample::new(ok().filter_map(|s| Some(s.rtt_ns? as f64 / 1e6)))?;
        let at = |p| sample.quantile(p).unwrap_or(f64::NAN);
        let way = |of: fn(&EchoSample) -> Option<i64>| {
            let ways = quell_stats::Sample::new(ok().filter_map(|s| Some(of(s)? as f64 / 1e6)))?;
            Some(ways.median())
        };
        let lost = samples.iter().filter(|s| s.status.is_lost()).count();
        let is_late =
            |s: &&EchoSample| matches!(s.status, EchoStatus::Unfinished | EchoStatus::Unsure);
        let late = samples.iter().filter(is_late).count();
        let mut numbered = Numbered::default();
        samples.iter().for_each(|sample| numbered.take(sample));
        Some(Self {
            sent: sample.count() + lost + late,
            lost,
            unanswered: 0,
            late,
            without_number: numbered.gaps(),
            jitter_ms: jitter(&ok().filter_map(|s| s.rtt_ns).collect::<Vec<_>>()),
            up_ms: way(|s| s.up_ns),
            down_ms: way(|s| s.down_ns),
            min_ms: sample.min(),
            p50_ms: sample.median(),
            p90_ms: at(0.9),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            max_ms: sample.max(),
        })
    }

    /// The same where the server left so many unanswered, or may have.
    #[must_use]
    pub fn where_unanswered(self, told: u64) -> Self {
        let unanswered = usize::try_from(told).unwrap_or(usize::MAX).min(self.lost);
        Self { unanswered, lost: self.lost - unanswered, ..self }
    }

    pub fn answered(&self) -> usize {
        self.sent - self.lost - self.unanswered - self.late
    }

    /// Whether most were answered: otherwise their median is not that of all.
    pub fn is_majority(&self) -> bool {
        2 * self.answered() > self.sent
    }
}

fn jitter(rtts_ns: &[u64]) -> Option<f64> {
    let steps = rtts_ns.windows(2).map(|pair| pair[0].abs_diff(pair[1]) as f64 / 1e6);
    quell_stats::mean(&steps.collect::<Vec<_>>())
}

/// How long a reply is worth waiting for, after the longest round trip that was seen so far, in nanoseconds.
pub(crate) fn needed_ns(longest_ns: u64) -> u64 {
    longest_ns.saturating_mul(2).max(LINGER.nanos())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PingWait {
    pub end_ns: i64,
    pub needed_ns: u64,
    /// Whether it was waited so long; else it broke off, and how long the path had become by then only what was answered tells.
    pub whole: bool,
}

/// Tells lost packets from late ones: without an answer when waiting ended, they are lost if they were waited for as long as the path showed to be
/// needed. Where waiting broke off, one that was sent behind them must have been answered, too: a queue that fills shows how long it is only by
/// what has come through it.
pub(crate) fn tell_late(samples: &mut [EchoSample], waited: PingWait) {
    let answered = samples.iter().filter(|s| s.status.is_answered()).map(|s| s.t_ns).max();
    for sample in samples {
        let so_long = u64::try_from(waited.end_ns.saturating_sub(sample.t_ns)).unwrap_or(0);
        let passed = waited.whole || answered.is_some_and(|last| sample.t_ns < last);
        match sample.status {
            EchoStatus::Unfinished | EchoStatus::Unsure
                if so_long >= waited.needed_ns && passed =>
            {
                sample.status = EchoStatus::Lost;
            }
            EchoStatus::Unsure => sample.status = EchoStatus::Unfinished,
            _ => {}
        }
    }
}

pub(crate) fn longest_ns(samples: &[EchoSample]) -> u64 {
    samples.iter().filter_map(|sample| sample.rtt_ns).max().unwrap_or(0)
}

/// Whether it is known of each packet that was sent until `until_ns` what became of it: packets are numbered from 0, and one that was sent later
/// shows how many there are.
pub(crate) fn all_known(samples: &[EchoSample], until_ns: i64) -> bool {
    let until = |s: &&EchoSample| s.t_ns <= until_ns;
    let behind = samples.iter().filter(|s| !until(s)).map(|s| s.seq).min();
    let known: HashSet<u64> = samples.iter().filter(until).map(|s| s.seq).collect();
    behind == Some(known.len() as u64)
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latency {
    /// What was sent; none where nothing could be.
    pub method: Option<Method>,
    pub note: Option<String>,
    /// How long the path takes for each of its packets, where it is slow, in nanoseconds.
    pub(crate) each_ns: u64,
    pub idle: Vec<EchoSample>,
    pub loaded: Vec<EchoSample>,
    /// Most of the idle path's that the server left unanswered.
    pub idle_unanswered: u64,
    pub loaded_unanswered: u64,
}

impl Latency {
    /// What [`loaded`] said in the end.
    pub(crate) fn pinged_beside(&mut self, result: Result<u64, ProbeError>) {
        match result {
            Ok(unanswered) => self.loaded_unanswered = unanswered,
            Err(error) => {
                self.note = Some(format!("latency beside the load was not measured: {error}"));
            }
        }
    }
}

/// Measures the idle path, on which a handshake took `rtt_us`, and finds out with what.
pub(crate) fn idle(plan: &FlowPlan, rtt_us: u32, stop: &Bell) -> Latency {
    let needed = needed_ns(u64::from(rtt_us) * 1000);
    let linger = Span::from_nanos(needed.min(MOST_LINGER.nanos()));
    let mut latency = Latency::default();
    let mut why = None;
    // A plain iperf3 has nobody at its UDP port.
    let first = if plan.plain { Vec::new() } else { first_answers(plan, linger, stop) };
    if !first.is_empty() {
        latency.method = Some(Method::Stamp);
        latency.each_ns = each_ns(&first);
    } else if !stop.rings() {
        latency.method = Some(Method::Icmp);
    }
    if let Some(method) = latency.method {
        let window = window(monotonic_ns(), IDLE);
        let samples = Mutex::default();
        // The first answers show a path of the time before: on a slow line these packets make a queue of their own.
        let patience = Patience::between(linger, MOST_LINGER);
        let every = spaced(IDLE_EVERY, 2 * latency.each_ns, IDLE_SELDOM);
        match run(plan, method, &window, (every, patience), None, stop, &samples) {
            Ok(unanswered) => {
                (latency.idle, latency.idle_unanswered) = (sorted(samples), unanswered);
            }
            Err(error) => why = Some(error),
        }
    }
    if let Some(error) = why {
        latency.method = None;
        latency.note = Some(format!("latency was not measured: {error}"));
    } else if RttSummary::of(&latency.idle).is_none() {
        latency.method = None;
        latency.note = Some("latency was not measured: the server answers no pings".into());
    }
    latency
}

/// Measures beside the load until the window has ended and each reply has come, or the bell rings. What is known is handed on as it goes: a
/// packet without an answer is not lost before [`tell_late`] says so. How many the server left unanswered at most.
pub(crate) fn loaded(
    plan: &FlowPlan,
    (method, each_ns): (Method, u64),
    window: &Window,
    stop: &Bell,
    samples: &Mutex<Vec<EchoSample>>,
) -> Result<u64, ProbeError> {
    let patience = Patience::exactly(MOST_LINGER);
    let every = spaced(LOADED_EVERY, 4 * each_ns, LOADED_SELDOM);
    run(plan, method, window, (every, patience), None, stop, samples)
}

/// The time between pings: the usual one, or what a slow path needs.
fn spaced(usual: Span, needed_ns: u64, most: Span) -> Span {
    usual.max(Span::from_nanos(needed_ns).min(most))
}

/// How long the path takes for each packet, by the first two that were answered; 0 where it is not seen to take long.
fn each_ns(first: &[EchoSample]) -> u64 {
    let [one, two, ..] = first else { return 0 };
    let grown = two.rtt_ns.unwrap_or(0).saturating_sub(one.rtt_ns.unwrap_or(0));
    let apart = u64::try_from(two.t_ns - one.t_ns).unwrap_or(0);
    if grown < SLOW.nanos() { 0 } else { apart + grown }
}

fn first_answers(plan: &FlowPlan, linger: Span, stop: &Bell) -> Vec<EchoSample> {
    let window = window(monotonic_ns(), IDLE);
    let patience = Patience::exactly(linger.max(KNOCK_LINGER));
    let found = Mutex::default();
    // What can't be sent is not answered.
    let _ = run(plan, Method::Stamp, &window, (TRY_EVERY, patience), Some(TRIES), stop, &found);
    let mut found = sorted(found);
    found.retain(|sample| sample.status.is_answered());
    found
}

/// In the order in which they were sent, with what was said of each last.
pub(crate) fn sorted(samples: Mutex<Vec<EchoSample>>) -> Vec<EchoSample> {
    let mut samples = samples.into_inner().unwrap_or_else(PoisonError::into_inner);
    quell_model::rows::latest(&mut samples);
    samples.sort_by_key(|sample| sample.t_ns);
    samples
}

fn window(start_ns: u64, most: Span) -> Window {
    Window { origin_ns: start_ns, start_ns, duration_ns: most.nanos() }
}

/// Sends, and hands on what became of the packets; how many the server left unanswered at most.
fn run(
    plan: &FlowPlan,
    method: Method,
    window: &Window,
    (interval, patience): (Span, Patience),
    count: Option<u64>,
    stop: &Bell,
    samples: &Mutex<Vec<EchoSample>>,
) -> Result<u64, ProbeError> {
    let patience = patience.for_packets_every(interval);
    let linger = Span::from_nanos(patience.most_ns());
    let patience = Some(patience);
    let options =
        ProbeOptions { count, patience, way: plan.way.clone(), ..ProbeOptions::default() };
    // Of the class of the flow: that queue is what matters.
    let tos = Tos::from_byte(plan.tos & !3);
    let unanswered = AtomicU64::new(0);
    let emit = |event: Event| match event {
        Event::Echo { samples: more, .. } => {
            samples.lock().unwrap_or_else(PoisonError::into_inner).extend(more);
        }
        Event::Fact(Fact { subject: Subject::Stream(_, Told::Unanswered), value, .. }) => {
            unanswered.store(value.parse().unwrap_or(0), Ordering::Relaxed);
        }
        _ => {}
    };
    let stream = STREAM.to_owned();
    let prober = match method {
        Method::Stamp => {
            let echo = UdpEcho {
                stream,
                to: plan.to,
                interval,
                size: SIZE,
                tos,
                linger,
                other_clock: false,
            };
            quell_probe::udp::open(&[(echo, options)], 1)?
        }
        Method::Icmp => {
            let ping = PingStream { stream, to: plan.to.ip(), interval, size: SIZE, tos, linger };
            quell_probe::ping::open(&[(ping, options)], 1)?
        }
    };
    prober.flushing_every(FLUSH).run(window, stop, &emit)?;
    Ok(unanswered.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(t_ms: i64, status: EchoStatus, rtt_ms: Option<u64>) -> EchoSample {
        let rtt_ns = rtt_ms.map(|ms| ms * 1_000_000);
        EchoSample { rtt_ns, ..EchoSample::new(t_ms * 1_000_000, 0, 56, status) }
    }

    #[test]
    fn a_ping_that_is_younger_than_the_path_is_slow_is_late_and_not_lost() {
        // A queue of 6 s: at 10 s the pings of the last six have no answer yet.
        let answer = |t: i64| match t {
            500 => sample(t, EchoStatus::Unsure, None),
            t if t < 4000 => sample(t, EchoStatus::Ok, Some(6000)),
            t if t < 7000 => sample(t, EchoStatus::Unsure, None),
            t => sample(t, EchoStatus::Unfinished, None),
        };
        let mut samples: Vec<_> = (0..100).map(|n| answer(n * 100)).collect();
        let needed = needed_ns(longest_ns(&samples));
        assert_eq!(needed, 12_000_000_000);
        let waited = PingWait { end_ns: 13_000_000_000, needed_ns: needed, whole: true };
        tell_late(&mut samples, waited);
        let spread = RttSummary::of(&samples).unwrap();
        assert_eq!((spread.sent, spread.lost, spread.late, spread.answered()), (100, 1, 60, 39));
        assert!(!spread.is_majority(), "39 of 100 say nothing of the others");
    }

    #[test]
    fn what_the_server_left_unanswered_was_not_lost() {
        let ping = |n: i64| match n % 4 {
            0 => sample(n, EchoStatus::Ok, Some(20)),
            _ => sample(n, EchoStatus::Lost, None),
        };
        let spread = RttSummary::of(&(0..40).map(ping).collect::<Vec<_>>()).unwrap();
        let of = |told| {
            let spread = spread.where_unanswered(told);
            (spread.sent, spread.lost, spread.unanswered, spread.answered())
        };
        assert_eq!([of(0), of(28)], [(40, 30, 0, 10), (40, 2, 28, 10)]);
        assert_eq!(of(1000), (40, 0, 30, 10));
    }

    #[test]
    fn that_no_ping_is_under_way_is_known_by_the_numbers_of_those_that_came() {
        let ping = |seq: u64| EchoSample {
            seq,
            ..sample(50 * seq.cast_signed(), EchoStatus::Ok, Some(40))
        };
        let known = |seqs: &[u64]| {
            all_known(&seqs.iter().map(|seq| ping(*seq)).collect::<Vec<_>>(), 100_000_000)
        };
        assert!(known(&[0, 1, 2, 3]) && known(&[3, 0, 2, 1, 5]) && known(&[0, 1, 2, 2, 3]));
        assert!(!known(&[0, 1, 2]), "nothing that was sent later came");
        assert!(!known(&[0, 2, 3]) && !known(&[0, 1, 3]) && !known(&[0, 1, 2, 4]) && !known(&[]));
    }

    #[test]
    fn on_a_fast_path_a_second_is_enough() {
        let mut samples =
            vec![sample(0, EchoStatus::Ok, Some(20)), sample(50, EchoStatus::Unfinished, None)];
        let needed = needed_ns(longest_ns(&samples));
        let waited = PingWait { end_ns: 1_100_000_000, needed_ns: needed, whole: true };
        tell_late(&mut samples, waited);
        assert_eq!(RttSummary::of(&samples).unwrap().lost, 1);
    }

    #[test]
    fn where_waiting_broke_off_only_what_was_overtaken_is_lost() {
        // A queue that fills: 2 s after the third ping the server is gone.
        let mut samples = vec![
            sample(0, EchoStatus::Unsure, None),
            sample(100, EchoStatus::Ok, Some(200)),
            sample(200, EchoStatus::Unsure, None),
            sample(300, EchoStatus::Unfinished, None),
        ];
        let needed_ns = needed_ns(longest_ns(&samples));
        let waited = PingWait { end_ns: 5_000_000_000, needed_ns, whole: false };
        tell_late(&mut samples, waited);
        let spread = RttSummary::of(&samples).unwrap();
        assert_eq!((spread.lost, spread.late, spread.answered()), (1, 2, 1));
        // Where nothing came back at all, nobody knows.
        let mut none = vec![sample(0, EchoStatus::Unsure, None)];
        tell_late(&mut none, waited);
        assert_eq!(none[0].status, EchoStatus::Unfinished);
        tell_late(&mut none, PingWait { whole: true, ..waited });
        assert_eq!(none[0].status, EchoStatus::Lost);
    }

    #[test]
    fn a_line_that_takes_long_for_each_ping_gets_fewer() {
        let first = |second_ms| {
            [sample(0, EchoStatus::Ok, Some(280)), sample(10, EchoStatus::Ok, Some(second_ms))]
        };
        // 98 bytes at 6 kbit/s.
        assert_eq!(each_ns(&first(401)), 131_000_000);
        assert_eq!(
            (each_ns(&first(285)), each_ns(&first(200)), each_ns(&first(401)[..1])),
            (0, 0, 0)
        );
        let ms = |usual, each: u64, most| spaced(usual, each * 1_000_000, most).nanos() / 1_000_000;
        assert_eq!(ms(IDLE_EVERY, 2 * 131, IDLE_SELDOM), 250);
        assert_eq!(ms(LOADED_EVERY, 4 * 131, LOADED_SELDOM), 524);
        assert_eq!(ms(IDLE_EVERY, 0, IDLE_SELDOM), 25);
    }
}
