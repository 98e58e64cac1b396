//! A test of responsiveness as a run: every probe by what it asked for and under which load, and what each direction carried.
//!
//! ```text
//!   idle-connection, idle-request            a line that nothing else uses
//!   down-connection, down-request            connections of their own, while the server sends
//!   down-within                              requests in the connections that carry the load
//!   up-…                                     the same while this end sends;  …-tls over TLS
//!   down, up                                 what all connections of a direction carried together
//! ```

use crate::limits::LIMITS;
use crate::{LoadDirection, ProbeKind, ProbeReturn, RpmPlan, RpmReport};
use quell_model::{EchoSample, EchoStatus, Event, Fact, FlowSample, Side, Subject, Told, When};
use quell_store::{About, End, Keep, Origin, StoreError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub fn save(
    base: &Path,
    plan: &RpmPlan,
    outcome: &RpmReport,
    end: End,
) -> Result<PathBuf, StoreError> {
    let lasts_ns = outcome.trail.lasts_ns();
    let about = About {
        name: "rpm".into(),
        scenario: if plan.tls { "https" } else { "http" }.into(),
        title: format!("responsiveness to {}", plan.authority),
        task: "rpm".into(),
        clock: "monotonic".into(),
        seed: 1,
        window_ns: Some(lasts_ns),
        origin: Origin::Here(Duration::from_nanos(lasts_ns)),
    };
    let mut keep = Keep::begin(base, &about)?;
    let streams = streams(&outcome.trail.probes);
    for name in streams.keys() {
        keep.event(&told(name, Told::Way, "up"))?;
        keep.event(&told(name, Told::WayBack, "down"))?;
    }
    for (name, samples) in streams {
        keep.event(&Event::Echo { stream: name, samples })?;
    }
    for way in [LoadDirection::Down, LoadDirection::Up] {
        let name = way.name();
        let samples: Vec<FlowSample> = carried(outcome, way).collect();
        if !samples.is_empty() {
            keep.event(&told(name, Told::Way, name))?;
            keep.event(&Event::Flow { stream: name.into(), samples })?;
        }
    }
    keep.headline(outcome.opening());
    keep.finish(end)
}

fn told(stream: &str, what: Told, value: &str) -> Event {
    Fact::new(When::Before, Subject::stream(stream, what), value).into()
}

/// Probes of a kind under a load, in the order in which they were sent.
fn streams(probes: &[ProbeReturn]) -> BTreeMap<String, Vec<EchoSample>> {
    let mut sorted: Vec<&ProbeReturn> = probes.iter().collect();
    sorted.sort_by_key(|probe| probe.t_ns);
    let mut streams: BTreeMap<String, Vec<EchoSample>> = BTreeMap::new();
    for probe in sorted {
        let stream = streams.entry(stream(probe)).or_default();
        let t_ns = i64::try_from(probe.t_ns).unwrap_or(i64::MAX);
        let mut sample = EchoSample::new(t_ns, stream.len() as u64, LIMITS.small, EchoStatus::Ok);
        sample.rtt_ns = Some((probe.ms * 1e6) as u64);
        stream.push(sample);
    }
    streams
}

fn stream(probe: &ProbeReturn) -> String {
    let asked = match probe.asked {
        ProbeKind::Connection => "connection",
        ProbeKind::Handshake => "tls",
        ProbeKind::Request => "request",
        ProbeKind::Within => "within",
    };
    format!("{}-{asked}", probe.way.map_or("idle", LoadDirection::name))
}

/// What of a direction had got there: as its receiver would have counted, whichever end knew.
fn carried(outcome: &RpmReport, way: LoadDirection) -> impl Iterator<Item = FlowSample> {
    outcome.trail.carried.iter().filter(move |carried| carried.way == way).map(|carried| {
        FlowSample {
            t_ns: i64::try_from(carried.t_ns).unwrap_or(i64::MAX),
            side: Side::Receiver,
            bytes: carried.bytes,
            packets: 0,
            tcp: None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_of_a_kind_are_a_stream_in_the_order_in_which_they_were_sent() {
        let probe = |way, asked, t_ns| ProbeReturn { way, asked, t_ns, ms: 20.0 };
        let probes = [
            probe(Some(LoadDirection::Down), ProbeKind::Within, 9),
            probe(None, ProbeKind::Connection, 1),
            probe(Some(LoadDirection::Down), ProbeKind::Within, 5),
        ];
        let streams = streams(&probes);
        assert_eq!(streams.keys().collect::<Vec<_>>(), ["down-within", "idle-connection"]);
        let within = &streams["down-within"];
        assert_eq!(within.iter().map(|s| (s.seq, s.t_ns)).collect::<Vec<_>>(), [(0, 5), (1, 9)]);
        assert_eq!(within[0].rtt_ns, Some(20_000_000));
    }
}
