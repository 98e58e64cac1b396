//! Round trips per minute, as draft-ietf-ippm-responsiveness has them ("Aggregating the Measurements", "Final Algorithm").
//!
//! ```text
//!   foreign = 60000 / mean of TM(tcp_f), TM(tls_f), TM(http_f)      without TLS: of the other two
//!   loaded  = 60000 / TM(http_l)
//!   RPM     = (foreign + loaded) / 2            TM: mean of all but the longest 5 %
//! ```

use serde::Serialize;

pub struct DraftNumbers {
    /// Intervals that a moving average takes in (MAD).
    pub intervals: usize,
    /// An interval, in nanoseconds (ID).
    pub interval_ns: u64,
    /// Share that counts of the times, from the shortest (TMP).
    pub trimmed: f64,
    /// Relative deviation within which a figure is stable (SDT).
    pub tolerance: f64,
    /// Most connections that make load (MNP).
    pub connections: usize,
    /// Most probes a second (MPS), of both kinds together.
    pub probes: u32,
    /// Most of the capacity that probes may use (PTC).
    pub probes_share: f64,
    /// Bytes that a foreign probe is taken to cost, and one in a loaded connection.
    pub foreign_bytes: f64,
    pub self_bytes: f64,
}

pub const DRAFT: DraftNumbers = DraftNumbers {
    intervals: 4,
    interval_ns: 1_000_000_000,
    trimmed: 0.95,
    tolerance: 0.05,
    connections: 16,
    probes: 100,
    probes_share: 0.05,
    foreign_bytes: 5000.0,
    self_bytes: 1000.0,
};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeTimes {
    pub tcp_f: Vec<f64>,
    /// A round trip of the handshake of TLS.
    pub tls_f: Vec<f64>,
    pub http_f: Vec<f64>,
    pub http_l: Vec<f64>,
    /// How long requests on new connections were waited for that had no answer: theirs would have taken longer.
    pub unanswered: Vec<f64>,
}

/// Trimmed means, and what follows of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Responsiveness {
    pub rpm: f64,
    pub foreign_rpm: f64,
    pub loaded_rpm: f64,
    pub tcp_ms: f64,
    /// Of a round trip of TLS's; none without TLS.
    pub tls_ms: Option<f64>,
    pub http_ms: f64,
    pub loaded_ms: f64,
    /// Whether round trips are at most so many, and a request took at least so long: more had no answer than the longest that don't count.
    pub at_most: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Fewer intervals than a moving average takes in.
    Low,
    /// Enough of them, and not stable.
    Medium,
    High,
}

fn kept(times: usize) -> usize {
    ((times as f64 * DRAFT.trimmed).floor() as usize).max(1)
}

/// The mean of the shortest 95 %; none of nothing.
fn trimmed_mean(times: &[f64]) -> Option<f64> {
    shortest_mean(times, kept(times.len()))
}

fn shortest_mean(times: &[f64], keep: usize) -> Option<f64> {
    let mut sorted: Vec<f64> = times.iter().copied().filter(|t| t.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let kept = sorted.get(..keep)?;
    Some(kept.iter().sum::<f64>() / keep as f64)
}

impl ProbeTimes {
    pub fn join<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        all.into_iter().fold(Self::default(), |mut sum, one| {
            sum.tcp_f.extend(&one.tcp_f);
            sum.tls_f.extend(&one.tls_f);
            sum.http_f.extend(&one.http_f);
            sum.http_l.extend(&one.http_l);
            sum.unanswered.extend(&one.unanswered);
            sum
        })
    }

    pub fn probes(&self) -> (usize, usize) {
        (self.http_f.len(), self.http_l.len())
    }

    /// What follows of them; none before each kind has some. What had no answer counts with the time it was waited for.
    pub fn responsiveness(&self) -> Option<Responsiveness> {
        let requests = self.http_f.len() + self.unanswered.len();
        let keep = kept(requests);
        // They are the longest, of whatever length: if all are among those that don't count, the mean is exact.
        let at_most = keep > self.http_f.len();
        let http = match at_most {
            true => shortest_mean(&[&self.http_f[..], &self.unanswered].concat(), keep)?,
            false => shortest_mean(&self.http_f, keep)?,
        };
        let tcp = trimmed_mean(&self.tcp_f)?;
        let loaded = trimmed_mean(&self.http_l)?;
        let tls = trimmed_mean(&self.tls_f);
        let foreign = match tls {
            Some(tls) => (tcp + tls + http) / 3.0,
            None => (tcp + http) / 2.0,
        };
        // A time of nothing would be an endless figure.
        let per_minute = |ms: f64| 60_000.0 / ms.max(0.001);
        let (foreign_rpm, loaded_rpm) = (per_minute(foreign), per_minute(loaded));
        Some(Responsiveness {
            rpm: f64::midpoint(foreign_rpm, loaded_rpm),
            foreign_rpm,
            loaded_rpm,
            tcp_ms: tcp,
            tls_ms: tls,
            http_ms: http,
            loaded_ms: loaded,
            at_most,
        })
    }
}

