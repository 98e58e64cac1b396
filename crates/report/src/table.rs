//! The table that a terminal shows: at most 100 columns wide, units in its head, and nothing said by colour.

use crate::analysis::{Results, Summary};
use crate::layout::{FigureRow, MINORITY, TableFigure, TableLayout};
use quell_model::{CellId, CellStatus, Manifest};
use quell_store::{RunState, RunSummary};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The widest line, unless told otherwise: what a pipe gets.
pub const WIDEST: usize = 100;

/// The narrowest screen that is written for; a narrower one breaks lines by itself.
const NARROWEST_SCREEN: usize = 70;

/// Narrowest column of published figures that can be read; with less room they stand below their row.
const NARROWEST: usize = 22;

/// Columns of the wall time in the list of runs.
const WALL: usize = 10;

/// Longest name of a run in the list of runs; longer ones are cut.
const RUN_NAME: usize = 48;

/// What is given up, step by step, for a table that is too wide: digits by which figures are shortened, and the longest name that is not
/// cut.
const STEPS: [(usize, usize); 4] = [(0, 28), (1, 24), (2, 24), (2, 16)];

/// The results of a run as a table, at most [`WIDEST`] columns wide. `published` has texts by scenario that stand beside each row:
/// figures that others published.
pub fn render(
    manifest: &Manifest,
    results: &Results,
    published: &BTreeMap<String, String>,
) -> String {
    render_in(WIDEST, manifest, results, published)
}

/// The same for a screen of so many columns. What does not fit loses digits, then intervals, then the ends of names.
pub fn render_in(
    width: usize,
    manifest: &Manifest,
    results: &Results,
    published: &BTreeMap<String, String>,
) -> String {
    let width = width.clamp(NARROWEST_SCREEN, WIDEST);
    let summary = Summary::of(results, manifest);
    let layout = TableLayout::of(manifest, results, &summary);
    let mut text = String::new();
    for line in headline(manifest).lines().flat_map(|line| wrap(line, width)) {
        let _ = writeln!(text, "{line}");
    }
    if layout.rows.iter().all(|r| r.cells.iter().all(Option::is_none)) {
        text.push_str("\nNothing was measured.\n");
        return text;
    }
    text.push_str(&blocks(&layout, published, width));
    text.push_str(&footer(manifest, &layout, width));
    text.push_str(&warnings(results, width));
    text
}

/// The same of a run that is being written: what is there by now. How cells ended and what is to be said of them is told when it is over.
pub fn so_far(width: usize, manifest: &Manifest, results: &Results) -> String {
    let width = width.clamp(NARROWEST_SCREEN, WIDEST);
    let layout = TableLayout::of(manifest, results, &Summary::of(results, manifest));
    let count = |is: fn(CellStatus) -> bool| manifest.cells.iter().filter(|c| is(c.status)).count();
    let running = count(|s| s == CellStatus::Partial);
    let over = count(|s| !matches!(s, CellStatus::Planned | CellStatus::Partial));
    let mut text = String::new();
    let all = manifest.cells.len();
    let standing = format!("so far: {over} of {all} measurements over, {running} under way");
    for line in [identity(manifest), standing].iter().flat_map(|line| wrap(line, width)) {
        let _ = writeln!(text, "{line}");
    }
    if layout.rows.iter().any(|r| r.cells.iter().any(Option::is_some)) {
        text.push_str(&blocks(&layout, &BTreeMap::new(), width));
    }
    text
}

/// The rows, in as many blocks of columns as they need.
fn blocks(layout: &TableLayout, published: &BTreeMap<String, String>, width: usize) -> String {
    let blocks = fitting(layout, width);
    let last = blocks.len() - 1;
    let mut text = String::new();
    for (index, (layout, grid)) in blocks.into_iter().enumerate() {
        // Beside the last columns, once.
        let notes = if index == last { Some(published) } else { None };
        text.push('\n');
        text.push_str(&block(&layout, grid, notes, width));
    }
    text
}

