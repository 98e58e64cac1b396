//! `quell show`: a run's results as tables, with `--follow` while it is written; runs or scenarios compared; the list of runs.
//!
//! ```text
//!   follower ──readable──► read ──► terminal: the tables so far, in place      at most four times a second, and
//!                              ├──► pipe: a line for each measurement that ends  a fifth of a CPU
//!                              └──► --json: an object for each
//!   Ctrl-C, the run's end, its writer's end ──► all that `quell show` prints
//! ```

use crate::compare::{self, Comparing};
use crate::failure::Failure;
use crate::options::{Json, RunNames};
use crate::screen::{self, Screen};
use crate::text::columns;
use crate::{interrupt, results};
use clap::Args;
use quell_model::{CellRecord, CellStatus};
use quell_report::{Results, table};
use quell_store::{Run, Standing};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, readable, wait};
use quell_wire::text::{self, printable};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub runs: RunNames,
    /// List the runs
    #[arg(short, long, conflicts_with_all = ["runs", "follow", "by", "metrics", "expect_no_worse"])]
    pub list: bool,
    /// Show it while it is being written, until it is over: on a terminal tables that grow, in a pipe a line for each measurement that ends, with --json
    /// an object a line
    #[arg(short, long, conflicts_with_all = ["by", "metrics", "expect_no_worse"])]
    pub follow: bool,
    /// Show each expectation, and of a comparison also what does not differ
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub comparing: Comparing,
    /// Fail where something got worse; of metrics named here also where it is unknown
    #[arg(long, value_name = "METRICS", value_delimiter = ',', num_args = 0.., require_equals = true)]
    pub expect_no_worse: Option<Vec<String>>,
    #[command(flatten)]
    pub json: Json,
}

/// How often it is read and drawn at most.
const PAUSE_NS: u64 = 250_000_000;

pub fn show(args: &ShowArgs) -> Result<ExitCode, Failure> {
    let RunNames { runs, place } = &args.runs;
    if args.list {
        return results::list(place, args.json);
    }
    let Comparing { part, .. } = &args.comparing;
    let is_part = !part.streams.is_empty() || !part.scenarios.is_empty();
    if runs.len() > 1 || is_part || args.comparing.is_asked() || args.expect_no_worse.is_some() {
        return compared(args);
    }
    if let [name] = &runs[..]
        && let Some(text) = crate::ping::hours::shown(&place.base, name, args.json, args.all)?
    {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let folder = results::folder_of(place, runs.first().map(String::as_str))?;
    if args.follow {
        return follow(&folder, args.json);
    }
    print!("{}", results::whole(results::read(&folder)?, args.json, args.all)?);
    Ok(ExitCode::SUCCESS)
}

/// Runs or scenarios beside each other.
fn compared(args: &ShowArgs) -> Result<ExitCode, Failure> {
    if args.follow {
        return Err(Failure::usage("--follow shows one run, and all of it: leave one out"));
    }
    let checked = args.expect_no_worse.as_deref().unwrap_or_default();
    if !checked.is_empty() && !args.comparing.metrics.is_empty() {
        return Err(Failure::usage(
            "name metrics with --metric or with --expect-no-worse=, not with both",
        ));
    }
    compare::distinct(&args.runs.place, &args.runs.runs)?;
    let metrics = compare::metrics(checked.iter().chain(&args.comparing.metrics))?;
    let worse =
        args.comparing.of(&args.runs.place, &args.runs.runs, metrics, false, |comparison| {
            if args.json.json {
                println!("{}", crate::text::document(&quell_report::compare::json(comparison)));
            } else {
                // What is asked for by name is shown, be it unknown.
                let all = args.all || !args.comparing.metrics.is_empty();
                print!("{}", quell_report::compare::text(columns(), comparison, all));
            }
            if args.expect_no_worse.is_none() {
                return Ok(Vec::new());
            }
            let mut worse = quell_report::compare::worse(comparison);
            // What was asked for by name, and a check of nothing, must not pass because it is unknown.
            if !checked.is_empty() || quell_report::compare::is_all_unknown(comparison) {
                worse.extend(quell_report::compare::unknown(comparison));
            }
            Ok(worse)
        })?;
    match worse.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::check(worse.join("\n"))),
    }
}

/// Follows the run in this folder to its end.
fn follow(folder: &Path, form: Json) -> Result<ExitCode, Failure> {
    let stop = interrupt::bell()?;
    let mut alarm = Alarm::new().map_err(Failure::system)?;
    let mut follower = quell_store::follow(folder).map_err(Failure::unreadable)?;
    let mut view = View::new(form);
    let standing = loop {
        let begun = monotonic_ns();
        let standing = follower.read().map_err(Failure::unreadable)?;
        view.update(follower.run())?;
        if standing != Standing::Written || stop.rings() {
            break standing;
        }
        // A long run takes long to sum up: the rest of the CPU is for who measures.
        let now = monotonic_ns();
        alarm.set(Some(now + PAUSE_NS.max((now - begun) * 4))).map_err(Failure::system)?;
        wait(&mut [readable(&*stop), readable(&alarm)]).map_err(Failure::system)?;
        wait(&mut [readable(&*stop), readable(&follower)]).map_err(Failure::system)?;
    };
    view.end(follower.run().clone(), standing)?;
    Ok(ExitCode::SUCCESS)
}

