//! What a stream showed so far, in bounded memory: counts, delays, and the last stretch as a picture.
//!
//! ```text
//!   rows of the probe ──► Tally ──► counts, quantiles, jitter       of the whole stream
//!                           └─────► Recent: worst RTT and losses    of the last few hundred buckets of time
//! ```
//!
//! The definitions are those of the analysis of runs: the figures here and those of `quell show` are the same.

use quell_model::{EchoSample, EchoStatus, Told};
use quell_stats::{ClockOffset, Jitter, OffsetEstimator, Running, RunningAround, Summary};
use std::collections::{BTreeMap, VecDeque};

/// What the program does so much later than due tells that this machine was short of CPU.
pub const LATE_NS: u64 = 5_000_000;

/// Most buckets that are remembered: no terminal is wider.
const BUCKETS: usize = 500;

/// Packets said to be lost of which it is remembered, should they come after all: as many as the prober knows again.
const GIVEN_UP: usize = 1 << 16;

/// One stream so far.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Packets sent whose fate is known; those that the kernel refused count too.
    pub sent: u64,
    /// Packets answered in time.
    pub received: u64,
    /// Packets answered after the time that an answer was waited for.
    pub received_late: u64,
    /// Packets lost, wherever.
    pub lost: u64,
    /// Of these, known to be lost on the way there.
    pub lost_up: u64,
    /// Known to be lost on the way back.
    pub lost_down: u64,
    /// Packets that the kernel refused, or that an ICMP error answered.
    pub errors: u64,
    /// Further replies.
    pub duplicates: u64,
    /// Replies that came after one to a later packet.
    pub reordered: u64,
    /// Packets that were on their way when it ended, or may have been: they count as nothing.
    pub unfinished: u64,
    /// Round-trip times in nanoseconds.
    pub rtt: Running,
    /// One-way delays in nanoseconds, as the two clocks tell them.
    pub up: RunningAround,
    /// And back.
    pub down: RunningAround,
    /// How far the two clocks are apart, where they are two.
    pub offset: OffsetEstimator,
    /// Whether the other end has a clock of its own.
    pub apart: bool,
    /// How much later than due packets were sent, or how long their replies waited in this host until the program saw them, whichever
    /// is longer, in nanoseconds.
    pub seen_late: Running,
    /// Packets for which that was longer than [`LATE_NS`].
    pub late: u64,
    /// How long packets waited in this host's own queue, in nanoseconds.
    pub queued: Running,
    /// Packets that left more than [`LATE_NS`] after their time.
    pub left_late: u64,
    /// How late the latest packet left, in nanoseconds.
    pub latest_left_ns: u64,
    /// By which clocks its times came about, for a person.
    pub clock: Option<String>,
    /// Errors by their kind, as `EHOSTUNREACH`, most frequent first.
    pub kinds: Vec<(String, u64)>,
    /// The last stretch.
    pub recent: Recent,
    jitter_rtt: Jitter,
    jitter_up: JitterThere,
    jitter_down: Jitter,
    /// Of those that were lost: connects that came about after the kernel had sent its SYN again.
    pub retried: Option<Retried>,
    /// Packets that were said to be lost, and what was said.
    given_up: BTreeMap<u64, EchoStatus>,
    /// One above the largest number that was answered.
    next: u64,
}

impl Tally {
    /// Nothing happened yet. Packets leave every `interval_ns`.
    pub fn new(interval_ns: u64) -> Self {
        Self {
            sent: 0,
            received: 0,
            received_late: 0,
            lost: 0,
            lost_up: 0,
            lost_down: 0,
            errors: 0,
            duplicates: 0,
            reordered: 0,
            unfinished: 0,
            rtt: Running::new(),
            up: RunningAround::new(),
            down: RunningAround::new(),
            offset: OffsetEstimator::new(),
            apart: false,
            seen_late: Running::new(),
            late: 0,
            queued: Running::new(),
            left_late: 0,
            latest_left_ns: 0,
            clock: None,
            kinds: Vec::new(),
            recent: Recent::new(interval_ns),
            jitter_rtt: Jitter::new(),
            jitter_up: JitterThere::default(),
            jitter_down: Jitter::new(),
            retried: None,
            given_up: BTreeMap::new(),
            next: 0,
        }
    }

