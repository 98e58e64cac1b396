//! What `mtr` reports of each hop: as text (`--report`, with wide names and AS numbers), as JSON, and as CSV. There are counts and no packets.
//!
//! ```text
//!   Start: 2023-11-14T22:13:20+0000
//!   HOST: here                  Loss%   Snt   Last   Avg  Best  Wrst StDev
//!     1.|-- 192.0.2.1            0.0%    10    0.5   0.6   0.4   1.2   0.2
//!     2.|-- ???                 100.0    10    0.0   0.0   0.0   0.0   0.0
//! ```
//!
//! A hop that never answered is unknown: routers need not answer, and it says nothing of what they forward.

use crate::error::ForeignError;
use crate::imported::{Imported, ImpossibleValues, Stream, Tool, unused};
use crate::json::{self, Number};
use quell_model::{EchoSample, EchoStatus};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// mtr's own time between rounds.
const INTERVAL_NS: i64 = 1_000_000_000;

/// More hops than there are in any header.
const MOST_HOPS: u64 = 256;

/// More packets to a hop than anybody sends.
const MOST_SENT: f64 = 1e6;

#[derive(Default, Deserialize)]
#[serde(default)]
struct MtrFile {
    #[serde(deserialize_with = "json::or_default")]
    report: MtrReport,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MtrReport {
    mtr: Value,
    #[serde(deserialize_with = "json::or_default")]
    hubs: Vec<BTreeMap<String, Value>>,
}

/// What is told of one hop: its columns by name.
struct MtrHop {
    number: u64,
    host: String,
    columns: Vec<(String, f64)>,
}

pub(crate) fn read_json(text: &str, left: &mut usize) -> Result<Imported, ForeignError> {
    let MtrFile { report } = json::read(text)?;
    let mut test = MtrText::default();
    for (index, hub) in report.hubs.iter().enumerate() {
        let text = |key: &str| json::text(hub.get(key)?);
        let number = text("count").and_then(|n| n.parse().ok()).unwrap_or(index as u64 + 1);
        let asn = text("ASN").map(|asn| asn + " ").unwrap_or_default();
        let host = asn + &text("host").unwrap_or_else(|| "???".to_owned());
        let value = |value: &Value| Number::deserialize(value).ok()?.0;
        let columns = hub.iter().filter_map(|(key, of)| Some((key.clone(), value(of)?)));
        test.hops.push(MtrHop { number, host, columns: columns.collect() });
    }
    let mut imported = test.imported(left)?;
    let mtr = |key: &str| json::text(&report.mtr[key]);
    for (name, key) in [("from", "src"), ("host", "dst"), ("packet size", "psize"), ("TOS", "tos")]
    {
        imported.tell(name, mtr(key));
    }
    Ok(imported)
}

pub(crate) fn read(text: &str, left: &mut usize) -> Result<Vec<Imported>, ForeignError> {
    if !text.contains("Loss%") && !text.contains("MTR.") {
        return Ok(Vec::new());
    }
    let mut tests: Vec<MtrText<'_>> = comma_separated(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut started = None;
    for at in 0..words.len() {
        match words[at] {
            "Start:" => {
                started = words.get(at + 1).and_then(|t| quell_units::time::unix_seconds(t))
            }
            "Loss%" => {
                let columns = words[at..].iter().take_while(|word| COLUMNS.contains(word));
                let columns: Vec<&str> = columns.copied().collect();
                if columns.len() > 2 {
                    tests.push(MtrText {
                        started_s: started.take(),
                        columns,
                        ..MtrText::default()
                    });
                }
            }
            word => {
                if let Some((test, number)) = tests.last_mut().zip(hop_number(word)) {
                    test.hop(number, &words[at + 1..]);
                }
            }
        }
    }
    let tests = tests.into_iter().filter(|test| !test.hops.is_empty());
    tests.map(|test| test.imported(left)).collect()
}

/// Columns that mtr can print (`mtr --order`); behind them come the hops.
const COLUMNS: [&str; 15] = [
    "Loss%", "Drop", "Rcv", "Snt", "Last", "Best", "Avg", "Wrst", "StDev", "Gmean", "Jttr", "Javg",
    "Jmax", "Jint", "Lost",
];

/// `3.|--`, or `3.` where the rest stands apart.
fn hop_number(word: &str) -> Option<u64> {
    let digits = word.strip_suffix("|--").unwrap_or(word).strip_suffix('.')?;
    digits.parse().ok().filter(|number| (1..=MOST_HOPS).contains(number))
}

/// `Mtr_Version,Start_Time,Status,Host,Hop,Ip,Asn?,Loss%,Snt, ,Last,Avg,…`, a line a hop.
fn comma_separated(text: &str) -> Vec<MtrText<'_>> {
    let mut tests: Vec<MtrText<'_>> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut of = String::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim().split(',').map(str::trim).collect();
        if cells.first().is_some_and(|cell| *cell == "Mtr_Version") {
            names = cells;
        } else if cells.first().is_some_and(|cell| cell.starts_with("MTR.")) {
            let get = |name: &str| {
                names.iter().position(|n| n.eq_ignore_ascii_case(name)).and_then(|at| cells.get(at))
            };
            let Some(number) = get("Hop").and_then(|n| n.parse().ok()) else { continue };
            let start = get("Start_Time").copied().unwrap_or_default();
            let host = get("Host").copied().unwrap_or_default();
            if tests.is_empty() || of != format!("{start} {host}") {
                of = format!("{start} {host}");
                let started_s = start.parse().ok().filter(|s| (0.0..1e11).contains(s));
                let target = Some(host.to_owned());
                tests.push(MtrText { started_s, target, ..MtrText::default() });
            }
            let value = |name: &&str| Some(((*name).to_owned(), get(name)?.parse().ok()?));
            let columns = COLUMNS.iter().filter_map(value).collect();
            let hop = get("Ip").copied().unwrap_or("???").to_owned();
            if let Some(test) = tests.last_mut() {
                test.hops.push(MtrHop { number, host: hop, columns });
            }
        }
    }
    tests
}

