//! The report as text: as wide as it is asked for, nothing said by colour.
//!
//! ```text
//!   overview    what was read, a table of connections, what was found
//!   connection  all there is to tell about one
//! ```

use crate::connection::{EndSummary, Ending, RttSummary};
use crate::moment::{ConnectionEnd, TcpEvent, TcpMoment};
use crate::report::{ConnectionReport, TraceReport};
use quell_finding::{Finding, Severity, wrapped};
use quell_units::table::{Align, Table};
use quell_units::{Span, fmt};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most connections that the overview lists.
const MOST_ROWS: usize = 40;

/// Most findings that the overview shows, those with the longest waits first.
const MOST_FINDINGS: usize = 20;

/// Most protocols that are named where there is no connection.
const MOST_OTHERS: usize = 12;

/// The capture as a whole, in lines of so many columns; sixty are enough.
pub fn overview(report: &TraceReport, width: usize) -> String {
    let about = line("", "  ", &headline(report), width) + &notes(report, width);
    let connections = &report.connections;
    if connections.is_empty() {
        return about + &what_else(report, width);
    }
    let found = worst_first(connections);
    let mut text = answer(connections, &found, width);
    text += &format!("\n{about}\n");
    text += &table(connections, width);
    text += &findings(connections, &found, width);
    text
}

/// A line behind its head; where it is too long, further ones behind this.
fn line(head: &str, further: &str, said: &str, width: usize) -> String {
    let (begin, more) = (head.chars().count(), further.chars().count());
    if begin + said.chars().count() <= width {
        return format!("{head}{said}\n");
    }
    let broken = wrapped(said, width.saturating_sub(begin.max(more)).max(1));
    let before = |at: usize| if at == 0 { head } else { further };
    broken.iter().enumerate().map(|(at, line)| format!("{}{line}\n", before(at))).collect()
}

/// What is in a capture in which no connection is, the most frequent first.
fn what_else(report: &TraceReport, width: usize) -> String {
    if report.packets == 0 {
        return "\nNo packet is in it.\n".into();
    }
    let mut others: Vec<_> = report.other_protocols.iter().collect();
    others.sort_by_key(|(name, count)| (Reverse(**count), *name));
    let counted = |(name, count): &(&String, &u64)| format!("{count} of {name}");
    let listed: Vec<String> = others.iter().take(MOST_OTHERS).map(counted).collect();
    let more = others.len().saturating_sub(MOST_OTHERS);
    let said = match (listed.is_empty(), more) {
        (true, _) => "No TCP connection is in it.".into(),
        (false, 0) => format!("No TCP connection is in it, but packets: {}.", listed.join(", ")),
        (false, _) => {
            let listed = listed.join(", ");
            format!("No TCP connection is in it, but packets: {listed}, and of {more} more kinds.")
        }
    };
    wrapped(&said, width).iter().fold("\n".to_owned(), |text, line| text + line + "\n")
}

fn headline(report: &TraceReport) -> String {
    let packets = fmt::plural(report.packets, "packet");
    let connections = fmt::plural(report.connections_seen, "connection");
    let tcp = report.tcp_packets;
    let lasted = match (report.duration, report.clock_steps) {
        (Some(lasted), 0) => format!("in {}", spoken(lasted)),
        (Some(lasted), _) => format!("in at least {}", spoken(lasted)),
        (None, _) => "in a time that is not known".to_owned(),
    };
    format!("{}: {packets} ({tcp} of TCP) {lasted}, {connections}", report.format)
}

