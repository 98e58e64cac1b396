//! What a person wants to know of a test, in a sentence or two.

use crate::report::{DatagramReport, DirectionReport};
use crate::{FlowMeasurement, FlowReport, Senders, Transport};
use quell_units::fmt::{bytes, ms, percent};

/// The sentences; `rate` prints bits a second.
pub fn headline(
    outcome: &FlowMeasurement,
    findings: &FlowReport,
    rate: fn(f64) -> String,
) -> String {
    let plan = &outcome.plan;
    let asked = plan.rate.map(|bits| bits as f64 * f64::from(plan.streams));
    let part = |way: &DirectionReport, name: &str| {
        let Some(bits) = way.bits_per_second else {
            return format!(
                "{} {name}, too few for a rate",
                bytes(way.received_bytes.unwrap_or(0))
            );
        };
        let got = rate(bits);
        match asked {
            Some(asked) => {
                // The unit once, where it is the same.
                let asked = rate(asked);
                let unit = asked.split(' ').next_back().unwrap_or_default();
                format!(
                    "{} of {asked} {name}",
                    got.strip_suffix(&format!(" {unit}")).unwrap_or(&got)
                )
            }
            None => format!("{got} {name}"),
        }
    };
    // Of datagrams nobody knows whether they arrive, unless the receiver says so.
    let guess = |way: &DirectionReport| way.is_unknown(plan.transport);
    let part = |way: &DirectionReport, name: &str| match guess(way) {
        true => format!(
            "an unknown part of the {} sent {name}",
            way.sent_bits_per_second.map_or_else(|| bytes(way.sent_bytes.unwrap_or(0)), rate)
        ),
        false => part(way, name) + by_whom(way, plan.transport, &findings.doubts),
    };
    let ways = [(&findings.up, "up"), (&findings.down, "down")];
    let parts: Vec<String> =
        ways.iter().filter_map(|(way, name)| Some(part(way.as_ref()?, name))).collect();
    let mut text = format!("You get {}", parts.join(" and "));
    let held: Vec<String> = ways
        .iter()
        .filter_map(|(way, name)| {
            let holder = way.as_ref()?.buffer_that_holds(name)?;
            let what = if parts.len() > 1 { *name } else { "it" };
            Some(format!("{holder} holds {what}"))
        })
        .collect();
    if !held.is_empty() {
        text += &format!(": {}", held.join(", "));
    }
    for (way, name) in ways {
        if let Some(datagrams) = way.as_ref().and_then(|w| w.datagrams.as_ref()) {
            let name =
                if plan.direction == Senders::Both { format!(" {name}") } else { String::new() };
            text += &format!("; {}{name}", datagram_loss(datagrams));
        }
    }
    // Where there is a grade, its sentence has said it; a line that was not filled adds nothing.
    let is_said = findings.grade.is_some() || findings.not_filled.is_some();
    if let (Some(idle), Some(loaded), false) = (findings.idle, findings.loaded, is_said) {
        text += &match findings.added_ms {
            Some(added) => ping_beside(findings, idle.p50_ms, loaded.p50_ms, added),
            None => format!(
                "; under load only {} of {} pings were answered, those in {} to {} ms (without load: {} ms)",
                loaded.answered(),
                loaded.sent,
                ms(loaded.min_ms),
                ms(loaded.max_ms),
                ms(idle.p50_ms)
            ),
        };
    }
    text + "."
}

pub fn datagram_loss(datagrams: &DatagramReport) -> String {
    let DatagramReport { sent, arrived, lost, loss, unseen, tail_unknown, .. } = datagrams;
    match (*arrived, *lost) {
        (0, _) if *sent == 0 => "nothing arrived".into(),
        (0, _) => format!("not one of {sent} datagrams arrived"),
        (_, 0) if *unseen > *arrived => {
            format!("{unseen} of {sent} datagrams had not arrived when it ended")
        }
        (_, 0) if *tail_unknown => "what was lost at its end is unknown".into(),
        (_, 0) => "nothing is lost".into(),
        _ => format!("{} % of datagrams are lost", percent(*loss)),
    }
}

/// What a load adds to a ping.
fn ping_beside(findings: &FlowReport, idle: f64, loaded: f64, added: f64) -> String {
    let (from, to) = (ms(idle), ms(loaded));
    // No more than by what one ping of ten varies without, or than a host's own noise.
    let varies = findings.idle.as_ref().map_or(0.0, |idle| idle.p90_ms - idle.p50_ms);
    if added.abs() < varies.max(0.05) {
        return format!("; a ping takes as long as without ({to} ms)");
    }
    let more = if added > 0.0 { "more" } else { "less" };
    let added = ms(added.abs());
    format!("; under load the median ping takes {added} ms {more} (from {from} to {to} ms)")
}

/// By how much the median of each direction grew; none where two clocks may have drifted apart by as much in a test.
pub fn added_each_way(findings: &FlowReport) -> Option<String> {
    let ways = findings.added_up_ms.zip(findings.added_down_ms);
    findings.added_ms.zip(ways).and_then(|(added, (up, down))| parts(added, [up, down]))
}

fn parts(added: f64, ways: [f64; 2]) -> Option<String> {
    const DRIFT: f64 = 0.5;
    let signed = |value: f64| match value.abs() < DRIFT && value.abs() * 10.0 < added.abs() {
        true => "0".to_owned(),
        false => format!("{}{}", if value > 0.0 { "+" } else { "-" }, ms(value.abs())),
    };
    let [up, down] = ways.map(signed);
    (added.abs() >= DRIFT).then(|| format!("{up} ms up, {down} ms down"))
}

/// Whose count a rate is, where the receiver's can't be: what TCP acknowledged may have been read by nobody.
fn by_whom(way: &DirectionReport, transport: Transport, doubts: &[String]) -> &'static str {
    match transport == Transport::Tcp && !way.by_receiver && !doubts.is_empty() {
        true => " by what was acknowledged (the server's count is impossible)",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_the_server_did_not_count_says_whose_it_is() {
        let way = DirectionReport { bits_per_second: Some(9.57e9), ..DirectionReport::default() };
        let said = |way: &DirectionReport, doubts: &[String]| by_whom(way, Transport::Tcp, doubts);
        assert_eq!(said(&way, &[]), "");
        let doubts = ["the server's count of stream 1 is impossible: ...".to_owned()];
        assert!(said(&way, &doubts).contains("acknowledged"));
        let counted = DirectionReport { by_receiver: true, ..way };
        assert_eq!(said(&counted, &doubts), "", "something else of it can't be");
    }

    #[test]
    fn the_parts_of_what_a_ping_takes_longer_are_none_that_it_does_not_have() {
        assert_eq!(parts(0.26, [0.26, 0.0]), None, "as much as two clocks drift");
        assert_eq!(parts(0.7, [0.3, 0.4]).as_deref(), Some("+0.300 ms up, +0.400 ms down"));
        assert_eq!(parts(1.05, [0.45, 0.6]).as_deref(), Some("+0.450 ms up, +0.600 ms down"));
        assert_eq!(parts(58.0, [58.1, -0.1]).as_deref(), Some("+58.10 ms up, 0 ms down"));
        assert_eq!(parts(-2.0, [-2.0, 0.001]).as_deref(), Some("-2.000 ms up, 0 ms down"));
    }
}
