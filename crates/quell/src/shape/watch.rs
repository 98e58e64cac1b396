//! `quell shape status --watch`: who has how much of a line just now, read again and again.
//!
//! ```text
//!   reading ─┐
//!            ├─ by second ─► rate, drops, marks;  what waits as it is;  how long that takes: CAKE says, else what waits ÷ what went
//!   reading ─┘
//! ```

use super::parts::{self, Part, Places};
use super::report;
use super::report::roots;
use super::state::{State, open};
use crate::failure::Failure;
use crate::options::Json;
use crate::pace::Pace;
use crate::screen;
use quell_act::{Kernel, Log, Machine};
use quell_sys::clock::monotonic_ns;
use quell_units::{Rate, Span};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// One root queue, with all of it first and then its parts.
struct Watched {
    device: String,
    kind: String,
    parts: Vec<Part>,
    /// Places for hosts that are found at run time.
    places: Option<Places>,
}

/// All that is in force on one interface.
struct Shaped {
    device: String,
    wanted: String,
    lines: Vec<Watched>,
}

/// Parts by interface, host, name and place: two hosts may have one name.
type Known = BTreeMap<(String, Option<String>, String, Option<u16>), Part>;

/// What went in a second, and what waits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Flow {
    bits: f64,
    packets: f64,
    dropped: f64,
    marked: f64,
    delay_us: Option<f64>,
}

impl Flow {
    /// Between two readings. None where the queue was made anew in between.
    fn between(before: &Part, now: &Part, seconds: f64) -> Option<Flow> {
        let rate = |before: u64, now: u64| Some(now.checked_sub(before)? as f64 / seconds);
        let bits = 8.0 * rate(before.sent_bytes, now.sent_bytes)?;
        let waiting = 8.0 * now.backlog_bytes as f64;
        let delay_us = match now.delay_us {
            Some(told) => Some(told as f64),
            None if waiting == 0.0 => Some(0.0),
            // What waits while nothing goes will wait nobody knows how long.
            None => (bits > 0.0).then(|| waiting / bits * 1e6),
        };
        Some(Flow {
            bits,
            packets: rate(before.sent_packets, now.sent_packets)?,
            dropped: rate(before.dropped_packets, now.dropped_packets)?,
            marked: rate(before.marked_packets, now.marked_packets)?,
            delay_us,
        })
    }
}

