//! The test of the signals that a far end answers: each direction without load, and with more than it carries.

use super::controller::RateReason;
use super::flows::OwnTest;
use super::signal_test::{LEAST_PROBES, SignalTest, SignalVerdict, judge};
use super::state::{TestedSignal, word};
use super::{Follower, MS, STAMP, slot};
use crate::CommandError;
use quell_model::task::Direction;
use quell_policy::Bounds;
use quell_sys::clock::monotonic_ns;
use quell_units::{Rate, Span};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// A test: without load, and with it.
const IDLE_NS: u64 = 2000 * MS;
pub const LOAD: Span = Span::from_secs(3);
/// What a load begins with tells nothing yet.
pub(super) const LOAD_BEGINS_NS: u64 = 500 * MS;
/// A signal of which nothing is known is tried again after that; where the line carried the whole load, which is much, after the second.
const AGAIN_NS: u64 = 60_000 * MS;
const AGAIN_CARRIED_NS: u64 = 1_800_000 * MS;
/// Loads of one test, one way.
const MOST_LOADS: usize = 4;

/// A load of one direction, from or to the far end that a signal asks.
pub struct TestLoad {
    pub way: Direction,
    pub host: String,
    /// What is sent, whatever of it arrives.
    pub rate: Rate,
    pub time: Span,
    /// As the policy names it.
    pub secret_file: Option<PathBuf>,
}

/// Sends a load, calls what it is given once data flows, and tells how much of it arrived.
pub type TestLoader = dyn Fn(&TestLoad, &dyn Fn()) -> Result<Rate, String> + Send + Sync;

/// Where a test of the signals is.
pub(super) enum TestPhase {
    None,
    Idle {
        way: Direction,
        until: u64,
        /// What is offered then, and how many loads there were before.
        offers: Rate,
        before: usize,
    },
    Load {
        way: Direction,
        offered: Rate,
        before: usize,
        begun: Arc<AtomicU64>,
        load: JoinHandle<Result<Rate, String>>,
        /// The rate is at the ceiling: data flows.
        is_raised: bool,
    },
    Own(OwnTest),
}

