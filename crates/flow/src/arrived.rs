//! Tells when an amount has come that several streams carry together: no stream knows by itself when the test is over.

use quell_load::bulk::Gate;
use quell_sys::wait::Bell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rings when so many bytes have come on all streams; lets everything through.
pub(crate) struct Arrived<'a> {
    left: AtomicU64,
    bell: &'a Bell,
}

impl<'a> Arrived<'a> {
    /// After so many bytes.
    pub fn after(bytes: u64, bell: &'a Bell) -> Self {
        Self { left: AtomicU64::new(bytes), bell }
    }
}

impl Gate for Arrived<'_> {
    fn most(&self) -> Option<usize> {
        None
    }

    fn pass(&self, bytes: usize, _now_ns: u64) -> Result<(), u64> {
        let less = |left: u64| Some(left.saturating_sub(bytes as u64));
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if before.is_ok_and(|left| left > 0 && left <= bytes as u64) {
            self.bell.ring();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_once_when_the_last_byte_has_come() {
        let bell = Bell::new().unwrap();
        let arrived = Arrived::after(1000, &bell);
        for (bytes, rings) in [(400, false), (599, false), (300, true), (300, false), (0, false)] {
            assert_eq!((arrived.pass(bytes, 0), bell.rings()), (Ok(()), rings), "{bytes}");
            bell.silence();
        }
    }
}
