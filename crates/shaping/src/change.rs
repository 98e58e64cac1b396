//! Other rates for one subscriber of those in force.
//!
//! ```text
//!   classes made as subscribers come, no time to confirm in   the log names the change, one class is led to it, each way
//!   anything else                                             as the whole policy with that change would be applied
//! ```
//!
//! The first looks at the subscriber's own classes and at nobody else's, however many there are.

use crate::line_plan::{link_named, plan_chosen, recipe_of};
use crate::reconcile::Reconciler;
use crate::subscriber_classes::SubscriberClasses;
use crate::{
    ApplyOptions, CommandError, UndoLogs, apply, daemon, open_to_change, persist, policy_of_log,
    traits_of,
};
use quell_act::{Applied, Kernel, Log, RecipeChange, Standing};
use quell_policy::{Bounds, LinePolicy, PolicyName, TwoWaySubscriber};
use quell_units::{Rate, Span};
use serde::Serialize;
use std::path::Path;

/// What becomes otherwise of a subscriber.
#[derive(Debug, Clone, Default)]
pub struct RateChange {
    pub name: String,
    pub up: Option<Rate>,
    pub down: Option<Rate>,
    pub up_floor: Option<Rate>,
    pub down_floor: Option<Rate>,
    pub confirm_within: Option<Span>,
}

