//! One change of a machine, from the first look to the confirmation.
//!
//! ```text
//!   look ─► foreign? one way? ─► trial ─► lock ─► look again: the same? ─► log ─► watchdog ─► steps ─► look: as wanted? ─► log
//!          └───────────── nothing is touched ─────────────┘                        └─ refused: back, look, compare ─┘
//! ```

use crate::back::{Applied, look, roll_back};
use crate::log::boot;
use crate::steps::{Machine, Now, steps};
use crate::trial::try_it;
use crate::{
    ActError, Before, Begun, Change, Goal, Lock, Log, Refusal, Standing, Watchdog, Who, list,
};
use quell_sys::clock::monotonic_ns;
use quell_sys::netns::NetNs;
use quell_sys::wall::realtime_ns;
use std::path::Path;

/// How long the steps may take together before the watchdog leads back. Thousands of them take seconds.
const PATIENCE_NS: u64 = 60_000_000_000;

/// What somebody asks for.
pub struct Asked<'a> {
    /// Where logs and locks are.
    pub folder: &'a Path,
    /// The interface by which the change is known.
    pub device: String,
    /// What is to be.
    pub goal: Goal,
    /// The same in words.
    pub wanted: String,
    /// The same as whoever asks can read it again.
    pub recipe: String,
    /// What was called.
    pub command: String,
    /// Whether others' queues may be replaced.
    pub replace: bool,
    /// Whether also those may be replaced that can't be brought back.
    pub no_way_back: bool,
    /// In how many nanoseconds it must be confirmed, or it is taken back.
    pub confirm_within: Option<u64>,
    /// Whether a trial in a namespace of its own comes first.
    pub trial: bool,
    /// Starts the watchdog over a log, with the time until which the steps must have been taken.
    pub watchdog: &'a dyn Fn(&Log, u64) -> Result<Watchdog, ActError>,
}

/// This process.
fn who(command: &str) -> Who {
    let at = realtime_ns() / 1_000_000_000;
    Who { pid: std::process::id(), command: command.to_owned(), at }
}

/// The tool of a command, as `quell shape` of `quell shape apply`: its other commands bring things back.
fn tool(command: &str) -> &str {
    command.rsplit_once(' ').map_or(command, |(tool, _)| tool)
}

/// As it stands in a lock.
fn holder(command: &str) -> String {
    format!("`{command}` (process {})", std::process::id())
}

fn namespace() -> Result<u64, ActError> {
    NetNs::current().map(|ns| ns.inode()).map_err(|e| ActError::System(e.to_string()))
}

/// What [`apply`] would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The steps; none where all is as wanted.
    pub steps: Vec<Change>,
    /// Others' queues that are in the way.
    pub foreign: Vec<String>,
    /// What could not be brought back.
    pub lost: Vec<String>,
}

/// What would lead to a goal from what is there now. Nothing is touched.
///
/// # Errors
/// What is there can't be read, or an interface is not there.
pub fn plan(
    machine: &mut dyn Machine,
    folder: &Path,
    device: &str,
    goal: &Goal,
) -> Result<Planned, ActError> {
    let earlier = of_device(folder, namespace()?, device)?;
    let mut goal = goal.clone();
    if let Some(log) = &earlier {
        goal.cover(log.origin());
    }
    let now = look(machine, &goal)?;
    refuse_absent(&goal, &now)?;
    let before = now.before(&goal);
    let foreign = foreign(&goal, &before, earlier.as_ref(), &now);
    let steps = steps(&goal, &now);
    let lost = lost(&before, &steps);
    Ok(Planned { steps, foreign, lost })
}

