//! irtt's JSON (`irtt client -o`): delays of each packet one way, where its clocks are in step, else half of the round trip; losses by second.

use super::SeriesFile;
use super::table::LoggedValues;
use crate::{LineSeries, SeriesError};
use quell_units::fmt::plural;
use quell_units::{Ratio, Span};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::io::BufRead;

/// Longest file that is read: a packet takes some 500 bytes.
const LONGEST: u64 = 1 << 30;

#[derive(Deserialize)]
struct IrttPackets {
    round_trips: Vec<RoundTrip>,
}

#[derive(Deserialize)]
struct RoundTrip {
    #[serde(default)]
    lost: Value,
    delay: Option<Delays>,
    timestamps: Option<Timestamps>,
}

/// Nanoseconds; of what is no whole number none.
#[derive(Deserialize)]
struct Delays {
    #[serde(default, deserialize_with = "whole")]
    rtt: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    send: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    receive: Option<u64>,
}

const NO_DELAYS: Delays = Delays { rtt: None, send: None, receive: None };

#[derive(Deserialize)]
struct Timestamps {
    client: Option<ClientTimestamps>,
}

#[derive(Deserialize)]
struct ClientTimestamps {
    send: Option<Sent>,
}

#[derive(Deserialize)]
struct Sent {
    #[serde(default, deserialize_with = "whole")]
    monotonic: Option<u64>,
}

fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Value::deserialize(from)?.as_u64())
}

/// Packets of one second.
#[derive(Default)]
struct Second {
    sent: u64,
    lost: [u64; 2],
}

pub fn read(from: impl BufRead) -> Result<SeriesFile, SeriesError> {
    let file: IrttPackets = serde_json::from_reader(from.take(LONGEST)).map_err(|e| {
        SeriesError { line: Some(e.line() as u64), what: format!("is no file of irtt: {e}") }
    })?;
    let mut delays = [LoggedValues::new(), LoggedValues::new()];
    let mut losses = [LoggedValues::new(), LoggedValues::new()];
    let (mut halves, mut undecided) = (0, 0);
    let mut second = (None, Second::default());
    for packet in &file.round_trips {
        let client = packet.timestamps.as_ref().and_then(|at| at.client.as_ref());
        let Some(sent) = client.and_then(|at| at.send.as_ref()?.monotonic) else { continue };
        let number = sent / 1_000_000_000;
        if second.0.is_some_and(|now| now != number) {
            close(&mut second, &mut losses)?;
        }
        second.0 = Some(number);
        second.1.sent += 1;
        let lost = packet.lost.as_str().map_or_else(|| packet.lost.to_string(), str::to_owned);
        match lost.as_str() {
            "true_up" => second.1.lost[0] += 1,
            "true_down" => second.1.lost[1] += 1,
            "true" => {
                // Nobody knows which way: half of it each would be a guess.
                undecided += 1;
                second.1.sent -= 1;
            }
            _ => {}
        }
        let Delays { rtt, send, receive } = packet.delay.as_ref().unwrap_or(&NO_DELAYS);
        let [rtt, send, receive] =
            [rtt, send, receive].map(|ns| ns.filter(|ns| *ns < Span::from_secs(100).nanos()));
        let half = rtt.map(|rtt| rtt / 2);
        halves += u64::from(send.is_none() && half.is_some());
        for (delays, one_way) in delays.iter_mut().zip([send, receive]) {
            if let Some(ns) = one_way.or(half) {
                delays.push(0, sent, Span::from_nanos(ns))?;
            }
        }
    }
    close(&mut second, &mut losses)?;
    let mut notes = vec!["irtt measures no rate: the series has delays and losses".to_owned()];
    if halves > 0 {
        notes.push(format!(
            "{} without a delay of each direction: half of the round trip is taken",
            plural(halves, "packet")
        ));
    }
    if undecided > 0 {
        notes.push(format!("{} lost on an unknown way: not counted", plural(undecided, "packet")));
    }
    let [up, down] = delays.map(|delays| delays.steps("delay", &mut notes));
    let [lost_up, lost_down] = losses.map(|losses| losses.steps("loss", &mut notes));
    if up.is_none() {
        return Err(SeriesError::whole("no packet in it has a time and a delay"));
    }
    let line = |delay, loss| Some(LineSeries { delay, loss, ..LineSeries::default() });
    Ok(SeriesFile { up: line(up, lost_up), down: line(down, lost_down), notes })
}

fn close(
    second: &mut (Option<u64>, Second),
    losses: &mut [LoggedValues<Ratio>; 2],
) -> Result<(), SeriesError> {
    let (number, counts) = std::mem::take(second);
    let Some(number) = number.filter(|_| counts.sent > 0) else { return Ok(()) };
    for (losses, lost) in losses.iter_mut().zip(counts.lost) {
        if let Some(share) = Ratio::from_ppb(lost * 1_000_000_000 / counts.sent) {
            losses.push(0, number * 1_000_000_000, share)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_each_direction_and_losses_of_each_second() {
        let packet = |ms: u64, lost: &str, delay: &str| {
            format!(
                r#"{{"lost": "{lost}", "delay": {delay}, "timestamps": {{"client": {{"send": {{"monotonic": {}}}}}}}}}"#,
                ms * 1_000_000
            )
        };
        let both = r#"{"send": 10000000, "receive": 30000000, "rtt": 40000000}"#;
        let packets = [
            packet(0, "false", both),
            packet(500, "true_up", "{}"),
            packet(1000, "false", r#"{"rtt": 50000000}"#),
            packet(1500, "true", "{}"),
        ];
        let file = read(format!(r#"{{"round_trips": [{}]}}"#, packets.join(",")).as_bytes())
            .expect("it is irtt's");
        let up = file.up.expect("up");
        let delay = up.delay.expect("delays");
        assert_eq!(
            [0, 1000].map(|ms| delay.at(Span::from_millis(ms)).nanos() / 1_000_000),
            [10, 25]
        );
        let loss = up.loss.expect("losses");
        assert_eq!([0, 1].map(|s| loss.at(Span::from_secs(s)).ppb()), [500_000_000, 0]);
        assert_eq!(file.notes.len(), 3, "{:?}", file.notes);
    }
}