/// Columns that stand beside each other, with the notes of rows beside or below them.
fn block(
    layout: &TableLayout,
    mut grid: Grid,
    published: Option<&BTreeMap<String, String>>,
    width: usize,
) -> String {
    let mut text = String::new();
    let widest_line = grid.width();
    let beside = width.saturating_sub(widest_line + 2);
    let is_beside = published.is_some_and(|p| !p.is_empty()) && beside >= NARROWEST;
    if is_beside {
        grid.head[0].push(("published".to_owned(), Align::Left));
    }
    for line in &grid.head {
        text.push_str(&grid.line(line));
    }
    let rule = "─".repeat(if is_beside { width } else { widest_line });
    text += &rule;
    text.push('\n');
    for (row, lines) in layout.rows.iter().zip(&grid.rows) {
        let note = published.and_then(|p| p.get(&row.scenario)).map_or("", String::as_str);
        let mut beside = if is_beside { wrap(note, beside) } else { Vec::new() }.into_iter();
        for cells in lines {
            let mut cells = cells.clone();
            cells.extend(beside.next().map(|line| (line, Align::Left)));
            text.push_str(&grid.line(&cells));
        }
        for line in beside {
            let _ = writeln!(text, "{}{line}", " ".repeat(widest_line + 2));
        }
        if !is_beside && !note.is_empty() {
            for (index, line) in wrap(note, width - 15).into_iter().enumerate() {
                let mark = if index == 0 { "└ published: " } else { "             " };
                let _ = writeln!(text, "  {mark}{line}");
            }
        }
    }
    text
}

/// The runs under a folder as a table, oldest first; why some can't be read stands below their row.
pub fn runs(runs: &[RunSummary]) -> String {
    runs_in(WIDEST, runs)
}

