//! The controller against a hidden buffer and a series, with neither kernel nor clock.
//!
//! ```text
//!   up     own queue, never empty ── rate ──► buffer ── series ──► far end ── 20 ms ──► answer
//!   down   four Reno flows ── 20 ms ──► buffer ── series ──► own queue with CoDel ── rate ──► acknowledgements
//! ```

use super::controller::{LineSample, NewRate, RateController};
use quell_model::task::Direction;
use quell_policy::Bounds;
use quell_series::Steps;
use quell_series::access_class::CLASSES;
use quell_stats::{Rng, quantile};
use quell_units::{Rate, Span};
use std::collections::VecDeque;

const STEP_NS: u64 = 500_000;
const ONE_WAY_NS: u64 = 20_000_000;
const PROBE_NS: u64 = 11_000_000;

/// A line as a mobile one: a step each 100 ms, in its logarithm a walk that returns to the middle.
pub fn mobile(seed: u64, middle_mbit: f64) -> Steps<Rate> {
    let mut rng = Rng::new(seed);
    let mut x = 0.0_f64;
    let steps = (0..600).map(|n| {
        let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        x = 0.93 * x + 0.22 * normal;
        let mbit = (middle_mbit * x.exp()).clamp(middle_mbit / 10.0, middle_mbit * 4.0);
        (Span::from_millis(n * 100), Rate::from_bps((mbit * 1e6) as u64))
    });
    Steps::new(steps, Span::from_secs(60)).expect("times rise")
}

#[derive(Debug)]
pub struct Outcome {
    pub goodput: f64,
    /// The wait in the line's queue in ms, at each half millisecond: median and 99 % quantile.
    pub p50: f64,
    pub p99: f64,
    pub changes: usize,
    pub rebased: u32,
}

/// What the far end's clock says beside ours, and how the path's own delay changes.
pub type Quirk = fn(u64) -> (i64, u64);

pub fn plain(_: u64) -> (i64, u64) {
    (1_000_000_000, 0)
}

/// Bytes in and out of the hidden buffer by step.
struct HiddenBuffer<'a> {
    line: &'a Steps<Rate>,
    bytes: f64,
    came: Vec<f64>,
    left: Vec<f64>,
    fill: f64,
}

impl HiddenBuffer<'_> {
    /// What leaves in a step in which so much comes.
    fn step(&mut self, now: u64, comes: f64) -> f64 {
        let can = self.line.at(Span::from_nanos(now)).bps() as f64 / 8e9 * STEP_NS as f64;
        let taken = comes.min(self.bytes - self.fill + can).max(0.0);
        let goes = can.min(self.fill + taken);
        self.fill += taken - goes;
        self.came.push(self.came.last().unwrap_or(&0.0) + taken);
        self.left.push(self.left.last().unwrap_or(&0.0) + goes);
        goes
    }

    fn waits_ms(&self) -> Vec<f64> {
        let mut out = 0;
        let mut waits = Vec::new();
        for (n, came) in self.came.iter().enumerate() {
            while out < self.left.len() && self.left[out] + 0.5 < *came {
                out += 1;
            }
            waits.push((out.max(n) - n) as f64 * STEP_NS as f64 / 1e6);
        }
        waits
    }
}

struct SimulatedProbe {
    sent: u64,
    passed: u64,
    /// What must have left the buffer before it.
    behind: f64,
    left: Option<u64>,
}

