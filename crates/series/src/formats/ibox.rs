//! Profiles of iBoxNet (microsoft/internet-in-a-box): `bottleneck_bandwidth` in kbit/s, `propagation_delay` in ms, `buffer_size_bytes`, and
//! `cross_traffic_pattern`, kbit/s of UDP traffic beside ours, a value a second.
//!
//! What the cross traffic takes is taken from the rate: the profile's own use of it is a UDP sender, which gives way to nobody.

use super::mahimahi::left_out;
use super::table;
use super::{Format, SeriesFile, WriteError};
use crate::{LineSeries, SeriesError, Steps};
use quell_units::{Rate, Span};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, Write};

/// Longest profile that is read.
const LONGEST: u64 = 16 << 20;

#[derive(Deserialize)]
struct Profile {
    bottleneck_bandwidth: Value,
    #[serde(default)]
    propagation_delay: Value,
    #[serde(default)]
    buffer_size_bytes: Value,
    #[serde(default)]
    cross_traffic_pattern: Vec<Value>,
    #[serde(default)]
    data_flow_direction: Value,
}

pub fn read(from: impl BufRead) -> Result<SeriesFile, SeriesError> {
    let profile: Profile = serde_json::from_reader(from.take(LONGEST)).map_err(|e| {
        SeriesError { line: Some(e.line() as u64), what: format!("is no profile of iBoxNet: {e}") }
    })?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let whole = |error: SeriesError| SeriesError { line: None, ..error };
    let bottleneck =
        table::rate(0, "bottleneck_bandwidth", &text(&profile.bottleneck_bandwidth), 1e3)
            .map_err(whole)?;
    let cross = profile
        .cross_traffic_pattern
        .iter()
        .map(|v| table::rate(0, "cross_traffic_pattern", &text(v), 1e3));
    let cross: Vec<Rate> = cross.collect::<Result<_, _>>().map_err(whole)?;
    let left = |cross: &Rate| Rate::from_bps(bottleneck.bps().saturating_sub(cross.bps()));
    let end = Span::from_secs(cross.len().max(1) as u64);
    let rate = match cross.is_empty() {
        true => Steps::constant(bottleneck, end),
        false => Steps::new(
            cross.iter().enumerate().map(|(s, cross)| (Span::from_secs(s as u64), left(cross))),
            end,
        ),
    };
    let delay = match &profile.propagation_delay {
        Value::Null => None,
        value => Steps::constant(
            table::delay(0, "propagation_delay", &text(value), 1e6).map_err(whole)?,
            end,
        ),
    };
    let mut notes = Vec::new();
    if !profile.buffer_size_bytes.is_null() {
        notes.push(format!(
            "its buffer is {} bytes, which is no series: write it in the experiment's link",
            text(&profile.buffer_size_bytes)
        ));
    }
    let line = Some(LineSeries { rate, delay, ..LineSeries::default() });
    match text(&profile.data_flow_direction).to_lowercase().contains("up") {
        true => Ok(SeriesFile { up: line, notes, ..SeriesFile::default() }),
        false => Ok(SeriesFile { down: line, notes, ..SeriesFile::default() }),
    }
}

/// The highest rate is the bottleneck's, what it lacks in each second is cross traffic.
pub fn write(series: &LineSeries, to: &mut dyn Write) -> Result<Vec<String>, WriteError> {
    let rate = series.rate.as_ref().ok_or_else(|| WriteError::lacks("rate", Format::Ibox))?;
    let highest = rate.iter().map(|(_, _, rate)| rate.bps()).max().unwrap_or(0);
    let seconds = rate.end().nanos().div_ceil(1_000_000_000);
    WriteError::count(seconds.into())?;
    let mut before = 0;
    let cross = rate.bits_at((1..=seconds).map(Span::from_secs)).map(|passed| {
        let second = passed - std::mem::replace(&mut before, passed);
        highest.saturating_sub(second as u64) as f64 / 1e3
    });
    let mut profile = json!({"bottleneck_bandwidth": highest as f64 / 1e3, "cross_traffic_pattern": cross.collect::<Vec<f64>>()});
    if let Some(delay) = &series.delay {
        profile["propagation_delay"] = json!(delay.at(Span::from_nanos(0)).as_millis_f64());
    }
    writeln!(to, "{profile:#}")?;
    let mut notes = left_out(series, &["loss"]);
    if series.delay.as_ref().is_some_and(|delay| delay.count() > 1) {
        notes.push("the delay is that of the beginning: the format has one".to_owned());
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_traffic_takes_from_the_rate_each_second() {
        let text = r#"{"bottleneck_bandwidth": 10000, "propagation_delay": 20.5, "buffer_size_bytes": 150000,
            "cross_traffic_pattern": [0, 4000, 12000], "data_flow_direction": "uplink"}"#;
        let file = read(text.as_bytes()).expect("it is iBoxNet's");
        let up = file.up.expect("its direction is up");
        let rate = up.rate.as_ref().expect("it has a rate");
        assert_eq!(
            [0, 1, 2, 3].map(|s| rate.at(Span::from_secs(s)).bps()),
            [10_000_000, 6_000_000, 0, 10_000_000]
        );
        assert_eq!(
            up.delay.as_ref().map(|d| d.at(Span::from_secs(0))),
            Some(Span::from_micros(20_500))
        );
        assert_eq!(file.notes.len(), 1, "the buffer is told");
        let mut again = Vec::new();
        write(&up, &mut again).expect("memory takes it");
        assert_eq!(read(again.as_slice()).expect("it is iBoxNet's").down, Some(up));
    }

    #[test]
    fn a_rate_below_zero_is_refused() {
        let error = read(r#"{"bottleneck_bandwidth": -5}"#.as_bytes())
            .expect_err("it is refused")
            .to_string();
        assert_eq!(error, "bottleneck_bandwidth is -5; possible is 0 to 1000000000");
    }
}
