//! The undo logs of a folder, and the kernel beside them.

use crate::CommandError;
use quell_act::{Goal, Kernel, Log, Machine};
use quell_sys::netns::NetNs;
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct UndoLogs {
    pub folder: PathBuf,
}

impl UndoLogs {
    pub fn all(&self) -> Result<Vec<Log>, CommandError> {
        let namespace = NetNs::current().map_err(CommandError::system)?.inode();
        Ok(quell_act::list(&self.folder, namespace)?)
    }

    /// The same, of one interface where one is named.
    pub fn some_of(
        &self,
        kernel: &mut Kernel,
        device: Option<&str>,
    ) -> Result<Vec<Log>, CommandError> {
        match device {
            Some(device) => Ok(vec![self.of(kernel, device)?]),
            None => self.all(),
        }
    }

    pub fn of(&self, kernel: &mut Kernel, device: &str) -> Result<Log, CommandError> {
        let namespace = NetNs::current().map_err(CommandError::system)?.inode();
        let now = kernel.read(&Goal::default()).map_err(CommandError::system)?;
        let found = quell_act::log_of(&self.folder, namespace, device, &now)?;
        if let Some(found) = found {
            return Ok(found);
        }
        let renamed = quell_act::renamed(&self.folder, namespace, device, &now)?;
        Err(CommandError::check(match renamed {
            Some(now) => {
                format!("{device} is named {now} now, with all of Quell's: give --dev {now}")
            }
            None => format!(
                "nothing of Quell's is in force on {device}; first: quell shape apply --dev {device}"
            ),
        }))
    }
}

pub fn open() -> Result<Kernel, CommandError> {
    Kernel::open().map_err(CommandError::system)
}

/// The same, to change something: it says at once where that would be refused.
pub fn open_to_change() -> Result<Kernel, CommandError> {
    if may_change() {
        return open();
    }
    Err(CommandError::system(
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
