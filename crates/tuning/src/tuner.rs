//! What is wanted on this host beside what is there, and how it is carried out and taken back.

use crate::files::{self, CHANGE, Files, record_of_log};
use crate::host::{self, Settings};
use crate::proof::DirectionMeasurement;
use crate::routes;
use crate::{CommandError, Folders};
use crate::{HostFacts, Tuning, TuningRecord, Wish, dotted};
pub use quell_act::Applied;
use quell_act::{ApplyRequest, Goal, Kernel, Log, RouteGoal, own_watchdog};
use quell_netlink::Prefix;
use quell_sys::wall::realtime_ns;
use quell_units::Span;
use std::path::Path;

pub struct Tuner {
    pub files: Files,
    pub host: HostFacts,
    pub plan: Tuning,
    pub now: Settings,
    pub earlier: Option<TuningRecord>,
    folders: Folders,
}

pub struct Goals {
    goal: Goal,
    pub record: TuningRecord,
}

impl Tuner {
    /// Looks at this host and at what was applied to it, and plans.
    pub fn new(wish: Wish, folders: &Folders) -> Result<Self, CommandError> {
        let host = host::this_host()?;
        let now = host.now.clone();
        let files = Files::of(folders);
        let log = files::log(folders)?;
        let earlier = match files.recorded()? {
            Some(record) => Some(record),
            None => log.as_ref().and_then(record_of_log),
        };
        let host = host::before(host, earlier.as_ref());
        let plan = Tuning::of(wish, &host).map_err(CommandError::usage)?;
        Ok(Tuner { files, host, plan, now, earlier, folders: folders.clone() })
    }

    /// Refuses what could be done by half only, or not at all, before anything is touched. `partly`: half is what is asked for; `keep`: for the next
    /// boot too.
    pub fn refuse_half(&self, partly: bool, keep: bool) -> Result<(), CommandError> {
        let (plan, why) = (&self.plan, &self.host.sealed);
        let line = |key| format!("  {}: {}", dotted(key), why.get(key).map_or("", |w| w));
        let sealed: Vec<String> = plan.sealed().map(|sealed| line(sealed.key)).collect();
        let some = plan.settings().next().is_some();
        let may = partly && some;
        if !sealed.is_empty() && !may {
            let advice = match some {
                true => "; --partly sets the others",
                false => "; set them on the machine itself, outside of the container or namespace",
            };
            return Err(CommandError::system(format!(
                "some settings can't be written here; nothing was changed{advice}:\n{}",
                sealed.join("\n")
            )));
        }
        for (key, _) in plan.settings() {
            use nix::unistd::{AccessFlags, access};
            access(&Path::new("/proc/sys").join(key), AccessFlags::W_OK).map_err(|errno| {
                CommandError::system(format!(
                    "{} can't be written: {}; nothing was changed. It needs root: sudo quell tune apply …",
                    dotted(key),
                    errno.desc()
                ))
            })?;
        }
        if keep { self.files.refuse_foreign() } else { Ok(()) }
    }

    /// Routes of their own for these prefixes, with the cures of the plan.
    pub fn routes(&self, prefixes: &[Prefix]) -> Result<Vec<RouteGoal>, CommandError> {
        routes::wanted(&self.plan, prefixes)
    }

    /// The same, to be applied.
    pub fn own_routes(&self, prefixes: &[Prefix]) -> Result<Vec<RouteGoal>, CommandError> {
        let routes = self.routes(prefixes)?;
        routes::refuse_others(&routes, files::log(&self.folders)?.as_ref())?;
        Ok(routes)
    }

    /// What is to be; `keep` for the next boot too.
    pub fn goals(&self, routes: Vec<RouteGoal>, keep: bool) -> Goals {
        let at = realtime_ns() / 1_000_000_000;
        let record = files::record(&self.plan, self.earlier.as_ref(), &self.now, at, keep);
        let goal = Goal { routes, ..self.files.goal(&record, self.earlier.as_ref()) };
        Goals { goal, record }
    }

    /// Puts it in force. What is to be confirmed does not come back at boot.
    pub fn apply(
        &self,
        kernel: &mut Kernel,
        goals: &Goals,
        within: Option<Span>,
    ) -> Result<Applied, CommandError> {
        let mut goal = goals.goal.clone();
        if within.is_some() {
            goal.files.clear();
        }
        if !goal.files.is_empty() {
            self.files.make_folders()?;
        }
        act(kernel, &self.folders, goal, &goals.record, within)
    }

