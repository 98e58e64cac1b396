//! What can be measured of a stream, by the names that claims use; each has one unit.

use quell_units::{Rate, Ratio, Span};

/// The least and the most that a value can be, mostly the same.
pub type MetricRange = (f64, f64);

/// What can be claimed something about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Share of packets lost on their whole way, 0 to 1.
    Loss,
    /// Share of packets lost on the way to the reflector, 0 to 1.
    LossUp,
    /// Share of packets lost on the way back, 0 to 1.
    LossDown,
    /// Jitter (the mean of RFC 3550's |D|), in seconds, of what has only one.
    Jitter,
    /// Jitter of the way to the reflector, in seconds.
    JitterUp,
    /// Jitter of the way back, in seconds.
    JitterDown,
    /// Jitter of the round trip, in seconds.
    JitterRtt,
    /// Least round-trip time, in seconds.
    RttMin,
    /// Mean round-trip time, in seconds.
    RttMean,
    /// Median round-trip time, in seconds.
    RttP50,
    /// 90 % of round-trip times are at most this, in seconds.
    RttP90,
    /// 99 % of round-trip times are at most this, in seconds.
    RttP99,
    /// Greatest round-trip time, in seconds.
    RttMax,
    /// Goodput in bits per second.
    Goodput,
    /// Share of all that was delivered in the cell over the same line in the same direction, 0 to 1.
    Share,
    Sent,
    /// Packets that came back or arrived.
    Received,
    /// Packets that came twice.
    Duplicates,
    /// Packets that were overtaken (RFC 4737).
    Reordered,
    /// TCP segments sent again.
    Retransmits,
    /// CPU time of both ends for each megabyte (10⁶ bytes) that arrived, in seconds.
    Cpu,
    /// One-way delay to the reflector, median, in seconds.
    UpP50,
    /// One-way delay back, median, in seconds.
    DownP50,
    /// Packets lost on the way to the reflector.
    LostUp,
    /// Packets lost on the way back.
    LostDown,
    /// Mean time until a page's document was read and parsed, in seconds.
    Doc,
    /// Mean time until anything of a page was painted, in seconds.
    Paint,
    /// Mean time until a first text or picture of a page was painted, in seconds.
    Fcp,
    /// Mean time until the largest text or picture of a page was painted, in seconds.
    Lcp,
    /// Mean time until a page was there with all its objects, in seconds.
    Load,
    /// Standard deviation of the times until a page was there, in seconds.
    LoadSd,
}

impl Metric {
    /// All metrics with the names that claims use.
    pub const NAMES: [(&'static str, Metric); 31] = [
        ("loss", Metric::Loss),
        ("loss.up", Metric::LossUp),
        ("loss.down", Metric::LossDown),
        ("jitter", Metric::Jitter),
        ("jitter.up", Metric::JitterUp),
        ("jitter.down", Metric::JitterDown),
        ("jitter.rtt", Metric::JitterRtt),
        ("rtt.min", Metric::RttMin),
        ("rtt.mean", Metric::RttMean),
        ("rtt.p50", Metric::RttP50),
        ("rtt.p90", Metric::RttP90),
        ("rtt.p99", Metric::RttP99),
        ("rtt.max", Metric::RttMax),
        ("goodput", Metric::Goodput),
        ("share", Metric::Share),
        ("sent", Metric::Sent),
        ("received", Metric::Received),
        ("duplicates", Metric::Duplicates),
        ("reordered", Metric::Reordered),
        ("retransmits", Metric::Retransmits),
        ("cpu", Metric::Cpu),
        ("up.p50", Metric::UpP50),
        ("down.p50", Metric::DownP50),
        ("lost.up", Metric::LostUp),
        ("lost.down", Metric::LostDown),
        ("doc", Metric::Doc),
        ("paint", Metric::Paint),
        ("fcp", Metric::Fcp),
        ("lcp", Metric::Lcp),
        ("load", Metric::Load),
        ("load.sd", Metric::LoadSd),
    ];

    pub fn parse(text: &str) -> Option<Metric> {
        Self::NAMES.iter().find(|(n, _)| *n == text).map(|(_, m)| *m)
    }

    /// Its name in claims.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, m)| *m == self).map_or("?", |(n, _)| n)
    }

    pub fn unit(self) -> MetricUnit {
        match self {
            Metric::Loss | Metric::LossUp | Metric::LossDown | Metric::Share => MetricUnit::Ratio,
            Metric::Goodput => MetricUnit::Rate,
            Metric::Jitter
            | Metric::JitterUp
            | Metric::JitterDown
            | Metric::JitterRtt
            | Metric::RttMin
            | Metric::RttMean
            | Metric::RttP50
            | Metric::RttP90
            | Metric::RttP99
            | Metric::RttMax
            | Metric::UpP50
            | Metric::DownP50
            | Metric::Doc
            | Metric::Paint
            | Metric::Fcp
            | Metric::Lcp
            | Metric::Load
            | Metric::LoadSd
            | Metric::Cpu => MetricUnit::Time,
            _ => MetricUnit::Count,
        }
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
