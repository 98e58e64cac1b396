//! The summary: a table of hops, and what it means.
//!
//! ```text
//!  hop  address          sent  lost%    min    p50    p99    max jitter back   MTU
//!    1  10.0.0.2           10    0.0  0.000  0.000  0.000  0.000  0.000    1  1500
//!    2  10.0.1.2           10    0.0  10.00  10.00  10.00  10.00  0.000    2  1500
//! ```

use crate::ping::text::{ms_or_dash, starved};
use crate::text::{Column, Columns, WIDEST, fitted, lines};
use quell_cause::Cause;
use quell_path::{
    Hop, PathFinding, PathHops, PathSession, ProbeMethod, Responder, findings, flow_numbers,
};
use quell_report::analysis::{Counts, EchoFold, Spread};
use quell_units::fmt::{ms, percent, plural};
use quell_units::{Span, Tos};
use quell_wire::icmp_error::{MOST_LABELS, why_unreachable};
use std::fmt::Write;
use std::net::IpAddr;

const ADDRESS: usize = 15;
const LONGEST: usize = 39;

const FIGURES: usize = 65;

pub fn summary(session: &PathSession, hops: &PathHops, width: usize) -> String {
    let wrap = |text: &str| lines("", text, width);
    let mut out = wrap(&answer(session, hops)) + "\n" + &opening(session, hops) + "\n\n";
    for line in table(session, hops, true, width) {
        let _ = writeln!(out, "{line}");
    }
    out.push('\n');
    for finding in findings(session, hops) {
        out += &wrap(&capital(&finding.text));
    }
    if let Some(mtu) = hops.mtu(session.to.ip()) {
        let _ = writeln!(out, "Packets of {mtu} bytes get to the end.");
    }
    out += &wrap(&marks(session, hops));
    if let Some(starved) = starved(hops.figures.iter()) {
        out += &wrap(&starved);
    }
    fitted(out.trim_end(), width) + "\n"
}

/// What is said first: whether the host answers, how soon, and what is wrong for certain.
fn answer(session: &PathSession, hops: &PathHops) -> String {
    let host = &session.host;
    if !hops.reached(session.to.ip()) {
        let answers = hops.hops().filter(|(_, hop, _)| !hop.responders.is_empty()).last();
        return match answers {
            Some((number, hop, _)) => {
                let who = hop.responders[0].address;
                format!("{host} does not answer; hop {number} ({who}) is the last that does.")
            }
            None => format!("{host} does not answer, and no hop before it does."),
        };
    }
    let end = hops.hops().last();
    let rtt =
        end.as_ref().and_then(|(number, ..)| hops.figures.get(number - 1)?.round_trip().delays_ms);
    let lost = end.as_ref().map(|(.., counts)| loss(counts)).filter(|lost| lost != "-");
    let mut said = format!("{host} answers over {}", plural(hops.length() as u64, "hop"));
    if let Some(rtt) = rtt {
        let _ = write!(said, " in {} ms (median)", ms(rtt.p50));
    }
    if let Some(lost) = lost {
        let _ = write!(said, ", {lost} % lost");
    }
    let black_hole = |found: &&PathFinding| found.id == Cause::MtuBlackHole.name();
    match findings(session, hops).iter().find(black_hole).and(hops.mtu(session.to.ip())) {
        Some(mtu) => said + &format!("; packets above {mtu} bytes vanish on the way."),
        None => said + ".",
    }
}

/// What is sent where: `example.org (192.0.2.7), ICMP, 56 bytes, every 1s`.
pub fn opening(session: &PathSession, hops: &PathHops) -> String {
    let address = match session.method {
        ProbeMethod::Icmp => session.to.ip().to_string(),
        ProbeMethod::Udp | ProbeMethod::Tcp => session.to.to_string(),
    };
    let mut line = session.host.clone();
    if address != session.host {
        let _ = write!(line, " ({address})");
    }
    let _ = write!(line, ", {}", session.method.name());
    if session.method != ProbeMethod::Tcp {
        let _ = write!(line, ", {} bytes", session.size);
    }
    if session.tos != 0 {
        let _ = write!(line, ", TOS {}", Tos::from_byte(session.tos));
    }
    match (&session.ports[..], session.method) {
        ([_], ProbeMethod::Icmp) => {}
        ([port], _) => {
            let _ = write!(line, ", from port {port}");
        }
        (ports, _) => {
            let _ = write!(line, ", {} flows", ports.len());
        }
    }
    let _ = write!(line, ", every {}", Span::from_nanos(session.interval_ns));
    if hops.length() == 0 {
        line += ": nobody answered";
    }
    line
}

