//! Another recipe for what is in force, where none of the change's own queues becomes another: what differs is of classes that come and go
//! ([`Guests`](crate::Guests)).
//!
//! ```text
//!   lock ─► what is in force ─► whoever calls looks, and checks ─► write(): the log is another, at one instant ─► it leads what differs
//! ```
//!
//! Whoever is killed between the last two leaves a log that says what is to be, and somebody alive who leads to it: the one who makes such
//! classes. So there is no watchdog, and nothing of the machine is read but what whoever calls reads.

use crate::annex::{self, Annex};
use crate::steps::Machine;
use crate::transaction::{earlier, holder, namespace, nothing_on, refuse_pending, who};
use crate::watchdog::sweep;
use crate::{ActError, Lock, Log};
use std::path::Path;

/// What is in force on an interface, while nobody else may change it.
pub struct Restating {
    _lock: Lock,
    log: Log,
    command: String,
}

impl Restating {
    /// Locks, and reads what is in force.
    ///
    /// # Errors
    /// Nothing of ours is, it waits to be confirmed, or somebody else is at it.
    pub fn begin(
        machine: &mut dyn Machine,
        folder: &Path,
        device: &str,
        command: &str,
    ) -> Result<Self, ActError> {
        let namespace = namespace()?;
        let lock = Lock::take(folder, namespace, &holder(command))?;
        sweep(folder, namespace);
        annex::sweep(folder, namespace);
        let Some(log) = earlier(machine, folder, namespace, device)? else {
            return Err(nothing_on(machine, folder, namespace, device));
        };
        refuse_pending(&log)?;
        Ok(Restating { _lock: lock, log, command: command.to_owned() })
    }

    /// What is in force.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// From now on this is in force.
    ///
    /// # Errors
    /// It could not be written, and the one before stays.
    pub fn write(
        &mut self,
        wanted: String,
        recipe: String,
        annex: Option<&Annex>,
    ) -> Result<(), ActError> {
        if let Some(annex) = annex {
            annex.write(self.log.path())?;
        }
        self.log.restate(who(&self.command), wanted, recipe)
    }
}
