//! One change of a machine, from the first look to the confirmation.
//!
//! ```text
//!   look ─► foreign? one way? ─► trial ─► lock ─► look again: the same? ─► watchdog ─► log ─► steps ─► look: as wanted? ─► log
//!          └───────────── nothing is touched ─────────────┘                        └─ refused: back, look, compare ─┘
//! ```

use crate::annex::{self, Annex};
use crate::back::{Applied, look, roll_back};
use crate::log::{boot, log_of, renamed};
use crate::made::Made;
use crate::ours::Others;
use crate::steps::{Machine, Now, steps};
use crate::trial::try_it;
use crate::watchdog::sweep;
use crate::{
    ActError, Before, Begun, Change, Goal, Lock, Log, Refusal, Standing, Watchdog, Who, lapsed,
    list, lost, part,
};
use quell_sys::clock::monotonic_ns;
use quell_sys::netns::NetNs;
use quell_sys::wall::realtime_ns;
use std::path::Path;

/// How long the steps may take together before the watchdog leads back.
pub(crate) const PATIENCE_NS: u64 = 60_000_000_000;

/// How much longer for each step: of 10,000 classes a kernel makes the last ones in 2 ms each.
const PATIENCE_A_STEP_NS: u64 = 5_000_000;

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
    /// What of that is too long for a log.
    pub annex: Option<Annex>,
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
    /// Starts the watchdog.
    pub watchdog: &'a StartWatchdog,
}

/// Starts the watchdog over a log that is to be begun, with the time until which the steps must have been taken.
pub type StartWatchdog = dyn Fn(&Log, u64) -> Result<Watchdog, ActError>;

/// This process.
pub(crate) fn who(command: &str) -> Who {
    let at = realtime_ns() / 1_000_000_000;
    Who { pid: std::process::id(), command: command.to_owned(), at }
}

/// The tool of a command, as `quell shape` of `quell shape apply`: its other commands bring things back.
pub(crate) fn tool(command: &str) -> &str {
    command.rsplit_once(' ').map_or(command, |(tool, _)| tool)
}

/// As it stands in a lock.
pub(crate) fn holder(command: &str) -> String {
    format!("`{command}` (process {})", std::process::id())
}

pub(crate) fn namespace() -> Result<u64, ActError> {
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
    /// What there is to say beside.
    pub said: Vec<String>,
}

/// What would lead to a goal from what is there now. Nothing is touched; `trial` says whether all is tried in a namespace of its own, as
/// [`apply`] does.
///
/// # Errors
/// What is there can't be read, an interface is not there, or the kernel would refuse what is wanted.
pub fn plan(
    machine: &mut dyn Machine,
    folder: &Path,
    device: &str,
    goal: &Goal,
    trial: bool,
) -> Result<Planned, ActError> {
    let earlier = earlier(machine, folder, namespace()?, device)?;
    let mut goal = goal.clone();
    if let Some(log) = &earlier {
        goal.cover(log.origin());
    }
    let now = look(machine, &goal)?;
    refuse_absent(&goal, &now)?;
    let mut before = now.before(&goal);
    if let Some(log) = &earlier {
        before.leave_guests_out(&log.made);
        before.without_aimless_hooks();
    }
    let others = Others::of(earlier.as_ref(), &before, &now);
    let (lost, said) = one_way(trial, &before, &goal, &now)?;
    let mut foreign: Vec<String> = others.iter().flat_map(Others::words).collect();
    let steps = steps(&goal, &now);
    if earlier.is_none() && steps.is_empty() && lost::is_known(&goal, &now) {
        foreign.clear();
    }
    Ok(Planned { steps, foreign, lost, said })
}