/// The same for a screen of so many columns: what does not fit loses blanks, then the ends of names.
pub fn runs_in(width: usize, runs: &[RunSummary]) -> String {
    let width = width.clamp(NARROWEST_SCREEN, WIDEST);
    if runs.is_empty() {
        return "There are no runs here yet.\n".to_owned();
    }
    let states: Vec<String> = runs.iter().map(|run| state(&run.state)).collect();
    let seeds =
        runs.iter().map(|r| r.manifest.as_ref().map_or("–".into(), |m| m.seed.to_string()));
    let seeds: Vec<String> = seeds.collect();
    let longest = |texts: &[String], head: &str| {
        let lengths = texts.iter().map(|text| text.chars().count());
        lengths.max().unwrap_or(0).max(head.len())
    };
    let mut names: Vec<String> = runs.iter().map(|r| cut(&clean(&r.name), RUN_NAME)).collect();
    let (mut widest, mut wide) = (longest(&names, "run"), 24);
    let beside = "  ".len() * 3 + WALL + longest(&seeds, "seed");
    if width < WIDEST && widest + wide + beside > width {
        wide = longest(&states, "state");
        widest = widest.min(width.saturating_sub(wide + beside).max(16));
        names = names.iter().map(|name| cut(name, widest)).collect();
    }
    let mut text =
        format!("{:<widest$}  {:<wide$}  {:>WALL$}  {}\n", "run", "state", "wall time", "seed");
    text += &"─".repeat(widest + wide + 20);
    text.push('\n');
    for (((run, name), state), seed) in runs.iter().zip(names).zip(states).zip(seeds) {
        let wall = run.manifest.as_ref().and_then(|m| m.wall_s);
        let wall = wall.map_or("–".to_owned(), |s| format!("{s:.1} s"));
        let _ = writeln!(text, "{name:<widest$}  {state:<wide$}  {wall:>WALL$}  {seed}");
        if let RunState::Unreadable(error) = &run.state {
            for line in wrap(&error.to_string(), width - 4) {
                let _ = writeln!(text, "    {line}");
            }
        }
    }
    text
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

/// The table in one block of columns, or in as few below each other as it takes. What does not fit in one block loses digits first.
fn fitting(layout: &TableLayout, width: usize) -> Vec<(TableLayout, Grid)> {
    for (digits, name) in STEPS {
        let shorter = layout.shortened(digits);
        let grid = Grid::of(&shorter, name);
        if grid.width() <= width {
            return vec![(shorter, grid)];
        }
    }
    let shorter = layout.shortened(1);
    let mut blocks = Vec::new();
    let mut from = 0;
    while from < shorter.columns.len() {
        // At least one column each, as many as fit.
        let widest = (from + 1..=shorter.columns.len()).rev().find_map(|to| {
            let part = shorter.part(from..to);
            let grid = Grid::of(&part, 16);
            (to == from + 1 || grid.width() <= width).then_some((to, part, grid))
        });
        let Some((to, part, grid)) = widest else { break };
        blocks.push((part, grid));
        from = to;
    }
    blocks
}

fn identity(manifest: &Manifest) -> String {
    let kernel = &manifest.kernel;
    let time = if kernel.virtual_time { "virtual time" } else { "real time" };
    format!(
        "{} · seed {} · {} kernel {} · {time}",
        clean(&manifest.run),
        manifest.seed,
        kernel.backend.name(),
        clean(&kernel.version)
    )
}

fn headline(manifest: &Manifest) -> String {
    let mut text = identity(manifest) + "\n";
    let unfinished = manifest.cells.iter().filter(|c| c.status != CellStatus::Complete).count();
    if manifest.was_stopped() {
        text.push_str("STOPPED from outside, as by Ctrl-C; this is what was measured until then.");
        if manifest.cells.len() > 1 {
            let all = manifest.cells.len();
            let _ = write!(text, " {unfinished} of {all} measurements did not run to their end.");
        }
        text.push('\n');
    } else if unfinished > 0 {
        let _ = writeln!(
            text,
            "PARTIAL: {unfinished} of {} measurements did not run to their end.",
            manifest.cells.len()
        );
    } else if !manifest.complete {
        text.push_str("PARTIAL: every measurement ran to its end, but the run was not finished.\n");
    }
    text
}

fn footer(manifest: &Manifest, layout: &TableLayout, width: usize) -> String {
    let mut text = String::new();
    let repeats = manifest.cells.iter().map(|c| c.id.repeat).max().unwrap_or(0) + 1;
    let mut cells = layout.rows.iter().flat_map(|r| &r.cells).flatten();
    if cells.any(|v| v.of_a_minority) {
        let _ = writeln!(text, "{MINORITY}");
    }
    if let Some(said) = layout.of_pages(manifest) {
        for line in wrap(&said, width) {
            let _ = writeln!(text, "{line}");
        }
    }
    if repeats > 1 {
        for line in wrap(&layout.over(repeats), width) {
            let _ = writeln!(text, "{line}");
        }
    }
    for (mark, line) in unfinished(manifest) {
        for (index, line) in wrap(&line, width - 4).into_iter().enumerate() {
            let mark = if index == 0 { format!("{mark} ") } else { "    ".to_owned() };
            let _ = writeln!(text, "{mark}{line}");
        }
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn warnings(results: &Results, width: usize) -> String {
    let mut text = String::new();
    for warning in results.warnings() {
        text.push('\n');
        for (index, line) in wrap(&warning, width - 2).into_iter().enumerate() {
            let _ = writeln!(text, "{}{line}", if index == 0 { "! " } else { "  " });
        }
    }
    text
}

/// Most cells with the same end that are named one by one.
const NAMED: usize = 3;

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
        if cells.len() > NAMED {
            lines.push((mark, format!("{} and {} more: {end}", cells[0], cells.len() - 1)));
        } else {
            lines.extend(cells.iter().map(|cell| (mark, format!("{cell}: {end}"))));
        }
    }
    lines
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Align {
    Left,
    Right,
}

/// Cells as texts, with the widths of their columns.
struct Grid {
    head: Vec<Vec<(String, Align)>>,
    /// The lines of each row: its figures, and below them their intervals where there are some.
    rows: Vec<Vec<Vec<(String, Align)>>>,
    widths: Vec<usize>,
}

impl Grid {
    fn of(layout: &TableLayout, widest_name: usize) -> Self {
        let with_streams = layout.rows.iter().any(|r| r.stream.is_some());
        let with_ways = layout.rows.iter().any(|r| r.way.is_some());
        let names = [("scenario", true), ("stream", with_streams), ("way", with_ways)];
        let names = names.into_iter().filter(|(_, shown)| *shown).map(|(name, _)| name);
        let first: Vec<_> = names.map(|name| (name.to_owned(), Align::Left)).collect();
        let below = vec![(String::new(), Align::Left); first.len()];
        let mut head = vec![first, below.clone(), below];
        for column in &layout.columns {
            let below = match &column.from {
                Some(probe) => format!("{}, {}", cut(&clean(probe), widest_name), column.unit),
                None => column.unit.to_owned(),
            };
            head[0].push((column.name.to_owned(), Align::Right));
            head[1].push((cut(&clean(&column.of), widest_name), Align::Right));
            head[2].push((below, Align::Right));
        }
        let mut rows: Vec<Vec<Vec<(String, Align)>>> = Vec::new();
        let mut last: Option<&FigureRow> = None;
        for row in &layout.rows {
            let again = with_streams && last.is_some_and(|l| l.scenario == row.scenario);
            let name = if again { String::new() } else { cut(&clean(&row.scenario), widest_name) };
            let mut cells = vec![(name, Align::Left)];
            if let Some((probe, stream)) = &row.stream {
                let name = if probe == stream || probe == CellId::TOGETHER {
                    clean(stream)
                } else {
                    format!("{}: {}", clean(probe), clean(stream))
                };
                cells.push((cut(&name, widest_name), Align::Left));
            }
            if with_ways {
                let way = row.way.as_deref().unwrap_or("–");
                cells.push((cut(&clean(way), widest_name), Align::Left));
            }
            let names = cells.len();
            let figure = |v: &Option<TableFigure>| v.map_or("–".to_owned(), |v| v.figure());
            cells.extend(row.cells.iter().map(|v| (figure(v), Align::Right)));
            let mut lines = vec![cells];
            let intervals: Vec<Option<String>> =
                row.cells.iter().map(|v| v.and_then(|v| v.interval())).collect();
            if intervals.iter().any(Option::is_some) {
                let mut below = vec![(String::new(), Align::Left); names];
                below.extend(intervals.into_iter().map(|i| (i.unwrap_or_default(), Align::Right)));
                lines.push(below);
            }
            rows.push(lines);
            last = Some(row);
        }
        let columns = head[0].len();
        let widths = (0..columns)
            .map(|i| {
                let lines = head.iter().chain(rows.iter().flatten());
                lines.map(|line| line[i].0.chars().count()).max().unwrap_or(0)
            })
            .collect();
        Self { head, rows, widths }
    }

    fn width(&self) -> usize {
        self.widths.iter().sum::<usize>() + 2 * (self.widths.len() - 1)
    }

    fn line(&self, cells: &[(String, Align)]) -> String {
        let mut text = String::new();
        for (index, (cell, side)) in cells.iter().enumerate() {
            if index > 0 {
                text.push_str("  ");
            }
            let room = self.widths.get(index).copied().unwrap_or(0);
            let fill = " ".repeat(room.saturating_sub(cell.chars().count()));
            match side {
                Align::Left => text += &(cell.clone() + &fill),
                Align::Right => text += &(fill + cell),
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }
}

/// Text that commands no terminal: names come from files.
pub(crate) fn clean(text: &str) -> String {
    quell_wire::text::line(text)
}

pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Lines of at most `width` characters, broken between words where that goes.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = clean(word).chars().collect();
        if let Some(line) = lines.last_mut()
            && line.chars().count() + 1 + rest.len() <= width
        {
            line.push(' ');
            line.extend(rest);
            continue;
        }
        while rest.len() > width {
            let tail = rest.split_off(width);
            lines.push(rest.into_iter().collect());
            rest = tail;
        }
        lines.push(rest.into_iter().collect());
    }
    lines
}
