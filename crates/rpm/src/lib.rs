//! Responsiveness under working conditions (draft-ietf-ippm-responsiveness), as a client: how often a minute something small goes there and
//! back while the line is full.
//!
//! ```text
//!   /.well-known/nq ──► idle ──► down ──► up           each direction: an interval a second
//!                                 │
//!                                 ├ one connection more that loads, until goodput is stable: of what arrives   ── arrived
//!                                 ├ foreign probes: connect, GET of a byte          ── ask
//!                                 └ within a loaded connection: GET of a byte over HTTP/2 (secure),
//!                                   over HTTP/1.1 TCP's own round-trip time         ── direction
//! ```
//!
//! https is HTTP/2 over TLS, http is HTTP/1.1. There a request can't be put into a connection that is full; the draft lets TCP's estimate stand for it there. It is that of
//! the end that can tell: the sender's, and of a receiver what its kernel makes of the timestamps that come back.

mod arrived;
mod ask;
mod broken;
mod direction;
mod http;
mod kept;
mod limits;
mod plan;
mod secure;
mod trail;

pub use direction::Figures;
pub use http::{RpmError, post};
pub use kept::save;
pub use plan::{LoadDirection, RpmPlan};
pub use trail::{Carried, ProbeKind, ProbeReturn, Trail};

use crate::limits::LIMITS;
use ask::ForeignProbe;
use quell_grade::{Assessment, LoadedDelay};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use quell_web::rpm::{Confidence, word};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RpmReport {
    /// Milliseconds of a connection's handshake on an idle line, the median of ten.
    pub idle_tcp_ms: f64,
    /// A round trip of the handshake of TLS; none without TLS.
    pub idle_tls_ms: Option<f64>,
    pub idle_http_ms: f64,
    pub down: Option<Figures>,
    pub up: Option<Figures>,
    #[serde(skip)]
    pub trail: Trail,
}

impl RpmReport {
    /// Round trips per minute: the worse direction's; none where one that was measured has no figure, since that might be the worse.
    pub fn rpm(&self) -> Option<f64> {
        let measured = [&self.down, &self.up].into_iter().flatten();
        let figures: Option<Vec<f64>> =
            measured.map(|figures| figures.responsiveness.map(|r| r.rpm)).collect();
        figures?.into_iter().reduce(f64::min)
    }

    /// Whether that is at most so many: one that is may be any less, also less than the other direction's.
    pub fn is_at_most(&self) -> bool {
        let measured = [&self.down, &self.up].into_iter().flatten();
        measured.filter_map(|figures| figures.responsiveness).any(|r| r.at_most)
    }
}

pub fn sure(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "stable",
        Confidence::Medium => "not stable in the time there was",
        Confidence::Low => "too short to say",
    }
}

#[derive(Debug, Serialize)]
pub struct RpmDocument<'a> {
    server: &'a str,
    address: SocketAddr,
    rpm: Option<f64>,
    at_most: bool,
    word: Option<&'static str>,
    grade: Option<Assessment>,
    tls: bool,
    #[serde(flatten)]
    report: &'a RpmReport,
    /// The folder of the run that was kept.
    run: Option<&'a Path>,
}

impl RpmReport {
    /// How well a call, a game and a page work beside the load that does most harm, by how long connections take; none of too few.
    pub fn grade(&self) -> Option<Assessment> {
        let of = |(way, figures): (LoadDirection, &Option<Figures>)| {
            let figures = figures.as_ref()?;
            let probes = self.trail.probes.iter();
            let own = probes.filter(|p| p.way == Some(way) && p.asked == ProbeKind::Connection);
            let times = quell_stats::Sample::new(own.map(|probe| probe.ms))?;
            Assessment::of(&LoadedDelay {
                idle_ms: self.idle_tcp_ms,
                p50_ms: times.median(),
                p95_ms: times.quantile(0.95)?,
                // A handshake that was lost comes a second later.
                loss: 0.0,
                least_loss: 0.0,
                jitter_ms: None,
                samples: times.count(),
                load: format!("beside a full {}load", way.name()),
                connections: figures.connections as u32,
                seconds: figures.intervals as f64,
            })
        };
        let ways = [(LoadDirection::Down, &self.down), (LoadDirection::Up, &self.up)];
        ways.into_iter().filter_map(of).max_by(|a, b| a.added_ms.total_cmp(&b.added_ms))
    }

    /// What is said first, a sentence each.
    pub fn opening(&self) -> Vec<String> {
        self.grade().map(|grade| grade.said()).into_iter().chain(self.headline()).collect()
    }

