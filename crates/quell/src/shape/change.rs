//! `quell shape change`: other rates for one subscriber of those in force.
//!
//! ```text
//!   classes made as subscribers come, no time to confirm in   the log names the change, one class is led to it, each way
//!   anything else                                             as `quell shape apply` of the policy with that change
//! ```
//!
//! The first looks at the subscriber's own classes and at nobody else's, however many there are.

use super::applying::Applying;
use super::lead::Leader;
use super::patience::{Patience, patience};
use super::standby::Standby;
use super::state::{State, failure, open_to_change};
use super::wanted::{link_of, settled_for, traits_of};
use super::{hold, kept, persist};
use crate::failure::Failure;
use crate::options::Json;
use crate::text::say;
use clap::Args;
use quell_act::{Applied, Kernel, Log, Restating, Standing};
use quell_shaper::{BothWays, Bounds, PolicyName, TwoWaySubscriber};
use quell_units::Rate;
use serde_json::json;
use std::process::ExitCode;

/// Options of `quell shape change`.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// The subscriber
    pub name: String,
    /// The interface; where absent the one that has subscribers
    #[arg(long = "dev", value_name = "DEV")]
    pub device: Option<String>,
    /// Its ceiling of what it sends
    #[arg(long, value_name = "RATE")]
    pub up: Option<Rate>,
    /// Its ceiling of what it receives
    #[arg(long, value_name = "RATE")]
    pub down: Option<Rate>,
    /// Its floor of what it sends
    #[arg(long, value_name = "RATE")]
    pub up_floor: Option<Rate>,
    /// Its floor of what it receives
    #[arg(long, value_name = "RATE")]
    pub down_floor: Option<Rate>,
    /// Take it back after this time unless `quell shape confirm` comes
    #[arg(long, value_name = "TIME", value_parser = patience)]
    pub confirm_within: Option<Patience>,
    #[command(flatten)]
    pub root: persist::Root,
    #[command(flatten)]
    pub state: State,
    #[command(flatten)]
    pub json: Json,
}

const NOT_HERE: &str = "it is not here now, and has that when it comes";

const COMMAND: &str = "quell shape change";

