//! Options that several commands have.

use crate::failure::Failure;
use crate::host;
use clap::{Args, ValueEnum};
use quell_units::Span;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// What carries the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The lab's guest kernel, in virtual time; needs no rights
    Guest,
    /// Namespaces on the running kernel, in real time; needs root or user namespaces
    Host,
}

/// Options of guests.
#[derive(Debug, Clone, Args)]
pub struct Guest {
    /// A ready guest kernel instead of the built one
    #[arg(long, value_name = "FILE")]
    pub kernel_file: Option<PathBuf>,
    /// Memory of each guest in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(64..=65536))]
    pub memory: u32,
    /// Most wall time of one measurement or command
    #[arg(long, value_name = "TIME")]
    pub wall_limit: Option<Span>,
}

/// Where runs are kept.
#[derive(Debug, Args)]
pub struct Place {
    /// Folder of the runs
    #[arg(long = "out", value_name = "FOLDER", default_value = "runs")]
    pub base: PathBuf,
}

impl Place {
    /// Told before anything runs, which may take long: its results need a place.
    pub fn can_be_written(&self) -> Result<(), Failure> {
        let runs = &self.base;
        let there = runs.ancestors().find(|p| p.exists() || p.as_os_str().is_empty());
        let there = match there {
            Some(path) if !path.as_os_str().is_empty() => path,
            _ => Path::new("."),
        };
        if !there.is_dir() {
            let why = format!("{} is a file, not a folder", there.display());
            return Err(refused(runs, "--out", &why));
        }
        let may = nix::unistd::access(there, nix::unistd::AccessFlags::W_OK);
        may.map_err(|e| refused(runs, "--out", e.desc()))
    }
}

/// That this can't be written, which an option names.
pub fn refused(path: &Path, option: &str, why: &str) -> Failure {
    Failure::system(format!(
        "could not write to {}: {why}; choose another with {option}",
        path.display()
    ))
}

/// Which run.
#[derive(Debug, Args)]
pub struct RunName {
    /// The run: its name or folder; the latest where absent
    pub run: Option<String>,
    #[command(flatten)]
    pub place: Place,
}

/// Which runs.
#[derive(Debug, Args)]
pub struct RunNames {
    /// The runs: names or folders; the latest where absent
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    #[command(flatten)]
    pub place: Place,
}

/// Machine-readable output.
#[derive(Debug, Clone, Copy, Args)]
pub struct Json {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which version of IP; both where neither is asked for.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Family {
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long)]
    pub ipv6: bool,
}

impl Family {
    /// What was asked for, or else the version of one's own address.
    pub fn or_that_of(self, own: Option<IpAddr>) -> host::Family {
        match (self.ipv4, self.ipv6, own) {
            (true, ..) => host::Family::V4,
            (_, true, _) => host::Family::V6,
            (.., Some(IpAddr::V4(_))) => host::Family::V4,
            (.., Some(IpAddr::V6(_))) => host::Family::V6,
            (.., None) => host::Family::Any,
        }
    }
}
