//! Files that hold series, a format each. Readers take a line at a time and hold only steps: a log may have gigabytes.

mod autorate;
mod cellreplay;
mod csv;
mod ibox;
mod irtt;
mod leocc;
mod mahimahi;
mod stormguard;
mod table;

use crate::{LineSeries, SeriesError};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};

/// What a file says of a line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesFile {
    pub up: Option<LineSeries>,
    pub down: Option<LineSeries>,
    /// What a reader should know, a sentence each: what was left out, where values are missing.
    pub notes: Vec<String>,
}

impl SeriesFile {
    /// Reads a file; what it is, is found out where no format is named.
    pub fn read(mut from: impl BufRead, format: Option<Format>) -> Result<Self, SeriesError> {
        let head = from.fill_buf().map_err(|e| SeriesError::whole(e.to_string()))?;
        let format = format.or_else(|| Format::guess(head));
        let unknown = || SeriesError::whole("its format is not known; say it by --as");
        format.ok_or_else(unknown)?.read(from)
    }

    /// Adds what another file of the same line tells and this one lacks.
    pub fn join(&mut self, more: SeriesFile) {
        for (line, more) in [(&mut self.up, more.up), (&mut self.down, more.down)] {
            let Some(more) = more else { continue };
            let line = line.get_or_insert_default();
            line.rate = line.rate.take().or(more.rate);
            line.delay = line.delay.take().or(more.delay);
            line.loss = line.loss.take().or(more.loss);
            if line.trains.is_empty() {
                line.trains = more.trains;
            }
        }
        self.notes.extend(more.notes);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Quell's own: t_ms, rate_bps, delay_ms, loss.
    Csv,
    /// A line a packet of 1500 bytes: the millisecond in which it may leave.
    Mahimahi,
    /// A line each 10 ms: the delay one way in milliseconds. Its rates are a file of Mahimahi's kind.
    LeoccDelay,
    /// Time, delay and the arrivals of a train; its heavy opportunities are a file of Mahimahi's kind.
    CellreplayLight,
    /// A profile of iBoxNet: one rate, one delay, one buffer, and cross traffic.
    Ibox,
    /// `irtt client -o`: delays and losses.
    Irtt,
    /// The log of cake-autorate.
    Autorate,
    /// LibreQoS' StormGuard, its diagnostic CSV.
    Stormguard,
}

impl Format {
    /// Name, what it is, and it.
    pub const ALL: [(&'static str, &'static str, Format); 8] = [
        ("csv", "Quell's own: t_ms,rate_bps,delay_ms,loss", Format::Csv),
        (
            "mahimahi",
            "Mahimahi's .up and .down, LeoCC's bw_N, CellReplay's heavy",
            Format::Mahimahi,
        ),
        ("leocc-delay", "LeoCC's delay_N", Format::LeoccDelay),
        (
            "cellreplay-light",
            "CellReplay's delays and light opportunities",
            Format::CellreplayLight,
        ),
        ("ibox", "A profile of iBoxNet (JSON)", Format::Ibox),
        ("irtt", "irtt client -o", Format::Irtt),
        ("cake-autorate", "The log of cake-autorate", Format::Autorate),
        ("stormguard", "The diagnostic log of LibreQoS' StormGuard", Format::Stormguard),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(.., format)| *format == self).map_or("csv", |(name, ..)| name)
    }

