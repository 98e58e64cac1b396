//! `quell shape hold`: somebody who makes subscribers' classes as they come, and takes them off when they were silent for long.
//!
//! ```text
//!   ring: who has no class ─┐                    ┌─ class and fq_codel, each way, within milliseconds
//!   clock: who is silent ───┼─► Presence ─► Leader ─┤
//!   the undo log's changes ─┘                    └─ classes that go; what another policy says of those who are there
//! ```
//!
//! What he does is beside changes and never in one: he waits until none is under way, and each waits for him. When he dies nothing is lost:
//! who has a class keeps it, and who comes is in the class of all others until there is a next one.

use super::lead::Leader;
use super::standby::Standby;
use super::state::{State, open_to_change};
use super::wanted::settled_again;
use crate::failure::Failure;
use clap::Args;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use quell_act::{Kernel, Lock, Log, Standing};
use quell_classify::roster::{Arrivals, RosterTables};
use quell_shaper::{Came, Presence};
use quell_sys::netns::NetNs;
use quell_sys::pidfd;
use quell_sys::wait::{Alarm, came, readable, wait};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Options of `quell shape hold`.
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// The interface
    #[arg(long = "dev", value_name = "DEV")]
    pub device: String,
    /// Where somebody does it already, wait and take over when that one ends
    #[arg(long)]
    pub stand_by: bool,
    #[command(flatten)]
    pub state: State,
}

/// The file that he keeps locked as long as he lives, with his number in it.
fn place(log: &Path) -> PathBuf {
    log.with_extension("hold")
}

/// Who makes classes for those who come, by his process; none where nobody does.
pub fn holder(log: &Log) -> Option<u32> {
    let mut file = File::open(place(log.path())).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_) => None,
        Err((_, errno)) => (errno == Errno::EWOULDBLOCK).then(|| text.trim().parse().unwrap_or(0)),
    }
}

/// The lock of the one who makes classes.
fn lock(path: &Path, stand_by: bool) -> Result<Flock<File>, Failure> {
    let failed = |e: std::io::Error| Failure::system(format!("{}: {e}", path.display()));
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW);
    loop {
        let file = options.open(path).map_err(failed)?;
        let how = if stand_by { FlockArg::LockExclusive } else { FlockArg::LockExclusiveNonblock };
        let mut locked = match Flock::lock(file, how) {
            Ok(locked) => locked,
            Err((_, Errno::EINTR)) => continue,
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Err(Failure::check(format!(
                    "process {} does that already; --stand-by waits until it ends",
                    text.trim()
                )));
            }
            Err((_, errno)) => return Err(failed(errno.into())),
        };
        // `off` may have taken the file away while this one waited.
        let same = std::fs::metadata(path)
            .is_ok_and(|there| locked.metadata().is_ok_and(|ours| ours.ino() == there.ino()));
        if same {
            let _ = locked.set_len(0);
            let _ = locked.seek(SeekFrom::Start(0));
            let _ = write!(locked, "{}", std::process::id());
            return Ok(locked);
        }
        if stand_by && !path.exists() {
            return Err(Failure::check("what was in force is off".to_owned()));
        }
    }
}

/// Starts one for a change that is in force, unless somebody is there already, and waits until he watches.
pub fn start(log: &Log, folder: &Path, device: &str) -> Result<(), Failure> {
    if holder(log).is_some() {
        return Ok(());
    }
    let failed =
        |why: String| Failure::system(format!("nobody makes classes for those who come: {why}"));
    let folder = std::path::absolute(folder).map_err(|e| failed(e.to_string()))?;
    // Also where the file was replaced since this process was started.
    let mut command = Command::new("/proc/self/exe");
    command.args(["shape", "hold", "--dev", device, "--state"]).arg(folder);
    match quell_act::start_apart(command) {
        Ok(_) => Ok(()),
        // Somebody else was faster.
        Err(_) if holder(log).is_some() => Ok(()),
        Err(why) => Err(failed(format!("{why}; `quell shape hold` tells more"))),
    }
}

