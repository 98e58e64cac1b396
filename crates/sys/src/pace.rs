//! When a sender sends.
//!
//! ```text
//!   due(n) = start + n · interval + jitter(n)        jitter uniform in [0, spread), spread at most 10 ms
//!
//!   a load    spread 4 % of the interval
//!   a probe   spread half of the interval
//!   Poisson   due(n) = due(n − 1) + a gap that is exponential, alone, as long as the interval in the mean
//! ```
//!
//! The jitter of loads is there because a sender without any locks into phase with the drain of a FIFO and then gets every place
//! in it or none. A probe samples: at constant intervals it would beat against whatever else is periodic, as packets that
//! leave a busy link are, and measure that beat (RFC 2330, section 11.1.1). Each time counts from the start, so that errors don't add up and the
//! mean rate is exact. A sender that was late catches up at twice its rate at most: late packets don't leave in one bunch.
//!
//! It says when; somebody else sleeps.

use crate::clock::monotonic_ns;
use quell_stats::Rng;

/// The spread of a load as a part of the interval: 1/25.
const LOAD_DIVISOR: u64 = 25;
/// The spread of a probe as a part of the interval: 1/2.
const PROBE_DIVISOR: u64 = 2;
/// Most spread: two full packets at 2.5 Mbit/s, which is enough to leave any phase.
const MOST_SPREAD_NS: u64 = 10_000_000;

/// From the last preparation to the first packet.
const HEAD_START_NS: u64 = 2_000_000;
/// Long enough for everybody, and far from where sums overflow.
const ENDLESS_NS: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// When a task runs, in nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// When the measurement starts: what times in results count from.
    pub origin_ns: u64,
    pub start_ns: u64,
    pub duration_ns: u64,
}

impl Window {
    /// From now on: a moment later, when all is prepared, for this time, or where none is told for longer than anybody waits.
    pub fn from_now(duration_ns: Option<u64>) -> Self {
        let start_ns = monotonic_ns() + HEAD_START_NS;
        let duration_ns = duration_ns.map_or(ENDLESS_NS, |ns| ns.min(ENDLESS_NS));
        Self { origin_ns: start_ns, start_ns, duration_ns }
    }

    /// Whether it ends before anybody loses patience.
    pub fn has_end(&self) -> bool {
        self.duration_ns < ENDLESS_NS
    }

    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// A time of the monotonic clock as results have it: relative to the start of the measurement.
    pub fn t(&self, monotonic_ns: u64) -> i64 {
        monotonic_ns.wrapping_sub(self.origin_ns) as i64
    }

    /// The first multiple of `every_ns` after `now_ns`, counted from the start of the measurement, so that the reports of all
    /// tasks are of the same times.
    pub fn next_tick(&self, now_ns: u64, every_ns: u64) -> u64 {
        let every = i64::try_from(every_ns.max(1)).unwrap_or(i64::MAX);
        let next = (self.t(now_ns).div_euclid(every) + 1).saturating_mul(every);
        self.origin_ns.saturating_add_signed(next)
    }
}

/// The times of one sender, in nanoseconds of whatever clock the start is of.
#[derive(Debug, Clone)]
pub struct Pace {
    start_ns: u64,
    /// Nanoseconds between packets, as a fraction so that any rate is exact.
    interval: (u128, u128),
    spread_divisor: u64,
    count: u64,
    next: u64,
    due_ns: u64,
    /// Where it is a Poisson process: when that ends, since its count is by chance.
    poisson_until_ns: Option<u64>,
    rng: Rng,
}

impl Pace {
    /// A probe's times: a packet every `interval_ns` for `duration_ns`: as many as whole or begun intervals fit. None when the interval is zero.
    pub fn new(start_ns: u64, interval_ns: u64, duration_ns: u64, seed: u64) -> Option<Self> {
        Self::fractional(start_ns, (u128::from(interval_ns), 1), PROBE_DIVISOR, duration_ns, seed)
    }

    /// A load's times: packets of `bytes` at a rate in bits per second for `duration_ns`. None when either is zero.
    pub fn at_rate(
        start_ns: u64,
        bits_per_second: u64,
        bytes: u64,
        duration_ns: u64,
        seed: u64,
    ) -> Option<Self> {
        let numerator = u128::from(bytes) * 8 * 1_000_000_000;
        let interval = (numerator, u128::from(bits_per_second));
        Self::fractional(start_ns, interval, LOAD_DIVISOR, duration_ns, seed)
    }

    /// A load's times as a Poisson process: gaps are drawn alone, `bytes` / rate in the mean. None when either is zero.
    pub fn poisson(
        start_ns: u64,
        bits_per_second: u64,
        bytes: u64,
        duration_ns: u64,
        seed: u64,
    ) -> Option<Self> {
        let mut pace = Self::at_rate(start_ns, bits_per_second, bytes, duration_ns, seed)?;
        (pace.count, pace.due_ns) = (u64::MAX, start_ns);
        pace.poisson_until_ns = Some(start_ns.saturating_add(duration_ns));
        pace.schedule();
        Some(pace)
    }

    /// Ends after this many packets, if that is before the duration.
    pub fn at_most(mut self, count: u64) -> Self {
        self.count = self.count.min(count);
        self
    }

