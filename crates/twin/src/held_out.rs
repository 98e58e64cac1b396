//! Loads that no step of learning has: what they get of a line, and how long pings wait beside them; on the line itself and through its twin.

use crate::schedule::{TwinError, pings};
use quell_flow::latency::RttSummary;
use quell_flow::{Amount, FlowPlan, FlowReport, Senders};
use quell_policy::FRAME;
use quell_series::MeasuredLine;
use quell_series::measured_line::{Estimate, MeasuredDirection, Property};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use quell_units::{Buffer, Span};
use serde::{Deserialize, Serialize};
use std::thread;

const PING_EVERY: Span = Span::from_millis(25);
/// A page: so many connections bring so many bytes.
const PAGE: (u32, u64) = (6, 300_000);
/// What the design allows a twin: shares of goodput and of delay.
const ALLOWED: (f64, f64) = (0.03, 0.10);

/// What a load got, in Mbit/s of payload, and the round trips of pings beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadFigures {
    pub load: String,
    pub up: bool,
    pub mbps: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
}

/// A figure of the line beside its twin's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub load: String,
    pub up: bool,
    pub figure: &'static str,
    pub measured: f64,
    pub twin: f64,
    /// Shares of what was measured.
    pub error: f64,
    pub allowed: f64,
}

/// Each load by itself, for the plan's time; the single flows with its congestion control. `tell` hears the load and the seconds left.
pub fn measure(
    plan: &FlowPlan,
    time: Span,
    stop: &Bell,
    tell: &mut dyn FnMut(&str, f64),
) -> Result<Vec<LoadFigures>, TwinError> {
    let (one, eight) = (plan.congestion.join(","), "cubic".to_owned());
    let mut loads = Vec::new();
    let wanted = [
        (format!("one {one} flow up"), &one, 1, Senders::Up, Amount::Time(time)),
        (format!("one {one} flow down"), &one, 1, Senders::Down, Amount::Time(time)),
        ("eight cubic flows up".to_owned(), &eight, 8, Senders::Up, Amount::Time(time)),
        ("eight cubic flows down".to_owned(), &eight, 8, Senders::Down, Amount::Time(time)),
        ("pages of 300 kB down".to_owned(), &eight, PAGE.0, Senders::Down, Amount::Bytes(PAGE.1)),
    ];
    let count = wanted.len();
    for (load, congestion, streams, direction, amount) in wanted {
        tell(&load, (count - loads.len()) as f64 * time.as_secs_f64());
        let plan = FlowPlan {
            direction,
            streams,
            amount,
            congestion: vec![congestion.clone()],
            // The server's reports are traffic, too.
            interval: Span::from_secs(10),
            latency: false,
            ..plan.clone()
        };
        loads.push(measure_one(load, &plan, time, stop)?);
    }
    Ok(loads)
}

