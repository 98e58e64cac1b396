//! Streams of pings as metrics: counters that never go back, since what was lost and came after all is counted beside it.
//!
//! ```text
//!   sent = answered + lost + failed − late        late: answered after it had counted as lost
//! ```

use crate::{PingSession, Target};
use quell_metrics::{MetricHistogram, MetricKind, MetricsPage, RTT_SECONDS};
use quell_model::EchoSample;
use quell_report::analysis::Counts;

/// What became of the packets of a stream.
#[derive(Debug, Clone)]
pub struct StreamCounters {
    sent: u64,
    answered: u64,
    late: u64,
    failed: u64,
    lost_up: u64,
    lost_down: u64,
    lost_unknown: u64,
    rtt: MetricHistogram,
}

impl StreamCounters {
    pub fn new() -> Self {
        let rtt = MetricHistogram::new(RTT_SECONDS);
        let [sent, answered, late, failed, lost_up, lost_down, lost_unknown] = [0; 7];
        Self { sent, answered, late, failed, lost_up, lost_down, lost_unknown, rtt }
    }

    /// Takes a packet, by what was counted before it and with it.
    pub fn take(&mut self, sample: &EchoSample, before: &Counts, now: &Counts) {
        let more = |of: fn(&Counts) -> u64| of(now).saturating_sub(of(before));
        self.sent += more(|c| c.sent);
        self.answered += more(Counts::answered);
        self.failed += more(|c| c.errors);
        self.lost_up += more(|c| c.lost_up);
        self.lost_down += more(|c| c.lost_down);
        self.lost_unknown += more(|c| c.lost - c.lost_up - c.lost_down);
        self.late += before.lost.saturating_sub(now.lost).min(more(|c| c.received_late));
        if let Some(rtt_ns) = sample.rtt_ns.filter(|_| now.answered() > before.answered()) {
            self.rtt.observe(rtt_ns as f64 / 1e9);
        }
    }
}

/// All streams, as a scraper reads them.
pub fn page(session: &PingSession, counters: &[StreamCounters]) -> MetricsPage {
    let mut page = MetricsPage::default();
    for (target, of) in session.targets.iter().zip(counters) {
        let Target { name, host, .. } = target;
        let labels = [("stream", name.as_str()), ("host", host.as_str())];
        let mut count = |name, about, direction, value| {
            let labels: Vec<_> = labels.into_iter().chain(direction).collect();
            page.family(name, MetricKind::Counter, "packets", about).sample(&labels, value as f64);
        };
        let sent = "Packets sent, of which is known what became of them.";
        count("quell_ping_sent_packets", sent, None, of.sent);
        count("quell_ping_answered_packets", "Packets answered.", None, of.answered);
        let lost = [("up", of.lost_up), ("down", of.lost_down), ("unknown", of.lost_unknown)];
        for (direction, value) in lost {
            let about = "Packets lost, by the direction in which that was.";
            count("quell_ping_lost_packets", about, Some(("direction", direction)), value);
        }
        let late = "Packets answered after they had counted as lost.";
        count("quell_ping_late_packets", late, None, of.late);
        let failed = "Packets that the kernel refused, or that an ICMP error answered.";
        count("quell_ping_failed_packets", failed, None, of.failed);
        let about = "Round-trip time of packets that were answered.";
        let name = "quell_ping_rtt_seconds";
        page.family(name, MetricKind::Histogram, "seconds", about).histogram(&labels, &of.rtt);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_metrics::MetricsFormat;
    use quell_model::EchoStatus::{self, Duplicate, Error, Late, Lost, LostUp, Ok};
    use quell_report::analysis::EchoFold;

    #[test]
    fn counters_never_go_back_and_a_lost_packet_is_no_round_trip() {
        let (mut counters, mut fold) = (StreamCounters::new(), EchoFold::bounded());
        let mut take = |seq, status: EchoStatus, rtt_ns| {
            let sample = EchoSample { rtt_ns, ..EchoSample::new(seq as i64, seq, 56, status) };
            let before = fold.counts();
            fold.take(&sample);
            let last = counters.clone();
            counters.take(&sample, &before, &fold.counts());
            let of = |c: &StreamCounters| {
                [c.sent, c.answered, c.late, c.failed, c.lost_up, c.lost_down, c.lost_unknown]
            };
            assert!(of(&last).iter().zip(of(&counters)).all(|(then, now)| *then <= now), "{seq}");
            (of(&counters), counters.rtt.count())
        };
        let ms = |ms: u64| Some(ms * 1_000_000);
        take(0, Ok, ms(20));
        take(0, Duplicate, ms(21));
        take(1, LostUp, None);
        take(2, Lost, None);
        take(3, Error, None);
        assert_eq!(take(4, Late, ms(1500)), ([5, 2, 0, 1, 1, 0, 1], 2), "late, not yet given up");
        assert_eq!(take(2, Late, ms(9000)), ([5, 3, 1, 1, 1, 0, 1], 3), "given up before");
        assert_eq!(counters.rtt.sum(), 10.52);
    }

    #[test]
    fn each_stream_has_its_lines_before_anything_came() {
        let target = |name: &str| Target {
            name: name.into(),
            host: "example.org".into(),
            to: "192.0.2.7:0".parse().unwrap(),
            others: Vec::new(),
            tos: quell_units::Tos::default(),
            size: 56,
        };
        let session = PingSession {
            targets: vec![target("a"), target("b \"c\"")],
            method: crate::Method::Icmp,
            interval: quell_units::Span::from_secs(1),
            count: None,
            duration: None,
            wait: None,
            way: Default::default(),
            one_clock: false,
            seed: 1,
        };
        let fresh = [StreamCounters::new(), StreamCounters::new()];
        let text = page(&session, &fresh).text(MetricsFormat::OpenMetrics);
        for line in [
            "quell_ping_lost_packets_total{stream=\"a\",host=\"example.org\",direction=\"up\"} 0\n",
            "quell_ping_rtt_seconds_count{stream=\"b \\\"c\\\"\",host=\"example.org\"} 0\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}
