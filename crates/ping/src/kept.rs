//! Pings as a run: what was asked for is a fact of each stream, of which a run is summed up again.

use crate::{Method, PingError, PingSession, Tally, Target};
use quell_model::{Fact, Subject, Told, When};
use quell_store::{About, Keep, Origin, Run, command_line};
use quell_sys::socket::Way;
use quell_units::{Span, Tos};
use quell_wire::text::printable;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct KeptStream {
    stream: String,
    host: String,
    address: IpAddr,
    tos: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u32>,
    method: Method,
    interval_ns: u64,
}

/// Begins the run `name` under `base`.
pub fn begin(base: &Path, name: &str, session: &PingSession) -> Result<Keep, PingError> {
    let about = About {
        name: name.into(),
        scenario: session.method.key().into(),
        title: command_line(),
        task: "ping".into(),
        clock: "CLOCK_MONOTONIC".into(),
        seed: session.seed,
        window_ns: None,
        origin: Origin::Here(Duration::ZERO),
    };
    let mut keep = Keep::begin(base, &about)?;
    for target in &session.targets {
        let kept = KeptStream {
            stream: target.name.clone(),
            host: target.host.clone(),
            address: target.to.ip(),
            tos: target.tos.byte(),
            port: session.port_of(target),
            bytes: session.bytes_of(target),
            method: session.method,
            interval_ns: session.interval.nanos(),
        };
        let text = serde_json::to_string(&kept).expect("names and numbers are JSON");
        let subject = Subject::stream(&*target.name, Told::Target);
        keep.event(&Fact::new(When::Before, subject, text).into())?;
    }
    Ok(keep)
}

/// What was pinged, and the figures of each stream; none when the run is not one of `quell ping`.
pub fn reopen(run: &Run) -> Option<(PingSession, Vec<Tally>)> {
    let data = run.cells.first()?;
    let (mut of, mut targets, mut tallies) = (None, Vec::new(), Vec::new());
    // Facts are in the order of the command line, series in that of names.
    for fact in &data.facts {
        let Subject::Stream(stream, Told::Target) = &fact.subject else { continue };
        let kept: KeptStream = serde_json::from_str(&fact.value).ok()?;
        of = Some((kept.method, kept.interval_ns));
        targets.push(Target {
            name: printable(stream, 100),
            host: printable(&kept.host, 300),
            to: SocketAddr::new(kept.address, kept.port.unwrap_or(0)),
            others: Vec::new(),
            tos: Tos::from_byte(kept.tos),
            size: kept.bytes.unwrap_or(0),
        });
        let mut tally = Tally::new(kept.interval_ns);
        // They are kept in the order of sending; figures want them as they came.
        let mut samples: Vec<_> =
            data.echo(stream).map_or(&[][..], |s| &s.samples).iter().collect();
        samples.sort_by_key(|s| s.down_order.unwrap_or(s.seq));
        samples.into_iter().for_each(|s| tally.take(s));
        for fact in &data.facts {
            if let Subject::Stream(other, what) = &fact.subject
                && other == stream
            {
                tally.fact(what, &fact.value);
            }
        }
        tallies.push(tally);
    }
    let (method, interval_ns) = of?;
    let session = PingSession {
        targets,
        method,
        interval: Span::from_nanos(interval_ns),
        count: None,
        duration: None,
        wait: None,
        way: Way::default(),
        one_clock: false,
        seed: run.manifest.seed,
    };
    Some((session, tallies))
}
