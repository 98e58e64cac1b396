//! How a run was measured: kernel, machine, cells, settings, queues, definitions, and the experiment file itself.

use super::markup::{cell, details, escape, head, head_of_figures, row_name, scrolling};
use crate::analysis::definitions;
use quell_finding::{Finding, WIDEST, lines, worst_first};
use quell_model::{CellRecord, CellStatus, Manifest, Outcome, Subject, Told};
use quell_store::Run;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Longest text of one queue, setting or output that the page shows.
const LONGEST: usize = 20_000;

pub(super) fn section(run: &Run) -> String {
    let m = &run.manifest;
    let mut text = "<section id=\"how\">\n<h2>How it was measured</h2>\n".to_owned();
    text += &general(m);
    text += &cells(m);
    text += &found(run);
    text += &outputs(run);
    text += &explained();
    text += &details(
        "The experiment file, as it was run",
        &format!("<pre>{}</pre>\n", escape(&m.experiment_text)),
    );
    text += &map("Queues, as the kernel described them", "scenario/when/node:device", &m.queues);
    text += &map("Settings of the kernel (sysctl)", "setting", &m.sysctls);
    text + "</section>\n"
}

fn general(m: &Manifest) -> String {
    let seconds = |s: Option<f64>| s.map_or("unknown".to_owned(), |s| format!("{s:.1} s"));
    let time = if m.kernel.virtual_time {
        "virtual: the clock jumps to the next event, so that the speed of the machine plays no part"
    } else {
        "real"
    };
    let changes = match &m.changes[..] {
        [] => "none".to_owned(),
        changes => changes.join(", "),
    };
    let mut rows: Vec<(&str, String)> = vec![
        ("Run", m.run.clone()),
        ("Experiment", m.experiment.clone()),
        ("Started", m.started.clone()),
        ("Seed", m.seed.to_string()),
        ("Changed on the command line", changes),
        ("Kernel", format!("{} ({})", m.kernel.version, m.kernel.backend.name())),
        ("Time", time.to_owned()),
        ("Clock", m.clock.clone()),
        ("Wall time", seconds(m.wall_s)),
        ("Time within the experiments", seconds(m.virtual_s)),
        ("Quell", m.quell.clone()),
    ];
    if !m.kernel.key.is_empty() {
        rows.push(("Kernel build", m.kernel.key.clone()));
    }
    let mut text = "<dl>\n".to_owned();
    for (name, value) in &rows {
        let _ = writeln!(text, "<dt>{name}</dt><dd>{}</dd>", escape(value));
    }
    for (name, value) in &m.machine {
        let _ = writeln!(text, "<dt>Machine: {}</dt><dd>{}</dd>", escape(name), escape(value));
    }
    text + "</dl>\n"
}

fn cells(m: &Manifest) -> String {
    let heads = [
        head("Scenario, probe, repeat"),
        head("State"),
        head_of_figures("Seed", ""),
        head_of_figures("Time, s", ""),
        head("Notes"),
    ];
    let rows = m.cells.iter().map(|record| {
        let state = match record.status {
            CellStatus::Complete => "✓ complete",
            CellStatus::Partial => "◐ partial",
            CellStatus::Failed => "✗ failed",
            CellStatus::Planned => "○ not begun",
            CellStatus::Stopped => "■ stopped",
        };
        let took = record.virtual_s.map_or("–".to_owned(), |s| format!("{s:.1}"));
        vec![
            row_name(&record.id.to_string()),
            cell("", state),
            cell("n", &record.seed.to_string()),
            cell("n", &took),
            cell("note", &notes(record)),
        ]
    });
    let table = scrolling("Measurements: each scenario with each probe", &heads, rows);
    match m.complete {
        true => format!(
            "<div id=\"measurements\">{}</div>\n",
            details("Measurements, with their seeds", &table)
        ),
        false => format!("<h3 id=\"measurements\">Measurements</h3>\n{table}"),
    }
}

/// Why a cell did not end well, and which of its tasks did not.
fn notes(record: &CellRecord) -> String {
    let tasks = record.tasks.iter().filter_map(|task| match &task.outcome {
        Some(Outcome::Failed(reason)) => Some(format!("{}: {reason}", task.id)),
        Some(Outcome::Done) => None,
        None if record.status == CellStatus::Complete => Some(format!("{}: no end seen", task.id)),
        None => None,
    });
    record.reason.iter().cloned().chain(tasks).collect::<Vec<_>>().join("; ")
}

/// What was found while it was measured, as a terminal shows it: what a program kept that is no finding is left out.
fn found(run: &Run) -> String {
    let all = run.iter().flat_map(|(_, data)| &data.facts);
    let told = all.filter(|fact| matches!(&fact.subject, Subject::Stream(_, Told::Found)));
    let mut findings: Vec<Finding> =
        told.filter_map(|fact| serde_json::from_str(&fact.value).ok()).take(100).collect();
    if findings.is_empty() {
        return String::new();
    }
    worst_first(&mut findings);
    let text: Vec<String> =
        findings.iter().map(|finding| lines(finding, WIDEST).join("\n")).collect();
    let text = shorten(&text.join("\n\n"));
    format!("<h3 id=\"found\">What was found</h3>\n<pre>{}</pre>\n", escape(&text))
}

fn outputs(run: &Run) -> String {
    let mut text = String::new();
    for (record, data) in run.iter() {
        let mut tasks: Vec<&str> = data.outputs.iter().map(|o| o.task.as_str()).collect();
        tasks.sort_unstable();
        tasks.dedup();
        for task in tasks {
            let lines: Vec<&str> =
                data.outputs.iter().filter(|o| o.task == task).map(|o| o.line.as_str()).collect();
            let _ =
                writeln!(text, "<h4>{} · {}</h4>", escape(&record.id.to_string()), escape(task));
            let from = lines.len().saturating_sub(40);
            if from > 0 {
                let _ = writeln!(
                    text,
                    "<p>The last {} of {} lines:</p>",
                    lines.len() - from,
                    lines.len()
                );
            }
            let _ = writeln!(text, "<pre>{}</pre>", escape(&shorten(&lines[from..].join("\n"))));
        }
    }
    if text.is_empty() { text } else { details("What commands printed", &text) }
}

fn explained() -> String {
    let mut text = "<dl class=\"long\">\n".to_owned();
    for d in definitions() {
        let _ = writeln!(
            text,
            "<dt>{}</dt><dd>{} <small>{}</small></dd>",
            escape(d.name),
            escape(d.how),
            escape(d.source)
        );
    }
    format!("<h3 id=\"definitions\">What the figures mean</h3>\n{text}</dl>\n")
}

fn map(title: &str, key: &str, map: &BTreeMap<String, String>) -> String {
    if map.is_empty() {
        return String::new();
    }
    let rows = map.iter().map(|(name, value)| {
        vec![row_name(name), format!("<td><code>{}</code></td>", escape(&shorten(value)))]
    });
    details(title, &scrolling(title, &[head(key), head("value")], rows))
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} … ({} bytes in all)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}
