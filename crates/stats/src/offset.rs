//! How far two clocks are apart, and how much faster one runs, from packets that went there and back.
//!
//! Each packet says two things about θ, the other clock's time minus ours: no delay is negative, so that
//!
//! ```text
//!   θ ≤ received there − sent here                    (the raw delay up, which is up + θ)
//!   θ ≥ sent there − received here                    (minus the raw delay down, which is down − θ)
//!
//!   raw │ . '  .  .   ' .   .      up: every point lies above the line θ(t), by the packet's delay
//!       │_____________________     lower hull of them
//!       │ ─────── θ(t) ───────     somewhere in between, straight as long as the clocks' rates are constant
//!       │‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾     upper hull
//!       │  ' .  .  .   ' .   .     −down: every point lies below
//! ```
//!
//! The estimate is the line in the middle of the widest straight lane between the two clouds (convex hulls: Zhang, Liu, Xia, "Clock
//! synchronization algorithms for network measurements", INFOCOM 2002). Where in the lane θ really lies nothing can tell: the middle
//! is right when the empty path takes as long up as down. The bound needs no such assumption, only constant rates; it is about
//! half of the least round-trip time.

/// Most stretches of time of which an estimator keeps the least delays.
const MOST: usize = 512;
/// Two clocks' rates differ by at most this: the kernel corrects one by up to 500 ppm (adjtimex(2)).
const MOST_DRIFT: f64 = 1e-3;
/// Steps of a search that each leave two thirds at most.
const STEPS: usize = 120;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockOffset {
    /// A whole number of nanoseconds that all else counts from.
    base_ns: i64,
    at_ns: i64,
    /// The other clock's time minus ours at `at_ns`, less `base_ns`.
    offset_ns: f64,
    /// How much faster the other clock runs: nanoseconds a nanosecond.
    drift: f64,
    /// How far the truth may be from the estimate, in nanoseconds, at any time between first and last packet.
    pub bound_ns: f64,
}

impl ClockOffset {
    /// The other clock's time minus ours at `t_ns`, in nanoseconds.
    pub fn at(&self, t_ns: i64) -> i64 {
        let away = self.offset_ns + self.drift * (t_ns.saturating_sub(self.at_ns)) as f64;
        self.base_ns.saturating_add(away.round() as i64)
    }

    /// The time in the middle between first and last packet.
    pub fn middle_at_ns(&self) -> i64 {
        self.at_ns
    }

    pub fn middle_ns(&self) -> i64 {
        self.at(self.at_ns)
    }

    pub fn drift_ppm(&self) -> f64 {
        self.drift * 1e6
    }
}

/// Takes packets and keeps what decides: the least delays of each stretch of time. Bounded in memory.
#[derive(Debug, Clone, Default)]
pub struct OffsetEstimator {
    base_ns: Option<i64>,
    width_ns: i64,
    stretches: Vec<Stretch>,
    /// The packets that were sent first and last: time, up, down. Without them nothing would be known of the ends.
    ends: Option<[(i64, i64, i64); 2]>,
}

/// The least delays of a stretch of time, each with its time.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    index: i64,
    up: (i64, i64),
    down: (i64, i64),
}

impl Stretch {
    fn join(&mut self, other: &Stretch) {
        let least = |a: (i64, i64), b: (i64, i64)| if b.1 < a.1 { b } else { a };
        self.up = least(self.up, other.up);
        self.down = least(self.down, other.down);
    }
}

impl OffsetEstimator {
    pub fn new() -> Self {
        Self::default()
    }