/// What was told so far.
struct View {
    form: Json,
    screen: Option<Screen>,
    /// Which cells were told to have ended; none before the first look.
    told: Option<Vec<bool>>,
}

impl View {
    fn new(form: Json) -> Self {
        let is_drawn = !form.json && screen::is_live();
        Self { form, screen: is_drawn.then(Screen::new), told: None }
    }

    fn update(&mut self, run: &Run) -> Result<(), Failure> {
        if let Some(screen) = &mut self.screen {
            let (width, height) = screen::size();
            let text = table::so_far(width, &run.manifest, &Results::from(run));
            Screen::show(&screen.frame(&fitting(&text, height), width));
            return Ok(());
        }
        let cells = &run.manifest.cells;
        if self.told.is_none() && self.form.json {
            let ended = cells.iter().filter(|c| is_over(c)).count();
            line(&json!({
                "event": "start", "run": run.manifest.run, "measurements": cells.len(), "ended": ended,
            }));
        }
        let told = self.told.get_or_insert_with(|| vec![false; cells.len()]);
        let new: Vec<&CellRecord> = cells
            .iter()
            .zip(told)
            .filter_map(|(c, t)| (is_over(c) && !std::mem::replace(t, true)).then_some(c))
            .collect();
        // All of them are summed up only where some are told.
        let results = (self.form.json && !new.is_empty()).then(|| Results::from(run));
        for cell in new {
            match &results {
                Some(results) => line(&object(cell, results)?),
                None => print!("{}", said(cell)),
            }
        }
        flush();
        Ok(())
    }

    fn end(mut self, run: Run, standing: Standing) -> Result<(), Failure> {
        if let Some(screen) = &mut self.screen {
            Screen::show(&screen.clear(screen::size().0));
        }
        let folder = results::shown(&run.folder);
        let whole = results::whole(run, self.form, false)?;
        if self.form.json {
            let mut object: Value = serde_json::from_str(&whole).map_err(Failure::system)?;
            object["event"] = "end".into();
            object["why"] = why(standing).into();
            line(&object);
            return Ok(());
        }
        if self.screen.is_none() && self.told.is_some_and(|told| told.contains(&true)) {
            println!();
        }
        print!("{whole}");
        match standing {
            Standing::Finished => {}
            Standing::Left => {
                eprintln!("the program that wrote {folder} is gone; this is what it left")
            }
            Standing::Written => eprintln!("{folder} goes on; this is what it holds so far"),
        }
        Ok(())
    }
}

/// Why following ended, for a program.
fn why(standing: Standing) -> &'static str {
    match standing {
        Standing::Finished => "finished",
        Standing::Left => "writer-gone",
        Standing::Written => "stopped",
    }
}

fn is_over(cell: &CellRecord) -> bool {
    matches!(cell.status, CellStatus::Complete | CellStatus::Failed | CellStatus::Stopped)
}

/// A cell that ended, for a person.
fn said(cell: &CellRecord) -> String {
    let how = match (cell.status, &cell.reason) {
        (CellStatus::Complete, _) => "complete".to_owned(),
        (CellStatus::Failed, Some(why)) => format!("failed: {why}"),
        (CellStatus::Failed, None) => "failed".to_owned(),
        _ => "stopped".to_owned(),
    };
    printable(&format!("{}: {how}", cell.id), 1000) + "\n"
}

/// The same for a program, with the results of its streams.
fn object(cell: &CellRecord, results: &Results) -> Result<Value, Failure> {
    let rows = results.rows.iter().filter(|row| row.cell == cell.id);
    Ok(json!({
        "event": "measurement",
        "scenario": cell.id.scenario,
        "probe": cell.id.probe,
        "repeat": cell.id.repeat,
        "status": cell.status,
        "reason": cell.reason,
        "results": quell_report::json::rows(rows),
    }))
}

fn line(object: &Value) {
    println!("{}", text::json(&object.to_string()));
}

/// A reader of lines wants them now, not when a block is full.
fn flush() {
    let _ = quell_sys::reader::print(std::io::stdout(), b"");
}

/// The lines that fit on a screen so high, and a word on the others.
fn fitting(text: &str, height: usize) -> Vec<String> {
    let room = height.saturating_sub(2).max(1);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.len() > room {
        let more = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(format!("... and {more} more lines; a higher window shows them"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_are_higher_than_the_screen_are_cut_and_that_is_said() {
        let text = (0..30).map(|n| format!("line {n}\n")).collect::<String>();
        let got = fitting(&text, 24);
        assert_eq!((got.len(), &*got[20]), (22, "line 20"));
        assert!(got[21].starts_with("... and 9 more lines"), "{got:?}");
        assert_eq!(fitting(&text, 100).len(), 30);
        assert_eq!(fitting(&text, 1).len(), 1);
    }
}
