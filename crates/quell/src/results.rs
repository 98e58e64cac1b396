//! `quell runs`, `quell show`, `quell report`, and what a run prints when it is over.

use crate::failure::Failure;
use crate::options::{Json, Place, RunName};
use crate::progress::words;
use clap::Args;
use quell_experiment::expect::{Claim, Evidence, Measured, Metric, Source};
use quell_experiment::run::{Finished, STOPPED};
use quell_experiment::spec::{Experiment, Load, Probe, load_file};
use quell_model::manifest::ExpectationRecord;
use quell_model::{CellId, CellRecord, CellStatus, Manifest, Outcome, TaskRecord};
use quell_report::analysis::{EchoResult, FlowResult, Results, StreamResult};
use quell_report::{html, json, table};
use quell_store::{Run, RunState, RunSummary};
use quell_wire::text::{self, printable};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Options of `quell runs`.
#[derive(Debug, Args)]
pub struct RunsArgs {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub json: Json,
}

/// Options of `quell report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    #[command(flatten)]
    pub run: RunName,
    /// File to write; report.html in the run's folder where absent
    #[arg(short, long)]
    pub output: Option<PathBuf>,
}

/// A run with its results, and its claims checked against them.
struct Opened {
    run: Run,
    results: Results,
    published: BTreeMap<String, String>,
    footnote: String,
}

fn open(folder: &Path) -> Result<Opened, Failure> {
    Ok(judged(Run::read(folder).map_err(Failure::unreadable)?))
}

fn judged(mut run: Run) -> Opened {
    let results = Results::from(&run);
    let mut published = BTreeMap::new();
    let mut footnote = String::new();
    // The text was an experiment when it was run; one that a newer version of Quell no longer takes is shown without its claims.
    if let Ok(experiment) = load_file::parse("manifest.json", &run.manifest.experiment_text) {
        published = self::published(&experiment);
        footnote = self::footnote(&experiment);
        run.manifest.expectations = judge(&run, &results, &experiment);
    }
    Opened { run, results, published, footnote }
}

fn open_named(name: &RunName) -> Result<Opened, Failure> {
    open(&folder_of(name)?)
}

/// The run that was named, as it is stored; the latest where none was.
pub fn read_named(name: &RunName) -> Result<Run, Failure> {
    Run::read(&folder_of(name)?).map_err(Failure::unreadable)
}

/// The folder of the run that was named; of the latest where none was.
pub fn folder_of(name: &RunName) -> Result<PathBuf, Failure> {
    let base = &name.place.base;
    if let Some(wanted) = &name.run {
        return quell_store::locate(base, wanted).map_err(Failure::unusable);
    }
    let runs = quell_store::list(base).map_err(Failure::usage)?;
    // They come oldest first.
    let latest = runs.iter().rev().find(|r| !matches!(r.state, RunState::Unreadable(_)));
    let latest = latest.ok_or_else(|| {
        Failure::usage(format!(
            "there is no run in {}; make one with `quell run home-link`",
            base.display()
        ))
    })?;
    Ok(latest.folder.clone())
}

/// Columns of published figures in the order of our own; others come after them by name.
const PUBLISHED: [&str; 4] = ["loss", "jitter", "ping", "tcp"];

fn published_columns(experiment: &Experiment) -> Vec<&str> {
    let mut columns: Vec<&str> = Vec::new();
    for key in experiment.scenario.iter().flat_map(|s| s.published.keys()) {
        if !columns.contains(&key.as_str()) {
            columns.push(key);
        }
    }
    let place = |c: &str| PUBLISHED.iter().position(|p| *p == c).unwrap_or(PUBLISHED.len());
    columns.sort_by_key(|c| (place(c), *c));
    columns
}

/// What others published for each scenario, in a line: the values of [`published_columns`].
fn published(experiment: &Experiment) -> BTreeMap<String, String> {
    let columns = published_columns(experiment);
    let line = |values: &BTreeMap<String, String>| {
        let values = columns.iter().map(|c| values.get(*c).map_or("–", String::as_str));
        values.collect::<Vec<_>>().join(", ")
    };
    experiment
        .scenario
        .iter()
        .filter(|s| !s.published.is_empty())
        .map(|s| (s.name.clone(), line(&s.published)))
        .collect()
}

