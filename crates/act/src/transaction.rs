//! One change of a machine, from the first look to the confirmation.
//!
//! ```text
//!   look ─► foreign? one way? ─► trial ─► lock ─► look again: the same? ─► watchdog ─► log ─► steps ─► look: as wanted? ─► log
//!          └───────────── nothing is touched ─────────────┘                        └─ refused: back, look, compare ─┘
//! ```

use crate::installed::Installed;
use crate::ownership::ForeignQueues;
use crate::steps::{Machine, Now, steps};
use crate::trial::try_it;
use crate::undo_log::{boot, log_of, renamed};
use crate::watchdog::sweep;
use crate::way_back::{Applied, look, roll_back};
use crate::{
    ActError, Before, Begun, Change, Goal, Lock, Log, Refusal, Standing, Watchdog, Who, journal,
    list,
};
use quell_sys::clock::monotonic_ns;
use quell_sys::netns::NetNs;
use quell_sys::wall::realtime_ns;
use std::path::Path;

/// How long the steps may take together before the watchdog leads back.
pub(crate) const PATIENCE_NS: u64 = 60_000_000_000;

/// How much longer for each step: of 10,000 classes a kernel makes the last ones in 2 ms each.
const PATIENCE_A_STEP_NS: u64 = 5_000_000;

pub struct ApplyRequest<'a> {
    pub folder: &'a Path,
    pub device: String,
    pub goal: Goal,
    pub wanted: String,
    /// The same as whoever asks can read it again.
    pub recipe: String,
    pub command: String,
    pub replace: bool,
    /// Whether also those may be replaced that can't be brought back.
    pub no_way_back: bool,
    /// In how many nanoseconds it must be confirmed, or it is taken back.
    pub confirm_within: Option<u64>,
    /// Whether a trial in a namespace of its own comes first.
    pub trial: bool,
    pub watchdog: &'a StartWatchdog,
}

/// Starts the watchdog over a log that is to be begun, with the time until which the steps must have been taken.
pub type StartWatchdog = dyn Fn(&Log, u64) -> Result<Watchdog, ActError>;

pub(crate) fn who(command: &str) -> Who {
    let at = realtime_ns() / 1_000_000_000;
    Who { pid: std::process::id(), command: command.to_owned(), at }
}

/// The tool of a command, as `quell shape` of `quell shape apply`: its other commands bring things back.
pub(crate) fn tool(command: &str) -> &str {
    match command {
        "quell run" => "quell shape",
        _ => command.rsplit_once(' ').map_or(command, |(tool, _)| tool),
    }
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
    pub lost: Vec<String>,
    pub said: Vec<String>,
}

/// What would lead to a goal from what is there now. Nothing is touched; `trial` says whether all is tried in a namespace of its own, as
/// [`apply`] does.
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
    let (now, before, _) = own_before(machine, &goal, earlier.as_ref())?;
    refuse_absent(&goal, &now)?;
    let others = ForeignQueues::of(earlier.as_ref(), &before, &now);
    let (lost, said) = one_way(trial, &before, &goal, &now)?;
    let foreign = others.iter().flat_map(ForeignQueues::words).collect();
    let steps = steps(&goal, &now);
    Ok(Planned { steps, foreign, lost, said })
}

/// Leads the machine to a goal, in one piece: afterwards all is as wanted, or as it was.
///
/// # Errors
/// See [`ActError`], each variant of which says how things stand then.
pub fn apply(machine: &mut dyn Machine, asked: &ApplyRequest<'_>) -> Result<Applied, ActError> {
    let PendingChange { goal, log, todo, said, as_before, _lock } = pending(machine, asked)?;
    // What dynamic classes are to be like stands in the recipe alone.
    if todo.is_empty() && (goal.dynamic.is_empty() || as_before) {
        return Ok(Applied { steps: Vec::new(), said });
    }
    let (log, watchdog, made) = carry_out(machine, asked, &goal, log, &todo, 0)?;
    keep(machine, asked, log, watchdog, made)?;
    Ok(Applied { steps: todo.iter().map(ToString::to_string).collect(), said })
}