impl Follower<'_> {
    pub(super) fn note_for_test(&mut self, signal: usize, sent_ns: u64, delay_ns: &[i64; 2]) {
        let ms = |way: Direction| delay_ns[slot(way)] as f64 / 1e6;
        match &self.phase {
            TestPhase::None | TestPhase::Own(_) => {}
            TestPhase::Idle { way, .. } => self.idle[signal].push(ms(*way)),
            TestPhase::Load { way, .. } => self.loaded[signal].push((sent_ns, ms(*way))),
        }
    }

    pub(super) fn test(&mut self, now: u64) -> Result<(), CommandError> {
        match &mut self.phase {
            TestPhase::None => {
                let again = self
                    .lines
                    .iter_mut()
                    .any(|line| std::mem::take(&mut line.controller.rebased) > 0);
                let due = self.next_test.is_some_and(|at| now >= at)
                    || (again && self.next_test.is_none());
                match (due || again) && !self.options.dry_run {
                    true if !self.names.iter().any(|name| name.starts_with(STAMP)) => {
                        self.tests.clear();
                        self.believe();
                    }
                    true if due => {
                        self.next_test = None;
                        self.begin_test(Direction::Up, now)?;
                    }
                    _ => self.begin_own_test(now)?,
                }
            }
            TestPhase::Own(_) => self.test_own(now)?,
            TestPhase::Idle { way, until, offers, before } if now >= *until => {
                let (way, offers, before) = (*way, *offers, *before);
                self.load(way, offers, before);
            }
            TestPhase::Load { load, .. } if load.is_finished() => self.end_load(now)?,
            _ => self.raise(now)?,
        }
        Ok(())
    }

    fn end_load(&mut self, now: u64) -> Result<(), CommandError> {
        let phase = std::mem::replace(&mut self.phase, TestPhase::None);
        let TestPhase::Load { way, offered, before, begun, load, .. } = phase else {
            return Ok(());
        };
        let arrived = load.join().unwrap_or_else(|_| Err("the load broke off".into()));
        self.judge(way, offered, begun.load(Ordering::Relaxed), &arrived);
        let sees =
            |test: &TestedSignal| test.direction == way && test.test.verdict == SignalVerdict::Sees;
        let is_seen = self.tests.iter().any(sees);
        let arrived = arrived.ok();
        let next = arrived.and_then(|arrived| self.next_load(way, offered, before, arrived));
        if let (false, Some(offers)) = (is_seen, next) {
            self.put(way, |bounds| bounds.floor)?;
            self.rest(way, now, offers, before + 1);
            return Ok(());
        }
        // What arrived is what the line carries just now.
        let begins = arrived.filter(|_| is_seen);
        self.put(way, |bounds| begins.unwrap_or(bounds.floor))?;
        match way {
            Direction::Up => self.begin_test(Direction::Down, now),
            Direction::Down => {
                self.end_test(now);
                Ok(())
            }
        }
    }

    /// What is offered behind a load beside which no signal rose. PIE drops a flood before anything waits, and for a second or two more: then it is a tenth
    /// more than arrived, as often as that arrives too. It is the same where hardly a probe came back: the line stood still.
    fn next_load(&self, way: Direction, was: Rate, before: usize, arrived: Rate) -> Option<Rate> {
        let most = self.most(way).ok()?;
        let is_answered = self.idle.iter().any(|idle| !idle.is_empty());
        let is_heard = self.loaded.iter().any(|loaded| loaded.len() >= LEAST_PROBES);
        let gentle = Rate::from_bps(arrived.bps() / 10 * 11).min(most);
        let next = if is_heard { gentle } else { was };
        let tells_more =
            !is_heard || next.bps() > was.bps() / 20 * 21 || (was == most && next < was);
        (is_answered && tells_more && before + 1 < MOST_LOADS).then_some(next)
    }

    fn begin_test(&mut self, way: Direction, now: u64) -> Result<(), CommandError> {
        self.rest(way, now, self.most(way)?, 0);
        Ok(())
    }

    /// Without load, before one.
    fn rest(&mut self, way: Direction, now: u64, offers: Rate, before: usize) {
        let count = self.names.len();
        (self.idle, self.loaded) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        self.unanswered = vec![Vec::new(); count];
        self.lines.iter_mut().for_each(|line| line.is_held = true);
        self.phase = TestPhase::Idle { way, until: now + IDLE_NS, offers, before };
    }

    fn line_of(&self, way: Direction) -> Result<usize, CommandError> {
        let none = || CommandError::check(format!("{} nothing is shaped", word(way)));
        self.lines.iter().position(|line| line.way == way).ok_or_else(none)
    }

    pub(super) fn put(
        &mut self,
        way: Direction,
        rate: impl Fn(Bounds) -> Rate,
    ) -> Result<(), CommandError> {
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

    /// What is offered of a ceiling: packets' headers count too.
    fn most(&self, way: Direction) -> Result<Rate, CommandError> {
        let ceiling = self.lines[self.line_of(way)?].bounds.ceiling;
        Ok(Rate::from_bps(ceiling.bps() / 100 * 92))
    }

    /// Loads a direction, with the first far end that answered of late.
    fn load(&mut self, way: Direction, offered: Rate, before: usize) {
        let far_ends = || self.names.iter().enumerate().filter(|(_, name)| name.starts_with(STAMP));
        let answered = |(at, _): &(usize, &String)| !self.idle[*at].is_empty();
        let far_end = far_ends().find(answered).or(far_ends().next());
        let name = far_end.map_or("", |(_, name)| name);
        let host = name.trim_start_matches(STAMP).to_owned();
        let secret_file = self.secret_file.clone();
        let test = TestLoad { way, host, rate: offered, time: LOAD, secret_file };
        let (loader, begun) = (self.options.loader.clone(), Arc::new(AtomicU64::new(0)));
        let begins = begun.clone();
        let load = std::thread::spawn(move || {
            loader(&test, &|| {
                let now = monotonic_ns();
                let _ = begins.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
            })
        });
        self.phase = TestPhase::Load { way, offered, before, begun, load, is_raised: false };
    }

    fn judge(&mut self, way: Direction, offered: Rate, begun: u64, arrived: &Result<Rate, String>) {
        let beside = begun + LOAD_BEGINS_NS..begun + LOAD.nanos();
        for at in (0..self.names.len())
            .filter(|at| self.own.iter().all(|own| own.at != *at))
            .collect::<Vec<_>>()
        {
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
        let is_own =
            |test: &TestedSignal| self.own.iter().any(|own| self.names[own.at] == test.signal);
        let asked = self.tests.iter().filter(|test| !is_own(test));
        let unknown = asked.filter(|test| test.test.verdict == SignalVerdict::Unknown);
        let after = unknown.map(|one| match one.test.is_carried() {
            true => AGAIN_CARRIED_NS,
            false => AGAIN_NS,
        });
        self.next_test = after.min().map(|after| now + after);
        for line in &mut self.lines {
            line.is_held = false;
            if line.signal.is_none() {
                line.reason = RateReason::Unseen;
            }
        }
    }
}
