//! The rate of one direction of a line that varies, from how long small packets wait in the line's hidden queue. Pure.
//!
//! ```text
//!   own queue ──► rate ──► line's queue ──► line            up: bytes are counted when a probe leaves
//!   line ──► line's queue ──► own queue                     down: when its answer comes
//!
//!   between two probes that waited q1, q2 > 0     capacity = bytes ÷ (time between them, up with q2 − q1 more)
//!   rate = capacity × (1 + (target − queue now) ÷ horizon)
//!   the line's queue is empty, and ours is not    the rate grows, in larger and larger steps
//! ```
//!
//! While ours has a backlog and the line's has none, the rate goes half the way back to the median of what the line carried in the last second.
//!
//! A wait is what a delay is above the least of the last seconds. So that this is not one with a queue in it, the queue is let run empty now and then.
//! A probe that is overdue tells a wait too, before its answer does.

use quell_model::task::Direction;
use quell_policy::{Bounds, FRAME};
use quell_stats::quantile;
use quell_units::Rate;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;

/// The wait that is aimed at, and what is about none.
const TARGET_S: f64 = 0.003;
/// In which a wait above that is to be gone.
const HORIZON_S: f64 = 0.08;
/// Over which the capacity is reckoned, where packets are small beside it.
const WINDOW_S: f64 = 0.05;
/// How long what the line carried is a rate to go back to.
const CARRIED_S: f64 = 1.0;
/// Seconds of which the least delay is the base, and without an empty queue after which one is made.
const BASE_SECONDS: usize = 20;
const DRAIN_EVERY_S: f64 = 8.0;
/// The longest packet's bits.
pub const PACKET_BITS: f64 = (FRAME * 8) as f64;

/// What one probe tells of a direction. Times are of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineSample {
    /// When the bytes were counted: up as the probe left, down as its answer came.
    pub counted_ns: u64,
    /// Bytes that had passed our queue then (down: that had come to it).
    pub passed: u64,
    /// Of this direction, from any zero; none of a probe whose answer did not come.
    pub delay_ns: Option<i64>,
    pub rtt_ns: u64,
    /// Bytes that have passed by now, and when that is.
    pub now_passed: u64,
    pub now_ns: u64,
    /// Whether something waits in our queue.
    pub is_waiting: bool,
}

/// Why a rate was changed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum RateReason {
    Begun,
    /// Packets wait in the line's queue, so long; it carries so much.
    Waits {
        wait_ms: f64,
        capacity_bps: u64,
    },
    /// The line's queue is shorter than it may be.
    Room {
        wait_ms: f64,
        capacity_bps: u64,
    },
    /// Ours has a backlog and the line's has none.
    Empty,
    /// The answer to a probe is so late.
    Overdue {
        late_ms: f64,
    },
    Loss {
        lost_percent: f64,
    },
    /// To see the delay without a queue.
    Drained,
    Silent,
    /// None of the flows carries much.
    NoFlow,
    Tested,
    /// No signal is known to see the line's queue.
    Unseen,
    /// The follower ended, and nobody ended it on purpose.
    Ended,
}

