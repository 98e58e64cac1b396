//! What rows and facts can be at all. A folder may come from anywhere, with checksums that fit: what no measurement gives is damage, and not a
//! figure.

use crate::data::CellData;
use quell_model::{
    CellRecord, EchoSample, EchoStatus, Event, Fact, FlowSample, MeasuredFlow, Subject, Told,
};
use std::collections::HashSet;

/// Longest time, in nanoseconds, that anything may be before or after anything else: 73 years, so that sums of some can be made. Clocks
/// of hosts that were never set are no further apart.
pub(crate) const LONGEST_NS: i64 = i64::MAX / 4;
/// Most that is counted.
const MOST: u64 = i64::MAX as u64;
/// Longest name, in bytes.
pub(crate) const LONGEST_NAME: usize = 1024;
/// No measurement takes so long, in seconds: 31 years.
const LONGEST_S: f64 = 1e9;
/// Most bytes that a flow moves in a second: 10 Tbit/s, which no line and no memory of a host carries.
const MOST_BYTES_A_SECOND: f64 = 1.25e12;
/// By how much the times of counts may be off, in seconds, as where they are rounded.
const OFF_S: f64 = 1.0;
/// No answer is waited for so long after all else is over.
const LONGEST_WAIT_S: f64 = 86_400.0;

/// Whether a packet can be; else why not.
pub(crate) fn packet(s: &EchoSample) -> Result<(), String> {
    time("t_ns", s.t_ns)?;
    for (name, value) in [("up_ns", s.up_ns), ("down_ns", s.down_ns)] {
        value.map_or(Ok(()), |value| time(name, value))?;
    }
    let spans = [
        ("rtt_ns", s.rtt_ns),
        ("seen_late_ns", s.seen_late_ns),
        ("queued_ns", s.queued_ns),
        ("sent_late_ns", s.sent_late_ns),
    ];
    for (name, value) in spans {
        if let Some(value) = value.filter(|value| *value > LONGEST_NS as u64) {
            return Err(format!("{name} is {value}, longer than anything was measured"));
        }
    }
    count("seq", s.seq)?;
    let name = s.status.name();
    if s.status.is_lost() && s.rtt_ns.is_some() {
        return Err(format!("a packet that is {name} has a round-trip time"));
    }
    // A load's datagram has none, and no order of answers.
    let nothing = s.up_ns.is_none() && s.down_ns.is_none() && s.up_order.is_none();
    if s.status.is_answered() && s.rtt_ns.is_none() && (s.down_order.is_some() || nothing) {
        return Err(format!("a packet that is {name} has no round-trip time"));
    }
    Ok(())
}

/// Whether a flow's state can be; else why not.
pub(crate) fn flow(s: &FlowSample) -> Result<(), String> {
    time("t_ns", s.t_ns)?;
    count("bytes", s.bytes)?;
    count("packets", s.packets)?;
    count("retransmits", s.tcp.and_then(|tcp| tcp.retransmits).unwrap_or(0))
}

/// Whether a time can be; else why not.
pub(crate) fn time(name: &str, ns: i64) -> Result<(), String> {
    match ns.unsigned_abs() > LONGEST_NS as u64 {
        true => Err(format!("{name} is {ns}, further away than anything was measured")),
        false => Ok(()),
    }
}

/// Whether a counter can be; else why not.
pub(crate) fn count(name: &str, count: u64) -> Result<(), String> {
    match count > MOST {
        true => Err(format!("{name} is {count}, more than anything was counted")),
        false => Ok(()),
    }
}

/// Whether a name can be; else why not.
pub(crate) fn name(column: &str, name: &str) -> Result<(), String> {
    match name.len() > LONGEST_NAME {
        true => Err(format!("{column} has {} bytes, where {LONGEST_NAME} are most", name.len())),
        false => Ok(()),
    }
}

/// Most bytes that a flow moves in so many seconds.
fn most_bytes(seconds: f64) -> f64 {
    (seconds + OFF_S) * MOST_BYTES_A_SECOND
}

/// Whether a measurement's name and times can be, as the manifest has them; else why not.
pub(crate) fn record(record: &CellRecord) -> Result<(), String> {
    let CellRecord { id, wall_s, virtual_s, .. } = record;
    name("a scenario's name", &id.scenario)?;
    name("a probe's name", &id.probe)?;
    seconds("wall_s", *wall_s)?;
    seconds("virtual_s", *virtual_s)
}

