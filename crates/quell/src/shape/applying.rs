//! A policy put in force, with the classes of those subscribers who are there.
//!
//! ```text
//!   Settled ─► quell_act::apply ─► let_in(): tables and classes of those who are there ─► somebody who makes those of who comes
//! ```

use super::lead::{self, Leader};
use super::patience::Patience;
use super::standby::Standby;
use super::state::{State, USUAL, failure, open};
use super::wanted::{Settled, settled_again};
use super::watchdog::watchdog;
use super::{hold, kept};
use crate::failure::Failure;
use quell_act::{Applied, Asked, Kernel, Lock, Log, Standing};
use quell_sys::netns::NetNs;
use quell_units::Span;
use std::collections::BTreeSet;
use std::path::Path;

/// How something is put in force.
pub struct Applying<'a> {
    pub device: &'a str,
    /// What was called.
    pub command: &'a str,
    pub confirm_within: Patience,
    /// Why it is to be confirmed, behind a blank, where nobody said so.
    pub why: &'a str,
    pub replace: bool,
    pub no_way_back: bool,
    pub state: &'a State,
}

impl Applying<'_> {
    /// Does it.
    pub fn lead(&self, kernel: &mut Kernel, settled: Settled) -> Result<Applied, Failure> {
        let Settled { goal, words, recipe, annex, remarks, standby, all } = settled;
        let confirm = self.confirm_within.span();
        let mut asked = Asked {
            folder: &self.state.folder,
            device: self.device.to_owned(),
            goal,
            wanted: words,
            recipe,
            annex,
            command: self.command.to_owned(),
            replace: self.replace,
            no_way_back: self.no_way_back,
            confirm_within: confirm.map(Span::nanos),
            trial: true,
            watchdog: &watchdog,
        };
        let mut foreseen = Vec::new();
        if let Some(standby) = &standby {
            let log = self.state.log_of(kernel, self.device).ok();
            // The same may be kept in other words, as after changes of single subscribers.
            let in_force = log.as_ref().filter(|log| kept::is_apart(log));
            if let Some(log) = in_force
                && kept::read(log).is_ok_and(|now| kept::same(&now, &all))
            {
                asked.recipe.clone_from(&log.begun.recipe);
            }
            foreseen = lead::foreseen(standby).map_err(Failure::system)?;
            if foreseen.is_empty() && log.is_some_and(|log| log.begun.recipe != asked.recipe) {
                let device = self.device;
                foreseen.push(format!("{device}: other figures, of subscribers who are not here"));
            }
        }
        let mut applied = quell_act::apply(kernel, &asked).map_err(failure)?;
        if let Some(standby) = &standby {
            let_in(standby, self.state, self.device)?;
            applied.steps.extend(foreseen);
        }
        applied.said.splice(0..0, remarks);
        if let (Some(within), false) = (confirm, applied.steps.is_empty()) {
            let folder = &self.state.folder;
            let usual = folder == Path::new(USUAL);
            let state =
                if usual { String::new() } else { format!(" --state {}", folder.display()) };
            let why = self.why;
            applied.said.push(format!(
                "in force for {within}{why}; to keep it: quell shape confirm{state}"
            ));
        }
        Ok(applied)
    }
}

/// Leads tables and classes of those who are there to what is in force, and sees to it that somebody makes classes for those who come.
fn let_in(standby: &Standby, state: &State, device: &str) -> Result<(), Failure> {
    let namespace = NetNs::current().map_err(Failure::system)?.inode();
    let lock = Lock::beside(&state.folder, namespace).map_err(failure)?;
    let led = Leader::open(standby).and_then(|mut leader| leader.lead(standby, &BTreeSet::new()));
    drop(lock);
    led.map_err(|why| {
        Failure::system(format!(
            "{why}; the queues are in force, and not all subscribers: apply again"
        ))
    })?;
    let log = state.log_of(&mut open()?, device)?;
    hold::start(&log, &state.folder, device)
}

/// The same once more for what is in force, after it was led back to, or by somebody who died in the middle.
pub fn let_in_again(kernel: &mut Kernel, path: &Path) -> Result<(), String> {
    let Some(log) = Log::read(path).map_err(|e| e.to_string())? else { return Ok(()) };
    if log.begun.before.our_guests.is_empty() || log.standing == Standing::Unfinished {
        return Ok(());
    }
    // He is told of each change, and leads to it.
    if hold::holder(&log).is_some() {
        return Ok(());
    }
    let settled = settled_again(&log, kernel).map_err(|e| e.to_string())?;
    let Some(standby) = settled.standby else { return Ok(()) };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let _lock = Lock::beside(folder, log.begun.namespace).map_err(|e| e.to_string())?;
    Leader::open(&standby)?.lead(&standby, &BTreeSet::new()).map(drop)
}