impl fmt::Display for RateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |bps: u64| Rate::from_bps(bps / 1000 * 1000);
        match *self {
            RateReason::Begun => write!(f, "it begins here"),
            RateReason::Waits { wait_ms, capacity_bps } => {
                write!(
                    f,
                    "packets wait {wait_ms:.1} ms in the line, which carries {}",
                    rate(capacity_bps)
                )
            }
            RateReason::Room { wait_ms, capacity_bps } => {
                write!(
                    f,
                    "packets wait {wait_ms:.1} ms only in the line, which carries {}",
                    rate(capacity_bps)
                )
            }
            RateReason::Empty => write!(f, "packets wait here and none in the line"),
            RateReason::Overdue { late_ms } => {
                write!(f, "a probe's answer is {late_ms:.0} ms late")
            }
            RateReason::Loss { lost_percent } => {
                write!(f, "{lost_percent:.0} % of the probes were lost")
            }
            RateReason::Drained => {
                write!(f, "the line's queue is let run empty, to see the delay without it")
            }
            RateReason::Silent => write!(f, "no probe is answered"),
            RateReason::NoFlow => write!(f, "no TCP flow carries much"),
            RateReason::Tested => write!(f, "a signal is tested"),
            RateReason::Unseen => write!(f, "no signal is known to see the line's queue"),
            RateReason::Ended => write!(f, "the follower ended"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NewRate {
    pub rate: Rate,
    pub reason: RateReason,
}

#[derive(Debug, Clone, Copy)]
struct ProbePoint {
    at: f64,
    wait: f64,
    passed: f64,
}

/// The least of each of the last seconds.
#[derive(Debug, Default)]
struct LeastOfSeconds {
    seconds: VecDeque<(u64, f64)>,
}

impl LeastOfSeconds {
    fn add(&mut self, at: f64, value: f64, keep: usize) {
        let second = at as u64;
        match self.seconds.back_mut() {
            Some((last, least)) if *last == second => *least = least.min(value),
            _ => self.seconds.push_back((second, value)),
        }
        while self.seconds.len() > keep {
            self.seconds.pop_front();
        }
    }

    fn least(&self) -> Option<f64> {
        self.seconds.iter().map(|(_, value)| *value).reduce(f64::min)
    }
}

#[derive(Debug)]
pub struct RateController {
    way: Direction,
    bounds: Bounds,
    /// Bits a second.
    rate: f64,
    capacity: Option<f64>,
    points: VecDeque<ProbePoint>,
    /// When the line carried how much, lately.
    carried: VecDeque<(f64, f64)>,
    base: LeastOfSeconds,
    base_rtt: LeastOfSeconds,
    /// The last round trip, less what it waited in this direction's queue.
    unqueued_rtt: Option<f64>,
    /// Rates at which all was well.
    good: LeastOfSeconds,
    /// How far waits are spread while there is no load.
    spread: f64,
    /// When the line's queue was last seen to be empty.
    empty_at: Option<f64>,
    drain_until: f64,
    /// How much the rate grows next, and not before when.
    step: f64,
    next_step_at: f64,
    /// When something last waited in our queue.
    waiting_at: f64,
    /// Since when the wait does not heed the rate: when, the wait and the rate then.
    unheeded: Option<(f64, f64, f64)>,
    /// Of the last probes, which were lost.
    outcomes: VecDeque<bool>,
    loss_at: f64,
    pub wait_ms: f64,
    pub load_bps: f64,
    pub is_loaded: bool,
    /// How often the base was taken anew, since a wait did not heed the rate.
    pub rebased: u32,
}

/// How long packets wait in a line that carries so much and is followed.
pub fn aimed_ms(rate: Rate) -> f64 {
    1e3 * (TARGET_S + 2.0 * PACKET_BITS / rate.bps().max(1) as f64)
}

/// Parts by which the rate grows, and the least part of the capacity that it falls to at once.
const LEAST_STEP: f64 = 0.05;
const MOST_STEP: f64 = 0.25;
const LEAST_FACTOR: f64 = 0.1;
/// A wait heeds a rate when it falls to this part; it does not when after so long it has not, though the rate has.
const HEEDED: f64 = 0.7;
const UNHEEDED_S: f64 = 1.5;

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl RateController {
    pub fn new(way: Direction, bounds: Bounds, start: Rate) -> Self {
        let rate = start.clamp(bounds.floor, bounds.ceiling).bps() as f64;
        Self {
            way,
            bounds,
            rate,
            capacity: None,
            points: VecDeque::new(),
            carried: VecDeque::new(),
            base: LeastOfSeconds::default(),
            base_rtt: LeastOfSeconds::default(),
            unqueued_rtt: None,
            good: LeastOfSeconds::default(),
            spread: 0.0,
            empty_at: None,
            drain_until: 0.0,
            step: LEAST_STEP,
            next_step_at: 0.0,
            waiting_at: f64::NEG_INFINITY,
            unheeded: None,
            outcomes: VecDeque::new(),
            loss_at: 0.0,
            wait_ms: 0.0,
            load_bps: 0.0,
            is_loaded: false,
            rebased: 0,
        }
    }

    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.rate as u64)
    }

    /// The least rate of the last ten seconds in which all was well; the floor where none was.
    pub fn last_good(&self) -> Rate {
        self.good.least().map_or(self.bounds.floor, |bps| Rate::from_bps(bps as u64))
    }

    /// Puts the rate somewhere else.
    pub fn put(&mut self, rate: Rate, reason: RateReason) -> NewRate {
        self.rate = rate.clamp(self.bounds.floor, self.bounds.ceiling).bps() as f64;
        self.points.clear();
        self.capacity = None;
        self.unheeded = None;
        NewRate { rate: self.rate(), reason }
    }

    /// Forgets delays, of which the next are of another signal.
    pub fn turn(&mut self) {
        self.points.clear();
        self.outcomes.clear();
        (self.unheeded, self.unqueued_rtt) = (None, None);
        (self.base, self.base_rtt) = (LeastOfSeconds::default(), LeastOfSeconds::default());
    }

    /// The longest packet's time on the line, or in our queue where that is slower.
    fn packet(&self) -> f64 {
        // What a trickle told of the capacity is over once more arrives.
        let capacity = self.capacity.map_or(self.rate, |carried| carried.max(self.load_bps));
        PACKET_BITS / capacity.min(self.rate)
    }

    /// The wait that is aimed at: more where packets take long, or delays are spread anyway.
    fn target(&self) -> f64 {
        TARGET_S + 2.0 * self.packet() + 2.0 * self.spread
    }

    /// A wait that is more than the line's own unsteadiness.
    fn too_long(&self) -> f64 {
        2.0 * self.target()
    }

    /// A wait that may be none: one packet is before the probe in any case, on the line or in our queue.
    fn about_none(&self) -> f64 {
        TARGET_S / 4.0 + 1.2 * self.packet() + self.spread
    }

    /// What a probe tells; the new rate, where it is another.
    pub fn sample(&mut self, sample: &LineSample) -> Option<NewRate> {
        self.outcomes.push_back(sample.delay_ns.is_none());
        if self.outcomes.len() > 40 {
            self.outcomes.pop_front();
        }
        let now = seconds(sample.now_ns);
        let Some(delay_ns) = sample.delay_ns else { return self.after_loss(now) };
        let (delay, rtt) = (delay_ns as f64 / 1e9, seconds(sample.rtt_ns));
        self.base.add(now, delay, BASE_SECONDS);
        self.base_rtt.add(now, rtt, BASE_SECONDS);
        let base = self.base.least().unwrap_or(delay);
        let base_rtt = self.base_rtt.least().unwrap_or(rtt);
        // The far clock may be set: then both ways change, and the round trip does not.
        let wait = (delay - base).min(rtt - base_rtt).max(0.0);
        self.unqueued_rtt = Some(rtt - wait);
        self.enter(sample, wait);
        // A queue that flows keep in the line is no spread, though none is in ours.
        if !self.is_loaded && self.is_trickle() {
            self.spread += (wait.min(0.05) - self.spread) / 50.0;
        }
        self.wait_ms = wait * 1e3;
        if wait <= self.about_none() {
            self.empty_at = Some(now);
        }
        if self.heeds_nothing(now, wait, delay) {
            return None;
        }
        let change = self.steer(now, wait, base_rtt, sample)?;
        Some(change)
    }

    /// Notes the point, and what the load is.
    fn enter(&mut self, sample: &LineSample, wait: f64) {
        let point =
            ProbePoint { at: seconds(sample.counted_ns), wait, passed: 8.0 * sample.passed as f64 };
        // An answer that overtook another tells nothing more.
        if self.points.back().is_some_and(|last| point.at <= last.at) {
            return;
        }
        self.points.push_back(point);
        let window = WINDOW_S.max(16.0 * PACKET_BITS / self.rate);
        while self.points.len() > 3 && self.points.get(1).is_some_and(|p| p.at <= point.at - window)
        {
            self.points.pop_front();
        }
        if let Some(first) = self.points.front().filter(|first| first.at < point.at) {
            self.load_bps = (point.passed - first.passed) / (point.at - first.at);
        }
        if sample.is_waiting {
            self.waiting_at = seconds(sample.now_ns);
        }
        let waits = seconds(sample.now_ns) - self.waiting_at < 0.1;
        self.is_loaded = waits || self.load_bps > 0.9 * self.rate;
    }

    fn is_trickle(&self) -> bool {
        self.load_bps < 0.3 * self.rate
    }

    /// What the line carries, reckoned from a window in which its queue was never empty; and whether it may be more, since it was empty for a part of it.
    fn measured(&self) -> Option<(f64, bool)> {
        let none = self.about_none();
        let last = self.points.back().filter(|last| last.wait > none)?;
        let busy = self.points.iter().rev().take_while(|point| point.wait > none).count();
        // One more where they are few: it was empty for a part of the time at most, so that the line carries no less.
        let (count, is_least) = if busy < 3 { (busy + 1, true) } else { (busy, false) };
        let first = self.points.get(self.points.len().checked_sub(count)?)?;
        let through = match self.way {
            Direction::Up => (last.at - first.at) + (last.wait - first.wait),
            Direction::Down => last.at - first.at,
        };
        let enough = through > 0.015 && last.passed > first.passed;
        enough.then(|| ((last.passed - first.passed) / through, is_least))
    }

    fn steer(&mut self, now: f64, wait: f64, rtt: f64, sample: &LineSample) -> Option<NewRate> {
        if let Some((measured, is_least)) = self.measured() {
            // Of a trickle nobody knows what the line could carry.
            if !self.is_loaded && self.is_trickle() {
                return None;
            }
            // Until more is known, it is taken to carry the rate.
            let measured = if is_least { measured.max(self.rate) } else { measured };
            if !is_least {
                self.capacity = Some(measured);
                self.carried.push_back((now, measured));
                self.carried.retain(|(at, _)| now - at < CARRIED_S);
            }
            self.step = LEAST_STEP;
            self.next_step_at = now + rtt;
            let queue = self.queue_now(wait, measured, sample);
            if now < self.drain_until {
                return None;
            }
            if self.drain_is_due(now, wait, rtt) {
                return self.change(now, 0.8 * measured, RateReason::Drained);
            }
            let factor = self.factor(queue);
            if is_least && factor >= 1.0 {
                return None;
            }
            let (wait_ms, capacity_bps) = (wait * 1e3, measured as u64);
            let (rate, reason) = match factor < 1.0 {
                true => (measured * factor, RateReason::Waits { wait_ms, capacity_bps }),
                // What is shorter than it may be is no reason to send less.
                false => {
                    (self.rate.max(measured * factor), RateReason::Room { wait_ms, capacity_bps })
                }
            };
            return self.change(now, rate, reason);
        }
        let is_empty = wait <= self.about_none() && self.is_loaded && now >= self.drain_until;
        if is_empty && now >= self.next_step_at {
            let rate = if now - self.loss_at < 5.0 {
                self.rate * (1.0 + LEAST_STEP)
            } else {
                let lately = self.carried.iter().filter(|(at, _)| now - at < CARRIED_S);
                let lately: Vec<f64> = lately.map(|(_, rate)| *rate).collect();
                let carried = quantile(&lately, 0.5).unwrap_or(0.0);
                (self.rate * (1.0 + self.step)).max((self.rate + carried) / 2.0)
            };
            self.step = (2.0 * self.step).min(MOST_STEP);
            self.next_step_at = now + rtt.max(0.02) + 0.02;
            return self.change(now, rate, RateReason::Empty);
        }
        None
    }

    /// The line's queue by now: what a probe met, and what has come and gone since it left.
    fn queue_now(&self, wait: f64, capacity: f64, sample: &LineSample) -> f64 {
        if self.way == Direction::Down {
            return wait;
        }
        let since = seconds(sample.now_ns.saturating_sub(sample.counted_ns));
        let came = 8.0 * sample.now_passed.saturating_sub(sample.passed) as f64;
        (wait + came / capacity - since).max(0.0)
    }

    fn drain_is_due(&mut self, now: f64, wait: f64, rtt: f64) -> bool {
        let since = *self.empty_at.get_or_insert(now);
        let due = now - since > DRAIN_EVERY_S;
        if due {
            self.empty_at = Some(now);
            self.drain_until = now + 6.0 * wait.min(0.05) + rtt + 0.02;
        }
        due
    }

    /// Whether the wait stays what it is however low the rate: then it is no queue of ours, and the base is taken anew.
    fn heeds_nothing(&mut self, now: f64, wait: f64, delay: f64) -> bool {
        let is_long = wait > self.too_long();
        match self.unheeded {
            _ if !is_long => self.unheeded = None,
            Some((_, was, _)) if wait < HEEDED * was => {
                self.unheeded = Some((now, wait, self.rate));
            }
            Some((since, _, rate)) if now - since > UNHEEDED_S => {
                let is_low = self.rate <= HEEDED * rate
                    || self.rate <= 1.01 * self.bounds.floor.bps() as f64
                    || self.is_trickle();
                if is_low {
                    self.base = LeastOfSeconds::default();
                    self.base_rtt = LeastOfSeconds::default();
                    self.base.add(now, delay, BASE_SECONDS);
                    self.points.clear();
                    self.unheeded = None;
                    self.rebased += 1;
                    return true;
                }
                self.unheeded = Some((now, wait, self.rate));
            }
            Some(_) => {}
            None => self.unheeded = Some((now, wait, self.rate)),
        }
        false
    }

    /// What of the capacity the rate is to be, so that a queue becomes the one that is aimed at.
    fn factor(&self, queue: f64) -> f64 {
        (1.0 + (self.target() - queue) / HORIZON_S).clamp(LEAST_FACTOR, 1.0 + MOST_STEP)
    }

    /// The answer to the oldest probe that is under way, which left at `sent_ns`, is not there. It is late by what the last one had without the queue.
    pub fn overdue(&mut self, sent_ns: u64, now_ns: u64) -> Option<NewRate> {
        let now = seconds(now_ns);
        let late = now - seconds(sent_ns) - self.unqueued_rtt?;
        if late <= self.too_long().max(self.wait_ms / 1e3 + self.target()) || !self.is_loaded {
            return None;
        }
        let rate = self.capacity.unwrap_or(self.rate) * self.factor(late);
        if rate >= self.rate {
            return None;
        }
        self.change(now, rate, RateReason::Overdue { late_ms: late * 1e3 })
    }

    fn after_loss(&mut self, now: f64) -> Option<NewRate> {
        let lost = self.outcomes.iter().filter(|lost| **lost).count() as f64;
        let share = lost / self.outcomes.len() as f64;
        if lost < 4.0 || share < 0.1 || now - self.loss_at < 0.5 || !self.is_loaded {
            return None;
        }
        self.loss_at = now;
        let carried = self.load_bps.min(self.rate) * (1.0 - share);
        self.change(now, carried, RateReason::Loss { lost_percent: 100.0 * share })
    }

    fn change(&mut self, now: f64, rate: f64, reason: RateReason) -> Option<NewRate> {
        let (floor, ceiling) = (self.bounds.floor.bps() as f64, self.bounds.ceiling.bps() as f64);
        let rate = rate.clamp(floor, ceiling);
        if self.wait_ms <= 1e3 * self.too_long() {
            self.good.add(now, rate, 10);
        }
        // One message a change: what differs by less than a hundredth is none.
        let is_other =
            (rate - self.rate).abs() > 0.01 * self.rate || rate == floor || rate == ceiling;
        if !is_other || rate == self.rate {
            return None;
        }
        self.rate = rate;
        Some(NewRate { rate: self.rate(), reason })
    }
}