/// A report, as far as it was read.
#[derive(Default)]
struct MtrText<'a> {
    started_s: Option<f64>,
    target: Option<String>,
    columns: Vec<&'a str>,
    hops: Vec<MtrHop>,
}

impl MtrText<'_> {
    /// Behind the number of a hop come its names, then its values: as many numbers in a row as there are columns.
    fn hop(&mut self, number: u64, words: &[&str]) {
        let wanted = self.columns.len();
        let value = |word: &&str| word.trim_end_matches('%').parse::<f64>().ok();
        let line = words.iter().take(wanted + 16).take_while(|word| hop_number(word).is_none());
        let line: Vec<&str> = line.copied().collect();
        let values = |at: &usize| {
            let values = line.get(*at..*at + wanted)?;
            values.iter().map(value).collect::<Option<Vec<f64>>>()
        };
        let Some((at, values)) = (1..line.len()).find_map(|at| Some((at, values(&at)?))) else {
            return;
        };
        let host = line[..at].iter().filter(|word| **word != "|--" && **word != ">");
        let host = host.copied().collect::<Vec<_>>().join(" ");
        let columns = self.columns.iter().map(|&name| name.to_owned()).zip(values).collect();
        self.hops.push(MtrHop { number, host, columns });
    }

    fn imported(self, left: &mut usize) -> Result<Imported, ForeignError> {
        let mut imported = Imported::new(Tool::Mtr);
        let mut impossible = ImpossibleValues::default();
        imported.started_s = self.started_s;
        imported.tell("host", self.target);
        let mut silent = Vec::new();
        for hop in self.hops.iter().take(MOST_HOPS as usize) {
            let get = |name: &str| {
                hop.columns.iter().find(|(column, _)| column == name).map(|(_, value)| *value)
            };
            let place = || format!("hop {}", hop.number);
            let mut check =
                |name: &str, most: f64| impossible.check(get(name), 0.0..=most, name, place);
            let (sent, loss) = (check("Snt", MOST_SENT), check("Loss%", 100.0));
            let spread: Vec<String> = ["Last", "Avg", "Best", "Wrst", "StDev"]
                .into_iter()
                .filter_map(|name| Some((name, check(name, 1e7)?)))
                .map(|(name, ms)| format!("{} {ms} ms", name.to_lowercase()))
                .collect();
            let sent = sent.unwrap_or(0.0) as usize;
            *left = left.checked_sub(sent).ok_or(ForeignError::TooMany)?;
            let is_silent =
                hop.host.ends_with("???") && !hop.host.ends_with("AS???") || loss == Some(100.0);
            let lost = loss.map(|loss| (sent as f64 * loss / 100.0).round() as usize);
            let status = |n: usize| match lost {
                _ if is_silent => EchoStatus::Unsure,
                None => EchoStatus::Unsure,
                Some(lost) if n >= sent - lost.min(sent) => EchoStatus::Lost,
                Some(_) => EchoStatus::Ok,
            };
            let packet = |n: usize| EchoSample::new(n as i64 * INTERVAL_NS, n as u64, 0, status(n));
            let names = imported.streams.iter().map(|stream| &*stream.name);
            let name = unused(names, &format!("hop {:02} {}", hop.number, hop.host));
            let packets = (0..sent).map(packet).collect();
            let mut stream = Stream { name, packets, ..Stream::default() };
            if is_silent {
                silent.push(hop.number.to_string());
            } else if !spread.is_empty() {
                stream.facts.push(("summary", spread.join(", ")));
            }
            imported.streams.push(stream);
        }
        let most = imported.streams.iter().map(|s| s.packets.len()).max().unwrap_or(0);
        imported.window_ns = u64::try_from(most as i64 * INTERVAL_NS).ok().filter(|ns| *ns > 0);
        imported.notes.push(
            "mtr counts and keeps no packets: quantiles are unknown, and which packets were lost."
                .into(),
        );
        if !silent.is_empty() {
            imported.notes.push(format!(
                "No answer from hop {}: whether they lose is unknown.",
                silent.join(", ")
            ));
        }
        imported.left_out.extend(impossible.said());
        Ok(imported)
    }
}
