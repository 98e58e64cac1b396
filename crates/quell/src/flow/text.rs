//! A test in words, when it is over: a headline and the working below it.

use super::figures::{mbit, rate};
use crate::text::{WIDEST, fitted, lines};
use quell_cause::Cause;
use quell_finding::{Finding, seen, to_do};
use quell_flow::latency::RttSummary;
use quell_flow::report::{Bdp, DatagramReport, DirectionReport, HostReport, LocalDrops};
use quell_flow::{FlowMeasurement, FlowReport, Transport, added_each_way, headline};
use quell_grade::Assessment;
use quell_units::fmt::plural;
use quell_units::fmt::{self, bytes, ms, percent};
use quell_wire::iperf3::HostCounters;
use std::fmt::Write;

/// What the server printed, where it was asked to tell.
pub fn server_output(theirs: &quell_wire::iperf3::Results, width: usize) -> Option<String> {
    let text = match (&theirs.server_output_text, &theirs.server_output_json) {
        (Some(text), _) => text.clone(),
        (None, Some(json)) => format!("{json:#}"),
        (None, None) => return None,
    };
    // Each line says whose it is: what is written there may look like what this program says.
    let head = "server: ";
    let room = if width < WIDEST { width - head.len() } else { width };
    let line = |line| {
        let said = fitted(&quell_wire::text::printable(line, 200), room);
        said.split('\n').map(|part| format!("{head}{part}\n")).collect::<String>()
    };
    Some(format!("\nserver's output\n{}", text.lines().map(line).collect::<String>()))
}

/// Opening, figures and evidence, in lines of so many columns; `all` of it or what decides.
pub fn summary(
    outcome: &FlowMeasurement,
    findings: &FlowReport,
    (bdp, all): (bool, bool),
    width: usize,
) -> String {
    let wrapped = |label: &str, text: &str| wrapped(label, text, width);
    let mut out = String::from("\n");
    if outcome.stopped {
        out += match outcome.theirs {
            Some(_) => "stopped before its time\n",
            None => "stopped before the server's results had come\n",
        };
    }
    for sentence in findings.opening(headline(outcome, findings, rate)) {
        out += &lines("", &sentence, width);
    }
    out.push('\n');
    for line in findings.grade.iter().flat_map(Assessment::figures) {
        out += &lines("  ", &line, width);
    }
    if findings.grade.is_some() {
        out.push('\n');
    }
    for (way, name) in [(&findings.up, "up"), (&findings.down, "down")] {
        if let Some(way) = way {
            direction(&mut out, name, way, outcome, (all, width));
        }
    }
    for doubt in &findings.doubts {
        out += &wrapped("unknown", doubt);
    }
    latency(&mut out, outcome, findings, width);
    if bdp {
        match &findings.bdp {
            Some(bdp) => window_needed(&mut out, bdp, width),
            None => {
                out += &wrapped(
                    "window",
                    "the sender's kernel did not tell the window that it was offered",
                );
            }
        }
    }
    if all {
        ends(&mut out, findings, width);
    }
    if let Some(note) = fragments(outcome) {
        out += &wrapped("note", &note);
    }
    if !outcome.quell_server() && outcome.theirs.is_some() && all {
        let note = "the server is a plain iperf3: its counters, times between arrivals and states over time are not known";
        out += &wrapped("note", note);
    }
    out
}

