//! A value that changes in steps and repeats after its end.

use quell_units::{Rate, Ratio, Span};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "StepNumbers", try_from = "StepNumbers")]
#[serde(bound(serialize = "T: StepValue", deserialize = "T: StepValue"))]
pub struct Steps<T> {
    /// Nanoseconds at which each value begins, ascending from 0.
    steps: Vec<(u64, T)>,
    end_ns: u64,
}

/// A series in a file of ours: nanoseconds, and bit/s, nanoseconds or parts of 1,000,000,000.
#[derive(Serialize, Deserialize)]
struct StepNumbers {
    end_ns: u64,
    steps: Vec<(u64, u64)>,
}

/// What a series may be of.
pub trait StepValue: Copy + PartialEq {
    fn number(self) -> u64;
    fn of_number(number: u64) -> Option<Self>;
}

macro_rules! step_value {
    ($type:ident, $number:ident, $of_number:expr) => {
        impl StepValue for $type {
            fn number(self) -> u64 {
                self.$number()
            }

            fn of_number(number: u64) -> Option<Self> {
                $of_number(number)
            }
        }
    };
}

step_value!(Rate, bps, |bps| Some(Rate::from_bps(bps)));
step_value!(Span, nanos, |ns| Some(Span::from_nanos(ns)));
step_value!(Ratio, ppb, Ratio::from_ppb);

impl<T: StepValue> From<Steps<T>> for StepNumbers {
    fn from(steps: Steps<T>) -> Self {
        let numbers = steps.steps.iter().map(|(at, value)| (*at, value.number()));
        Self { end_ns: steps.end_ns, steps: numbers.collect() }
    }
}

impl<T: StepValue> TryFrom<StepNumbers> for Steps<T> {
    type Error = &'static str;

    fn try_from(numbers: StepNumbers) -> Result<Self, Self::Error> {
        let value = |(at, number): (u64, u64)| Some((Span::from_nanos(at), T::of_number(number)?));
        let steps: Option<Vec<_>> = numbers.steps.into_iter().map(value).collect();
        let end = Span::from_nanos(numbers.end_ns);
        steps.and_then(|steps| Self::new(steps, end)).ok_or("these are no steps of a series")
    }
}

impl<T: Copy + PartialEq> Steps<T> {
    /// None where there is no value, the first is not at 0, times do not rise, or the end is not behind the last. Neighbours of one value become one step.
    pub fn new(steps: impl IntoIterator<Item = (Span, T)>, end: Span) -> Option<Self> {
        let mut kept: Vec<(u64, T)> = Vec::new();
        let mut last = None;
        for (at, value) in steps {
            let at = at.nanos();
            if last.map_or(at != 0, |last| at <= last) {
                return None;
            }
            last = Some(at);
            if kept.last().is_none_or(|(_, before)| *before != value) {
                kept.push((at, value));
            }
        }
        (last? < end.nanos()).then_some(Self { steps: kept, end_ns: end.nanos() })
    }

    pub fn constant(value: T, end: Span) -> Option<Self> {
        Self::new([(Span::from_nanos(0), value)], end)
    }

    /// The value at a time, which may lie behind the end.
    pub fn at(&self, time: Span) -> T {
        let time = time.nanos() % self.end_ns;
        self.steps[self.steps.partition_point(|(at, _)| *at <= time) - 1].1
    }

    pub fn end(&self) -> Span {
        Span::from_nanos(self.end_ns)
    }

    /// Beginning, end and value of each step.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Span, Span, T)> {
        (0..self.steps.len()).map(|index| {
            let (from, value) = self.steps[index];
            (Span::from_nanos(from), Span::from_nanos(self.end_of(index)), value)
        })
    }

    /// How many steps it has; at least one.
    pub fn count(&self) -> usize {
        self.steps.len()
    }

    /// When a step begins, in nanoseconds, and its value.
    pub(crate) fn step(&self, index: usize) -> (u64, T) {
        self.steps[index]
    }

    pub(crate) fn end_of(&self, index: usize) -> u64 {
        self.steps.get(index + 1).map_or(self.end_ns, |(next, _)| *next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    #[test]
    fn a_series_repeats_after_its_end() {
        let steps = Steps::new([(ms(0), 1), (ms(10), 2), (ms(20), 2)], ms(30)).expect("it rises");
        let at = |time| steps.at(Span::from_nanos(time));
        assert_eq!(
            [0, 9_999_999, 10_000_000, 29_999_999, 30_000_000, 70_000_000].map(at),
            [1, 1, 2, 2, 1, 2]
        );
        assert_eq!(steps.count(), 2, "20 ms changes nothing");
    }

    #[test]
    fn what_is_no_series_is_refused() {
        let cases: [(&[(u64, u8)], u64); 5] = [
            (&[], 1),
            (&[(1, 0)], 2),
            (&[(0, 0), (0, 1)], 2),
            (&[(0, 0), (5, 1), (4, 2)], 9),
            (&[(0, 0), (5, 1)], 5),
        ];
        for (steps, end) in cases {
            let steps = steps.iter().map(|(at, value)| (ms(*at), *value));
            assert_eq!(Steps::new(steps, ms(end)), None);
        }
    }
}