#[derive(Debug, Serialize)]
pub struct ChangeReport {
    pub device: String,
    pub subscriber: String,
    pub was: SubscriberRates,
    pub now: SubscriberRates,
    pub steps: Vec<String>,
    pub remarks: Vec<String>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct SubscriberRates {
    pub up: RateBounds,
    pub down: RateBounds,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct RateBounds {
    pub floor_bps: u64,
    pub ceiling_bps: u64,
}

impl From<&TwoWaySubscriber> for SubscriberRates {
    fn from(one: &TwoWaySubscriber) -> Self {
        let bounds =
            |b: Bounds| RateBounds { floor_bps: b.floor.bps(), ceiling_bps: b.ceiling.bps() };
        SubscriberRates { up: bounds(one.up), down: bounds(one.down) }
    }
}

const NOT_HERE: &str = "it is not here now, and has that when it comes";

const COMMAND: &str = "quell shape change";

impl RateChange {
    fn changed(&self, was: &TwoWaySubscriber) -> TwoWaySubscriber {
        let bounds = |was: Bounds, floor: Option<Rate>, ceiling: Option<Rate>| Bounds {
            floor: floor.unwrap_or(was.floor),
            ceiling: ceiling.unwrap_or(was.ceiling),
        };
        TwoWaySubscriber {
            up: bounds(was.up, self.up_floor, self.up),
            down: bounds(was.down, self.down_floor, self.down),
            ..was.clone()
        }
    }

    /// Takes the subscriber's place in a policy. How it was, and is.
    fn put_into(&self, policy: &mut LinePolicy) -> Result<[TwoWaySubscriber; 2], CommandError> {
        let mut subscribers = policy.subscribers.iter_mut();
        let Some(one) = subscribers.find(|one| one.name == self.name) else {
            let names: Vec<&str> = policy.subscribers.iter().map(|s| s.name.as_str()).collect();
            return Err(CommandError::usage(nobody(&self.name, &names)));
        };
        let now = self.changed(one);
        let was = std::mem::replace(one, now.clone());
        Ok([was, now])
    }
}

/// That nobody has a name, with the one that was most likely meant: of thousands the others tell nothing.
fn nobody(name: &str, known: &[&str]) -> String {
    let shown = |name: &str| quell_wire::text::printable(name, 40);
    let hint = match quell_units::nearest::nearest(name, known) {
        Some(near) => format!("; did you mean `{}`?", shown(near)),
        None => String::new(),
    };
    format!("none of the {} subscribers is named `{}`{hint}", known.len(), shown(name))
}

/// Changes one subscriber on an interface; where none is named on the only one that is shaped. `root` is where files of /etc are.
pub fn run(
    logs: &UndoLogs,
    device: Option<&str>,
    change: &RateChange,
    root: &Path,
) -> Result<ChangeReport, CommandError> {
    let mut kernel = open_to_change()?;
    let log = the_log(logs, device, &mut kernel)?;
    let device = log.begun.device.clone();
    let dynamic = !log.begun.before.our_dynamic.is_empty();
    let one_class =
        if dynamic && change.confirm_within.is_none() && log.standing == Standing::Confirmed {
            // Somebody has to live who leads to what the log says, should this process be killed.
            daemon::start(&log, &logs.folder, &device)?;
            drop(log);
            one_class(logs, change, &mut kernel, &device)?
        } else {
            None
        };
    let ([was, now], applied) = match one_class {
        Some(done) => done,
        None => as_applied(logs, change, &mut kernel, &device)?,
    };
    let mut remarks = applied.said;
    if was != now && persist::is_kept(root, &device) {
        remarks.push(format!(
            "after a reboot it is as it was; to keep it: quell shape persist --dev {device}"
        ));
    }
    let (was, rates) = ((&was).into(), (&now).into());
    Ok(ChangeReport {
        device,
        subscriber: now.name,
        was,
        now: rates,
        steps: applied.steps,
        remarks,
    })
}

fn the_log(
    logs: &UndoLogs,
    device: Option<&str>,
    kernel: &mut Kernel,
) -> Result<Log, CommandError> {
    if let Some(device) = device {
        return logs.of(kernel, device);
    }
    let mut all = logs.all()?;
    match all.len() {
        0 => Err(CommandError::check("nothing of Quell's is in force; first: quell shape apply")),
        1 => Ok(all.remove(0)),
        _ => {
            let names: Vec<&str> = all.iter().map(|log| log.begun.device.as_str()).collect();
            let names = names.join(", ");
            Err(CommandError::usage(format!("on which interface? give --dev with one of {names}")))
        }
    }
}

/// How the subscriber was and is, and what was done.
type Changed = ([TwoWaySubscriber; 2], Applied);

/// Leads one class, each way. None where more than that would differ.
fn one_class(
    logs: &UndoLogs,
    change: &RateChange,
    kernel: &mut Kernel,
    device: &str,
) -> Result<Option<Changed>, CommandError> {
    let mut in_force = RecipeChange::begin(kernel, &logs.folder, device, COMMAND)?;
    let mut policy = policy_of_log(in_force.log())?;
    let both = change.put_into(&mut policy)?;
    let [was, now] = &both;
    // A group's class has the floors of all who are in it.
    let other_floor = (was.up.floor, was.down.floor) != (now.up.floor, now.down.floor);
    if other_floor && now.group.is_some() {
        return Ok(None);
    }
    let traits = traits_of(&link_named(kernel, device)?.0);
    let subscribers = SubscriberClasses::of(&policy, device, traits)?;
    if was == now {
        return Ok(Some((both, Applied { steps: Vec::new(), said: Vec::new() })));
    }
    let first = subscribers.directions.first();
    let who: Vec<u16> = first.and_then(|way| way.all.minor_of(&change.name)).into_iter().collect();
    let mut reconciler = Reconciler::open(&subscribers).map_err(CommandError::check)?;
    let begun = &in_force.log().begun;
    let before = (begun.wanted.clone(), begun.recipe.clone());
    in_force.write(policy.words(PolicyName::Subscribers), recipe_of(&policy)?)?;
    match reconciler.lead_some(&subscribers, &who) {
        Ok(steps) => {
            let here = reconciler.is_here(&who).map_err(CommandError::system)?;
            let said = if here { Vec::new() } else { vec![NOT_HERE.to_owned()] };
            Ok(Some((both, Applied { steps, said })))
        }
        Err(why) => {
            if let Some(one) = policy.subscribers.iter_mut().find(|one| one.name == was.name) {
                one.clone_from(was);
            }
            let back = in_force.write(before.0, before.1).map_err(|e| e.to_string());
            let was = SubscriberClasses::of(&policy, device, traits)?;
            let back = back.and_then(|()| reconciler.lead_some(&was, &who));
            let how = match back {
                Ok(_) => "everything is as it was before".to_owned(),
                Err(left) => {
                    format!("and the way back: {left}; `quell shape apply` leads to what is wanted")
                }
            };
            Err(CommandError::system(format!("{why}; {how}")))
        }
    }
}

/// As a new policy would be applied.
fn as_applied(
    logs: &UndoLogs,
    change: &RateChange,
    kernel: &mut Kernel,
    device: &str,
) -> Result<Changed, CommandError> {
    let mut policy = policy_of_log(&logs.of(kernel, device)?)?;
    let both = change.put_into(&mut policy)?;
    let plan = plan_chosen(kernel, device, policy)?;
    let options = ApplyOptions {
        device,
        command: COMMAND,
        confirm_within: change.confirm_within,
        why: "",
        replace: false,
        no_way_back: false,
        logs,
    };
    Ok((both, apply(kernel, plan, &options)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_thousands_the_nearest_name_is_told_and_nothing_that_is_no_letter() {
        let names: Vec<String> = (0..5000).map(|n| format!("line\n{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(nobody("zebra", &names), "none of the 5000 subscribers is named `zebra`");
        let near = nobody("line\n49999", &names);
        assert!(near.contains("did you mean") && !near.contains('\n'), "{near}");
    }
}
