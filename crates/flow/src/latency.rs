//! How long a small packet takes, first over the idle path, then beside the load.
//!
//! ```text
//!   STAMP to the server's UDP port   where a Quell answers there
//!   ICMP echo                        otherwise
//!   nothing, and why                 where ICMP is not allowed
//! ```

use crate::Plan;
use quell_model::task::{PingStream, UdpEcho};
use quell_model::{EchoSample, EchoStatus, Event};
use quell_probe::{Options, Ping, ProbeError, UdpEchoClient};
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wait::Bell;
use quell_units::{Span, Tos};
use serde::Serialize;
use std::sync::{Mutex, PoisonError};

/// The name of the stream in events and runs.
pub const STREAM: &str = "latency";

const IDLE: Span = Span::from_millis(1000);
const IDLE_EVERY: Span = Span::from_millis(25);
const LOADED_EVERY: Span = Span::from_millis(50);
/// How long the last replies are awaited.
const LINGER: Span = Span::from_millis(1000);
/// What asks whether a Quell is there.
const KNOCKS: u64 = 2;
const KNOCK_EVERY: Span = Span::from_millis(10);
const KNOCK_LINGER: Span = Span::from_millis(600);
/// Payload of each packet in bytes.
const SIZE: u32 = 56;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// STAMP over UDP (RFC 8762).
    Stamp,
    /// ICMP echo.
    Icmp,
}

impl Method {
    /// As in text.
    pub fn name(self) -> &'static str {
        match self {
            Method::Stamp => "STAMP over UDP",
            Method::Icmp => "ICMP",
        }
    }
}

/// Round-trip times of small packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Packets that were answered or lost.
    pub sent: usize,
    /// Those that were not answered.
    pub lost: usize,
    /// Least, in milliseconds.
    pub min_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 90 of 100 were at most this.
    pub p90_ms: f64,
    /// 99 of 100 were at most this.
    pub p99_ms: f64,
    /// Most.
    pub max_ms: f64,
}

impl Spread {
    /// Of these packets; none where not one was answered.
    pub fn of(samples: &[EchoSample]) -> Option<Self> {
        let times = samples
            .iter()
            .filter(|s| s.status == EchoStatus::Ok)
            .filter_map(|s| Some(s.rtt_ns? as f64 / 1e6));
        let sample = quell_stats::Sample::new(times)?;
        let at = |p| sample.quantile(p).unwrap_or(f64::NAN);
        let lost = samples.iter().filter(|s| s.status.is_lost()).count();
        Some(Self {
            sent: sample.count() + lost,
            lost,
            min_ms: sample.min(),
            p50_ms: sample.median(),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            max_ms: sample.max(),
        })
    }
}

/// Latency without and with load.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latency {
    /// What was sent; none where nothing could be.
    pub method: Option<Method>,
    /// Why nothing was measured.
    pub note: Option<String>,
    /// Over the idle path.
    pub idle: Vec<EchoSample>,
    /// Beside the load.
    pub loaded: Vec<EchoSample>,
}

/// Measures the idle path, and finds out with what.
pub(crate) fn idle(plan: &Plan, stop: &Bell) -> Latency {
    let mut latency = Latency::default();
    let mut why = None;
    // A plain iperf3 has nobody at its UDP port.
    if !plan.plain && !knock(plan, stop).is_empty() {
        latency.method = Some(Method::Stamp);
    } else if !stop.rings() {
        latency.method = Some(Method::Icmp);
    }
    if let Some(method) = latency.method {
        let window = window(monotonic_ns(), IDLE);
        match run(plan, method, &window, IDLE_EVERY, LINGER, None, stop) {
            Ok(samples) => latency.idle = samples,
            Err(error) => why = Some(error),
        }
    }
    if let Some(error) = why {
        latency.method = None;
        latency.note = Some(format!("latency was not measured: {error}"));
    } else if Spread::of(&latency.idle).is_none() {
        latency.method = None;
        latency.note = Some("latency was not measured: the server answers no pings".into());
    }
    latency
}

/// Measures beside the load until the bell rings.
pub(crate) fn loaded(
    plan: &Plan,
    method: Method,
    window: &Window,
    stop: &Bell,
) -> Result<Vec<EchoSample>, ProbeError> {
    run(plan, method, window, LOADED_EVERY, LINGER, None, stop)
}

fn knock(plan: &Plan, stop: &Bell) -> Vec<EchoSample> {
    let window = window(monotonic_ns(), IDLE);
    let found = run(plan, Method::Stamp, &window, KNOCK_EVERY, KNOCK_LINGER, Some(KNOCKS), stop);
    let mut found = found.unwrap_or_default();
    found.retain(|sample| sample.status == EchoStatus::Ok);
    found
}

fn window(start_ns: u64, most: Span) -> Window {
    Window { origin_ns: start_ns, start_ns, duration_ns: most.nanos() }
}

fn run(
    plan: &Plan,
    method: Method,
    window: &Window,
    interval: Span,
    linger: Span,
    count: Option<u64>,
    stop: &Bell,
) -> Result<Vec<EchoSample>, ProbeError> {
    let options = Options { count, way: plan.way.clone() };
    // Of the class of the flow: that queue is what matters.
    let tos = Tos::from_byte(plan.tos & !3);
    let samples = Mutex::new(Vec::new());
    let emit = |event: Event| {
        if let Event::Echo { samples: more, .. } = event {
            samples.lock().unwrap_or_else(PoisonError::into_inner).extend(more);
        }
    };
    match method {
        Method::Stamp => {
            let echo =
                UdpEcho { stream: STREAM.into(), to: plan.to, interval, size: SIZE, tos, linger };
            UdpEchoClient::open(&[(echo, options)], 1)?.run(window, stop, &emit)?;
        }
        Method::Icmp => {
            let ping = PingStream {
                stream: STREAM.into(),
                to: plan.to.ip(),
                interval,
                size: SIZE,
                tos,
                linger,
            };
            Ping::open(&[(ping, options)], 1)?.run(window, stop, &emit)?;
        }
    }
    let mut samples = samples.into_inner().unwrap_or_else(PoisonError::into_inner);
    samples.sort_by_key(|sample| sample.t_ns);
    Ok(samples)
}