fn direction(
    out: &mut String,
    name: &str,
    way: &DirectionReport,
    outcome: &FlowMeasurement,
    (all, width): (bool, usize),
) {
    let wrapped = |label: &str, text: &str| wrapped(label, text, width);
    let bytes = way.received_bytes.or(way.sent_bytes).unwrap_or(0);
    let who = if way.by_receiver { "counted by the receiver" } else { "counted by the sender" };
    let line = match (way.bits_per_second.or(way.sent_bits_per_second), way.seconds) {
        (Some(bits), Some(seconds)) => {
            format!("{}: {} in {seconds:.2} s, {who}", rate(bits), fmt::bytes(bytes))
        }
        _ => format!("{}, {who}: no more than one datagram, which has no rate", fmt::bytes(bytes)),
    };
    *out += &wrapped(name, &line);
    if way.streams.len() > 1 && way.streams.iter().any(Option::is_some) {
        let each = way.streams.iter().map(|bits| bits.map_or("none".into(), mbit));
        let each: Vec<String> = each.collect();
        *out += &wrapped("", &format!("each stream, in Mbit/s: {}", each.join(", ")));
    }
    if let Some(datagrams) = &way.datagrams {
        udp(out, name, datagrams, (all, width));
        // What a queue refused it dropped.
        let refused = datagrams.refused.unwrap_or(0);
        let more = way.dropped_here.as_ref().filter(|dropped| dropped.packets > refused);
        more.inspect(|dropped| *out += &wrapped("", &dropped_here(dropped)));
        way.finding(name).iter().for_each(|finding| cause(out, way, finding, width));
        if let Some(why) = way.policer_unknown {
            *out += &wrapped("", &format!("whether a policer dropped them is unknown: {why}"));
        }
        return;
    }
    let mut facts = Vec::new();
    if !way.congestion.is_empty() {
        facts.push(way.congestion.join(", "));
    }
    if let Some(again) = way.retransmits {
        facts.push(match again {
            0 => "no segment sent again".into(),
            1 => "1 segment sent again".into(),
            n => format!("{n} segments sent again"),
        });
    }
    if let Some([min, median, max]) = way.tcp_rtt_ms {
        facts.push(format!("TCP's own RTT {} to {} ms, median {}", ms(min), ms(max), ms(median)));
    }
    if let Some(window) = way.window {
        facts.push(format!("receiver's window up to {}", fmt::bytes(window)));
    }
    if !facts.is_empty() {
        *out += &wrapped("", &facts.join("; "));
    }
    if let Some(finding) = way
        .finding(name)
        .filter(|_| outcome.broke.is_none() || way.cause == Some(Cause::MtuBlackHole))
    {
        cause(out, way, &finding, width);
    }
    way.dropped_here.iter().for_each(|dropped| *out += &wrapped("", &dropped_here(dropped)));
}

/// What the sender waited for, the facts, what to do.
fn cause(out: &mut String, way: &DirectionReport, finding: &Finding, width: usize) {
    let sure = if finding.sure || way.cause == Some(Cause::Unknown) { "" } else { ", probably" };
    let queue = way
        .own_queue
        .as_ref()
        .map_or(String::new(), |queue| format!(" ({}: {})", queue.device, queue.kinds.join(", ")));
    *out += &lines("cause    ", &format!("{}{queue}{sure}", finding.says), width);
    *out += &lines("         ", &seen(finding), width);
    if let Some(remedies) = to_do(finding) {
        *out += &lines("         ", &format!("do: {remedies}"), width);
    }
}

fn dropped_here(dropped: &LocalDrops) -> String {
    let LocalDrops { device, redirected_from, kinds, packets, filters } = dropped;
    let packets = plural(*packets, "packet");
    if *filters {
        return format!(
            "meanwhile filters on this host's own {device} ({}) dropped {packets}, of this flow or others, not the path",
            kinds.join(", ")
        );
    }
    let (queue, place) = match redirected_from {
        Some(_) => ("own queue of what comes in", "behind"),
        None => ("own queue", "before"),
    };
    format!(
        "meanwhile this host's {queue} dropped {packets}, of this flow or others, {place} the path ({} on {device})",
        kinds.join(", ")
    )
}

