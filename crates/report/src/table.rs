//! The tables that a terminal shows: at most 100 columns wide, units in their heads, and nothing said by colour.

use crate::analysis::{Results, Summary};
use crate::hosts;
use crate::layout::{FigureRow, MINORITY, TableFigure, TableLayout};
use quell_model::manifest::Backend;
use quell_model::{CellStatus, Manifest};
use quell_store::{RunState, RunSummary};
use quell_units::table::{Align, Table, cut, wrap};
use quell_wire::text::line as clean;
use std::collections::BTreeMap;

/// The widest line, unless told otherwise: what a pipe gets.
pub use quell_finding::WIDEST;

/// What is given up, step by step, for a table that is too wide: digits by which figures are shortened, and the longest name that is not
/// cut.
const STEPS: [(usize, usize); 5] = [(0, WIDEST), (0, 28), (1, 24), (2, 24), (2, 16)];

/// Columns that are written for; a narrower screen breaks lines by itself.
fn within(width: usize) -> usize {
    width.clamp(70, WIDEST)
}

/// The results of a run as a table for a screen of so many columns. What does not fit loses digits, then the ends of names. `published` has texts by
/// scenario that stand beside each row: figures that others published.
pub fn render(
    width: usize,
    manifest: &Manifest,
    results: &Results,
    published: &BTreeMap<String, String>,
) -> String {
    let width = within(width);
    let layout = TableLayout::of(manifest, results, &Summary::of(results, manifest));
    let mut text = paragraphs(&headline(manifest), width);
    let summaries = &results.summaries;
    if layout.is_empty() && summaries.is_empty() {
        return text + "\nNothing was measured.\n";
    }
    if !layout.is_empty() {
        text += &blocks(&layout, published, width);
    }
    if !summaries.is_empty() {
        text += &format!("\n{}", paragraphs(summaries, width));
    }
    text + &footer(manifest, &layout, width) + &warnings(results, width)
}

/// The same of a run that is being written: what is there by now. How cells ended and what is to be said of them is told when it is over.
pub fn so_far(width: usize, manifest: &Manifest, results: &Results) -> String {
    let width = within(width);
    let layout = TableLayout::of(manifest, results, &Summary::of(results, manifest));
    let count = |is: fn(CellStatus) -> bool| manifest.cells.iter().filter(|c| is(c.status)).count();
    let running = count(|s| s == CellStatus::Partial);
    let over = count(|s| !matches!(s, CellStatus::Planned | CellStatus::Partial));
    let all = manifest.cells.len();
    let standing = format!("so far: {over} of {all} measurements over, {running} under way");
    let text = paragraphs(&[identity(manifest), standing], width);
    match layout.is_empty() {
        true => text,
        false => text + &blocks(&layout, &BTreeMap::new(), width),
    }
}

/// Texts in lines of the width.
fn paragraphs(texts: &[String], width: usize) -> String {
    texts.iter().flat_map(|text| wrap(&clean(text), width)).map(|line| line + "\n").collect()
}

/// A text whose first line begins with a mark, and the others below it.
fn marked(mark: &str, text: &str, width: usize) -> String {
    let indent = mark.chars().count();
    let lines = wrap(&clean(text), width - indent).into_iter().enumerate();
    let head = |at| if at == 0 { mark.to_owned() } else { " ".repeat(indent) };
    lines.map(|(at, line)| head(at) + &line + "\n").collect()
}

/// The rows, in as many blocks of columns as they need. What does not fit in one block loses digits first.
fn blocks(layout: &TableLayout, published: &BTreeMap<String, String>, width: usize) -> String {
    let fits = |layout: &TableLayout, name| grid(layout, name, None, 0).width() <= width;
    for (digits, name) in STEPS {
        let shorter = layout.shortened(digits);
        if fits(&shorter, name) {
            return format!("\n{}", grid(&shorter, name, Some(published), width));
        }
    }
    let shorter = layout.shortened(1);
    let (mut text, mut from) = (String::new(), 0);
    while from < shorter.columns.len() {
        // At least one column each, as many as fit.
        let all = shorter.columns.len();
        let fit = |to: &usize| fits(&shorter.part(from..*to), 16);
        let to = (from + 1..=all).rev().find(fit).unwrap_or(from + 1);
        // Notes stand beside the last columns, once.
        let notes = (to == all).then_some(published);
        text += &format!("\n{}", grid(&shorter.part(from..to), 16, notes, width));
        from = to;
    }
    text
}

