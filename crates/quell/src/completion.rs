//! `quell completions`: what makes a shell complete commands, options, and names that only the machine knows.
//!
//! ```text
//!   quell run <Tab> ──► the shell's script ──► COMPLETE=bash quell -- quell run ──► names of experiments
//! ```

use crate::command::{Command, told_parser};
use crate::failure::Failure;
use crate::options::choice;
use crate::text::hand_out;
use clap::Args;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};
use quell_report::compare::figures as compared;
use std::ffi::OsStr;
use std::process::ExitCode;

/// What a shell sets where it asks.
const ASKED: &str = "COMPLETE";

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_parser = choice([
        ("bash", "Read by .bashrc, or as quell in its folder of completions", "bash"),
        ("zsh", "From a folder of its fpath, as _quell", "zsh"),
        ("fish", "From its folder completions, as quell.fish", "fish"),
    ]))]
    pub shell: &'static str,
}

pub fn completions(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let shells = Shells::builtins();
    let shell = shells.completer(args.shell).expect("clap knows the shells of the table above");
    let mut script = Vec::new();
    shell
        .write_registration(ASKED, "quell", "quell", "quell", &mut script)
        .expect("a Vec takes all");
    hand_out(&script).map(|()| ExitCode::SUCCESS)
}

/// Answers a shell that asks, and ends then.
pub fn answer(commands: &[Command]) {
    // Its scripts put this before what was typed.
    if std::env::args().nth(1).as_deref() == Some("--") && std::env::var_os(ASKED).is_some() {
        CompleteEnv::with_factory(|| told_parser(commands)).var(ASKED).complete();
    }
}

/// Names, and files where a name may be one.
fn names(
    all: impl Fn() -> Vec<String> + Send + Sync + 'static,
    or_path: bool,
) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| {
        let wanted = typed.to_string_lossy();
        let named = all().into_iter().filter(|name| name.starts_with(&*wanted));
        let mut found: Vec<_> = named.map(CompletionCandidate::new).collect();
        if or_path && found.is_empty() {
            found = PathCompleter::any().complete(typed);
        }
        found
    })
}

fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

pub fn experiments() -> ArgValueCompleter {
    names(|| owned(quell_experiment::builtin::ALL.map(|(name, _)| name)), true)
}

pub fn runs() -> ArgValueCompleter {
    let stored = || quell_store::list(std::path::Path::new("runs")).unwrap_or_default();
    names(move || stored().into_iter().map(|run| run.name).collect(), true)
}

pub fn figures() -> ArgValueCompleter {
    let all = || quell_report::figures::NAMES.iter().chain(&compared::NAMES);
    names(move || owned(all().map(|figure| figure.name).chain(["sweep"])), false)
}

pub fn devices() -> ArgValueCompleter {
    let all = || std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    names(move || all().filter_map(|it| it.file_name().into_string().ok()).collect(), false)
}

pub fn checks() -> ArgValueCompleter {
    names(|| owned(quell_doctor::CATALOGUE.iter().map(|check| check.name)), false)
}
