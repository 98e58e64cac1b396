//! The results of a run as JSON, for other programs.
//!
//! The keys are a promise: they may be joined by more, and don't go away. A value that does not apply is null.

use crate::analysis::{
    Clocks, EchoResult, Lateness, OwnTime, PageResult, Results, Spread, StreamResult, Transit,
};
use quell_model::Manifest;
use quell_model::manifest::ExpectationRecord;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct RunDocument<'a> {
    run: &'a str,
    experiment: &'a str,
    seed: u64,
    complete: bool,
    state: &'static str,
    kernel: Kernel<'a>,
    results: Vec<StreamRow<'a>>,
    warnings: Vec<String>,
    wall_s: Option<f64>,
    virtual_s: Option<f64>,
    expectations: Vec<Expectation<'a>>,
}

/// A line of `expect`, and whether it held.
#[derive(Serialize)]
struct Expectation<'a> {
    expect: &'a str,
    held: bool,
    found: &'a str,
}

impl<'a> Expectation<'a> {
    fn of(record: &'a ExpectationRecord) -> Self {
        let ExpectationRecord { claim, held, found } = record;
        Self { expect: claim, held: *held, found }
    }
}

#[derive(Serialize)]
struct Kernel<'a> {
    backend: &'a str,
    version: &'a str,
    virtual_time: bool,
}

#[derive(Serialize)]
struct StreamRow<'a> {
    scenario: &'a str,
    probe: &'a str,
    stream: &'a str,
    repeat: u32,
    sent: Option<u64>,
    received: Option<u64>,
    received_late: Option<u64>,
    loss_ratio: Option<f64>,
    jitter_ms: Option<f64>,
    rtt_ms: Option<Quantiles>,
    rtt_at_least_ms: Option<Quantiles>,
    rtt_at_most_ms: Option<Quantiles>,
    goodput_mbps: Option<f64>,
    share: Option<f64>,
    jitter_of: Option<&'static str>,
    jitter_up_ms: Option<f64>,
    jitter_down_ms: Option<f64>,
    jitter_rtt_ms: Option<f64>,
    jitter_last_ms: Option<f64>,
    way: Option<&'a str>,
    carried_mbps: Option<f64>,
    cpu_ms_per_mb: Option<f64>,
    flow_from_s: Option<f64>,
    flow_to_s: Option<f64>,
    delays_of_a_minority: Option<bool>,
    lost_up: Option<u64>,
    lost_down: Option<u64>,
    loss_at_least: Option<f64>,
    loss_at_most: Option<f64>,
    unsure: Option<u64>,
    not_sent: Option<u64>,
    errors: Option<u64>,
    duplicates: Option<u64>,
    reordered_up: Option<u64>,
    reordered_down: Option<u64>,
    ipdv_ms: Option<Quantiles>,
    up_ms: Option<Quantiles>,
    down_ms: Option<Quantiles>,
    retransmits: Option<u64>,
    held_back_packets: Option<u64>,
    held_back_s: Option<f64>,
    clock_offset: Option<Offset>,
    late: Option<Late>,
    pages: Option<Pages>,
}

/// Page loads: how many, and the means of those that came to their end.
#[derive(Serialize)]
struct Pages {
    begun: u64,
    loaded: u64,
    doc_ms: Option<f64>,
    paint_ms: Option<f64>,
    fcp_ms: Option<f64>,
    lcp_ms: Option<f64>,
    load_ms: Option<f64>,
    load_sd_ms: Option<f64>,
    each_load_ms: Vec<Option<f64>>,
    protocols: BTreeMap<String, u64>,
    failed_requests: u64,
}

impl Pages {
    fn of(pages: &PageResult) -> Self {
        Self {
            begun: pages.begun(),
            loaded: pages.loaded,
            doc_ms: pages.doc_ms.map(tidy),
            paint_ms: pages.paint_ms.map(tidy),
            fcp_ms: pages.fcp_ms.map(tidy),
            lcp_ms: pages.lcp_ms.map(tidy),
            load_ms: pages.load_ms.map(tidy),
            load_sd_ms: pages.load_sd_ms.map(tidy),
            each_load_ms: pages.loads.iter().map(|load| load.load_ms.map(tidy)).collect(),
            protocols: pages.protocols().into_iter().map(|(p, n)| (p.to_owned(), n)).collect(),
            failed_requests: pages.failed_requests(),
        }
    }
}