    /// Takes what became of a packet.
    pub fn take(&mut self, sample: &EchoSample) {
        match sample.status {
            EchoStatus::Duplicate => {
                self.duplicates += 1;
                return;
            }
            EchoStatus::Unfinished => {
                self.unfinished += 1;
                if let Some(said) = self.given_up.remove(&sample.seq) {
                    self.sent -= 1;
                    self.no_longer_lost(said);
                }
                return;
            }
            EchoStatus::Late => {
                self.late_after_all(sample);
                return;
            }
            EchoStatus::Ok => {
                self.received += 1;
                self.take_answer(sample);
            }
            said @ (EchoStatus::Lost | EchoStatus::LostUp | EchoStatus::LostDown) => {
                self.lost += 1;
                self.lost_up += u64::from(said == EchoStatus::LostUp);
                self.lost_down += u64::from(said == EchoStatus::LostDown);
                self.given_up.insert(sample.seq, said);
                if self.given_up.len() > GIVEN_UP {
                    self.given_up.pop_first();
                }
            }
            EchoStatus::Error => self.errors += 1,
        }
        self.sent += 1;
        self.latest_left_ns = self.latest_left_ns.max(sample.sent_late_ns.unwrap_or(0));
        self.left_late += u64::from(sample.sent_late_ns.is_some_and(|late| late > LATE_NS));
        if let Some(queued) = sample.queued_ns {
            self.queued.push(queued);
        }
        let rtt_ns = sample.rtt_ns.filter(|_| sample.status == EchoStatus::Ok);
        self.recent.take(sample.t_ns, rtt_ns);
    }

