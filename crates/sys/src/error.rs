//! A system call that failed, with what it was for.

use nix::errno::Errno;
use std::fmt;

/// A failed system call: what was tried, what the kernel answered, and what to do next where that
/// is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysError {
    /// What was tried, on what; completes "could not …".
    pub tried: String,
    pub errno: Errno,
    pub advice: Option<&'static str>,
}

impl SysError {
    pub fn new(tried: impl Into<String>, errno: Errno) -> Self {
        Self { tried: tried.into(), errno, advice: None }
    }

    /// A failure of one of the standard library's calls.
    pub fn io(tried: impl Into<String>, error: &std::io::Error) -> Self {
        Self::new(tried, error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
    }

    #[must_use]
    pub fn advise(mut self, advice: &'static str) -> Self {
        self.advice = Some(advice);
        self
    }
}

impl fmt::Display for SysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}: {:?}, {}", self.tried, self.errno, self.errno.desc())?;
        match self.advice {
            Some(advice) => write!(f, " ({advice})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SysError {}
