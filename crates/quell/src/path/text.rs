//! The summary: a table of hops, and what it means.
//!
//! ```text
//!  hop  address          sent  lost%    min    p50    p99    max jitter back   MTU
//!    1  10.0.0.2           10    0.0  0.000  0.000  0.000  0.000  0.000    1  1500
//!    2  10.0.1.2           10    0.0  10.00  10.00  10.00  10.00  0.000    2  1500
//! ```

use super::findings::{self, numbers};
use super::known::{Hop, Known, Who};
use super::session::{Method, Session};
use crate::ping::tally::Tally;
use crate::ping::text::{ms_or_dash, percent, starved};
use crate::text::{Column, Columns, WIDEST, fitted, lines};
use quell_report::analysis::{Counts, Spread};
use quell_units::{Span, Tos};
use quell_wire::icmp_error::{MOST_LABELS, why_unreachable};
use std::fmt::Write;
use std::net::IpAddr;

/// The least that an address takes, and the most.
const ADDRESS: usize = 15;
const LONGEST: usize = 39;

/// All columns of the table but the address.
const FIGURES: usize = 65;

/// Table and findings, in lines of so many columns.
pub fn summary(session: &Session, known: &Known, width: usize) -> String {
    let wrap = |text: &str| lines("", text, width);
    let mut out = opening(session, known) + "\n\n";
    for line in table(session, known, true, width) {
        let _ = writeln!(out, "{line}");
    }
    out.push('\n');
    for finding in findings::of(session, known) {
        out += &wrap(&capital(&finding.text));
    }
    if let Some(mtu) = known.mtu(session.to.ip()) {
        let _ = writeln!(out, "Packets of {mtu} bytes get to the end.");
    }
    out += &wrap(&marks(session, known));
    if let Some(starved) = starved(&known.tallies) {
        out += &wrap(&starved);
    }
    fitted(out.trim_end(), width) + "\n"
}

/// What is sent where: `example.org (192.0.2.7), ICMP, 56 bytes, every 1s`.
pub fn opening(session: &Session, known: &Known) -> String {
    let address = match session.method {
        Method::Icmp => session.to.ip().to_string(),
        Method::Udp | Method::Tcp => session.to.to_string(),
    };
    let mut line = session.host.clone();
    if address != session.host {
        let _ = write!(line, " ({address})");
    }
    let _ = write!(line, ", {}", session.method.name());
    if session.method != Method::Tcp {
        let _ = write!(line, ", {} bytes", session.size);
    }
    if session.tos != 0 {
        let _ = write!(line, ", TOS {}", Tos::from_byte(session.tos));
    }
    match (&session.ports[..], session.method) {
        ([_], Method::Icmp) => {}
        ([port], _) => {
            let _ = write!(line, ", from port {port}");
        }
        (ports, _) => {
            let _ = write!(line, ", {} flows", ports.len());
        }
    }
    let _ = write!(line, ", every {}", Span::from_nanos(session.interval_ns));
    if known.length() == 0 {
        line += ": nobody answered";
    }
    line
}

/// The hops in lines of so many columns; `all` tells labels and further addresses too.
pub fn table(session: &Session, known: &Known, all: bool, width: usize) -> Vec<String> {
    let names = known.hops().flat_map(|(_, hop, _)| &hop.who);
    let longest = names.map(|who| who.address.to_string().len()).max().unwrap_or(0);
    // Where there is no room beside it, a long address stands above its figures.
    let address = match longest.clamp(ADDRESS, LONGEST) {
        long if width < WIDEST && long + FIGURES > width => ADDRESS,
        long => long,
    };
    let columns = columns(address, width);
    let mut lines = vec![columns.head()];
    for (number, hop, counts) in known.hops() {
        let mut cells = cells(number, hop, &counts, known.tallies.get(number - 1));
        if cells[1].chars().count() > address {
            lines.push(format!("{:>4}  {}", cells[0], cells[1]));
            cells[..2].fill(String::new());
        }
        lines.push(columns.row(&cells).trim_end().to_owned());
        for who in hop.who.iter().take(if all { hop.who.len() } else { 0 }) {
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

fn cells(number: usize, hop: &Hop, counts: &Counts, tally: Option<&Tally>) -> Vec<String> {
    let who = hop.who.first();
    let address = who.map_or("-".to_owned(), |who| who.address.to_string());
    let way = tally.map(|tally| tally.fold.round_trip());
    let rtt = way.as_ref().and_then(|way| way.delays_ms.as_ref());
    let most = way.as_ref().and_then(|way| way.delays_at_most_ms.as_ref()).or(rtt);
    // Of answers to what may have been sent again only the least is known.
    let delay = |of: fn(&Spread) -> f64| match (rtt.map(of), most.map(of)) {
        (Some(least), Some(most)) if least < most => format!("≥{}", ms_or_dash(Some(least))),
        (least, _) => ms_or_dash(least),
    };
    let [min, p50, p99, max] =
        [delay(|r| r.min), delay(|r| r.p50), delay(|r| r.p99), delay(|r| r.max)];
    let jitter = ms_or_dash(way.as_ref().and_then(|way| way.jitter_ms));
    let back = who.and_then(Who::back_hops).map_or("-".to_owned(), |hops| hops.to_string());
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
fn details(session: &Session, hop: &Hop, who: &Who, width: usize) -> Vec<String> {
    let mut parts = Vec::new();
    if hop.who.len() > 1 {
        let flows = if who.flows.len() == 1 { "flow" } else { "flows" };
        parts.push(format!("{} {flows} {}", who.address, numbers(&who.flows)));
    }
    if let Some(code) = who.stops {
        let (mark, why) = why_unreachable(session.to.is_ipv6(), code);
        parts.push(format!("{mark}: {why}"));
    }
    if !who.labels.is_empty() {
        let labels: Vec<String> = who
            .labels
            .iter()
            .map(|(label, class, ttl)| format!("{label} (class {class}, TTL {ttl})"))
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
fn marks(session: &Session, known: &Known) -> String {
    // Only a quoted packet that had a mark shows that it arrives.
    let last = |mask: u8| {
        let shows = |who: &Who| who.marks.iter().any(|(sent, _)| sent & mask != 0);
        let hops = known.hops().filter(|(_, hop, _)| hop.who.iter().any(shows));
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
        _ if findings::of(session, known).iter().any(|found| told(found.kind)) => String::new(),
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
