//! What tables of lines have in common: lines with their numbers, figures that must be possible, and steps from rows of a log.

use crate::{SeriesError, Steps};
use quell_units::fmt::plural;
use quell_units::{Rate, Ratio, Span};
use std::io::BufRead;

/// Longest line that is read.
const LONGEST: usize = 64 << 10;
/// Most steps that are held: 12 hours of milliseconds.
pub const MOST_STEPS: usize = 43_200_000;

/// Longest series: a leap year.
pub const LONGEST_SERIES: Span = Span::from_secs(366 * 86_400);

/// Errors where more than [`MOST_STEPS`] were read.
pub fn count(line: u64, steps: usize) -> Result<(), SeriesError> {
    match steps > MOST_STEPS {
        true => Err(SeriesError::at(line, format!("more than {MOST_STEPS} values"))),
        false => Ok(()),
    }
}

/// Calls `each` with every line that has something in it, and its number from 1.
pub fn lines(
    from: impl BufRead,
    mut each: impl FnMut(u64, &str) -> Result<(), SeriesError>,
) -> Result<(), SeriesError> {
    let mut from = from;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = std::io::Read::take(&mut from, LONGEST as u64).read_until(b'\n', &mut line);
        let read = read.map_err(|e| SeriesError::at(number, format!("can't be read: {e}")))?;
        if read == 0 {
            break;
        }
        if read == LONGEST {
            return Err(SeriesError::at(number, format!("is longer than {LONGEST} bytes")));
        }
        let text = std::str::from_utf8(&line).map_err(|_| SeriesError::at(number, "is no text"))?;
        let text = text.trim_start_matches('\u{feff}').trim();
        if !text.is_empty() {
            each(number, text)?;
        }
    }
    Ok(())
}

/// A figure that is not negative and not beyond `most`.
pub fn figure(line: u64, what: &str, text: &str, most: f64) -> Result<f64, SeriesError> {
    match text.trim().parse::<f64>() {
        Ok(value) if (0.0..=most).contains(&value) => Ok(value),
        Ok(_) => Err(SeriesError::at(
            line,
            format!("{what} is {}; possible is 0 to {most}", text.trim()),
        )),
        Err(_) => Err(SeriesError::at(line, format!("{what} is `{}`, and no number", text.trim()))),
    }
}

/// A rate in kbit/s or Mbit/s, as `unit` bits a second. Nothing is faster than 1 Tbit/s.
pub fn rate(line: u64, what: &str, text: &str, unit: f64) -> Result<Rate, SeriesError> {
    let value = figure(line, what, text, 1e12 / unit)?;
    Ok(Rate::from_bps((value * unit).round() as u64))
}

/// A delay, as `unit` nanoseconds. Nothing travels longer than 100 s.
pub fn delay(line: u64, what: &str, text: &str, unit: f64) -> Result<Span, SeriesError> {
    let value = figure(line, what, text, 1e11 / unit)?;
    Ok(Span::from_nanos((value * unit).round() as u64))
}

/// A share of all, from 0 to 1.
pub fn share(line: u64, what: &str, text: &str) -> Result<Ratio, SeriesError> {
    let value = figure(line, what, text, 1.0)?;
    Ratio::from_ppb((value * 1e9).round() as u64)
        .ok_or_else(|| SeriesError::at(line, format!("{what} is {text}")))
}

/// Values with the time at which they were logged, as they come. Each holds until the next.
pub struct LoggedValues<T> {
    values: Vec<(u64, T)>,
    first: Option<u64>,
    /// Rows that went back in time.
    back: u64,
}

impl<T: Copy + PartialEq> LoggedValues<T> {
    pub fn new() -> Self {
        Self { values: Vec::new(), first: None, back: 0 }
    }

    /// Time in nanoseconds, from wherever the log counts.
    pub fn push(&mut self, line: u64, time_ns: u64, value: T) -> Result<(), SeriesError> {
        let first = *self.first.get_or_insert(time_ns);
        let time = time_ns.checked_sub(first);
        if time.is_some_and(|time| time > LONGEST_SERIES.nanos()) {
            return Err(SeriesError::at(line, "is more than a year behind the first"));
        }
        match (time, self.values.last()) {
            (Some(time), last) if last.is_none_or(|(before, _)| *before < time) => {
                self.values.push((time, value))
            }
            // Of two rows of one moment the later one holds.
            (Some(time), Some((before, _))) if *before == time => {
                self.values.pop();
                self.values.push((time, value));
            }
            _ => self.back += 1,
        }
        count(line, self.values.len())
    }

    /// The last value holds as long as the usual one. Gaps of more than ten usual steps are told.
    pub fn steps(self, what: &str, notes: &mut Vec<String>) -> Option<Steps<T>> {
        let mut gaps: Vec<u64> = self.values.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        let last = self.values.last()?.0;
        let usual = match gaps.len() {
            0 => Span::from_secs(1).nanos(),
            count => *gaps.select_nth_unstable(count / 2).1,
        };
        let long: Vec<&[(u64, T)]> =
            self.values.windows(2).filter(|pair| pair[1].0 - pair[0].0 > 10 * usual).collect();
        if let Some(first) = long.first() {
            let (from, to) = (Span::from_nanos(first[0].0), Span::from_nanos(first[1].0));
            notes.push(format!(
                "{what}: {}; in the first, {from} to {to}, the value before it holds",
                plural(long.len() as u64, "gap")
            ));
        }
        if self.back > 0 {
            notes
                .push(format!("{what}: {} left out: its time goes back", plural(self.back, "row")));
        }
        let steps = self.values.into_iter().map(|(at, value)| (Span::from_nanos(at), value));
        Steps::new(steps, Span::from_nanos(last + usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_with_a_gap_and_a_clock_set_back_says_so() {
        let mut log = LoggedValues::new();
        for (line, time) in [0, 1, 2, 3, 4, 60, 61, 5, 62].into_iter().enumerate() {
            log.push(line as u64, 1_000_000_000 * (time + 100), time).expect("it is short");
        }
        let mut notes = Vec::new();
        let steps = log.steps("up", &mut notes).expect("there are values");
        assert_eq!((steps.count(), steps.end()), (8, Span::from_secs(63)));
        assert_eq!(
            notes,
            [
                "up: 1 gap; in the first, 4s to 60s, the value before it holds",
                "up: 1 row left out: its time goes back",
            ]
        );
    }
}