    /// Takes what the probe tells of the stream beside its packets; what is of no known kind is left.
    pub fn fact(&mut self, what: &Told, value: &str) {
        match what {
            Told::Clocks => self.apart = value == "apart",
            Told::Losses => {
                let told: BTreeMap<String, u64> = serde_json::from_str(value).unwrap_or_default();
                let more = |way: &str, known: u64| told.get(way).map_or(known, |n| known.max(*n));
                self.lost_up = more("up", self.lost_up).min(self.lost);
                self.lost_down = more("down", self.lost_down).min(self.lost - self.lost_up);
            }
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

    /// A packet that was said to be lost was answered after all; or it is of a run that was kept, which holds only this.
    fn late_after_all(&mut self, sample: &EchoSample) {
        self.received_late += 1;
        self.take_answer(sample);
        match self.given_up.remove(&sample.seq) {
            Some(said) => self.no_longer_lost(said),
            None => {
                self.sent += 1;
                self.recent.take(sample.t_ns, sample.rtt_ns);
            }
        }
    }

    fn no_longer_lost(&mut self, said: EchoStatus) {
        self.lost -= 1;
        self.lost_up -= u64::from(said == EchoStatus::LostUp);
        self.lost_down -= u64::from(said == EchoStatus::LostDown);
    }

    fn take_answer(&mut self, sample: &EchoSample) {
        if sample.seq < self.next {
            self.reordered += 1;
        }
        self.next = self.next.max(sample.seq.saturating_add(1));
        if let Some(rtt) = sample.rtt_ns {
            self.rtt.push(rtt);
            self.jitter_rtt.push(rtt as f64);
        }
        if let (Some(up), Some(down)) = (sample.up_ns, sample.down_ns) {
            self.offset.push(sample.t_ns, up, down);
        }
        if let Some(up) = sample.up_ns {
            self.up.push(up);
            self.jitter_up.push(sample.up_order.unwrap_or(sample.seq), sample.seq, up as f64);
        }
        if let Some(down) = sample.down_ns {
            self.down.push(down);
            self.jitter_down.push(down as f64);
        }
        if let Some(late) = sample.seen_late_ns {
            self.seen_late.push(late);
            self.late += u64::from(late > LATE_NS);
        }
    }

    /// Packets answered, in time or late.
    pub fn answered(&self) -> u64 {
        self.received + self.received_late
    }

    /// The part of the packets without an answer; none when none was sent.
    pub fn loss_ratio(&self) -> Option<f64> {
        (self.sent > 0).then(|| (self.sent - self.answered()) as f64 / self.sent as f64)
    }

    /// The part of the packets that delays are known of, where that is less than half of them: figures of so few must not pass for those
    /// of all.
    pub fn minority(&self) -> Option<f64> {
        let answered = self.answered();
        (answered > 0 && answered * 2 < self.sent).then(|| answered as f64 / self.sent as f64)
    }

    /// Jitter of the round trip in milliseconds: the mean of RFC 3550's |D|.
    pub fn jitter_rtt_ms(&self) -> Option<f64> {
        self.jitter_rtt.mean().map(|ns| ns / 1e6)
    }

    /// The same of the way there; none where not every reply told its time.
    pub fn jitter_up_ms(&self) -> Option<f64> {
        self.jitter_up.mean().filter(|_| self.one_way()).map(|ns| ns / 1e6)
    }

    /// The same of the way back.
    pub fn jitter_down_ms(&self) -> Option<f64> {
        let all = self.answered() > 0 && self.down.count() == self.answered();
        self.jitter_down.mean().filter(|_| all).map(|ns| ns / 1e6)
    }

    /// How far the other end's clock is from ours, where it has one of its own and runs at a constant rate.
    pub fn clock_offset(&self) -> Option<ClockOffset> {
        self.offset.estimate().filter(|_| self.apart)
    }

    /// One-way delays there and back in milliseconds, by one clock: where there are two, less what they are apart in the middle of
    /// the time. Where these can't be compared there are none.
    pub fn one_way_ms(&self) -> [Option<Summary>; 2] {
        let both = [self.up.summary(1e6), self.down.summary(1e6)];
        if !self.apart {
            return both;
        }
        let Some(offset) = self.clock_offset() else { return [None, None] };
        let apart_ms = offset.middle_ns() as f64 / 1e6;
        let [up, down] = both;
        [up.map(|s| shifted(s, -apart_ms)), down.map(|s| shifted(s, apart_ms))]
    }

    /// Whether each reply told its one-way delay.
    pub fn one_way(&self) -> bool {
        self.answered() > 0 && self.up.count() == self.answered()
    }
}

/// Answers that wait for those to packets that arrived earlier at the other end.
const OVERTAKEN: usize = 1024;

/// Jitter of the way there. RFC 3550 takes packets in the order of their arrival: that at the other end, which the reflector's numbers tell, and
/// not that of the answers.
#[derive(Debug, Clone, Default)]
struct JitterThere {
    jitter: Jitter,
    waiting: BTreeMap<(u64, u64), f64>,
}

impl JitterThere {
    /// Takes the time of a packet that the other end gave this number.
    fn push(&mut self, order: u64, seq: u64, ns: f64) {
        self.waiting.insert((order, seq), ns);
        if self.waiting.len() > OVERTAKEN
            && let Some((_, ns)) = self.waiting.pop_first()
        {
            self.jitter.push(ns);
        }
    }

    fn mean(&self) -> Option<f64> {
        let mut jitter = self.jitter;
        self.waiting.values().for_each(|ns| jitter.push(*ns));
        jitter.mean()
    }
}

fn shifted(s: Summary, by: f64) -> Summary {
    Summary {
        min: s.min + by,
        mean: s.mean + by,
        p50: s.p50 + by,
        p90: s.p90 + by,
        p99: s.p99 + by,
        max: s.max + by,
        ..s
    }
}

/// Connects that came about after the kernel had sent its SYN again, and how long the shortest and the longest took, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retried {
    pub count: u64,
    pub least_ns: u64,
    pub most_ns: u64,
}

impl Retried {
    fn read(value: &str) -> Option<Self> {
        let told: BTreeMap<String, u64> = serde_json::from_str(value).ok()?;
        let of = |key: &str| told.get(key).copied();
        Some(Self { count: of("count")?, least_ns: of("least_ns")?, most_ns: of("most_ns")? })
    }
}

/// The last stretch of a stream, in buckets of time.
#[derive(Debug, Clone)]
pub struct Recent {
    bucket_ns: u64,
    /// Number of the first bucket.
    first: u64,
    buckets: VecDeque<Bucket>,
}

/// What a bucket of time saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The longest round trip in nanoseconds.
    pub worst_ns: Option<u64>,
    /// Whether a packet got no answer.
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

