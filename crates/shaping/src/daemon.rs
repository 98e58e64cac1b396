//! `quell shape hold`: somebody who makes subscribers' classes as they come, and takes them off when they were silent for long.
//!
//! ```text
//!   ring: who has no class ─┐                    ┌─ class and fq_codel, each way, within milliseconds
//!   clock: who is silent ───┼─► ActiveSubscribers ─► Reconciler ─┤
//!   the undo log's changes ─┘                    └─ classes that go; what another policy says of those who are there
//! ```
//!
//! What he does is beside changes and never in one: he waits until none is under way, and each waits for him. When he dies nothing is lost:
//! who has a class keeps it, and who comes is in the class of all others until there is a next one.

use crate::reconcile::Reconciler;
use crate::subscriber_classes::SubscriberClasses;
use crate::{CommandError, UndoLogs, open_to_change, plan_again, process_lock};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use quell_act::{Kernel, Lock, Log, Standing};
use quell_classify::roster::{NewcomerRing, RosterTables};
use quell_policy::{ActiveSubscribers, Admission};
use quell_sys::netns::NetNs;
use quell_sys::wait::{Alarm, came, readable, wait};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file that he keeps locked as long as he lives, with his number in it.
fn place(log: &Path) -> PathBuf {
    log.with_extension("hold")
}

/// Who makes classes for those who come, by his process; none where nobody does.
pub fn holder(log: &Log) -> Option<u32> {
    process_lock::holder(&place(log.path()))
}

/// Starts one for a change that is in force, unless somebody is there already, and waits until he watches.
pub fn start(log: &Log, folder: &Path, device: &str) -> Result<(), CommandError> {
    process_lock::start("hold", &place(log.path()), folder, device).map_err(|why| {
        CommandError::system(format!(
            "nobody makes classes for those who come: {why}; `quell shape hold` tells more"
        ))
    })
}

/// Waits until the one whose work `off` has taken away has ended, and takes his file away.
pub fn ended(log: &Path) {
    process_lock::ended(&place(log));
}

/// By what one state of the log is told from another.
pub(crate) type Stamp = (u64, i64, i64, u64);

/// What the log says, before anything of the kernel was looked at.
enum LogState {
    Dynamic(Stamp, Box<SubscriberClasses>),
    /// A change is under way; its end is written into the log.
    Later(Stamp),
    /// Nothing that comes and goes is in force any more.
    Over,
}

impl LogState {
    /// Reads it. That takes its time for thousands, so no lock is held.
    fn read(kernel: &mut Kernel, path: &Path) -> Result<Self, String> {
        let Some(stamp) = stamp(path) else { return Ok(LogState::Over) };
        let log = match Log::read(path).map_err(|e| e.to_string())? {
            None => return Ok(LogState::Over),
            Some(log) if log.standing == Standing::Unfinished => return Ok(LogState::Later(stamp)),
            Some(log) => log,
        };
        let settled = match plan_again(&log, kernel) {
            Ok(settled) => settled,
            // What it was read by may have gone with it.
            Err(_) if self::stamp(path) != Some(stamp) => return Ok(LogState::Later(stamp)),
            Err(why) => return Err(why.to_string()),
        };
        let standby = settled.subscribers.map(Box::new);
        Ok(standby.map_or(LogState::Over, |standby| LogState::Dynamic(stamp, standby)))
    }
}

pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
}

/// What is in force, and who is there.
struct ActiveClasses {
    stamp: Stamp,
    standby: Box<SubscriberClasses>,
    leader: Reconciler,
    arrivals: Vec<NewcomerRing>,
    presence: ActiveSubscribers,
    /// When all were last looked at for who could make room.
    looked: u64,
}

/// The longest tick that a kernel has, and some.
const TICK_NS: u64 = 20_000_000;

/// How often all are looked at for who could make room.
const LOOK_NS: u64 = 1_000_000_000;

impl ActiveClasses {
    /// Leads to what the log says, under the lock.
    fn lead(stamp: Stamp, standby: Box<SubscriberClasses>) -> Result<Self, String> {
        let mut leader = Reconciler::open(&standby)?;
        let there = leader.lead(&standby, &BTreeSet::new())?;
        let now = RosterTables::now();
        let mut presence = ActiveSubscribers::new(standby.idle.nanos(), standby.most);
        for minor in &there {
            presence.entered(*minor, leader.last(*minor)?.unwrap_or(now));
        }
        let waiting = leader.put_right(&standby, &there)?;
        let arrivals = leader.open.iter_mut().map(|open| open.tables.arrivals());
        let arrivals = arrivals.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        let mut in_force =
            ActiveClasses { stamp, standby, leader, arrivals, presence, looked: now };
        in_force.let_in(waiting)?;
        Ok(in_force)
    }

    /// Who came, as the kernel tells; a few thousand at a time.
    fn newcomers(&mut self) -> Vec<u16> {
        let mut who = BTreeSet::new();
        for arrivals in &mut self.arrivals {
            who.extend(std::iter::from_fn(|| arrivals.next_arrival()).take(4096));
        }
        who.into_iter().collect()
    }