/// Waits until the one whose work `off` has taken away has ended, and takes his file away.
pub fn ended(log: &Path) {
    let path = place(log);
    let Ok(text) = std::fs::read_to_string(&path) else { return };
    if let Ok(process) = text.trim().parse().map_or(Err(()), |pid| pidfd::open(pid).map_err(drop))
        && let Ok(mut alarm) = Alarm::new()
        && let Ok(file) = File::open(&path)
        && let Err((_, Errno::EWOULDBLOCK)) = Flock::lock(file, FlockArg::LockSharedNonblock)
    {
        let _ = alarm.set(Some(quell_sys::clock::monotonic_ns() + 2_000_000_000));
        let _ = wait(&mut [readable(&process), readable(&alarm)]);
    }
    let _ = std::fs::remove_file(path);
}

/// By what one state of the log is told from another.
type Stamp = (u64, i64, i64, u64);

/// What the log says, before anything of the kernel was looked at.
enum Said {
    /// Subscribers come and go.
    Standby(Stamp, Box<Standby>),
    /// A change is under way; its end is written into the log.
    Later(Stamp),
    /// Nothing that comes and goes is in force any more.
    Over,
}

impl Said {
    /// Reads it. That takes its time for thousands, so no lock is held.
    fn read(kernel: &mut Kernel, path: &Path) -> Result<Self, String> {
        let Some(stamp) = stamp(path) else { return Ok(Said::Over) };
        let log = match Log::read(path).map_err(|e| e.to_string())? {
            None => return Ok(Said::Over),
            Some(log) if log.standing == Standing::Unfinished => return Ok(Said::Later(stamp)),
            Some(log) => log,
        };
        let settled = match settled_again(&log, kernel) {
            Ok(settled) => settled,
            // What it was read by may have gone with it.
            Err(_) if self::stamp(path) != Some(stamp) => return Ok(Said::Later(stamp)),
            Err(why) => return Err(why.to_string()),
        };
        let standby = settled.standby.map(Box::new);
        Ok(standby.map_or(Said::Over, |standby| Said::Standby(stamp, standby)))
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
}

/// What is in force, and who is there.
struct InForce {
    stamp: Stamp,
    standby: Box<Standby>,
    leader: Leader,
    arrivals: Vec<Arrivals>,
    presence: Presence,
    /// When all were last looked at for who could make room.
    looked: u64,
}

/// The longest tick that a kernel has, and some.
const TICK_NS: u64 = 20_000_000;

/// How often all are looked at for who could make room.
const LOOK_NS: u64 = 1_000_000_000;

impl InForce {
    /// Leads to what the log says, under the lock. `before` is what was in force, if this process knew it.
    fn lead(stamp: Stamp, standby: Box<Standby>, before: Option<InForce>) -> Result<Self, String> {
        let mut leader = Leader::open(&standby)?;
        let there = leader.lead(&standby, &BTreeSet::new())?;
        let now = RosterTables::now();
        let mut presence = Presence::new(standby.idle.nanos(), standby.most);
        for minor in &there {
            presence.entered(*minor, leader.last(*minor)?.unwrap_or(now));
        }
        // With other subscribers, or other tables, marks may be others'.
        let known = before.is_some_and(|before| {
            before.standby.prints() == standby.prints() && before.leader.is_of(&leader)
        });
        let waiting = if known { Vec::new() } else { leader.put_right(&standby, &there)? };
        let arrivals = leader.open.iter_mut().map(|open| open.tables.arrivals());
        let arrivals = arrivals.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        let mut in_force = InForce { stamp, standby, leader, arrivals, presence, looked: now };
        in_force.let_in(waiting)?;
        Ok(in_force)
    }