/// The other end's clock, where it is not ours.
#[derive(Serialize)]
struct Offset {
    offset_ms: f64,
    bound_ms: f64,
    drift_ppm: f64,
}

impl Offset {
    fn of(clocks: &Clocks) -> Option<Self> {
        let Clocks::Apart { offset, at_ns } = clocks else { return None };
        Some(Self {
            offset_ms: tidy(offset.at(*at_ns) as f64 / 1e6),
            bound_ms: tidy(offset.bound_ns / 1e6),
            drift_ppm: tidy(offset.drift_ppm()),
        })
    }
}

#[derive(Serialize)]
struct Late {
    packets: u64,
    of: u64,
    worst_ms: f64,
}

impl Late {
    fn of(lateness: &Lateness) -> Option<Self> {
        let Lateness { late, of, worst_ns } = *lateness;
        (of > 0).then(|| Self { packets: late, of, worst_ms: tidy(worst_ns as f64 / 1e6) })
    }
}

/// What is not known exactly is null.
#[derive(Serialize)]
struct Quantiles {
    min: Option<f64>,
    mean: Option<f64>,
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Quantiles {
    fn of(figure: impl Fn(fn(&Spread) -> f64) -> Option<f64>) -> Self {
        let figure =
            |of: fn(&Spread) -> f64| figure(of).filter(|value| value.is_finite()).map(tidy);
        Self {
            min: figure(|s| s.min),
            mean: figure(|s| s.mean),
            p50: figure(|s| s.p50),
            p90: figure(|s| s.p90),
            p99: figure(|s| s.p99),
            max: figure(|s| s.max),
        }
    }

    /// Round trips: those that are exact, the least and the most that they can be.
    fn of_rtt(echo: &EchoResult) -> Option<[Self; 3]> {
        echo.rtt_ms.as_ref()?;
        let range = |of: fn(&Spread) -> f64| echo.rtt_range(of);
        Some([
            Self::of(|of| range(of).filter(|(least, most)| least == most).map(|(least, _)| least)),
            Self::of(|of| range(of).map(|(least, _)| least)),
            Self::of(|of| range(of).map(|(_, most)| most)),
        ])
    }
}

impl From<&Spread> for Quantiles {
    fn from(s: &Spread) -> Self {
        Self::of(|of| Some(of(s)))
    }
}

/// A value to 12 digits, far finer than anything is measured: what is left of binary arithmetic (0.30000000000000004) goes.
fn tidy(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

impl<'a> StreamRow<'a> {
    fn of(result: &'a StreamResult) -> Self {
        let (echo, flow) = (result.echo(), result.flow());
        let times = |spread: Option<&Spread>| spread.map(Quantiles::from);
        let [rtt_ms, rtt_at_least_ms, rtt_at_most_ms] =
            echo.and_then(Quantiles::of_rtt).map_or([None, None, None], |times| times.map(Some));
        let part = flow.and_then(|f| match f.time {
            OwnTime::Part(from, to) => Some((from, to)),
            OwnTime::Whole | OwnTime::Never => None,
        });
        Self {
            scenario: &result.cell.scenario,
            probe: &result.cell.probe,
            stream: &result.stream,
            repeat: result.cell.repeat,
            sent: result.sent(),
            received: result.received(),
            received_late: echo.map(|e| e.counts.received_late),
            loss_ratio: result.loss_ratio().map(tidy),
            jitter_ms: echo.and_then(|e| e.jitter_ms()).map(tidy),
            rtt_ms,
            rtt_at_least_ms,
            rtt_at_most_ms,
            goodput_mbps: flow.and_then(|f| f.goodput_mbps).map(tidy),
            share: flow.and_then(|f| f.share).map(tidy),
            jitter_of: echo
                .filter(|e| e.jitter_ms().is_some())
                .map(|e| e.jitter_of)
                .or_else(|| result.jitter_last().map(|(_, of)| of))
                .map(Transit::name),
            jitter_up_ms: echo.and_then(|e| e.jitter_up_ms).map(tidy),
            jitter_down_ms: echo.and_then(|e| e.jitter_down_ms).map(tidy),
            jitter_rtt_ms: echo.and_then(|e| e.jitter_rtt_ms).map(tidy),
            way: flow.and_then(|f| f.way.as_deref()),
            carried_mbps: flow.and_then(|f| f.carried_mbps).map(tidy),
            cpu_ms_per_mb: flow.and_then(|f| f.cpu_ms_per_mb).map(tidy),
            flow_from_s: part.map(|p| tidy(p.0)),
            flow_to_s: part.map(|p| tidy(p.1)),
            delays_of_a_minority: echo.map(|e| e.counts.minority().is_some()),
            jitter_last_ms: result.jitter_last().map(|(ms, _)| tidy(ms)),
            lost_up: result.lost_ways().map(|(up, _)| up),
            lost_down: result.lost_ways().map(|(_, down)| down),
            loss_at_least: result.loss_range().map(|(least, _)| tidy(least)),
            loss_at_most: result.loss_range().map(|(_, most)| tidy(most)),
            unsure: echo.map(|e| e.counts.unsure),
            not_sent: echo.map(|e| e.counts.not_sent),
            errors: echo.map(|e| e.counts.errors),
            duplicates: echo.map(|e| e.counts.duplicates),
            reordered_up: echo.and_then(|e| e.reordered_up),
            reordered_down: echo.and_then(|e| e.reordered_down),
            ipdv_ms: times(echo.and_then(|e| e.ipdv_ms.as_ref())),
            up_ms: times(echo.and_then(|e| e.up_ms.as_ref())),
            down_ms: times(echo.and_then(|e| e.down_ms.as_ref())),
            retransmits: flow.and_then(|f| f.retransmits),
            held_back_packets: flow.and_then(|f| f.held_back).map(|h| h.packets),
            held_back_s: flow.and_then(|f| f.held_back).map(|h| tidy(h.ns as f64 / 1e9)),
            clock_offset: echo.and_then(|e| Offset::of(&e.clocks)),
            late: echo.and_then(|e| Late::of(&e.lateness)),
            pages: result.pages.as_deref().map(Pages::of),
        }
    }
}

/// The words of `quell show --list --json` for how a run came to its end.
fn state(manifest: &Manifest) -> &'static str {
    match manifest.complete {
        true => "complete",
        false if manifest.was_stopped() => "stopped",
        false => "partial",
    }
}

/// Some of the results, as they stand in [`render`]'s `results`.
///
/// # Errors
/// As those of [`render`].
pub fn rows<'a>(
    rows: impl Iterator<Item = &'a StreamResult>,
) -> Result<serde_json::Value, serde_json::Error> {
    serde_json::to_value(rows.map(StreamRow::of).collect::<Vec<_>>())
}

