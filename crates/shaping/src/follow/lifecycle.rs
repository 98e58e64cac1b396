//! How a follower begins and ends, and where its rates are before and then.

use super::controller::RateReason;
use super::line::{rate_of, step_of};
use super::state::{self, FollowState};
use crate::{
    CommandError, UndoLogs, ifb_of, open_to_change, policy_of_log, process_lock, traits_of,
};
use quell_act::{
    Change, DeviceTarget, Goal, Kernel, Lock, Log, Machine, Now, Standing, start_apart,
};
use quell_model::task::Direction;
use quell_policy::{Bounds, LinePolicy, WhenLost, hold_step};
use quell_sys::wait::{readable, wait};
use quell_tc::observed::Snapshot;
use quell_tc::{Change as QueueChange, Step, Thing};
use quell_units::Rate;
use std::path::Path;
use std::process::Command;

/// The directions in which a log's policy is followed: interface, its number, step and bounds.
pub(super) type Planned = (Direction, DeviceTarget, (Step, Bounds));

/// What of a log is followed; nothing where its policy follows nothing.
pub(super) fn planned(log: &Log, policy: &LinePolicy, now: &Now) -> Vec<Planned> {
    let device = &log.begun.device;
    let Some((name, link)) = policy.policy.zip(now.links.get(device)) else { return Vec::new() };
    let ways = [(Direction::Up, device.clone()), (Direction::Down, ifb_of(device))];
    let one = |(way, name_of): (Direction, String)| {
        let index = Some(now.links.get(&name_of)?.index);
        let step = step_of(policy, name, way, traits_of(link))?;
        Some((way, DeviceTarget { name: name_of, index }, step))
    };
    ways.into_iter().filter_map(one).collect()
}

/// Takes the rates that are in force into a goal, so that they are as wanted, wherever between the bounds they are.
pub fn take_rates(goal: &mut Goal, log: &Log, now: &Now) -> Result<(), CommandError> {
    let policy = policy_of_log(log)?;
    for (_, target, (step, bounds)) in planned(log, &policy, now) {
        let nothing = Snapshot::default();
        let snapshot = target.index.and_then(|index| now.queues.get(&index)).unwrap_or(&nothing);
        let Some(rate) = rate_of(&step, snapshot) else { continue };
        let mut held = step.clone();
        hold_step(&mut held, bounds.floor, rate.clamp(bounds.floor, bounds.ceiling));
        let things = goal.devices.iter_mut().filter(|device| device.name == target.name);
        for thing in things.flat_map(|device| &mut device.things) {
            if *thing == Thing::Step(step.clone()) {
                *thing = Thing::Step(held.clone());
            }
        }
    }
    Ok(())
}

/// Ends the follower of an interface and puts its rates where they were applied, so that all is as it was left there.
pub fn pause(log: &Log, folder: &Path, kernel: &mut Kernel) -> Result<(), CommandError> {
    let policy = policy_of_log(log).unwrap_or_default();
    if policy.follow.is_none() || log.standing == Standing::Unfinished {
        return Ok(());
    }
    process_lock::end(&state::lock_file(log.path()));
    put(log, &policy, folder, kernel, |bounds, _| bounds.floor)
}

/// Puts the rates somewhere, in each direction that is as it was left but for its rate.
fn put(
    log: &Log,
    policy: &LinePolicy,
    folder: &Path,
    kernel: &mut Kernel,
    rate: impl Fn(Bounds, Direction) -> Rate,
) -> Result<(), CommandError> {
    let _lock = Lock::beside(folder, log.begun.namespace)?;
    let now = kernel.read(&(&log.begun.before).into()).map_err(CommandError::system)?;
    for (way, device, (mut step, bounds)) in planned(log, policy, &now) {
        let snapshot = device.index.and_then(|index| now.queues.get(&index));
        let Some(there) = snapshot.and_then(|snapshot| rate_of(&step, snapshot)) else { continue };
        let wanted = rate(bounds, way);
        if there != wanted {
            hold_step(&mut step, bounds.floor, wanted);
            let change = QueueChange::Alter(Thing::Step(step));
            // Where it went meanwhile there is nothing to be put anywhere.
            let _ = kernel.carry_out(&Change::Queue { device, change });
        }
    }
    Ok(())
}

/// Starts a follower for what is in force, where its policy is followed and nobody follows it.
pub fn start(log: &Log, folder: &Path) -> Result<(), CommandError> {
    if policy_of_log(log).map_or(true, |policy| policy.follow.is_none()) {
        return Ok(());
    }
    let path = state::lock_file(log.path());
    process_lock::start("follow", &path, folder, &log.begun.device).map_err(|why| {
        CommandError::system(format!(
            "nobody follows the line, which stays at the floor: {why}; `quell shape follow` tells more"
        ))
    })
}

/// Takes away what a follower left that has ended.
pub fn forget(log: &Path) {
    process_lock::ended(&state::lock_file(log));
    let _ = std::fs::remove_file(state::state_file(log));
}

/// Another process that puts the rates where the policy says when this one is killed.
pub(super) fn start_guard(folder: &Path, device: &str) -> Result<(), String> {
    let mut command = Command::new("/proc/self/exe");
    let folder = std::path::absolute(folder).map_err(|e| e.to_string())?;
    command.args(["shape", "follow", "--dev", device, "--state"]).arg(folder);
    command.arg("--guard").arg(std::process::id().to_string());
    start_apart(command).map(drop)
}

/// What the guard does.
pub fn guard(
    logs: &UndoLogs,
    device: &str,
    follower: u32,
    ready: &mut dyn FnMut(),
) -> Result<(), CommandError> {
    let process = quell_sys::pidfd::open(follower).map_err(CommandError::system)?;
    ready();
    wait(&mut [readable(&process)]).map_err(CommandError::system)?;
    let mut kernel = open_to_change()?;
    let log = logs.of(&mut kernel, device)?;
    if !process_lock::was_killed(&state::lock_file(log.path()), follower) {
        return Ok(());
    }
    let policy = policy_of_log(&log)?;
    let Some(follow) = &policy.follow else { return Ok(()) };
    let mut told = FollowState::read(log.path());
    let good = |way| told.as_ref()?.direction(way).map(|one| Rate::from_bps(one.good_bps));
    let rate = |bounds: Bounds, way| match follow.lost {
        WhenLost::LastGood => {
            good(way).map_or(bounds.floor, |good| good.clamp(bounds.floor, bounds.ceiling))
        }
        WhenLost::Floor => bounds.floor,
    };
    put(&log, &policy, &logs.folder, &mut kernel, rate)?;
    let rates = [Direction::Up, Direction::Down].into_iter().zip(follow.bounds());
    let rates: Vec<u64> = rates.map(|(way, bounds)| rate(bounds, way).bps()).collect();
    if let Some(told) = &mut told {
        for (one, rate_bps) in told.directions.iter_mut().zip(rates) {
            (one.rate_bps, one.reason) = (rate_bps, RateReason::Ended);
            one.why = one.reason.to_string();
        }
        told.write(log.path());
    }
    Ok(())
}
