//! A flow's figures, sent to the page of the server.

use crate::failure::Failure;
use quell_flow::{FlowMeasurement, FlowReport, Senders, Transport};
use quell_sys::wait::Bell;
use quell_web::sent::SentResult;
use std::time::UNIX_EPOCH;

const PATH: &str = "/web/results";

pub fn send(outcome: &FlowMeasurement, findings: &FlowReport, stop: &Bell) -> Result<(), Failure> {
    let plan = &outcome.plan;
    // Texts and numbers are always JSON.
    let json = serde_json::to_string(&figures(outcome, findings)).unwrap_or_default();
    quell_rpm::post(plan.to, plan.secret.as_ref(), PATH, &json, stop).map_err(|error| {
        Failure::system(format!(
            "the figures above could not be sent to the page: {error}; does `quell serve --web` run there?"
        ))
    })
}

fn figures(outcome: &FlowMeasurement, findings: &FlowReport) -> SentResult {
    let plan = &outcome.plan;
    let mbit = |way: &Option<quell_flow::report::DirectionReport>| {
        Some(way.as_ref()?.bits_per_second? / 1e6)
    };
    let transport = match plan.transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
    };
    let way = match plan.direction {
        Senders::Up => "up",
        Senders::Down => "down",
        Senders::Both => "both ways",
    };
    SentResult {
        at_s: outcome.started.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        program: concat!("quell ", env!("CARGO_PKG_VERSION")).into(),
        what: format!("{transport}, {way}, {:.0} s", outcome.seconds),
        up_mbit: mbit(&findings.up),
        down_mbit: mbit(&findings.down),
        idle_ms: findings.idle.map(|idle| idle.p50_ms),
        loaded_ms: findings.loaded.map(|loaded| loaded.p50_ms),
        loss_percent: [&findings.up, &findings.down]
            .into_iter()
            .filter_map(|way| Some(100.0 * way.as_ref()?.datagrams.as_ref()?.loss))
            .reduce(f64::max),
    }
}
