//! CellReplay's light opportunities (Sentosa and others, NSDI 2025): `time delay offset offset …` in milliseconds. A train came to an idle line at that
//! time; its first packet arrived after the delay, the others so much later. Its heavy opportunities are a file of Mahimahi's kind.

use super::mahimahi::left_out;
use super::table::{self, LoggedValues};
use super::{Format, SeriesFile, WriteError};
use crate::{LineSeries, PacketTrain, SeriesError};
use quell_units::Span;
use std::io::{BufRead, Write};

pub fn read(from: impl BufRead) -> Result<SeriesFile, SeriesError> {
    let (mut delays, mut trains, mut first) = (LoggedValues::new(), Vec::new(), None);
    let mut arrivals = 0;
    table::lines(from, |line, text| {
        let mut words = text.split_whitespace();
        let mut next =
            |what| words.next().ok_or_else(|| SeriesError::at(line, format!("has no {what}")));
        let at = table::delay(line, "the time", next("time")?, 1e6)?;
        let delay = table::delay(line, "the delay", next("delay")?, 1e6)?;
        let offsets = words
            .map(|word| table::delay(line, "an arrival", word, 1e6))
            .collect::<Result<Vec<_>, _>>()?;
        arrivals += offsets.len();
        table::count(line, arrivals)?;
        let first = *first.get_or_insert(at);
        delays.push(line, at.nanos(), delay)?;
        trains.push(PacketTrain { at: at.saturating_sub(first), offsets });
        Ok(())
    })?;
    let mut notes = Vec::new();
    let delay = delays.steps("delay", &mut notes);
    if delay.is_none() {
        return Err(SeriesError::whole("there is no train in it"));
    }
    Ok(SeriesFile {
        down: Some(LineSeries { delay, trains, ..LineSeries::default() }),
        notes,
        ..SeriesFile::default()
    })
}

pub fn write(series: &LineSeries, to: &mut dyn Write) -> Result<Vec<String>, WriteError> {
    let delay = series.delay.as_ref().filter(|_| !series.trains.is_empty());
    let delay = delay.ok_or_else(|| WriteError::lacks("trains", Format::CellreplayLight))?;
    let ms = |span: Span| span.nanos() / 1_000_000;
    for train in &series.trains {
        write!(to, "{} {}", ms(train.at), ms(delay.at(train.at)))?;
        for offset in &train.offsets {
            write!(to, " {}", ms(*offset))?;
        }
        writeln!(to)?;
    }
    Ok(left_out(series, &["rate", "loss"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_train_at_an_idle_line_is_kept_beside_the_delay() {
        let text = "0 24 0 0 1 5\n50 30 0 2\n100 24 0 1\n";
        let down = read(text.as_bytes()).expect("it is CellReplay's").down.expect("one direction");
        assert_eq!(down.trains[0].offsets.last(), Some(&Span::from_millis(5)));
        assert_eq!(
            down.delay.as_ref().map(|d| d.at(Span::from_millis(60))),
            Some(Span::from_millis(30))
        );
        let mut again = Vec::new();
        write(&down, &mut again).expect("memory takes it");
        assert_eq!(String::from_utf8_lossy(&again), text);
    }
}
