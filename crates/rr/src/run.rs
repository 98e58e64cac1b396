//! A plan of calls, carried out size by size, each over a connection of its own; and calls again with one thing changed, which tell what the
//! others waited for.

use crate::RrError;
use crate::client::{Call, CallChange, CallShape, Caller};
use crate::compare::{Cliff, SizeTimes, cliffs, compare};
use crate::counters::Counters;
use quell_cause::Cause;
use quell_cause::calls::{
    CallEffect, CallExperiment, CallFacts, EndFinding, Endpoint, LEAST_DELAY_MS,
};
use quell_model::task::{QuickAck, RrPattern};
use quell_stats::{median, quantile, summary};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use quell_units::Span;
use quell_wire::auth::Secret;
use serde::Serialize;
use std::net::SocketAddr;

/// After so many calls in a row without a reply, a size is given up.
const MOST_LOST: u64 = 3;

/// So many calls are made with one thing changed; where they leave it open, so many in all.
const CHANGED_CALLS: [usize; 2] = [5, 30];

/// For so long they are made in any case, else for as long as the calls themselves took.
const CHANGED_NS: u64 = 10_000_000_000;

/// What is less of a call than this share, nobody asks for.
const LEAST_SHARE: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fix {
    Nodelay,
    OneWrite,
    /// `TCP_QUICKACK`, set again after each receive.
    Quickack,
}

#[derive(Debug, Clone)]
pub struct RrPlan {
    pub to: SocketAddr,
    pub secret: Option<Secret>,
    /// What a call looks like; its size is one after the other of `sizes`.
    pub shape: CallShape,
    pub sizes: Vec<u32>,
    pub calls: u32,
    /// How much longer than 5 s each all calls together may take: a server that answers a byte at a time is waited for no longer.
    pub patience: Span,
    pub fix: Option<Fix>,
}

pub trait CallSink {
    /// So many calls were made of all sizes, the last of this size.
    fn made(&mut self, calls: u64, size: u32);
}

#[derive(Debug, Serialize)]
pub struct RrReport {
    pub to: SocketAddr,
    pub pattern: RrPattern,
    pub fix: Option<Fix>,
    pub before: SizeSweep,
    pub after: Option<SizeSweep>,
    /// What the fix did, of each size whose calls waited without it.
    pub mended: Option<Vec<FixEffect>>,
    pub findings: Vec<EndFinding>,
}

#[derive(Debug, Default, Serialize)]
pub struct SizeSweep {
    pub rows: Vec<SizeResult>,
    pub cliffs: Vec<Cliff>,
    pub stopped: bool,
    #[serde(rename = "error", serialize_with = "in_words")]
    pub failed: Option<RrError>,
}