    /// A packet sent at `t_ns` of our clock came back: delays in nanoseconds as the two clocks tell them, `up` by theirs minus ours,
    /// `down` by ours minus theirs. Packets may come in any order, of any time.
    pub fn push(&mut self, t_ns: i64, up_ns: i64, down_ns: i64) {
        let middle = ((i128::from(up_ns) - i128::from(down_ns)) / 2) as i64;
        let base = *self.base_ns.get_or_insert(middle);
        self.width_ns = self.width_ns.max(1_000_000);
        let (up, down) = (up_ns.saturating_sub(base), down_ns.saturating_add(base));
        let packet = (t_ns, up, down);
        let ends = self.ends.get_or_insert([packet; 2]);
        if t_ns < ends[0].0 {
            ends[0] = packet;
        }
        if t_ns > ends[1].0 {
            ends[1] = packet;
        }
        let index = t_ns.div_euclid(self.width_ns);
        let stretch = Stretch { index, up: (t_ns, up), down: (t_ns, down) };
        match self.stretches.binary_search_by_key(&index, |s| s.index) {
            Ok(place) => self.stretches[place].join(&stretch),
            Err(place) => self.stretches.insert(place, stretch),
        }
        while self.stretches.len() > MOST {
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        for stretch in &mut self.stretches {
            stretch.index = stretch.index.div_euclid(2);
        }
        self.stretches.dedup_by(|next, kept| {
            let same = next.index == kept.index;
            if same {
                kept.join(next);
            }
            same
        });
    }

    /// The estimate. None without packets, and where no constant difference of rates explains them: a clock was set in between.
    pub fn estimate(&self) -> Option<ClockOffset> {
        let base_ns = self.base_ns?;
        let ends = self.ends?;
        let at_ns = ends[0].0.midpoint(ends[1].0);
        let point = |(t, value): (i64, i64)| ((t.saturating_sub(at_ns)) as f64, value as f64);
        let ups = self.stretches.iter().map(|s| s.up).chain(ends.map(|(t, up, _)| (t, up)));
        let downs = self.stretches.iter().map(|s| s.down).chain(ends.map(|(t, _, down)| (t, down)));
        let (up, down) =
            (lower_hull(ups.map(point).collect()), lower_hull(downs.map(point).collect()));
        let lane = |drift: f64| {
            let above = up.iter().map(|(t, v)| v - drift * t).fold(f64::INFINITY, f64::min);
            let below = down.iter().map(|(t, v)| v + drift * t).fold(f64::INFINITY, f64::min);
            (above, below)
        };
        let width = |drift: f64| lane(drift).0 + lane(drift).1;
        // Where the time is too short to tell a drift from a queue that grows, all of what can be is as good: then none is taken.
        let drift = Some(least_at_the_top(width)).filter(|d| d.abs() < 0.9 * MOST_DRIFT);
        let drift =
            drift.unwrap_or_else(|| if width(0.0) >= 0.0 { 0.0 } else { least_at_the_top(width) });
        let (above, below) = lane(drift);
        // A nanosecond for rounding.
        if above + below < -1.0 {
            return None;
        }
        let offset_ns = (above - below) / 2.0;
        let line = |t: f64| offset_ns + drift * t;
        // Every straight line between the clouds may be the truth. How far one may be from the estimate grows towards the ends.
        let rates = where_positive(drift, |drift| lane(drift).0 + lane(drift).1 + 1.0);
        let ends = [point((ends[0].0, 0)).0, point((ends[1].0, 0)).0];
        let bound = ends.map(|t| {
            let most = top(rates, |drift| lane(drift).0 + drift * t);
            let least = top(rates, |drift| lane(drift).1 - drift * t);
            (most - line(t)).max(least + line(t))
        });
        let bound_ns = bound[0].max(bound[1]).max(0.0);
        Some(ClockOffset { base_ns, at_ns, offset_ns, drift, bound_ns })
    }
}

/// Where a concave function is greatest within a range; the middle, if it is so at several places.
fn top_at((mut low, mut high): (f64, f64), of: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..STEPS {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        match of(a).total_cmp(&of(b)) {
            std::cmp::Ordering::Less => low = a,
            std::cmp::Ordering::Greater => high = b,
            std::cmp::Ordering::Equal => (low, high) = (a, b),
        }
    }
    low.midpoint(high)
}

fn top(range: (f64, f64), of: impl Fn(f64) -> f64) -> f64 {
    of(top_at(range, &of)).max(of(range.0)).max(of(range.1))
}

/// The drift at which a concave function is greatest; the least of all those where it is.
fn least_at_the_top(of: impl Fn(f64) -> f64) -> f64 {
    let at = top_at((-MOST_DRIFT, MOST_DRIFT), &of);
    // Equal but for rounding.
    let enough = of(at) - 0.5;
    let (low, high) = where_positive(at, |drift| of(drift) - enough);
    0.0_f64.max(low).min(high)
}

/// The range of drifts around `inside` where a concave function is not negative.
fn where_positive(inside: f64, of: impl Fn(f64) -> f64) -> (f64, f64) {
    let edge = |far: f64| {
        if of(far) >= 0.0 {
            return far;
        }
        let (mut inside, mut outside) = (inside, far);
        for _ in 0..STEPS {
            let middle = inside.midpoint(outside);
            if of(middle) >= 0.0 { inside = middle } else { outside = middle }
        }
        inside
    };
    (edge(-MOST_DRIFT), edge(MOST_DRIFT))
}

/// The lower convex hull of points (Andrew's monotone chain), from left to right.
fn lower_hull(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points.dedup_by_key(|p| p.0);
    let mut hull: Vec<(f64, f64)> = Vec::with_capacity(points.len());
    for point in points {
        while let [.., a, b] = hull[..] {
            let turn = (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0);
            if turn > 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use proptest::prelude::*;

    const MS: f64 = 1e6;

    /// A packet each 20 ms for 60 s over a path of these base delays, with queues that come and go by themselves on either way.
    fn path(up_ms: f64, down_ms: f64, theta: impl Fn(f64) -> f64) -> OffsetEstimator {
        let mut rng = Rng::new(7);
        let mut queue =
            |most: f64| (rng.below(1 << 20) as f64 / (1 << 20) as f64).powi(3) * most * MS;
        let mut estimator = OffsetEstimator::new();
        for n in 0..3_000 {
            let t = f64::from(n) * 20.0 * MS;
            let (up, down) = (up_ms * MS + queue(200.0), down_ms * MS + queue(5.0));
            estimator.push(t as i64, (up + theta(t)) as i64, (down - theta(t)) as i64);
        }
        estimator
    }

    #[test]
    fn a_symmetric_path_gives_offset_and_drift_whatever_its_queues_do() {
        // 55 years apart, and 40 ppm faster.
        let theta = |t: f64| 1.75e18 + 40e-6 * t;
        let found = path(10.0, 10.0, theta).estimate().unwrap();
        for t in [0.0, 30e9, 59e9] {
            let wrong = found.at(t as i64) as f64 - theta(t);
            assert!(wrong.abs() < 0.5 * MS, "{wrong} ns at {t}");
        }
        assert!((found.drift_ppm() - 40.0).abs() < 10.0, "{}", found.drift_ppm());
        assert!((10.0 * MS..12.0 * MS).contains(&found.bound_ns), "{}", found.bound_ns);
    }

    #[test]
    fn an_asymmetric_path_misleads_by_half_its_difference_and_the_bound_covers_it() {
        let found = path(10.0, 30.0, |_| 5.0 * MS).estimate().unwrap();
        let wrong = found.at(30_000_000_000) as f64 - 5.0 * MS;
        assert!((wrong + 10.0 * MS).abs() < 0.5 * MS, "{wrong}");
        assert!((20.0 * MS..23.0 * MS).contains(&found.bound_ns), "{}", found.bound_ns);
    }

    #[test]
    fn delays_that_are_exact_give_an_estimate_that_is() {
        let mut estimator = OffsetEstimator::new();
        for n in 0..1000 {
            estimator.push(n * 20_000_000, 10_000_000 - 3_000, 10_000_000 + 3_000);
        }
        let found = estimator.estimate().unwrap();
        assert_eq!((found.at(0), found.at(19_980_000_000)), (-3_000, -3_000));
        assert_eq!((found.drift_ppm(), found.bound_ns), (0.0, 10_000_000.0));
    }

    #[test]
    fn a_single_packet_says_little_and_none_nothing() {
        let mut estimator = OffsetEstimator::new();
        assert_eq!(estimator.estimate(), None);
        estimator.push(5, 30, 10);
        let found = estimator.estimate().unwrap();
        assert_eq!((found.at(5), found.bound_ns), (10, 20.0));
    }

    #[test]
    fn a_queue_that_grows_for_a_moment_is_not_taken_for_a_drift() {
        let mut estimator = OffsetEstimator::new();
        for n in 0..15 {
            estimator.push(n * 10_000_000, 60_000 + n * 30_000_000, 10_000);
        }
        let found = estimator.estimate().unwrap();
        assert_eq!(found.drift_ppm(), 0.0);
        assert!(found.at(0).unsigned_abs() as f64 <= found.bound_ns, "{found:?}");
    }

    #[test]
    fn a_clock_that_was_set_in_between_has_no_one_offset() {
        let theta = |t: f64| if t < 30e9 { 0.0 } else { 500.0 * MS };
        assert_eq!(path(10.0, 10.0, theta).estimate(), None);
    }

    #[test]
    fn an_hour_takes_no_more_memory_than_a_second() {
        let mut estimator = OffsetEstimator::new();
        for n in 0..360_000 {
            estimator.push(n * 10_000_000, 7, 9);
        }
        assert!(estimator.stretches.len() <= MOST);
        assert_eq!(estimator.estimate().map(|e| e.at(0)), Some(-1));
    }

    proptest! {
        #[test]
        fn the_truth_is_within_the_bound_whatever_the_delays(
            delays in prop::collection::vec((0u32..50_000_000, 0u32..50_000_000), 1..200),
            theta in -1_000_000_000_000i64..1_000_000_000_000,
            ppm in -400i64..400,
        ) {
            let truth = |t: i64| theta + t / 1_000_000 * ppm;
            let mut estimator = OffsetEstimator::new();
            for (n, (up, down)) in delays.iter().enumerate() {
                let t = n as i64 * 10_000_000;
                estimator.push(t, i64::from(*up) + truth(t), i64::from(*down) - truth(t));
            }
            let found = estimator.estimate().expect("the rates are constant");
            for n in 0..delays.len() as i64 {
                let t = n * 10_000_000;
                let wrong = (found.at(t) - truth(t)).abs() as f64;
                prop_assert!(wrong <= found.bound_ns + 2.0, "{wrong} > {} at {t}", found.bound_ns);
            }
        }

        #[test]
        fn nonsense_makes_no_panic(
            packets in prop::collection::vec((any::<i64>(), any::<i64>(), any::<i64>()), 0..700),
        ) {
            let mut estimator = OffsetEstimator::new();
            for (t, up, down) in packets {
                estimator.push(t, up, down);
            }
            if let Some(found) = estimator.estimate() {
                found.at(i64::MAX);
            }
        }
    }
}