/// Whether something can have taken so long; else why not.
pub(crate) fn seconds(name: &str, seconds: Option<f64>) -> Result<(), String> {
    match seconds {
        Some(s) if !(0.0..LONGEST_S).contains(&s) => {
            Err(format!("{name} is {s:e}, where nothing takes {LONGEST_S:e} seconds"))
        }
        _ => Ok(()),
    }
}

/// Whether a fact can be; else why not.
pub(crate) fn fact(fact: &Fact) -> Result<(), String> {
    let Subject::Stream(stream, Told::Measured) = &fact.subject else { return Ok(()) };
    let told = serde_json::from_str::<MeasuredFlow>(&fact.value);
    let wrong = |why: &str| Err(format!("what was measured of {stream:?} {why}"));
    let Ok(told) = told else { return wrong("can't be read") };
    let most = told.received_bytes.unwrap_or(0).max(told.retransmits.unwrap_or(0));
    let in_time = |time: f64| told.received_bytes.unwrap_or(0) as f64 <= most_bytes(time);
    match told.believed() {
        Some(_) if most <= MOST && told.seconds.is_none_or(in_time) => Ok(()),
        _ => wrong("can't be"),
    }
}

/// Whether an event of a journal can be; else why not.
pub(crate) fn event(event: &Event) -> Result<(), String> {
    match event {
        Event::Echo { stream, samples } => {
            name("stream", stream)?;
            samples.iter().try_for_each(packet)
        }
        Event::Flow { stream, samples } => {
            name("stream", stream)?;
            samples.iter().try_for_each(flow)
        }
        Event::Queues { samples } => samples.iter().try_for_each(|s| time("t_ns", s.t_ns)),
        Event::Fact(told) => fact(told),
        _ => Ok(()),
    }
}

/// Whether the packets of a cell go together, in their order and each with its last row; else why not.
pub(crate) fn packets(cell: &CellRecord, data: &CellData) -> Result<(), String> {
    let lasted = [cell.virtual_s, cell.wall_s].into_iter().flatten().reduce(f64::max);
    let window = cell.window_ns.map_or(0.0, |ns| ns as f64 / 1e9);
    let longest = lasted.map(|s| s.max(window) + LONGEST_WAIT_S);
    for series in &data.echoes {
        let of = || format!("{:?} of {}", series.stream, cell.id);
        // They mostly come in the order of their numbers.
        let numbers = || {
            let answered = series.samples.iter().filter(|s| s.status == EchoStatus::Ok);
            answered.map(|s| s.seq)
        };
        if !numbers().is_sorted_by(|a, b| a < b) {
            let mut seen = HashSet::new();
            if let Some(twice) = numbers().find(|seq| !seen.insert(*seq)) {
                return Err(format!("the packet {twice} of {} is there twice", of()));
            }
        }
        let seconds = |s: &EchoSample| s.rtt_ns.unwrap_or(0) as f64 / 1e9;
        let long = |s: &&EchoSample| longest.is_some_and(|most| seconds(s) > most);
        if let Some(s) = series.samples.iter().find(long) {
            return Err(format!(
                "the packet {} of {} came back after longer than all was measured",
                s.seq,
                of()
            ));
        }
    }
    Ok(())
}

/// Whether the flows of a cell go on, each in the order of its times; else why not.
pub(crate) fn flows(cell: &CellRecord, data: &CellData) -> Result<(), String> {
    for series in &data.flows {
        let back = series.samples.windows(2).find(|pair| pair[1].bytes < pair[0].bytes);
        if let Some([was, is]) = back {
            return Err(format!(
                "the {}'s bytes of {:?} of {} run backwards, from {} to {}",
                series.side.name(),
                series.stream,
                cell.id,
                was.bytes,
                is.bytes
            ));
        }
        let fast = series.samples.windows(2).find(|pair| {
            let took = pair[1].t_ns.saturating_sub(pair[0].t_ns) as f64 / 1e9;
            (pair[1].bytes - pair[0].bytes) as f64 > most_bytes(took)
        });
        if let Some([was, is]) = fast {
            return Err(format!(
                "the {}'s bytes of {:?} of {} go from {} to {} faster than 10 Tbit/s",
                series.side.name(),
                series.stream,
                cell.id,
                was.bytes,
                is.bytes
            ));
        }
    }
    Ok(())
}
