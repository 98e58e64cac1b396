//! Everything of ours off an interface, down to what was there before the first of our changes.

use crate::ownership::{ForeignQueues, Ownership};
use crate::steps::Machine;
use crate::transaction::{PATIENCE_NS, StartWatchdog, earlier, holder, namespace, nothing_on, who};
use crate::undo_log::boot;
use crate::watchdog::sweep;
use crate::way_back::{Applied, Strangers, lead_back, look, roll_back};
use crate::{ActError, Before, Begun, Goal, Lock, Log, Standing};
use quell_sys::clock::monotonic_ns;
use std::path::Path;

/// What becomes of queues that have the names of ours and are not as we left them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leave {
    /// Nothing is done, and that is said.
    #[default]
    Ask,
    /// They go; so does what somebody put in the place of ours.
    Nothing,
    All,
}

pub struct OffRequest<'a> {
    pub folder: &'a Path,
    pub device: &'a str,
    pub command: &'a str,
    pub leave: Leave,
    pub watchdog: &'a StartWatchdog,
}

/// Takes all of ours off an interface, and brings back what was there before us.
pub fn off(machine: &mut dyn Machine, asked: &OffRequest<'_>) -> Result<Applied, ActError> {
    let namespace = namespace()?;
    let _lock = Lock::take(asked.folder, namespace, &holder(asked.command))?;
    sweep(asked.folder, namespace);
    let Some(mut log) = earlier(machine, asked.folder, namespace, asked.device)? else {
        return Err(nothing_on(machine, asked.folder, namespace, asked.device));
    };
    let mut before = log.origin().clone();
    // In the middle of a change it is known what may be there, and not what is.
    let certain = log.standing == Standing::Confirmed;
    let mut said = match certain {
        true => leave(machine, &log, &mut before, asked.leave)?,
        false => Vec::new(),
    };
    let who = who(asked.command);
    // From here on its way back is to take all off: whoever finishes it, it ends so. On a full disk nobody does but who calls this again.
    let mut planned = log.clone();
    planned.begun.who = who.clone();
    let watchdog = (asked.watchdog)(&planned, monotonic_ns() + PATIENCE_NS);
    let written = log.leaving(who, before);
    if let Some(why) = written.as_ref().err().or(watchdog.as_ref().err()) {
        said.push(format!("nobody watched over this: {why}"));
    }
    let mut done = match certain {
        true => {
            let strangers =
                if asked.leave == Leave::Nothing { Strangers::Go } else { Strangers::Stay };
            let before = log.begun.before.clone();
            lead_back(machine, log, before, strangers, said)?
        }
        false => {
            let done = roll_back(machine, log)?;
            Applied { said: said.into_iter().chain(done.said).collect(), ..done }
        }
    };
    if let Ok(watchdog) = watchdog {
        watchdog.leave();
    }
    done.said.dedup();
    Ok(done)
}

/// Takes out of the way back what stays. What there is to say of that.
fn leave(
    machine: &mut dyn Machine,
    log: &Log,
    before: &mut Before,
    leave: Leave,
) -> Result<Vec<String>, ActError> {
    if leave == Leave::Nothing {
        return Ok(Vec::new());
    }
    let goal = Goal::from(&*before);
    let now = look(machine, &goal)?;
    let (mut said, mut unsure, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    let mut found = now.before(&goal);
    found.leave_dynamic_out(&log.made);
    for (device, other) in before.devices.iter_mut().zip(ForeignQueues::of(Some(log), &found, &now))
    {
        match &other.root {
            Ownership::Ours => {}
            Ownership::Changed(words) | Ownership::Unlike(words) if leave == Leave::Ask => {
                unsure.push(words.clone())
            }
            Ownership::Changed(words) | Ownership::Unlike(words) => {
                said.push(format!("{words}; it stays"));
                kept.push(device.leave_root());
            }
            Ownership::Theirs(words) => {
                said.push(format!("{words}, which somebody has put there since, stays"));
                kept.push(device.leave_root());
            }
        }
        said.extend(device.leave_hooks(other.hooks, &other.found, &other.name));
    }
    if !unsure.is_empty() {
        return Err(ActError::NotAsLeft(unsure.join("\n")));
    }
    // With an IFB what is on it would go.
    before.links.retain(|link| !kept.contains(&link.name));
    Ok(said)
}

/// Brings back what `before` says, as whoever kept it longer than a boot knows; it is told the log, if there is one. Afterwards nothing
/// of ours is in force.
pub fn take_off(
    machine: &mut dyn Machine,
    folder: &Path,
    device: &str,
    command: &str,
    watchdog: &StartWatchdog,
    before: &dyn Fn(Option<&Log>) -> Result<Before, ActError>,
) -> Result<Applied, ActError> {
    let namespace = namespace()?;
    let _lock = Lock::take(folder, namespace, &holder(command))?;
    sweep(folder, namespace);
    let log = earlier(machine, folder, namespace, device)?;
    let before = before(log.as_ref())?;
    // From here on it is an unfinished change whose way back is to take all off: whoever finishes it, it ends so.
    let begun = Begun {
        boot: boot(),
        namespace,
        device: device.to_owned(),
        index: None,
        who: who(command),
        wanted: "nothing of Quell's".to_owned(),
        recipe: String::new(),
        earlier: None,
        before,
        origin: None,
    };
    let log = Log::new(folder, begun, log.as_ref());
    let watchdog = watchdog(&log, monotonic_ns() + PATIENCE_NS)?;
    log.begin()?;
    let done = roll_back(machine, log)?;
    watchdog.leave();
    Ok(done)
}