    /// How long a bucket is.
    pub fn bucket_ns(&self) -> u64 {
        self.bucket_ns
    }
}

/// A packet of a stream with one every 200 ms.
#[cfg(test)]
pub fn sample(seq: u64, rtt_ms: Option<u64>, status: EchoStatus) -> EchoSample {
    EchoSample {
        t_ns: (seq * 200_000_000) as i64,
        seq,
        rtt_ns: rtt_ms.map(|ms| ms * 1_000_000),
        up_ns: None,
        down_ns: None,
        up_order: None,
        down_order: None,
        seen_late_ns: Some(1),
        queued_ns: None,
        sent_late_ns: None,
        bytes: 56,
        status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn tally(samples: impl IntoIterator<Item = EchoSample>) -> Tally {
        let mut tally = Tally::new(200 * MS);
        samples.into_iter().for_each(|s| tally.take(&s));
        tally
    }

    #[test]
    fn each_fate_is_counted_once_and_what_was_not_awaited_not_at_all() {
        use EchoStatus::{Duplicate, Error, Lost, LostDown, LostUp, Ok, Unfinished};
        let fates = [Ok, Ok, Lost, LostUp, LostDown, LostDown, Error, Unfinished];
        let mut samples: Vec<_> = fates
            .iter()
            .enumerate()
            .map(|(n, s)| sample(n as u64, (*s == Ok).then_some(20), *s))
            .collect();
        samples.push(sample(1, Some(30), Duplicate));
        let got = tally(samples);
        assert_eq!((got.sent, got.received, got.lost, got.unfinished), (7, 2, 4, 1));
        assert_eq!((got.lost_up, got.lost_down, got.errors, got.duplicates), (1, 2, 1, 1));
        assert_eq!(got.loss_ratio(), Some(5.0 / 7.0));
        assert_eq!(got.rtt.max(), Some(20 * MS), "a duplicate's time is not the packet's");
    }

    #[test]
    fn a_packet_that_comes_after_it_was_given_up_is_late_and_no_longer_lost() {
        use EchoStatus::{Late, LostDown, Ok};
        let live =
            [(0, Some(20), Ok), (1, None, LostDown), (2, None, LostDown), (1, Some(5000), Late)];
        let kept = [(0, Some(20), Ok), (1, Some(5000), Late), (2, None, LostDown)];
        for rows in [&live[..], &kept[..]] {
            let got = tally(rows.iter().map(|(seq, rtt, status)| sample(*seq, *rtt, *status)));
            assert_eq!((got.sent, got.received, got.received_late, got.lost), (3, 1, 1, 1));
            assert_eq!((got.lost_down, got.loss_ratio()), (1, Some(1.0 / 3.0)));
            assert_eq!(got.rtt.max(), Some(5000 * MS), "it is known how long it took");
        }
    }

    #[test]
    fn a_packet_that_nobody_could_wait_for_is_no_longer_lost() {
        use EchoStatus::{Late, Lost, Unfinished};
        let rows = [(0, None, Lost), (1, None, Lost), (0, Some(2000), Late), (1, None, Unfinished)];
        let got = tally(rows.map(|(seq, rtt, status)| sample(seq, rtt, status)));
        assert_eq!((got.sent, got.received_late, got.lost, got.unfinished), (1, 1, 0, 1));
        assert_eq!(got.loss_ratio(), Some(0.0));
    }

    #[test]
    fn jitter_of_the_way_there_is_in_the_order_of_arrival_there() {
        // Each second packet takes 30 ms there and is overtaken by the next one; answers come back in the order of sending.
        let of = |seq: u64, up_ms: i64, up_order| EchoSample {
            up_ns: Some(up_ms * 1_000_000),
            up_order: Some(up_order),
            ..sample(seq, Some(50), EchoStatus::Ok)
        };
        let pairs = (0..1000).flat_map(|n| [of(2 * n, 30, 2 * n + 1), of(2 * n + 1, 10, 2 * n)]);
        let far: Vec<f64> = (0..2000).map(|n| [10.0, 30.0][n % 2]).collect();
        let wanted = Jitter::of(far).mean();
        assert_eq!(tally(pairs).jitter_up_ms(), wanted);
        let three = [of(0, 10, 0), of(2, 30, 1), of(1, 30, 2)];
        let back = [three[0].clone(), three[2].clone(), three[1].clone()];
        assert_eq!(
            tally(three).jitter_up_ms(),
            tally(back).jitter_up_ms(),
            "however they came back"
        );
        let swapped = [of(0, 10, 0), of(2, 10, 2), of(1, 30, 1)];
        assert_eq!(tally(swapped).jitter_up_ms(), Some(20.0), "10, 30, 10 there");
    }

    #[test]
    fn figures_of_few_packets_are_known_to_be_of_few() {
        let fate = |n: u64, answered: u64| match n < answered {
            true => sample(n, Some(20), EchoStatus::Ok),
            false => sample(n, None, EchoStatus::Lost),
        };
        assert_eq!(tally((0..100).map(|n| fate(n, 15))).minority(), Some(0.15));
        assert_eq!(tally((0..100).map(|n| fate(n, 50))).minority(), None);
        assert_eq!(tally((0..100).map(|n| fate(n, 0))).minority(), None, "there are no figures");
    }

    #[test]
    fn losses_that_are_known_by_count_only_are_told_at_the_end() {
        let mut got = tally((0..5).map(|n| sample(n, None, EchoStatus::Lost)));
        got.fact(&Told::Losses, r#"{"up":3,"down":1}"#);
        assert_eq!((got.lost, got.lost_up, got.lost_down), (5, 3, 1));
        got.fact(&Told::Losses, r#"{"up":9,"down":9}"#);
        assert_eq!((got.lost_up, got.lost_down), (5, 0), "never more than were lost");
    }

    #[test]
    fn a_reply_behind_one_to_a_later_packet_is_out_of_order() {
        let ok = |seq| sample(seq, Some(20), EchoStatus::Ok);
        assert_eq!(tally([0, 1, 4, 2, 3, 5].map(ok)).reordered, 2);
        assert_eq!(tally([0, 1, 4, 7].map(ok)).reordered, 0);
    }

    #[test]
    fn jitter_of_the_round_trip_and_of_the_way_there_are_two_figures() {
        let swing = |n: u64| sample(n, Some(20 + n % 2), EchoStatus::Ok);
        let pings = tally((0..20).map(swing));
        assert_eq!((pings.jitter_rtt_ms(), pings.jitter_up_ms()), (Some(1.0), None));
        let steady = |n: u64| EchoSample { up_ns: Some(10), ..swing(n) };
        let stamp = tally((0..20).map(steady));
        assert_eq!((stamp.jitter_rtt_ms(), stamp.jitter_up_ms()), (Some(1.0), Some(0.0)));
    }

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
