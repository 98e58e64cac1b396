//! One direction of a followed line: its queue in the kernel, its controller, and the one message that changes its rate.

use super::controller::{NewRate, RateController, RateReason};
use super::state::FollowedDirection;
use quell_model::task::Direction;
use quell_netlink::NetlinkError;
use quell_netlink::core::Socket;
use quell_netlink::tc;
use quell_policy::{
    Bounds, Counting, DeviceTraits, FRAME, LinePolicy, PolicyName, Tell, hold_step, line_step,
};
use quell_sys::clock::monotonic_ns;
use quell_sys::wall::realtime_ns;
use quell_tc::observed::{ObservedQdisc, Snapshot};
use quell_tc::{Change, ClassKind, Handle, Qdisc, Step, Thing};
use quell_units::Rate;
use std::collections::VecDeque;

/// Readings that are kept: of 4 s where each round trip brings one, and of more than a test.
const HISTORY: usize = 1000;

pub struct FollowedLine {
    pub way: Direction,
    pub index: u32,
    pub bounds: Bounds,
    /// The step that holds the queue to the floor.
    step: Step,
    pub controller: RateController,
    counting: Counting,
    /// Bytes and packets that the kernel had counted.
    counted: (u64, u64),
    /// Bytes as the line counts them.
    pub passed: u64,
    /// The same at some times of the last seconds.
    history: VecDeque<(u64, u64)>,
    pub is_waiting: bool,
    /// Of the signals, the one that is believed.
    pub signal: Option<usize>,
    pub changes: u64,
    pub reason: RateReason,
    changed_at: u64,
    /// A rate that is not to be followed for now.
    pub is_held: bool,
}

/// The step that holds a direction's queue, at the floor.
pub fn step_of(
    policy: &LinePolicy,
    name: PolicyName,
    way: Direction,
    traits: DeviceTraits,
) -> Option<(Step, Bounds)> {
    let [up, down] = policy.follow.as_ref()?.bounds();
    let (tell, bounds) = match way {
        Direction::Up => (Tell::Source, up),
        Direction::Down => (Tell::Destination, down),
    };
    let tree = policy.tree(name, tell, bounds.ceiling, traits).ok()?;
    Some((line_step(&tree)?, bounds))
}

/// The rate at which a queue is held, as the kernel shows it.
pub fn rate_of(step: &Step, now: &Snapshot) -> Option<Rate> {
    match step {
        Step::Qdisc { handle, .. } => {
            let queue = now.qdiscs.iter().find(|queue| queue.handle == *handle)?;
            match &queue.options {
                Some(Qdisc::Cake(cake)) => cake.bandwidth,
                _ => None,
            }
        }
        Step::Class { id, .. } => {
            let class = now.classes.iter().find(|class| class.id == *id)?;
            match &class.options {
                Some(ClassKind::Htb(htb)) => htb.ceil,
                _ => None,
            }
        }
        _ => None,
    }
}

impl FollowedLine {
    pub fn open(
        socket: &mut Socket,
        index: u32,
        (step, bounds): (Step, Bounds),
        way: Direction,
        counting: Counting,
    ) -> Result<Self, NetlinkError> {
        let mut now = Snapshot::default();
        match &step {
            Step::Class { id, .. } => now = tc::one_class(socket, index, *id)?,
            _ => now.qdiscs.extend(tc::queue_in(socket, index, Handle::ROOT)?),
        }
        let start = rate_of(&step, &now).unwrap_or(bounds.floor);
        let mut line = FollowedLine {
            way,
            index,
            bounds,
            controller: RateController::new(way, bounds, start),
            step,
            counting,
            counted: (0, 0),
            passed: 0,
            history: VecDeque::new(),
            is_waiting: false,
            signal: None,
            changes: 0,
            reason: RateReason::Begun,
            changed_at: realtime_ns() / 1_000_000_000,
            is_held: false,
        };
        line.count(socket)?;
        Ok(line)
    }

    /// Reads what has passed. Down, what came to our queue has passed the line: what waits in it and what it dropped counts too.
    pub fn count(&mut self, socket: &mut Socket) -> Result<(), NetlinkError> {
        let Some(ObservedQdisc { stats, .. }) = tc::queue_in(socket, self.index, Handle::ROOT)?
        else {
            return Ok(());
        };
        self.is_waiting = stats.backlog_bytes > 0;
        let (mut bytes, mut packets) = (stats.bytes, stats.packets);
        if self.way == Direction::Down {
            bytes += u64::from(stats.backlog_bytes) + u64::from(stats.drops) * FRAME;
            packets += u64::from(stats.backlog_packets) + u64::from(stats.drops);
        }
        let (had_bytes, had_packets) = std::mem::replace(&mut self.counted, (bytes, packets));
        let (bytes, packets) =
            (bytes.saturating_sub(had_bytes), packets.saturating_sub(had_packets));
        self.passed += self.counting.on_the_line(bytes, packets);
        self.history.push_back((monotonic_ns(), self.passed));
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
        Ok(())
    }

    /// Whether this signal is believed, and may change the rate now.
    pub fn is_led_by(&self, signal: usize) -> bool {
        self.signal == Some(signal) && !self.is_held
    }

    /// What had passed at a time, between two at which it was read.
    pub fn passed_at(&self, at: u64) -> u64 {
        let next = self.history.partition_point(|(then, _)| *then <= at);
        let before = next.checked_sub(1).and_then(|last| self.history.get(last));
        match (before, self.history.get(next)) {
            (Some((from, had)), Some((to, has))) => had + (has - had) * (at - from) / (to - from),
            (Some((_, passed)), None) | (None, Some((_, passed))) => *passed,
            (None, None) => self.passed,
        }
    }

    /// Whether it carried half of its floor or more in the last second.
    pub fn is_used(&self, now: u64) -> bool {
        let passed = self.passed - self.passed_at(now.saturating_sub(1_000_000_000));
        8 * passed > self.bounds.floor.bps() / 2
    }

    /// Changes the rate, by one message.
    pub fn change(&mut self, socket: &mut Socket, new: NewRate) -> Result<(), NetlinkError> {
        let mut step = self.step.clone();
        hold_step(&mut step, self.bounds.floor, new.rate);
        tc::carry_out(socket, self.index, &Change::Alter(Thing::Step(step)))
    }

    pub fn noted(&mut self, new: NewRate) {
        self.changes += 1;
        self.reason = new.reason;
        self.changed_at = realtime_ns() / 1_000_000_000;
    }

    pub fn state(&self, signals: &[String]) -> FollowedDirection {
        FollowedDirection {
            direction: self.way,
            floor_bps: self.bounds.floor.bps(),
            ceiling_bps: self.bounds.ceiling.bps(),
            rate_bps: self.controller.rate().bps(),
            good_bps: self.controller.last_good().bps(),
            load_bps: self.controller.load_bps as u64,
            wait_ms: self.signal.filter(|_| !self.is_held).map(|_| self.controller.wait_ms),
            signal: self.signal.and_then(|at| signals.get(at).cloned()),
            changes: self.changes,
            reason: self.reason,
            why: self.reason.to_string(),
            changed_at: self.changed_at,
        }
    }
}
