//! Quell's own: `t_ms,rate_bps,delay_ms,loss`, a row each change; an empty field is as before. The last row has a time alone: the end.

use super::{SeriesFile, WriteError, table};
use crate::{LineSeries, SeriesError, Steps};
use quell_units::Span;
use std::io::{BufRead, Write};

const HEADER: &str = "t_ms,rate_bps,delay_ms,loss";

pub fn read(from: impl BufRead) -> Result<SeriesFile, SeriesError> {
    let (mut rates, mut delays, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    let (mut end, mut ended) = (None::<Span>, false);
    table::lines(from, |line, text| {
        if text == HEADER {
            return Ok(());
        }
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if fields.len() > 4 {
            return Err(SeriesError::at(
                line,
                format!("has {} fields; they are {HEADER}", fields.len()),
            ));
        }
        let time = table::figure(line, "t_ms", fields[0], table::LONGEST_SERIES.as_millis_f64())?;
        let time = Span::from_nanos((time * 1e6).round() as u64);
        if ended || end.is_some_and(|end| time <= end) {
            return Err(SeriesError::at(
                line,
                format!("{} ms does not come after the row before it", fields[0]),
            ));
        }
        end = Some(time);
        let field = |at: usize| fields.get(at).copied().filter(|text| !text.is_empty());
        if let Some(text) = field(1) {
            rates.push((time, table::rate(line, "rate_bps", text, 1.0)?));
        }
        if let Some(text) = field(2) {
            delays.push((time, table::delay(line, "delay_ms", text, 1e6)?));
        }
        if let Some(text) = field(3) {
            losses.push((time, table::share(line, "loss", text)?));
        }
        table::count(line, rates.len().max(delays.len()).max(losses.len()))?;
        ended = (1..4).all(|at| field(at).is_none());
        Ok(())
    })?;
    let end = end.filter(|_| ended).ok_or_else(|| {
        SeriesError::whole("its last row is to have a time alone: the end of the series")
    })?;
    let steps = SeriesError::whole(format!(
        "the first row begins at 0 and holds what the series is of: {HEADER}"
    ));
    let line = LineSeries {
        rate: column(rates, end).map_err(|()| steps.clone())?,
        delay: column(delays, end).map_err(|()| steps.clone())?,
        loss: column(losses, end).map_err(|()| steps.clone())?,
        trains: Vec::new(),
    };
    match line == LineSeries::default() {
        true => Err(steps),
        false => Ok(SeriesFile { down: Some(line), ..SeriesFile::default() }),
    }
}

fn column<T: Copy + PartialEq>(values: Vec<(Span, T)>, end: Span) -> Result<Option<Steps<T>>, ()> {
    match values.is_empty() {
        true => Ok(None),
        false => Steps::new(values, end).map(Some).ok_or(()),
    }
}

pub fn write(series: &LineSeries, to: &mut dyn Write) -> Result<Vec<String>, WriteError> {
    let ends = [
        series.rate.as_ref().map(Steps::end),
        series.delay.as_ref().map(Steps::end),
        series.loss.as_ref().map(Steps::end),
    ];
    let end = ends
        .into_iter()
        .flatten()
        .max()
        .ok_or_else(|| WriteError::Lacks("the series is empty".to_owned()))?;
    let mut times: Vec<Span> = changes(series.rate.as_ref(), end)?;
    times.extend(changes(series.delay.as_ref(), end)?);
    times.extend(changes(series.loss.as_ref(), end)?);
    times.sort_unstable();
    times.dedup();
    writeln!(to, "{HEADER}")?;
    let mut before = [const { String::new() }; 3];
    for time in times {
        let now = [
            series.rate.as_ref().map_or(String::new(), |s| s.at(time).bps().to_string()),
            series.delay.as_ref().map_or(String::new(), |s| s.at(time).as_millis_f64().to_string()),
            series.loss.as_ref().map_or(String::new(), |s| s.at(time).as_f64().to_string()),
        ];
        let cell = |at: usize| if now[at] == before[at] { "" } else { now[at].as_str() };
        let row = format!("{},{},{},{}", time.as_millis_f64(), cell(0), cell(1), cell(2));
        if row.ends_with(",,,") {
            continue;
        }
        writeln!(to, "{row}")?;
        before = now;
    }
    writeln!(to, "{}", end.as_millis_f64())?;
    Ok(match series.trains.is_empty() {
        true => Vec::new(),
        false => vec!["packet trains are left out: the format has no place for them".to_owned()],
    })
}

/// When it changes until `end`; it repeats until then.
fn changes<T: Copy + PartialEq>(
    steps: Option<&Steps<T>>,
    end: Span,
) -> Result<Vec<Span>, WriteError> {
    let Some(steps) = steps else { return Ok(Vec::new()) };
    let rounds = end.nanos().div_ceil(steps.end().nanos());
    WriteError::count(u128::from(rounds) * steps.count() as u128)?;
    let of = |round: u64| {
        steps.iter().map(move |(at, ..)| Span::from_nanos(round * steps.end().nanos() + at.nanos()))
    };
    Ok((0..rounds).flat_map(of).filter(|at| *at < end).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_units::Rate;

    #[test]
    fn an_empty_field_is_as_before_and_what_is_written_is_read_back() {
        let text = "t_ms,rate_bps,delay_ms,loss\n0,10000000,20,\n1.5,,25.5,\n4,2000000,,\n10\n";
        let down = read(text.as_bytes()).expect("it is a series").down.expect("one direction");
        assert_eq!(down.rate.as_ref().map(Steps::mean), Some(Rate::from_bps(5_200_000)));
        assert_eq!(down.loss, None, "what is never told is unknown");
        let mut again = Vec::new();
        write(&down, &mut again).expect("memory takes it");
        assert_eq!(String::from_utf8_lossy(&again), text);
    }

    #[test]
    fn bad_rows_are_named() {
        for (text, error) in [
            ("0,-5\n1\n", "line 1: rate_bps is -5; possible is 0 to 1000000000000"),
            ("0,5,,1.5\n1\n", "line 1: loss is 1.5; possible is 0 to 1"),
            ("0,5\n0,6\n1\n", "line 2: 0 ms does not come after the row before it"),
            ("0,5\n", "its last row is to have a time alone: the end of the series"),
            (
                "1,5\n2\n",
                "the first row begins at 0 and holds what the series is of: t_ms,rate_bps,delay_ms,loss",
            ),
            ("0,fast\n1\n", "line 1: rate_bps is `fast`, and no number"),
        ] {
            assert_eq!(read(text.as_bytes()).expect_err("it is refused").to_string(), error);
        }
    }
}
