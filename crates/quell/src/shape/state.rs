//! The undo logs, the kernel, and how their failures are told.

use crate::failure::Failure;
use clap::Args;
use quell_act::{ActError, Goal, Kernel, Log, Machine};
use quell_sys::netns::NetNs;
use std::path::PathBuf;

/// Where they are where nobody says otherwise.
pub const USUAL: &str = "/run/quell";

/// Where logs and locks are.
#[derive(Debug, Args)]
pub struct State {
    /// Folder of the undo logs; the default is gone after a reboot, as the queues are
    #[arg(long = "state", value_name = "FOLDER", default_value = USUAL)]
    pub folder: PathBuf,
}

impl State {
    /// All that is in force in this namespace.
    pub fn logs(&self) -> Result<Vec<Log>, Failure> {
        let namespace = NetNs::current().map_err(Failure::system)?.inode();
        quell_act::list(&self.folder, namespace).map_err(failure)
    }

    /// The same, of one interface where one is named.
    pub fn logs_of(&self, kernel: &mut Kernel, device: Option<&str>) -> Result<Vec<Log>, Failure> {
        match device {
            Some(device) => Ok(vec![self.log_of(kernel, device)?]),
            None => self.logs(),
        }
    }

    /// What is in force on an interface.
    pub fn log_of(&self, kernel: &mut Kernel, device: &str) -> Result<Log, Failure> {
        let namespace = NetNs::current().map_err(Failure::system)?.inode();
        let now = kernel.read(&Goal::default()).map_err(Failure::system)?;
        let found = quell_act::log_of(&self.folder, namespace, device, &now).map_err(failure)?;
        if let Some(found) = found {
            return Ok(found);
        }
        let renamed = quell_act::renamed(&self.folder, namespace, device, &now).map_err(failure)?;
        Err(Failure::check(match renamed {
            Some(now) => {
                format!("{device} is named {now} now, with all of Quell's: give --dev {now}")
            }
            None => format!(
                "nothing of Quell's is in force on {device}; first: quell shape apply --dev {device}"
            ),
        }))
    }
}

/// Opens the conversation with the kernel.
pub fn open() -> Result<Kernel, Failure> {
    Kernel::open().map_err(Failure::system)
}

/// The same, to change something: it says at once where that would be refused.
pub fn open_to_change() -> Result<Kernel, Failure> {
    if may_change() {
        return open();
    }
    Err(Failure::system(
        "queues are changed by root alone, or with CAP_NET_ADMIN; nothing was changed: put `sudo` before the same command",
    ))
}

/// Whether this process has CAP_NET_ADMIN, which is number 12. True where that can't be known: then the kernel says.
pub fn may_change() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    bits.is_none_or(|bits| bits & (1 << 12) != 0)
}

/// With which exit code a failure is told.
pub fn failure(error: ActError) -> Failure {
    match error {
        ActError::Foreign(_)
        | ActError::NotAsLeft(_)
        | ActError::OneWay(_)
        | ActError::Changed
        | ActError::Busy { .. }
        | ActError::Unfinished { .. }
        | ActError::Nothing(_) => Failure::check(error),
        _ => Failure::system(error),
    }
}
