//! `quell shape follow`: the rates of a line that varies, led by signals that were seen to see its queue.
//!
//! ```text
//!   stamp, flows ── delay ──► controller ── rate ──► line: one netlink message          state: what `status` shows
//!              │                    ▲
//!              └─ signal_test: load at the ceiling; does it move? ── not: no steering, the rate stays where the policy says
//!
//!   guard: another process; where this one is killed it puts the rate where the policy says
//! ```
//!
//! A change of the policy ends it, and starts another: what is in force never changes under it. The rate is changed beside changes
//! ([`Lock::beside`]), so that nobody sees half of one.

pub mod controller;
mod flows;
mod line;
pub mod signal_test;
mod stamp;
mod state;
#[cfg(test)]
mod tests;

pub use state::{FollowState, FollowedDirection, TestedSignal, word};

use crate::daemon::stamp as stamp_of;
use crate::{
    CommandError, UndoLogs, ifb_of, open_to_change, policy_of_log, process_lock, traits_of,
};
use controller::{LineSample, NewRate, RateReason};
use flows::{FlowSignal, FlowTest, added_ns, way_of};
use line::{FollowedLine, rate_of, step_of};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use quell_act::{
    Change, DeviceTarget, Goal, Kernel, Lock, Log, Machine, Now, Standing, start_apart,
};
use quell_classify::RoundTrips;
use quell_model::task::Direction;
use quell_netlink::core::{Protocol, Socket};
use quell_policy::{Bounds, Counting, LinePolicy, Signal, WhenLost, hold_step};
use quell_sys::clock::monotonic_ns;
use quell_sys::resolve::{Family, Usual, resolve};
use quell_sys::wait::{Alarm, came, readable, wait};
use quell_tc::observed::Snapshot;
use quell_tc::{Change as QueueChange, Step, Thing, hash};
use quell_units::{Rate, Span};
use signal_test::{SignalTest, SignalVerdict, judge};
use stamp::{ProbeAnswer, StampSession};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

const MS: u64 = 1_000_000;
/// Between two probes, while the line is used and while it is not.
const PROBE_NS: u64 = 20 * MS;
const IDLE_PROBE_NS: u64 = 100 * MS;
/// A silence as long as that, and no signal is believed.
const SILENCE_NS: u64 = 1500 * MS;
const STATE_NS: u64 = 1000 * MS;
/// A test: without load, and with it.
const IDLE_NS: u64 = 2000 * MS;
pub const LOAD: Span = Span::from_secs(3);
/// What a load begins with tells nothing yet.
const LOAD_BEGINS_NS: u64 = 500 * MS;
/// A signal of which nothing is known is tried again after that.
const AGAIN_NS: u64 = 1_800_000 * MS;

/// A load of one direction, from or to the far end that a signal asks.
pub struct TestLoad {
    pub way: Direction,
    pub host: String,
    /// What is sent, whatever of it arrives.
    pub rate: Rate,
    pub time: Span,
}

/// Sends a load, calls what it is given once data flows, and tells how much of it arrived.
pub type TestLoader = dyn Fn(&TestLoad, &dyn Fn()) -> Result<Rate, String> + Send + Sync;

pub struct FollowOptions {
    pub stand_by: bool,
    /// Nothing is changed; each decision is told.
    pub dry_run: bool,
    pub loader: Arc<TestLoader>,
}

/// The directions in which a log's policy is followed: interface, its number, step and bounds.
type Planned = (Direction, DeviceTarget, (Step, Bounds));

/// What of a log is followed; nothing where its policy follows nothing.
fn planned(log: &Log, policy: &LinePolicy, now: &Now) -> Vec<Planned> {
    let device = &log.begun.device;
    let Some((name, link)) = policy.policy.zip(now.links.get(device)) else { return Vec::new() };
    let ways = [(Direction::Up, device.clone()), (Direction::Down, ifb_of(device))];
    let one = |(way, name_of): (Direction, String)| {
        let index = Some(now.links.get(&name_of)?.index);
        let step = step_of(policy, name, way, traits_of(link))?;
        Some((way, DeviceTarget { name: name_of, index }, step))
    };
    ways.into_iter().filter_map(one).collect()
}