/// Says what the published figures are, below the table.
fn footnote(experiment: &Experiment) -> String {
    let columns = published_columns(experiment);
    if columns.is_empty() {
        return String::new();
    }
    let columns = text::line(&columns.join(", "));
    format!("published: {columns} that others measured, from the experiment's file\n")
}

/// Checks the claims whose cells were run: `--only` leaves some out, and a run that was stopped did not come to others.
fn judge(run: &Run, results: &Results, experiment: &Experiment) -> Vec<ExpectationRecord> {
    let is_probe = |name: &str| experiment.probe.iter().any(|p| p.name() == name);
    let ran = |source: &Source| {
        let mut cells = run.manifest.cells.iter().filter(|c| is_meant(&c.id, source, is_probe));
        let mut any = false;
        cells.all(|c| {
            any = true;
            !matches!(c.status, CellStatus::Planned | CellStatus::Partial | CellStatus::Stopped)
                // Before there was a word for it.
                && c.reason.as_deref() != Some(STOPPED)
        }) && any
    };
    let evidence = Table { results, experiment };
    experiment
        .expect
        .iter()
        .filter_map(|text| Claim::parse(text).ok())
        .filter(|c| c.sources().iter().all(|s| ran(s)))
        .map(|claim| {
            let verdict = claim.check(&evidence);
            // What was measured while a load or a probe was missing proves nothing.
            let missing = missing(&run.manifest, &claim, is_probe);
            let found = match &missing {
                Some(what) => format!("{}; {what}", verdict.found),
                None => verdict.found,
            };
            let held = verdict.held && missing.is_none();
            ExpectationRecord { claim: verdict.claim, held, found }
        })
        .collect()
}

/// Whether a cell is one of those that a source speaks of.
fn is_meant(id: &CellId, source: &Source, is_probe: impl Fn(&str) -> bool) -> bool {
    source.scenario.as_ref().is_none_or(|s| *s == id.scenario)
        && (id.has_probe(&source.probe) || !is_probe(&source.probe))
}

/// What failed in a cell that a claim rests on, for a person.
fn missing(manifest: &Manifest, claim: &Claim, is_probe: impl Fn(&str) -> bool) -> Option<String> {
    let meant = |id: &CellId| claim.sources().iter().any(|s| is_meant(id, s, &is_probe));
    let cells = manifest.cells.iter().filter(|c| meant(&c.id));
    let mut failed = cells.flat_map(|c| failed_in(c).map(move |(task, _)| (c, task)));
    let (cell, task) = failed.next()?;
    let what = match task.id.strip_prefix("server/").unwrap_or(&task.id).split_once('/') {
        Some((kind, name)) => format!("{kind} `{name}`"),
        None => task.id.clone(),
    };
    let more = match failed.count() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    Some(format!("{what} failed in {}{more}", cell.id))
}

/// The tasks of a cell that ended with an error, with its reason.
fn failed_in(cell: &CellRecord) -> impl Iterator<Item = (&TaskRecord, &str)> {
    cell.tasks.iter().filter_map(|task| match &task.outcome {
        Some(Outcome::Failed(why)) => Some((task, why.as_str())),
        _ => None,
    })
}

struct Table<'a> {
    results: &'a Results,
    experiment: &'a Experiment,
}

impl Table<'_> {
    /// Streams of a probe or load: its own name, or `name-1`, `name-2` … with several connections.
    fn is_stream_of(&self, stream: &str, name: &str) -> bool {
        if stream == name {
            return true;
        }
        let flows = self.experiment.load.iter().filter_map(|l| match l {
            Load::Tcp(flow) => Some(flow),
            _ => None,
        });
        let probes = self.experiment.probe.iter().filter_map(|p| match p {
            Probe::Tcp(flow) => Some(flow),
            _ => None,
        });
        let several = flows.chain(probes).any(|f| f.name == name && f.connections > 1);
        several
            && stream
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('-'))
                .is_some_and(|n| n.parse::<u32>().is_ok())
    }
}

