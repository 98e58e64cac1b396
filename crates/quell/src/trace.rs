//! `quell trace`: what a capture tells about its connections.

use crate::failure::Failure;
use crate::options::Json;
use crate::text::{columns, put};
use clap::Args;
use quell_sys::input::Input;
use quell_trace::{
    CaptureError, TraceLimits, TraceOptions, TraceOutcome, analyse, connection_text, overview_text,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct TraceArgs {
    /// A capture: pcap or pcapng; `-` for standard input
    pub file: PathBuf,
    /// All there is to tell about one connection
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub connection: Option<u64>,
    #[command(flatten)]
    pub json: Json,
}

/// Moments of a connection that is looked at alone.
const MOMENTS_OF_ONE: usize = 10_000;

pub fn trace(args: &TraceArgs) -> Result<ExitCode, Failure> {
    let limits = match args.connection {
        Some(_) => TraceLimits { moments: MOMENTS_OF_ONE, ..TraceLimits::default() },
        None => TraceLimits::default(),
    };
    let options = TraceOptions { only: args.connection, limits };
    let outcome = read(&args.file, &options)?;
    print(&outcome, args)?;
    match outcome.broke_off {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => {
            let read = outcome.report.packets;
            let name = name(&args.file);
            Err(Failure::check(format!(
                "{name}: {error}; the {read} packets before it are shown above"
            )))
        }
    }
}

fn read(file: &Path, options: &TraceOptions) -> Result<TraceOutcome, Failure> {
    let failed = |error: CaptureError| Failure::usage(format!("{}: {error}", name(file)));
    if file == Path::new("-") {
        return analyse(std::io::stdin().lock(), options).map_err(failed);
    }
    let reader = Input::open(file)
        .map_err(|e| Failure::usage(format!("cannot open the capture {}: {e}", file.display())))?;
    analyse(reader, options).map_err(failed)
}

fn name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".into() } else { file.display().to_string() }
}

fn print(outcome: &TraceOutcome, args: &TraceArgs) -> Result<(), Failure> {
    let report = &outcome.report;
    if let (Some(wanted), true) = (args.connection, report.connections.is_empty()) {
        return Err(Failure::usage(format!(
            "there is no connection {wanted} in {}: it has {}",
            name(&args.file),
            report.connections_seen
        )));
    }
    if args.json.json {
        let text = serde_json::to_string_pretty(report).map_err(Failure::system)?;
        println!("{}", quell_wire::text::json(&text));
        return Ok(());
    }
    let width = columns();
    match args.connection {
        Some(_) => report.connections.iter().for_each(|c| put(&connection_text(c, width))),
        None => put(&overview_text(report, width)),
    }
    Ok(())
}