/// Follows a line for so many seconds, or sends at a fixed rate.
pub fn run(
    line: &Steps<Rate>,
    way: Direction,
    buffer: f64,
    seconds: u64,
    fixed: Option<Rate>,
    quirk: Quirk,
) -> Outcome {
    let bounds = Bounds {
        floor: Rate::from_bps(line.mean().bps() / 10),
        ceiling: Rate::from_bps(line.mean().bps() * 4),
    };
    let mut controller = RateController::new(way, bounds, bounds.floor);
    let mut rate = fixed.unwrap_or(controller.rate()).bps() as f64;
    let mut hidden =
        HiddenBuffer { line, bytes: buffer, came: Vec::new(), left: Vec::new(), fill: 0.0 };
    let mut flows = Flows::default();
    let mut probes: VecDeque<SimulatedProbe> = VecDeque::new();
    let (mut passed, mut delivered, mut changes, mut next_probe) = (0.0, 0.0, 0, 0);
    let apply = |new: Option<NewRate>, rate: &mut f64, changes: &mut usize| {
        if let (Some(new), None) = (new, fixed) {
            *rate = new.rate.bps() as f64;
            *changes += 1;
        }
    };
    for now in (0..seconds * 1_000_000_000).step_by(STEP_NS as usize) {
        let may = rate / 8e9 * STEP_NS as f64;
        let waiting;
        if way == Direction::Up {
            passed += may;
            waiting = true;
            delivered += hidden.step(now, may);
        } else {
            let came = hidden.step(now, flows.arriving(now));
            passed += came;
            delivered += flows.own_queue(now, came, may);
            waiting = flows.backlog > 1500.0;
        }
        if now >= next_probe {
            let behind = hidden.came.last().copied().unwrap_or(0.0);
            probes.push_back(SimulatedProbe {
                sent: now,
                passed: passed as u64,
                behind,
                left: None,
            });
            next_probe += PROBE_NS;
        }
        let out = hidden.left.last().copied().unwrap_or(0.0);
        for probe in &mut probes {
            if probe.left.is_none() && out + 0.5 >= probe.behind {
                probe.left = Some(now);
            }
        }
        // Up the line's queue comes first and then the rest of the way; down it is met 20 ms after the probe left, which changes nothing here.
        let back = |left: u64| left + 2 * ONE_WAY_NS + quirk(left).1;
        while let Some(left) = probes.front().and_then(|p| p.left).filter(|left| now >= back(*left))
        {
            let probe = probes.pop_front().expect("it was there");
            let delay = (left - probe.sent) + ONE_WAY_NS + quirk(left).1;
            let (counted_ns, at) = match way {
                Direction::Up => (probe.sent, probe.passed),
                Direction::Down => (now, passed as u64),
            };
            let sample = LineSample {
                counted_ns,
                passed: at,
                delay_ns: Some(delay as i64 + quirk(left).0),
                rtt_ns: now - probe.sent,
                now_passed: passed as u64,
                now_ns: now,
                is_waiting: waiting,
            };
            apply(controller.sample(&sample), &mut rate, &mut changes);
        }
        if now % 10_000_000 == 0
            && let Some(probe) = probes.front()
        {
            let new = controller.overdue(probe.sent, now);
            apply(new, &mut rate, &mut changes);
        }
    }
    let skip = 5_000_000_000 / STEP_NS as usize;
    let waits = hidden.waits_ms()[skip..].to_vec();
    let q = |p| quantile(&waits, p).expect("there are waits");
    Outcome {
        goodput: delivered * 8.0 / seconds as f64,
        p50: q(0.5),
        p99: q(0.99),
        changes,
        rebased: controller.rebased,
    }
}

/// Four Reno flows whose packets wait in our own queue too, where CoDel drops some.
struct Flows {
    window: f64,
    inflight: f64,
    under_way: VecDeque<(u64, f64)>,
    acks: VecDeque<(u64, f64)>,
    backlog: f64,
    above_since: Option<u64>,
    drops: u32,
    next_drop: u64,
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            window: 60_000.0,
            inflight: 0.0,
            under_way: VecDeque::new(),
            acks: VecDeque::new(),
            backlog: 0.0,
            above_since: None,
            drops: 0,
            next_drop: 0,
        }
    }
}

impl Flows {
    fn arriving(&mut self, now: u64) -> f64 {
        while let Some((_, bytes)) = self.acks.pop_front_if(|(at, _)| *at <= now) {
            self.inflight -= bytes;
            self.window += 4.0 * 1448.0 * bytes / self.window;
        }
        let sends = (self.window - self.inflight).clamp(0.0, 30_000.0);
        self.inflight += sends;
        self.under_way.push_back((now + ONE_WAY_NS, sends));
        let mut came = 0.0;
        while let Some((_, bytes)) = self.under_way.pop_front_if(|(at, _)| *at <= now) {
            came += bytes;
        }
        came
    }

