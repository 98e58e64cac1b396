//! Writing where the reader may be gone: an error (EPIPE) instead of the end of the program, whatever it does about SIGPIPE.
//!
//! The kernel sends SIGPIPE to the thread that wrote. For the time of the writing that thread holds it back, and takes it away before it
//! lets signals in again. Other threads, and a program's own choice for the signal, are not touched.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::io;

/// Does some writing; a reader that is gone is an error of the kind [`io::ErrorKind::BrokenPipe`] and no signal.
pub fn quietly<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    let before = pipe.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let written = write();
    if !before.contains(Signal::SIGPIPE) {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the set and the time live longer than the call, and no information is asked for. It fails where no signal waits.
        unsafe {
            libc::sigtimedwait(pipe.as_ref(), std::ptr::null_mut(), &raw const now);
        }
        before.thread_set_mask()?;
    }
    written
}