/// The hops in lines of so many columns; `all` tells labels and further addresses too.
pub fn table(session: &PathSession, hops: &PathHops, all: bool, width: usize) -> Vec<String> {
    let names = hops.hops().flat_map(|(_, hop, _)| &hop.responders);
    let longest = names.map(|who| who.address.to_string().len()).max().unwrap_or(0);
    // Where there is no room beside it, a long address stands above its figures.
    let address = match longest.clamp(ADDRESS, LONGEST) {
        long if width < WIDEST && long + FIGURES > width => ADDRESS,
        long => long,
    };
    let columns = columns(address, width);
    let mut lines = vec![columns.head()];
    for (number, hop, counts) in hops.hops() {
        let mut cells = cells(number, hop, &counts, hops.figures.get(number - 1));
        if cells[1].chars().count() > address {
            lines.push(format!("{:>4}  {}", cells[0], cells[1]));
            cells[..2].fill(String::new());
        }
        lines.push(columns.row(&cells).trim_end().to_owned());
        for who in hop.responders.iter().take(if all { hop.responders.len() } else { 0 }) {
            lines.extend(details(session, hop, who, width));
        }
    }
    lines
}

/// Of a table with addresses so long. What a hop says of the path is worth more than how far its answers came.
fn columns(address: usize, width: usize) -> Columns {
    let all = vec![
        Column::right(" hop", 4, 4),
        Column::left("address", 2, address),
        Column::right("sent", 6, 6),
        Column::right("lost%", 7, 7),
        Column::right("min", 7, 7).given_up(1),
        Column::right("p50", 7, 7),
        Column::right("p99", 7, 7),
        Column::right("max", 7, 7).given_up(2),
        Column::right("jitter", 7, 7).given_up(3),
        Column::right("back", 5, 5).given_up(4),
        Column::right("MTU", 6, 6),
    ];
    Columns::fitting(all, width)
}

fn cells(number: usize, hop: &Hop, counts: &Counts, figures: Option<&EchoFold>) -> Vec<String> {
    let who = hop.responders.first();
    let address = who.map_or("-".to_owned(), |who| who.address.to_string());
    let way = figures.map(EchoFold::round_trip);
    let rtt = way.as_ref().and_then(|way| way.delays_ms.as_ref());
    let most = way.as_ref().and_then(|way| way.delays_at_most_ms.as_ref()).or(rtt);
    // Of answers to what may have been sent again only the least is hops.
    let delay = |of: fn(&Spread) -> f64| match (rtt.map(of), most.map(of)) {
        (Some(least), Some(most)) if least < most => format!("≥{}", ms_or_dash(Some(least))),
        (least, _) => ms_or_dash(least),
    };
    let [min, p50, p99, max] =
        [delay(|r| r.min), delay(|r| r.p50), delay(|r| r.p99), delay(|r| r.max)];
    let jitter = ms_or_dash(way.as_ref().and_then(|way| way.jitter_ms));
    let back = who.and_then(Responder::hops_back).map_or("-".to_owned(), |hops| hops.to_string());
    let mtu = hop.mtu.map_or("-".to_owned(), |mtu| mtu.to_string());
    let (number, sent) = (number.to_string(), counts.sent.to_string());
    vec![number, address, sent, loss(counts), min, p50, p99, max, jitter, back, mtu]
}

/// The part that was lost, in percent: the least and the most it may be where nobody knows it.
fn loss(counts: &Counts) -> String {
    match (counts.loss_ratio(), counts.loss_range()) {
        (Some(ratio), _) => percent(ratio),
        (None, Some((least, most))) => {
            format!("{:.0}-{:.0}", (least * 100.0).floor(), (most * 100.0).ceil())
        }
        (None, None) => "-".to_owned(),
    }
}

/// What else there is to say of an address: which flows, its labels, that it sends no further.
fn details(session: &PathSession, hop: &Hop, who: &Responder, width: usize) -> Vec<String> {
    let mut parts = Vec::new();
    if hop.responders.len() > 1 {
        let flows = if who.flows.len() == 1 { "flow" } else { "flows" };
        parts.push(format!("{} {flows} {}", who.address, flow_numbers(&who.flows)));
    }
    if let Some(code) = who.unreachable_code {
        let (mark, why) = why_unreachable(session.to.is_ipv6(), code);
        parts.push(format!("{mark}: {why}"));
    }
    if !who.mpls.is_empty() {
        let labels: Vec<String> = who
            .mpls
            .iter()
            .map(|l| format!("{} (class {}, TTL {})", l.label, l.class, l.ttl))
            .collect();
        let more = match labels.len() {
            MOST_LABELS => ", perhaps more",
            _ => "",
        };
        parts.push(format!("MPLS {}{more}", labels.join(", ")));
    }
    match parts.is_empty() {
        true => Vec::new(),
        false => {
            let head = " ".repeat(6);
            // Where nobody counts columns, it has as many as a line without them.
            let width = if width < WIDEST { width } else { width + head.len() };
            lines(&head, &parts.join("; "), width).lines().map(str::to_owned).collect()
        }
    }
}

