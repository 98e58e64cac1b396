//! What can be measured of a stream, by the names that claims use; each has one unit.

use quell_units::{Rate, Ratio, Span};

/// The least and the most that a value can be, mostly the same.
pub type MetricRange = (f64, f64);

/// What can be claimed something about: shares from 0 to 1, times in seconds, rates in bits per second, counts. Up is to the reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    Loss,
    LossUp,
    LossDown,
    /// Jitter (the mean of RFC 3550's |D|), in seconds, of what has only one.
    Jitter,
    JitterUp,
    JitterDown,
    JitterRtt,
    RttMin,
    RttMean,
    RttP50,
    RttP90,
    RttP99,
    RttMax,
    Goodput,
    /// Payload of all flows over the same line in the same direction, over the time in which any of them ran.
    GoodputAll,
    /// Share of all that was delivered in the cell over the same line in the same direction, 0 to 1.
    Share,
    Sent,
    /// Packets that came back or arrived.
    Received,
    Duplicates,
    /// Packets that were overtaken (RFC 4737).
    Reordered,
    Retransmits,
    /// CPU time of both ends for each megabyte (10⁶ bytes) that arrived, in seconds.
    Cpu,
    UpP50,
    DownP50,
    LostUp,
    LostDown,
    Doc,
    Paint,
    /// Mean time until a first text or picture of a page was painted, in seconds.
    Fcp,
    /// Mean time until the largest text or picture of a page was painted, in seconds.
    Lcp,
    Load,
    LoadSd,
}

impl Metric {
    /// All metrics with the names that claims use, and their units.
    pub const NAMES: [(&'static str, Metric, MetricUnit); 32] = {
        use MetricUnit::{Count, Rate, Ratio, Time};
        [
            ("loss", Metric::Loss, Ratio),
            ("loss.up", Metric::LossUp, Ratio),
            ("loss.down", Metric::LossDown, Ratio),
            ("jitter", Metric::Jitter, Time),
            ("jitter.up", Metric::JitterUp, Time),
            ("jitter.down", Metric::JitterDown, Time),
            ("jitter.rtt", Metric::JitterRtt, Time),
            ("rtt.min", Metric::RttMin, Time),
            ("rtt.mean", Metric::RttMean, Time),
            ("rtt.p50", Metric::RttP50, Time),
            ("rtt.p90", Metric::RttP90, Time),
            ("rtt.p99", Metric::RttP99, Time),
            ("rtt.max", Metric::RttMax, Time),
            ("goodput", Metric::Goodput, Rate),
            ("goodput.all", Metric::GoodputAll, Rate),
            ("share", Metric::Share, Ratio),
            ("sent", Metric::Sent, Count),
            ("received", Metric::Received, Count),
            ("duplicates", Metric::Duplicates, Count),
            ("reordered", Metric::Reordered, Count),
            ("retransmits", Metric::Retransmits, Count),
            ("cpu", Metric::Cpu, Time),
            ("up.p50", Metric::UpP50, Time),
            ("down.p50", Metric::DownP50, Time),
            ("lost.up", Metric::LostUp, Count),
            ("lost.down", Metric::LostDown, Count),
            ("doc", Metric::Doc, Time),
            ("paint", Metric::Paint, Time),
            ("fcp", Metric::Fcp, Time),
            ("lcp", Metric::Lcp, Time),
            ("load", Metric::Load, Time),
            ("load.sd", Metric::LoadSd, Time),
        ]
    };

    pub fn parse(text: &str) -> Option<Metric> {
        Self::NAMES.iter().find(|(n, ..)| *n == text).map(|(_, m, _)| *m)
    }

    /// Its name in claims.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }

    pub fn unit(self) -> MetricUnit {
        Self::NAMES[self as usize].2
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricUnit {
    /// 0 to 1.
    Ratio,
    Time,
    /// Bits per second.
    Rate,
    Count,
}

impl MetricUnit {
    /// Reads a value as people write it.
    pub fn parse(self, text: &str) -> Result<f64, String> {
        let text = text.trim();
        match self {
            MetricUnit::Ratio => {
                text.parse::<Ratio>().map(Ratio::as_f64).map_err(|e| e.to_string())
            }
            MetricUnit::Time => {
                text.parse::<Span>().map(|s| s.as_secs_f64()).map_err(|e| e.to_string())
            }
            MetricUnit::Rate => {
                text.parse::<Rate>().map(|r| r.bps() as f64).map_err(|e| e.to_string())
            }
            MetricUnit::Count => text
                .parse::<u64>()
                .map(|n| n as f64)
                .map_err(|_| format!("`{text}` is not a count; write a whole number")),
        }
    }

    pub fn show(self, (least, most): MetricRange) -> String {
        let shown = |value| self.show_one(value);
        match least == most {
            true => shown(least),
            false if most.is_infinite() => {
                format!("not measured exactly: at least {}", shown(least))
            }
            false => {
                format!("not measured exactly: between {} and {}", shown(least), shown(most))
            }
        }
    }

    fn show_one(self, value: f64) -> String {
        let (unit, factor, digits) = match self {
            MetricUnit::Ratio => (" %", 100.0, 2),
            MetricUnit::Time => (" ms", 1e3, 6),
            MetricUnit::Rate => (" Mbit/s", 1e-6, 3),
            MetricUnit::Count => return value.to_string(),
        };
        let text = format!("{:.digits$}", value * factor);
        text.trim_end_matches('0').trim_end_matches('.').to_owned() + unit
    }
}