/// Columns beside each other, with the notes of rows beside them, or below where these would have less room than can be read.
fn grid(
    layout: &TableLayout,
    widest_name: usize,
    notes: Option<&BTreeMap<String, String>>,
    width: usize,
) -> Table {
    let name = |name: &str| cut(&clean(name), widest_name);
    let names = [("scenario", true), ("stream", layout.has_streams()), ("way", layout.has_ways())];
    let names: Vec<&str> =
        names.iter().filter(|(_, shown)| *shown).map(|(name, _)| *name).collect();
    let align =
        names.iter().map(|_| Align::Left).chain(layout.columns.iter().map(|_| Align::Right));
    let mut table = Table::new(align.chain([Align::Left]));
    let heads = layout.columns.iter().map(|column| {
        let from = column.from.as_ref().map_or(String::new(), |probe| name(probe) + ", ");
        format!("{}\n{}\n{from}{}", column.name, name(&column.of), column.unit)
    });
    let mut head: Vec<String> = names.iter().map(|name| (*name).to_owned()).chain(heads).collect();
    let rows: Vec<Vec<String>> = cells(layout, &name);
    let notes = notes.filter(|notes| !notes.is_empty());
    // As wide as the table is without them.
    let mut plain = table.clone();
    [head.clone()].iter().chain(&rows).for_each(|row| plain.row(row.clone()));
    let beside = width.saturating_sub(plain.width() + 2);
    let is_beside = notes.is_some() && beside >= 22;
    if is_beside {
        head.push("published".to_owned());
    }
    table.row(head);
    table.rule();
    for (row, mut cells) in layout.rows.iter().zip(rows) {
        let note = notes.and_then(|notes| notes.get(&row.scenario)).map_or("", String::as_str);
        if is_beside {
            cells.push(wrap(&clean(note), beside).join("\n"));
        }
        table.row(cells);
        if !is_beside && !note.is_empty() {
            let below = marked("  └ published: ", note, width);
            below.lines().for_each(|line| table.text(line));
        }
    }
    table
}

/// The cells of each row: a figure, and its interval below it.
fn cells(layout: &TableLayout, name: &dyn Fn(&str) -> String) -> Vec<Vec<String>> {
    let figure = |value: &Option<TableFigure>| match value {
        None => "–".to_owned(),
        Some(value) => match value.interval() {
            Some(interval) => format!("{}\n{interval}", value.figure()),
            None => value.figure(),
        },
    };
    let mut last = None;
    let row = |row: &FigureRow| {
        let FigureRow { scenario, stream, way, cells } = row;
        let again = last.replace(scenario.clone()).as_ref() == Some(scenario);
        let again = again && stream.is_some();
        let mut all = vec![if again { String::new() } else { name(scenario) }];
        all.extend(row.stream_name().map(|stream| name(&stream)));
        all.extend(layout.has_ways().then(|| name(way.as_deref().unwrap_or("–"))));
        all.extend(cells.iter().map(figure));
        all
    };
    layout.rows.iter().map(row).collect()
}

/// The runs under a folder as a table, oldest first; why some can't be read stands below their row. Names are cut where there is no room for them.
pub fn runs(width: usize, runs: &[RunSummary]) -> String {
    let width = within(width);
    if runs.is_empty() {
        return "There are no runs here yet.\n".to_owned();
    }
    let table = |widest: usize| {
        let mut table = Table::new([Align::Left, Align::Left, Align::Right, Align::Right]);
        table.row(["run", "state", "wall time", "seed"].map(str::to_owned).to_vec());
        table.rule();
        for run in runs {
            let manifest = run.manifest.as_ref();
            let wall = manifest.and_then(|m| m.wall_s).map(|s| format!("{s:.1} s"));
            let measured = manifest.filter(|m| m.kernel.backend != Backend::Unknown);
            let seed = measured.map(|m| m.seed.to_string());
            let [wall, seed] = [wall, seed].map(|cell| cell.unwrap_or("–".to_owned()));
            table.row(vec![cut(&clean(&run.name), widest), state(&run.state), wall, seed]);
            if let RunState::Unreadable(error) = &run.state {
                let why = marked("    ", &error.to_string(), width);
                why.lines().for_each(|line| table.text(line));
            }
        }
        table
    };
    let whole = table(48);
    let over = whole.width().saturating_sub(width);
    let longest =
        runs.iter().map(|run| clean(&run.name).chars().count()).max().unwrap_or(0).min(48);
    if over == 0 { whole } else { table(longest.saturating_sub(over).max(16)) }.to_string()
}