    fn own_queue(&mut self, now: u64, came: f64, may: f64) -> f64 {
        self.backlog += came;
        let goes = self.backlog.min(may);
        self.backlog -= goes;
        let sojourn_ms = self.backlog / may * STEP_NS as f64 / 1e6;
        if sojourn_ms <= 5.0 {
            (self.above_since, self.drops) = (None, 0);
        } else {
            let since = *self.above_since.get_or_insert(now);
            if now >= (since + 100_000_000).max(self.next_drop) {
                self.drops += 1;
                self.next_drop = now + (1e8 / f64::from(self.drops).sqrt()) as u64;
                self.window -= self.window / 4.0 * 0.5;
            }
        }
        self.acks.push_back((now + ONE_WAY_NS, goes));
        goes
    }
}

/// What it does with probes of a loaded line, each so much delayed.
fn of_delays(controller: &mut RateController, ms: impl Fn(u64) -> f64, is_waiting: bool) {
    let bits = if is_waiting { controller.rate().bps() / 1000 } else { 0 };
    for n in 0..200 {
        let now = 5_000_000_000 * (1 + u64::from(is_waiting)) + n * PROBE_NS;
        let passed = n * bits * PROBE_NS / 8_000_000;
        let delay = (1e6 * ms(n)) as u64;
        let sample = LineSample {
            counted_ns: now,
            passed,
            delay_ns: Some(delay as i64),
            rtt_ns: delay + ONE_WAY_NS,
            now_passed: passed,
            now_ns: now,
            is_waiting,
        };
        controller.sample(&sample);
    }
}

#[test]
fn grants_each_5_ms_are_no_queue_nor_is_the_packet_before_a_probe_at_a_low_rate() {
    let mbit = |n: u64| Rate::from_bps(n * 1_000_000);
    let bounds = Bounds { floor: mbit(2), ceiling: mbit(40) };
    for ms in [|n: u64| 20.0 + (n * 7 % 5) as f64, |n: u64| 20.0 + if n > 0 { 3.0 } else { 0.0 }] {
        let mut controller = RateController::new(Direction::Up, bounds, mbit(4));
        of_delays(&mut controller, ms, false);
        of_delays(&mut controller, ms, true);
        assert!(controller.rate() > mbit(8), "{}", controller.rate());
    }
}

#[test]
fn flows_that_begin_on_a_line_with_grants_fill_a_part_of_it_and_tell_nothing_of_its_capacity() {
    let mbit = |n: u64| Rate::from_bps(n * 1_000_000);
    let bounds = Bounds { floor: mbit(3), ceiling: mbit(40) };
    let mut controller = RateController::new(Direction::Up, bounds, mbit(16));
    let grant = |n: u64| 20.0 + (n * 7 % 5) as f64;
    of_delays(&mut controller, grant, false);
    // Half of each 50 ms nothing leaves, and 16 Mbit/s in the other half.
    let passed = |ns: u64| {
        let (whole, part) = (ns / 50_000_000, ns % 50_000_000);
        whole * 50_000 + part.saturating_sub(25_000_000) / 500
    };
    for n in 0..200 {
        let sent = 10_000_000_000 + n * PROBE_NS;
        let delay = (1e6 * (grant(n) + 3.0 * (n % 3 / 2) as f64)) as u64;
        let now = sent + delay + ONE_WAY_NS;
        controller.sample(&LineSample {
            counted_ns: sent,
            passed: passed(sent),
            delay_ns: Some(delay as i64),
            rtt_ns: delay + ONE_WAY_NS,
            now_passed: passed(now),
            now_ns: now,
            is_waiting: true,
        });
        assert!(controller.rate() > mbit(12), "probe {n}: {}", controller.rate());
    }
}