/// Takes the rates that are in force into a goal, so that they are as wanted, wherever between the bounds they are.
pub fn take_rates(goal: &mut Goal, log: &Log, now: &Now) -> Result<(), CommandError> {
    let policy = policy_of_log(log)?;
    for (_, target, (step, bounds)) in planned(log, &policy, now) {
        let nothing = Snapshot::default();
        let snapshot = target.index.and_then(|index| now.queues.get(&index)).unwrap_or(&nothing);
        let Some(rate) = rate_of(&step, snapshot) else { continue };
        let mut held = step.clone();
        hold_step(&mut held, bounds.floor, rate.clamp(bounds.floor, bounds.ceiling));
        let things = goal.devices.iter_mut().filter(|device| device.name == target.name);
        for thing in things.flat_map(|device| &mut device.things) {
            if *thing == Thing::Step(step.clone()) {
                *thing = Thing::Step(held.clone());
            }
        }
    }
    Ok(())
}

/// Ends the follower of an interface and puts its rates where they were applied, so that all is as it was left there.
pub fn pause(log: &Log, folder: &Path, kernel: &mut Kernel) -> Result<(), CommandError> {
    let policy = policy_of_log(log).unwrap_or_default();
    if policy.follow.is_none() || log.standing == Standing::Unfinished {
        return Ok(());
    }
    process_lock::end(&state::lock_file(log.path()));
    put(log, &policy, folder, kernel, |bounds, _| bounds.floor)
}

/// Puts the rates somewhere, in each direction that is as it was left but for its rate.
fn put(
    log: &Log,
    policy: &LinePolicy,
    folder: &Path,
    kernel: &mut Kernel,
    rate: impl Fn(Bounds, Direction) -> Rate,
) -> Result<(), CommandError> {
    let _lock = Lock::beside(folder, log.begun.namespace)?;
    let now = kernel.read(&(&log.begun.before).into()).map_err(CommandError::system)?;
    for (way, device, (mut step, bounds)) in planned(log, policy, &now) {
        let snapshot = device.index.and_then(|index| now.queues.get(&index));
        let Some(there) = snapshot.and_then(|snapshot| rate_of(&step, snapshot)) else { continue };
        let wanted = rate(bounds, way);
        if there != wanted {
            hold_step(&mut step, bounds.floor, wanted);
            let change = QueueChange::Alter(Thing::Step(step));
            // Where it went meanwhile there is nothing to be put anywhere.
            let _ = kernel.carry_out(&Change::Queue { device, change });
        }
    }
    Ok(())
}

/// Starts a follower for what is in force, where its policy is followed and nobody follows it.
pub fn start(log: &Log, folder: &Path) -> Result<(), CommandError> {
    if policy_of_log(log).map_or(true, |policy| policy.follow.is_none()) {
        return Ok(());
    }
    let path = state::lock_file(log.path());
    process_lock::start("follow", &path, folder, &log.begun.device).map_err(|why| {
        CommandError::system(format!(
            "nobody follows the line, which stays at the floor: {why}; `quell shape follow` tells more"
        ))
    })
}

/// Takes away what a follower left that has ended.
pub fn forget(log: &Path) {
    process_lock::ended(&state::lock_file(log));
    let _ = std::fs::remove_file(state::state_file(log));
}

/// Another process that puts the rates where the policy says when this one is killed.
fn start_guard(folder: &Path, device: &str) -> Result<(), String> {
    let mut command = Command::new("/proc/self/exe");
    let folder = std::path::absolute(folder).map_err(|e| e.to_string())?;
    command.args(["shape", "follow", "--dev", device, "--state"]).arg(folder);
    command.arg("--guard").arg(std::process::id().to_string());
    start_apart(command).map(drop)
}