    /// Gives classes to some who came, as far as there is room.
    fn let_in(&mut self, who: Vec<u16>) -> Result<(), String> {
        let now = RosterTables::now();
        let (mut come, mut go) = (Vec::new(), Vec::new());
        for minor in who {
            // One that the policy does not know is from before a change.
            if self.standby.directions.iter().any(|way| way.all.name(minor).is_none()) {
                continue;
            }
            let mut verdict = self.presence.came(minor, now);
            if !matches!(verdict, Admission::Here | Admission::Make) && now - self.looked >= LOOK_NS
            {
                self.look_at_all(now)?;
                verdict = self.presence.came(minor, now);
            }
            match verdict {
                Admission::Here => self.leader.mark(&[minor], true)?,
                Admission::Make => {
                    self.presence.entered(minor, now);
                    come.push(minor);
                }
                Admission::InsteadOf(silent) => {
                    let newer = self.leader.last(silent)?.unwrap_or(0);
                    self.presence.heard(silent, newer);
                    if self.presence.came(minor, now) == Admission::InsteadOf(silent) {
                        self.presence.gone(silent);
                        self.presence.entered(minor, now);
                        go.push(silent);
                        come.push(minor);
                    }
                }
                // Its next packet tells again.
                Admission::Full => {}
            }
        }
        if !go.is_empty() {
            self.leader.take_off(&self.standby, &go)?;
        }
        if come.is_empty() {
            return Ok(());
        }
        match self.leader.make(&self.standby, &come) {
            Ok(()) => Ok(()),
            // Somebody made some of them, or one way has them.
            Err(_) => {
                let come: BTreeSet<u16> = come.into_iter().collect();
                let there = self.leader.lead(&self.standby, &come)?;
                self.leader.mark(&there.into_iter().collect::<Vec<_>>(), true)
            }
        }
    }

    fn look_at_all(&mut self, now: u64) -> Result<(), String> {
        self.looked = now;
        for minor in self.presence.here().collect::<Vec<_>>() {
            self.presence.heard(minor, self.leader.last(minor)?.unwrap_or(0));
        }
        Ok(())
    }

    fn let_go(&mut self) -> Result<(), String> {
        let now = RosterTables::now();
        for minor in self.presence.silent(now) {
            self.presence.heard(minor, self.leader.last(minor)?.unwrap_or(0));
        }
        let go = self.presence.silent(now);
        go.iter().for_each(|minor| self.presence.gone(*minor));
        if go.is_empty() { Ok(()) } else { self.leader.take_off(&self.standby, &go) }
    }
}

/// Makes classes of those who come on an interface until what is in force there is off, and says once that it does. With `stand_by` it waits for
/// the end of somebody who does it already.
pub fn run(
    logs: &UndoLogs,
    device: &str,
    stand_by: bool,
    ready: &mut dyn FnMut(),
) -> Result<(), CommandError> {
    let mut kernel = open_to_change()?;
    let log = logs.of(&mut kernel, device)?;
    let (folder, path) = (&logs.folder, log.path().to_owned());
    drop(log);
    let _locked = process_lock::lock(&place(&path), stand_by)?;
    let namespace = NetNs::current().map_err(CommandError::system)?.inode();
    let told = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
        .map_err(CommandError::system)?;
    let events = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_TO;
    told.add_watch(folder, events).map_err(CommandError::system)?;
    let mut alarm = Alarm::new().map_err(CommandError::system)?;
    let mut in_force: Option<ActiveClasses> = None;
    let mut said = false;
    loop {
        let known = in_force.as_ref().map(|in_force| in_force.stamp);
        let anew = if known.is_none() || known != stamp(&path) {
            Some(LogState::read(&mut kernel, &path).map_err(CommandError::system)?)
        } else {
            None
        };
        let lock = Lock::beside(folder, namespace)?;
        // Under the lock nothing is changed by anybody else.
        match anew {
            Some(LogState::Over) if said => return Ok(()),
            Some(LogState::Over) => {
                return Err(CommandError::check(format!(
                    "on {device} nobody comes and goes: all classes were made at once"
                )));
            }
            Some(LogState::Dynamic(as_read, standby)) if stamp(&path) == Some(as_read) => {
                let new = ActiveClasses::lead(as_read, standby);
                in_force = Some(new.map_err(CommandError::system)?);
            }
            Some(LogState::Later(as_read)) if stamp(&path) == Some(as_read) => in_force = None,
            // It was changed again.
            Some(_) => continue,
            None if stamp(&path) != known => continue,
            None => {}
        }
        if let Some(there) = &mut in_force {
            let who = there.newcomers();
            // Somebody took off what was to go, or made what was to come: all is looked at anew, once.
            if there.let_in(who).and_then(|()| there.let_go()).is_err()
                && let Some(there) = in_force.take()
            {
                let ActiveClasses { stamp, standby, .. } = there;
                in_force = Some(ActiveClasses::lead(stamp, standby).map_err(CommandError::system)?);
            }
        }
        drop(lock);
        if !said {
            said = true;
            ready();
        }
        let next = in_force.as_ref().and_then(|in_force| in_force.presence.next());
        // The clock of the tables goes by the kernel's tick, and is behind.
        alarm.set(next.map(|next| next + TICK_NS)).map_err(CommandError::system)?;
        let arrivals = in_force.iter().flat_map(|in_force| &in_force.arrivals);
        let mut fds = vec![readable(&told), readable(&alarm)];
        fds.extend(arrivals.map(readable));
        wait(&mut fds).map_err(CommandError::system)?;
        if came(&fds[0]) {
            let _ = told.read_events();
        }
    }
}
