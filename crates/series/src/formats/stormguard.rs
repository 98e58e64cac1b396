//! The diagnostic log of LibreQoS' StormGuard: CSV with `;`, a row each site and direction.
//!
//! The queue's rate is what it set; the rate that is taken is the higher of that and of the throughput. Its RTT is both ways together: half of it is taken as
//! the delay of each.

use super::SeriesFile;
use super::table::{self, LoggedValues};
use crate::{LineSeries, SeriesError};
use quell_units::Span;
use quell_units::fmt::plural;
use std::io::BufRead;

pub fn read(from: impl BufRead) -> Result<SeriesFile, SeriesError> {
    let (mut header, mut site, mut others) = (Vec::new(), None::<String>, 0_u64);
    let mut rates = [LoggedValues::new(), LoggedValues::new()];
    let mut delays = [LoggedValues::new(), LoggedValues::new()];
    table::lines(from, |line, text| {
        let fields = fields(text);
        if fields.first().is_some_and(|first| first == "schema_version") {
            header = fields;
            return Ok(());
        }
        let get = |name: &str| {
            header
                .iter()
                .position(|n| n == name)
                .and_then(|at| fields.get(at))
                .filter(|text| !text.is_empty())
        };
        let need =
            |name: &str| get(name).ok_or_else(|| SeriesError::at(line, format!("has no {name}")));
        let this = need("site")?;
        if site.get_or_insert_with(|| this.clone()) != this {
            others += 1;
            return Ok(());
        }
        let time = (table::figure(line, "timestamp_unix_ms", need("timestamp_unix_ms")?, 1e14)?
            * 1e6) as u64;
        let index = usize::from(need("direction")? == "download");
        let mut rate = table::rate(line, "queue_mbps", need("queue_mbps")?, 1e6)?;
        if let Some(text) = get("throughput_mbps") {
            rate = rate.max(table::rate(line, "throughput_mbps", text, 1e6)?);
        }
        rates[index].push(line, time, rate)?;
        if let Some(text) = get("effective_rtt_ms") {
            let rtt = table::delay(line, "effective_rtt_ms", text, 1e6)?;
            delays[index].push(line, time, Span::from_nanos(rtt.nanos() / 2))?;
        }
        Ok(())
    })?;
    let mut notes = vec!["the rate is what the queue was set to, or what arrived where that was more: the line may have carried more".to_owned()];
    if others > 0 {
        notes.push(format!(
            "{} of other sites than {} left out",
            plural(others, "row"),
            site.unwrap_or_default()
        ));
    }
    let [up, down] = rates.map(|rates| rates.steps("rate", &mut notes));
    let [delay_up, delay_down] = delays.map(|delays| delays.steps("delay", &mut notes));
    if up.is_none() && down.is_none() {
        return Err(SeriesError::whole("it has no row of StormGuard"));
    }
    let line = |rate, delay| Some(LineSeries { rate, delay, ..LineSeries::default() });
    Ok(SeriesFile { up: line(up, delay_up), down: line(down, delay_down), notes })
}

/// Fields of a line: those with `;` or `"` in them stand in quotes.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ';' if !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_site_is_read_and_the_others_are_told() {
        let log = "schema_version;timestamp_unix_ms;site;direction;queue_mbps;throughput_mbps;effective_rtt_ms\n\
                   1;1000;\"Hill;top\";download;50;42.5;31\n1;1000;\"Hill;top\";upload;10;1;\n1;1000;Valley;download;9;9;9\n\
                   1;2000;\"Hill;top\";download;60;70;30\n";
        let file = read(log.as_bytes()).expect("it is StormGuard's");
        let down = file.down.expect("down");
        let rate = down.rate.expect("rates");
        assert_eq!([0, 1].map(|s| rate.at(Span::from_secs(s)).bps()), [50_000_000, 70_000_000]);
        assert_eq!(
            down.delay.map(|delay| delay.at(Span::from_secs(0))),
            Some(Span::from_micros(15_500))
        );
        assert_eq!(file.up.map(|up| up.delay), Some(None), "an empty field is unknown, and not 0");
        assert!(file.notes[1].starts_with("1 row of other sites than Hill;top"));
    }
}
