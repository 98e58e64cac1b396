//! This program as a watchdog over a change.

use quell_act::{ActError, Log, Watchdog};
use std::process::Command;

/// The inner command that watches.
pub const WATCHDOG: &str = "shape-watchdog";

/// This program as a watchdog.
pub fn watchdog(log: &Log, limit_ns: u64) -> Result<Watchdog, ActError> {
    // It changes to another folder; the log itself is not there yet.
    let path = std::path::absolute(log.path()).map_err(|e| ActError::NoWatchdog(e.to_string()))?;
    // Also where the file was replaced since this process was started.
    let mut command = Command::new("/proc/self/exe");
    let who = &log.begun.who;
    let numbers = [who.pid.to_string(), who.at.to_string(), limit_ns.to_string()];
    command.arg(WATCHDOG).arg(path).args(numbers);
    Watchdog::start(command)
}
