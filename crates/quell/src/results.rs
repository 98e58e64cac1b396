//! Runs by name, what they show, and what a run prints when it is over.

use crate::failure::Failure;
use crate::options::{Json, Place};
use crate::progress::words;
use crate::text::{columns, fitted, lines, say};
use quell_experiment::results::JudgedRun;
use quell_experiment::run::Finished;
use quell_experiment::spec::Experiment;
use quell_model::manifest::ExpectationRecord;
use quell_model::{Backend, CellStatus, Manifest};
use quell_report::analysis::{Results, Summary};
use quell_report::{insight, json, table};
use quell_store::{Run, RunState, RunSummary};
use quell_sys::memory;
use quell_units::fmt::plural;
use quell_wire::text::{self, printable};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// What it shows, in the sentences that open it, and an empty line.
fn opening(judged: &JudgedRun) -> String {
    let manifest = &judged.run.manifest;
    let said = insight::opening(manifest, &judged.results, &Summary::of(&judged.results, manifest));
    let all = said.iter().map(|said| lines("", &printable(said, 500), columns()));
    let text: String = all.collect();
    if text.is_empty() { text } else { text + "\n" }
}

fn open(folder: &Path) -> Result<JudgedRun, Failure> {
    Ok(JudgedRun::of(read(folder)?))
}

/// The run in a folder, as it is stored. It may be large, and what is worked out of it comes and goes by many megabytes.
pub fn read(folder: &Path) -> Result<Run, Failure> {
    memory::keep_freed();
    Run::read(folder).map_err(Failure::unreadable)
}

/// The folder of the run that was named; of the latest where none was.
pub fn folder_of(place: &Place, run: Option<&str>) -> Result<PathBuf, Failure> {
    match run {
        Some(wanted) => located(&place.base, wanted),
        None => latest(&place.base),
    }
}

/// The folder of the latest run. One that was stopped or broke off stands behind all others, and that is said.
pub fn latest(base: &Path) -> Result<PathBuf, Failure> {
    let runs = quell_store::list(base).map_err(Failure::usage)?;
    // They come oldest first.
    let readable = || runs.iter().rev().filter(|r| !matches!(r.state, RunState::Unreadable(_)));
    let newest = readable().next().ok_or_else(|| {
        Failure::usage(format!(
            "there is no run in {}; make one with `quell run home-link`",
            base.display()
        ))
    })?;
    // What had no end planned, as a ping without a count, is whole when it is stopped.
    let planned = |r: &RunSummary| {
        r.manifest.iter().flat_map(|m| &m.cells).any(|cell| cell.window_ns.is_some())
    };
    let ended = |r: &&RunSummary| match r.state {
        RunState::Complete | RunState::Running { .. } => true,
        RunState::Stopped { .. } => !planned(r),
        _ => false,
    };
    let Some(run) = readable().find(ended).filter(|run| run.name != newest.name) else {
        return Ok(newest.folder.clone());
    };
    eprintln!(
        "The latest run, {}, did not come to its end. This is {}, the latest that did.",
        printable(&newest.name, 100),
        printable(&run.name, 100)
    );
    Ok(run.folder.clone())
}

/// Says what the published figures are, below the table.
fn footnote(judged: &JudgedRun) -> String {
    // A trial of a policy says in its title which.
    let manifest = &judged.run.manifest;
    if manifest.experiment == "shape-try" {
        return format!("{}\n", text::line(&manifest.title));
    }
    match &judged.published_columns[..] {
        [] => String::new(),
        columns => {
            let columns = text::line(&columns.join(", "));
            format!("published: {columns} that others measured, from the experiment's file\n")
        }
    }
}

/// What `quell run` prints when it is over, and its exit code.
pub fn after_run(
    finished: &Finished,
    experiment: &Experiment,
    own_report: Option<&Path>,
    as_json: Json,
) -> Result<ExitCode, Failure> {
    let opened = open(&finished.folder)?;
    let manifest = &opened.run.manifest;
    let page = opened.page();
    let report = finished.folder.join("report.html");
    write(&report, page.as_bytes())?;
    if let Some(path) = own_report {
        write(path, page.as_bytes())?;
    }
    if as_json.json {
        println!("{}", crate::text::document(&json::document(manifest, &opened.results)));
    } else {
        print!("{}", opening(&opened));
        print!("{}", table::render(columns(), manifest, &opened.results, &opened.published));
        say(&footnote(&opened));
        say(&verdicts(&manifest.expectations, false));
        print!("{}", kernels(&opened.kernel_changes));
        println!();
        println!("run     {}", finished.folder.display());
        println!("report  {}", own_report.unwrap_or(&report).display());
        if let (Some(wall), Some(inside)) = (manifest.wall_s, manifest.virtual_s) {
            println!(
                "took    {} for {} inside the experiment",
                words(Duration::from_secs_f64(wall)),
                words(Duration::from_secs_f64(inside))
            );
        }
    }
    went_well(finished, experiment, manifest).map(|()| ExitCode::SUCCESS)
}

