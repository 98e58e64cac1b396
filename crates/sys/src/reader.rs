//! When nobody reads what a program prints: it ends as such programs do, by SIGPIPE, and only then.
//!
//! ```text
//!   a socket or a pipe of ours, other end gone   ──► EPIPE, an error like others: SIGPIPE is ignored, as Rust's runtime has it
//!   standard output, reader gone (`| head`)      ──► leave(): ended by SIGPIPE, so that shells see 141
//! ```
//!
//! Were the signal left at its default, any peer that hangs up at the right moment would end the process: `sendfile(2)` knows no
//! `MSG_NOSIGNAL`. Programs that are started get the default again (`std::process`).

use nix::sys::signal::{SigHandler, Signal, raise, signal};
use std::io::{ErrorKind, Write};

/// Prints at once. A reader that is gone ends the process; a terminal or disk that takes no more is the caller's affair.
pub fn print(mut to: impl Write, bytes: &[u8]) -> std::io::Result<()> {
    let done = to.write_all(bytes).and_then(|()| to.flush());
    if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        leave();
    }
    done
}

/// Ends the process as one whose reader is gone.
pub fn leave() -> ! {
    // SAFETY: the default action is a valid handler.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
    let _ = raise(Signal::SIGPIPE);
    // A first process of a namespace is not ended by its own signals.
    std::process::exit(128 + Signal::SIGPIPE as i32)
}
