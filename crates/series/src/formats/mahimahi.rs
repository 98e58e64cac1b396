//! Mahimahi's `.up` and `.down` (also LeoCC's `bw_N` and CellReplay's heavy opportunities): a line a packet of 1500 bytes, the millisecond in which it
//! may leave, never falling. The last line is the length; then it repeats.
//!
//! Opportunities of a millisecond become its rate: the line carries the same bytes by the end of each millisecond.

use super::{Format, SeriesFile, WriteError, table};
use crate::{LineSeries, SeriesError, Steps};
use quell_units::{Rate, Span};
use std::io::{BufRead, Write};

/// What one opportunity carries, within a millisecond: 1500 bytes.
const OPPORTUNITY: u64 = 12_000_000;

pub fn read(from: impl BufRead) -> Result<SeriesFile, SeriesError> {
    let mut counts: Vec<(u64, u64)> = Vec::new();
    table::lines(from, |line, text| {
        let ms = text.parse::<u64>().ok().filter(|ms| *ms <= table::MOST_STEPS as u64);
        let ms = ms.ok_or_else(|| {
            SeriesError::at(line, format!("`{text}` is no millisecond below 12 h"))
        })?;
        match counts.last_mut() {
            Some((last, count)) if *last == ms => *count += 1,
            Some((last, _)) if *last > ms => {
                return Err(SeriesError::at(line, format!("{ms} ms comes after {last} ms")));
            }
            _ => counts.push((ms, 1)),
        }
        Ok(())
    })?;
    let length = counts.last().map_or(0, |(last, _)| *last);
    if length == 0 {
        return Err(SeriesError::whole(
            "a series lasts longer than 0 ms, and its last line is its length",
        ));
    }
    // What may leave at the end of a round may leave at its beginning: 0 ms and the last are one moment of what repeats. A line of Mahimahi's is the
    // end of the millisecond in which the bytes passed.
    let mut steps = Vec::new();
    let mut next = 0;
    for (ms, count) in &counts {
        let begin = ms.saturating_sub(1);
        if *ms > 0 && begin > next {
            steps.push((Span::from_millis(next), Rate::from_bps(0)));
        }
        match (ms, steps.last_mut()) {
            (1, Some((at, rate))) if at.is_zero() => {
                *rate = Rate::from_bps(rate.bps() + count * OPPORTUNITY)
            }
            _ => steps.push((Span::from_millis(begin), Rate::from_bps(count * OPPORTUNITY))),
        }
        next = (*ms).max(1);
    }
    let rate = Steps::new(steps, Span::from_millis(length));
    Ok(SeriesFile {
        down: Some(LineSeries { rate, ..LineSeries::default() }),
        ..SeriesFile::default()
    })
}

/// An opportunity stands at the end of the millisecond by which its 1500 bytes have passed.
pub fn write(series: &LineSeries, to: &mut dyn Write) -> Result<Vec<String>, WriteError> {
    let rate = series.rate.as_ref().ok_or_else(|| WriteError::lacks("rate", Format::Mahimahi))?;
    let length = rate.end().nanos().div_ceil(1_000_000);
    let (mut written, mut last) = (0, 0);
    let times = (1..=length).map(|ms| Span::from_millis(ms).min(rate.end()));
    WriteError::count(rate.bits_until(rate.end()) / 12_000)?;
    for (ms, passed) in (1..).zip(rate.bits_at(times)) {
        let passed = passed / 12_000;
        for _ in written..passed {
            writeln!(to, "{ms}")?;
            last = ms;
        }
        written = passed;
    }
    if last == 0 {
        return Err(WriteError::Lacks("no packet passes in all its time".into()));
    }
    let mut notes = left_out(series, &["delay", "loss"]);
    if last < length {
        notes.push(format!(
            "the last {} ms are left out: no packet passes in them, and Mahimahi's last line is the length",
            length - last
        ));
    }
    Ok(notes)
}

/// Sentences about what a format has no place for.
pub fn left_out(series: &LineSeries, what: &[&str]) -> Vec<String> {
    let has = |name: &str| match name {
        "rate" => series.rate.is_some(),
        "delay" => series.delay.is_some(),
        "loss" => series.loss.is_some(),
        _ => false,
    };
    what.iter()
        .filter(|name| has(name))
        .map(|name| format!("the {name} is left out: the format has no place for it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_opportunities_of_a_millisecond_are_36_mbit() {
        let file = read("1\n1\n1\n4\n".as_bytes()).expect("it is Mahimahi's");
        let rate = file.down.and_then(|down| down.rate).expect("it has rates");
        let steps: Vec<(u64, u64)> =
            rate.iter().map(|(at, _, rate)| (at.nanos() / 1_000_000, rate.bps())).collect();
        assert_eq!(steps, [(0, 36_000_000), (1, 0), (3, 12_000_000)]);
        assert_eq!(
            rate.bits_until(Span::from_millis(8)),
            2 * 4 * 12_000,
            "eight packets in two rounds"
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["1\n1\n3\n5\n", "2\n2\n2\n", "1\n10\n"] {
            let file = read(text.as_bytes()).expect("it is Mahimahi's");
            let mut again = Vec::new();
            write(&file.down.expect("one direction"), &mut again).expect("memory takes it");
            assert_eq!(String::from_utf8_lossy(&again), text);
        }
    }

    #[test]
    fn a_time_at_the_end_in_which_no_packet_passes_is_left_out_and_said() {
        let steps =
            [(Span::ZERO, Rate::from_bps(12_000_000)), (Span::from_millis(5), Rate::from_bps(1))];
        let rate = Steps::new(steps, Span::from_millis(8));
        let (line, mut text) = (LineSeries { rate, ..LineSeries::default() }, Vec::new());
        let notes = write(&line, &mut text).expect("memory takes it");
        assert_eq!(String::from_utf8_lossy(&text), "1\n2\n3\n4\n5\n");
        assert!(notes[0].starts_with("the last 3 ms are left out"), "{notes:?}");
    }

    #[test]
    fn impossible_lines_are_named() {
        for (text, error) in [
            ("5\n3\n", "line 2: 3 ms comes after 5 ms"),
            ("-1\n", "line 1: `-1` is no millisecond below 12 h"),
            ("0\n0\n", "a series lasts longer than 0 ms, and its last line is its length"),
            ("", "a series lasts longer than 0 ms, and its last line is its length"),
        ] {
            assert_eq!(read(text.as_bytes()).expect_err("it is refused").to_string(), error);
        }
    }
}