/// Leads the machine to a goal, in one piece: afterwards all is as wanted, or as it was.
///
/// # Errors
/// See [`ActError`], each variant of which says how things stand then.
pub fn apply(machine: &mut dyn Machine, asked: &Asked<'_>) -> Result<Applied, ActError> {
    let namespace = namespace()?;
    let earlier = of_device(asked.folder, namespace, &asked.device)?;
    let mut goal = asked.goal.clone();
    if let Some(log) = &earlier {
        refuse_pending(log)?;
        goal.cover(log.origin());
    }
    let first = look(machine, &goal)?;
    let before = first.before(&goal);
    refuse_absent(&goal, &first)?;
    refuse_foreign(asked, &goal, &before, earlier.as_ref(), &first)?;
    let one_way = one_way(asked, &before, &goal, &first)?;
    let _lock = Lock::take(asked.folder, namespace, &holder(&asked.command))?;
    let now = look(machine, &goal)?;
    if now.before(&goal) != before || of_device(asked.folder, namespace, &asked.device)? != earlier
    {
        return Err(ActError::Changed);
    }
    let todo = steps(&goal, &now);
    if todo.is_empty() {
        return Ok(Applied { steps: Vec::new(), said: one_way });
    }
    let words: Vec<String> = todo.iter().map(ToString::to_string).collect();
    let begun = Begun {
        boot: boot(),
        namespace,
        device: asked.device.clone(),
        who: who(&asked.command),
        wanted: asked.wanted.clone(),
        recipe: asked.recipe.clone(),
        earlier: earlier.as_ref().map(|log| log.begun.wanted.clone()),
        origin: earlier.map(|log| log.origin().clone().and(&before)),
        before,
        steps: words.clone(),
    };
    let mut log = Log::begin(asked.folder, begun)?;
    let mut watchdog = match (asked.watchdog)(&log, monotonic_ns() + PATIENCE_NS) {
        Ok(watchdog) => watchdog,
        Err(error) => {
            log.undone()?;
            return Err(error);
        }
    };
    for (number, step) in todo.iter().enumerate() {
        if let Err(Refusal(why)) = machine.carry_out(step) {
            let (number, of, step) = (number + 1, todo.len(), step.to_string());
            return Err(back(machine, log, ActError::Refused { number, of, step, why }));
        }
    }
    let left = look(machine, &goal).map(|now| steps(&goal, &now));
    match left {
        Ok(left) if left.is_empty() => {}
        Ok(left) => {
            let first = left.first().map(ToString::to_string).unwrap_or_default();
            return Err(back(machine, log, ActError::NotInForce(first)));
        }
        Err(error) => return Err(back(machine, log, error)),
    }
    if !watchdog.runs() {
        let why = "its watchdog has ended, so that nobody would go back".to_owned();
        return Err(back(machine, log, ActError::NotInForce(why)));
    }
    let until = asked.confirm_within.map(|ns| monotonic_ns().saturating_add(ns));
    if let Err(error) = log.applied(until) {
        let why = format!("{error}, so that nobody would know how to go back");
        return Err(back(machine, log, ActError::NotInForce(why)));
    }
    watchdog.leave();
    Ok(Applied { steps: words, said: one_way })
}

/// Goes back after a failure.
fn back(machine: &mut dyn Machine, log: Log, why: ActError) -> ActError {
    let tool = tool(&log.begun.who.command).to_owned();
    match roll_back(machine, log) {
        Ok(_) => why,
        Err(left) => {
            let why = why.to_string().replace("; everything is as it was before", "");
            ActError::Stuck { why, left: left.to_string(), tool }
        }
    }
}

/// Lets a change stay that waits for it. Which interfaces these are.
///
/// # Errors
/// Nothing waits.
pub fn confirm(
    folder: &Path,
    device: Option<&str>,
    command: &str,
) -> Result<Vec<String>, ActError> {
    let namespace = namespace()?;
    let _lock = Lock::wait(folder, namespace, &holder(command))?;
    let mut confirmed = Vec::new();
    for mut log in list(folder, namespace)? {
        let named = device.is_none_or(|device| device == log.begun.device);
        if named && matches!(log.standing, Standing::Awaiting(_)) {
            log.confirmed()?;
            confirmed.push(log.begun.device.clone());
        }
    }
    if confirmed.is_empty() {
        let of = device.map(|d| format!(" of {d}")).unwrap_or_default();
        let tool = tool(command);
        return Err(ActError::Nothing(format!(
            "no change{of} waits to be confirmed; `{tool} status` tells what is in force"
        )));
    }
    Ok(confirmed)
}

