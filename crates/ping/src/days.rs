//! A measurement without end: a run for each day, and a bound on the disk.
//!
//! ```text
//!   runs/line/20261127T230000-line/        a day's packets: a run as any other
//!   runs/line/20261127T230000-line.minutes   its minutes, written when the day is over, or found again after a kill
//!
//!   midnight here, or the clock was set ──► packets sent from now on go to the new run; the old one waits for its answers, then ends
//!   too old, or too much ──► the oldest packets go ──► still too much: the oldest minutes go
//!   no room on the disk ──► what is kept stays, packets become minutes ──► there is room: a new run
//! ```

use crate::minutes::{self, MinuteSketch, Minutes};
use crate::{PingError, PingSession, kept};
use nix::sys::statvfs::statvfs;
use quell_model::{EchoSample, Event};
use quell_store::{End, Keep, Run, StoreError};
use quell_sys::wall::{Wall, next_midnight_s};
use quell_units::Bytes;
use quell_units::time::{rfc3339, stamp};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const SECOND_NS: u64 = 1_000_000_000;
/// Bytes that must be free before a new run begins on a disk that was full.
const ROOM: u64 = 1 << 20;

/// What may lie on the disk.
#[derive(Debug, Clone, Copy)]
pub struct DiskBound {
    /// Days of which each packet is kept.
    pub days: u32,
    pub most: Bytes,
}

pub struct DayRuns<'a> {
    folder: PathBuf,
    name: String,
    session: &'a PingSession,
    bound: DiskBound,
    /// When the ping began, by the monotonic clock.
    window_ns: u64,
    today: DayRun,
    before: Option<DayRun>,
    /// What was told of the streams, which each day's run is to know.
    facts: Vec<Event>,
    wall: Wall,
    steps: u64,
    midnight_ns: u64,
    tidy_ns: u64,
    /// The disk has no room, and is looked at again at this time.
    full_ns: Option<u64>,
    tell: fn(&str),
    /// Nobody else measures into this folder meanwhile.
    _lock: File,
}

struct DayRun {
    keep: Keep,
    /// When its time began, by the monotonic clock and in seconds since 1970.
    begun_ns: u64,
    begun_s: u64,
    minutes: Minutes,
}

impl<'a> DayRuns<'a> {
    /// Begins in the folder `name` below `base`. What a killed one left there is summed up first. `tell` gets a line for a person.
    pub fn begin(
        base: &Path,
        name: &str,
        session: &'a PingSession,
        bound: DiskBound,
        tell: fn(&str),
    ) -> Result<Self, PingError> {
        let folder = base.join(name);
        fs::create_dir_all(&folder).map_err(StoreError::io("make", &folder))?;
        let lock = File::open(&folder).map_err(StoreError::io("open", &folder))?;
        if lock.try_lock().is_err() {
            let folder = folder.display();
            let why = format!("another `quell ping --keep` writes to {folder}; -w takes another");
            return Err(PingError::Unusable(why));
        }
        for run in runs(&folder).filter(|run| !run.with_extension("minutes").exists()) {
            // What can't be read stays for whoever can.
            if let Ok(read) = Run::read(&run) {
                Minutes::of_run(&read).write(&run.with_extension("minutes"))?;
            }
        }
        let mut wall = Wall::new();
        let now = wall.look();
        let today = DayRun::begin(&folder, name, session, &wall, now)?;
        let mut days = Self {
            midnight_ns: midnight_ns(&wall, now),
            steps: wall.steps(),
            tidy_ns: now,
            full_ns: None,
            tell,
            window_ns: now,
            name: name.into(),
            before: None,
            facts: Vec::new(),
            _lock: lock,
            folder,
            session,
            bound,
            today,
            wall,
        };
        days.tidy()?;
        Ok(days)
    }

    /// The first packet leaves at this time.
    pub fn starts(&mut self, window_ns: u64) {
        self.window_ns = window_ns;
        self.today.begun_s = self.wall.at(window_ns) / SECOND_NS;
        self.today.begun_ns = window_ns;
    }

    pub fn event(&mut self, event: &Event) -> Result<(), PingError> {
        let now = self.wall.look();
        let turned = self.turn_over(now);
        self.unless_full(turned, now)?;
        let taken = self.take(event);
        self.unless_full(taken, now)
    }

