//! How much of its time a thread wanted a CPU: on one, or waiting for one. What is left it slept.
//!
//! A thread that moves data sleeps when its socket has no room or no data. One that never sleeps is held up by nothing but its CPU.

use quell_sys::clock::monotonic_ns;
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub struct Toil(Mutex<State>);

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    NotBegun,
    Begun(Begun),
    Ended(Option<f64>),
}

#[derive(Debug, Clone, Copy)]
struct Begun {
    thread: i32,
    at_ns: u64,
    wanted_ns: Option<u64>,
}

impl Toil {
    /// Carries the work out in the calling thread.
    pub fn of<T>(&self, work: impl FnOnce() -> T) -> T {
        let thread = nix::unistd::gettid().as_raw();
        let begun = Begun { thread, at_ns: monotonic_ns(), wanted_ns: wanted_ns(thread) };
        self.set(State::Begun(begun));
        let done = work();
        self.set(State::Ended(begun.share()));
        done
    }

    /// The part of the time since it began, or that it took, in which its thread was on a CPU or waited for one, from 0 to 1. None where it has
    /// not begun, and where the kernel does not tell (without `CONFIG_SCHED_INFO`).
    pub fn share(&self) -> Option<f64> {
        let state = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state {
            State::NotBegun => None,
            State::Begun(begun) => begun.share(),
            State::Ended(share) => share,
        }
    }

    fn set(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

impl Begun {
    fn share(&self) -> Option<f64> {
        let wanted = wanted_ns(self.thread)?.saturating_sub(self.wanted_ns?);
        let wall = monotonic_ns().saturating_sub(self.at_ns);
        (wall > 0).then(|| (wanted as f64 / wall as f64).min(1.0))
    }
}

/// For how long a thread of this process was on a CPU or waited for one (`proc_pid_schedstat`, fs/proc/base.c).
fn wanted_ns(thread: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let mut words = text.split_whitespace().map(|word| word.parse::<u64>().ok());
    Some(words.next()?? + words.next()??)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread::scope;

    #[test]
    fn a_thread_that_calculates_wants_a_cpu_all_the_time_and_one_that_waits_does_not() {
        // A virtual machine is itself without a CPU now and then, which its kernel does not see; and where all are busy one that waits wants one
        // for a while when its wait is over.
        let spells = || std::iter::repeat_with(spell).take(50);
        let good = |[worked, waited]: &[f64; 2]| *worked > 0.9 && waited < &(worked / 2.0);
        assert!(spells().any(|shares| good(&shares)), "{:?}", spells().collect::<Vec<_>>());
    }

    /// Which parts of the time a thread that never sleeps wanted a CPU, and one that waits.
    fn spell() -> [f64; 2] {
        let (working, waiting) = (Toil::default(), Toil::default());
        assert_eq!(working.share(), None, "nothing is known of what has not begun");
        let (over, ends) = channel::<()>();
        let idle = &waiting;
        scope(|scope| {
            scope.spawn(move || idle.of(|| ends.recv()));
            scope.spawn(|| {
                working.of(|| {
                    let until = monotonic_ns() + 100_000_000;
                    while monotonic_ns() < until {}
                });
                drop(over);
            });
        });
        [working.share().unwrap(), waiting.share().unwrap()]
    }
}
