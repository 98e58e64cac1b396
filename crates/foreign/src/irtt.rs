//! irtt's JSON (`irtt client -o`): a packet a round trip, times in nanoseconds.
//!
//! Its documentation shows `lost` as a truth; it is a text, `"false"`, `"true"`, `"true_up"` or `"true_down"`. Both are read.

use crate::bounds::{MOST_SAMPLES, MOST_SECONDS};
use crate::error::ForeignError;
use crate::imported::{Imported, Stream, Tool, delays_contradict};
use crate::{json, order};
use quell_model::{EchoSample, EchoStatus};
use serde::Deserialize;

/// Longest time from the first packet to another that is believed.
const MOST_NS: i64 = (MOST_SECONDS * 1e9) as i64;

/// The only version of the format that there is; irtt 0.9.1 writes it.
const FORMAT: i64 = 1;

#[derive(Default, Deserialize)]
#[serde(default)]
struct IrttFile {
    version: Version,
    config: IrttConfig,
    stats: Stats,
    #[serde(deserialize_with = "json::or_default")]
    round_trips: Vec<RoundTrip>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    irtt: Option<String>,
    json_format: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IrttConfig {
    local_address: Option<String>,
    remote_address: Option<String>,
    params: Parameters,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    duration: Option<i64>,
    interval: Option<i64>,
    length: Option<u32>,
    dscp: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stats {
    start_time: Option<String>,
    duplicates: Option<u64>,
    late_packets: Option<u64>,
}

#[derive(Default, Deserialize)]
struct RoundTrip {
    seqno: u64,
    lost: Lost,
    #[serde(default)]
    timestamps: Timestamps,
    #[serde(default)]
    delay: Delay,
}

/// A text, whatever the documentation says, or a truth.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lost {
    Truth(bool),
    Text(String),
}

impl Default for Lost {
    fn default() -> Self {
        Lost::Truth(false)
    }
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
    wall: Option<i64>,
    monotonic: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delay {
    rtt: Option<i64>,
    send: Option<i64>,
    receive: Option<i64>,
}

fn wrong<T>(place: &str, why: String) -> Result<T, ForeignError> {
    Err(ForeignError::Value { place: place.to_owned(), why })
}

pub(crate) fn read(text: &str) -> Result<Imported, ForeignError> {
    let IrttFile { version, config, stats, round_trips } = json::read(text)?;
    if round_trips.len() > MOST_SAMPLES {
        return Err(ForeignError::TooMany);
    }
    match version.json_format {
        None | Some(FORMAT) => {}
        Some(found) if found > FORMAT => {
            let (found, known) = (found.cast_unsigned(), FORMAT.cast_unsigned());
            return Err(ForeignError::Version { found, known });
        }
        Some(found) => return wrong("version.json_format", format!("{found} is no version")),
    }
    let mut imported = Imported::new(Tool::Irtt);
    let params = &config.params;
    for (what, ns) in [("interval", params.interval), ("duration", params.duration)] {
        if let Some(ns) = ns.filter(|ns| !(0..=MOST_NS).contains(ns)) {
            return wrong(&format!("config.params.{what}"), format!("{ns} ns is no time"));
        }
    }
    imported.window_ns = params.duration.and_then(|ns| u64::try_from(ns).ok()).filter(|ns| *ns > 0);
    imported.tell("irtt", version.irtt);
    imported.tell("host", config.remote_address);
    imported.tell("from", config.local_address);
    imported.tell("interval in nanoseconds", params.interval.map(|ns| ns.to_string()));
    imported.tell("DSCP field", params.dscp.map(|dscp| dscp.to_string()));
    // The clock that nobody sets, where there is one.
    let sent = |trip: &RoundTrip| trip.timestamps.client.send;
    let monotonic = round_trips.iter().all(|trip| sent(trip).monotonic.is_some());
    let clock = |c: Clocks| if monotonic { c.monotonic } else { c.wall };
    let zero = round_trips.iter().filter_map(|trip| clock(sent(trip))).min();
    let first = || round_trips.iter().filter_map(|t| sent(t).wall).min();
    let started = stats.start_time.as_deref().and_then(quell_units::time::unix_seconds);
    imported.started_s = started.or_else(|| first().map(|ns| ns as f64 / 1e9));
    let interval = params.interval.unwrap_or(0);
    let mut stream = Stream { name: "irtt".to_owned(), two_clocks: true, ..Stream::default() };
    let bytes = params.length.unwrap_or(0);
    for (index, trip) in round_trips.iter().enumerate() {
        let place = |part: &str| format!("round_trips[{index}].{part}");
        let status = match &trip.lost {
            Lost::Truth(false) => EchoStatus::Ok,
            Lost::Truth(true) => EchoStatus::Lost,
            Lost::Text(text) => match text.as_str() {
                "false" => EchoStatus::Ok,
                "true" => EchoStatus::Lost,
                "true_up" => EchoStatus::LostUp,
                "true_down" => EchoStatus::LostDown,
                other => {
                    let shown: String = other.escape_debug().take(40).collect();
                    let why = format!("`{shown}` is no word of irtt for what was lost");
                    return wrong(&place("lost"), why);
                }
            },
        };
        let by_number = i64::try_from(trip.seqno).unwrap_or(i64::MAX).saturating_mul(interval);
        let since = clock(sent(trip)).zip(zero).map(|(at, zero)| at.saturating_sub(zero));
        if let Some(ns) = since.filter(|ns| *ns > MOST_NS) {
            let clock = if monotonic { "monotonic" } else { "wall" };
            let place = place(&format!("timestamps.client.send.{clock}"));
            return wrong(&place, format!("{ns} ns after the first is no time of this file"));
        }
        let mut packet = EchoSample::new(since.unwrap_or(by_number), trip.seqno, bytes, status);
        if status == EchoStatus::Ok {
            let rtt = trip.delay.rtt.and_then(|ns| u64::try_from(ns).ok());
            let Some(rtt) = rtt.filter(|ns| *ns < 1 << 53) else {
                let why = "an answered packet has a round-trip time from 0".to_owned();
                return wrong(&place("delay.rtt"), why);
            };
            if let Some(why) = delays_contradict(rtt, trip.delay.send, trip.delay.receive) {
                return wrong(&place("delay.send"), why);
            }
            packet.rtt_ns = Some(rtt);
            packet.up_ns = trip.delay.send;
            packet.down_ns = trip.delay.receive;
        }
        stream.packets.push(packet);
    }
    stream.packets = order::by_number(stream.packets, &mut { MOST_SAMPLES })?;
    order::arrivals(&mut stream.packets);
    stream.two_clocks = stream.packets.iter().any(|p| p.up_ns.is_some());
    if stream.two_clocks {
        imported.notes.push(
            "One-way delays are of the clocks of both hosts; Quell corrects them by how far these were apart."
                .to_owned(),
        );
    }
    for (count, what) in
        [(stats.duplicates, "further answers"), (stats.late_packets, "late packets")]
    {
        if let Some(count) = count.filter(|n| *n > 0) {
            imported.left_out.push(format!("{count} {what}: irtt counts them and keeps no times."));
        }
    }
    imported.streams.push(stream);
    Ok(imported)
}