/// A load, again and again until its time is over, and pings beside it.
fn measure_one(
    load: String,
    plan: &FlowPlan,
    time: Span,
    stop: &Bell,
) -> Result<LoadFigures, TwinError> {
    let up = plan.direction == Senders::Up;
    let end_ns = monotonic_ns() + time.nanos();
    let mut goodputs = Vec::new();
    let seen = thread::scope(|scope| {
        let pings = scope.spawn(|| pings(plan.to, time, PING_EVERY, stop));
        while !stop.rings() && (goodputs.is_empty() || monotonic_ns() < end_ns) {
            let measured = quell_flow::run(plan, stop, &mut |_| ())?;
            let report = FlowReport::of(&measured);
            report.verdict(&measured).map_err(|why| TwinError::Broke("a load", why))?;
            let way = if up { report.up } else { report.down };
            let arrived = way.and_then(|way| Some((way.received_bytes?, way.seconds?)));
            let unknown = || TwinError::Broke("a load", "how much arrived is unknown".into());
            let (bytes, seconds) = arrived.ok_or_else(unknown)?;
            goodputs.push(bytes as f64 * 8e-6 / seconds);
        }
        pings.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let pings = RttSummary::of(&seen).ok_or(TwinError::Silent(plan.to))?;
    // Of many pages a few lost their last packet and waited for a timeout: chance.
    let mbps = quell_stats::median(&goodputs).ok_or(TwinError::Stopped)?;
    Ok(LoadFigures { load, up, mbps, p50_ms: pings.p50_ms, p95_ms: pings.p95_ms })
}

/// Half of what a property can be, as a share of its value; nothing where it is unknown.
fn half<T: Copy>(property: &Option<Property<T>>, number: impl Fn(T) -> f64) -> f64 {
    let estimate = property.as_ref().and_then(Property::estimate);
    let Some(Estimate { value, low: Some(low), high: Some(high), .. }) = estimate else {
        return 0.0;
    };
    let [value, low, high] = [value, low, high].map(|it| number(*it));
    if value > 0.0 { (high - low) / value / 2.0 } else { 0.0 }
}

/// Of each load goodput and delays: what was measured beside what the twin says. It may err by the design's bars, by what the line's bounds leave
/// open, and by a packet's time in each direction: pings wait for one, or just do not. TCP's rate falls with the root of the losses (Mathis et al.,
/// 1997): half of what their share can be counts.
pub fn compare(
    line: &MeasuredLine,
    measured: &[LoadFigures],
    twin: &[LoadFigures],
) -> Vec<Comparison> {
    let packet_ms = |way: &MeasuredDirection| {
        way.passes().map_or(0.0, |rate| rate.time_for(FRAME).as_millis_f64())
    };
    let packets_ms = packet_ms(&line.up) + packet_ms(&line.down);
    let mut all = Vec::new();
    for (real, said) in measured.iter().zip(twin) {
        let way = if real.up { &line.up } else { &line.down };
        let rate = half(&way.rate, |rate| rate.bps() as f64)
            .max(half(&way.police_rate, |rate| rate.bps() as f64));
        let rate = rate + half(&way.loss, |loss| loss.as_f64()) / 2.0;
        let buffer = half(&way.buffer, |buffer| match buffer {
            Buffer::Packets(count) => f64::from(count),
            Buffer::Bytes(bytes) => bytes.get() as f64,
        });
        let delay = |ms: f64| ALLOWED.1 + rate + buffer + packets_ms / ms;
        for (figure, measured, twin, allowed) in [
            ("goodput, Mbit/s", real.mbps, said.mbps, ALLOWED.0 + rate),
            ("delay p50, ms", real.p50_ms, said.p50_ms, delay(real.p50_ms)),
            ("delay p95, ms", real.p95_ms, said.p95_ms, delay(real.p95_ms)),
        ] {
            let (load, up, error) = (real.load.clone(), real.up, twin / measured - 1.0);
            all.push(Comparison { load, up, figure, measured, twin, error, allowed });
        }
    }
    all
}

impl Comparison {
    pub fn errs(&self) -> bool {
        self.error.abs() > self.allowed && !self.is_open()
    }

    /// The line's bounds are so wide that any twin would do.
    pub fn is_open(&self) -> bool {
        self.allowed >= 1.0
    }
}

/// Whether the twin holds, in a sentence: what of the line is wrong where it does not.
pub fn verdict(all: &[Comparison]) -> String {
    let wrong = || all.iter().filter(|one| one.errs());
    let open = all.iter().filter(|one| one.is_open()).count();
    let has = |up: bool, goodput: bool| {
        wrong().any(|one| one.up == up && one.figure.starts_with("goodput") == goodput)
    };
    let what = [("up", true), ("down", false)].into_iter().filter_map(|(way, up)| {
        match (has(up, true), has(up, false)) {
            (true, _) => Some(format!("the rate {way}")),
            (_, true) => Some(format!("the buffer or the delay {way}")),
            _ => None,
        }
    });
    let (what, all) = (what.collect::<Vec<_>>().join(", "), all.len());
    match wrong().count() {
        0 if open > 0 => format!(
            "Whether the twin holds is unknown: the bounds of the line are so wide that {open} of {all} figures could be anything. Learn it again, with a larger --budget."
        ),
        0 => format!("The twin holds: all {all} figures are within what it allows."),
        count => format!("The twin errs in {count} of {all} figures: {what} is not the line's."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(up: bool, mbps: f64, ms: f64) -> LoadFigures {
        LoadFigures { load: "a load".into(), up, mbps, p50_ms: ms, p95_ms: ms }
    }

    #[test]
    fn what_is_unsure_of_losses_may_change_what_tcp_gets() {
        let line = MeasuredLine::parse(
            "version = 1\n[up]\nloss = { value = 0.005, low = 0.004, high = 0.006 }\n",
        );
        let all = compare(
            &line.expect("a line"),
            &[figures(true, 10.0, 50.0)],
            &[figures(true, 9.0, 50.0)],
        );
        // 3 % and half of 20 %.
        assert!(!all[0].errs() && (all[0].allowed - 0.13).abs() < 1e-9, "{all:?}");
    }

    #[test]
    fn bounds_that_allow_anything_tell_nothing() {
        let line = MeasuredLine::parse(
            "version = 1\n[up]\nrate = { value = \"9 Mbit/s\", low = \"1 kbit/s\", high = \"44 Mbit/s\" }\n",
        );
        let all = compare(
            &line.expect("a line"),
            &[figures(true, 10.0, 50.0)],
            &[figures(true, 5.0, 50.0)],
        );
        assert!(!all[0].errs() && verdict(&all).contains("is unknown"), "{all:?}");
    }

    #[test]
    fn a_twin_may_err_by_its_bounds_and_is_told_what_it_has_wrong() {
        let line = MeasuredLine::parse(
            "version = 1\n[up]\nrate = { value = \"10 Mbit/s\", low = \"9.8 Mbit/s\", high = \"10.2 Mbit/s\" }\n\
             [down]\nrate = { value = \"50 Mbit/s\" }\nbuffer = { value = \"100 kB\", low = \"80 kB\", high = \"120 kB\" }\n",
        )
        .expect("a line");
        let measured = [figures(true, 9.5, 100.0), figures(false, 48.0, 50.0)];
        let told = |twin: [LoadFigures; 2]| verdict(&compare(&line, &measured, &twin));
        // 5 % of goodput up, 3 % down; of delay 12 % and a packet up, 30 % down.
        let near = told([figures(true, 9.97, 112.0), figures(false, 46.7, 64.0)]);
        assert_eq!(near, "The twin holds: all 6 figures are within what it allows.");
        let far = told([figures(true, 10.1, 114.0), figures(false, 48.0, 70.0)]);
        assert_eq!(
            far,
            "The twin errs in 5 of 6 figures: the rate up, the buffer or the delay down is not the line's."
        );
    }
}