/// What is in force for as long as this value, or its process, lives, and at most until the time that it was made for. Nobody confirms it: in the log
/// it is unfinished all the time, and its watchdog leads back.
#[derive(Debug)]
pub struct Temporary {
    log: Log,
    watchdog: Watchdog,
    holder: String,
}

/// Leads the machine to a goal for at most so many nanoseconds. See [`apply`] for the errors.
pub fn hold(
    machine: &mut dyn Machine,
    asked: &ApplyRequest<'_>,
    lasts_ns: u64,
) -> Result<Temporary, ActError> {
    let PendingChange { goal, log, todo, _lock, .. } = pending(machine, asked)?;
    let (log, watchdog, _) = carry_out(machine, asked, &goal, log, &todo, lasts_ns)?;
    journal::in_force(&log);
    Ok(Temporary { log, watchdog, holder: holder(&asked.command) })
}

impl Temporary {
    /// Leads on to another goal on the same interfaces, from which the way back is the same.
    pub fn change(&mut self, machine: &mut dyn Machine, goal: &Goal) -> Result<(), ActError> {
        let _lock = Lock::wait(self.log.folder(), self.log.begun.namespace, &self.holder)?;
        if self.log.again()?.as_ref() != Some(&self.log) {
            return Err(ActError::Changed);
        }
        let now = look(machine, goal)?;
        self.log.begun.before = self.log.begun.before.clone().and(&now.before(goal));
        self.log.begin()?;
        let todo = steps(goal, &now);
        machine
            .carry_all_out(&todo)
            .map_err(|(number, Refusal(why))| ActError::System(format!("{}: {why}", todo[number])))
    }

    /// Leads back, and says whether all is as it was.
    pub fn end(self) -> Result<(), ActError> {
        let Temporary { log, watchdog, .. } = self;
        watchdog.lead_back();
        let left = log.again()?.filter(|left| left.begun.who == log.begun.who);
        if left.is_none_or(|left| left.standing == Standing::Confirmed) {
            return Ok(());
        }
        let device = &log.begun.device;
        let why = format!("{device}: not all is as it was; `quell shape recover` tries again");
        Err(ActError::System(why))
    }
}

/// A change that nothing stands against, and that nobody else may begin meanwhile.
struct PendingChange {
    _lock: Lock,
    goal: Goal,
    log: Log,
    todo: Vec<Change>,
    said: Vec<String>,
    /// Whether its recipe is the one in force.
    as_before: bool,
}

fn pending(machine: &mut dyn Machine, asked: &ApplyRequest<'_>) -> Result<PendingChange, ActError> {
    let namespace = namespace()?;
    let Examined { earlier, goal, before, others, said } = examine(machine, asked, namespace)?;
    let lock = Lock::take(asked.folder, namespace, &holder(&asked.command))?;
    sweep(asked.folder, namespace);
    let (now, again, _) = own_before(machine, &goal, earlier.as_ref())?;
    if again != before || self::earlier(machine, asked.folder, namespace, &asked.device)? != earlier
    {
        return Err(ActError::Changed);
    }
    let begun = Begun {
        boot: boot(),
        namespace,
        device: asked.device.clone(),
        index: now.links.get(&asked.device).map(|link| link.index),
        who: who(&asked.command),
        wanted: asked.wanted.clone(),
        recipe: asked.recipe.clone(),
        earlier: earlier.as_ref().map(|log| log.as_earlier(|made| without(made, &others))),
        origin: earlier.as_ref().map(|log| {
            let mut origin = log.origin().clone().and(&before);
            for other in &others {
                // What somebody has put there since comes back with `off`; ours with another figure in it does not.
                origin.take_in(&other.found, other.has_root(), other.hooks.clone());
            }
            origin
        }),
        before,
    };
    Ok(PendingChange {
        _lock: lock,
        todo: steps(&goal, &now),
        log: Log::new(asked.folder, begun, earlier.as_ref()),
        as_before: earlier.as_ref().is_none_or(|log| log.begun.recipe == asked.recipe),
        goal,
        said,
    })
}

