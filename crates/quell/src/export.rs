//! `quell data export`: a run as files that other programs read.

use crate::failure::Failure;
use crate::options::{RunName, choice};
use crate::results::{folder_of, read, shown, write};
use crate::text::hand_out;
use clap::Args;
use quell_model::{CellId, CellRecord};
use quell_report::{Results, export};
use quell_store::{CellData, Run, Table};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where it is written.
#[derive(Debug, Args)]
pub struct Output {
    /// File to write; by default, or with -, standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct CsvArgs {
    #[command(flatten)]
    pub run: RunName,
    /// Which table
    #[arg(long, default_value = "samples", value_parser = choice([
        ("samples", "Probe packets", Table::Samples),
        ("flows", "Bytes and TCP state of flows", Table::Flows),
        ("queues", "Backlog and drops of queues", Table::Queues),
        ("outputs", "What commands printed", Table::Outputs),
        ("facts", "How the network was set up, and what streams tell beside their rows", Table::Facts),
    ]))]
    pub table: Table,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct PlainArgs {
    #[command(flatten)]
    pub run: RunName,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct FlentArgs {
    #[command(flatten)]
    pub run: RunName,
    /// Which measurement, for example bulk.ping.0: a file of Flent holds one
    #[arg(long = "measurement", alias = "cell", value_name = "SCENARIO.PROBE.REPEAT")]
    pub cell: Option<String>,
    /// File to write, as home.flent.gz, or - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// The run that was named, as it is stored; the latest where none was.
fn named(name: &RunName) -> Result<Run, Failure> {
    read(&folder_of(&name.place, name.run.as_deref())?)
}

pub fn csv(args: &CsvArgs) -> Result<ExitCode, Failure> {
    let run = named(&args.run)?;
    let mut text = Vec::new();
    quell_store::csv(&run, args.table, &mut text).map_err(Failure::system)?;
    put(args.output.output.as_deref(), &text)
}

pub fn prometheus(args: &PlainArgs) -> Result<ExitCode, Failure> {
    let run = named(&args.run)?;
    let text = export::prometheus(&run.manifest, &Results::from(&run));
    put(args.output.output.as_deref(), text.as_bytes())
}

pub fn flent(args: &FlentArgs) -> Result<ExitCode, Failure> {
    let run = named(&args.run)?;
    let (record, data) = cell(&run, args.cell.as_deref())?;
    let file = export::flent(&run.manifest, record, data, zero(&run)?);
    put(Some(&args.output), &file.map_err(Failure::unusable)?)
}

/// Most cells that are named in a refusal.
const NAMED: usize = 12;

fn cell<'a>(run: &'a Run, wanted: Option<&str>) -> Result<(&'a CellRecord, &'a CellData), Failure> {
    let named = |id: &CellId| wanted.is_none_or(|wanted| id.to_string() == wanted);
    let fits: Vec<_> = run.iter().filter(|(record, _)| named(&record.id)).collect();
    if let [only] = fits[..] {
        return Ok(only);
    }
    let all: Vec<String> = run.manifest.cells.iter().map(|c| c.id.to_string()).collect();
    let mut list = all[..all.len().min(NAMED)].join(", ");
    if all.len() > NAMED {
        list += &format!(" and {} more", all.len() - NAMED);
    }
    let what = match wanted {
        Some(wanted) => format!("there is no measurement {wanted:?} in this run"),
        None => "a file of Flent holds one measurement; say which with --measurement".to_owned(),
    };
    Err(Failure::unusable(format!("{what}; there are {list}")))
}

/// The Unix time at which the run's times begin.
fn zero(run: &Run) -> Result<f64, Failure> {
    let started = &run.manifest.started;
    quell_units::time::unix_seconds(started)
        .ok_or_else(|| Failure::unusable(format!("the run's start {started:?} is no time")))
}

fn put(output: Option<&Path>, bytes: &[u8]) -> Result<ExitCode, Failure> {
    match output.filter(|file| *file != Path::new("-")) {
        None => hand_out(bytes)?,
        Some(file) => {
            write(file, bytes)?;
            println!("{}", shown(file));
        }
    }
    Ok(ExitCode::SUCCESS)
}
