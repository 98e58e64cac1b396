//! LeoCC's `delay_N.txt`: line *i* is the delay one way, in milliseconds, of the *i*-th 10 ms. Its `bw_N.txt` is of Mahimahi's kind.

use super::mahimahi::left_out;
use super::{Format, SeriesFile, WriteError, table};
use crate::{LineSeries, SeriesError, Steps};
use quell_units::Span;
use std::io::{BufRead, Write};

const STEP: Span = Span::from_millis(10);

pub fn read(from: impl BufRead) -> Result<SeriesFile, SeriesError> {
    let mut delays = Vec::new();
    table::lines(from, |line, text| {
        delays.push(table::delay(line, "the delay", text, 1e6)?);
        table::count(line, delays.len())
    })?;
    let end = STEP.saturating_mul(delays.len() as u64);
    let steps = delays
        .into_iter()
        .enumerate()
        .map(|(index, delay)| (STEP.saturating_mul(index as u64), delay));
    let delay =
        Steps::new(steps, end).ok_or_else(|| SeriesError::whole("there is no delay in it"))?;
    Ok(SeriesFile {
        down: Some(LineSeries { delay: Some(delay), ..LineSeries::default() }),
        ..SeriesFile::default()
    })
}

/// The delay at the beginning of each 10 ms, rounded to milliseconds.
pub fn write(series: &LineSeries, to: &mut dyn Write) -> Result<Vec<String>, WriteError> {
    let delay =
        series.delay.as_ref().ok_or_else(|| WriteError::lacks("delay", Format::LeoccDelay))?;
    let lines = delay.end().nanos().div_ceil(STEP.nanos());
    WriteError::count(lines.into())?;
    for index in 0..lines {
        writeln!(to, "{:.0}", delay.at(STEP.saturating_mul(index)).as_millis_f64())?;
    }
    Ok(left_out(series, &["rate", "loss"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_ten_milliseconds() {
        let down =
            read("24\n18\n18\n".as_bytes()).expect("it is LeoCC's").down.expect("one direction");
        let delay = down.delay.clone().expect("it has delays");
        assert_eq!(
            [0, 9, 10, 29, 30].map(|ms| delay.at(Span::from_millis(ms)).nanos() / 1_000_000),
            [24, 24, 18, 18, 24]
        );
        let mut again = Vec::new();
        write(&down, &mut again).expect("memory takes it");
        assert_eq!(again, b"24\n18\n18\n");
        assert!(
            read("24\n-3\n".as_bytes())
                .expect_err("no delay is negative")
                .to_string()
                .starts_with("line 2: the delay is -3")
        );
    }
}
