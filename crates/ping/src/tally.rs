//! What a stream showed so far, in bounded memory: its figures, what the probe told of it, and the last stretch as a picture.
//!
//! ```text
//!   rows of the probe ──┬─► EchoFold: the figures, by the code that the report of a run takes
//!   what it tells ──────┼─► clock, errors by kind, connects after a retry
//!                       └─► Recent: worst RTT and losses of the last few hundred buckets of time
//! ```

use crate::metrics::StreamCounters;
use quell_grade::{Assessment, LoadedDelay};
use quell_model::{EchoSample, Told};
use quell_probe::numbered::Numbered;
use quell_report::analysis::EchoFold;
use quell_stats::Interval;
use std::collections::{BTreeMap, VecDeque};

const BUCKETS: usize = 500;

#[derive(Debug, Clone)]
pub struct Tally {
    pub fold: EchoFold,
    /// By which clocks its times came about, for a person.
    pub clock: Option<String>,
    /// Errors by their kind, as `EHOSTUNREACH`, most frequent first.
    pub kinds: Vec<(String, u64)>,
    /// Of those that were lost: connects that came about after the kernel had sent its SYN again.
    pub retried: Option<Retried>,
    pub numbered: Numbered,
    pub recent: Recent,
    pub counters: StreamCounters,
    last_ns: i64,
}

impl Tally {
    /// Nothing happened yet. Packets leave every `interval_ns`.
    pub fn new(interval_ns: u64) -> Self {
        Self {
            fold: EchoFold::bounded(),
            clock: None,
            kinds: Vec::new(),
            retried: None,
            numbered: Numbered::default(),
            recent: Recent::new(interval_ns),
            counters: StreamCounters::new(),
            last_ns: 0,
        }
    }

    pub fn take(&mut self, sample: &EchoSample) {
        let before = self.fold.counts();
        self.fold.take(sample);
        let now = self.fold.counts();
        self.counters.take(sample, &before, &now);
        self.numbered.take(sample);
        self.last_ns = self.last_ns.max(sample.t_ns);
        // What came after all was drawn as lost when it was; only a run that was kept holds nothing but the answer.
        if now.sent > before.sent {
            let rtt_ns = sample.rtt_ns.filter(|_| sample.status.is_answered());
            self.recent.take(sample.t_ns, rtt_ns);
        }
    }

    /// How well a call, a game and a page work beside what the line carries meanwhile: what it adds to the least round trip. None of too few answers, or
    /// where it is not known how long they took.
    pub fn grade(&self) -> Option<Assessment> {
        let (counts, way) = (self.fold.counts(), self.fold.round_trip());
        let rtt = way
            .delays_ms
            .filter(|_| way.delays_at_most_ms.is_none_or(|most| most.p95.is_finite()))?;
        let least = counts.loss_range().map(|(least, _)| least);
        let loss = counts.loss_ratio().or(least).unwrap_or(0.0);
        let sent = counts.sent as f64;
        Assessment::of(&LoadedDelay {
            idle_ms: rtt.min,
            p50_ms: rtt.p50,
            p95_ms: rtt.p95,
            loss,
            least_loss: Interval::least_loss(loss * sent, sent),
            jitter_ms: way.jitter_ms,
            samples: rtt.n,
            load: String::new(),
            connections: 0,
            seconds: self.last_ns as f64 / 1e9,
        })
    }

    /// Takes what the probe tells of the stream beside its packets; what is of no known kind is left.
    pub fn fact(&mut self, what: &Told, value: &str) {
        self.fold.tell(what, value);
        match what {
            Told::Retried => self.retried = Retried::read(value),
            Told::Clock => self.clock = Some(value.to_owned()),
            Told::Errors => {
                let kinds: BTreeMap<String, u64> = serde_json::from_str(value).unwrap_or_default();
                self.kinds = kinds.into_iter().collect();
                self.kinds.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
            }
            _ => {}
        }
    }
}

/// Lost connects that came about after the kernel had sent its SYN again, and how long the shortest and the longest took, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retried {
    pub count: u64,
    pub least_ns: u64,
    pub most_ns: u64,
    /// Those of which nobody can know whether the first exchange was lost.
    pub unsure: u64,
}