fn udp(out: &mut String, name: &str, datagrams: &DatagramReport, (all, width): (bool, usize)) {
    let wrapped = |label: &str, text: &str| wrapped(label, text, width);
    let mut facts = vec![match datagrams.arrived {
        0 if datagrams.sent == 0 => "no datagram arrived".to_owned(),
        0 => format!("{} datagrams sent, none arrived", datagrams.sent),
        _ => format!(
            "{} datagrams sent, {} lost ({} %)",
            datagrams.sent,
            datagrams.lost,
            percent(datagrams.loss)
        ),
    }];
    if datagrams.omitted_included {
        facts[0] += ", those of the time that does not count included (the server does not tell them apart)";
    }
    if datagrams.tail_unknown {
        facts.push(
            "how many were sent behind the last one that arrived the server did not tell".into(),
        );
    }
    if datagrams.unseen > 0 && datagrams.arrived > 0 {
        facts.push(format!("the last {} not seen when it ended: lost or late", datagrams.unseen));
    }
    if let Some(reordered) = datagrams.reordered {
        facts.push(format!("{reordered} out of order"));
    }
    if let Some(duplicates) = datagrams.duplicates {
        facts.push(format!("{duplicates} duplicated"));
    }
    facts.push(match datagrams.jitter_ms {
        Some(jitter) => format!("jitter {} ms (RFC 3550)", ms(jitter)),
        None => "jitter unknown".into(),
    });
    *out += &wrapped("", &facts.join(", "));
    if let Some(dropped @ 1..) = datagrams.socket_dropped {
        *out += &wrapped(
            "",
            &format!("{dropped} of them were dropped by the receiving host: its socket was full"),
        );
    }
    if let Some(foreign @ 1..) = datagrams.foreign {
        // What came there only the server knows, and nothing here can be held against it.
        let who = if name == "up" { ", as the server says" } else { "" };
        let fact = format!(
            "datagrams that are not of this test (another length): {foreign}{who}; they don't count"
        );
        *out += &wrapped("", &fact);
    }
    if let Some(refused @ 1..) = datagrams.refused {
        *out += &wrapped("", &format!("{refused} of them were refused by a queue of this host"));
    }
    let total = datagrams.gaps.iter().fold(0_u64, |sum, (_, n)| sum.saturating_add(*n));
    if total > 0 && all {
        let at = |share: f64| {
            let mut left = (share * total as f64).ceil() as u64;
            let class = datagrams.gaps.iter().find(|(_, n)| {
                let here = *n >= left;
                left = left.saturating_sub(*n);
                here
            });
            class.or(datagrams.gaps.last()).map_or(0.0, |(ns, _)| *ns as f64 / 1e6)
        };
        let longest = match datagrams.longest_gap_ns {
            Some(ns) => format!("longest {} ms", ms(ns as f64 / 1e6)),
            None => format!("all within {} ms", ms(at(1.0))),
        };
        let line = format!(
            "time between arrivals: half within {} ms, 99 % within {} ms, {longest}",
            ms(at(0.5)),
            ms(at(0.99)),
        );
        *out += &wrapped("", &line);
    }
}

fn latency(out: &mut String, outcome: &FlowMeasurement, findings: &FlowReport, width: usize) {
    let wrapped = |label: &str, text: &str| wrapped(label, text, width);
    let with = outcome.latency.method.map_or("", |method| method.name());
    let line = |name: &str, spread: &RttSummary| {
        format!(
            "{name} median {} ms, 99 % within {} ms, {} to {} ms ({} pings, {} lost{}{}{})",
            ms(spread.p50_ms),
            ms(spread.p99_ms),
            ms(spread.min_ms),
            ms(spread.max_ms),
            spread.sent,
            spread.lost,
            match spread.unanswered {
                0 => String::new(),
                some => format!(", {some} left unanswered or lost"),
            },
            if spread.late > 0 { format!(", {} late", spread.late) } else { String::new() },
            match spread.is_majority() {
                true => String::new(),
                false => format!("; of the {} answered ones alone", spread.answered()),
            }
        )
    };
    if let Some(idle) = &findings.idle {
        *out += &wrapped("latency", &format!("{}, by {with}", line("idle:  ", idle)));
    }
    if let Some(loaded) = &findings.loaded {
        *out += &wrapped("", &line("loaded:", loaded));
        if let Some(ways) = added_each_way(findings) {
            *out += &wrapped("", &format!("median added by the load: {ways}"));
        }
    }
    let spreads = [&findings.idle, &findings.loaded].into_iter().flatten();
    let unanswered = spreads.map(|spread| spread.unanswered as u64).sum();
    if let Some(words) = crate::unanswered::left_unanswered(unanswered) {
        *out += &wrapped("", &words);
    }
    if let Some(note) = &outcome.latency.note {
        *out += &wrapped("latency", note);
    }
}

