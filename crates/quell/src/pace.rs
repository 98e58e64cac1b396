//! Reading something again and again, at even times, until Ctrl-C.

use crate::failure::Failure;
use crate::interrupt;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, Bell, readable, wait};
use quell_units::Span;
use std::sync::Arc;

/// Shorter times than this tell nothing.
const LEAST_NS: u64 = 10_000_000;

pub struct Pace {
    every_ns: u64,
    stop: Arc<Bell>,
    alarm: Alarm,
    due_ns: u64,
}

impl Pace {
    pub fn new(every: Span) -> Result<Self, Failure> {
        if every.nanos() < LEAST_NS {
            return Err(Failure::usage(format!(
                "{every} is too short to tell anything per second: take 10ms or more"
            )));
        }
        let stop = interrupt::bell()?;
        let alarm = Alarm::new().map_err(Failure::system)?;
        Ok(Pace { every_ns: every.nanos(), stop, alarm, due_ns: monotonic_ns() })
    }

    /// Waits until the next reading is due; false when it is to end.
    pub fn pause(&mut self) -> Result<bool, Failure> {
        self.due_ns = (self.due_ns + self.every_ns).max(monotonic_ns());
        self.alarm.set(Some(self.due_ns)).map_err(Failure::system)?;
        wait(&mut [readable(&*self.stop), readable(&self.alarm)]).map_err(Failure::system)?;
        Ok(!self.stop.rings())
    }
}
