//! `quell shape follow`: the rates of a line that varies, led by signals that were seen to see its queue.
//!
//! ```text
//!   stamp, ping, flows ── delay ──► controller ── rate ──► line: one netlink message          state: what `status` shows
//!              │                    ▲
//!              └─ load_test, signal_test: load below the ceiling; does it move? ── not: no steering, the rate stays at the floor
//!
//!   lifecycle: start, pause and the guard, another process; where this one is killed it puts the rate where the policy says
//! ```
//!
//! A change of the policy ends it, and starts another: what is in force never changes under it. The rate is changed beside changes
//! ([`Lock::beside`]), so that nobody sees half of one.

pub mod controller;
mod flows;
mod lifecycle;
mod line;
mod load_test;
pub mod signal_test;
mod stamp;
mod state;
#[cfg(test)]
mod tests;

pub use lifecycle::{forget, guard, pause, start, take_rates};
pub use load_test::{LOAD, TestLoad, TestLoader};
pub use state::{FollowState, FollowedDirection, TestedSignal, word};

use crate::daemon::stamp as stamp_of;
use crate::{CommandError, UndoLogs, open_to_change, policy_of_log, process_lock};
use controller::{LineSample, NewRate, RateReason};
use flows::OwnSignal;
use lifecycle::{planned, start_guard};
use line::FollowedLine;
use load_test::TestPhase;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use quell_act::{Kernel, Lock, Log, Machine};
use quell_model::task::Direction;
use quell_netlink::core::{Protocol, Socket};
use quell_policy::{Counting, LinePolicy, Signal, WhenLost};
use quell_sys::clock::monotonic_ns;
use quell_sys::resolve::{Family, Usual, resolve};
use quell_sys::wait::{Alarm, came, readable, wait};
use quell_tc::hash;
use signal_test::{SignalTest, SignalVerdict};
use stamp::{ProbeAnswer, ProbeSession};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MS: u64 = 1_000_000;
/// Between two probes, while the line is used and while it is not: no multiples of the 2, 5 or 10 ms at which a line may grant.
const PROBE_NS: u64 = 11 * MS;
const IDLE_PROBE_NS: u64 = 103 * MS;
/// A silence as long as that, and no signal is believed.
const SILENCE_NS: u64 = 1500 * MS;
const STATE_NS: u64 = 1000 * MS;

pub struct FollowOptions {
    pub stand_by: bool,
    /// Nothing is changed; each decision is told.
    pub dry_run: bool,
    pub loader: Arc<TestLoader>,
}

struct Follower<'a> {
    log: Log,
    stamp: Option<crate::daemon::Stamp>,
    folder: &'a Path,
    device: &'a str,
    socket: Socket,
    lines: Vec<FollowedLine>,
    names: Vec<String>,
    /// Who is asked, by the place of its signal.
    sessions: Vec<(usize, ProbeSession)>,
    own: Vec<OwnSignal>,
    lost: WhenLost,
    secret_file: Option<PathBuf>,
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
    if options.dry_run {
        follower.tell_unled();
    } else {
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
        let (mut sessions, mut own) = (Vec::new(), Vec::new());
        let is_stamp = |signal: &Signal| matches!(signal, Signal::Stamp(_));
        let is_loaded = follow.signals.iter().any(is_stamp);
        for (at, signal) in follow.signals.iter().enumerate() {
            match signal {
                Signal::Stamp(name) | Signal::Ping(name) => {
                    let usual = Usual {
                        family: Family::Any,
                        own: None,
                        port: Some(quell_wire::iperf3::PORT),
                        device: None,
                    };
                    let mut found = resolve(name, usual).map_err(CommandError::system)?;
                    // Of a family to which there is no way the socket can't be connected.
                    let open =
                        if is_stamp(signal) { ProbeSession::stamp } else { ProbeSession::ping };
                    let session = found.reached(|_| true, open);
                    sessions.push((at, session.map_err(CommandError::system)?));
                    if !is_loaded {
                        own.push(OwnSignal::pings(at));
                    }
                }
                Signal::Flows => {
                    let index = now.links.get(device).map_or(0, |link| link.index);
                    own.push(OwnSignal::flows(at, index));
                }
            }
        }
        let policy = hash(log.begun.recipe.bytes());
        let kept = FollowState::read(log.path()).filter(|kept| kept.policy == policy);
        let tests = kept.map(|kept| kept.signals).unwrap_or_default();
        let names: Vec<String> = follow.signals.iter().map(ToString::to_string).collect();
        let (count, is_asked) = (names.len(), |test: &TestedSignal| test.signal.starts_with(STAMP));
        let is_due = is_loaded && !tests.iter().any(is_asked);
        let mut follower = Follower {
            stamp: stamp_of(log.path()),
            log,
            folder,
            device,
            socket,
            lines,
            names,
            sessions,
            own,
            lost: follow.lost,
            secret_file: follow.secret_file,
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
            for own in 0..self.own.len() {
                let (name, test) = (&self.names[self.own[own].at], self.own[own].untested());
                let is_it = |had: &TestedSignal| (&had.signal, had.direction) == (name, way);
                if !self.tests.iter().any(is_it) {
                    self.note_test(name.clone(), way, test);
                }
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

    fn note_test(&mut self, signal: String, direction: Direction, test: SignalTest) {
        let says = test.to_string();
        let new = TestedSignal { signal, direction, test, says };
        let is_it =
            |had: &&mut TestedSignal| (&had.signal, had.direction) == (&new.signal, direction);
        match self.tests.iter_mut().find(is_it) {
            Some(had) => *had = new,
            None => self.tests.push(new),
        }
    }

    /// When a signal last told of a direction.
    fn heard_ns(&self, signal: usize, way: Direction) -> u64 {
        match self.session(signal) {
            Some(session) => session.heard_ns,
            None => self
                .own
                .iter()
                .find(|own| own.at == signal)
                .map_or(0, |own| own.heard_ns[slot(way)]),
        }
    }

    fn session(&self, signal: usize) -> Option<&ProbeSession> {
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
            fds.extend(self.own.iter().filter_map(OwnSignal::round_trips).map(readable));
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
            let way = self.lines[at].way;
            let delay = delay_ns[slot(way)];
            if self.lines[at].is_led_by(signal) {
                self.sample(at, sent.sent_ns, *seen_ns, Some(delay))?;
            }
            self.note_for_own_test(signal, way, (sent.sent_ns, *seen_ns), delay);
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
            let awaited = session.and_then(|(_, session)| session.awaited());
            if let (Some(sent), false) = (awaited, line.is_held) {
                let new = line.controller.overdue(sent.sent_ns, now);
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
            let is_flows = self.lines[at].signal.is_some_and(|at| self.session(at).is_none());
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

    /// Of a dry run, the directions that it changes nothing in: it tests nothing.
    fn tell_unled(&self) {
        for line in self.lines.iter().filter(|line| line.signal.is_none()) {
            let (way, rate) = (word(line.way), line.controller.rate());
            println!("{way} it stays at {rate}: {}, and a dry run tests none", RateReason::Unseen);
        }
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

/// What the names of those begin with that ask a far end.
const STAMP: &str = "stamp:";

fn slot(way: Direction) -> usize {
    usize::from(way == Direction::Down)
}