/// What a reader should know before believing the rest.
fn notes(report: &TraceReport, width: usize) -> String {
    let skipped = &report.skipped;
    let link = skipped.link_type.unwrap_or_default();
    let notes = [
        (report.cut_packets, "were captured in part; their lengths are still right".to_owned()),
        (
            report.without_time,
            match report.without_time == report.packets {
                true => "have no time in the file".to_owned(),
                false => "have no time in the file; they take that of the one before".to_owned(),
            },
        ),
        (
            report.clock_set_back - report.clock_steps,
            "are earlier than the one before; waits around them may be wrong".to_owned(),
        ),
        (
            report.clock_steps,
            "have a clock that was set back: the time until each is not known, and left out below"
                .to_owned(),
        ),
        (
            report.captured_twice,
            "were captured twice, or doubled by the network: the first look at each counts"
                .to_owned(),
        ),
        (skipped.fragments, "were fragments, which are not put together".to_owned()),
        (skipped.cut_short, "had too little captured for their headers".to_owned()),
        (skipped.malformed, "contradict themselves".to_owned()),
        (
            skipped.unknown_link,
            format!("came from a kind of link that is not read (link type {link})"),
        ),
    ];
    let mut text = String::new();
    let mut told = |said: String| text += &line("  ", "    ", &said, width);
    for (count, what) in notes.iter().filter(|(count, _)| *count > 0) {
        told(format!("{count} packets {what}"));
    }
    for (tunnel, count) in &report.tunnels {
        told(format!("{count} packets were read out of a tunnel ({tunnel})"));
    }
    if report.connections_given_up > 0 {
        let count = report.connections_given_up;
        told(format!(
            "{count} connections were given up while open, the quietest first: too many at a time"
        ));
    }
    if report.connections_not_listed > 0 {
        told(format!("{} connections are only counted", report.connections_not_listed));
    }
    text
}

/// Addresses beside the figures, where there is room for them; else above.
fn table(connections: &[ConnectionReport], width: usize) -> String {
    let beside = rows(connections, true, width);
    match beside.width() <= width {
        true => beside.to_string(),
        false => rows(connections, false, width).to_string(),
    }
}

fn rows(connections: &[ConnectionReport], beside: bool, width: usize) -> Table {
    let names = [Align::Right, Align::Left, Align::Left];
    let mut table = Table::new(names.into_iter().chain([Align::Right; 6]));
    let [client, server] = if beside { ["client", "server"] } else { [""; 2] };
    let head = ["#", client, server, "lasted", "up", "down", "rtt", "again", "end"];
    table.row(head.map(str::to_owned).to_vec());
    table.rule();
    for c in connections.iter().take(MOST_ROWS) {
        let mut row = vec![c.number.to_string(), c.client.clone(), c.server.clone()];
        if !beside {
            let both = line("", "", &format!("{} → {}", c.client, c.server), width);
            table.text(both.trim_end());
            row.iter_mut().skip(1).for_each(String::clear);
        }
        row.extend([
            c.duration.map_or("–".into(), spoken),
            fmt::bytes(c.client_to_server.bytes),
            fmt::bytes(c.server_to_client.bytes),
            c.handshake_rtt.map_or("–".into(), spoken),
            c.retransmissions.to_string(),
            ending(c.ending).to_owned(),
        ]);
        table.row(row);
    }
    if connections.len() > MOST_ROWS {
        let more = connections.len() - MOST_ROWS;
        table.text(format!("… and {more} more (--json lists them all)"));
    }
    table
}

fn nobody(timed: bool, width: usize) -> String {
    let said = match timed {
        true => "Nobody waited: no stalls, and nothing that was lost.",
        false => "Whether anybody waited is not known: the file has packets without a time.",
    };
    line("", "", said, width)
}

/// What was found, the longest waits first, what is only worth knowing last.
fn worst_first(connections: &[ConnectionReport]) -> Vec<&Finding> {
    let mut found: Vec<_> = connections.iter().filter(|c| !c.findings.is_empty()).collect();
    found.sort_by(|a, b| b.waited_ms.total_cmp(&a.waited_ms));
    let mut found: Vec<_> =
        found.iter().flat_map(|c| &c.findings).map(|one| &one.finding).collect();
    found.sort_by_key(|finding| finding.severity == Severity::Note);
    found
}

/// Who waited, in a sentence.
fn answer(connections: &[ConnectionReport], found: &[&Finding], width: usize) -> String {
    let Some(worst) = found.first() else {
        return nobody(connections.iter().all(|c| c.timed), width);
    };
    let waited = connections.iter().filter(|c| !c.findings.is_empty()).count();
    let who = match connections.len() {
        1 => "The connection waited".to_owned(),
        all => format!("{waited} of {all} connections waited; longest {}", worst.subject),
    };
    line("", "  ", &format!("{who}: {}.", worst.says), width)
}

