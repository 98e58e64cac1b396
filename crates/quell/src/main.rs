//! `quell`: the command line, and nothing else.

mod check;
mod command;
mod commands;
mod compare;
mod completion;
mod doctor;
mod export;
mod failure;
mod figure_options;
mod flow;
mod gather;
mod import;
mod interrupt;
mod keeping;
mod kernel;
mod lab;
mod live_view;
mod man;
mod mesh;
mod open;
mod options;
mod pace;
mod page;
mod path;
mod ping;
mod plot;
mod progress;
mod results;
mod rpm;
mod rr;
mod run;
mod screen;
mod series;
mod serve;
mod shape;
mod show;
mod split;
mod text;
mod trace;
mod tree;
mod tune;
mod twin;
mod twin_check;
mod twin_choose;
mod twin_picture;
mod unanswered;
mod version;
mod what_is_wrong;

use clap::error::{ContextKind, ErrorKind};
use commands::COMMANDS;
use quell_sys::resolve as host;
use std::io::Write;
use std::process::ExitCode;

/// What EPIPE reads like in the words of `println!`.
const GONE: &str = "(os error 32)";

fn main() -> ExitCode {
    end_well_when_output_fails();
    quell_sys::trusted::keep_others_from_writing();
    // As a guest's first process it gets arguments that the kernel adds.
    if std::env::args().nth(1).as_deref() == Some(quell_experiment::run::GUEST_INIT) {
        quell_experiment::run::guest_init();
    }
    if std::env::args_os().skip(1).eq(["--version"]) {
        print!("{}", version::long());
        return ExitCode::SUCCESS;
    }
    completion::answer(COMMANDS);
    let typed = || {
        command::parser(COMMANDS).try_get_matches().unwrap_or_else(|mut refused| {
            if refused.kind() == ErrorKind::UnknownArgument {
                // "to pass '-q' as a value, use '-- -q'", where nothing takes such a value.
                refused.remove(ContextKind::Suggested);
            }
            refused.exit()
        })
    };
    let words = std::env::args_os().skip(1).take(2).collect::<Vec<_>>().join(" ".as_ref());
    let ended = match words.is_empty() && what_is_wrong::can_ask() {
        true => what_is_wrong::ask(),
        false => command::refuse_old_name(&words.to_string_lossy())
            .and_then(|()| command::carry_out(COMMANDS, &typed())),
    };
    match ended {
        Ok(code) => code,
        Err(failure) => {
            // Standard error may be closed; the exit code still tells.
            let told = text::complaint(&format!("quell: {failure}"));
            let _ = writeln!(std::io::stderr(), "{told}");
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
        // A filter of system calls may refuse clone3, by which threads are made.
        if let Some(why) = why.strip_prefix("failed to spawn thread: ") {
            let _ = writeln!(
                std::io::stderr(),
                "quell: could not start a thread: the system answered {why}; a container's seccomp filter has to allow clone3, and a limit of \
                 processes more of them"
            );
            std::process::exit(i32::from(failure::SYSTEM));
        }
        match why.strip_prefix("failed printing to ") {
            Some(why) if why.contains(GONE) => quell_sys::reader::leave(),
            Some(why) => {
                let _ = writeln!(std::io::stderr(), "quell: could not write to {why}");
                std::process::exit(i32::from(failure::SYSTEM));
            }
            None => usual(info),
        }
    }));
}
