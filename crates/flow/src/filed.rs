//! What a file at this end had to do with how fast a stream was. Pure.
//!
//! ```text
//!   time of the test    on a CPU │ asleep in the file │ waiting for the connection, what is under way behind the last byte included
//! ```
//!
//! A mover that sleeps in its file most of the time and hardly ever waits for its connection is held up by the disk. One that does both in turn may
//! be held up by either, since the kernel goes on with the connection meanwhile.

use crate::part::{PARTLY, Part};
use quell_load::bulk::AtDisk;
use serde::Serialize;

/// Who waits for the connection for longer is not held up by the file alone.
const HARDLY_WAITS: f64 = 0.05;

/// Parts of the time, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct FileShare {
    /// In calls that read or wrote the file.
    pub share: f64,
    /// Asleep in these at least: all of a CPU's time taken off. None where the kernel does not tell that.
    pub slept_share: Option<f64>,
    /// Waiting for the connection.
    pub waited_share: f64,
}

impl FileShare {
    /// Of a mover between two times of the monotonic clock in nanoseconds; `toil` is the part of its own time in which it wanted a CPU.
    pub(crate) fn of(
        mover: &AtDisk,
        toil: Option<f64>,
        (start_ns, end_ns): (u64, u64),
    ) -> Option<Self> {
        let whole = end_ns.checked_sub(start_ns).filter(|ns| *ns > 0)? as f64;
        let behind_ns = end_ns.saturating_sub(mover.ended_ns.unwrap_or(end_ns));
        let of_whole = |ns: u64| (ns as f64 / whole).min(1.0);
        let share = of_whole(mover.disk_ns);
        let worked = 1.0 - of_whole(behind_ns);
        Some(Self {
            share,
            slept_share: toil.map(|toil| (share - toil * worked).max(0.0)),
            waited_share: of_whole(mover.waited_ns + behind_ns),
        })
    }

    /// Of several streams the mean; none where one has none.
    pub(crate) fn mean(of_each: impl ExactSizeIterator<Item = Option<Self>>) -> Option<Self> {
        let streams = of_each.len().max(1) as f64;
        let all: Option<Vec<Self>> = of_each.collect();
        let all = all.filter(|all| !all.is_empty())?;
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / streams;
        let slept: Option<f64> = all.iter().map(|file| file.slept_share).sum();
        Some(Self {
            share: mean(|file| file.share),
            slept_share: slept.map(|slept| slept / streams),
            waited_share: mean(|file| file.waited_share),
        })
    }

    /// How far the file holds it up, where the connection lacked data or room for `lacked` of the time.
    pub(crate) fn holds(&self, lacked: f64) -> Part {
        let slept = self.slept_share.unwrap_or(self.share);
        let alone = self.slept_share.is_some() && self.waited_share <= HARDLY_WAITS;
        match Part::of(slept) {
            Part::Mostly if alone => Part::Mostly,
            Part::Hardly => Part::Hardly,
            _ if lacked < PARTLY => Part::Hardly,
            _ => Part::Partly,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::{Beside, Held, Limit};

    const S: u64 = 1_000_000_000;

    fn seen(disk_ns: u64, waited_ns: u64, ended_ns: Option<u64>, toil: f64) -> FileShare {
        let mover = AtDisk { disk_ns, waited_ns, ended_ns };
        FileShare::of(&mover, Some(toil), (S, 11 * S)).unwrap()
    }

    #[test]
    fn a_disk_holds_up_what_sleeps_in_it_and_never_waits_for_the_connection() {
        let disk = seen(9 * S, S / 10, None, 0.1);
        assert_eq!((disk.share, disk.waited_share), (0.9, 0.01));
        assert_eq!(disk.holds(0.9), Part::Mostly);
        // Read out of memory: a CPU's time.
        assert_eq!(seen(9 * S, 0, None, 0.95).holds(0.9), Part::Hardly);
        // In turn with the connection, which lacked data: nobody knows. It never did: the disk was fast enough.
        let turns = seen(6 * S, 3 * S, None, 0.1);
        assert_eq!([turns.holds(0.3), turns.holds(0.0)], [Part::Partly, Part::Hardly]);
    }

    #[test]
    fn a_file_that_was_read_at_once_and_sent_for_long_holds_nothing_up() {
        // It was read within a second, and was on its way for nine more.
        let quick = seen(S, 0, Some(2 * S), 0.0);
        assert_eq!((quick.share, quick.waited_share), (0.1, 0.9));
        assert_eq!(quick.holds(0.05), Part::Hardly);
        let all = [Some(quick), Some(seen(3 * S, 0, None, 0.0))];
        assert_eq!(FileShare::mean(all.into_iter()).unwrap().share, 0.2);
        assert_eq!(FileShare::mean([None, Some(quick)].into_iter()), None);
        assert_eq!(FileShare::of(&AtDisk::default(), None, (S, S)), None, "no time");
    }

    #[test]
    fn the_verdict_is_the_file_and_not_a_program_that_is_too_slow() {
        let held = |file, missing| Held {
            no_data: 0.9,
            idle: 0.8,
            seen: true,
            missing,
            file: Some(file),
            ..Held::default()
        };
        let by = |held: Held| held.by(None, Beside::default());
        let disk = seen(9 * S, S / 10, None, 0.1);
        assert_eq!(by(Held { file: None, ..held(disk, None) }), Limit::Sender);
        assert_eq!(by(held(disk, None)), Limit::File);
        assert_eq!(by(held(seen(6 * S, 3 * S, None, 0.1), None)), Limit::Unknown);
        assert_eq!(by(held(disk, Some(0.0))), Limit::Rate, "which was reached");
    }

    #[test]
    fn where_the_kernel_tells_no_cpu_time_it_is_never_the_disk_for_certain() {
        let mover = AtDisk { disk_ns: 9 * S, ..AtDisk::default() };
        let seen = FileShare::of(&mover, None, (S, 11 * S)).unwrap();
        assert_eq!((seen.slept_share, seen.holds(0.9)), (None, Part::Partly));
    }
}