/// Until Ctrl-C.
pub fn watch(
    state: &State,
    device: Option<&str>,
    json: Json,
    every: Span,
) -> Result<ExitCode, Failure> {
    let mut kernel = open()?;
    // Whether it is there is said at once; later it may go and come.
    drop(state.logs_of(&mut kernel, device)?);
    let mut pace = Pace::new(every)?;
    let mut picture = screen::Screen::new();
    let in_place = screen::is_live() && !json.json;
    let (mut before, mut then) = (Known::new(), monotonic_ns());
    let mut first = true;
    loop {
        let shaped = read(state, device, &mut kernel)?;
        let now = monotonic_ns();
        if !first {
            let seconds = now.saturating_sub(then) as f64 / 1e9;
            let lines = if json.json {
                vec![document(&shaped, &before, seconds).to_string()]
            } else {
                lines(&shaped, &before, seconds)
            };
            if in_place {
                let (width, rows) = screen::size();
                let shown: Vec<String> = lines.into_iter().take(rows.max(4) - 1).collect();
                screen::Screen::show(&picture.frame(&shown, width));
            } else {
                let text = lines.join("\n") + if json.json { "\n" } else { "\n\n" };
                let written = quell_sys::reader::print(std::io::stdout().lock(), text.as_bytes());
                written.map_err(|e| Failure::system(format!("writing to standard output: {e}")))?;
            }
        }
        first = false;
        (before, then) = (known(&shaped), now);
        if !pace.pause()? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn read(state: &State, device: Option<&str>, kernel: &mut Kernel) -> Result<Vec<Shaped>, Failure> {
    let mut all = Vec::new();
    let meant = |log: &Log| device.is_none_or(|device| device == log.begun.device);
    for log in state.logs()?.into_iter().filter(meant) {
        let now = kernel.read(&(&log.begun.before).into()).map_err(Failure::system)?;
        let lines = roots(&log, &now).into_iter().map(|(device, snapshot, root)| {
            let mut parts = vec![parts::whole(snapshot, root)];
            parts.extend(parts::parts(&log, snapshot, root));
            let places = parts::places(snapshot);
            Watched { device, kind: root.kind.clone(), parts, places }
        });
        let lines = lines.collect();
        all.push(Shaped { device: log.begun.device, wanted: log.begun.wanted, lines });
    }
    Ok(all)
}

fn key(line: &Watched, part: &Part) -> (String, Option<String>, String, Option<u16>) {
    (line.device.clone(), part.host.clone(), part.name.clone(), part.place)
}

fn known(all: &[Shaped]) -> Known {
    let lines = all.iter().flat_map(|shaped| &shaped.lines);
    let parts =
        lines.flat_map(|line| line.parts.iter().map(|part| (key(line, part), part.clone())));
    parts.collect()
}

/// What is told of each part: how it flows, if there is something to compare with.
fn flows<'a>(line: &'a Watched, before: &Known, seconds: f64) -> Vec<(&'a Part, Option<Flow>)> {
    let flow = |part| Flow::between(before.get(&key(line, part))?, part, seconds);
    line.parts.iter().map(|part| (part, flow(part))).collect()
}

/// Parts that a person is shown of each queue, of thousands those that have most.
const SHOWN: usize = 20;

fn lines(all: &[Shaped], before: &Known, seconds: f64) -> Vec<String> {
    let mut lines = Vec::new();
    for shaped in all {
        lines.push(format!("{}: {}", shaped.device, shaped.wanted));
        for line in &shaped.lines {
            let head = format!("{} ({})", line.device, line.kind);
            lines.push(row(&head, ["rate", "packets/s", "waiting", "delay", "drops/s", "marks/s"]));
            let flows = flows(line, before, seconds);
            let mut hosts: Vec<usize> = (1..flows.len())
                .filter(|at| flows[*at].0.host.is_none() && is_moving(&flows[*at]))
                .collect();
            hosts.sort_by(|a, b| bits(&flows[*b]).total_cmp(&bits(&flows[*a])));
            let left = hosts.len().saturating_sub(SHOWN);
            hosts.truncate(SHOWN);
            if left == 0 {
                // In the order in which they were asked for.
                hosts.sort_unstable();
            }
            lines.push(told("all", &flows[0]));
            for at in hosts {
                let (host, _) = flows[at];
                let name = quell_wire::text::printable(&host.name, 24);
                lines.push(told(&format!("  {name}"), &flows[at]));
                let tiers = flows.iter().filter(|(part, _)| {
                    part.host.as_ref() == Some(&host.name) && part.place == host.place
                });
                let tiers = tiers.filter(|tier| is_moving(tier));
                lines.extend(tiers.map(|tier| told(&format!("    {}", tier.0.name), tier)));
            }
            if left > 0 {
                lines.push(format!("    … and {left} more, which have less (--json has all)"));
            }
            lines.extend(line.places.iter().flat_map(Places::lines));
        }
    }
    if all.is_empty() {
        lines.push(report::NOTHING.to_owned());
    }
    lines
}

fn bits((_, flow): &(&Part, Option<Flow>)) -> f64 {
    flow.map_or(0.0, |flow| flow.bits)
}

fn is_moving((part, flow): &(&Part, Option<Flow>)) -> bool {
    let moves = |flow: &Flow| flow.packets + flow.dropped > 0.0;
    part.backlog_packets > 0 || flow.as_ref().is_some_and(moves)
}

fn row(name: &str, cells: [&str; 6]) -> String {
    let [rate, packets, waiting, delay, drops, marks] = cells;
    let row = format!(
        "  {name:<30} {rate:>12} {packets:>10} {waiting:>14} {delay:>9} {drops:>8} {marks:>8}"
    );
    row.trim_end().to_owned()
}

fn told(name: &str, (part, flow): &(&Part, Option<Flow>)) -> String {
    let waiting = match part.backlog_packets {
        0 => "0".to_owned(),
        packets => format!("{packets} ({})", quell_treeview::bytes(part.backlog_bytes)),
    };
    let Some(flow) = flow else { return row(name, ["–", "–", &waiting, "–", "–", "–"]) };
    let count = |per_second: f64| match per_second {
        0.0 => "0".to_owned(),
        few if few < 9.95 => format!("{few:.1}"),
        many => format!("{many:.0}"),
    };
    // Three digits are as many as anybody reads while they change.
    let rounded = |value: f64| {
        let step = 10f64.powi((value.max(1.0).log10().floor() as i32 - 2).max(0));
        ((value / step).round() * step) as u64
    };
    let rate = Rate::from_bps(rounded(flow.bits)).to_string();
    let delay = flow.delay_us.map(|us| Span::from_micros(rounded(us)).to_string());
    let delay = delay.unwrap_or_else(|| "–".to_owned());
    let (packets, drops, marks) = (count(flow.packets), count(flow.dropped), count(flow.marked));
    row(name, [&rate, &packets, &waiting, &delay, &drops, &marks])
}

fn document(all: &[Shaped], before: &Known, seconds: f64) -> Value {
    let part = |(part, flow): (&Part, Option<Flow>)| {
        json!({
            "name": part.name,
            "host": part.host,
            "place": part.place,
            "addresses": part.addresses,
            "mac": part.mac(),
            "bits_per_second": flow.map(|f| f.bits),
            "packets_per_second": flow.map(|f| f.packets),
            "dropped_per_second": flow.map(|f| f.dropped),
            "marked_per_second": flow.map(|f| f.marked),
            "backlog_packets": part.backlog_packets,
            "backlog_bytes": part.backlog_bytes,
            "delay_us": flow.and_then(|f| f.delay_us),
            "delay_is_reckoned": part.delay_us.is_none(),
        })
    };
    let line = |line: &Watched| {
        let parts: Vec<Value> = flows(line, before, seconds).into_iter().map(part).collect();
        let hosts = line.places.as_ref().map(Places::document);
        json!({ "device": line.device, "kind": line.kind, "hosts": hosts, "parts": parts })
    };
    let one = |shaped: &Shaped| {
        let queues: Vec<Value> = shaped.lines.iter().map(line).collect();
        json!({ "device": shaped.device, "wanted": shaped.wanted, "queues": queues })
    };
    json!({ "seconds": seconds, "shaped": all.iter().map(one).collect::<Vec<Value>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(sent: u64, waiting: u64, delay_us: Option<u64>) -> Part {
        Part {
            name: "ann".into(),
            host: None,
            place: None,
            idle: None,
            addresses: Vec::new(),
            mac: None,
            strangers: false,
            sent_packets: sent / 1500,
            sent_bytes: sent,
            dropped_packets: sent / 15_000,
            marked_packets: 0,
            backlog_packets: waiting / 1500,
            backlog_bytes: waiting,
            delay_us,
        }
    }

    #[test]
    fn how_long_packets_wait_is_told_by_cake_and_reckoned_of_others() {
        let delay =
            |now: Part| Flow::between(&part(0, 0, None), &now, 2.0).and_then(|f| f.delay_us);
        // 1.5 MB in 2 s are 6 Mbit/s; 15 kB take 20 ms of them.
        assert_eq!(delay(part(1_500_000, 15_000, None)), Some(20_000.0));
        assert_eq!(delay(part(1_500_000, 15_000, Some(7_000))), Some(7_000.0));
        assert_eq!(delay(part(1_500_000, 0, None)), Some(0.0));
        assert_eq!(delay(part(0, 15_000, None)), None, "nothing goes: nobody knows");
        // Made anew in between.
        assert_eq!(Flow::between(&part(3_000, 0, None), &part(1_500, 0, None), 1.0), None);
    }

    #[test]
    fn a_line_is_told_by_the_second_and_fits_a_screen() {
        let shaped = |part: Part| Shaped {
            device: "wan".into(),
            wanted: "tiers".into(),
            lines: vec![Watched {
                device: "wan".into(),
                kind: "htb".into(),
                parts: vec![part],
                places: None,
            }],
        };
        let before = known(&[shaped(part(0, 0, None))]);
        let lines = lines(&[shaped(part(1_500_000, 15_000, None))], &before, 2.0);
        let told = lines.last().expect("a line").split_whitespace().collect::<Vec<_>>();
        assert_eq!(told, ["all", "6Mbit", "500", "10", "(15.0", "kB)", "20ms", "50", "0"]);
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:?}");
    }
}