fn findings(connections: &[ConnectionReport], found: &[&Finding], width: usize) -> String {
    let mut text = String::new();
    for one in found.iter().take(MOST_FINDINGS) {
        let _ = writeln!(text, "\n{}", quell_finding::lines(one, width).join("\n"));
    }
    if found.len() > MOST_FINDINGS {
        let _ = writeln!(text, "\n… and {} more findings", found.len() - MOST_FINDINGS);
    }
    let mut events: BTreeMap<TcpEvent, u64> = BTreeMap::new();
    for (event, counted) in connections.iter().flat_map(|c| &c.events) {
        *events.entry(*event).or_default() += counted.count;
    }
    if !events.is_empty() {
        let counted = |(event, count): (&TcpEvent, &u64)| format!("{count} {}", event.name());
        let all: Vec<String> = events.iter().map(counted).collect();
        let _ = write!(text, "\n{}", line("events: ", "  ", &all.join(", "), width));
    }
    text
}

/// All there is to tell about one connection, in lines of so many columns; sixty are enough.
pub fn connection(connection: &ConnectionReport, width: usize) -> String {
    let c = connection;
    let mut text = format!("#{}  {}\n", c.number, c.client);
    let _ = writeln!(text, "  → {}", c.server);
    let began = format!(
        "began at +{}, lasted {}, {}",
        spoken(c.begin),
        c.duration.map_or("a time that is not known".into(), spoken),
        match c.ending {
            Ending::Closed => "closed by both ends",
            Ending::Reset => "reset",
            Ending::Open => "still open",
        }
    );
    text += &line("  ", "    ", &began, width);
    match (c.handshake.to_server, c.handshake.to_client) {
        (Some(server), Some(client)) => {
            let said = format!(
                "opening: {} to the server and back, {} to the client and back",
                spoken(server),
                spoken(client)
            );
            text += &line("  ", "    ", &said, width);
        }
        _ if c.opened && !c.timed => {}
        _ if c.opened => text.push_str("  its opening was captured in part\n"),
        _ => {
            let said = "its opening was not captured: windows are not scaled, and who is the client is a guess";
            text += &line("  ", "    ", said, width);
        }
    }
    text += &ends(c, width);
    for (name, end) in
        [("client to server", &c.client_to_server), ("server to client", &c.server_to_client)]
    {
        text += &rtt_over_time(name, &end.rtt, width);
    }
    if !c.moments.is_empty() {
        let head = format!("{:>12}     ", "at");
        let what = "what happened (packets as tcpdump --number counts)";
        text += &format!("\n{}", line(&head, &" ".repeat(17), what, width));
    }
    for listed in &c.moments {
        let head = format!(
            "  {:>10}  {}  ",
            format!("+{}", spoken(listed.at)),
            direction(listed.moment.side)
        );
        text += &line(&head, &" ".repeat(head.chars().count()), &moment(c, &listed.moment), width);
    }
    if c.moments_not_listed > 0 {
        let more = fmt::plural(c.moments_not_listed, "moment");
        let _ = writeln!(text, "  … and {more} that are only counted");
    }
    if c.findings.is_empty() {
        text += &format!("\n{}", nobody(c.timed, width));
    }
    for one in &c.findings {
        let _ = writeln!(text, "\n{}", quell_finding::lines(&one.finding, width).join("\n"));
    }
    text
}

/// A moment in a few words.
fn moment(c: &ConnectionReport, moment: &TcpMoment) -> String {
    let mut said = moment.event.name().to_owned();
    match (moment.event, moment.length) {
        (TcpEvent::Reset | TcpEvent::Refused, _) => {
            let _ = write!(said, " by {}", c.name(moment.side));
        }
        (_, 0) => {}
        (_, length) => {
            let _ = write!(said, ", {}", fmt::bytes(length.into()));
        }
    }
    if let Some(waited) = moment.waited {
        let _ = write!(said, ", waited {}", spoken(waited));
    }
    let packets: Vec<String> = moment.packets.iter().flatten().map(u64::to_string).collect();
    format!("{said}  [{}]", packets.join(", "))
}