impl Evidence for Table<'_> {
    fn values(&self, source: &Source) -> Vec<Measured> {
        self.results
            .rows
            .iter()
            .filter(|r| source.scenario.as_ref().is_none_or(|s| *s == r.cell.scenario))
            .filter(|r| match &source.stream {
                Some(stream) => *stream == r.stream,
                None => self.is_stream_of(&r.stream, &source.probe),
            })
            // A load runs beside every probe; a claim about a probe means the cell where it was measured.
            .filter(|r| {
                r.cell.has_probe(&source.probe)
                    || !self.experiment.probe.iter().any(|p| p.name() == source.probe)
            })
            .map(|r| Measured {
                scenario: r.cell.scenario.clone(),
                stream: r.stream.clone(),
                repeat: r.cell.repeat,
                value: value(r, source.metric),
                at_most: at_most(r, source.metric),
            })
            .collect()
    }
}

/// The most that a value can be which is not known exactly.
fn at_most(row: &StreamResult, metric: Metric) -> Option<f64> {
    let unsure = row.echo().map(|e| e.counts.unsure).filter(|unsure| *unsure > 0)?;
    match metric {
        Metric::Loss => row.loss_range().map(|(_, most)| most),
        Metric::Received => row.received().map(|n| (n + unsure) as f64),
        _ => None,
    }
}

/// Of a flow whose single packets were reported too, the counts are the flow's and the delays the packets'.
fn value(row: &StreamResult, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Loss => row.loss_range().map(|(least, _)| least),
        Metric::Sent => row.sent().map(|n| n as f64),
        Metric::Received => row.received().map(|n| n as f64),
        _ => row
            .flow()
            .and_then(|flow| flow_value(flow, metric))
            .or_else(|| echo_value(row.echo()?, metric)),
    }
}

fn echo_value(echo: &EchoResult, metric: Metric) -> Option<f64> {
    let rtt = echo.rtt_ms.as_ref();
    let seconds = |ms: f64| ms / 1e3;
    match metric {
        Metric::Jitter => echo.jitter_ms().map(seconds),
        Metric::JitterUp => echo.jitter_up_ms.map(seconds),
        Metric::JitterDown => echo.jitter_down_ms.map(seconds),
        Metric::JitterRtt => echo.jitter_rtt_ms.map(seconds),
        Metric::LossUp => one_way_loss(echo, echo.counts.lost_ways()?.0),
        Metric::LossDown => one_way_loss(echo, echo.counts.lost_ways()?.1),
        Metric::RttMin => rtt.map(|r| seconds(r.min)),
        Metric::RttMean => rtt.map(|r| seconds(r.mean)),
        Metric::RttP50 => rtt.map(|r| seconds(r.p50)),
        Metric::RttP90 => rtt.map(|r| seconds(r.p90)),
        Metric::RttP99 => rtt.map(|r| seconds(r.p99)),
        Metric::RttMax => rtt.map(|r| seconds(r.max)),
        Metric::UpP50 => echo.up_ms.as_ref().map(|d| seconds(d.p50)),
        Metric::DownP50 => echo.down_ms.as_ref().map(|d| seconds(d.p50)),
        Metric::Duplicates => Some(echo.counts.duplicates as f64),
        Metric::Reordered => Some((echo.reordered_up.unwrap_or(0) + echo.reordered_down?) as f64),
        Metric::LostUp => Some(echo.counts.lost_ways()?.0 as f64),
        Metric::LostDown => Some(echo.counts.lost_ways()?.1 as f64),
        _ => None,
    }
}

/// The part that was lost one way.
fn one_way_loss(echo: &EchoResult, lost: u64) -> Option<f64> {
    (echo.counts.sent > 0).then(|| lost as f64 / echo.counts.sent as f64)
}