/// What the guard does.
pub fn guard(
    logs: &UndoLogs,
    device: &str,
    follower: u32,
    ready: &mut dyn FnMut(),
) -> Result<(), CommandError> {
    let process = quell_sys::pidfd::open(follower).map_err(CommandError::system)?;
    ready();
    wait(&mut [readable(&process)]).map_err(CommandError::system)?;
    let mut kernel = open_to_change()?;
    let log = logs.of(&mut kernel, device)?;
    if !process_lock::was_killed(&state::lock_file(log.path()), follower) {
        return Ok(());
    }
    let policy = policy_of_log(&log)?;
    let Some(follow) = &policy.follow else { return Ok(()) };
    let mut told = FollowState::read(log.path());
    let good = |way| told.as_ref()?.direction(way).map(|one| Rate::from_bps(one.good_bps));
    let rate = |bounds: Bounds, way| match follow.lost {
        WhenLost::LastGood => {
            good(way).map_or(bounds.floor, |good| good.clamp(bounds.floor, bounds.ceiling))
        }
        WhenLost::Floor => bounds.floor,
    };
    put(&log, &policy, &logs.folder, &mut kernel, rate)?;
    let rates = [Direction::Up, Direction::Down].into_iter().zip(follow.bounds());
    let rates: Vec<u64> = rates.map(|(way, bounds)| rate(bounds, way).bps()).collect();
    if let Some(told) = &mut told {
        for (one, rate_bps) in told.directions.iter_mut().zip(rates) {
            (one.rate_bps, one.reason) = (rate_bps, RateReason::Ended);
            one.why = one.reason.to_string();
        }
        told.write(log.path());
    }
    Ok(())
}

/// Where a test of the signals is.
enum TestPhase {
    None,
    Idle {
        way: Direction,
        until: u64,
    },
    Load {
        way: Direction,
        offered: Rate,
        begun: Arc<AtomicU64>,
        load: JoinHandle<Result<Rate, String>>,
        /// The rate is at the ceiling: data flows.
        is_raised: bool,
    },
    Flows(FlowTest),
}

struct Follower<'a> {
    log: Log,
    stamp: Option<crate::daemon::Stamp>,
    folder: &'a Path,
    device: &'a str,
    socket: Socket,
    lines: Vec<FollowedLine>,
    names: Vec<String>,
    /// Whom loads are sent to, and who is asked, by the place of its signal.
    host: String,
    sessions: Vec<(usize, StampSession)>,
    flows: Option<FlowSignal>,
    lost: WhenLost,
    options: &'a FollowOptions,
    tests: Vec<TestedSignal>,
    phase: TestPhase,
    /// Delays in ms by signal: without load, and beside it, with when each probe left; and how many beside it were lost.
    idle: Vec<Vec<f64>>,
    loaded: Vec<Vec<(u64, f64)>>,
    unanswered: Vec<Vec<u64>>,
    next_test: Option<u64>,
    policy: u64,
    counted_ns: u64,
}

/// Follows the line of an interface until what is in force there changes, and says once that it does.
pub fn run(
    logs: &UndoLogs,
    device: &str,
    options: &FollowOptions,
    ready: &mut dyn FnMut(),
) -> Result<(), CommandError> {
    let mut kernel = open_to_change()?;
    let log = logs.of(&mut kernel, device)?;
    let path = log.path().to_owned();
    let _locked = match options.dry_run {
        true => None,
        false => Some(process_lock::lock(&state::lock_file(&path), options.stand_by)?),
    };
    // It may have been changed while another one was waited for.
    let log = logs.of(&mut kernel, device)?;
    let mut follower = Follower::open(log, &logs.folder, device, &mut kernel, options)?;
    if !options.dry_run {
        start_guard(&logs.folder, device).map_err(CommandError::system)?;
    }
    let told = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
        .map_err(CommandError::system)?;
    let events = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_TO;
    told.add_watch(logs.folder.as_path(), events).map_err(CommandError::system)?;
    follower.tell();
    ready();
    follower.steer(&told)
}

