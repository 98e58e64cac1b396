//! Guests: a lab kernel that runs one program as its first process, on one CPU, until it powers off.
//!
//! ```text
//!   host                                         guest
//!   boot(spec) ── supervising thread             root: the host's files, read-only
//!       │             │ waits, ends it           /mnt: spec.dir, writable
//!       ▼             ▼                          init: spec.init
//!   Guest ◄────── kernel process ──ptrace──► one host process per program
//! ```
//!
//! A guest ends with whoever booted it: the kernel process dies with the supervising thread, and its processes die with it,
//! whatever kills them. In virtual time the clock jumps whenever everybody waits.
//!
//! **Repeatable.** Kernel, memory, seed and the guest's program decide what happens in virtual time, and nothing else: the
//! folder comes in as the kernel process's working directory and the program as one of its open files, so that neither is seen on
//! the command line; the environment is empty, addresses are not randomised, and the console is null.

mod boot;
mod confine;
pub mod init;
mod watch;

pub use boot::boot;
pub use watch::{Guest, GuestExit};

use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// It jumps to the next event when everybody waits. What a program computes takes no time, so one that spins until time
    /// passes hangs.
    Virtual,
    Real,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Console {
    /// Nothing is read, and what is written is lost. Why a kernel panicked is still told.
    Null,
    /// The caller's standard input and output. Such a guest is not repeatable, and a clock that jumps does not wait for
    /// anybody who types: use it with [`Clock::Real`].
    Inherit,
}

#[derive(Debug, Clone)]
pub struct GuestSpec {
    /// The kernel, from [`kernel::find`](crate::kernel::find).
    pub kernel: PathBuf,
    /// Memory in MiB. What the guest does not use costs nothing.
    pub memory_mib: u32,
    /// All of the kernel's randomness comes from it.
    pub seed: u64,
    /// The program to run as the first process.
    pub init: PathBuf,
    /// Its arguments; without spaces, since the kernel splits its command line there.
    pub arguments: Vec<String>,
    /// The host's folder that the guest finds at [`init::SHARED`], writable.
    pub dir: PathBuf,
    /// When it is ended by force, by the host's clock.
    pub wall_limit: Duration,
    /// The CPU that it stays on. System calls are three to four times slower on a guest that moves about.
    pub cpu: Option<usize>,
    pub clock: Clock,
    pub console: Console,
}

#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error("the guest's {part} {}: {error}", .path.display())]
    Part { part: &'static str, path: PathBuf, error: std::io::Error },
    #[error(
        "the guest's argument {argument:?} can't go through a kernel's command line: it has spaces, quotes or is empty"
    )]
    Argument { argument: String },
    #[error("a guest with {0} MiB of memory does not boot; give it at least {MINIMUM_MIB} MiB")]
    Memory(u32),
    #[error("starting the guest kernel {}: {error}", .path.display())]
    Start { path: PathBuf, error: std::io::Error },
    #[error("watching over a guest: {0}")]
    Watch(std::io::Error),
}

/// The kernel itself and its tables take about 20 MiB.
const MINIMUM_MIB: u32 = 32;
