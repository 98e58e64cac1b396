//! Responsiveness under working conditions (draft-ietf-ippm-responsiveness), as a client: how often a minute something small goes there and
//! back while the line is full.
//!
//! ```text
//!   /.well-known/nq ──► idle ──► down ──► up           each direction: an interval a second
//!                                 │
//!                                 ├ one connection more that loads, until goodput is stable
//!                                 ├ foreign probes: connect, GET of a byte          ── http
//!                                 └ within a loaded connection: TCP's own round-trip time   ── direction
//! ```
//!
//! Over HTTP/1.1 a request can't be put into a connection that is full; the draft lets TCP's estimate stand for it there. It is that of
//! the end that can tell: the sender's, and of a receiver what its kernel makes of the timestamps that come back.

mod direction;
mod http;
mod plan;

pub use direction::{Figures, Way};
pub use http::{RpmError, post};
pub use plan::RpmPlan;

use http::ForeignProbe;
use quell_sys::wait::Bell;
use serde::Serialize;

/// Requests of an idle line.
const IDLE: usize = 10;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Milliseconds of a connection's handshake on an idle line, the median of ten.
    pub idle_tcp_ms: f64,
    /// Of a request on a new connection.
    pub idle_http_ms: f64,
    /// While the server sends.
    pub down: Option<Figures>,
    /// While this end sends.
    pub up: Option<Figures>,
}

impl Outcome {
    /// Round trips per minute: the worse direction's.
    pub fn rpm(&self) -> Option<f64> {
        let of = |figures: &Option<Figures>| figures.as_ref()?.responsiveness.map(|r| r.rpm);
        [of(&self.down), of(&self.up)].into_iter().flatten().reduce(f64::min)
    }
}

/// Measures; `tell` hears after each interval.
///
/// # Errors
/// When the server can't be reached, is none of the draft's, or breaks off before a direction has a figure.
pub fn measure(
    plan: &RpmPlan,
    stop: &Bell,
    tell: &mut dyn FnMut(Way, &Figures),
) -> Result<Outcome, RpmError> {
    let config = http::config(plan, stop)?;
    let at = http::Target::of(plan, &config)?;
    let idle: Vec<ForeignProbe> =
        (0..IDLE).map(|_| http::probe(&at, stop)).collect::<Result<_, _>>()?;
    let mut outcome = Outcome {
        idle_tcp_ms: median(idle.iter().map(|p| p.tcp_ms)),
        idle_http_ms: median(idle.iter().map(|p| p.http_ms)),
        down: None,
        up: None,
    };
    outcome.down = Some(direction::measure(Way::Down, &at, plan.most, stop, tell)?);
    if !stop.rings() {
        // The one before has left its queue by now or soon: what an idle line takes is waited for.
        direction::drain(&at, outcome.idle_http_ms, stop)?;
        outcome.up = Some(direction::measure(Way::Up, &at, plan.most, stop, tell)?);
    }
    Ok(outcome)
}

fn median(all: impl Iterator<Item = f64>) -> f64 {
    // There are ten of each.
    quell_stats::median(&all.collect::<Vec<_>>()).unwrap_or(0.0)
}