impl<'a> Follower<'a> {
    fn open(
        log: Log,
        folder: &'a Path,
        device: &'a str,
        kernel: &mut Kernel,
        options: &'a FollowOptions,
    ) -> Result<Self, CommandError> {
        let policy = policy_of_log(&log)?;
        let Some(follow) = policy.follow.clone() else {
            return Err(CommandError::check(format!(
                "the policy on {device} follows nothing: give it follow = {{ floor, ceiling, signals }}"
            )));
        };
        let now = kernel.read(&(&log.begun.before).into()).map_err(CommandError::system)?;
        let mut socket = Socket::open(Protocol::Route).map_err(CommandError::system)?;
        let headless = now.links.get(device).is_some_and(|link| link.mac.is_none());
        let mut lines = Vec::new();
        for (way, target, step) in planned(&log, &policy, &now) {
            let LinePolicy { link, overhead, mpu, .. } = policy;
            let counting = Counting { rate: step.1.floor, overhead, link, mpu, headless };
            let index = target.index.unwrap_or_default();
            let line = FollowedLine::open(&mut socket, index, step, way, counting);
            lines.push(line.map_err(CommandError::system)?);
        }
        let (mut sessions, mut flows, mut host) = (Vec::new(), None, String::new());
        for (at, signal) in follow.signals.iter().enumerate() {
            match signal {
                Signal::Stamp(name) => {
                    let usual = Usual {
                        family: Family::Any,
                        own: None,
                        port: Some(quell_wire::iperf3::PORT),
                        device: None,
                    };
                    let mut found = resolve(name, usual).map_err(CommandError::system)?;
                    // Of a family to which there is no way the socket can't be connected.
                    let session = found.reached(|_| true, StampSession::open);
                    sessions.push((at, session.map_err(CommandError::system)?));
                    host.clone_from(name);
                }
                Signal::Flows => {
                    let index = now.links.get(device).map_or(0, |link| link.index);
                    flows = Some(FlowSignal::open(at, index));
                }
            }
        }
        let policy = hash(log.begun.recipe.bytes());
        let kept = FollowState::read(log.path()).filter(|kept| kept.policy == policy);
        let tests = kept.map(|kept| kept.signals).unwrap_or_default();
        let names: Vec<String> = follow.signals.iter().map(ToString::to_string).collect();
        let (count, is_asked) = (names.len(), |test: &TestedSignal| test.signal != FLOWS);
        let is_due = !sessions.is_empty() && !tests.iter().any(is_asked);
        let mut follower = Follower {
            stamp: stamp_of(log.path()),
            log,
            folder,
            device,
            socket,
            lines,
            names,
            host,
            sessions,
            flows,
            lost: follow.lost,
            options,
            next_test: is_due.then(monotonic_ns),
            tests,
            phase: TestPhase::None,
            idle: vec![Vec::new(); count],
            loaded: vec![Vec::new(); count],
            unanswered: vec![Vec::new(); count],
            policy,
            counted_ns: 0,
        };
        follower.believe();
        Ok(follower)
    }

    /// Takes of the signals of each direction the first that sees its queue.
    fn believe(&mut self) {
        for at in 0..self.lines.len() {
            let way = self.lines[at].way;
            self.lines[at].signal = self.believed(way).first().copied();
            let untested = self.flows.as_ref().filter(|_| self.test_of_flows(way).is_none());
            if let Some(test) = untested.map(FlowSignal::untested) {
                self.note_test(FLOWS.to_owned(), way, test);
            }
        }
    }

    /// The signals that see a direction's queue.
    fn believed(&self, way: Direction) -> Vec<usize> {
        let sees = |at: &usize| {
            self.tests.iter().any(|test| {
                (test.direction, &test.signal) == (way, &self.names[*at])
                    && test.test.verdict == SignalVerdict::Sees
            })
        };
        (0..self.names.len()).filter(sees).collect()
    }

    fn test_of_flows(&self, way: Direction) -> Option<usize> {
        self.tests.iter().position(|test| test.signal == FLOWS && test.direction == way)
    }

    fn note_test(&mut self, signal: String, direction: Direction, test: SignalTest) {
        let says = test.to_string();
        self.tests.push(TestedSignal { signal, direction, test, says });
    }

    /// When a signal last told of a direction.
    fn heard_ns(&self, signal: usize, way: Direction) -> u64 {
        match &self.flows {
            Some(flows) if flows.at == signal => flows.heard_ns[slot(way)],
            _ => self.session(signal).map_or(0, |session| session.heard_ns),
        }
    }

    fn session(&self, signal: usize) -> Option<&StampSession> {
        self.sessions.iter().find(|(at, _)| *at == signal).map(|(_, session)| session)
    }

