//! The undo logs, the kernel, and how their failures are told.

use crate::failure::Failure;
use clap::Args;
use quell_act::{ActError, Kernel, Log};
use quell_sys::netns::NetNs;
use std::path::PathBuf;

/// Where logs and locks are.
#[derive(Debug, Args)]
pub struct State {
    /// Folder of the undo logs; the default is gone after a reboot, as the queues are
    #[arg(long = "state", value_name = "FOLDER", default_value = "/run/quell")]
    pub folder: PathBuf,
}

impl State {
    /// All that is in force in this namespace.
    pub fn logs(&self) -> Result<Vec<Log>, Failure> {
        let namespace = NetNs::current().map_err(Failure::system)?.inode();
        quell_act::list(&self.folder, namespace).map_err(failure)
    }

    /// What is in force on an interface.
    pub fn log_of(&self, device: &str) -> Result<Log, Failure> {
        let of_device = |log: &Log| log.begun.device == device;
        self.logs()?.into_iter().find(of_device).ok_or_else(|| {
            Failure::check(format!(
                "nothing of Quell's is in force on {device}; first: quell shape apply --dev {device}"
            ))
        })
    }
}

/// Opens the conversation with the kernel.
pub fn open() -> Result<Kernel, Failure> {
    Kernel::open().map_err(Failure::system)
}

/// With which exit code a failure is told.
pub fn failure(error: ActError) -> Failure {
    match error {
        ActError::Foreign(_)
        | ActError::OneWay(_)
        | ActError::Changed
        | ActError::Busy { .. }
        | ActError::Unfinished { .. }
        | ActError::Nothing(_) => Failure::check(error),
        _ => Failure::system(error),
    }
}