/// A span with three digits, as people say it: "19.6 ms".
fn spoken(span: Span) -> String {
    let nanos = span.nanos() as f64;
    let (value, unit) = match span.nanos() {
        0..1_000 => return format!("{} ns", span.nanos()),
        1_000..999_500 => (nanos / 1e3, "µs"),
        999_500..999_500_000 => (nanos / 1e6, "ms"),
        999_500_000..10_000_000_000_000 => (nanos / 1e9, "s"),
        _ => (nanos / 3.6e12, "h"),
    };
    format!("{} {unit}", fmt::three_digits(value))
}

fn ends(c: &ConnectionReport, width: usize) -> String {
    let maybe = |value: Option<Span>| value.map_or("–".to_owned(), spoken);
    let number = |value: u64| value.to_string();
    let option = |value: Option<u64>| value.map_or("–".to_owned(), number);
    type EndRow<'a> = (&'a str, &'a dyn Fn(&EndSummary) -> String);
    let lines: [EndRow<'_>; 21] = [
        ("packets", &|e| number(e.packets)),
        ("  with data", &|e| number(e.segments)),
        ("data", &|e| fmt::bytes(e.bytes)),
        ("data sent again", &|e| fmt::bytes(e.bytes_again)),
        ("sent again needlessly", &|e| number(e.needless)),
        ("out of order", &|e| number(e.out_of_order)),
        ("duplicate ACKs received", &|e| number(e.duplicate_acks)),
        ("RTT to the other end, least", &|e| maybe(e.rtt.min)),
        ("  median", &|e| maybe(e.rtt.p50)),
        ("  99 of 100 within", &|e| maybe(e.rtt.p99)),
        ("  most", &|e| maybe(e.rtt.max)),
        ("MSS it takes", &|e| option(e.mss.map(u64::from))),
        ("window scale", &|e| option(e.window_scale.map(u64::from))),
        ("largest window", &|e| fmt::bytes(e.largest_window)),
        ("zero windows", &|e| number(e.zero_windows)),
        ("  for", &|e| spoken(e.zero_window)),
        ("window probes", &|e| number(e.probes)),
        ("keep-alives", &|e| number(e.keep_alives)),
        ("resets", &|e| number(e.resets)),
        ("captured twice", &|e| number(e.captured_twice)),
        ("missed by the capture", &|e| fmt::bytes(e.missed_bytes)),
    ];
    let room = if width < 66 { 12 } else { 16 };
    let mut text = format!("\n  {:<30} {:>room$} {:>room$}\n", "", "client", "server");
    for (name, value) in lines {
        let (up, down) = (value(&c.client_to_server), value(&c.server_to_client));
        // What did not happen is not told.
        let nothing = |value: &str| ["0", "0 B", "0 ns", "–"].contains(&value);
        if nothing(&up) && nothing(&down) {
            continue;
        }
        let _ = writeln!(text, "  {name:<30} {up:>room$} {down:>room$}");
    }
    text
}

fn rtt_over_time(name: &str, rtt: &RttSummary, width: usize) -> String {
    if rtt.over_time.len() < 2 {
        return String::new();
    }
    let mut text = format!("\n  RTT over time, {name}, as seen from the capture\n");
    let head = ["from", "ACKs", "least", "mean", "most"];
    let line = |cells: [&str; 5]| {
        let [at, count, least, mean, most] = cells;
        format!("  {at:>10} {count:>8} {least:>9} {mean:>9} {most:>9}")
    };
    let _ = writeln!(text, "{}", line(head));
    // Behind the figures.
    let bars = width.saturating_sub(53).min(40) as u128;
    let longest = rtt.over_time.iter().map(|p| p.mean.nanos()).max().unwrap_or(1).max(1);
    for point in &rtt.over_time {
        let bar = u128::from(point.mean.nanos()) * bars / u128::from(longest);
        let cells = [
            &format!("+{}", spoken(point.at)),
            &point.count.to_string(),
            &spoken(point.min),
            &spoken(point.mean),
            &spoken(point.max),
        ];
        let _ = writeln!(
            text,
            "{}  {}",
            line(cells.map(String::as_str)),
            "▪".repeat((bar as usize).max(1))
        );
    }
    text
}

fn direction(side: ConnectionEnd) -> &'static str {
    match side {
        ConnectionEnd::Client => "→",
        ConnectionEnd::Server => "←",
    }
}

fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Closed => "closed",
        Ending::Reset => "reset",
        Ending::Open => "open",
    }
}
