//! The log of cake-autorate: lines of kinds, separated by `; `. A `…_HEADER` line names the columns of its kind.
//!
//! Its shaper's rate (`CAKE_DL_RATE_KBPS`) is what it set and no measurement of the line, which carried at least what arrived. The rate that is taken is the
//! higher of both. Delays one way are those of its pings, which a loaded queue may hold.

use super::SeriesFile;
use super::table::{self, LoggedValues};
use crate::{LineSeries, SeriesError};
use std::collections::HashMap;
use std::io::BufRead;

/// Where `DATA` has what is read, in version 3.2: for a log that was rotated, without its header.
const DATA: [(&str, usize); 7] = [
    ("LOG_TIMESTAMP", 2),
    ("DL_ACHIEVED_RATE_KBPS", 4),
    ("UL_ACHIEVED_RATE_KBPS", 5),
    ("DL_OWD_US", 12),
    ("UL_OWD_US", 17),
    ("CAKE_DL_RATE_KBPS", 31),
    ("CAKE_UL_RATE_KBPS", 32),
];

/// Columns of a kind of line, by name.
struct Columns(HashMap<String, usize>);

impl Columns {
    fn of(header: &str) -> Self {
        Self(header.split(';').enumerate().map(|(at, name)| (name.trim().to_owned(), at)).collect())
    }

    fn usual() -> Self {
        Self(DATA.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect())
    }

    fn get<'a>(&self, fields: &[&'a str], name: &str) -> Option<&'a str> {
        fields.get(*self.0.get(name)?).map(|text| text.trim())
    }
}

pub fn read(from: impl BufRead) -> Result<SeriesFile, SeriesError> {
    let mut kinds = HashMap::from([("DATA".to_owned(), Columns::usual())]);
    let mut rates = [LoggedValues::new(), LoggedValues::new()];
    let mut delays = [LoggedValues::new(), LoggedValues::new()];
    table::lines(from, |line, text| {
        let (kind, _) = text.split_once(';').unwrap_or((text, ""));
        if let Some(kind) = kind.strip_suffix("_HEADER") {
            kinds.insert(kind.to_owned(), Columns::of(text));
            return Ok(());
        }
        let Some(columns) = kinds.get(kind) else { return Ok(()) };
        let fields: Vec<&str> = text.split(';').collect();
        // A line that a rotation cut off.
        let Some(time) = columns.get(&fields, "LOG_TIMESTAMP") else { return Ok(()) };
        let time = (table::figure(line, "LOG_TIMESTAMP", time, 1e11)? * 1e9) as u64;
        for (index, way) in ["UL", "DL"].into_iter().enumerate() {
            let mut rate = None;
            for name in [format!("CAKE_{way}_RATE_KBPS"), format!("{way}_ACHIEVED_RATE_KBPS")] {
                if let Some(text) = columns.get(&fields, &name) {
                    rate = rate.max(Some(table::rate(line, &name, text, 1e3)?));
                }
            }
            if let Some(rate) = rate {
                rates[index].push(line, time, rate)?;
            }
            let name = format!("{way}_OWD_US");
            if let Some(text) = columns.get(&fields, &name) {
                delays[index].push(line, time, table::delay(line, &name, text, 1e3)?)?;
            }
        }
        Ok(())
    })?;
    let mut notes = vec!["the rate is what the shaper was set to, or what arrived where that was more: the line may have carried more".to_owned()];
    let [up, down] = rates.map(|rates| rates.steps("rate", &mut notes));
    let [delay_up, delay_down] = delays.map(|delays| delays.steps("delay", &mut notes));
    if up.is_none() && down.is_none() {
        return Err(SeriesError::whole(
            "it has no line DATA, LOAD or SUMMARY of cake-autorate with a time and a rate",
        ));
    }
    let line = |rate, delay| Some(LineSeries { rate, delay, ..LineSeries::default() });
    Ok(SeriesFile { up: line(up, delay_up), down: line(down, delay_down), notes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_units::Span;

    #[test]
    fn a_data_line_is_read_though_rotation_took_its_header() {
        let mut fields = ["0"; 33].map(str::to_owned);
        for (at, text) in [
            (0, "DATA"),
            (2, "1795888801.5"),
            (4, "9000"),
            (12, "21500"),
            (17, "9000"),
            (31, "20000"),
            (32, "5000"),
        ] {
            fields[at] = text.to_owned();
        }
        let file = read(fields.join("; ").as_bytes()).expect("it is cake-autorate's");
        let down = file.down.expect("down");
        assert_eq!(down.rate.map(|rate| rate.mean().bps()), Some(20_000_000));
        assert_eq!(
            down.delay.map(|delay| delay.at(Span::from_nanos(0))),
            Some(Span::from_micros(21_500))
        );
    }

    #[test]
    fn load_lines_give_the_rate_and_data_lines_the_delay() {
        let log = "\
INFO; 2026-11-28-18:00:00; 1795888800.100000; Starting cake-autorate\n\
LOAD_HEADER; LOG_DATETIME; LOG_TIMESTAMP; PROC_TIME_US; DL_ACHIEVED_RATE_KBPS; UL_ACHIEVED_RATE_KBPS; CAKE_DL_RATE_KBPS; CAKE_UL_RATE_KBPS\n\
LOAD; 2026-11-28-18:00:01; 1795888801.000000; 1795888801.000001; 12000; 300; 20000; 5000\n\
LOAD; 2026-11-28-18:00:02; 1795888802.000000; 1795888802.000001; 25000; 300; 20000; 5000\n\
SHAPER; 2026-11-28-18:00:02; 1795888802.000000; tc qdisc change root dev ifb4wan cake bandwidth 21000Kbit\n\
LOAD; 2026-11-28-18:00:03; 1795888803.0\n";
        let file = read(log.as_bytes()).expect("it is cake-autorate's");
        let rate = file.down.and_then(|down| down.rate).expect("there are rates");
        assert_eq!([0, 1].map(|s| rate.at(Span::from_secs(s)).bps()), [20_000_000, 25_000_000]);
        let (up, end) = (file.up.and_then(|up| up.rate).expect("there are rates"), rate.end());
        assert_eq!((up.count(), end), (1, Span::from_secs(2)));
    }
}
