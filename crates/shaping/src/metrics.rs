//! What is in force as metrics, in words that both Prometheus' text format and OpenMetrics read.
//!
//! ```text
//!   quell_shape_in_order{device="wan"} 1
//!   quell_shape_sent_bytes_total{device="wan",direction="down",host="laptop",tier="normal"} 814000
//!       a line for each smallest part: sums over host and tier are right; CAKE tells tiers up and nobody's host
//! ```

use crate::class_report::LineClass;
use crate::follow::{FollowedDirection, word};
use crate::status::{QueueStatus, StatusEntry};
use quell_metrics::{MetricKind, MetricsFormat, MetricsPage};
use std::collections::BTreeSet;

/// Name, kind, unit, meaning, value of a part.
type PartFamily =
    (&'static str, MetricKind, &'static str, &'static str, fn(&LineClass) -> Option<f64>);

const FAMILIES: [PartFamily; 7] = [
    ("quell_shape_sent_bytes", MetricKind::Counter, "bytes", "Bytes sent, with headers.", |p| {
        Some(p.sent_bytes as f64)
    }),
    ("quell_shape_sent_packets", MetricKind::Counter, "packets", "Packets sent.", |p| {
        Some(p.sent_packets as f64)
    }),
    ("quell_shape_dropped_packets", MetricKind::Counter, "packets", "Packets dropped.", |p| {
        Some(p.dropped_packets as f64)
    }),
    // Of a queue as a whole they are not known.
    ("quell_shape_marked_packets", MetricKind::Counter, "packets", "Packets marked by ECN.", |p| {
        (!p.name.is_empty()).then_some(p.marked_packets as f64)
    }),
    ("quell_shape_backlog_bytes", MetricKind::Gauge, "bytes", "Bytes that wait.", |p| {
        Some(p.backlog_bytes as f64)
    }),
    ("quell_shape_backlog_packets", MetricKind::Gauge, "packets", "Packets that wait.", |p| {
        Some(p.backlog_packets as f64)
    }),
    (
        "quell_shape_delay_seconds",
        MetricKind::Gauge,
        "seconds",
        "How long packets waited lately, as CAKE tells it.",
        |p| p.delay_us.map(|us| us as f64 / 1e6),
    ),
];

/// The same of a direction that is followed.
type FollowFamily =
    (&'static str, MetricKind, &'static str, &'static str, fn(&FollowedDirection) -> Option<f64>);

const FOLLOWED: [FollowFamily; 4] = [
    ("quell_shape_rate_bytes_per_second", MetricKind::Gauge, "", "The followed rate.", |d| {
        Some(d.rate_bps as f64 / 8.0)
    }),
    ("quell_shape_load_bytes_per_second", MetricKind::Gauge, "", "What goes through it.", |d| {
        Some(d.load_bps as f64 / 8.0)
    }),
    (
        "quell_shape_line_wait_seconds",
        MetricKind::Gauge,
        "seconds",
        "How long packets wait in the line's own queue.",
        |d| d.wait_ms.map(|ms| ms / 1e3),
    ),
    ("quell_shape_rate_changes", MetricKind::Counter, "", "Changes of the rate.", |d| {
        Some(d.changes as f64)
    }),
];

/// All changes in force, as a scraper reads them.
pub fn metrics(entries: &[StatusEntry]) -> String {
    let mut page = MetricsPage::default();
    let about = "Whether a line is shaped as it was wanted.";
    for entry in entries {
        let family = page.family("quell_shape_in_order", MetricKind::Gauge, "", about);
        family.sample(&[("device", &entry.device)], f64::from(u8::from(entry.in_order)));
    }
    for entry in entries {
        for queue in &entry.queues {
            let direction = if queue.device == entry.device { "up" } else { "down" };
            for part in smallest(queue) {
                let (host, tier) = match &part.host {
                    Some(host) => (host.as_str(), part.name.as_str()),
                    None if part.place.is_some() => (part.name.as_str(), ""),
                    None => ("", part.name.as_str()),
                };
                let device = ("device", entry.device.as_str());
                let labels = [device, ("direction", direction), ("host", host), ("tier", tier)];
                for (name, kind, unit, about, value) in FAMILIES {
                    if let Some(value) = value(&part) {
                        page.family(name, kind, unit, about).sample(&labels, value);
                    }
                }
            }
        }
    }
    for entry in entries {
        for direction in entry.follow.iter().flat_map(|follow| &follow.directions) {
            let labels =
                [("device", entry.device.as_str()), ("direction", word(direction.direction))];
            for (name, kind, unit, about, value) in FOLLOWED {
                if let Some(value) = value(direction) {
                    page.family(name, kind, unit, about).sample(&labels, value);
                }
            }
        }
    }
    page.text(MetricsFormat::OpenMetrics)
}

/// The parts of a queue that have no parts and had anything to send; the queue itself where it has none.
fn smallest(queue: &QueueStatus) -> Vec<LineClass> {
    let parents: BTreeSet<_> =
        queue.parts.iter().filter_map(|p| p.host.as_ref().map(|h| (h, p.place))).collect();
    let is_one = |part: &&LineClass| {
        let touched = part.sent_packets + part.dropped_packets + part.backlog_packets > 0;
        touched && (part.host.is_some() || !parents.contains(&(&part.name, part.place)))
    };
    if queue.parts.is_empty() {
        return vec![LineClass {
            name: String::new(),
            sent_packets: queue.sent_packets,
            sent_bytes: queue.sent_bytes,
            dropped_packets: queue.dropped_packets.into(),
            backlog_packets: queue.backlog_packets.into(),
            backlog_bytes: queue.backlog_bytes.into(),
            ..LineClass::default()
        }];
    }
    queue.parts.iter().filter(is_one).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_counts_once_whatever_a_line_is_divided_into() {
        let part = |name: &str, host: Option<&str>, place, sent_bytes| LineClass {
            name: name.into(),
            host: host.map(str::to_owned),
            place,
            sent_packets: 1,
            sent_bytes,
            ..LineClass::default()
        };
        let queue = |device: &str, parts| QueueStatus {
            device: device.into(),
            kind: "htb".into(),
            handle: "1:".into(),
            sent_packets: 9,
            sent_bytes: 9000,
            dropped_packets: 0,
            backlog_packets: 0,
            backlog_bytes: 0,
            hosts: None,
            parts,
        };
        let up = vec![
            part("a \"b\"", None, Some(1), 3000),
            part("high", Some("a \"b\""), Some(1), 1000),
            part("normal", Some("a \"b\""), Some(1), 2000),
        ];
        let entry = StatusEntry {
            device: "wan".into(),
            wanted: String::new(),
            standing: String::new(),
            in_order: true,
            changing: None,
            renamed_to: None,
            by: String::new(),
            since: 0,
            queues: vec![queue("wan", up), queue("i-wan", Vec::new())],
            subscribers: None,
            follow: None,
        };
        let text = metrics(&[entry]);
        let sent: Vec<&str> =
            text.lines().filter(|l| l.starts_with("quell_shape_sent_bytes_total")).collect();
        let of = |labels: &str, bytes| {
            format!("quell_shape_sent_bytes_total{{device=\"wan\",{labels}}} {bytes}")
        };
        let wanted = [
            of(r#"direction="up",host="a \"b\"",tier="high""#, 1000),
            of(r#"direction="up",host="a \"b\"",tier="normal""#, 2000),
            of(r#"direction="down",host="",tier="""#, 9000),
        ];
        assert_eq!(sent, wanted);
        assert!(text.contains("quell_shape_in_order{device=\"wan\"} 1\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
        let marked = text.matches("quell_shape_marked_packets_total{").count();
        assert_eq!(marked, 2, "of a whole queue it is not known: {text}");
    }
}