fn state(state: &RunState) -> String {
    match state {
        RunState::Complete => "✓ complete".to_owned(),
        RunState::Partial { complete, cells } => format!("◐ partial, {complete} of {cells}"),
        RunState::Stopped { cells: 1, .. } => "■ stopped".to_owned(),
        RunState::Stopped { complete, cells } => format!("■ stopped, {complete} of {cells}"),
        RunState::Running { complete, cells } => format!("▸ running, {complete} of {cells}"),
        RunState::Unreadable(_) => "✗ unreadable".to_owned(),
    }
}

fn identity(manifest: &Manifest) -> String {
    let kernel = &manifest.kernel;
    let time = if kernel.virtual_time { "virtual time" } else { "real time" };
    let Manifest { run, seed, .. } = manifest;
    match kernel.backend {
        // What another program measured has neither.
        Backend::Unknown => format!("{run} · {time}"),
        backend => {
            format!("{run} · seed {seed} · {} kernel {} · {time}", backend.name(), kernel.version)
        }
    }
}

fn headline(manifest: &Manifest) -> Vec<String> {
    let all = manifest.cells.len();
    let unfinished = manifest.cells.iter().filter(|c| c.status != CellStatus::Complete).count();
    let rest = format!("{unfinished} of {all} measurements did not run to their end.");
    let stopped = "STOPPED from outside, as by Ctrl-C; this is what was measured until then.";
    let state = match (manifest.was_stopped(), unfinished, manifest.complete) {
        (true, ..) if all > 1 => format!("{stopped} {rest}"),
        (true, ..) => stopped.to_owned(),
        (_, 1.., _) => format!("PARTIAL: {rest}"),
        (_, _, false) => {
            "PARTIAL: every measurement ran to its end, but the run was not finished.".to_owned()
        }
        _ => return vec![identity(manifest)],
    };
    vec![identity(manifest), state]
}

fn footer(manifest: &Manifest, layout: &TableLayout, width: usize) -> String {
    let repeats = manifest.repeats();
    let notes = [
        layout.has_minorities().then(|| MINORITY.to_owned()),
        layout.of_pages(manifest),
        (repeats > 1).then(|| layout.over(repeats)),
    ];
    let (hosts, warnings) = hosts::sentences(manifest);
    let notes: Vec<String> = notes.into_iter().flatten().chain(hosts).collect();
    let mut text = paragraphs(&notes, width);
    text.extend(warnings.iter().map(|warning| marked("! ", warning, width)));
    for (mark, line) in unfinished(manifest) {
        text += &marked(&format!("{mark} "), &line, width);
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn warnings(results: &Results, width: usize) -> String {
    let all = results.warnings();
    all.iter().map(|warning| format!("\n{}", marked("! ", warning, width))).collect()
}

/// What became of the cells that did not run to their end, each with its mark, those with the same end together.
fn unfinished(manifest: &Manifest) -> Vec<(char, String)> {
    let mut ends: Vec<(char, String, Vec<String>)> = Vec::new();
    for record in &manifest.cells {
        let status = match record.status {
            CellStatus::Planned => "not begun",
            CellStatus::Partial => "partial",
            CellStatus::Failed => "failed",
            CellStatus::Stopped => "stopped",
            CellStatus::Complete => continue,
        };
        let is_stopped = record.status == CellStatus::Stopped;
        let mark = if is_stopped { '■' } else { '✗' };
        let end = match record.reason.as_deref().unwrap_or_default() {
            "" => status.to_owned(),
            // It says so.
            reason if is_stopped => reason.to_owned(),
            reason => format!("{status}: {reason}"),
        };
        match ends.iter_mut().find(|(_, known, _)| *known == end) {
            Some((_, _, cells)) => cells.push(record.id.to_string()),
            None => ends.push((mark, end, vec![record.id.to_string()])),
        }
    }
    let mut lines = Vec::new();
    for (mark, end, cells) in ends {
        match &cells[..] {
            [first, rest @ ..] if rest.len() > 2 => {
                lines.push((mark, format!("{first} and {} more: {end}", rest.len())));
            }
            few => lines.extend(few.iter().map(|cell| (mark, format!("{cell}: {end}")))),
        }
    }
    lines
}
