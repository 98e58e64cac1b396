//! Children that don't outlive us.

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{getpid, getppid};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The kernel sends this signal to the program when the thread that starts it ends, however that ends (`PR_SET_PDEATHSIG`).
pub fn ends_with_us(command: &mut Command, signal: Signal) {
    let parent = getpid();
    // SAFETY: between fork and exec only calls that are safe in signal handlers are made: prctl and getppid, and nothing is
    // allocated.
    unsafe {
        command.pre_exec(move || {
            set_pdeathsig(signal)?;
            // We may have died before that.
            if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
        });
    }
}