fn window_needed(out: &mut String, bdp: &Bdp, width: usize) {
    let wrapped = |label: &str, text: &str| wrapped(label, text, width);
    let why = if bdp.asked { "asked for" } else { "reached" };
    let line = format!(
        "{} ({why}) times {} ms needs {} in flight; the receiver offered up to {}: {}",
        rate(bdp.rate),
        ms(bdp.rtt_ms),
        bytes(bdp.needed),
        bytes(bdp.offered),
        match bdp.enough {
            Some(true) => "enough".to_owned(),
            None => "whether more would have helped is unknown".to_owned(),
            Some(false) if bdp.offered >= bdp.needed =>
                "that, or the sender's buffer, held it up".into(),
            Some(false) => format!(
                "too little, at most {} fit; raise net.ipv4.tcp_rmem (its third value) there, or take -w {}",
                rate(bdp.offered as f64 * 8.0 / (bdp.rtt_ms / 1e3).max(1e-9)),
                bdp.needed
            ),
        }
    );
    *out += &wrapped("window", &line);
    if let Some(buffer) = bdp.send_buffer {
        *out += &wrapped("", &format!("the sender's socket buffer: {}", bytes(buffer)));
    }
}

fn ends(out: &mut String, findings: &FlowReport, width: usize) {
    let wrapped = |label: &str, text: &str| wrapped(label, text, width);
    let cpu = |end: &HostReport| {
        let parts = [end.cpu_percent, end.cpu_user_percent, end.cpu_system_percent];
        let mut text = match parts {
            [Some(all), Some(user), Some(kernel)] => {
                format!("{all:.0} % of a CPU ({user:.0} user, {kernel:.0} kernel)")
            }
            _ => "unknown".into(),
        };
        if let (Some(busy), Some(cpus)) = (end.host_busy_percent, end.cpus) {
            let _ = write!(text, ", host {busy:.0} % of {}", plural(cpus, "CPU"));
        }
        text
    };
    let mut line = format!("here {}", cpu(&findings.here));
    if let Some(there) = &findings.there {
        let _ = write!(line, "; there {}", cpu(there));
    }
    *out += &wrapped("CPU", &line);
    let counters = [("here", Some(&findings.here)), ("there", findings.there.as_ref())];
    for (name, end) in counters {
        let moved = end.and_then(|end| end.counted.as_ref()).map(moved).unwrap_or_default();
        if !moved.is_empty() {
            *out += &wrapped("counters", &format!("{name}, the whole host: {}", moved.join(", ")));
        }
    }
}

