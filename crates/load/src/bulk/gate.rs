//! Somebody else's say in how fast a mover moves: a limit that many streams share.
//!
//! ```text
//!   mover ── may I move n bytes? ──► Gate ──► yes │ ask again at …
//! ```

use super::{Ended, Patience, Woken};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Alarm;

/// Decides when bytes may move. Asked from many threads.
pub trait Gate: Sync {
    /// Most bytes to ask for at once; none where nothing is limited.
    fn most(&self) -> Option<usize>;

    /// Lets so many bytes through at this time of the monotonic clock, or says when to ask again.
    ///
    /// # Errors
    ///
    /// The time in nanoseconds of the monotonic clock.
    fn pass(&self, bytes: usize, now_ns: u64) -> Result<(), u64>;
}

#[derive(Debug, Clone, Copy)]
pub struct Open;

impl Gate for Open {
    fn most(&self) -> Option<usize> {
        None
    }

    fn pass(&self, _: usize, _: u64) -> Result<(), u64> {
        Ok(())
    }
}

/// Waits until so many bytes may move; what ended the mover before that, if anything.
pub(super) fn wait_for(
    gate: &dyn Gate,
    bytes: usize,
    patience: &Patience<'_>,
) -> Result<Option<Ended>, SysError> {
    wait_until(patience, |now| gate.pass(bytes, now))
}

/// Waits until it passes at a time of the monotonic clock, in nanoseconds; else it says when to ask again.
pub(super) fn wait_until(
    patience: &Patience<'_>,
    mut pass: impl FnMut(u64) -> Result<(), u64>,
) -> Result<Option<Ended>, SysError> {
    let mut nap: Option<Alarm> = None;
    while let Err(at) = pass(monotonic_ns()) {
        let nap = match &mut nap {
            Some(nap) => nap,
            none => none.insert(Alarm::new()?),
        };
        nap.set(Some(at))?;
        if let Woken::End(ended) = patience.until_alarm(nap)? {
            return Ok(Some(ended));
        }
    }
    Ok(None)
}