struct Examined {
    earlier: Option<Log>,
    goal: Goal,
    before: Before,
    others: Vec<ForeignQueues>,
    said: Vec<String>,
}

/// Looks at what is there, and refuses what must not be done.
fn examine(
    machine: &mut dyn Machine,
    asked: &ApplyRequest<'_>,
    namespace: u64,
) -> Result<Examined, ActError> {
    let earlier = earlier(machine, asked.folder, namespace, &asked.device)?;
    let mut goal = asked.goal.clone();
    if let Some(log) = &earlier {
        refuse_pending(log)?;
        goal.cover(log.origin());
    }
    let (now, before, mut said) = own_before(machine, &goal, earlier.as_ref())?;
    refuse_absent(&goal, &now)?;
    let others = ForeignQueues::of(earlier.as_ref(), &before, &now);
    let foreign: Vec<String> = others.iter().flat_map(ForeignQueues::words).collect();
    if !asked.replace && !foreign.is_empty() {
        return Err(ActError::Foreign(foreign.join("\n")));
    }
    let (lost, untried) = one_way(asked.trial, &before, &goal, &now)?;
    said.extend(untried);
    if !lost.is_empty() && !asked.no_way_back {
        return Err(ActError::OneWay(format!("  {}", lost.join("\n  "))));
    }
    said.extend(lost.iter().map(|what| format!("can't be brought back: {what}")));
    Ok(Examined { earlier, goal, before, others, said })
}

/// What is there of a goal, of ours without classes that come and go and hooks that lead nowhere; what there is to say of these. Somebody else's
/// stay as they are, or can't be brought back.
fn own_before(
    machine: &mut dyn Machine,
    goal: &Goal,
    earlier: Option<&Log>,
) -> Result<(Now, Before, Vec<String>), ActError> {
    let now = look(machine, goal)?;
    let mut before = now.before(goal);
    let Some(log) = earlier else { return Ok((now, before, Vec::new())) };
    before.leave_dynamic_out(&log.made);
    let said = before.without_aimless_hooks();
    Ok((now, before, said))
}