    /// A disk without room is told of once, and waited for.
    fn unless_full(&mut self, done: Result<(), PingError>, now: u64) -> Result<(), PingError> {
        match done {
            Err(PingError::Store(why)) if why.is_full_disk() => {
                if self.full_ns.replace(now + SECOND_NS).is_none() {
                    (self.tell)(&format!("{why}. Until then packets are kept by the minute"));
                }
                Ok(())
            }
            other => other,
        }
    }

    fn take(&mut self, event: &Event) -> Result<(), PingError> {
        let has_room = self.full_ns.is_none();
        let Event::Echo { stream, samples } = event else {
            if let Event::Fact(_) = event {
                self.facts.push(event.clone());
            }
            return if has_room { Ok(self.today.keep.event(event)?) } else { Ok(()) };
        };
        let at = |sample: &EchoSample| self.window_ns.saturating_add_signed(sample.t_ns);
        let is_todays = |sample: &&EchoSample| at(sample) >= self.today.begun_ns;
        let (today, before): (Vec<&EchoSample>, Vec<_>) = samples.iter().partition(is_todays);
        let taken = self.today.take(stream, &today, self.window_ns, has_room);
        match &mut self.before {
            Some(day) => taken.and(day.take(stream, &before, self.window_ns, has_room)),
            // A day that is over is told no more that a lost packet was answered.
            None => taken,
        }
    }

    /// Ends what is over at this moment, and begins what is new.
    fn turn_over(&mut self, now: u64) -> Result<(), PingError> {
        // A run has one clock: a new one begins where that was set, or stood still while this machine slept.
        let is_over = now >= self.midnight_ns || self.wall.steps() != self.steps;
        match self.full_ns {
            None if is_over => self.turn(now)?,
            Some(look_ns) if now >= look_ns => {
                self.full_ns = Some(now + SECOND_NS);
                let free = statvfs(&self.folder)
                    .map(|disk| disk.blocks_available() * disk.fragment_size());
                if free.is_ok_and(|bytes| bytes >= ROOM) {
                    self.today.write_minutes()?;
                    self.turn(now)?;
                    self.full_ns = None;
                    (self.tell)("there is room again: each packet is kept from now on");
                }
            }
            _ => {}
        }
        // Nobody waits longer for an answer (`quell_probe::patience`), unless that was asked for.
        let patience_ns = self.session.wait.map_or(60 * SECOND_NS, |wait| wait.nanos());
        let waits_until = self.today.begun_ns.saturating_add(patience_ns + SECOND_NS);
        if self.before.is_some() && self.full_ns.is_none() && now >= waits_until {
            self.end_before()?;
            self.tidy()?;
        }
        if now >= self.tidy_ns {
            self.tidy_ns = now + 60 * SECOND_NS;
            self.tidy()?;
        }
        Ok(())
    }

    /// Begins a new run.
    fn turn(&mut self, now: u64) -> Result<(), PingError> {
        self.end_before()?;
        let mut new = DayRun::begin(&self.folder, &self.name, self.session, &self.wall, now)?;
        self.facts.iter().try_for_each(|fact| new.keep.event(fact))?;
        self.before = Some(std::mem::replace(&mut self.today, new));
        self.steps = self.wall.steps();
        self.midnight_ns = midnight_ns(&self.wall, now);
        Ok(())
    }

    /// Its minutes first: without them on the disk it stays.
    fn end_before(&mut self) -> Result<(), PingError> {
        self.before.as_ref().map_or(Ok(()), DayRun::write_minutes)?;
        let ended = self.before.take().map(|day| day.keep.finish(End::Done));
        Ok(ended.transpose().map(drop)?)
    }

