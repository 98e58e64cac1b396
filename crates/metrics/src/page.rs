//! Families of metrics as text: OpenMetrics 1.0, and Prometheus' text format 0.0.4, which older readers and `promtool check metrics` take.
//!
//! ```text
//!   # TYPE quell_ping_sent_packets counter        of 0.0.4: # TYPE quell_ping_sent_packets_total counter
//!   # UNIT quell_ping_sent_packets packets
//!   # HELP quell_ping_sent_packets Packets sent.
//!   quell_ping_sent_packets_total{stream="a"} 7
//!   # EOF
//! ```

use crate::MetricHistogram;
use quell_wire::text;
use std::fmt::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It never goes back; its samples end in `_total`.
    Counter,
    Gauge,
    Histogram,
    /// Quantiles, computed by us: they can't be added up.
    Summary,
}

impl MetricKind {
    fn word(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::Summary => "summary",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    OpenMetrics,
    /// Version 0.0.4.
    Text,
}

impl MetricsFormat {
    pub fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::OpenMetrics => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
            MetricsFormat::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// All that is told at one moment.
#[derive(Debug, Clone, Default)]
pub struct MetricsPage {
    families: Vec<MetricFamily>,
}

/// Metrics of one name. One without samples is not written.
#[derive(Debug, Clone)]
pub struct MetricFamily {
    name: &'static str,
    kind: MetricKind,
    unit: &'static str,
    about: &'static str,
    samples: String,
}

impl MetricsPage {
    /// The family of this name, which ends in its unit where it has one (`seconds`, `bytes`, else ""); made where it is new.
    pub fn family(
        &mut self,
        name: &'static str,
        kind: MetricKind,
        unit: &'static str,
        about: &'static str,
    ) -> &mut MetricFamily {
        debug_assert!(name.ends_with(unit), "{name} has its unit {unit} at the end");
        let place = self.families.iter().position(|f| f.name == name).unwrap_or_else(|| {
            self.families.push(MetricFamily { name, kind, unit, about, samples: String::new() });
            self.families.len() - 1
        });
        &mut self.families[place]
    }

    pub fn text(&self, format: MetricsFormat) -> String {
        let mut out = String::new();
        for family in self.families.iter().filter(|f| !f.samples.is_empty()) {
            family.put(&mut out, format);
        }
        if format == MetricsFormat::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}

impl MetricFamily {
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let suffix = if self.kind == MetricKind::Counter { "_total" } else { "" };
        self.put_sample(suffix, labels, None, value);
    }

    pub fn histogram(&mut self, labels: &[(&str, &str)], histogram: &MetricHistogram) {
        for (bound, count) in histogram.cumulative() {
            let bound = if bound.is_finite() { format!("{bound:?}") } else { "+Inf".into() };
            self.put_sample("_bucket", labels, Some(("le", &bound)), count as f64);
        }
        self.sum(labels, histogram.sum(), histogram.count());
    }

    /// Values at quantiles from 0 to 1, and the sum and number of all.
    pub fn summary(
        &mut self,
        labels: &[(&str, &str)],
        quantiles: &[(f64, f64)],
        (sum, count): (f64, u64),
    ) {
        for (quantile, value) in quantiles {
            self.put_sample("", labels, Some(("quantile", &quantile.to_string())), *value);
        }
        self.sum(labels, sum, count);
    }

    fn sum(&mut self, labels: &[(&str, &str)], sum: f64, count: u64) {
        self.put_sample("_sum", labels, None, sum);
        self.put_sample("_count", labels, None, count as f64);
    }

    fn put_sample(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        own: Option<(&str, &str)>,
        value: f64,
    ) {
        let labels: Vec<String> = labels.iter().copied().chain(own).map(label).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        // A `String` takes whatever is written.
        let _ = writeln!(self.samples, "{}{suffix}{labels} {value}", self.name);
    }

    fn put(&self, out: &mut String, format: MetricsFormat) {
        let Self { name, unit, about, .. } = self;
        let kind = self.kind.word();
        let is_open = format == MetricsFormat::OpenMetrics;
        let suffix = if !is_open && self.kind == MetricKind::Counter { "_total" } else { "" };
        let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
        if is_open && !unit.is_empty() {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        let _ = writeln!(out, "# HELP {name}{suffix} {about}");
        out.push_str(&self.samples);
    }
}

/// A label whose value may come from elsewhere: it ends neither its line nor its quotes, and commands no terminal.
fn label((key, value): (&str, &str)) -> String {
    let value = text::lines(value).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{key}=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use MetricKind::{Counter, Gauge, Histogram, Summary};

    #[test]
    fn a_page_is_what_each_reader_wants_of_it() {
        let mut page = MetricsPage::default();
        page.family("q_empty", Gauge, "", "Nothing.");
        page.family("q_sent_bytes", Counter, "bytes", "Sent.").sample(&[("to", "a")], 1.0);
        page.family("q_up", Gauge, "", "Up.").sample(&[], 1.0);
        let odd = [("to", "b\\\"\n\u{1b}c")];
        page.family("q_sent_bytes", Counter, "bytes", "Sent.").sample(&odd, 2e15);
        let mut rtt = MetricHistogram::new(&[0.01, 1.0]);
        [0.002, 0.01, 0.3, 7.0].into_iter().for_each(|s| rtt.observe(s));
        page.family("q_rtt_seconds", Histogram, "seconds", "RTT.").histogram(&[], &rtt);
        let quantiles = [(0.5, 2.5)];
        page.family("q_s", Summary, "", "S.").summary(&[("a", "b")], &quantiles, (5.0, 2));
        let open = "# TYPE q_sent_bytes counter\n\
            # UNIT q_sent_bytes bytes\n\
            # HELP q_sent_bytes Sent.\n\
            q_sent_bytes_total{to=\"a\"} 1\n\
            q_sent_bytes_total{to=\"b\\\\\\\"\\n\\\\x1bc\"} 2000000000000000\n\
            # TYPE q_up gauge\n\
            # HELP q_up Up.\n\
            q_up 1\n\
            # TYPE q_rtt_seconds histogram\n\
            # UNIT q_rtt_seconds seconds\n\
            # HELP q_rtt_seconds RTT.\n\
            q_rtt_seconds_bucket{le=\"0.01\"} 2\n\
            q_rtt_seconds_bucket{le=\"1.0\"} 3\n\
            q_rtt_seconds_bucket{le=\"+Inf\"} 4\n\
            q_rtt_seconds_sum 7.312\n\
            q_rtt_seconds_count 4\n\
            # TYPE q_s summary\n\
            # HELP q_s S.\n\
            q_s{a=\"b\",quantile=\"0.5\"} 2.5\n\
            q_s_sum{a=\"b\"} 5\n\
            q_s_count{a=\"b\"} 2\n\
            # EOF\n";
        assert_eq!(page.text(MetricsFormat::OpenMetrics), open);
        let old = open
            .replace("# TYPE q_sent_bytes ", "# TYPE q_sent_bytes_total ")
            .replace("# HELP q_sent_bytes ", "# HELP q_sent_bytes_total ")
            .replace("# UNIT q_sent_bytes bytes\n", "")
            .replace("# UNIT q_rtt_seconds seconds\n", "")
            .replace("# EOF\n", "");
        assert_eq!(page.text(MetricsFormat::Text), old);
    }
}
