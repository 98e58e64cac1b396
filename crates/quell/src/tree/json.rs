//! The hierarchy as JSON: what the drawings show, and the rates.
//!
//! Each queue, class and filter is written and forgotten: a chain of sixty thousand classes would take a gigabyte as a whole.

use super::found::TreeSource;
use crate::failure::Failure;
use quell_hierarchy::{Device, Finding};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::io::{BufWriter, ErrorKind, Write};

/// One document. Places (`parent`, `children`, `at`, `chosen_by`, a target's classes) count in `nodes` and `filters` of the same device, from 0.
#[derive(Serialize)]
struct TreeDocument<D> {
    devices: D,
}

#[derive(Serialize)]
struct TreeRow<'a, F, P, N> {
    adrift: &'a [usize],
    fed_by: Vec<Value>,
    filters: F,
    findings: P,
    ifb: bool,
    name: &'a str,
    nodes: N,
    tops: &'a [usize],
}

/// What is made one after the other while it is written.
struct Each<F>(F);

impl<I, F> Serialize for Each<F>
where
    I: Iterator<Item: Serialize>,
    F: Fn() -> I,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// Each string comes whole, or in pieces between escapes: what of it would command a terminal stands by its number.
struct Fit<W>(W);

impl<W: Write> Write for Fit<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.0.write_all(quell_wire::text::json(text).as_bytes())?,
            Err(_) => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Prints it, in lines.
pub(super) fn print(found: &TreeSource) -> Result<(), Failure> {
    let mut out = Fit(BufWriter::new(std::io::stdout().lock()));
    let written = serde_json::to_writer_pretty(&mut out, &document(found));
    let written = written.map_err(std::io::Error::from).and_then(|()| out.write_all(b"\n"));
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => quell_sys::reader::leave(),
        written => written.map_err(|e| Failure::system(format!("writing to standard output: {e}"))),
    }
}

/// In one line, with its end.
pub(super) fn line(found: &TreeSource) -> String {
    let mut out = Fit(Vec::new());
    // A `Vec` takes whatever is written, and every key is a string.
    let _ = serde_json::to_writer(&mut out, &document(found));
    String::from_utf8_lossy(&out.0).into_owned() + "\n"
}

fn document(found: &TreeSource) -> impl Serialize {
    let shown = match found.only {
        Some(only) => found.hierarchy.only(only),
        None => (0..found.hierarchy.devices.len()).collect(),
    };
    TreeDocument { devices: Each(move || shown.clone().into_iter().map(|at| device(found, at))) }
}

fn device(found: &TreeSource, at: usize) -> impl Serialize {
    let name = |at: &usize| found.hierarchy.devices[*at].name.as_str();
    let Device { name: own, ifb, nodes, filters, tops, adrift, fed_by, findings } =
        &found.hierarchy.devices[at];
    let rates = found.rates.as_ref().map(|rates| &rates[at]);
    let fed_by =
        fed_by.iter().map(|(from, filter)| json!({"device": name(from), "filter": filter}));
    TreeRow {
        adrift,
        fed_by: fed_by.collect(),
        filters: Each(move || {
            filters.iter().map(move |filter| {
                let mut value = json!(filter);
                value["feeds"] = filter.feeds.iter().map(name).collect();
                value
            })
        }),
        findings: Each(move || findings.iter().map(|finding: &Finding| json!(finding))),
        ifb: *ifb,
        name: own,
        nodes: Each(move || {
            nodes.iter().enumerate().map(move |(number, node)| {
                let mut value = json!(node);
                if let Some(rate) = rates.and_then(|rates| rates.get(number)) {
                    value["per_second"] = json!(rate);
                }
                value
            })
        }),
        tops,
    }
}