    fn steer(&mut self, told: &Inotify) -> Result<(), CommandError> {
        let mut alarm = Alarm::new().map_err(CommandError::system)?;
        let (mut next_probe, mut next_state) = (monotonic_ns(), 0);
        loop {
            let now = monotonic_ns();
            if stamp_of(self.log.path()) != self.stamp && !self.is_still_in_force() {
                return Ok(());
            }
            for at in 0..self.sessions.len() {
                let (signal, session) = &mut self.sessions[at];
                let (signal, answers, lost) = (*signal, session.answers(), session.lost(now));
                for answer in answers {
                    self.answered(signal, &answer)?;
                }
                for lost in lost {
                    self.not_answered(signal, lost.sent_ns)?;
                }
            }
            self.read_flows()?;
            self.test(now)?;
            if now >= next_probe {
                self.count(now)?;
                self.overdue(now)?;
                self.silent(now)?;
                self.sessions.iter_mut().for_each(|(_, session)| session.send(now));
                next_probe = now + if self.is_idle() { IDLE_PROBE_NS } else { PROBE_NS };
            }
            if now >= next_state {
                self.tell();
                next_state = now + STATE_NS;
            }
            alarm.set(Some(next_probe)).map_err(CommandError::system)?;
            let mut fds = vec![readable(told), readable(&alarm)];
            fds.extend(self.sessions.iter().map(|(_, session)| readable(session)));
            fds.extend(
                self.flows.iter().filter_map(|flows| flows.trips.as_ref().ok()).map(readable),
            );
            wait(&mut fds).map_err(CommandError::system)?;
            if came(&fds[0]) {
                let _ = told.read_events();
            }
        }
    }

    /// Whether the log is still about the same change, which was confirmed perhaps.
    fn is_still_in_force(&mut self) -> bool {
        let stamp = stamp_of(self.log.path());
        let is_same = |log: &Log| {
            log.begun.who == self.log.begun.who && log.begun.recipe == self.log.begun.recipe
        };
        let is_still = matches!(Log::read(self.log.path()), Ok(Some(log)) if is_same(&log));
        if is_still {
            self.stamp = stamp;
        }
        is_still
    }

    fn is_idle(&self) -> bool {
        let quiet = |line: &FollowedLine| {
            line.controller.load_bps < 0.1 * line.controller.rate().bps() as f64 && !line.is_waiting
        };
        matches!(self.phase, TestPhase::None) && self.lines.iter().all(quiet)
    }

    fn count(&mut self, now: u64) -> Result<(), CommandError> {
        if now.saturating_sub(self.counted_ns) > MS {
            self.counted_ns = now;
            for line in &mut self.lines {
                line.count(&mut self.socket).map_err(|e| gone(self.device, &e))?;
            }
        }
        Ok(())
    }

    /// What an answer tells of each direction that believes in its signal.
    fn answered(&mut self, signal: usize, answer: &ProbeAnswer) -> Result<(), CommandError> {
        let ProbeAnswer { sent, seen_ns, delay_ns } = answer;
        self.count(*seen_ns)?;
        self.note_for_test(signal, sent.sent_ns, delay_ns);
        for at in 0..self.lines.len() {
            if self.lines[at].is_led_by(signal) {
                let delay = delay_ns[slot(self.lines[at].way)];
                self.sample(at, sent.sent_ns, *seen_ns, Some(delay))?;
            }
        }
        Ok(())
    }

    fn not_answered(&mut self, signal: usize, sent_ns: u64) -> Result<(), CommandError> {
        if matches!(self.phase, TestPhase::Load { .. }) {
            self.unanswered[signal].push(sent_ns);
        }
        for at in 0..self.lines.len() {
            if self.lines[at].is_led_by(signal) {
                self.sample(at, sent_ns, monotonic_ns(), None)?;
            }
        }
        Ok(())
    }

    /// Tells the controller of a direction what its signal says.
    fn sample(
        &mut self,
        at: usize,
        sent_ns: u64,
        seen_ns: u64,
        delay_ns: Option<i64>,
    ) -> Result<(), CommandError> {
        let line = &mut self.lines[at];
        let (counted_ns, passed) = match line.way {
            Direction::Up => (sent_ns, line.passed_at(sent_ns)),
            Direction::Down => (seen_ns, line.passed),
        };
        let new = line.controller.sample(&LineSample {
            counted_ns,
            passed,
            delay_ns,
            rtt_ns: seen_ns.saturating_sub(sent_ns),
            now_passed: line.passed,
            now_ns: seen_ns,
            is_waiting: line.is_waiting,
        });
        self.change(at, new)
    }