/// Leads the machine to a goal, in one piece: afterwards all is as wanted, or as it was.
///
/// # Errors
/// See [`ActError`], each variant of which says how things stand then.
pub fn apply(machine: &mut dyn Machine, asked: &Asked<'_>) -> Result<Applied, ActError> {
    let namespace = namespace()?;
    let earlier = earlier(machine, asked.folder, namespace, &asked.device)?;
    let mut goal = asked.goal.clone();
    if let Some(log) = &earlier {
        refuse_pending(log)?;
        goal.cover(log.origin());
    }
    let first = look(machine, &goal)?;
    let mut before = first.before(&goal);
    // Ours only: somebody else's stay as they are, or can't be brought back.
    let mut said = match &earlier {
        Some(log) => {
            before.leave_guests_out(&log.made);
            before.without_aimless_hooks()
        }
        None => Vec::new(),
    };
    refuse_absent(&goal, &first)?;
    let others = Others::of(earlier.as_ref(), &before, &first);
    let mut foreign: Vec<String> = others.iter().flat_map(Others::words).collect();
    let lost = earlier.is_none() && lost::is_known(&goal, &first);
    if lost && steps(&goal, &first).is_empty() {
        foreign.clear();
    }
    if !asked.replace && !foreign.is_empty() {
        foreign.extend(lost.then(|| lost::hint(&asked.device)));
        return Err(ActError::Foreign(foreign.join("\n")));
    }
    let (lost, untried) = one_way(asked.trial, &before, &goal, &first)?;
    said.extend(untried);
    if !lost.is_empty() && !asked.no_way_back {
        return Err(ActError::OneWay(format!("  {}", lost.join("\n  "))));
    }
    said.extend(lost.iter().map(|what| format!("can't be brought back: {what}")));
    let _lock = Lock::take(asked.folder, namespace, &holder(&asked.command))?;
    sweep(asked.folder, namespace);
    annex::sweep(asked.folder, namespace);
    let now = look(machine, &goal)?;
    let mut again = now.before(&goal);
    if let Some(log) = &earlier {
        again.leave_guests_out(&log.made);
        again.without_aimless_hooks();
    }
    if again != before || self::earlier(machine, asked.folder, namespace, &asked.device)? != earlier
    {
        return Err(ActError::Changed);
    }
    let todo = steps(&goal, &now);
    let begun = Begun {
        boot: boot(),
        namespace,
        device: asked.device.clone(),
        index: now.links.get(&asked.device).map(|link| link.index),
        who: who(&asked.command),
        wanted: asked.wanted.clone(),
        recipe: asked.recipe.clone(),
        earlier: None,
        before,
        origin: None,
        steps: Vec::new(),
    };
    // What guests are to be like stands in the recipe alone.
    let as_before = earlier.as_ref().is_none_or(|log| log.begun.recipe == asked.recipe);
    if todo.is_empty() && (goal.guests.is_empty() || as_before) {
        if earlier.is_none() && begun.before.devices.iter().any(|device| !device.things.is_empty())
        {
            let begun = Begun { before: lost::without_things(begun.before), ..begun };
            let (made, tool) = (Made::of(&goal, &now), tool(&asked.command));
            said.push(lost::found(asked.folder, begun, asked.annex.as_ref(), made, tool)?);
        }
        return Ok(Applied { steps: Vec::new(), said });
    }
    let words: Vec<String> = todo.iter().map(ToString::to_string).collect();
    let begun = Begun {
        earlier: earlier.as_ref().map(|log| log.as_earlier(|made| without(made, &others))),
        origin: earlier.as_ref().map(|log| {
            let mut origin = log.origin().clone().and(&begun.before);
            for other in &others {
                // What somebody has put there since comes back with `off`; ours with another figure in it does not.
                origin.take_in(&other.found, other.has_root(), other.hooks.clone());
            }
            origin
        }),
        steps: words.clone(),
        ..begun
    };
    let mut log = Log::new(asked.folder, begun, earlier.as_ref());
    if let Some(annex) = &asked.annex {
        annex.write(log.path())?;
    }
    // It watches before there is anything to watch: whoever dies from here on is seen.
    let patience = PATIENCE_NS + PATIENCE_A_STEP_NS * todo.len() as u64;
    let mut watchdog = (asked.watchdog)(&log, monotonic_ns() + patience)?;
    log.begin()?;
    lapsed::forget(log.path());
    if let Err((number, Refusal(why))) = machine.carry_all_out(&todo) {
        log.begun.before.without_those_of(&todo[number..]);
        let (number, of, step) = (number + 1, todo.len(), todo[number].to_string());
        return Err(back(machine, log, ActError::Refused { number, of, step, why }));
    }
    let made = match look(machine, &goal) {
        Ok(now) => match steps(&goal, &now).first() {
            None => Made::of(&goal, &now),
            Some(first) => {
                let first = first.to_string();
                return Err(back(machine, log, ActError::NotInForce(first)));
            }
        },
        Err(error) => return Err(back(machine, log, error)),
    };
    if !watchdog.runs() {
        let why = "its watchdog has ended, so that nobody would go back".to_owned();
        return Err(back(machine, log, ActError::NotInForce(why)));
    }
    let until = asked.confirm_within.map(|ns| monotonic_ns().saturating_add(ns));
    if let Err(error) = log.applied(until, made) {
        let why = format!("{error}, so that nobody would know how to go back");
        return Err(back(machine, log, ActError::NotInForce(why)));
    }
    watchdog.leave();
    Ok(Applied { steps: words, said })
}

