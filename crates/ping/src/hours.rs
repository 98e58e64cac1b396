//! When a line was bad: minutes of many days, hour by hour.

use crate::minutes::MinuteSketch;
use quell_grade::{Assessment, Grade, LoadedDelay};
use quell_model::Sketch;
use quell_stats::Interval;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a stream showed in an hour. Times are within 0.4 %.
#[derive(Debug, Clone, Serialize)]
pub struct Hour {
    /// When it began, in seconds since 1970.
    pub at_s: u64,
    pub stream: String,
    pub sent: u64,
    pub loss_ratio: f64,
    pub lost_up: u64,
    pub lost_down: u64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    /// Beside the least median of an hour of this stream; none of too few answers.
    pub grade: Option<Grade>,
}

/// The hours that have packets, in the order of time. Where hours are those of the clock here, this is its distance from UTC, in seconds.
pub fn hours(minutes: &[MinuteSketch], offset_s: i64) -> Vec<Hour> {
    let mut sums: BTreeMap<(u64, &str), Sketch> = BTreeMap::new();
    for MinuteSketch { stream, sketch } in minutes {
        let at_s = sketch.from_ns as u64 / 1_000_000_000;
        let here = at_s.saturating_add_signed(offset_s) / 3600 * 3600;
        let key = (here.saturating_add_signed(-offset_s), stream.as_str());
        sums.entry(key).or_default().merge(sketch);
    }
    let ms = |sum: &Sketch, share| sum.quantile(share).map(|ns| ns / 1e6);
    let mut idle_ms: BTreeMap<&str, f64> = BTreeMap::new();
    for ((_, stream), sum) in &sums {
        let p50 = ms(sum, 0.5).unwrap_or(f64::INFINITY);
        idle_ms.entry(stream).and_modify(|least| *least = least.min(p50)).or_insert(p50);
    }
    let hour = |((at_s, stream), sum): ((u64, &str), Sketch)| {
        let (sent, lost) = (sum.sent as f64, sum.lost() as f64);
        let answered = sum.sent - sum.lost();
        let measured = LoadedDelay {
            idle_ms: idle_ms[stream],
            p50_ms: ms(&sum, 0.5).unwrap_or(0.0),
            p95_ms: ms(&sum, 0.95).unwrap_or(0.0),
            loss: lost / sent,
            least_loss: Interval::least_loss(lost, sent),
            jitter_ms: None,
            samples: answered as usize,
            load: String::new(),
            connections: 0,
            seconds: 3600.0,
        };
        Hour {
            at_s,
            stream: stream.to_owned(),
            sent: sum.sent,
            loss_ratio: lost / sent,
            lost_up: sum.lost_up,
            lost_down: sum.lost_down,
            p50_ms: ms(&sum, 0.5),
            p99_ms: ms(&sum, 0.99),
            grade: match answered {
                // Nothing came at all: calls break.
                0 => Some(Grade::F),
                _ => Assessment::of(&measured).map(|assessment| assessment.grade),
            },
        }
    };
    sums.into_iter().map(hour).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::sketch::bucket;

    #[test]
    fn an_hour_of_loss_an_hour_of_delay_and_an_hour_of_silence_are_told_apart_from_good_ones() {
        let minute = |n: i64, answered: u32, ms: u64| MinuteSketch {
            stream: "a".into(),
            sketch: Sketch {
                sent: 300,
                lost_somewhere: 300 - u64::from(answered),
                buckets: [(bucket(ms * 1_000_000), answered)]
                    .into_iter()
                    .filter(|b| b.1 > 0)
                    .collect(),
                ..Sketch::new((1_790_000_000 / 3600 * 60 + n) * 60_000_000_000, 60_000_000_000)
            },
        };
        let minutes: Vec<_> = (0..300)
            .map(|n| match n / 60 {
                1 => minute(n, 270, 20),
                2 => minute(n, 300, if n % 10 == 0 { 900 } else { 20 }),
                3 => minute(n, 0, 0),
                _ => minute(n, 300, 20),
            })
            .collect();
        let got = hours(&minutes, 0);
        let grades: Vec<_> = got.iter().map(|h| h.grade).collect();
        let [a, f] = [Grade::A, Grade::F].map(Some);
        assert_eq!(grades, [a, f, f, f, a]);
        assert!((got[1].loss_ratio - 0.1).abs() < 1e-9 && got[3].p99_ms.is_none());
        assert!(got[2].p99_ms.is_some_and(|ms| (896.0..904.0).contains(&ms)), "{got:?}");
    }
}
