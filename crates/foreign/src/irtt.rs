//! irtt's JSON (`irtt client -o`): a packet a round trip, times in nanoseconds.
//!
//! Its documentation shows `lost` as a truth; it is a text, `"false"`, `"true"`, `"true_up"` or `"true_down"`. Both are read.

use crate::bounds::{MOST_SAMPLES, MOST_SECONDS};
use crate::error::ForeignError;
use crate::imported::{Imported, ImpossibleValues, Stream, Tool, delays_contradict};
use crate::json::{self, Integer};
use crate::order;
use quell_model::{EchoSample, EchoStatus};
use quell_units::fmt::plural;
use serde::Deserialize;
use serde_json::Value;

/// Longest time from the first packet to another that is believed.
const MOST_NS: i64 = (MOST_SECONDS * 1e9) as i64;

/// The only version of the format that there is; irtt 0.9.1 writes it.
const FORMAT: u64 = 1;

#[derive(Default, Deserialize)]
#[serde(default)]
struct IrttFile {
    version: Value,
    config: Value,
    stats: Value,
    #[serde(deserialize_with = "json::or_default")]
    round_trips: Vec<RoundTrip>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RoundTrip {
    seqno: Integer,
    lost: Value,
    timestamps: Timestamps,
    delay: Delay,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Timestamps {
    client: IrttTimestamps,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IrttTimestamps {
    send: Clocks,
}

#[derive(Default, Deserialize, Clone, Copy)]
#[serde(default)]
struct Clocks {
    wall: Integer,
    monotonic: Integer,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delay {
    rtt: Integer,
    send: Integer,
    receive: Integer,
}

pub(crate) fn read(text: &str, left: &mut usize) -> Result<Imported, ForeignError> {
    let IrttFile { version, config, stats, round_trips } = json::read(text)?;
    if round_trips.len() > MOST_SAMPLES {
        return Err(ForeignError::TooMany);
    }
    let text = |of: &Value, key: &str| json::text(of.get(key)?);
    if let Some(found) = version["json_format"].as_u64().filter(|found| *found > FORMAT) {
        return Err(ForeignError::Version { found, known: FORMAT });
    }
    let mut impossible = ImpossibleValues::default();
    let params = &config["params"];
    let mut time = |what: &str| {
        let place = || "config.params".to_owned();
        impossible.check(params[what].as_i64(), 0..=MOST_NS, what, place)
    };
    let (interval, duration) = (time("interval"), time("duration"));
    let mut imported = Imported::new(Tool::Irtt);
    imported.window_ns = duration.map(i64::cast_unsigned).filter(|ns| *ns > 0);
    imported.tell("irtt", text(&version, "irtt"));
    imported.tell("host", text(&config, "remote_address"));
    imported.tell("from", text(&config, "local_address"));
    imported.tell("interval in nanoseconds", interval.map(|ns| ns.to_string()));
    imported.tell("DSCP field", text(params, "dscp"));
    let first = || round_trips.iter().filter_map(|t| t.timestamps.client.send.wall.0).min();
    let started = stats["start_time"].as_str().and_then(quell_units::time::unix_seconds);
    imported.started_s = started.or_else(|| first().map(|ns| ns as f64 / 1e9));
    let bytes = params["length"].as_u64().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0);
    let packets = packets(&round_trips, interval.unwrap_or(0), bytes, &mut impossible);
    let mut packets = order::by_number(packets, left)?;
    order::arrivals(&mut packets);
    let two_clocks = packets.iter().any(|p| p.up_ns.is_some());
    if two_clocks {
        imported.notes.push(
            "One-way delays are of the clocks of both hosts; Quell corrects them by how far these were apart."
                .to_owned(),
        );
    }
    for (key, what) in [("duplicates", "further answer"), ("late_packets", "late packet")] {
        if let Some(count) = stats[key].as_u64().filter(|n| *n > 0) {
            imported.left_out.push(plural(count, what) + ": irtt counts them and keeps no times.");
        }
    }
    imported.left_out.extend(impossible.said());
    let name = "irtt".to_owned();
    imported.streams.push(Stream { name, packets, two_clocks, ..Stream::default() });
    Ok(imported)
}

/// The packets, in the file's order. Of one whose values can't be it is unknown what became of it.
fn packets(
    round_trips: &[RoundTrip],
    interval: i64,
    bytes: u32,
    impossible: &mut ImpossibleValues,
) -> Vec<EchoSample> {
    // The clock that nobody sets, where there is one.
    let sent = |trip: &RoundTrip| trip.timestamps.client.send;
    let monotonic = round_trips.iter().all(|trip| sent(trip).monotonic.0.is_some());
    let clock = |trip| if monotonic { sent(trip).monotonic.0 } else { sent(trip).wall.0 };
    let least = round_trips.iter().filter_map(clock).filter(|at| *at >= 0).min();
    let mut packets = Vec::with_capacity(round_trips.len());
    for (index, trip) in round_trips.iter().enumerate() {
        let place = || format!("round_trips[{index}]");
        let seq = impossible.check(trip.seqno.0, 0..=i64::MAX, "seqno", place);
        let Some(seq) = seq.map(i64::cast_unsigned) else { continue };
        let status = status(&trip.lost, impossible, place);
        let by_number = seq.cast_signed().saturating_mul(interval);
        let since = clock(trip).zip(least).map(|(at, least)| at.saturating_sub(least));
        let since = impossible.check(since, 0..=MOST_NS, "timestamps.client.send", place);
        let mut packet = EchoSample::new(since.unwrap_or(by_number), seq, bytes, status);
        if status == EchoStatus::Ok {
            let rtt = trip.delay.rtt.0.or(Some(i64::MIN));
            match impossible.check(rtt, 0..1 << 53, "delay.rtt", place) {
                Some(rtt) => packet.rtt_ns = Some(rtt.cast_unsigned()),
                None => packet.status = EchoStatus::Unsure,
            }
            let delays = trip.delay.send.0.zip(trip.delay.receive.0);
            if let Some((up, down)) = delays.filter(|_| packet.rtt_ns.is_some()) {
                match delays_contradict(packet.rtt_ns.unwrap_or(0), up, down) {
                    Some(why) => impossible.add("delay.send", || format!("{}: {why}", place())),
                    None => (packet.up_ns, packet.down_ns) = (Some(up), Some(down)),
                }
            }
        }
        packets.push(packet);
    }
    packets
}

fn status(
    lost: &Value,
    impossible: &mut ImpossibleValues,
    place: impl Fn() -> String,
) -> EchoStatus {
    let text = match lost {
        Value::Null => "false".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.as_str() {
        "false" => EchoStatus::Ok,
        "true" => EchoStatus::Lost,
        "true_up" => EchoStatus::LostUp,
        "true_down" => EchoStatus::LostDown,
        other => {
            let shown: String = other.escape_debug().take(40).collect();
            impossible.add("lost", || format!("`{shown}` at {} is no word of irtt", place()));
            EchoStatus::Unsure
        }
    }
}