    /// The figure, its word, and which direction it may not be true of.
    pub fn headline(&self) -> Option<String> {
        let rpm = self.rpm()?;
        let most = if self.is_at_most() { "at most " } else { "" };
        let doubt = |(name, figures): (&str, &Option<Figures>)| {
            let figures = figures.as_ref()?;
            let doubt = sure(figures.confidence.min(figures.goodput_confidence));
            (doubt != sure(Confidence::High)).then(|| format!("{name}: {doubt}"))
        };
        let doubts: Vec<String> =
            [("down", &self.down), ("up", &self.up)].into_iter().filter_map(doubt).collect();
        let doubts = match doubts.is_empty() {
            true => String::new(),
            false => format!(" ({})", doubts.join("; ")),
        };
        let word = word(rpm);
        Some(format!("{most}{rpm:.0} round trips a minute while the line is full: {word}{doubts}."))
    }

    pub fn document<'a>(&'a self, plan: &'a RpmPlan, run: Option<&'a Path>) -> RpmDocument<'a> {
        RpmDocument {
            server: &plan.authority,
            address: plan.to,
            rpm: self.rpm(),
            at_most: self.is_at_most(),
            word: self.rpm().map(word),
            grade: self.grade(),
            tls: self.idle_tls_ms.is_some(),
            report: self,
            run,
        }
    }
}

/// Measures; `tell` hears after each interval.
pub fn measure(
    plan: &RpmPlan,
    stop: &Bell,
    tell: &mut dyn FnMut(LoadDirection, &Figures),
) -> Result<RpmReport, RpmError> {
    let at = ask::target(plan, stop)?;
    let mut trail = Trail::begin();
    let mut idle: Vec<ForeignProbe> = Vec::with_capacity(LIMITS.idle);
    for _ in 0..LIMITS.idle {
        let began_ns = monotonic_ns();
        let probe = ask::probe(&at, stop)?.answered()?;
        trail.foreign(None, began_ns, &probe);
        idle.push(probe);
    }
    let mut outcome = RpmReport {
        idle_tcp_ms: median(idle.iter().map(|p| p.tcp_ms)),
        idle_tls_ms: quell_stats::median(&idle.iter().filter_map(|p| p.tls_ms).collect::<Vec<_>>()),
        idle_http_ms: median(idle.iter().map(|p| p.http_ms)),
        down: None,
        up: None,
        trail,
    };
    let trail = &mut outcome.trail;
    outcome.down =
        Some(direction::measure(LoadDirection::Down, &at, plan.most, stop, tell, trail)?);
    if !stop.rings() {
        // The one before has left its queue by now or soon: what an idle line takes is waited for.
        direction::drain(&at, outcome.idle_http_ms, stop)?;
        outcome.up =
            Some(direction::measure(LoadDirection::Up, &at, plan.most, stop, tell, trail)?);
    }
    Ok(outcome)
}

fn median(all: impl Iterator<Item = f64>) -> f64 {
    // There are ten of each.
    quell_stats::median(&all.collect::<Vec<_>>()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_web::rpm::Responsiveness;

    #[test]
    fn a_direction_without_a_figure_might_be_the_worse_one() {
        let way = |rpm: Option<f64>| {
            let responsiveness = rpm.map(|rpm| Responsiveness {
                rpm,
                foreign_rpm: rpm,
                loaded_rpm: rpm,
                tcp_ms: 1.0,
                tls_ms: None,
                http_ms: 1.0,
                loaded_ms: 1.0,
                at_most: false,
            });
            Some(Figures {
                bits_per_second: 0.0,
                goodput_confidence: Confidence::Low,
                responsiveness,
                confidence: Confidence::Low,
                connections: 2,
                foreign_probes: 0,
                self_probes: 0,
                unanswered: 0,
                waited_s: None,
                intervals: 4,
                broke: None,
            })
        };
        let report = |down, up| {
            let (idle_tls_ms, trail) = (None, Trail::begin());
            RpmReport { idle_tcp_ms: 1.0, idle_tls_ms, idle_http_ms: 1.0, down, up, trail }
        };
        let rpm = |down, up| report(down, up).rpm();
        let stable = way(Some(3000.0)).map(|figures| Figures {
            confidence: Confidence::High,
            goodput_confidence: Confidence::High,
            ..figures
        });
        let said = report(stable, way(Some(2362.0))).headline().unwrap();
        assert!(said.ends_with("good (up: too short to say)."), "{said}");
        assert_eq!(rpm(way(Some(3000.0)), way(Some(200.0))), Some(200.0));
        assert_eq!(rpm(way(Some(3000.0)), None), Some(3000.0), "stopped before the other");
        assert_eq!([rpm(way(Some(3000.0)), way(None)), rpm(way(None), way(Some(2.0)))], [None; 2]);
    }
}