    /// Measures as it is and set, in turn: up (true) and down. Each time that it is set it is a transaction of its own that nobody confirms:
    /// whatever happens to this process, it is taken back. `each` is how long one measurement takes at most.
    pub fn prove(
        &self,
        kernel: &mut Kernel,
        goals: &Goals,
        rounds: u32,
        each: Span,
        measure: &mut dyn FnMut(bool) -> Result<f64, CommandError>,
    ) -> Result<Vec<DirectionMeasurement>, CommandError> {
        if self.earlier.is_some() {
            return Err(CommandError::check(
                "quell tune is in force already; to compare with what was before: quell tune revert first",
            ));
        }
        let of =
            |way| DirectionMeasurement { way, now: Vec::new(), then: Vec::new(), predicted: None };
        let mut ways = [(true, of("up")), (false, of("down"))];
        for _ in 0..rounds {
            for (up, measured) in &mut ways {
                measured.now.push(measure(*up)?);
            }
            let goal = Goal { files: Vec::new(), ..goals.goal.clone() };
            act(kernel, &self.folders, goal, &goals.record, Some(each))?;
            let rates: Result<Vec<f64>, CommandError> =
                ways.iter().map(|(up, _)| measure(*up)).collect();
            // Whether it was measured or not.
            let before = |log: Option<&Log>| Ok(self.files.before(&goals.record, log, &[]));
            let (state, command) = (&self.folders.state, "quell tune apply");
            quell_act::take_off(kernel, state, CHANGE, command, &own_watchdog, &before)?;
            for ((_, measured), rate) in ways.iter_mut().zip(rates?) {
                measured.then.push(rate);
            }
        }
        Ok(ways.map(|(_, measured)| measured).to_vec())
    }

    pub fn has_settings(&self) -> bool {
        self.plan.settings().next().is_some()
    }
}

fn act(
    kernel: &mut Kernel,
    folders: &Folders,
    goal: Goal,
    record: &TuningRecord,
    within: Option<Span>,
) -> Result<Applied, CommandError> {
    let request = ApplyRequest {
        folder: &folders.state,
        device: CHANGE.to_owned(),
        goal,
        wanted: record.wanted.clone(),
        recipe: record.text(),
        command: "quell tune apply".to_owned(),
        replace: false,
        no_way_back: false,
        confirm_within: within.map(Span::nanos),
        trial: true,
        watchdog: &own_watchdog,
    };
    Ok(quell_act::apply(kernel, &request)?)
}

fn open() -> Result<Kernel, CommandError> {
    Kernel::open().map_err(CommandError::system)
}

/// Keeps what waits for it, for the next boot too. The steps.
pub fn confirm(folders: &Folders) -> Result<Vec<String>, CommandError> {
    quell_act::confirm(&folders.state, Some(CHANGE), "quell tune confirm")?;
    let log = files::log(folders)?;
    let record = log.as_ref().and_then(record_of_log);
    let Some(record) = record.filter(|record| !record.file.is_empty()) else {
        return Ok(Vec::new());
    };
    let files = Files::of(folders);
    files.refuse_foreign()?;
    files.make_folders()?;
    let goal = Goal { routes: routes::as_they_are(log.as_ref()), ..files.goal(&record, None) };
    Ok(act(&mut open()?, folders, goal, &record, None)?.steps)
}

/// What was brought back: what of, how, and the settings that were left as somebody set them.
pub struct Reverted {
    pub wanted: String,
    pub done: Applied,
    pub left: Vec<String>,
}

/// Brings back what was there before. What somebody else has changed since: `Some(true)` brings it back too, `Some(false)` leaves it.
pub fn revert(folders: &Folders, changed_too: Option<bool>) -> Result<Reverted, CommandError> {
    let files = Files::of(folders);
    let log = files::log(folders)?;
    let recorded = match files.recorded()? {
        Some(record) => Some(record),
        None => log.as_ref().and_then(record_of_log),
    };
    let Some(record) = recorded else {
        return Err(CommandError::check("nothing of `quell tune` is in force"));
    };
    let changed = files::changed(&record, &host::settings_of(&record));
    if !changed.is_empty() && changed_too.is_none() {
        let lines = changed.iter().map(|(key, value)| {
            let set = record.settings.iter().find(|s| s.key == *key).map_or("", |s| s.set.as_str());
            format!("  {} = {value}, set to {set}", dotted(key))
        });
        return Err(CommandError::check(format!(
            "somebody has changed these since; nothing was changed now. --all brings them back too, --keep-changed leaves them:\n{}",
            lines.collect::<Vec<_>>().join("\n")
        )));
    }
    let left: Vec<String> = match changed_too {
        Some(false) => changed.into_iter().map(|(key, _)| key).collect(),
        _ => Vec::new(),
    };
    let before = |log: Option<&Log>| Ok(files.before(&record, log, &left));
    let (state, command) = (&folders.state, "quell tune revert");
    let done = quell_act::take_off(&mut open()?, state, CHANGE, command, &own_watchdog, &before)?;
    Ok(Reverted { wanted: record.wanted, done, left })
}

/// Brings back what was there before an unfinished change: whether there was one, and the steps.
pub fn recover(folders: &Folders) -> Result<(bool, Vec<String>), CommandError> {
    let done = quell_act::recover(&mut open()?, &folders.state, "quell tune recover")?;
    let found = !done.is_empty();
    Ok((found, done.into_iter().flat_map(|(_, done)| done.steps).collect()))
}
