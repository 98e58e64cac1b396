//! A run that was kept, summed up and drawn again.

use super::session::{Method, Session};
use super::tally::Tally;
use super::target::Target;
use clap::ValueEnum;
use quell_model::{Subject, Told};
use quell_store::Run;
use quell_sys::socket::Way;
use quell_units::{Span, Tos};
use quell_wire::text::printable;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};

/// What was pinged, and the figures of each stream; none when the run is not one of `quell ping`.
pub fn session(run: &Run) -> Option<(Session, Vec<Tally>)> {
    let data = run.cells.first()?;
    let mut method = None;
    let mut interval = Span::ZERO;
    let mut targets = Vec::new();
    let mut tallies = Vec::new();
    // Facts are in the order of the command line, series in that of names.
    for fact in &data.facts {
        let Subject::Stream(stream, Told::Target) = &fact.subject else { continue };
        let told: Value = serde_json::from_str(&fact.value).ok()?;
        interval = Span::from_nanos(told["interval_ns"].as_u64()?);
        method = Method::from_str(told["method"].as_str()?, false).ok();
        let address: IpAddr = told["address"].as_str()?.parse().ok()?;
        let port = told["port"].as_u64().and_then(|p| u16::try_from(p).ok()).unwrap_or(0);
        targets.push(Target {
            name: printable(stream, 100),
            host: printable(told["host"].as_str()?, 300),
            to: SocketAddr::new(address, port),
            others: Vec::new(),
            tos: Tos::from_byte(u8::try_from(told["tos"].as_u64()?).ok()?),
            size: told["bytes"].as_u64().and_then(|b| u32::try_from(b).ok()).unwrap_or(0),
        });
        let mut tally = Tally::new(interval.nanos());
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
    let session = Session {
        targets,
        method: method?,
        interval,
        count: None,
        duration: None,
        wait: None,
        way: Way::default(),
        one_clock: false,
        wall_clock: false,
        outage: false,
        seed: run.manifest.seed,
    };
    Some((session, tallies))
}
