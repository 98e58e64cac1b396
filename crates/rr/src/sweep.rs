//! A size after the other, each over a connection of its own: a row each.

use crate::RrError;
use crate::cause::Stalls;
use crate::client::{Call, Caller, Control, Shape};
use crate::cliff::Times;
use crate::control::{ControlCalls, Controls, LOOKS, Verdict};
use crate::counters::Counters;
use crate::nagle::Nagle;
use quell_finding::Finding;
use quell_model::task::{QuickAck, RrPattern};
use quell_stats::{quantile, summary};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use quell_units::Span;
use quell_wire::auth::Secret;
use serde::Serialize;
use std::net::SocketAddr;

/// After so many calls in a row without a reply, a size is given up.
const MOST_LOST: u64 = 3;

/// What the calls of one size showed. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Bytes of each write, and of the reply.
    pub size: u32,
    /// Calls made.
    pub calls: u64,
    /// Calls without a reply.
    pub lost: u64,
    /// Why the last of them had none.
    pub lost_why: Option<String>,
    /// Replies a second, from the beginning of the first call to the end of the last.
    pub calls_per_s: f64,
    /// How long calls took; none where no reply came.
    pub latency_ms: Option<Latency>,
    /// Those that stalled.
    pub stalls: Stalls,
    /// What this host counted meanwhile; other programs' connections are among it.
    pub counted: Option<Counters>,
    /// Why calls stalled, and what to change.
    pub finding: Option<Finding>,
    /// Why it ended before its last call.
    #[serde(skip)]
    pub failed: Option<RrError>,
    /// How long each call took.
    #[serde(skip)]
    pub(crate) times_ms: Vec<f64>,
}

impl Row {
    /// What cliffs are found by; none where no reply came.
    pub fn times(&self) -> Option<Times> {
        let Latency { p10, p50, p90, .. } = self.latency_ms?;
        let stalled = self.stalls.count as f64 / self.calls.max(1) as f64;
        Some(Times { size: self.size, quantiles: [p10, p50, p90], stalled })
    }
}

/// How long calls took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// The shortest.
    pub min: f64,
    /// The 0.1 quantile.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// The 0.9 quantile.
    pub p90: f64,
    /// The 0.99 quantile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Row {
    /// What calls of one size showed that took `span_ns` in all.
    ///
    /// `controls` are calls after them to compare them with; `handshake_ns` is what the connection's handshake took, where calls are not
    /// connections themselves.
    pub fn of(
        size: u32,
        calls: &[Call],
        controls: &ControlCalls,
        span_ns: u64,
        counted: Option<Counters>,
        handshake_ns: Option<u64>,
    ) -> Self {
        let times: Vec<f64> =
            calls.iter().filter_map(|c| Some(c.latency_ns? as f64 / 1e6)).collect();
        let stalls = Stalls::of(calls, controls, handshake_ns);
        let made = calls.len() as u64;
        Self {
            size,
            calls: made,
            lost: made - times.len() as u64,
            lost_why: calls.iter().rev().find_map(|c| c.lost.clone()),
            calls_per_s: times.len() as f64 * 1e9 / span_ns.max(1) as f64,
            latency_ms: summary(&times).zip(quantile(&times, 0.1)).map(|(s, p10)| Latency {
                min: s.min,
                p10,
                p50: s.p50,
                p90: s.p90,
                p99: s.p99,
                max: s.max,
            }),
            finding: crate::verdict::finding(size, &stalls, made, counted),
            stalls,
            counted,
            failed: None,
            times_ms: times,
        }
    }
}

/// For so long control calls are made in any case, else for as long as the calls themselves took.
const CONTROLS_NS: u64 = 10_000_000_000;

/// Calls again with one thing changed, where `is_open` says of those so far that more of them would tell: as many as it takes, where there is
/// anything to compare them with. `span_ns` is how long the calls took.
fn controls(
    made: &[Call],
    span_ns: u64,
    stop: &Bell,
    is_open: &dyn Fn(&[Call]) -> bool,
    make: &mut dyn FnMut() -> Result<Call, RrError>,
) -> Vec<Call> {
    let mut controls = Vec::new();
    if made.len() < 2 {
        return controls;
    }
    let end_ns = monotonic_ns().saturating_add(span_ns.max(CONTROLS_NS));
    for (enough, _) in LOOKS {
        let open = is_open(&controls);
        while open && controls.len() < enough && !stop.rings() && monotonic_ns() < end_ns {
            match make() {
                Ok(call) if call.lost.is_none() => controls.push(call),
                // What was asked for is measured; that it can't be explained now is said.
                _ => return controls,
            }
        }
    }
    controls
}