fn flow_value(flow: &FlowResult, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Goodput => flow.goodput_mbps.map(|m| m * 1e6),
        Metric::Share => flow.share,
        Metric::Retransmits => flow.retransmits.map(|n| n as f64),
        _ => None,
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
    let page = html::render(&opened.run, &opened.results, &opened.published);
    let report = finished.folder.join("report.html");
    write(&report, page.as_bytes())?;
    if let Some(path) = own_report {
        write(path, page.as_bytes())?;
    }
    if as_json.json {
        let document = json::render(manifest, &opened.results).map_err(Failure::system)?;
        print!("{}", text::json(&document));
    } else {
        print!("{}", table::render_in(columns(), manifest, &opened.results, &opened.published));
        print!("{}", opened.footnote);
        print!("{}", verdicts(&manifest.expectations));
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
            "{} of {} cells failed:\n{}",
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
    if wrong.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(Failure::check(wrong.join("\n"))) }
}

/// Most failed tasks that are told one by one.
const TOLD: usize = 12;

/// Tasks that ended with an error in cells that went on without them; none where none did.
fn failed_tasks(manifest: &Manifest) -> Option<String> {
    let cells = manifest.cells.iter().filter(|c| c.status == CellStatus::Complete);
    let failed: Vec<String> = cells
        .flat_map(|cell| {
            failed_in(cell).map(move |(task, why)| {
                // A run may be somebody else's.
                printable(&format!("  {}: {} on {}: {why}", cell.id, task.id, task.host), 1000)
            })
        })
        .collect();
    let count = failed.len();
    let mut text = match count {
        0 => return None,
        1 => "a task failed; its cell went on without it:".to_owned(),
        _ => format!("{count} tasks failed; their cells went on without them:"),
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

/// Columns of the terminal that the tables go to; in a pipe, as many as they may have.
fn columns() -> usize {
    match terminal_size::terminal_size_of(std::io::stdout()) {
        Some((width, _)) => width.0.into(),
        None => table::WIDEST,
    }
}

/// Each claim with what was found; that stands below where it has no room beside.
fn verdicts(expectations: &[ExpectationRecord]) -> String {
    if expectations.is_empty() {
        return String::new();
    }
    let room = columns().min(table::WIDEST);
    let mut text = String::from("\nexpectations\n");
    for e in expectations {
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

/// `quell runs`.
pub fn runs(args: &RunsArgs) -> Result<ExitCode, Failure> {
    let base = &args.place.base;
    let runs = quell_store::list(base).map_err(Failure::usage)?;
    if args.json.json {
        let list: Vec<_> = runs.iter().map(run_json).collect();
        println!("{}", text::json(&format!("{:#}", serde_json::Value::Array(list))));
        return Ok(ExitCode::SUCCESS);
    }
    if runs.is_empty() {
        println!("no runs in {}; make one with `quell run home-link`", base.display());
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", table::runs(&runs));
    Ok(ExitCode::SUCCESS)
}

fn run_json(run: &RunSummary) -> serde_json::Value {
    let manifest = run.manifest.as_ref();
    serde_json::json!({
        "run": run.name,
        "state": state(&run.state),
        "folder": run.folder,
        "experiment": manifest.map(|m| &m.experiment),
        "seed": manifest.map(|m| m.seed),
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
pub fn whole(run: Run, form: Json) -> Result<String, Failure> {
    let opened = judged(run);
    let manifest = &opened.run.manifest;
    if form.json {
        let document = json::render(manifest, &opened.results).map_err(Failure::system)?;
        return Ok(text::json(&document));
    }
    let mut out = table::render_in(columns(), manifest, &opened.results, &opened.published);
    out += &opened.footnote;
    out += &verdicts(&manifest.expectations);
    if let Some(failed) = failed_tasks(manifest) {
        out += &format!("\n{failed}\n");
    }
    Ok(out)
}

/// `quell report`.
pub fn report(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let opened = open_named(&args.run)?;
    let page = html::render(&opened.run, &opened.results, &opened.published);
    let usual = || opened.run.folder.join("report.html");
    let place = args.output.clone().unwrap_or_else(usual);
    write(&place, page.as_bytes())?;
    println!("{}", shown(&place));
    Ok(ExitCode::SUCCESS)
}