/// Takes all of ours off an interface, and brings back what was there before us.
///
/// # Errors
/// There is nothing of ours, or the kernel refused a step.
pub fn off(
    machine: &mut dyn Machine,
    folder: &Path,
    device: &str,
    command: &str,
    watchdog: &dyn Fn(&Log, u64) -> Result<Watchdog, ActError>,
) -> Result<Applied, ActError> {
    take_off(machine, folder, device, command, watchdog, &|log| match log {
        Some(log) => Ok(log.origin().clone()),
        None => Err(ActError::Nothing(format!("nothing on {device} was made by Quell"))),
    })
}

/// Brings back what `before` says, as whoever kept it longer than a boot knows; it is told the log, if there is one. Afterwards nothing
/// of ours is in force.
///
/// # Errors
/// The kernel refused a step.
pub fn take_off(
    machine: &mut dyn Machine,
    folder: &Path,
    device: &str,
    command: &str,
    watchdog: &dyn Fn(&Log, u64) -> Result<Watchdog, ActError>,
    before: &dyn Fn(Option<&Log>) -> Result<Before, ActError>,
) -> Result<Applied, ActError> {
    let namespace = namespace()?;
    let _lock = Lock::take(folder, namespace, &holder(command))?;
    let before = before(of_device(folder, namespace, device)?.as_ref())?;
    // From here on it is an unfinished change whose way back is to take all off: whoever finishes it, it ends so.
    let begun = Begun {
        boot: boot(),
        namespace,
        device: device.to_owned(),
        who: who(command),
        wanted: "nothing of Quell's".to_owned(),
        recipe: String::new(),
        earlier: None,
        before,
        origin: None,
        steps: Vec::new(),
    };
    let log = Log::begin(folder, begun)?;
    let watchdog = watchdog(&log, monotonic_ns() + PATIENCE_NS)?;
    let done = roll_back(machine, log)?;
    watchdog.leave();
    Ok(done)
}

/// Brings back what was there before changes that were begun and not finished, or not confirmed in time, and whose watchdog is gone.
/// What was done, by interface.
///
/// # Errors
/// The kernel refused a step.
pub fn recover(
    machine: &mut dyn Machine,
    folder: &Path,
    command: &str,
) -> Result<Vec<(String, Applied)>, ActError> {
    let namespace = namespace()?;
    // A watchdog may be at it just now.
    let _lock = Lock::wait(folder, namespace, &holder(command))?;
    let mut done = Vec::new();
    for log in list(folder, namespace)? {
        let overdue = match log.standing {
            Standing::Unfinished => true,
            Standing::Awaiting(until) => until <= monotonic_ns() || !Watchdog::lives(&log),
            Standing::Confirmed => false,
        };
        if overdue {
            let device = log.begun.device.clone();
            done.push((device, roll_back(machine, log)?));
        }
    }
    Ok(done)
}

fn of_device(folder: &Path, namespace: u64, device: &str) -> Result<Option<Log>, ActError> {
    Ok(list(folder, namespace)?.into_iter().find(|log| log.begun.device == device))
}

fn refuse_pending(log: &Log) -> Result<(), ActError> {
    let Who { pid, command, .. } = &log.begun.who;
    match log.standing {
        Standing::Unfinished => {
            let who = format!("`{command}`, process {pid}");
            Err(ActError::Unfinished { who, tool: tool(command).to_owned() })
        }
        Standing::Awaiting(_) => Err(ActError::Nothing(format!(
            "the last change still waits: `{} confirm` keeps it, else it is taken back",
            tool(command)
        ))),
        Standing::Confirmed => Ok(()),
    }
}