/// The calls to compare these with. `other` asks the server for ACKs at once.
fn compared(
    caller: &mut Caller,
    other: &mut Caller,
    shape: Shape,
    made: &[Call],
    span_ns: u64,
    stop: &Bell,
) -> ControlCalls {
    let at_once = match shape.quickack {
        // They are that themselves.
        Some(QuickAck::Rearmed) => made.to_vec(),
        _ => {
            let open = |controls: &[Call]| {
                made.iter().any(Call::may_be_held_there)
                    && Controls::of(made, controls).verdict == Verdict::Unknown
            };
            let mut make = || caller.control(Control::AckAtOnce, stop);
            controls(made, span_ns, stop, &open, &mut make)
        }
    };
    let nagle = |no_delay: &[Call], there: &[Call]| Nagle::of(made, no_delay, there);
    let open = |controls: &[Call]| nagle(controls, &[]).cost_is_open(made);
    let mut make = || caller.control(Control::NoDelay, stop);
    let no_delay = controls(made, span_ns, stop, &open, &mut make);
    let open = |controls: &[Call]| nagle(&no_delay, controls).delay_is_open(made);
    let at_once_there = controls(made, span_ns, stop, &open, &mut || other.call(stop));
    ControlCalls { at_once, no_delay, at_once_there }
}

/// Makes `calls` calls of one shape, with a secret where the server wants one; those that were made when the bell rings, or when the server
/// is gone.
///
/// Errors when the server can't be reached, and when it was stopped before the first call was over.
pub fn sweep(
    to: SocketAddr,
    secret: Option<&Secret>,
    shape: Shape,
    calls: u32,
    stop: &Bell,
) -> Result<Row, RrError> {
    sweep_told(to, secret, shape, calls, &mut Spare::without_end(), stop, &mut |_| {})
}

/// How much longer than 5 s each the calls of all sizes may take together: a server that answers a byte at a time is waited for no longer.
#[derive(Debug, Clone, Copy)]
pub struct Spare {
    all_ns: u64,
    left_ns: u64,
}

impl Spare {
    /// So long.
    pub fn of(time: Span) -> Self {
        Self { all_ns: time.nanos(), left_ns: time.nanos() }
    }

    fn without_end() -> Self {
        Self { all_ns: u64::MAX, left_ns: u64::MAX }
    }
}

/// As [`sweep`], and tells after each call how many were made. What of the spare time was used is taken from it.
pub fn sweep_told(
    to: SocketAddr,
    secret: Option<&Secret>,
    shape: Shape,
    calls: u32,
    spare: &mut Spare,
    stop: &Bell,
    tell: &mut dyn FnMut(usize),
) -> Result<Row, RrError> {
    let mut caller = Caller::new(to, shape)?.with_secret(secret.cloned()).asking_after();
    caller = caller.with_spare(spare.left_ns);
    caller.open(stop)?;
    let handshake_ns = caller.handshake_ns();
    let before = Counters::now();
    let start_ns = monotonic_ns();
    let mut made: Vec<Call> = Vec::new();
    let mut lost = 0;
    let mut failed = None;
    while made.len() < calls as usize && lost < MOST_LOST && !stop.rings() {
        if caller.spare_ns() == 0 && !made.is_empty() {
            let (calls, spare) = (made.len() as u64, Span::from_nanos(spare.all_ns));
            failed = Some(RrError::Slow { to, calls, spare });
            break;
        }
        let call = match caller.call(stop) {
            // It was not lost: nobody waited for its reply.
            Ok(call) if call.lost.is_some() && stop.rings() => break,
            Err(RrError::Stopped) => break,
            // What was measured until then is worth telling.
            Err(error) if !made.is_empty() => {
                failed = Some(gone(to, &made, error));
                break;
            }
            call => call?,
        };
        lost = if call.lost.is_some() { lost + 1 } else { 0 };
        // A connection that had to be made anew says nothing of the one before, nor does one of each call.
        let same = shape.pattern != RrPattern::Connect;
        if let Some(last) = made.last_mut().filter(|last| same && last.lost.is_none()) {
            last.there = call.word.and_then(|word| word.resent);
            let answered = call.latency_ns.is_some() && call.sack;
            last.would_tell = answered && call.dsack_there;
            last.would_tell_there = answered && call.dsack_here;
        }
        made.push(call);
        tell(made.len());
    }
    if made.is_empty() && stop.rings() {
        return Err(RrError::Stopped);
    }
    let span_ns = monotonic_ns().saturating_sub(start_ns).saturating_sub(caller.aside_ns());
    let counted = Counters::now().zip(before).map(|(now, before)| now.since(before));
    // What was sent again in the one before the last may have come twice after the last had begun.
    let open = made.iter().rev().take(2).any(Call::may_have_waited_for_a_timer);
    if let Some(last) = made.last_mut().filter(|_| open && failed.is_none() && !stop.rings()) {
        caller.ask_again(last, stop);
    }
    let controls = match failed {
        Some(_) => ControlCalls::default(),
        None => {
            let other = Caller::new(to, shape)?.with_secret(secret.cloned());
            let mut other = other.with_acks_at_once_there().with_spare(caller.spare_ns());
            let controls = compared(&mut caller, &mut other, shape, &made, span_ns, stop);
            spare.left_ns = caller.spare_ns().min(other.spare_ns());
            controls
        }
    };
    let row = Row::of(shape.size, &made, &controls, span_ns, counted, handshake_ns);
    Ok(Row { failed, ..row })
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