/// What an earlier change made, but for what is others' by now.
fn without(made: &Made, others: &[Others]) -> Made {
    match others.iter().find(|other| made.is_of(&other.found)) {
        Some(other) => made.without(other.has_root(), &other.hooks),
        None => made.clone(),
    }
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
    sweep(folder, namespace);
    let mut done = Vec::new();
    for log in list(folder, namespace)? {
        let overdue = match log.standing {
            Standing::Unfinished => true,
            Standing::Awaiting(until) => until <= monotonic_ns() || !Watchdog::lives(&log),
            Standing::Confirmed => false,
        };
        if overdue {
            let device = log.begun.device.clone();
            let late = matches!(log.standing, Standing::Awaiting(until) if until <= monotonic_ns());
            let path = log.path().to_owned();
            done.push((device.clone(), roll_back(machine, log)?));
            if late {
                lapsed::note(&path, &device);
            }
        }
    }
    Ok(done)
}

/// What of ours is on an interface, by the name that it has now.
pub(crate) fn earlier(
    machine: &mut dyn Machine,
    folder: &Path,
    namespace: u64,
    device: &str,
) -> Result<Option<Log>, ActError> {
    let now = look(machine, &Goal::default())?;
    log_of(folder, namespace, device, &now)
}

/// That nothing of ours is on an interface; if it had this name once, what it is called now.
pub(crate) fn nothing_on(
    machine: &mut dyn Machine,
    folder: &Path,
    namespace: u64,
    device: &str,
) -> ActError {
    let now = look(machine, &Goal::default());
    let renamed = now.and_then(|now| renamed(folder, namespace, device, &now)).ok().flatten();
    let why = match renamed {
        Some(now) => format!("{device} is named {now} now, with all of Quell's: give --dev {now}"),
        None => format!("nothing on {device} was made by Quell"),
    };
    ActError::Nothing(why)
}

pub(crate) fn refuse_pending(log: &Log) -> Result<(), ActError> {
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

/// A goal with guests of each sort there.
fn with_likely(goal: &Goal) -> Goal {
    let mut goal = goal.clone();
    for (name, things) in std::mem::take(&mut goal.likely) {
        if let Some(device) = goal.devices.iter_mut().find(|device| device.name == name) {
            device.things.extend(things);
        }
    }
    goal
}

/// What could not be brought back, and what there is to say beside. The kernel is asked where that is possible.
///
/// # Errors
/// It would refuse what is wanted.
fn one_way(
    trial: bool,
    before: &Before,
    goal: &Goal,
    now: &Now,
) -> Result<(Vec<String>, Vec<String>), ActError> {
    let touched = steps(goal, now);
    let mut lost = lost(before, &touched);
    let mut said = Vec::new();
    if lost.is_empty() && trial && !touched.is_empty() {
        let (before, goal) = part::of(before, &with_likely(goal), now);
        match try_it(&before, &goal, now) {
            Ok(problems) => lost.extend(problems),
            Err(ActError::Trial(why)) => return Err(ActError::Trial(why)),
            // A trial needs a namespace, which not everybody may make.
            Err(error) => said.push(format!("not tried before: {error}")),
        }
    }
    Ok((lost, said))
}
