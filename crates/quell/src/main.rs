//! `quell`: the command line, and nothing else.

mod args;
mod check;
mod failure;
mod flow;
mod import;
mod interrupt;
mod keep;
mod kernel;
mod lab;
mod mark;
mod ping;
mod progress;
mod results;
mod rr;
mod run;
mod secret;
mod serve;
mod trace;
mod view;

use args::{Cli, Command};
use clap::Parser;
use failure::Failure;
use std::io::Write;
use std::process::ExitCode;

/// What EPIPE reads like in the words of `println!`.
const GONE: &str = "(os error 32)";

fn main() -> ExitCode {
    end_well_when_output_fails();
    // As a guest's first process it gets arguments that the kernel adds.
    if std::env::args().nth(1).as_deref() == Some(quell_experiment::run::GUEST_INIT) {
        quell_experiment::run::guest_init();
    }
    match rr::asks_to_serve(std::env::args()).and_then(|()| carry_out(Cli::parse())) {
        Ok(code) => code,
        Err(failure) => {
            // Standard error may be closed; the exit code still tells.
            let _ = writeln!(std::io::stderr(), "quell: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

/// `println!` panics when standard output can't be written: its reader is gone (`quell show | head`), or a disk is full. The first is no
/// error, the second the system's failure and not the program's.
fn end_well_when_output_fails() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let why = info.payload_as_str().unwrap_or_default();
        match why.strip_prefix("failed printing to ") {
            Some(why) if why.contains(GONE) => quell_sys::reader::leave(),
            Some(why) => {
                let _ = writeln!(std::io::stderr(), "quell: could not write to {why}");
                std::process::exit(3);
            }
            None => usual(info),
        }
    }));
}

fn carry_out(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::List(json) => run::list(json.json),
        Command::ShowExperiment { name } => run::show_experiment(&name),
        Command::Check(args) => check::check(&args),
        Command::Runs { place, json } => results::runs(&place.base, json.json),
        Command::Show { run, json } => results::show(&run, json.json),
        Command::Plot { run, figure, streams, output } => {
            results::plot(&run, figure.as_deref(), &streams, output.as_deref())
        }
        Command::Report { run, output } => results::report(&run, output.as_deref()),
        Command::Kernel(command) => kernel::kernel(&command),
        Command::Lab(command) => lab::lab(&command),
        Command::Flow(args) => flow::flow(&args),
        Command::Trace(args) => trace::trace(&args),
        Command::Ping(args) => ping::ping(&args),
        Command::Rr(args) => rr::rr(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Import(command) => import::import(&command),
        Command::View(args) => view::view(&args),
        Command::Agent => agent(),
        Command::HostCell { desk } => hidden(quell_experiment::run::host_cell(&desk)),
        Command::HostLacks => hidden(quell_experiment::run::host_lacks()),
        Command::HostInit { desk } => hidden(quell_experiment::run::host_init(&desk)),
    }
}

fn agent() -> Result<ExitCode, Failure> {
    hidden(
        quell_experiment::agent::run(std::io::stdin(), std::io::stdout())
            .map_err(|e| e.to_string()),
    )
}

fn hidden(result: Result<(), String>) -> Result<ExitCode, Failure> {
    result.map(|()| ExitCode::SUCCESS).map_err(Failure::system)
}