    /// The format of a file by its first bytes, as far as they tell. A bare column of numbers may be Mahimahi's or LeoCC's delays: it is taken as
    /// Mahimahi's where the numbers never fall.
    pub fn guess(head: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(head);
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let has = |word: &str| text.contains(word);
        if text.starts_with('{') {
            return match (has("bottleneck_bandwidth"), has("round_trips") || has("\"config\"")) {
                (true, _) => Some(Format::Ibox),
                (_, true) => Some(Format::Irtt),
                _ => None,
            };
        }
        if text.starts_with("schema_version;") {
            return Some(Format::Stormguard);
        }
        if text.lines().any(|l| {
            ["DATA;", "LOAD;", "SUMMARY;", "DATA_HEADER;", "LOAD_HEADER;"]
                .iter()
                .any(|w| l.trim_start().starts_with(w))
        }) {
            return Some(Format::Autorate);
        }
        if text.starts_with("t_ms") {
            return Some(Format::Csv);
        }
        // The last line may be cut off.
        let whole: Vec<&str> =
            text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::trim).collect();
        let rows: Option<Vec<Vec<u64>>> = whole
            .iter()
            .map(|line| line.split_whitespace().map(|word| word.parse().ok()).collect())
            .collect();
        let rows = rows?;
        match rows.iter().all(|row| row.len() == 1) {
            true if rows.is_empty() => None,
            true if rows.is_sorted() => Some(Format::Mahimahi),
            true => Some(Format::LeoccDelay),
            false if rows.iter().all(|row| row.len() >= 3) => Some(Format::CellreplayLight),
            false => None,
        }
    }

    /// A file of one direction only gives it as `down`, where the file does not say which it is.
    pub fn read(self, from: impl BufRead) -> Result<SeriesFile, SeriesError> {
        match self {
            Format::Csv => csv::read(from),
            Format::Mahimahi => mahimahi::read(from),
            Format::LeoccDelay => leocc::read(from),
            Format::CellreplayLight => cellreplay::read(from),
            Format::Ibox => ibox::read(from),
            Format::Irtt => irtt::read(from),
            Format::Autorate => autorate::read(from),
            Format::Stormguard => stormguard::read(from),
        }
    }

    /// Writes one direction; what the format has no place for is told, a sentence each.
    pub fn write(self, series: &LineSeries, to: &mut dyn Write) -> Result<Vec<String>, WriteError> {
        match self {
            Format::Csv => csv::write(series, to),
            Format::Mahimahi => mahimahi::write(series, to),
            Format::LeoccDelay => leocc::write(series, to),
            Format::CellreplayLight => cellreplay::write(series, to),
            Format::Ibox => ibox::write(series, to),
            Format::Irtt | Format::Autorate | Format::Stormguard => {
                Err(WriteError::Lacks(format!(
                    "{} is what a measurement wrote; take csv, mahimahi, leocc-delay, cellreplay-light or ibox",
                    self.name()
                )))
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("{0}")]
    Lacks(String),
    #[error("write the series: {0}")]
    Io(#[from] std::io::Error),
}

impl WriteError {
    /// Errors where a file would have more lines than are read again.
    fn count(lines: u128) -> Result<(), Self> {
        match lines > table::MOST_STEPS as u128 {
            true => Err(Self::Lacks(format!(
                "it would have {lines} lines; at most {} are read again: take a shorter series",
                table::MOST_STEPS
            ))),
            false => Ok(()),
        }
    }

    fn lacks(what: &str, format: Format) -> Self {
        Self::Lacks(format!("the series has no {what}, which {} is made of", format.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(text: &str) -> SeriesFile {
        SeriesFile::read(text.as_bytes(), Some(Format::Csv)).expect("it is a series")
    }

    #[test]
    fn what_a_short_file_says_of_a_year_ends_before_it_is_written() {
        // 1 Tbit/s for 366 days.
        let file = csv("0,1000000000000,5,\n31622400000\n");
        let line = file.down.expect("one direction");
        for format in [Format::Mahimahi, Format::LeoccDelay] {
            let told = format.write(&line, &mut std::io::sink());
            assert!(told.is_err_and(|error| error.to_string().contains("a shorter series")));
        }
        let longer = "0,5,5,\n31622400001\n";
        let error = SeriesFile::read(longer.as_bytes(), Some(Format::Csv)).expect_err("too long");
        assert_eq!(error.to_string(), "line 2: t_ms is 31622400001; possible is 0 to 31622400000");
    }

    #[test]
    fn a_delay_of_nanoseconds_beside_a_rate_of_a_year_is_refused() {
        let mut file = csv("0,5,,\n31622400000\n");
        file.join(csv("0,,1,\n0.000001\n"));
        let told = Format::Csv.write(&file.down.expect("one direction"), &mut std::io::sink());
        assert!(told.is_err_and(|error| error.to_string().contains("lines; at most 43200000")));
    }

    #[test]
    fn a_log_of_centuries_is_refused() {
        let log = "schema_version;timestamp_unix_ms;site;direction;queue_mbps\n\
                   1;0;a;download;5\n1;99999999999999;a;download;5\n";
        let error = SeriesFile::read(log.as_bytes(), Some(Format::Stormguard)).expect_err("long");
        assert_eq!(error.to_string(), "line 3: is more than a year behind the first");
    }
}