/// What became of marks, where nothing was changed, and why nobody knows, where that is so.
fn marks(session: &PathSession, hops: &PathHops) -> String {
    // Only a quoted packet that had a mark shows that it arrives.
    let last = |mask: u8| {
        let shows = |who: &Responder| who.marks.iter().any(|(sent, _)| sent & mask != 0);
        let hops = hops.hops().filter(|(_, hop, _)| hop.responders.iter().any(shows));
        hops.map(|(number, ..)| number).last()
    };
    let told = |kind: &str| kind.ends_with("-changed") || kind == "marks-vanish";
    let arrives = |what: &str, verb: &str, last: Option<usize>| match last {
        Some(hop) => format!("{what} as {verb} sent, as far as hop {hop}."),
        None => format!("Whether {what} is unknown: no answer quoted a marked packet."),
    };
    match (last(0xfc), last(0x03)) {
        _ if !session.survey => String::new(),
        _ if !session.sees_marks => "Whether DSCP and ECN arrive was not looked at: only raw sockets show it (root, or setcap cap_net_raw+ep).".into(),
        _ if findings(session, hops).iter().any(|found| told(found.id)) => String::new(),
        (dscp, ecn) if dscp == ecn => arrives("DSCP and ECN arrive", "they were", dscp),
        (dscp, ecn) => format!(
            "{} {}",
            arrives("DSCP arrives", "it was", dscp),
            arrives("ECN arrives", "it was", ecn)
        ),
    }
}

/// A sentence begins with a capital letter, unless it begins with an address.
pub fn capital(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or_default();
    if first.parse::<IpAddr>().is_ok() {
        return text.to_owned();
    }
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_probe::path::{HopAnswer, News};
    use quell_wire::icmp_error::Meaning;
    use std::net::SocketAddr;

    /// The summary of a path of two hops, the first of which quoted packets with these marks, as sent and as they came.
    fn marked(marks: &[(u8, u8)]) -> String {
        let to = SocketAddr::from(([192, 0, 2, 99], 0));
        let session = PathSession {
            host: "b".into(),
            to,
            others: Vec::new(),
            method: ProbeMethod::Icmp,
            ports: vec![1],
            interval_ns: 1_000_000_000,
            size: 56,
            tos: 0,
            survey: true,
            sees_marks: true,
        };
        let mut hops = PathHops::new(1);
        let mut answer = |ttl, from: IpAddr, marks: Option<(u8, u8)>| {
            hops.take(&News::Answer(HopAnswer {
                flow: 0,
                ttl,
                from,
                said: (from != to.ip()).then_some(Meaning::Expired),
                back_ttl: None,
                marks: marks.map(|(sent, came)| (Tos::from_byte(sent), Tos::from_byte(came))),
                labels: Vec::new(),
            }));
        };
        answer(1, [192, 0, 2, 1].into(), None);
        marks.iter().for_each(|mark| answer(1, [192, 0, 2, 1].into(), Some(*mark)));
        answer(2, to.ip(), None);
        hops.take(&News::Ends { flow: 0, ttl: Some(2) });
        let text = summary(&session, &hops, 100);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Quotes of packets without a mark show of none that it arrives.
    #[test]
    fn that_marks_arrive_is_told_only_where_a_marked_packet_was_quoted() {
        let unknown = "Whether DSCP and ECN arrive is unknown: no answer quoted a marked packet.";
        assert!(marked(&[]).ends_with(unknown));
        assert!(marked(&[]).starts_with("b answers over 2 hops"), "first of all: {}", marked(&[]));
        assert!(marked(&[(0, 0)]).ends_with(unknown));
        let arrive = "DSCP and ECN arrive as they were sent, as far as hop 1.";
        assert!(marked(&[(0, 0), (0xba, 0xba)]).ends_with(arrive));
        let half = marked(&[(0xb8, 0xb8)]);
        assert!(half.contains("DSCP arrives as it was sent, as far as hop 1. Whether ECN arrives"));
    }

    #[test]
    fn a_sentence_that_begins_with_an_address_leaves_it_as_it_is() {
        assert_eq!(capital("fd01::2 (hop 2) says"), "fd01::2 (hop 2) says");
        assert_eq!(capital("hop 2 answers"), "Hop 2 answers");
    }
}