/// The results as a JSON text with a newline at its end.
///
/// # Errors
/// When serde_json refuses, which these types give it no reason to.
pub fn render(manifest: &Manifest, results: &Results) -> Result<String, serde_json::Error> {
    let document = RunDocument {
        run: &manifest.run,
        experiment: &manifest.experiment,
        seed: manifest.seed,
        complete: manifest.complete,
        state: state(manifest),
        kernel: Kernel {
            backend: manifest.kernel.backend.name(),
            version: &manifest.kernel.version,
            virtual_time: manifest.kernel.virtual_time,
        },
        results: results.rows.iter().map(StreamRow::of).collect(),
        warnings: results.warnings(),
        wall_s: manifest.wall_s.map(tidy),
        virtual_s: manifest.virtual_s.map(tidy),
        expectations: manifest.expectations.iter().map(Expectation::of).collect(),
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::tidy;

    #[test]
    fn what_binary_arithmetic_leaves_behind_goes_and_nothing_else() {
        assert_eq!(tidy(0.1 + 0.2), 0.3);
        for value in [0.0, 20.000_032, 1e-9, 123_456.789_012, -0.5, 1.0 / 3.0] {
            assert!((tidy(value) - value).abs() <= value.abs() * 1e-11, "{value}");
        }
        assert!(tidy(f64::NAN).is_nan());
    }
}
