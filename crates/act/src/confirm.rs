//! The word that a change is to stay, in time or too late.

use crate::transaction::{holder, namespace, tool};
use crate::{ActError, Lock, Standing, Watchdog, lapsed, list};
use quell_sys::clock::monotonic_ns;
use std::path::Path;

/// Lets a change stay that waits for it. Which interfaces these are.
///
/// # Errors
/// Nothing waits, or the time of one is over; all others are confirmed then.
pub fn confirm(
    folder: &Path,
    device: Option<&str>,
    command: &str,
) -> Result<Vec<String>, ActError> {
    let namespace = namespace()?;
    let _lock = Lock::wait(folder, namespace, &holder(command))?;
    let named = |name: &str| device.is_none_or(|device| device == name);
    let (mut confirmed, mut late) = (Vec::new(), Vec::new());
    for mut log in list(folder, namespace)?.into_iter().filter(|log| named(&log.begun.device)) {
        match log.standing {
            // It has our lock next, or is gone.
            Standing::Awaiting(until) if until <= monotonic_ns() => {
                late.push(match Watchdog::lives(&log) {
                    true => lapsed::words(&log.begun.device, "is being taken back"),
                    false => {
                        let then = format!("stays until `{} recover` takes it back", tool(command));
                        lapsed::words(&log.begun.device, &then)
                    }
                });
            }
            Standing::Awaiting(_) => {
                log.confirmed()?;
                confirmed.push(log.begun.device.clone());
            }
            _ => {}
        }
    }
    if confirmed.is_empty() {
        let before = lapsed::all(folder, namespace).into_iter().filter(|name| named(name));
        late.extend(before.map(|device| lapsed::words(&device, "was taken back")));
    }
    if !late.is_empty() {
        late.extend(confirmed.iter().map(|device| format!("{device}: what is in force stays")));
        return Err(ActError::Nothing(late.join("\n")));
    }
    if confirmed.is_empty() {
        let of = device.map(|d| format!(" of {d}")).unwrap_or_default();
        let tool = tool(command);
        return Err(ActError::Nothing(format!(
            "no change{of} waits to be confirmed; `{tool} status` tells what is in force"
        )));
    }
    Ok(confirmed)
}