impl ChangeArgs {
    /// The subscriber as it is to be.
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
    fn put_into(&self, all: &mut BothWays) -> Result<[TwoWaySubscriber; 2], Failure> {
        let mut subscribers = all.subscribers.iter_mut();
        let Some(one) = subscribers.find(|one| one.name == self.name) else {
            let names: Vec<&str> = all.subscribers.iter().map(|one| one.name.as_str()).collect();
            return Err(Failure::usage(nobody(&self.name, &names)));
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

/// `quell shape change`.
pub fn change(args: &ChangeArgs) -> Result<ExitCode, Failure> {
    if [args.up, args.down, args.up_floor, args.down_floor].iter().all(Option::is_none) {
        return Err(Failure::usage("what rate? give --up, --down, --up-floor or --down-floor"));
    }
    let mut kernel = open_to_change()?;
    let log = the_log(args, &mut kernel)?;
    let device = log.begun.device.clone();
    let apart = kept::is_apart(&log);
    let at_once = !matches!(args.confirm_within, Some(Patience::Within(_)));
    let one_class = if apart && at_once && log.standing == Standing::Confirmed {
        // Somebody has to live who leads to what the log says, should this process be killed.
        hold::start(&log, &args.state.folder, &device)?;
        drop(log);
        one_class(args, &mut kernel, &device)?
    } else {
        None
    };
    let (told, applied) = match one_class {
        Some(done) => done,
        None => as_applied(args, &mut kernel, &device)?,
    };
    tell(args, &device, &told, applied);
    Ok(ExitCode::SUCCESS)
}

/// What is in force where the subscriber is meant.
fn the_log(args: &ChangeArgs, kernel: &mut Kernel) -> Result<Log, Failure> {
    if let Some(device) = &args.device {
        return args.state.log_of(kernel, device);
    }
    let mut logs = args.state.logs()?;
    match logs.len() {
        0 => Err(Failure::check("nothing of Quell's is in force; first: quell shape apply")),
        1 => Ok(logs.remove(0)),
        _ => {
            let names: Vec<&str> = logs.iter().map(|log| log.begun.device.as_str()).collect();
            let names = names.join(", ");
            Err(Failure::usage(format!("on which interface? give --dev with one of {names}")))
        }
    }
}

/// How the subscriber was and is, in words.
type Told = [TwoWaySubscriber; 2];

/// Leads one class, each way. None where more than that would differ.
fn one_class(
    args: &ChangeArgs,
    kernel: &mut Kernel,
    device: &str,
) -> Result<Option<(Told, Applied)>, Failure> {
    let mut restating =
        Restating::begin(kernel, &args.state.folder, device, COMMAND).map_err(failure)?;
    let mut all = kept::read(restating.log()).map_err(Failure::system)?;
    let told = args.put_into(&mut all)?;
    let [was, now] = &told;
    // A group's class has the floors of all who are in it.
    let other_floor = (was.up.floor, was.down.floor) != (now.up.floor, now.down.floor);
    if !kept::is_apart(restating.log()) || (other_floor && now.group.is_some()) {
        return Ok(None);
    }
    let traits = traits_of(&link_of(kernel, device)?.0);
    let standby = Standby::of(&all, device, traits)?;
    let none = Applied { steps: Vec::new(), said: Vec::new() };
    if was == now {
        return Ok(Some((told, none)));
    }
    let who = standby.ways.first().and_then(|way| way.all.minor_of(&args.name));
    let mut leader = Leader::open(&standby).map_err(Failure::check)?;
    let (wanted, recipe) =
        (restating.log().begun.wanted.clone(), restating.log().begun.recipe.clone());
    let (changed, annex) =
        kept::with_change(restating.log(), &all, now).map_err(Failure::system)?;
    let words = all.words(PolicyName::Subscribers);
    restating.write(words, changed, annex.as_ref()).map_err(failure)?;
    let who: Vec<u16> = who.into_iter().collect();
    match leader.lead_some(&standby, &who) {
        Ok(steps) => {
            let here = leader.is_here(&who).map_err(Failure::system)?;
            let said = if here { Vec::new() } else { vec![NOT_HERE.to_owned()] };
            Ok(Some((told, Applied { steps, said })))
        }
        Err(why) => {
            if let Some(one) = all.subscribers.iter_mut().find(|one| one.name == was.name) {
                one.clone_from(was);
            }
            let back = restating.write(wanted, recipe, None).map_err(|e| e.to_string());
            let before = Standby::of(&all, device, traits)?;
            let back = back.and_then(|()| leader.lead_some(&before, &who));
            let how = match back {
                Ok(_) => "everything is as it was before".to_owned(),
                Err(left) => {
                    format!("and the way back: {left}; `quell shape apply` leads to what is wanted")
                }
            };
            Err(Failure::system(format!("{why}; {how}")))
        }
    }
}

/// As a new policy would be applied.
fn as_applied(
    args: &ChangeArgs,
    kernel: &mut Kernel,
    device: &str,
) -> Result<(Told, Applied), Failure> {
    let log = args.state.log_of(kernel, device)?;
    let mut all = kept::read(&log).map_err(Failure::system)?;
    let told = args.put_into(&mut all)?;
    let settled = settled_for(kernel, device, all)?;
    let applying = Applying {
        device,
        command: COMMAND,
        confirm_within: args.confirm_within.unwrap_or(Patience::Never),
        why: "",
        replace: false,
        no_way_back: false,
        state: &args.state,
    };
    Ok((told, applying.lead(kernel, settled)?))
}

fn tell(args: &ChangeArgs, device: &str, [was, now]: &Told, applied: Applied) {
    let moved = |what: &str, was: Rate, now: Rate| {
        (was != now).then(|| format!("{what} {now} (was {was})"))
    };
    let words = [
        moved("up at most", was.up.ceiling, now.up.ceiling),
        moved("down at most", was.down.ceiling, now.down.ceiling),
        moved("up at least", was.up.floor, now.up.floor),
        moved("down at least", was.down.floor, now.down.floor),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    let mut said = applied.said;
    if !words.is_empty() && persist::keeps(&args.root, device) {
        said.push(format!(
            "after a reboot it is as it was; to keep it: quell shape persist --dev {device}"
        ));
    }
    if args.json.json {
        let rates = |one: &TwoWaySubscriber| {
            json!({
                "up": { "floor_bps": one.up.floor.bps(), "ceiling_bps": one.up.ceiling.bps() },
                "down": { "floor_bps": one.down.floor.bps(), "ceiling_bps": one.down.ceiling.bps() },
            })
        };
        let document = json!({
            "device": device,
            "subscriber": now.name,
            "was": rates(was),
            "now": rates(now),
            "steps": applied.steps,
            "remarks": said,
        });
        println!("{}", crate::text::document(&document));
        return;
    }
    applied.steps.iter().for_each(|step| say(&format!("  {step}\n")));
    let name = quell_wire::text::printable(&now.name, 40);
    let now = if words.is_empty() { "it has that already".to_owned() } else { words.join(", ") };
    say(&format!("{device}: {name}: {now}\n"));
    said.iter().for_each(|line| say(&format!("{line}\n")));
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