/// What `quell run --part` prints when it is over, and its exit code. What it found is told of the whole run.
pub fn after_part(
    finished: &Finished,
    experiment: &Experiment,
    as_json: Json,
) -> Result<ExitCode, Failure> {
    let Finished { folder, manifest, .. } = finished;
    let Some(part) = &manifest.part else { return Ok(ExitCode::SUCCESS) };
    let complete = manifest.cells.iter().filter(|c| c.status == CellStatus::Complete).count();
    if as_json.json {
        let document = serde_json::json!({
            "part": part.number, "of": part.of, "folder": folder, "measurements": manifest.cells.len(),
            "complete": complete, "was_there": finished.was_there,
        });
        println!("{}", crate::text::document(&document));
    } else {
        let again = if finished.was_there { " It was there already." } else { "" };
        let measurements = plural(manifest.cells.len() as u64, "measurement");
        let said = format!("Part {part}: {complete} of {measurements} complete.{again}");
        say(&format!("{said}\npart    {}\n", shown(folder)));
    }
    went_well(finished, experiment, manifest).map(|()| ExitCode::SUCCESS)
}

/// What a run found, for who prints it beside other things.
pub struct Told {
    /// The table.
    pub table: String,
    /// The same for a program.
    pub document: serde_json::Value,
}

/// What a run found that went well.
pub fn results_of(finished: &Finished, experiment: &Experiment) -> Result<Results, Failure> {
    let opened = open(&finished.folder)?;
    went_well(finished, experiment, &opened.run.manifest)?;
    Ok(opened.results)
}

/// What a run found that went well, as a table so many columns wide.
pub fn told(finished: &Finished, experiment: &Experiment, width: usize) -> Result<Told, Failure> {
    let opened = open(&finished.folder)?;
    let manifest = &opened.run.manifest;
    went_well(finished, experiment, manifest)?;
    Ok(Told {
        table: table::render(width, manifest, &opened.results, &opened.published),
        document: json::document(manifest, &opened.results),
    })
}

/// Whether all cells came to their end, and all that was claimed holds.
fn went_well(
    finished: &Finished,
    experiment: &Experiment,
    manifest: &Manifest,
) -> Result<(), Failure> {
    let failed: Vec<String> = manifest
        .cells
        .iter()
        .filter(|c| c.status != CellStatus::Complete)
        .map(|c| format!("  {}: {}", c.id, c.reason.as_deref().unwrap_or("it was not run")))
        .collect();
    if finished.stopped {
        return Err(Failure::check("stopped; what was measured until then is kept"));
    }
    if !failed.is_empty() {
        let text = format!(
            "{} of {} measurements failed:\n{}",
            failed.len(),
            manifest.cells.len(),
            failed.join("\n")
        );
        return Err(Failure::system(text));
    }
    let broken = manifest.expectations.iter().filter(|e| !e.held).count();
    let mut wrong: Vec<String> = Vec::new();
    wrong.extend(failed_tasks(manifest));
    if broken > 0 {
        wrong.push(format!(
            "{broken} of {} expectations of {} failed",
            manifest.expectations.len(),
            experiment.name
        ));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::check(wrong.join("\n"))) }
}

/// Most failed tasks that are told one by one.
const TOLD: usize = 12;

/// Tasks that ended with an error in cells that went on without them; none where none did.
fn failed_tasks(manifest: &Manifest) -> Option<String> {
    let cells = manifest.cells.iter().filter(|c| c.status == CellStatus::Complete);
    let failed: Vec<String> = cells
        .flat_map(|cell| {
            cell.failed().map(move |(task, why)| {
                // A run may be somebody else's.
                printable(&format!("  {}: {} on {}: {why}", cell.id, task.id, task.host), 1000)
            })
        })
        .collect();
    let count = failed.len();
    let mut text = match count {
        0 => return None,
        1 => "a task failed; its measurement went on without it:".to_owned(),
        _ => format!("{count} tasks failed; their measurements went on without them:"),
    };
    for line in failed.iter().take(TOLD) {
        text.push('\n');
        text.push_str(line);
    }
    if count > TOLD {
        text.push_str(&format!("\n  … and {} more", count - TOLD));
    }
    Some(text)
}