/// Takes the steps under a watchdog, which has so much longer; where one is refused, all goes back. What is there then.
fn carry_out(
    machine: &mut dyn Machine,
    asked: &ApplyRequest<'_>,
    goal: &Goal,
    mut log: Log,
    todo: &[Change],
    lasts_ns: u64,
) -> Result<(Log, Watchdog, Vec<Installed>), ActError> {
    // It watches before there is anything to watch: whoever dies from here on is seen.
    let patience = PATIENCE_NS + PATIENCE_A_STEP_NS * todo.len() as u64;
    let limit = monotonic_ns().saturating_add(patience).saturating_add(lasts_ns);
    let mut watchdog = (asked.watchdog)(&log, limit)?;
    log.begin()?;
    if let Err((number, Refusal(why))) = machine.carry_all_out(todo) {
        log.begun.before.without_those_of(&todo[number..]);
        let (number, of, step) = (number + 1, todo.len(), todo[number].to_string());
        return Err(back(machine, log, ActError::Refused { number, of, step, why }));
    }
    let made = match look(machine, goal) {
        Ok(now) => match steps(goal, &now).first() {
            None => Installed::of(goal, &now),
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
    Ok((log, watchdog, made))
}

/// Writes that it is in force; the watchdog then does what the log says.
fn keep(
    machine: &mut dyn Machine,
    asked: &ApplyRequest<'_>,
    mut log: Log,
    watchdog: Watchdog,
    made: Vec<Installed>,
) -> Result<(), ActError> {
    let until = asked.confirm_within.map(|ns| monotonic_ns().saturating_add(ns));
    if let Err(error) = log.applied(until, made) {
        let why = format!("{error}, so that nobody would know how to go back");
        return Err(back(machine, log, ActError::NotInForce(why)));
    }
    watchdog.leave();
    journal::in_force(&log);
    Ok(())
}

/// What an earlier change made, but for what is others' by now.
fn without(made: &Installed, others: &[ForeignQueues]) -> Installed {
    match others.iter().find(|other| made.is_of(&other.found)) {
        Some(other) => made.without(other.has_root(), &other.hooks),
        None => made.clone(),
    }
}

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

/// What is in force on an interface, while nobody else may change it: another recipe is written whose own queues are the same, so that what
/// differs is of classes that come and go. Who is killed after that leaves a log that says what is to be, and the one who makes such classes
/// leads to it; so there is no watchdog.
pub struct RecipeChange {
    _lock: Lock,
    log: Log,
    command: String,
}

impl RecipeChange {
    /// Locks, and reads what is in force.
    pub fn begin(
        machine: &mut dyn Machine,
        folder: &Path,
        device: &str,
        command: &str,
    ) -> Result<Self, ActError> {
        let namespace = namespace()?;
        let lock = Lock::take(folder, namespace, &holder(command))?;
        sweep(folder, namespace);
        let Some(log) = earlier(machine, folder, namespace, device)? else {
            return Err(nothing_on(machine, folder, namespace, device));
        };
        refuse_pending(&log)?;
        Ok(RecipeChange { _lock: lock, log, command: command.to_owned() })
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    /// From now on this is in force.
    pub fn write(&mut self, wanted: String, recipe: String) -> Result<(), ActError> {
        self.log.restate(who(&self.command), wanted, recipe)?;
        journal::in_force(&self.log);
        Ok(())
    }
}

/// Brings back what was there before changes that were begun and not finished, or not confirmed in time, and whose watchdog is gone.
/// What was done, by interface.
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
            done.push((device, roll_back(machine, log)?));
        }
    }
    Ok(done)
}

/// Lets a change stay that waits for it. Which interfaces these are.
pub fn confirm(
    folder: &Path,
    device: Option<&str>,
    command: &str,
) -> Result<Vec<String>, ActError> {
    let namespace = namespace()?;
    let _lock = Lock::wait(folder, namespace, &holder(command))?;
    let tool = tool(command);
    let named = |log: &Log| device.is_none_or(|device| device == log.begun.device);
    let (mut confirmed, mut late) = (Vec::new(), Vec::new());
    for mut log in list(folder, namespace)?.into_iter().filter(named) {
        match log.standing {
            // Its watchdog has our lock next.
            Standing::Awaiting(until) if until <= monotonic_ns() => late.push(format!(
                "{}: not confirmed in time, it is taken back; should its watchdog be gone: `{tool} recover`",
                log.begun.device
            )),
            Standing::Awaiting(_) => {
                log.confirmed()?;
                journal::in_force(&log);
                confirmed.push(log.begun.device.clone());
            }
            _ => {}
        }
    }
    if !late.is_empty() {
        late.extend(confirmed.iter().map(|device| format!("{device}: what is in force stays")));
        return Err(ActError::Nothing(late.join("\n")));
    }
    if confirmed.is_empty() {
        let of = device.map(|d| format!(" of {d}")).unwrap_or_default();
        return Err(ActError::Nothing(format!(
            "no change{of} waits; one that was not confirmed in time was taken back (`{tool} status`)"
        )));
    }
    Ok(confirmed)
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

/// A goal with dynamic classes of each sort.
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
        match try_it(before, &with_likely(goal), now) {
            Ok(problems) => lost.extend(problems),
            Err(ActError::Trial(why)) => return Err(ActError::Trial(why)),
            // A trial needs a namespace, which not everybody may make.
            Err(error) => said.push(format!("not tried before: {error}")),
        }
    }
    Ok((lost, said))
}
