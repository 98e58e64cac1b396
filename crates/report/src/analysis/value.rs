//! What was measured of a stream, by the names that claims use.

use super::{EchoResult, FlowResult, PageResult, Results, Spread, StreamResult};
use quell_model::CellId;
use quell_model::metric::{Metric, MetricRange};

impl Results {
    /// All values of a metric, with their cell and stream; none where there was nothing to measure.
    pub fn values(&self, metric: Metric) -> Vec<(&CellId, &str, Option<MetricRange>)> {
        self.rows.iter().map(|row| (&row.cell, &*row.stream, row.value(metric))).collect()
    }
}

impl StreamResult {
    /// A value in the metric's unit. Of a flow whose single packets were reported too, the counts are the
    /// flow's and the delays the packets'.
    pub(crate) fn value(&self, metric: Metric) -> Option<MetricRange> {
        let exact = match metric {
            Metric::Loss => return self.loss_range(),
            Metric::Received => {
                let unsure = self.echo().map_or(0, |echo| echo.counts.unsure);
                return self.received().map(|n| (n as f64, (n + unsure) as f64));
            }
            Metric::RttMin => return self.rtt_range(|r| r.min),
            Metric::RttMean => return self.rtt_range(|r| r.mean),
            Metric::RttP50 => return self.rtt_range(|r| r.p50),
            Metric::RttP90 => return self.rtt_range(|r| r.p90),
            Metric::RttP99 => return self.rtt_range(|r| r.p99),
            Metric::RttMax => return self.rtt_range(|r| r.max),
            Metric::Sent => self.sent().map(|n| n as f64),
            _ => self
                .flow()
                .and_then(|flow| of_flow(flow, metric))
                .or_else(|| of_packets(self.echo()?, metric))
                .or_else(|| of_pages(self.pages.as_ref()?, metric)),
        };
        exact.map(|value| (value, value))
    }

    fn rtt_range(&self, of: fn(&Spread) -> f64) -> Option<MetricRange> {
        let (least, most) = self.echo()?.rtt_range(of)?;
        Some((least / 1e3, most / 1e3))
    }
}

fn of_packets(echo: &EchoResult, metric: Metric) -> Option<f64> {
    let seconds = |ms: f64| ms / 1e3;
    match metric {
        Metric::Jitter => echo.jitter_ms().map(seconds),
        Metric::JitterUp => echo.jitter_up_ms.map(seconds),
        Metric::JitterDown => echo.jitter_down_ms.map(seconds),
        Metric::JitterRtt => echo.jitter_rtt_ms.map(seconds),
        Metric::LossUp => one_way_loss(echo, echo.counts.lost_ways()?.0),
        Metric::LossDown => one_way_loss(echo, echo.counts.lost_ways()?.1),
        Metric::UpP50 => echo.up_ms.as_ref().map(|d| seconds(d.p50)),
        Metric::DownP50 => echo.down_ms.as_ref().map(|d| seconds(d.p50)),
        Metric::Duplicates => Some(echo.counts.duplicates as f64),
        Metric::Reordered => Some((echo.reordered_up.unwrap_or(0) + echo.reordered_down?) as f64),
        Metric::LostUp => Some(echo.counts.lost_ways()?.0 as f64),
        Metric::LostDown => Some(echo.counts.lost_ways()?.1 as f64),
        _ => None,
    }
}

fn one_way_loss(echo: &EchoResult, lost: u64) -> Option<f64> {
    (echo.counts.sent > 0).then(|| lost as f64 / echo.counts.sent as f64)
}

fn of_pages(pages: &PageResult, metric: Metric) -> Option<f64> {
    let ms = match metric {
        Metric::Doc => pages.doc_ms,
        Metric::Paint => pages.paint_ms,
        Metric::Fcp => pages.fcp_ms,
        Metric::Lcp => pages.lcp_ms,
        Metric::Load => pages.load_ms,
        Metric::LoadSd => pages.load_sd_ms,
        _ => None,
    };
    ms.map(|ms| ms / 1e3)
}

fn of_flow(flow: &FlowResult, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Goodput => flow.goodput_mbps.map(|m| m * 1e6),
        Metric::GoodputAll => flow.together_mbps.map(|m| m * 1e6),
        Metric::Share => flow.share,
        Metric::Cpu => flow.cpu_ms_per_mb.map(|ms| ms / 1e3),
        Metric::Retransmits => flow.retransmits.map(|n| n as f64),
        _ => None,
    }
}
