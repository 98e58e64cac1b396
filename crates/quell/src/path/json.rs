//! The same for programs: one document.

use super::findings;
use super::known::{Hop, Known, Narrow, Who};
use super::session::Session;
use crate::ping::json::figures;
use quell_units::Tos;
use serde_json::{Value, json};

/// The whole result.
pub fn document(session: &Session, known: &Known, run: Option<&str>) -> Value {
    let hops: Vec<Value> = known.hops().map(|(number, hop, _)| of(number, hop, known)).collect();
    let flows: Vec<Value> = session
        .ports
        .iter()
        .enumerate()
        .map(|(flow, port)| {
            let end = known.shape.ends.get(flow).copied().flatten();
            let outcome = known.outcome(flow, end.map_or(known.length().max(1), usize::from));
            json!({
                "flow": flow + 1,
                "port": port,
                "hops": end,
                "sent": outcome.sent,
                "answered": outcome.answered,
                "unsure": outcome.unsure,
                "loss_ratio": (outcome.sent > 0 && outcome.unsure == 0)
                    .then(|| 1.0 - outcome.answered as f64 / outcome.sent as f64),
            })
        })
        .collect();
    json!({
        "host": session.host,
        "address": session.to.ip().to_string(),
        "port": Some(session.to.port()).filter(|port| *port > 0),
        "method": session.method,
        "bytes": session.size,
        "tos": session.tos,
        "interval_ms": session.interval_ns as f64 / 1e6,
        "reached": known.reached(session.to.ip()),
        "mtu": known.mtu(session.to.ip()),
        "sees_marks": session.sees_marks,
        "unmatched": known.shape.unmatched,
        "strange": known.shape.strange,
        "may_be_forged": known.shape.trusted,
        "run": run,
        "flows": flows,
        "hops": hops,
        "findings": findings::of(session, known),
    })
}

fn of(number: usize, hop: &Hop, known: &Known) -> Value {
    let mut value = json!({
        "hop": number,
        "mtu": hop.mtu,
        "mtu_said_by": match hop.narrow {
            Some(Narrow::Said(by)) => Some(by.to_string()),
            _ => None,
        },
        "larger_vanish": hop.narrow == Some(Narrow::Vanish),
        "answers_less": hop.answers_less,
        "marked_vanish": hop.marks_vanish,
        "addresses": hop.who.iter().map(who).collect::<Vec<Value>>(),
    });
    if let Some(tally) = known.tallies.get(number - 1) {
        figures(&mut value, tally);
    }
    value
}

fn who(who: &Who) -> Value {
    let tos = |(sent, came): &(u8, u8)| {
        let named = |byte: u8| {
            let tos = Tos::from_byte(byte);
            json!({"tos": byte, "dscp": tos.dscp().value(), "ecn": tos.ecn().to_string()})
        };
        json!({"sent": named(*sent), "arrived": named(*came)})
    };
    json!({
        "address": who.address.to_string(),
        "flows": who.flows.iter().map(|flow| flow + 1).collect::<Vec<u16>>(),
        "answer_ttl": who.back_ttl,
        "hops_back": who.back_hops(),
        "arrived": who.arrived,
        "unreachable_code": who.stops,
        "marks": who.marks.iter().map(tos).collect::<Vec<Value>>(),
        "mpls": who.labels.iter().map(|(label, class, ttl)| {
            json!({"label": label, "class": class, "ttl": ttl})
        }).collect::<Vec<Value>>(),
    })
}