    /// A late answer tells nothing of which way it waits on: it is taken to be up where there is a load up.
    fn overdue(&mut self, now: u64) -> Result<(), CommandError> {
        let is_up = |line: &FollowedLine| line.way == Direction::Up && line.controller.is_loaded;
        let loaded_up = self.lines.iter().any(is_up);
        for at in 0..self.lines.len() {
            let line = &mut self.lines[at];
            if line.way == Direction::Down && loaded_up {
                continue;
            }
            let session = self.sessions.iter().find(|(at, _)| Some(*at) == line.signal);
            let oldest = session.and_then(|(_, session)| session.oldest());
            if let (Some(sent), false) = (oldest, line.is_held) {
                let passed = line.passed_at(sent.sent_ns);
                let new = line.controller.overdue(sent.sent_ns, passed, now, line.passed);
                self.change(at, new)?;
            }
        }
        Ok(())
    }

    /// Takes the first signal that sees the queue and is heard. Where none is, the rate goes where the policy says, until one is.
    fn silent(&mut self, now: u64) -> Result<(), CommandError> {
        for at in 0..self.lines.len() {
            let way = self.lines[at].way;
            let is_heard =
                |signal: &usize| now.saturating_sub(self.heard_ns(*signal, way)) <= SILENCE_NS;
            let heard = self.believed(way).into_iter().find(is_heard);
            let is_flows = self.flows.as_ref().map(|flows| flows.at) == self.lines[at].signal;
            let line = &mut self.lines[at];
            if line.signal.is_none() || !matches!(self.phase, TestPhase::None) {
                continue;
            }
            if heard.is_some() {
                line.is_held = false;
                if line.signal != heard {
                    line.signal = heard;
                    line.controller.turn();
                }
            } else if !line.is_held {
                let rate = match self.lost {
                    WhenLost::LastGood => line.controller.last_good(),
                    WhenLost::Floor => line.bounds.floor,
                };
                let reason = if is_flows { RateReason::NoFlow } else { RateReason::Silent };
                let new = line.controller.put(rate, reason);
                line.is_held = true;
                self.change(at, Some(new))?;
            }
        }
        Ok(())
    }

    /// Changes the rate of one direction, unless what is in force is another by now.
    fn change(&mut self, at: usize, new: Option<NewRate>) -> Result<(), CommandError> {
        let Some(new) = new else { return Ok(()) };
        let line = &mut self.lines[at];
        line.noted(new);
        if self.options.dry_run {
            println!("{} {}: {}", word(line.way), new.rate, new.reason);
            return Ok(());
        }
        let _lock = Lock::beside(self.folder, self.log.begun.namespace)?;
        if stamp_of(self.log.path()) != self.stamp && !self.is_still_in_force() {
            return Ok(());
        }
        self.lines[at].change(&mut self.socket, new).map_err(|e| gone(self.device, &e))
    }

    fn tell(&self) {
        if !self.options.dry_run {
            let directions = self.lines.iter().map(|line| line.state(&self.names)).collect();
            let (signals, policy) = (self.tests.clone(), self.policy);
            FollowState { process: None, directions, signals, policy }.write(self.log.path());
        }
    }
}

fn gone(device: &str, error: &dyn std::fmt::Display) -> CommandError {
    CommandError::system(format!("{device} is followed no more: {error}"))
}