/// What the kernels of an experiment changed.
fn kernels(changed: &[String]) -> String {
    if changed.is_empty() {
        return String::new();
    }
    let all = changed.iter().map(|said| lines("  ", said, columns()));
    "\nkernels\n".to_owned() + &all.collect::<String>()
}

/// How the claims came out, and those that failed with what was found; that stands below where it has no room beside.
fn verdicts(expectations: &[ExpectationRecord], all: bool) -> String {
    let Some(verdict) = insight::verdict(expectations) else { return String::new() };
    let room = columns();
    let mut text = format!("\n{verdict}\n");
    for e in expectations.iter().filter(|e| all || !e.held) {
        let sign = if e.held { "✓ holds" } else { "✗ FAILS" };
        let (claim, found) = (printable(&e.claim, 500), printable(&e.found, 500));
        let line = format!("  {sign}  {claim:<52} {found}");
        if line.chars().count() <= room {
            text.push_str(&line);
        } else {
            text.push_str(&format!("  {sign}  {claim}\n           {found}"));
        }
        text.push('\n');
    }
    text
}

/// A path for a person: a folder that came from elsewhere may be called anything.
pub fn shown(path: &Path) -> String {
    text::line(&path.display().to_string())
}

/// Writes a file that a person asked for, whole or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    quell_store::write_output(path, bytes)
        .map_err(|e| Failure::system(format!("writing {}: {e}", path.display())))
}

pub fn list(place: &Place, as_json: Json) -> Result<ExitCode, Failure> {
    let base = &place.base;
    let runs = quell_store::list(base).map_err(Failure::usage)?;
    if as_json.json {
        let list: Vec<_> = runs.iter().map(run_json).collect();
        println!("{}", crate::text::document(&serde_json::Value::Array(list)));
    } else if runs.is_empty() {
        println!("no runs in {}; make one with `quell run home-link`", base.display());
    } else {
        print!("{}", table::runs(columns(), &runs));
    }
    Ok(ExitCode::SUCCESS)
}

fn run_json(run: &RunSummary) -> serde_json::Value {
    let manifest = run.manifest.as_ref();
    serde_json::json!({
        "run": run.name,
        "state": state(&run.state),
        "folder": run.folder,
        "experiment": manifest.map(|m| &m.experiment),
        "seed": manifest.filter(|m| m.kernel.backend != Backend::Unknown).map(|m| m.seed),
        "started": manifest.map(|m| &m.started),
        "backend": manifest.map(|m| &m.kernel.backend),
    })
}

/// A run's state in a word.
fn state(state: &RunState) -> &'static str {
    match state {
        RunState::Complete => "complete",
        RunState::Partial { .. } => "partial",
        RunState::Stopped { .. } => "stopped",
        RunState::Running { .. } => "running",
        RunState::Unreadable(_) => "unreadable",
    }
}

/// All that `quell show` prints of a run.
pub fn whole(run: Run, form: Json, all: bool) -> Result<String, Failure> {
    let opened = JudgedRun::of(run);
    let manifest = &opened.run.manifest;
    if form.json {
        let document = json::document(manifest, &opened.results);
        return Ok(crate::text::document(&document) + "\n");
    }
    let mut out = opening(&opened);
    out += &table::render(columns(), manifest, &opened.results, &opened.published);
    let mut more = footnote(&opened) + &verdicts(&manifest.expectations, all);
    if let Some(failed) = failed_tasks(manifest) {
        more += &format!("\n{failed}\n");
    }
    out += &fitted(&more, columns());
    out += &kernels(&opened.kernel_changes);
    Ok(out)
}

/// The folder of a run; where several have the name, which one it is stands on standard error.
pub fn located(base: &Path, wanted: &str) -> Result<PathBuf, Failure> {
    if wanted == "last" && !base.join(wanted).exists() {
        return latest(base);
    }
    let folder = quell_store::locate(base, wanted).map_err(Failure::unusable)?;
    let same = quell_store::namesakes(base, wanted).len();
    if same > 1 && folder != base.join(wanted) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        eprintln!(
            "{same} runs are called {}; this is the latest, {name}",
            shown(Path::new(wanted))
        );
    }
    Ok(folder)
}
