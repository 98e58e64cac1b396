//! Moments, as captures write them, and their clock.
//!
//! The clock of a capture. A step back is taken out, so that packets keep their order, and those behind it the times between them. Pure.
//!
//! ```text
//!   file      10.0  10.1  10.2   7.2   7.3        set back by 3 s: how long it was from 10.2 to 7.2 nobody knows
//!   here      10.0  10.1  10.2  10.2  10.3        at least 0.3 s in all
//!
//!   file      10.00  9.99  10.01  10.00           two clocks in one file: it goes back and forth
//!   here      10.00 10.00  10.01  10.01
//! ```

use quell_units::Span;
use serde::Serialize;

/// A moment: nanoseconds since 1970, or since whatever the capturing machine counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// The time from `earlier` to this, zero if `earlier` is later: a clock may have been set back.
    pub fn since(self, earlier: Self) -> Span {
        let nanos = i128::from(self.0) - i128::from(earlier.0);
        Span::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// The moment that much later.
    pub(crate) fn after(self, span: Span) -> Self {
        Time(self.0.saturating_add(i64::try_from(span.nanos()).unwrap_or(i64::MAX)))
    }

    /// The moment that long ago.
    pub(crate) fn before(self, span: Span) -> Self {
        Time(self.0.saturating_sub(i64::try_from(span.nanos()).unwrap_or(i64::MAX)))
    }
}

/// A span as milliseconds, for JSON.
pub(crate) fn millis<S: serde::Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(span.as_millis_f64())
}

/// A span that may be missing as milliseconds or null, for JSON.
pub(crate) fn millis_or_null<S: serde::Serializer>(
    span: &Option<Span>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => to.serialize_f64(span.as_millis_f64()),
        None => to.serialize_none(),
    }
}

/// Captures on several CPUs swap packets that are no further apart than this.
const SWAPPED: Span = Span::from_millis(3);

/// What the packets of a file say of the time.
#[derive(Debug, Default)]
pub(crate) struct CaptureClock {
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

impl CaptureClock {
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

    #[test]
    fn a_clock_that_was_set_back_gives_no_time_at_all() {
        assert_eq!(Time(5).since(Time(3)), Span::from_nanos(2));
        assert_eq!(Time(3).since(Time(5)), Span::ZERO);
        assert_eq!(Time(i64::MAX).since(Time(i64::MIN)), Span::MAX);
    }

    fn read(ms: &[i64]) -> (Vec<i64>, CaptureClock) {
        let mut clock = CaptureClock::default();
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
