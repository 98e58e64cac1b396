//! The clock of a capture. A step back is taken out, so that packets keep their order, and those behind it the times between them. Pure.
//!
//! ```text
//!   file      10.0  10.1  10.2   7.2   7.3        set back by 3 s: how long it was from 10.2 to 7.2 nobody knows
//!   here      10.0  10.1  10.2  10.2  10.3        at least 0.3 s in all
//!
//!   file      10.00  9.99  10.01  10.00           two clocks in one file: it goes back and forth
//!   here      10.00 10.00  10.01  10.01
//! ```

use crate::time::Time;
use quell_units::Span;

/// Captures on several CPUs swap packets that are no further apart than this.
const SWAPPED: Span = Span::from_millis(3);

/// What the packets of a file say of the time.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// What the file said last, and what that was made of.
    last: Option<(Time, Time)>,
    /// What the file said before it was set back.
    high: Time,
    /// What is added since.
    shift: Span,
    /// How often it was set back by more than captures swap packets.
    pub(crate) steps: u64,
    /// Packets that are earlier than the one before.
    pub(crate) earlier: u64,
}

impl Clock {
    /// The time of a packet, as if the clock had never been set back.
    pub(crate) fn read(&mut self, time: Time) -> Time {
        let (last, now) = self.last.unwrap_or((time, time));
        let (back, ahead) = (last.since(time), time.since(last));
        self.earlier += u64::from(back > Span::ZERO);
        let nanos = self.shift.nanos();
        if back > SWAPPED {
            self.steps += 1;
            self.high = if nanos == 0 { last } else { self.high };
            self.shift = Span::from_nanos(nanos.saturating_add(back.nanos()));
        } else if nanos > 0 && time >= self.high && ahead.nanos() >= nanos / 2 {
            // It went on from where it had been.
            self.shift = now.since(time);
        }
        let now = time.after(self.shift);
        self.last = Some((time, now));
        now
    }

    /// A time, as far as it is known: at least so long after one step back; with several nobody knows.
    pub(crate) fn known(&self, span: Span) -> Option<Span> {
        (self.steps <= 1).then_some(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ms: &[i64]) -> (Vec<i64>, Clock) {
        let mut clock = Clock::default();
        let read = ms.iter().map(|ms| clock.read(Time(ms * 1_000_000)).0 / 1_000_000).collect();
        (read, clock)
    }

    #[test]
    fn behind_a_step_back_time_goes_on_from_where_it_was() {
        let (times, clock) = read(&[10_000, 10_100, 7_100, 7_150, 9_000, 10_090, 10_200]);
        assert_eq!(times, [10_000, 10_100, 10_100, 10_150, 12_000, 13_090, 13_200]);
        assert_eq!((clock.steps, clock.earlier), (1, 1));
        assert_eq!(clock.known(Span::from_millis(3)), Some(Span::from_millis(3)));
        assert_eq!(read(&[10_000, 7_000, 6_000]).1.known(Span::ZERO), None);
    }

    #[test]
    fn packets_that_several_cpus_swapped_are_no_step() {
        let (times, clock) = read(&[10_000, 10_003, 10_001, 10_004]);
        assert_eq!(times, [10_000, 10_003, 10_001, 10_004]);
        assert_eq!((clock.steps, clock.earlier), (0, 1));
    }

    #[test]
    fn two_clocks_in_one_file_make_no_time_of_their_difference() {
        let file: Vec<i64> = (0..100).flat_map(|ms| [10_000 + ms, 9_900 + ms]).collect();
        let (times, clock) = read(&file);
        assert!(times.is_sorted() && times.last() <= Some(&10_100), "{:?}", times.last());
        assert_eq!(clock.known(Span::ZERO), None);
    }
}
