//! What the server did so far, as metrics.

use crate::event::{ServeEvent, TestResult};
use crate::hub::Hub;
use crate::limits::lock;
use quell_metrics::{MetricKind, MetricsPage};
use std::sync::atomic::Ordering;

/// All of these rise only, also by what the log is silent about.
#[derive(Debug, Default)]
pub struct ServeCounts {
    tests: u64,
    calls: u64,
    views: u64,
    refused: u64,
    received_bytes: u64,
    sent_bytes: u64,
}

impl ServeCounts {
    pub fn note(&mut self, event: &ServeEvent) {
        match event {
            ServeEvent::Began { .. } => self.tests += 1,
            ServeEvent::Called { .. } => self.calls += 1,
            ServeEvent::Told { .. } => self.views += 1,
            ServeEvent::Refused { .. } => self.refused += 1,
            _ => {}
        }
    }

    /// A test has ended.
    pub fn moved(&mut self, result: &TestResult) {
        self.received_bytes += result.received_bytes;
        self.sent_bytes += result.sent_bytes;
    }
}

pub fn page(hub: &Hub<'_>) -> MetricsPage {
    use MetricKind::{Counter, Gauge};
    let counts = lock(&hub.counts);
    let mut page = MetricsPage::default();
    let mut put = |name, kind, unit, about, labels: &[(&str, &str)], value: u64| {
        page.family(name, kind, unit, about).sample(labels, value as f64);
    };
    let about = "Clients that are served now: IPv4 addresses, or IPv6 /64.";
    put("quell_serve_clients", Gauge, "", about, &[], hub.served() as u64);
    let about = "Tests and connections of calls that go on now.";
    put("quell_serve_sessions_now", Gauge, "", about, &[], hub.tests() as u64);
    for (kind, value) in [("test", counts.tests), ("calls", counts.calls), ("view", counts.views)] {
        let about = "Tests begun, connections of calls ended, questions how this end sees a path.";
        put("quell_serve_sessions", Counter, "", about, &[("kind", kind)], value);
    }
    let about = "Clients that were refused.";
    put("quell_serve_refusals", Counter, "", about, &[], counts.refused);
    let about = "Payload received in tests that have ended.";
    put("quell_serve_received_bytes", Counter, "bytes", about, &[], counts.received_bytes);
    let about = "Payload sent in tests that have ended.";
    put("quell_serve_sent_bytes", Counter, "bytes", about, &[], counts.sent_bytes);
    let about = "STAMP packets reflected.";
    let reflected = hub.reflected.load(Ordering::Relaxed);
    put("quell_serve_reflected_packets", Counter, "packets", about, &[], reflected);
    page
}