/// The test of the signals: each direction without load, and with more than it carries.
impl Follower<'_> {
    fn note_for_test(&mut self, signal: usize, sent_ns: u64, delay_ns: &[i64; 2]) {
        let ms = |way: Direction| delay_ns[slot(way)] as f64 / 1e6;
        match &self.phase {
            TestPhase::None | TestPhase::Flows(_) => {}
            TestPhase::Idle { way, .. } => self.idle[signal].push(ms(*way)),
            TestPhase::Load { way, .. } => self.loaded[signal].push((sent_ns, ms(*way))),
        }
    }

    fn test(&mut self, now: u64) -> Result<(), CommandError> {
        match &mut self.phase {
            TestPhase::None => {
                let again = self
                    .lines
                    .iter_mut()
                    .any(|line| std::mem::take(&mut line.controller.rebased) > 0);
                let due = self.next_test.is_some_and(|at| now >= at)
                    || (again && self.next_test.is_none());
                match (due || again) && !self.options.dry_run {
                    true if self.sessions.is_empty() => {
                        self.tests.clear();
                        self.believe();
                    }
                    true if due => {
                        self.next_test = None;
                        self.tests.retain(|test| test.signal == FLOWS);
                        self.begin_test(Direction::Up, now);
                    }
                    _ => self.begin_flow_test(now)?,
                }
            }
            TestPhase::Flows(_) => self.test_flows(now)?,
            TestPhase::Idle { way, until } if now >= *until => {
                let way = *way;
                self.load(way)?;
            }
            TestPhase::Load { load, .. } if load.is_finished() => {
                let phase = std::mem::replace(&mut self.phase, TestPhase::None);
                if let TestPhase::Load { way, offered, begun, load, .. } = phase {
                    let arrived = load.join().unwrap_or_else(|_| Err("the load broke off".into()));
                    self.judge(way, offered, begun.load(Ordering::Relaxed), &arrived);
                    // What arrived is what the line carries just now.
                    let seen = self.tests.iter().any(|test| {
                        test.direction == way && test.test.verdict == SignalVerdict::Sees
                    });
                    let begins = arrived.ok().filter(|_| seen);
                    self.put(way, |bounds| begins.unwrap_or(bounds.floor))?;
                    match way {
                        Direction::Up => self.begin_test(Direction::Down, now),
                        Direction::Down => self.end_test(now),
                    }
                }
            }
            _ => self.raise(now)?,
        }
        Ok(())
    }

    fn begin_test(&mut self, way: Direction, now: u64) {
        let count = self.names.len();
        (self.idle, self.loaded) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        self.unanswered = vec![Vec::new(); count];
        self.lines.iter_mut().for_each(|line| line.is_held = true);
        self.phase = TestPhase::Idle { way, until: now + IDLE_NS };
    }

    fn line_of(&self, way: Direction) -> Result<usize, CommandError> {
        let none = || CommandError::check(format!("{} nothing is shaped", word(way)));
        self.lines.iter().position(|line| line.way == way).ok_or_else(none)
    }

    fn put(&mut self, way: Direction, rate: impl Fn(Bounds) -> Rate) -> Result<(), CommandError> {
        let at = self.line_of(way)?;
        let line = &mut self.lines[at];
        let new = line.controller.put(rate(line.bounds), RateReason::Tested);
        self.change(at, Some(new))
    }

    /// At the ceiling while the load's data flows, and not while a far end keeps it waiting before that or behind it.
    fn raise(&mut self, now: u64) -> Result<(), CommandError> {
        let TestPhase::Load { way, begun, is_raised, .. } = &mut self.phase else { return Ok(()) };
        let (way, begun) = (*way, begun.load(Ordering::Relaxed));
        let flows = begun > 0 && now < begun + LOAD.nanos();
        if std::mem::replace(is_raised, flows) == flows {
            return Ok(());
        }
        self.put(way, |bounds| if flows { bounds.ceiling } else { bounds.floor })
    }

    fn load(&mut self, way: Direction) -> Result<(), CommandError> {
        let offered = offered_of(self.lines[self.line_of(way)?].bounds.ceiling);
        let test = TestLoad { way, host: self.host.clone(), rate: offered, time: LOAD };
        let (loader, begun) = (self.options.loader.clone(), Arc::new(AtomicU64::new(0)));
        let begins = begun.clone();
        let load = std::thread::spawn(move || {
            loader(&test, &|| {
                let now = monotonic_ns();
                let _ = begins.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
            })
        });
        self.phase = TestPhase::Load { way, offered, begun, load, is_raised: false };
        Ok(())
    }

    fn judge(&mut self, way: Direction, offered: Rate, begun: u64, arrived: &Result<Rate, String>) {
        let beside = begun + LOAD_BEGINS_NS..begun + LOAD.nanos();
        for at in (0..self.names.len()).filter(|at| self.names[*at] != FLOWS).collect::<Vec<_>>() {
            let test = match arrived {
                Err(why) => SignalTest::failed(format!("no load could be sent: {why}")),
                Ok(arrived) => {
                    let loaded = self.loaded[at].iter().filter(|(sent, _)| beside.contains(sent));
                    let loaded: Vec<f64> = loaded.map(|(_, ms)| *ms).collect();
                    let lost =
                        self.unanswered[at].iter().filter(|sent| beside.contains(sent)).count();
                    judge(&self.idle[at], &loaded, lost, offered, *arrived)
                }
            };
            self.note_test(self.names[at].clone(), way, test);
        }
    }

    fn end_test(&mut self, now: u64) {
        self.believe();
        let unknown = |test: &TestedSignal| {
            test.signal != FLOWS && test.test.verdict == SignalVerdict::Unknown
        };
        self.next_test = self.tests.iter().any(unknown).then_some(now + AGAIN_NS);
        for line in &mut self.lines {
            line.is_held = false;
            if line.signal.is_none() {
                line.reason = RateReason::Unseen;
            }
        }
    }
}