    fn fractional(
        start_ns: u64,
        interval: (u128, u128),
        spread_divisor: u64,
        duration_ns: u64,
        seed: u64,
    ) -> Option<Self> {
        let (numerator, denominator) = interval;
        if numerator == 0 || denominator == 0 {
            return None;
        }
        let count = (u128::from(duration_ns) * denominator).div_ceil(numerator);
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let rng = Rng::new(seed);
        let mut pace = Self {
            start_ns,
            interval,
            spread_divisor,
            count,
            next: 0,
            due_ns: start_ns,
            poisson_until_ns: None,
            rng,
        };
        pace.schedule();
        Some(pace)
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Which packet is next and when it is due; none when all were sent.
    pub fn next(&self) -> Option<(u64, u64)> {
        let over = self.poisson_until_ns.is_some_and(|until| self.due_ns >= until);
        (self.next < self.count && !over).then_some((self.next, self.due_ns))
    }

    /// The next packet was sent at this time.
    pub fn sent(&mut self, now_ns: u64) {
        self.next += 1;
        self.schedule();
        if self.poisson_until_ns.is_some() {
            return;
        }
        let half = (self.interval.0 / self.interval.1 / 2) as u64;
        self.due_ns = self.due_ns.max(now_ns.saturating_add(half));
    }

    fn schedule(&mut self) {
        let (numerator, denominator) = self.interval;
        if self.poisson_until_ns.is_some() {
            let gap = self.rng.exp(numerator as f64 / denominator as f64);
            self.due_ns = self.due_ns.saturating_add(gap as u64);
            return;
        }
        let interval = u64::try_from(numerator / denominator).unwrap_or(u64::MAX);
        let regular = u64::try_from(u128::from(self.next) * numerator / denominator);
        let spread = (interval / self.spread_divisor).min(MOST_SPREAD_NS);
        let shift = regular.unwrap_or(u64::MAX).saturating_add(self.rng.below(spread));
        self.due_ns = self.start_ns.saturating_add(shift);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends each packet when it is due.
    fn times(mut pace: Pace) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some((n, due)) = pace.next() {
            assert_eq!(n, times.len() as u64);
            times.push(due);
            pace.sent(due);
        }
        times
    }

    #[test]
    fn every_packet_is_within_its_spread_and_none_is_too_many() {
        let times = times(Pace::new(1_000, 20_000_000, 20_000_000_000, 7).unwrap());
        assert_eq!(times.len(), 1000);
        for (n, time) in times.iter().enumerate() {
            let regular = 1_000 + n as u64 * 20_000_000;
            assert!((regular..regular + 10_000_000).contains(time), "{n}: {time}");
        }
        let shifts: Vec<u64> =
            times.iter().enumerate().map(|(n, t)| t - 1_000 - n as u64 * 20_000_000).collect();
        let mean = shifts.iter().sum::<u64>() / 1000;
        assert!(mean.abs_diff(5_000_000) < 500_000, "half of a spread of 10 ms, not {mean} ns");
    }

    #[test]
    fn gaps_of_a_poisson_process_have_its_mean_and_deviation_and_end_with_the_duration() {
        // A millisecond in the mean, a hundred seconds: one standard deviation of the count is 316.
        let times = times(Pace::poisson(0, 8_000_000, 1000, 100_000_000_000, 7).unwrap());
        assert!(times.len().abs_diff(100_000) < 1_300, "{}", times.len());
        assert!(times.last().is_some_and(|last| *last < 100_000_000_000));
        let gaps: Vec<f64> = times.windows(2).map(|t| (t[1] - t[0]) as f64 / 1e6).collect();
        let squares = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
        assert!((squares - 2.0).abs() < 0.06, "E[gap²] is 2, not {squares}");
    }

    #[test]
    fn the_seed_decides_the_times() {
        let of = |seed| times(Pace::new(0, 1_000_000, 100_000_000, seed).unwrap());
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn a_rate_that_has_no_whole_interval_is_exact_over_an_hour() {
        // 8 Mbit/s of 1400 bytes: 714.28… packets a second.
        let pace = Pace::at_rate(0, 8_000_000, 1400, 3_600_000_000_000, 1).unwrap();
        assert_eq!(pace.count(), 3_600 * 1_000_000 / 1400 + 1, "2571428.57 begun intervals");
    }

    #[test]
    fn a_sender_that_was_held_up_catches_up_at_twice_its_rate_and_is_then_on_time() {
        let mut pace = Pace::new(0, 10_000_000, 1_000_000_000, 3).unwrap();
        pace.sent(0);
        // The second packet leaves 50 ms late.
        let mut now = 60_000_000;
        let mut late = Vec::new();
        pace.sent(now);
        while let Some((n, due)) = pace.next().filter(|(n, _)| *n < 20) {
            assert!(due >= now + 5_000_000, "packet {n} follows after {} ns", due - now);
            now = due;
            late.push(due > n * 10_000_000 + 5_000_000);
            pace.sent(now);
        }
        assert!(late[0]);
        assert!(!late[late.len() - 1], "by the 20th packet it is on time");
    }

    #[test]
    fn reports_are_of_round_times_of_the_measurement_also_before_its_start() {
        let window = Window { origin_ns: 1_000, start_ns: 900, duration_ns: 500 };
        assert_eq!(window.t(900), -100);
        assert_eq!(window.next_tick(930, 40), 960);
        assert_eq!(window.next_tick(960, 40), 1_000);
        assert_eq!(window.next_tick(1_001, 40), 1_040);
        assert_eq!(window.end_ns(), 1_400);
    }

    #[test]
    fn a_count_ends_it_before_the_duration_does() {
        let pace = || Pace::new(0, 1_000_000, u64::MAX, 1).unwrap();
        assert_eq!(times(pace().at_most(7)).len(), 7);
        assert_eq!(pace().at_most(u64::MAX).count(), u64::MAX.div_ceil(1_000_000));
    }

    #[test]
    fn nothing_can_be_paced_at_no_rate() {
        assert!(Pace::new(0, 0, 1, 1).is_none());
        assert!(Pace::at_rate(0, 0, 100, 1, 1).is_none());
        assert!(Pace::at_rate(0, 100, 0, 1, 1).is_none());
        assert!(Pace::new(0, 1, 0, 1).unwrap().next().is_none());
    }
}