fn moved(counted: &HostCounters) -> Vec<String> {
    [
        (counted.retransmitted, "TCP segments sent again"),
        (counted.timeouts, "retransmission timeouts"),
        (counted.tcp_dropped, "TCP segments dropped, their socket being full"),
        (counted.udp_receive_dropped, "datagrams dropped, their socket being full"),
        (counted.udp_send_dropped, "datagrams without room to be sent"),
        (counted.queue_dropped, "packets dropped by the device's queue"),
        (counted.device_send_dropped, "packets dropped by the device on sending"),
        (counted.device_receive_dropped, "packets dropped by the device on receiving"),
        (counted.device_errors, "device errors"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{n} {what}"))
    .collect()
}

fn fragments(outcome: &FlowMeasurement) -> Option<String> {
    let plan = &outcome.plan;
    // One that broke off says itself what a packet of its path can't carry.
    if outcome.broke.is_some() {
        return None;
    }
    let mtu = u64::from(outcome.path_mtu.filter(|_| plan.transport == Transport::Udp)?);
    let headers = if plan.to.is_ipv6() { 48 } else { 28 };
    if mtu <= headers || outcome.block + headers <= mtu {
        return None;
    }
    let pieces = (outcome.block + 8).div_ceil(mtu.saturating_sub(headers - 8) / 8 * 8);
    let most = mtu - headers;
    Some(format!(
        "datagrams of {} bytes travel in {pieces} pieces each (the MTU is {mtu} here, and perhaps smaller on the path). \
         All are lost when one is: no more than -l {most} fits",
        outcome.block
    ))
}

fn wrapped(label: &str, text: &str, width: usize) -> String {
    lines(&format!("{label:<9}"), text, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_flow::datagram_loss;

    #[test]
    fn each_line_of_what_the_server_printed_says_whose_it_is() {
        let theirs = quell_wire::iperf3::Results {
            server_output_text: Some("Accepted\n\nYou get 9 Gbit/s down.\u{9b}2J".into()),
            ..Default::default()
        };
        let text = server_output(&theirs, WIDEST).unwrap();
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines.iter().all(|line| line.starts_with("server: ")), "{text}");
        assert_eq!(lines[2], "server: You get 9 Gbit/s down.\\x9b2J");
        let long = quell_wire::iperf3::Results {
            server_output_text: Some("  a server's words ".repeat(8)),
            ..theirs
        };
        let text = server_output(&long, 80).unwrap();
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert!(lines.len() > 1 && lines.iter().all(|l| l.starts_with("server: ")), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn what_nobody_saw_arrive_is_not_said_to_be_fine() {
        let none = DatagramReport {
            sent: 250,
            arrived: 0,
            lost: 0,
            loss: 1.0,
            unseen: 250,
            tail_unknown: false,
            omitted_included: false,
            reordered: None,
            duplicates: None,
            socket_dropped: None,
            foreign: None,
            refused: Some(235),
            jitter_ms: Some(0.0),
            gaps: Vec::new(),
            longest_gap_ns: None,
        };
        assert_eq!(datagram_loss(&none), "not one of 250 datagrams arrived");
        let mut text = String::new();
        udp(&mut text, "up", &none, (true, WIDEST));
        assert!(text.contains("250 datagrams sent, none arrived"), "{text}");
        assert!(text.contains("235 of them were refused"), "{text}");
        let strange = DatagramReport { foreign: Some(7), ..none.clone() };
        let said = |name| {
            let mut text = String::new();
            udp(&mut text, name, &strange, (true, 200));
            (text.contains(": 7; they"), text.contains(": 7, as the server says; they"))
        };
        assert_eq!([said("down"), said("up")], [(true, false), (false, true)]);
        let few = DatagramReport { arrived: 15, unseen: 235, loss: 0.0, ..none.clone() };
        assert_eq!(datagram_loss(&few), "235 of 250 datagrams had not arrived when it ended");
        let all = DatagramReport { arrived: 249, unseen: 1, loss: 0.0, ..none.clone() };
        assert_eq!(datagram_loss(&all), "nothing is lost", "the last was still on its way");
        let cut = DatagramReport {
            sent: 213,
            arrived: 213,
            unseen: 0,
            loss: 0.0,
            tail_unknown: true,
            ..none.clone()
        };
        assert_eq!(datagram_loss(&cut), "what was lost at its end is unknown");
        let some = DatagramReport { arrived: 200, lost: 50, unseen: 0, loss: 0.2, ..none };
        assert_eq!(datagram_loss(&some), "20.0 % of datagrams are lost");
    }
}