impl Retried {
    fn read(value: &str) -> Option<Self> {
        let told: BTreeMap<String, u64> = serde_json::from_str(value).ok()?;
        let of = |key: &str| told.get(key).copied();
        Some(Self {
            count: of("count")?,
            least_ns: of("least_ns")?,
            most_ns: of("most_ns")?,
            unsure: of("unsure").unwrap_or(0),
        })
    }
}

/// The last stretch of a stream, in buckets of time.
#[derive(Debug, Clone)]
pub struct Recent {
    bucket_ns: u64,
    first: u64,
    buckets: VecDeque<Bucket>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bucket {
    pub worst_ns: Option<u64>,
    pub lost: bool,
}

impl Recent {
    fn new(interval_ns: u64) -> Self {
        // A bucket is at least as long as a picture stands.
        let bucket_ns = interval_ns.max(200_000_000);
        Self { bucket_ns, first: 0, buckets: VecDeque::new() }
    }

    fn take(&mut self, t_ns: i64, rtt_ns: Option<u64>) {
        let Some(index) = u64::try_from(t_ns).ok().map(|t| t / self.bucket_ns) else { return };
        let Some(mut place) = index.checked_sub(self.first) else { return };
        // What was silent for long starts anew.
        if place >= (self.buckets.len() + BUCKETS) as u64 {
            self.buckets.clear();
            (self.first, place) = (index, 0);
        }
        while self.buckets.len() as u64 <= place {
            self.buckets.push_back(Bucket::default());
        }
        if let Some(bucket) = self.buckets.get_mut(place as usize) {
            bucket.worst_ns = bucket.worst_ns.max(rtt_ns);
            bucket.lost |= rtt_ns.is_none();
        }
        while self.buckets.len() > BUCKETS {
            self.buckets.pop_front();
            self.first += 1;
        }
    }

    /// The last `count` buckets up to `now_ns`, oldest first.
    pub fn last(&self, count: usize, now_ns: u64) -> Vec<Bucket> {
        let end = now_ns / self.bucket_ns + 1;
        let begin = end.saturating_sub(count as u64);
        let at = |index: u64| {
            let place = index.checked_sub(self.first)?;
            self.buckets.get(usize::try_from(place).ok()?).copied()
        };
        (begin..end).map(|index| at(index).unwrap_or_default()).collect()
    }

    pub fn bucket_ns(&self) -> u64 {
        self.bucket_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::EchoStatus;

    /// A packet of a stream with one every 200 ms.
    fn sample(seq: u64, rtt_ms: Option<u64>, status: quell_model::EchoStatus) -> EchoSample {
        EchoSample {
            rtt_ns: rtt_ms.map(|ms| ms * 1_000_000),
            seen_late_ns: Some(1),
            ..EchoSample::new((seq * 200_000_000) as i64, seq, 56, status)
        }
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn the_last_stretch_has_the_worst_of_each_bucket_and_forgets() {
        let mut tally = Tally::new(50 * MS);
        for n in 0..4000u64 {
            let mut s = sample(n, Some(n % 4), EchoStatus::Ok);
            s.t_ns = (n * 50 * MS) as i64;
            tally.take(&s);
        }
        let mut lost = sample(0, None, EchoStatus::Lost);
        lost.t_ns = 199_800 * MS as i64;
        tally.take(&lost);
        let last = tally.recent.last(3, 200_000 * MS - 1);
        let worst = Bucket { worst_ns: Some(3 * MS), lost: false };
        assert_eq!(last, [worst, worst, Bucket { lost: true, ..worst }]);
        assert!(tally.recent.buckets.len() <= BUCKETS);
        assert_eq!(tally.recent.last(2, 0).len(), 1, "nothing lies before the start");
        // An hour of silence.
        let mut late = sample(0, Some(7), EchoStatus::Ok);
        late.t_ns = 3_800_000 * MS as i64;
        tally.take(&late);
        assert_eq!(tally.recent.last(1, 3_800_000 * MS)[0].worst_ns, Some(7 * MS));
        assert_eq!(tally.recent.buckets.len(), 1);
    }
}
