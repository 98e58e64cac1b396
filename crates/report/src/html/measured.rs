//! How a run was measured: kernel, machine, cells, settings, queues, definitions, and the experiment file itself.

use super::tables::scrolling;
use super::text::escape;
use crate::analysis::definitions;
use quell_finding::{Finding, WIDEST, lines, worst_first};
use quell_model::{CellRecord, CellStatus, Manifest, Outcome, Subject, Told};
use quell_store::Run;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most lines of output that the page shows of each task.
const MOST_LINES: usize = 40;

/// Most findings that the page shows.
const MOST_FOUND: usize = 100;

/// Longest text of one queue or setting that the page shows.
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

fn details(summary: &str, content: &str) -> String {
    format!("<details>\n<summary>{}</summary>\n{content}</details>\n", escape(summary))
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
    let mut text = "<thead><tr><th scope=\"col\">Scenario, probe, repeat</th><th scope=\"col\">State</th>\
                    <th scope=\"col\" class=\"n\">Seed</th><th scope=\"col\" class=\"n\">Time, s</th>\
                    <th scope=\"col\">Notes</th></tr></thead>\n<tbody>\n"
        .to_owned();
    for record in &m.cells {
        let state = match record.status {
            CellStatus::Complete => "✓ complete",
            CellStatus::Partial => "◐ partial",
            CellStatus::Failed => "✗ failed",
            CellStatus::Planned => "○ not begun",
            CellStatus::Stopped => "■ stopped",
        };
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{}</th><td>{state}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"note\">{}</td></tr>",
            escape(&record.id.to_string()),
            record.seed,
            record.virtual_s.map_or("–".to_owned(), |s| format!("{s:.1}")),
            escape(&notes(record))
        );
    }
    text.push_str("</tbody>\n");
    let table = scrolling("Measurements: each scenario with each probe", &text);
    if m.complete {
        format!(
            "<div id=\"measurements\">{}</div>\n",
            details("Measurements, with their seeds", &table)
        )
    } else {
        format!("<h3 id=\"measurements\">Measurements</h3>\n{table}")
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
        told.filter_map(|fact| serde_json::from_str(&fact.value).ok()).take(MOST_FOUND).collect();
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
            let from = lines.len().saturating_sub(MOST_LINES);
            if from > 0 {
                let _ = writeln!(text, "<p>The last {MOST_LINES} of {} lines:</p>", lines.len());
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
    let mut text = format!(
        "<thead><tr><th scope=\"col\">{}</th><th scope=\"col\">value</th></tr></thead>\n<tbody>\n",
        escape(key)
    );
    for (name, value) in map {
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{}</th><td><code>{}</code></td></tr>",
            escape(name),
            escape(&shorten(value))
        );
    }
    details(title, &scrolling(title, &(text + "</tbody>\n")))
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} … ({} bytes in all)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}