fn refuse_absent(goal: &Goal, now: &Now) -> Result<(), ActError> {
    for device in &goal.devices {
        let made = goal.links.iter().any(|link| link.name == device.name);
        if !made && now.target(device).is_none() {
            return Err(ActError::Unread(format!("there is no interface {}", device.name)));
        }
    }
    for link in goal.links.iter().filter(|link| link.there) {
        if now.links.contains_key(&link.name) && now.ours(link).is_none() {
            return Err(ActError::Unread(format!(
                "an interface {} is there, which Quell did not make",
                link.name
            )));
        }
    }
    Ok(())
}

/// What is in the way and not ours.
fn refuse_foreign(
    asked: &Asked<'_>,
    goal: &Goal,
    before: &Before,
    earlier: Option<&Log>,
    now: &Now,
) -> Result<(), ActError> {
    if asked.replace {
        return Ok(());
    }
    let foreign = foreign(goal, before, earlier, now);
    if foreign.is_empty() { Ok(()) } else { Err(ActError::Foreign(foreign.join("\n"))) }
}

/// Queues and hooks in the places of a goal that neither the kernel nor we have made.
pub(crate) fn foreign(
    goal: &Goal,
    before: &Before,
    earlier: Option<&Log>,
    now: &Now,
) -> Vec<String> {
    let mut foreign = Vec::new();
    for (device, found) in goal.devices.iter().zip(&before.devices) {
        let known = earlier
            .and_then(|log| log.origin().devices.iter().find(|d| d.name == device.name).cloned());
        let name = now.target(device).map_or_else(|| device.name.clone(), |target| target.name);
        for seen in &found.things {
            let quell_tc::Place::Qdisc { parent, .. } = seen.place else { continue };
            let here = (seen.place, seen.kind.clone());
            let ours = known.as_ref().is_some_and(|known| match parent {
                quell_tc::Handle::INGRESS => known.ingress,
                _ => known.ours.contains(&here),
            });
            let outermost = matches!(parent, quell_tc::Handle::ROOT | quell_tc::Handle::INGRESS);
            if outermost && !ours {
                foreign.push(format!("  {name}: {}", quell_tc::Thing::Seen(seen.clone())));
            }
        }
    }
    foreign
}

/// What hides something on an interface where something is made or taken off.
fn lost(before: &Before, steps: &[Change]) -> Vec<String> {
    use quell_tc::Change::{Make, Remove};
    let touched = |name: &str| {
        steps.iter().any(|step| {
            matches!(step, Change::Queue { device, change: Make(_) | Remove { .. } } if device.name == name)
        })
    };
    before.devices.iter().filter(|d| touched(&d.name)).flat_map(|d| d.hidden()).collect()
}

/// Makes sure of a way back, and that the kernel takes what is wanted. What there is to say where that is not asked for.
fn one_way(
    asked: &Asked<'_>,
    before: &Before,
    goal: &Goal,
    now: &Now,
) -> Result<Vec<String>, ActError> {
    let touched = steps(goal, now);
    let mut lost: Vec<String> =
        lost(before, &touched).into_iter().map(|what| format!("  {what}")).collect();
    let mut said = Vec::new();
    if lost.is_empty() && asked.trial && !touched.is_empty() {
        match try_it(before, goal, now) {
            Ok(problems) => lost.extend(problems.iter().map(|what| format!("  {what}"))),
            Err(ActError::Trial(why)) => return Err(ActError::Trial(why)),
            // A trial needs a namespace, which not everybody may make.
            Err(error) => said.push(format!("not tried before: {error}")),
        }
    }
    match (lost.is_empty(), asked.no_way_back) {
        (false, false) => Err(ActError::OneWay(lost.join("\n"))),
        (false, true) => {
            said.extend(lost.iter().map(|what| format!("can't be brought back: {}", what.trim())));
            Ok(said)
        }
        _ => Ok(said),
    }
}
