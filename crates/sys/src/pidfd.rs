//! A process as a descriptor: waiting for its end in the kernel, and a signal that can't reach another process of the same number.
//!
//! ```text
//!   pidfd_open(2) ──► readable once the process has ended ──► wait::wait over it and whatever else may come first
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// The descriptor of a child that was not waited for yet. Needs Linux 5.3.
pub fn open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers; a descriptor that it gives is ours.
    unsafe {
        match libc::syscall(libc::SYS_pidfd_open, pid, 0) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd as i32)),
        }
    }
}

/// Ends the process by force; one that has ended stays as it is.
pub fn kill(process: &impl AsFd) {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open and no information is handed over. It fails only when the process has ended.
    unsafe {
        let fd = process.as_fd().as_raw_fd();
        libc::syscall(libc::SYS_pidfd_send_signal, fd, libc::SIGKILL, none, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{readable, wait};

    #[test]
    fn the_end_of_a_child_is_waited_for_in_the_kernel() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat is on every system");
        let process = open(child.id()).unwrap();
        kill(&process);
        wait(&mut [readable(&process)]).unwrap();
        let status = child.try_wait().unwrap().expect("it has ended");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
        // Nobody is there any more, and nobody else is hit.
        kill(&process);
    }
}