/// Whether a figure has become stable: the deviation of its last moving averages is within 5 % of the latest.
pub fn is_stable(averages: &[f64]) -> bool {
    let Some(last) = averages.len().checked_sub(DRAFT.intervals).map(|from| &averages[from..])
    else {
        return false;
    };
    let mean = last.iter().sum::<f64>() / last.len() as f64;
    let variance = last.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / last.len() as f64;
    variance.sqrt() <= DRAFT.tolerance * last[last.len() - 1].abs()
}

/// How sure a figure is of which there were these averages.
pub fn confidence(averages: &[f64], stable: bool) -> Confidence {
    match () {
        () if stable => Confidence::High,
        () if averages.len() >= DRAFT.intervals => Confidence::Medium,
        () => Confidence::Low,
    }
}

/// How many pairs of probes a second a line of so many bits a second may be asked to carry.
pub fn pairs_a_second(bits: f64) -> f64 {
    let pair_bits = (DRAFT.foreign_bytes + DRAFT.self_bytes) * 8.0;
    (DRAFT.probes_share * bits / pair_bits).clamp(1.0, f64::from(DRAFT.probes) / 2.0)
}

pub fn word(rpm: f64) -> &'static str {
    match rpm {
        // The draft's own words for 1000 and 6000; below that a call suffers.
        rpm if rpm >= 6000.0 => "excellent",
        rpm if rpm >= 1000.0 => "good",
        rpm if rpm >= 300.0 => "fair",
        _ => "poor",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_twentieth_does_not_count() {
        let mut times: Vec<f64> = vec![10.0; 95];
        times.extend([1000.0; 5]);
        assert_eq!(trimmed_mean(&times), Some(10.0));
        assert_eq!(trimmed_mean(&[7.0]), Some(7.0), "one is never trimmed away");
        assert_eq!(trimmed_mean(&[]), None);
    }

    #[test]
    fn round_trips_of_twenty_ms_are_three_thousand_a_minute() {
        let all = |ms| vec![ms; 40];
        let times = ProbeTimes {
            tcp_f: all(20.0),
            http_f: all(20.0),
            http_l: all(20.0),
            ..ProbeTimes::default()
        };
        assert_eq!(times.responsiveness().unwrap().rpm, 3000.0);
        let bloated = ProbeTimes {
            tls_f: all(200.0),
            tcp_f: all(200.0),
            http_f: all(200.0),
            http_l: all(400.0),
            unanswered: vec![],
        };
        assert_eq!(bloated.responsiveness().unwrap().rpm, (300.0 + 150.0) / 2.0);
        assert_eq!(ProbeTimes::default().responsiveness(), None);
    }

    #[test]
    fn requests_without_an_answer_make_a_figure_at_most_that_where_they_are_more_than_do_not_count()
    {
        let all = |ms| vec![ms; 19];
        let mut times = ProbeTimes {
            tcp_f: all(20.0),
            http_f: all(20.0),
            http_l: all(20.0),
            ..ProbeTimes::default()
        };
        times.unanswered.push(5000.0);
        let one = times.responsiveness().unwrap();
        assert_eq!((one.rpm, one.at_most), (3000.0, false), "the longest of twenty");
        times.unanswered.extend([5000.0; 2]);
        let three = times.responsiveness().unwrap();
        assert!(three.at_most && three.rpm < 3000.0, "{three:?}");
        assert_eq!(three.http_ms, (19.0 * 20.0 + 5000.0) / 20.0, "two of 22 don't count");
    }

    #[test]
    fn a_figure_is_stable_when_its_last_four_averages_agree() {
        assert!(!is_stable(&[100.0, 100.0, 100.0]), "too few");
        assert!(is_stable(&[1.0, 100.0, 101.0, 99.0, 100.0]));
        assert!(!is_stable(&[100.0, 50.0, 100.0, 100.0]));
        assert_eq!(confidence(&[1.0; 3], false), Confidence::Low);
        assert_eq!(confidence(&[1.0; 4], false), Confidence::Medium);
        assert_eq!(confidence(&[1.0; 4], true), Confidence::High);
    }

    #[test]
    fn probes_take_a_twentieth_of_a_slow_line_and_a_hundred_a_second_of_a_fast_one() {
        assert_eq!(pairs_a_second(1e9), 50.0);
        assert!((pairs_a_second(9.6e6) - 10.0).abs() < 1e-9);
        assert_eq!(pairs_a_second(1e4), 1.0);
    }
}
