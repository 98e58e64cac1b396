//! Queues of an experiment on this machine's own interfaces, for the time of a run.
//!
//! ```text
//!   prepare ──► in force, all of them in one transaction of `act` ──► changes at their times ──► Stop, a lost lease ──► as before
//!                  └─ its watchdog, a process of its own: leads back when this one is killed, or stays longer than the run
//! ```

use crate::kinds::Emit;
use nix::unistd::geteuid;
use quell_act::{
    ApplyRequest, DEFAULT_FOLDER, DeviceGoal, Goal, Kernel, Temporary, hold, own_watchdog,
};
use quell_lab::cell::{ChangeWhat, PlacedChange, PlacedQueue};
use quell_model::{Fact, Subject, When};
use quell_sys::pace::Window;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_tc::Places;
use quell_units::Span;
use std::path::Path;

pub struct ManagedQueues {
    kernel: Kernel,
    held: Option<Temporary>,
    changes: Vec<PlacedChange>,
}

impl ManagedQueues {
    /// Puts the queues of a plan ([`quell_model::TaskKind::ManageQueues`]) in force, for so long at most.
    pub fn prepare(plan: &str, lasts: Span) -> Result<Self, String> {
        let (queues, changes): (Vec<PlacedQueue>, Vec<PlacedChange>) =
            serde_json::from_str(plan).map_err(|e| e.to_string())?;
        let mut kernel = Kernel::open().map_err(|e| e.to_string())?;
        let changed = changes.iter().filter_map(queue_of);
        let device = queues.iter().chain(changed).next().ok_or("it names no interface")?;
        let asked = ApplyRequest {
            folder: Path::new(DEFAULT_FOLDER),
            device: device.on.device.clone(),
            goal: goal(&queues)?,
            wanted: "queues of an experiment".into(),
            recipe: plan.to_owned(),
            command: "quell run".into(),
            replace: true,
            no_way_back: false,
            confirm_within: None,
            trial: true,
            watchdog: &own_watchdog,
        };
        let held = hold(&mut kernel, &asked, lasts.nanos()).map_err(|why| match geteuid() {
            user if user.is_root() => why.to_string(),
            user => format!(
                "the queue of {} is changed by root alone, and the agent is user {user}: {why}",
                asked.device
            ),
        })?;
        Ok(ManagedQueues { kernel, held: Some(held), changes })
    }

    pub fn run(mut self, window: &Window, stop: &Bell, emit: Emit<'_>) -> Result<(), String> {
        let mut alarm = Alarm::new().map_err(|e| e.to_string())?;
        let mut changes = std::mem::take(&mut self.changes).into_iter();
        loop {
            let change = changes.next();
            let at = change.as_ref().map(|c| window.origin_ns.saturating_add(c.at.nanos()));
            alarm.set(at).map_err(|e| e.to_string())?;
            let mut fds = [readable(stop), readable(&alarm)];
            wait(&mut fds).map_err(|e| e.to_string())?;
            let (Some(change), Some(held), false) = (change, &mut self.held, came(&fds[0])) else {
                let held = self.held.take();
                return held.map_or(Ok(()), Temporary::end).map_err(|e| e.to_string());
            };
            let goal = goal(queue_of(&change).map(std::slice::from_ref).unwrap_or_default())?;
            held.change(&mut self.kernel, &goal).map_err(|e| e.to_string())?;
            let value = serde_json::to_string(&change.what).unwrap_or_default();
            emit(Fact::new(When::During, Subject::Change(change.at), value).into());
        }
    }
}

impl Drop for ManagedQueues {
    fn drop(&mut self) {
        // It never began, or a change was refused, which was told. What is left is in the log.
        let _ = self.held.take().map(Temporary::end);
    }
}

fn queue_of(change: &PlacedChange) -> Option<&PlacedQueue> {
    match &change.what {
        ChangeWhat::Queue(queue) => Some(queue),
        ChangeWhat::Line { .. } => None,
    }
}

/// The queues at the roots of their interfaces.
fn goal(queues: &[PlacedQueue]) -> Result<Goal, String> {
    let device = |queue: &PlacedQueue| {
        let plan = queue.tree.plan().map_err(|e| e.to_string())?;
        let places = Places { root: true, ingress: false };
        let name = queue.on.device.clone();
        Ok(DeviceGoal { name, index: None, places, things: plan.things() })
    };
    let devices = queues.iter().map(device).collect::<Result<_, String>>()?;
    Ok(Goal { devices, ..Goal::default() })
}