#[test]
fn after_a_trickle_of_acknowledgements_a_wait_of_a_tenth_of_a_second_is_a_queue() {
    let mbit = |n: u64| Rate::from_bps(n * 1_000_000);
    let bounds = Bounds { floor: mbit(4), ceiling: mbit(50) };
    let mut controller = RateController::new(Direction::Down, bounds, mbit(40));
    let mut passed = 0;
    for n in 0..600 {
        let is_trickle = n < 300;
        passed += if is_trickle { 60 } else { 20_000_000 / 8 * PROBE_NS / 1_000_000_000 };
        let wait = if is_trickle { 6_000_000 * (n % 3) } else { 100_000_000 };
        let now = 1_000_000_000 + n * PROBE_NS;
        controller.sample(&LineSample {
            counted_ns: now,
            passed,
            delay_ns: Some((ONE_WAY_NS + wait) as i64),
            rtt_ns: 2 * ONE_WAY_NS + wait,
            now_passed: passed,
            now_ns: now,
            is_waiting: is_trickle,
        });
        // What is less than half of what arrives lets the queue run empty.
        if !is_trickle && controller.rate() < mbit(10) {
            return;
        }
    }
    panic!("{} though packets wait 100 ms", controller.rate());
}

/// A line of each of some seeds, followed and held at its mean.
fn arena(way: Direction) -> Vec<(Outcome, Outcome)> {
    let of = |seed| {
        let line = mobile(seed, 20.0);
        let mean = Some(line.mean());
        let [followed, fixed] =
            [None, mean].map(|fixed| run(&line, way, 500_000.0, 60, fixed, plain));
        (followed, fixed)
    };
    (1..=8).map(of).collect()
}

#[test]
fn a_mobile_line_carries_more_than_at_its_mean_and_packets_wait_a_fifth_as_long() {
    for way in [Direction::Up, Direction::Down] {
        for (seed, (followed, fixed)) in (1..).zip(arena(way)) {
            let said = format!("{way:?}, seed {seed}: {followed:?}, at the mean {fixed:?}");
            assert!(followed.goodput > 1.01 * fixed.goodput, "{said}");
            assert!(followed.p50 < 10.0 && followed.p99 < 90.0, "{said}");
            assert!(followed.changes < 60 * 60 && fixed.changes == 0, "{said}");
            assert!(followed.p99 < fixed.p99 / 4.0 && followed.rebased <= 2, "{said}");
        }
    }
}

#[test]
fn clocks_that_are_set_or_drift_and_a_path_that_becomes_longer_mislead_it_for_seconds_at_most() {
    let steady = Steps::constant(Rate::from_bps(20_000_000), Span::from_secs(1)).expect("a line");
    let quirks: [(&str, Quirk); 5] = [
        ("nothing", plain),
        ("set on", |at| if at > 30_000_000_000 { (9_000_000_000, 0) } else { (0, 0) }),
        ("set back", |at| if at > 30_000_000_000 { (-9_000_000_000, 0) } else { (0, 0) }),
        ("100 ppm", |at| (at as i64 / 10_000, 0)),
        ("40 ms longer", |at| (0, if at > 30_000_000_000 { 40_000_000 } else { 0 })),
    ];
    for way in [Direction::Up, Direction::Down] {
        for (name, quirk) in quirks {
            let outcome = run(&steady, way, 500_000.0, 60, None, quirk);
            let least = if name == "40 ms longer" { 0.83 } else { 0.92 };
            let said = format!("{name}, {way:?}: {outcome:?}");
            let most = if name == "40 ms longer" { 120.0 } else { 40.0 };
            assert!(outcome.goodput > least * 20e6 && outcome.p99 < most, "{said}");
        }
    }
}

#[test]
fn a_queue_that_drops_before_it_waits_is_heard_by_its_losses() {
    let steady = Steps::constant(Rate::from_bps(20_000_000), Span::from_secs(1)).expect("a line");
    let outcome = run(&steady, Direction::Up, 6_000.0, 60, None, plain);
    assert!(outcome.goodput > 0.9 * 20e6, "{outcome:?}");
}

#[test]
fn a_queue_that_flows_keep_in_the_line_is_not_taken_for_its_spread() {
    // A cable line, on which flows need seconds to fill the rate: ours is empty, the line's is not.
    let class = CLASSES.iter().find(|class| class.name == "docsis").expect("a class");
    for seed in [4, 9] {
        let line = class.make(seed, Span::from_secs(60)).down.and_then(|series| series.rate);
        let line = line.expect("its rate varies");
        let outcome = run(&line, Direction::Down, 1_500_000.0, 60, None, plain);
        let said = format!("seed {seed}: {outcome:?}");
        assert!(outcome.p99 < 15.0 && outcome.goodput > 0.85 * line.mean().bps() as f64, "{said}");
    }
}
