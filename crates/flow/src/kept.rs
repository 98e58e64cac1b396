//! A test as a run: its flows as each end saw them, what was found of each, and its pings.

use crate::latency::STREAM;
use crate::{Amount, FlowMeasurement, FlowReport};
use quell_model::{Event, Fact, FlowSample, Side, Subject, TcpState, Told, When};
use quell_store::{About, End, Keep, Origin, StoreError};
use quell_wire::iperf3::Moment;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Writes the run under `base`; its folder.
pub fn save(
    base: &Path,
    outcome: &FlowMeasurement,
    report: &FlowReport,
    headline: String,
) -> Result<PathBuf, StoreError> {
    let plan = &outcome.plan;
    let about = About {
        name: "flow".into(),
        scenario: plan.transport.name().to_ascii_lowercase(),
        title: format!("{} flow to {}", plan.transport.name(), plan.host),
        task: "flow".into(),
        clock: "monotonic".into(),
        seed: 1,
        window_ns: match plan.amount {
            Amount::Time(time) if !outcome.stopped => Some(time.nanos()),
            _ => Some((outcome.seconds * 1e9) as u64),
        },
        origin: Origin::Here(took(outcome)),
    };
    let mut keep = Keep::begin(base, &about)?;
    for (stream, way, back) in ways(outcome) {
        keep.event(&fact(stream, Told::Way, way))?;
        if let Some(back) = back {
            keep.event(&fact(stream, Told::WayBack, back))?;
        }
    }
    let parts = outcome.theirs.as_ref().and_then(|theirs| theirs.quell.as_ref());
    for lane in &outcome.lanes {
        let direction = direction(lane.sends);
        let stream = match plan.streams {
            1 => direction.to_owned(),
            _ => format!("{direction}-{}", lane.id),
        };
        let mss = lane.mss.unwrap_or(0);
        let (here, there) = match lane.sends {
            true => (Side::Sender, Side::Receiver),
            false => (Side::Receiver, Side::Sender),
        };
        let end_ns = about.window_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(i64::MAX);
        keep.event(&flow(&stream, here, &lane.moments, mss, end_ns))?;
        let part = parts.and_then(|parts| parts.streams.iter().find(|part| part.id == lane.id));
        match part.filter(|part| !part.moments.is_empty()) {
            Some(part) => {
                let mss = part.mss.unwrap_or(mss);
                keep.event(&flow(&stream, there, &part.moments, mss, end_ns))?;
            }
            // A plain iperf3 tells only the sum.
            None => keep.event(&totals(outcome, &stream, there, lane.id))?,
        }
        if let Some(measured) = report.measured(outcome, lane) {
            let value = serde_json::to_string(&measured).expect("names and numbers are JSON");
            let subject = Subject::stream(&*stream, Told::Measured);
            keep.event(&Fact::new(When::After, subject, value).into())?;
        }
    }
    for found in report.causes(outcome) {
        let value = serde_json::to_string(&found).expect("names and numbers are JSON");
        let subject = Subject::stream(&*found.subject, Told::Found);
        keep.event(&Fact::new(When::After, subject, value).into())?;
    }
    if let Some(grade) = &report.grade {
        let value = serde_json::to_string(grade).expect("names and numbers are JSON");
        keep.event(&Fact::new(When::After, Subject::stream(STREAM, Told::Grade), value).into())?;
    }
    keep.headline(report.opening(headline));
    let samples = outcome.latency.loaded.clone();
    if !samples.is_empty() {
        keep.event(&Event::Echo { stream: STREAM.into(), samples })?;
    }
    keep.finish(End::of(outcome.broke.as_deref(), outcome.stopped))
}

fn took(outcome: &FlowMeasurement) -> Duration {
    let omitted = Duration::from_nanos(outcome.plan.omit.nanos());
    omitted.saturating_add(Duration::try_from_secs_f64(outcome.seconds).unwrap_or_default())
}

fn direction(sends: bool) -> &'static str {
    if sends { "up" } else { "down" }
}

/// Which way each stream went, and its answers. Between two hosts there are two ways, whatever lines are on them.
fn ways(outcome: &FlowMeasurement) -> Vec<(&'static str, &'static str, Option<&'static str>)> {
    let lanes = [true, false].into_iter().filter(|up| outcome.lanes.iter().any(|l| l.sends == *up));
    let flows = lanes.map(|up| (direction(up), direction(up), None));
    flows.chain([(STREAM, direction(true), Some(direction(false)))]).collect()
}

fn fact(stream: &str, what: Told, value: &str) -> Event {
    Fact::new(When::Before, Subject::stream(stream, what), value).into()
}

/// One end of a stream. What its sender counted until it heard of the end belongs to the test, which is over at `end_ns` of the client's clock.
fn flow(stream: &str, side: Side, moments: &[Moment], mss: u32, end_ns: i64) -> Event {
    let samples = moments.iter().map(|moment| FlowSample {
        t_ns: if side == Side::Sender { moment.t_ns.min(end_ns) } else { moment.t_ns },
        side,
        bytes: moment.bytes,
        packets: moment.packets,
        tcp: (side == Side::Sender && moment.srtt_us > 0).then(|| state(moment, mss)),
    });
    Event::Flow { stream: stream.into(), samples: samples.collect() }
}

fn state(moment: &Moment, mss: u32) -> TcpState {
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    TcpState {
        retransmits: Some(moment.retransmits),
        cwnd: small(moment.cwnd / u64::from(mss.max(1))),
        srtt_us: small(moment.srtt_us),
        min_rtt_us: small(moment.min_rtt_us),
        delivery_rate: moment.delivery_rate,
        pacing_rate: if moment.pacing_rate == 0 { u64::MAX } else { moment.pacing_rate },
        unacked: 0,
        notsent_bytes: small(moment.unsent),
    }
}

fn totals(outcome: &FlowMeasurement, stream: &str, side: Side, id: u32) -> Event {
    let theirs = outcome.theirs.as_ref().and_then(|t| t.streams.iter().find(|s| s.id == id));
    let at = |seconds: f64, bytes: u64, packets: u64| FlowSample {
        t_ns: (seconds * 1e9) as i64,
        side,
        bytes,
        packets,
        tcp: None,
    };
    let samples = match theirs {
        Some(t) => {
            // Of datagrams a receiver tells how many it knows of, and how many of these it misses.
            let missing = if side == Side::Receiver { t.errors } else { 0 };
            let packets = u64::try_from(t.packets.saturating_sub(missing)).unwrap_or(0);
            vec![at(0.0, 0, 0), at(t.end_time - t.start_time, t.bytes, packets)]
        }
        None => Vec::new(),
    };
    Event::Flow { stream: stream.into(), samples }
}
