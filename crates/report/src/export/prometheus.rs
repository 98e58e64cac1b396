//! Results of a run as metrics, in words that both Prometheus' text format (0.0.4) and OpenMetrics read: base units, no times of samples.
//!
//! A run is over, so that its counts are gauges and no counters: they never rise.

use crate::analysis::{Results, Spread, StreamResult};
use quell_metrics::{MetricKind, MetricsFormat, MetricsPage};
use quell_model::Manifest;

/// Of one value of a stream, beside those of the stream.
type Labels = &'static [(&'static str, &'static str)];

/// A metric: its name, which ends in its unit; the unit, what it is, and its values of a stream with labels of their own.
type StreamMetric =
    (&'static str, &'static str, &'static str, fn(&StreamResult) -> Vec<(Labels, f64)>);

fn plain(value: Option<f64>) -> Vec<(Labels, f64)> {
    value.map(|value| (&[][..], value)).into_iter().collect()
}

fn count(value: Option<u64>) -> Vec<(Labels, f64)> {
    plain(value.map(|value| value as f64))
}

/// Of a stream of packets: a page is none.
fn packets<T>(r: &StreamResult, of: impl Fn(&StreamResult) -> Option<T>) -> Option<T> {
    if r.pages.is_some() { None } else { of(r) }
}

const GAUGES: [StreamMetric; 13] = [
    ("quell_loss_ratio", "ratio", "Packets lost, as a part of those sent.", |r| {
        plain(packets(r, StreamResult::loss_ratio))
    }),
    ("quell_packets_sent", "", "Packets sent.", |r| count(packets(r, StreamResult::sent))),
    ("quell_packets_received", "", "Packets received or answered.", |r| {
        count(packets(r, StreamResult::received))
    }),
    (
        "quell_jitter_seconds",
        "seconds",
        "Mean difference of the delay from packet to packet (RFC 3550).",
        |r| {
            let Some(echo) = r.echo() else { return Vec::new() };
            let ways = [
                (&[("direction", "up")][..], echo.jitter_up_ms),
                (&[("direction", "down")][..], echo.jitter_down_ms),
                (&[("direction", "round-trip")][..], echo.jitter_rtt_ms),
            ];
            ways.into_iter().filter_map(|(label, ms)| Some((label, ms? / 1e3))).collect()
        },
    ),
    (
        "quell_goodput_bytes_per_second",
        "bytes_per_second",
        "Payload that arrived, per second of the flow's own time.",
        |r| plain(r.flow().and_then(|f| f.goodput_mbps).map(|mbps| mbps * 1e6 / 8.0)),
    ),
    ("quell_share_ratio", "ratio", "Part of all that went over the same line.", |r| {
        plain(r.flow().and_then(|f| f.share))
    }),
    ("quell_retransmits", "", "TCP segments sent again.", |r| {
        count(r.flow().and_then(|f| f.retransmits))
    }),
    ("quell_reordered", "", "Packets whose answers came after one to a later packet.", |r| {
        count(r.echo().map(|e| e.reordered))
    }),
    ("quell_pages_begun", "", "Page loads that were begun and had their time.", |r| {
        count(r.pages.as_ref().map(|p| p.begun()))
    }),
    ("quell_pages_loaded", "", "Page loads that came to their end.", |r| {
        count(r.pages.as_ref().map(|p| p.loaded))
    }),
    (
        "quell_page_seconds",
        "seconds",
        "Mean time from the start of a page load to a mark of it, of the loads that came to their end.",
        |r| {
            let Some(pages) = &r.pages else { return Vec::new() };
            let marks = [
                (&[("mark", "doc")][..], pages.doc_ms),
                (&[("mark", "paint")][..], pages.paint_ms),
                (&[("mark", "fcp")][..], pages.fcp_ms),
                (&[("mark", "lcp")][..], pages.lcp_ms),
                (&[("mark", "load")][..], pages.load_ms),
            ];
            marks.into_iter().filter_map(|(label, ms)| Some((label, ms? / 1e3))).collect()
        },
    ),
    (
        "quell_page_load_deviation_seconds",
        "seconds",
        "Standard deviation of the time until all of a page was there.",
        |r| plain(r.pages.as_ref().and_then(|p| p.load_sd_ms).map(|ms| ms / 1e3)),
    ),
    (
        "quell_page_failed_requests",
        "",
        "Requests that failed within page loads that came to their end.",
        |r| count(r.pages.as_ref().map(|p| p.failed_requests())),
    ),
];

/// Delays: name, what it is, its values in milliseconds.
type Delay = (&'static str, &'static str, fn(&StreamResult) -> Option<&Spread>);

const SUMMARIES: [Delay; 3] = [
    ("quell_rtt_seconds", "Round-trip time of packets that were answered.", |r| {
        r.echo()?.rtt_ms.as_ref()
    }),
    ("quell_one_way_up_seconds", "One-way delay to the reflector.", |r| r.echo()?.up_ms.as_ref()),
    ("quell_one_way_down_seconds", "One-way delay back.", |r| r.echo()?.down_ms.as_ref()),
];

pub fn prometheus(manifest: &Manifest, results: &Results) -> String {
    let mut page = MetricsPage::default();
    let seed = manifest.seed.to_string();
    let info = [
        ("run", &*manifest.run),
        ("experiment", &*manifest.experiment),
        ("quell", &*manifest.quell),
        ("kernel", &*manifest.kernel.version),
        ("backend", manifest.kernel.backend.name()),
        ("seed", &*seed),
    ];
    let about = "What was run; always 1.";
    page.family("quell_run_info", MetricKind::Gauge, "", about).sample(&info, 1.0);
    for (name, about, of) in SUMMARIES {
        for row in &results.rows {
            let Some(s) = of(row) else { continue };
            let quantiles = [(0.5, s.p50 / 1e3), (0.9, s.p90 / 1e3), (0.99, s.p99 / 1e3)];
            let all = (s.mean * s.n as f64 / 1e3, s.n as u64);
            let family = page.family(name, MetricKind::Summary, "seconds", about);
            with_labels(manifest, row, &[], |labels| family.summary(labels, &quantiles, all));
        }
    }
    for (name, unit, about, of) in GAUGES {
        for row in &results.rows {
            for (own, value) in of(row) {
                let family = page.family(name, MetricKind::Gauge, unit, about);
                with_labels(manifest, row, own, |labels| family.sample(labels, value));
            }
        }
    }
    page.text(MetricsFormat::OpenMetrics)
}

fn with_labels(
    manifest: &Manifest,
    row: &StreamResult,
    own: &[(&str, &str)],
    then: impl FnOnce(&[(&str, &str)]),
) {
    let cell = &row.cell;
    let repeat = cell.repeat.to_string();
    let of_row = [
        ("run", &*manifest.run),
        ("scenario", &*cell.scenario),
        ("probe", &*cell.probe),
        ("stream", &*row.stream),
        ("repeat", &*repeat),
    ];
    then(&[&of_row, own].concat());
}