/// The round trips of flows, and their test.
impl Follower<'_> {
    fn read_flows(&mut self) -> Result<(), CommandError> {
        loop {
            let Some(flows) = &mut self.flows else { return Ok(()) };
            let Some(trip) = flows.trips.as_mut().ok().and_then(RoundTrips::next_trip) else {
                return Ok(());
            };
            let (signal, way, added) = (flows.at, way_of(&trip), added_ns(&trip));
            flows.heard_ns[slot(way)] = trip.seen_ns;
            let is_led = |line: &FollowedLine| line.way == way && line.is_led_by(signal);
            let Some(at) = self.lines.iter().position(is_led) else {
                let ms = added as f64 / 1e6;
                match &self.phase {
                    TestPhase::Flows(test) if test.way == way => {
                        if trip.sent_ns > test.begun + LOAD_BEGINS_NS {
                            flows.loaded.push(ms);
                        }
                    }
                    _ => flows.at_floor(slot(way), ms),
                }
                continue;
            };
            self.count(monotonic_ns())?;
            self.sample(at, trip.sent_ns, trip.seen_ns, Some(added))?;
        }
    }

    /// Begins where a queue of ours is full by flows, and nothing else tells of its line.
    fn begin_flow_test(&mut self, now: u64) -> Result<(), CommandError> {
        let Some(flows) = &self.flows else { return Ok(()) };
        let may = |line: &&FollowedLine| {
            let way = slot(line.way);
            line.is_waiting
                && (line.signal.is_none() || line.is_held)
                && flows.is_ready(way, now)
                && !self.believed(line.way).contains(&flows.at)
        };
        let way = self.lines.iter().find(may).map(|line| line.way);
        let Some(way) = way.filter(|_| !self.options.dry_run) else { return Ok(()) };
        let line = self.lines.iter_mut().find(|line| line.way == way).expect("it was there");
        line.is_held = true;
        self.phase = TestPhase::Flows(FlowTest { way, begun: now, passed: line.passed });
        self.put(way, |bounds| bounds.ceiling).map(drop)
    }

    fn test_flows(&mut self, now: u64) -> Result<(), CommandError> {
        let (TestPhase::Flows(test), Some(flows)) = (&self.phase, &self.flows) else {
            return Ok(());
        };
        let (way, past) = (test.way, now.saturating_sub(test.begun));
        let Some(line) = self.lines.iter().find(|line| line.way == way) else { return Ok(()) };
        let (ceiling, passed) = (line.bounds.ceiling, line.passed - test.passed);
        let passed = u128::from(passed) * 8_000_000_000;
        let passed = Rate::from_bps((passed / u128::from(past.max(1))) as u64);
        let judged = flows.judged(slot(way), ceiling, passed);
        if judged.verdict != SignalVerdict::Sees && past < flows::FILL.nanos() {
            return Ok(());
        }
        self.phase = TestPhase::None;
        self.put(way, |bounds| bounds.floor)?;
        if let Some(flows) = &mut self.flows {
            flows.again(slot(way), now);
        }
        if let Some(at) = self.test_of_flows(way) {
            self.tests.remove(at);
        }
        self.note_test(FLOWS.to_owned(), way, judged);
        for line in self.lines.iter_mut().filter(|line| line.way == way) {
            line.is_held = false;
            line.controller.turn();
        }
        self.believe();
        Ok(())
    }
}

/// The signal of the flows themselves, by its name.
const FLOWS: &str = "flows";

fn slot(way: Direction) -> usize {
    usize::from(way == Direction::Down)
}

/// What is offered of a ceiling: packets' headers count too.
fn offered_of(ceiling: Rate) -> Rate {
    Rate::from_bps(ceiling.bps() / 100 * 92)
}
