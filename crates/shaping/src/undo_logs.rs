//! The undo logs of a folder, and the kernel beside them.

use crate::ShapingError;
use quell_act::{Goal, Kernel, Log, Machine};
use quell_sys::netns::NetNs;
use std::path::PathBuf;

/// Where they are where nobody says otherwise; gone after a reboot, as the queues are.
pub const DEFAULT_FOLDER: &str = "/run/quell";

/// Where logs and locks are.
#[derive(Debug, Clone)]
pub struct UndoLogs {
    pub folder: PathBuf,
}

impl UndoLogs {
    /// All that is in force in this namespace.
    pub fn all(&self) -> Result<Vec<Log>, ShapingError> {
        let namespace = NetNs::current().map_err(ShapingError::system)?.inode();
        Ok(quell_act::list(&self.folder, namespace)?)
    }

    /// The same, of one interface where one is named.
    pub fn some_of(
        &self,
        kernel: &mut Kernel,
        device: Option<&str>,
    ) -> Result<Vec<Log>, ShapingError> {
        match device {
            Some(device) => Ok(vec![self.of(kernel, device)?]),
            None => self.all(),
        }
    }

    /// What is in force on an interface.
    pub fn of(&self, kernel: &mut Kernel, device: &str) -> Result<Log, ShapingError> {
        let namespace = NetNs::current().map_err(ShapingError::system)?.inode();
        let now = kernel.read(&Goal::default()).map_err(ShapingError::system)?;
        let found = quell_act::log_of(&self.folder, namespace, device, &now)?;
        if let Some(found) = found {
            return Ok(found);
        }
        let renamed = quell_act::renamed(&self.folder, namespace, device, &now)?;
        Err(ShapingError::check(match renamed {
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
pub fn open() -> Result<Kernel, ShapingError> {
    Kernel::open().map_err(ShapingError::system)
}

/// The same, to change something: it says at once where that would be refused.
pub fn open_to_change() -> Result<Kernel, ShapingError> {
    if may_change() {
        return open();
    }
    Err(ShapingError::system(
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