    /// Holds to the bound: packets that are too old go, and the oldest of all until there is room.
    fn tidy(&mut self) -> Result<(), PingError> {
        let own = [Some(&self.today), self.before.as_ref()];
        let own: Vec<_> = own.into_iter().flatten().map(|day| day.keep.folder()).collect();
        let mut over: Vec<PathBuf> =
            runs(&self.folder).filter(|run| own.iter().all(|own| own != run)).collect();
        over.sort();
        let age = Duration::from_secs(u64::from(self.bound.days) * 86_400);
        let oldest = SystemTime::now().checked_sub(age).and_then(|at| stamp(&rfc3339(at)));
        let remove = |run: &Path| fs::remove_dir_all(run).map_err(StoreError::io("remove", run));
        let is_old = |run: &Path| {
            let name = run.file_name().unwrap_or_default().to_string_lossy();
            oldest.as_ref().is_some_and(|oldest| *name < **oldest)
        };
        let is_sketched = |run: &PathBuf| run.with_extension("minutes").exists();
        for run in over.extract_if(.., |run| is_old(run) && is_sketched(run)) {
            remove(&run)?;
        }
        let mut packets = over.into_iter().filter(is_sketched);
        let mut sketches = sketches(&self.folder).into_iter();
        while size(&self.folder) > self.bound.most.get() {
            if let Some(run) = packets.next() {
                remove(&run)?;
            } else if let Some(file) = sketches.next() {
                fs::remove_file(&file).map_err(StoreError::io("remove", &file))?;
            } else {
                // All of it is today's.
                let now = self.wall.look();
                let may_turn = self.before.is_none() && self.full_ns.is_none();
                return if may_turn { self.turn(now) } else { Ok(()) };
            }
        }
        Ok(())
    }

    /// Ends it; the folder of its days.
    pub fn finish(mut self, end: End) -> Result<PathBuf, PingError> {
        self.end_before()?;
        self.today.write_minutes()?;
        self.today.keep.finish(end)?;
        Ok(self.folder)
    }
}

impl DayRun {
    fn begin(
        folder: &Path,
        name: &str,
        session: &PingSession,
        wall: &Wall,
        now: u64,
    ) -> Result<Self, PingError> {
        let keep = kept::begin(folder, name, session)?;
        let begun_s = wall.at(now) / SECOND_NS;
        Ok(Self { keep, begun_ns: now, begun_s, minutes: Minutes::default() })
    }

    /// Takes packets whose times count from `window_ns`; into minutes alone where the disk has no room.
    fn take(
        &mut self,
        stream: &str,
        samples: &[&EchoSample],
        window_ns: u64,
        has_room: bool,
    ) -> Result<(), PingError> {
        if samples.is_empty() {
            return Ok(());
        }
        let shift_ns = self.begun_ns as i64 - window_ns as i64;
        let of_day = |s: &&EchoSample| EchoSample { t_ns: s.t_ns - shift_ns, ..**s };
        let samples: Vec<EchoSample> = samples.iter().map(of_day).collect();
        for sample in &samples {
            let sent_s = self.begun_s.saturating_add_signed(sample.t_ns / SECOND_NS as i64);
            self.minutes.take(stream, sent_s, sample);
        }
        match has_room {
            true => Ok(self.keep.event(&Event::Echo { stream: stream.into(), samples })?),
            false => Ok(()),
        }
    }

    fn write_minutes(&self) -> Result<(), PingError> {
        Ok(self.minutes.write(&self.keep.folder().with_extension("minutes"))?)
    }
}

fn midnight_ns(wall: &Wall, now: u64) -> u64 {
    wall.monotonic(next_midnight_s(wall.at(now) / SECOND_NS).saturating_mul(SECOND_NS))
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn runs(folder: &Path) -> impl Iterator<Item = PathBuf> {
    entries(folder).filter(|path| quell_store::manifest(path).is_ok())
}

/// The files of minutes, oldest first.
fn sketches(folder: &Path) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| path.extension().is_some_and(|e| e == "minutes");
    let mut files: Vec<_> = entries(folder).filter(is_one).collect();
    files.sort();
    files
}

/// Bytes below a folder.
fn size(folder: &Path) -> u64 {
    let of = |path: PathBuf| match fs::symlink_metadata(&path) {
        Ok(about) if about.is_dir() => size(&path),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries(folder).map(of).sum()
}

/// All minutes of the days in a folder, those of the day under way too; none where it is no such folder.
pub fn reread(folder: &Path) -> Result<Option<Vec<MinuteSketch>>, StoreError> {
    if quell_store::manifest(folder).is_ok() {
        return Ok(None);
    }
    let (files, mut all) = (sketches(folder), Vec::new());
    for file in &files {
        all.extend(minutes::read(file)?);
    }
    let mut is_one = !files.is_empty();
    for run in runs(folder).filter(|run| !run.with_extension("minutes").exists()) {
        all.extend(Minutes::of_run(&Run::read(&run)?).sketches());
        is_one = true;
    }
    Ok(is_one.then_some(all))
}