    /// The same, by what differs from what was in force, where that are rates of some.
    fn follow(
        stamp: Stamp,
        standby: Box<Standby>,
        before: Option<InForce>,
    ) -> Result<Self, String> {
        let Some(mut known) = before else { return InForce::lead(stamp, standby, None) };
        let Some(differ) = known.standby.other_rates(&standby) else {
            return InForce::lead(stamp, standby, Some(known));
        };
        let differ: Vec<u16> = differ.into_iter().collect();
        // Interfaces and filters may be others than those that are known.
        let same = Leader::open(&standby).is_ok_and(|leader| leader.is_of(&known.leader));
        if !same || known.leader.lead_some(&standby, &differ).is_err() {
            return InForce::lead(stamp, standby, Some(known));
        }
        (known.stamp, known.standby) = (stamp, standby);
        Ok(known)
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
            if self.standby.ways.iter().any(|way| way.all.name(minor).is_none()) {
                continue;
            }
            let mut verdict = self.presence.came(minor, now);
            if !matches!(verdict, Came::Here | Came::Make) && now - self.looked >= LOOK_NS {
                self.look_at_all(now)?;
                verdict = self.presence.came(minor, now);
            }
            match verdict {
                Came::Here => self.leader.mark(&[minor], true)?,
                Came::Make => {
                    self.presence.entered(minor, now);
                    come.push(minor);
                }
                Came::InsteadOf(silent) => {
                    let newer = self.leader.last(silent)?.unwrap_or(0);
                    self.presence.heard(silent, newer);
                    if self.presence.came(minor, now) == Came::InsteadOf(silent) {
                        self.presence.gone(silent);
                        self.presence.entered(minor, now);
                        go.push(silent);
                        come.push(minor);
                    }
                }
                // Its next packet tells again.
                Came::Full => {}
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

    /// Takes off the classes of those who were silent for long.
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

/// `quell shape hold`.
pub fn hold(args: &HoldArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open_to_change()?;
    let log = args.state.log_of(&mut kernel, &args.device)?;
    let (folder, path) = (&args.state.folder, log.path().to_owned());
    drop(log);
    let _locked = lock(&place(&path), args.stand_by)?;
    let namespace = NetNs::current().map_err(Failure::system)?.inode();
    let told =
        Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).map_err(Failure::system)?;
    let events = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_TO;
    told.add_watch(folder, events).map_err(Failure::system)?;
    let mut alarm = Alarm::new().map_err(Failure::system)?;
    let mut in_force: Option<InForce> = None;
    let mut said = false;
    loop {
        let known = in_force.as_ref().map(|in_force| in_force.stamp);
        let anew = if known.is_none() || known != stamp(&path) {
            Some(Said::read(&mut kernel, &path).map_err(Failure::system)?)
        } else {
            None
        };
        let lock = Lock::beside(folder, namespace).map_err(super::failure)?;
        // Under the lock nothing is changed by anybody else.
        match anew {
            Some(Said::Over) if said => return Ok(ExitCode::SUCCESS),
            Some(Said::Over) => {
                return Err(Failure::check(format!(
                    "on {} nobody comes and goes: all classes were made at once",
                    args.device
                )));
            }
            Some(Said::Standby(as_read, standby)) if stamp(&path) == Some(as_read) => {
                let new = InForce::follow(as_read, standby, in_force.take());
                in_force = Some(new.map_err(Failure::system)?);
            }
            Some(Said::Later(as_read)) if stamp(&path) == Some(as_read) => in_force = None,
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
                let InForce { stamp, standby, .. } = there;
                in_force = Some(InForce::lead(stamp, standby, None).map_err(Failure::system)?);
            }
        }
        drop(lock);
        if !said {
            said = true;
            // Whoever started it waits for this; who reads it later has gone.
            let mut out = std::io::stdout();
            let line = format!("{}: makes classes of subscribers as they come\n", args.device);
            let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        }
        let next = in_force.as_ref().and_then(|in_force| in_force.presence.next());
        // The clock of the tables goes by the kernel's tick, and is behind.
        alarm.set(next.map(|next| next + TICK_NS)).map_err(Failure::system)?;
        let arrivals = in_force.iter().flat_map(|in_force| &in_force.arrivals);
        let mut fds = vec![readable(&told), readable(&alarm)];
        fds.extend(arrivals.map(readable));
        wait(&mut fds).map_err(Failure::system)?;
        if came(&fds[0]) {
            let _ = told.read_events();
        }
    }
}