fn in_words<S: serde::Serializer>(error: &Option<RrError>, to: S) -> Result<S::Ok, S::Error> {
    error.as_ref().map(ToString::to_string).serialize(to)
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FixEffect {
    pub size: u32,
    pub before_ms: f64,
    #[serde(flatten)]
    pub after: CallExperiment,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeResult {
    /// Bytes of each write, and of the reply.
    pub size: u32,
    pub calls: u64,
    pub lost: u64,
    /// Why the last of them had none.
    pub lost_why: Option<String>,
    /// Replies a second, from the beginning of the first call to the end of the last.
    pub calls_per_s: f64,
    /// None where no reply came.
    pub latency_ms: Option<CallLatency>,
    pub stalls: u64,
    pub cause: Option<Cause>,
    pub end: Option<Endpoint>,
    pub facts: CallFacts,
    /// What this host counted meanwhile; other programs' connections are among it.
    pub counted: Option<Counters>,
    pub finding: Option<EndFinding>,
    #[serde(skip)]
    times_ms: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CallLatency {
    pub min: f64,
    pub p10: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// Carries out a plan until the bell rings; again with the fix, if there is one.
pub fn run(plan: &RrPlan, stop: &Bell, sink: &mut dyn CallSink) -> RrReport {
    let before = sweep(plan, plan.shape, stop, sink);
    let after = match (plan.fix, &before.failed) {
        (Some(fix), None) if !stop.rings() => Some(sweep(plan, fixed(plan.shape, fix), stop, sink)),
        _ => None,
    };
    RrReport {
        to: plan.to,
        pattern: plan.shape.pattern,
        fix: plan.fix,
        mended: after.as_ref().map(|after| mended(&before, after)),
        findings: findings(&before.rows),
        before,
        after,
    }
}

fn fixed(shape: CallShape, fix: Fix) -> CallShape {
    match fix {
        Fix::Nodelay => CallShape { nodelay: true, ..shape },
        Fix::OneWrite => CallShape { one_write: true, ..shape },
        Fix::Quickack => CallShape { quickack: Some(QuickAck::Rearmed), ..shape },
    }
}

fn mended(before: &SizeSweep, after: &SizeSweep) -> Vec<FixEffect> {
    let waited = before.rows.iter().filter(|row| row.cause.is_some());
    let effect = |row: &SizeResult| {
        let then = after.rows.iter().find(|then| then.size == row.size)?;
        let before_ms = median(&row.times_ms)?;
        let after = compare(&row.times_ms, &then.times_ms, before_ms * LEAST_SHARE);
        Some(FixEffect { size: row.size, before_ms, after })
    };
    waited.filter_map(effect).collect()
}

/// One finding a cause and end: that of the size with the most stalls, and which others have it too.
fn findings(rows: &[SizeResult]) -> Vec<EndFinding> {
    let mut causes: Vec<_> = rows.iter().filter_map(|row| Some((row.cause?, row.end))).collect();
    causes.sort_unstable();
    causes.dedup();
    let one = |cause| {
        let same = |row: &&SizeResult| row.cause.is_some_and(|it| (it, row.end) == cause);
        let rows: Vec<&SizeResult> = rows.iter().filter(same).collect();
        let worst = rows.iter().max_by_key(|row| row.stalls)?;
        let mut found = worst.finding.clone()?;
        if let [first, .., last] = rows[..] {
            let (count, from, to) = (rows.len(), first.size, last.size);
            found.finding.subject = format!(
                "calls of {count} sizes from {from} to {to} bytes (seen: of {})",
                worst.size
            );
        }
        Some(found)
    };
    let mut found: Vec<EndFinding> = causes.into_iter().filter_map(one).collect();
    found.sort_by_key(|it| std::cmp::Reverse(it.finding.severity));
    found
}

fn sweep(plan: &RrPlan, shape: CallShape, stop: &Bell, sink: &mut dyn CallSink) -> SizeSweep {
    let mut sweep = SizeSweep::default();
    let mut spare_ns = plan.patience.nanos();
    for (place, &size) in plan.sizes.iter().enumerate() {
        let before = place as u64 * u64::from(plan.calls);
        let mut tell = |made: usize| sink.made(before + made as u64, size);
        let mut calls = SizeCalls::new(plan, CallShape { size, ..shape }, stop);
        match calls.make(&mut spare_ns, &mut tell) {
            Ok((row, failed)) => {
                sweep.rows.push(row);
                sweep.failed = failed;
            }
            Err(RrError::Stopped) => break,
            Err(error) => sweep.failed = Some(error),
        }
        if stop.rings() || sweep.failed.is_some() {
            break;
        }
    }
    let all = sweep.rows.len() == plan.sizes.len()
        && sweep.rows.iter().all(|row| row.calls == u64::from(plan.calls));
    sweep.stopped = stop.rings() && !all;
    sweep.cliffs = cliffs(&sweep.rows.iter().filter_map(SizeResult::times).collect::<Vec<_>>());
    sweep
}

struct SizeCalls<'a> {
    plan: &'a RrPlan,
    shape: CallShape,
    stop: &'a Bell,
    made: Vec<Call>,
}

impl<'a> SizeCalls<'a> {
    fn new(plan: &'a RrPlan, shape: CallShape, stop: &'a Bell) -> Self {
        Self { plan, shape, stop, made: Vec::new() }
    }

    fn caller(&self, spare_ns: u64) -> Result<Caller, RrError> {
        let caller = Caller::new(self.plan.to, self.shape)?.with_secret(self.plan.secret.clone());
        Ok(caller.with_spare(spare_ns))
    }

    /// Those that were made when the bell rings, or when the server is gone, and why no more were. Errors when the server can't be reached,
    /// and when it was stopped before the first call was over. What of the spare time was used is taken from it.
    fn make(
        &mut self,
        spare_ns: &mut u64,
        tell: &mut dyn FnMut(usize),
    ) -> Result<(SizeResult, Option<RrError>), RrError> {
        let mut caller = self.caller(*spare_ns)?.asking_after();
        caller.open(self.stop)?;
        let before = Counters::now();
        let start_ns = monotonic_ns();
        let failed = self.call_all(&mut caller, tell)?;
        let span_ns = monotonic_ns().saturating_sub(start_ns).saturating_sub(caller.aside_ns());
        let counted = Counters::now().zip(before).map(|(now, before)| now.since(before));
        // What was sent again in the one before the last may have come twice after the last had begun.
        let open = self.made.iter().rev().take(2).any(Call::may_have_waited_for_a_timer);
        if let Some(last) =
            self.made.last_mut().filter(|_| open && failed.is_none() && !self.stop.rings())
        {
            caller.ask_again(last, self.stop);
        }
        let mut facts = facts(&self.made, caller.handshake_ns());
        *spare_ns = caller.spare_ns();
        if failed.is_none() {
            self.experiment(&mut facts, &mut caller, span_ns, spare_ns);
        }
        Ok((SizeResult::of(self.shape.size, &self.made, facts, span_ns, counted), failed))
    }

    fn call_all(
        &mut self,
        caller: &mut Caller,
        tell: &mut dyn FnMut(usize),
    ) -> Result<Option<RrError>, RrError> {
        let mut lost = 0;
        while self.made.len() < self.plan.calls as usize && lost < MOST_LOST && !self.stop.rings() {
            if caller.spare_ns() == 0 && !self.made.is_empty() {
                let (calls, spare) = (self.made.len() as u64, self.plan.patience);
                return Ok(Some(RrError::Slow { to: self.plan.to, calls, spare }));
            }
            let call = match caller.call(self.stop) {
                // It was not lost: nobody waited for its reply.
                Ok(call) if call.lost.is_some() && self.stop.rings() => break,
                Err(RrError::Stopped) => break,
                // What was measured until then is worth telling.
                Err(error) if !self.made.is_empty() => {
                    return Ok(Some(gone(self.plan.to, &self.made, error)));
                }
                call => call?,
            };
            lost = if call.lost.is_some() { lost + 1 } else { 0 };
            self.made.push(call);
            tell(self.made.len());
        }
        match self.made.is_empty() && self.stop.rings() {
            true => Err(RrError::Stopped),
            false => Ok(None),
        }
    }

    /// Makes calls again with one thing changed, where the others may have waited for that.
    fn experiment(
        &self,
        facts: &mut CallFacts,
        caller: &mut Caller,
        span_ns: u64,
        spare_ns: &mut u64,
    ) {
        let time_ns = span_ns.max(CHANGED_NS);
        let held = times(self.made.iter().filter(|call| call.held > 0), without_server);
        if facts.is_common(facts.held) {
            let least_ms = median(&held).unwrap_or(0.0) * LEAST_SHARE;
            let mut make = || caller.changed_call(CallChange::NoDelay, self.stop);
            facts.no_delay = self.changed(&held, without_server, least_ms, time_ns, &mut make);
            let gain = facts.no_delay;
            if gain.effect == CallEffect::Sooner
                && gain.sooner_ms >= LEAST_DELAY_MS
                && let Ok(other) = self.caller(*spare_ns)
            {
                let mut other = other.with_acks_at_once_there();
                let mut make = || other.call(self.stop);
                facts.quick_ack_there =
                    self.changed(&held, without_server, LEAST_DELAY_MS, time_ns, &mut make);
                *spare_ns = other.spare_ns();
            }
        } else if facts.is_common(facts.paused) {
            let mut make = || caller.changed_call(CallChange::QuickAckHere, self.stop);
            // While its connection is young, this end acknowledges at once.
            let pauses =
                times(self.made.iter().skip(self.made.len() / 3), |call| call.gathering_ns);
            facts.quick_ack_here =
                self.changed(&pauses, |call| call.gathering_ns, LEAST_DELAY_MS, time_ns, &mut make);
        }
        *spare_ns = caller.spare_ns().min(*spare_ns);
    }

    fn changed(
        &self,
        plain: &[f64],
        time: fn(&Call) -> u64,
        least_ms: f64,
        time_ns: u64,
        make: &mut dyn FnMut() -> Result<Call, RrError>,
    ) -> CallExperiment {
        let mut changed = Vec::new();
        let mut result = CallExperiment::default();
        if plain.len() < 2 {
            return result;
        }
        let end_ns = monotonic_ns().saturating_add(time_ns);
        for enough in CHANGED_CALLS {
            while changed.len() < enough && !self.stop.rings() && monotonic_ns() < end_ns {
                match make() {
                    Ok(call) if call.lost.is_none() => changed.push(call),
                    // What was asked for is measured; that it can't be explained now is said.
                    _ => return result,
                }
            }
            result = compare(plain, &times(&changed, time), least_ms);
            if result.effect != CallEffect::Unknown {
                break;
            }
        }
        result
    }
}

/// A time of each call in milliseconds, of those in which nothing was sent again.
fn times<'a>(calls: impl IntoIterator<Item = &'a Call>, time: fn(&Call) -> u64) -> Vec<f64> {
    let good = |call: &&Call| call.latency_ns.is_some() && call.again.segments == 0;
    calls.into_iter().filter(good).map(|call| time(call) as f64 / 1e6).collect()
}

fn without_server(call: &Call) -> u64 {
    let own_ns = call.report.map_or(0, |report| report.own_ns);
    call.latency_ns.unwrap_or(0).saturating_sub(own_ns)
}

/// A server that answered these calls, or most of them, and then no more.
fn gone(to: SocketAddr, made: &[Call], error: RrError) -> RrError {
    let calls = made.iter().filter(|call| call.lost.is_none()).count() as u64;
    let why = match error {
        RrError::NotServing { why, .. } => why,
        other => other.to_string(),
    };
    RrError::Gone { to, calls, why }
}

/// The facts of calls of one size, without experiments; `handshake_ns` is of the connection that carried all.
fn facts(calls: &[Call], handshake_ns: Option<u64>) -> CallFacts {
    let ms = |ns: u64| ns as f64 / 1e6;
    let all: Vec<f64> = calls.iter().filter_map(|call| call.latency_ns.map(ms)).collect();
    let own: Vec<f64> =
        calls.iter().filter_map(|call| call.report.map(|report| ms(report.own_ns))).collect();
    let count =
        |is_so: &dyn Fn(&Call) -> bool| calls.iter().filter(|call| is_so(call)).count() as u64;
    let median_ms = median(&all).unwrap_or(0.0);
    let fastest_ms = all.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let standing = calls.iter().all(|call| call.connecting_ns == 0);
    // Of a path that takes 0 µs by its clock the kernel says that it takes a tick (`tcp_update_rtt_min`, net/ipv4/tcp_input.c).
    let rtt = calls.iter().filter_map(|call| call.min_rtt_us).min().map(|us| f64::from(us) / 1e3);
    let mut facts = CallFacts {
        calls: calls.len() as u64,
        median_ms,
        fastest_ms,
        handshake_ms: handshake_ns.map(ms).filter(|_| standing),
        rtt_ms: rtt.filter(|rtt| *rtt <= fastest_ms),
        server_ms: median(&own),
        early: count(&|call| call.early),
        held: count(&|call| call.held > 0),
        held_bytes: calls.iter().map(|call| call.held).max().unwrap_or(0),
        paused: count(&is_paused),
        disordered: calls.iter().any(|call| call.disordered),
        ..CallFacts::default()
    };
    for call in calls {
        facts.again_here.add(call.again);
        facts.again_there.add(call.again_there);
    }
    facts
}

/// Whether the server may have held its reply for an ACK that this end delayed.
fn is_paused(call: &Call) -> bool {
    call.delayed_acks > 0
        && call.gap_ns as f64 / 1e6 >= LEAST_DELAY_MS
        && !call.report.is_some_and(|report| report.held_never)
}

impl SizeResult {
    fn of(
        size: u32,
        calls: &[Call],
        facts: CallFacts,
        span_ns: u64,
        counted: Option<Counters>,
    ) -> Self {
        let times_ms: Vec<f64> =
            calls.iter().filter_map(|call| Some(call.latency_ns? as f64 / 1e6)).collect();
        let diagnosis = facts.diagnosis();
        let p10 = quantile(&times_ms, 0.1);
        Self {
            size,
            calls: facts.calls,
            lost: facts.calls - times_ms.len() as u64,
            lost_why: calls.iter().rev().find_map(|call| call.lost.clone()),
            calls_per_s: times_ms.len() as f64 * 1e9 / span_ns.max(1) as f64,
            latency_ms: summary(&times_ms).zip(p10).map(|(s, p10)| CallLatency {
                min: s.min,
                p10,
                p50: s.p50,
                p90: s.p90,
                p99: s.p99,
                max: s.max,
            }),
            stalls: diagnosis.map_or(0, |diagnosis| facts.waits(diagnosis)),
            cause: diagnosis.map(|diagnosis| diagnosis.cause),
            end: diagnosis.and_then(|diagnosis| diagnosis.end),
            finding: facts.finding(format!("calls of {size} bytes")),
            facts,
            counted,
            times_ms,
        }
    }

    /// What cliffs are found by; none where no reply came.
    fn times(&self) -> Option<SizeTimes> {
        let CallLatency { p10, p50, p90, .. } = self.latency_ms?;
        let stalled = self.stalls as f64 / self.calls.max(1) as f64;
        Some(SizeTimes { size: self.size, quantiles: [p10, p50, p90], stalled })
    }
}
