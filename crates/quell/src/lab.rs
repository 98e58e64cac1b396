//! `quell lab exec` and `quell lab shell`: any program of this machine on a host of a topology.

use crate::completion;
use crate::failure::Failure;
use crate::interrupt;
use crate::options::{Backend, Guest, words};
use crate::run::carrier;
use clap::Args;
use quell_experiment::run::lab_exec;
use quell_experiment::spec::load_file;
use quell_experiment::{line_files, prepare, text_of};
use quell_lab::cell::CellPlan;
use quell_lab::exec::{ExecPlan, HostProgram};
use quell_lab::guest::init::OWN;
use quell_lab::topology::Topology;
use quell_model::CellId;
use quell_sys::wait::Bell;
use quell_units::Span;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Said before a guest's shell begins.
const LOST: &str = "Files here are this machine's; what you write is lost or refused (docs/lab.md). Not a sandbox.";

#[derive(Debug, Args)]
pub struct ShellArgs {
    #[command(flatten)]
    pub lab: LabPlace,
    /// The host; by default the first one
    pub host: Option<String>,
}

#[derive(Debug, Args)]
pub struct ExecArgs {
    #[command(flatten)]
    pub lab: LabPlace,
    /// The host
    pub host: String,
    /// A program to run beside it, as 'HOST: COMMAND' (repeatable)
    #[arg(long = "with", value_name = "HOST: COMMAND")]
    pub with: Vec<String>,
    /// Show the output of the programs of --with; by default only its end, and only where something fails
    #[arg(long)]
    pub show_with: bool,
    /// How long after the programs of --with it starts
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub after: Span,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct LabPlace {
    /// A built-in experiment, an experiment file or a topology file
    #[arg(add = completion::experiments())]
    pub topology: String,
    /// Put the queues of this scenario in place
    #[arg(long)]
    pub scenario: Option<String>,
    /// What carries the traffic: the guest kernel or this machine's
    #[arg(long, value_enum, default_value_t = Backend::Guest)]
    pub kernel: Backend,
    /// Real time, not virtual time (always so in a shell)
    #[arg(long)]
    pub real_time: bool,
    /// Also pass on this variable of the environment (repeatable). Without it: PATH, HOME, USER, LOGNAME, SHELL, TERM,
    /// COLORTERM, LANG, LANGUAGE, LC_*, TZ
    #[arg(long = "env", value_name = "NAME")]
    pub environment: Vec<String>,
    #[command(flatten)]
    pub guest: Guest,
}

pub fn shell(args: &ShellArgs) -> Result<ExitCode, Failure> {
    if args.lab.kernel == Backend::Guest {
        has_terminal()?;
    }
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
    let alone = LabCommand {
        host: args.host.clone(),
        with: &[],
        show_with: false,
        after: Span::ZERO,
        argv: &[shell],
        interactive: true,
    };
    carry_out(&args.lab, alone)
}

pub fn exec(args: &ExecArgs) -> Result<ExitCode, Failure> {
    let wanted = LabCommand {
        host: Some(args.host.clone()),
        with: &args.with,
        show_with: args.show_with,
        after: args.after,
        argv: &args.command,
        interactive: false,
    };
    carry_out(&args.lab, wanted)
}

struct LabCommand<'a> {
    /// The first one where absent.
    host: Option<String>,
    with: &'a [String],
    show_with: bool,
    after: Span,
    argv: &'a [String],
    interactive: bool,
}

fn carry_out(lab: &LabPlace, wanted: LabCommand<'_>) -> Result<ExitCode, Failure> {
    let LabCommand { host, with, show_with, after, argv, interactive } = wanted;
    let cell = cell(lab)?;
    let network = cell.topology.parse().map_err(Failure::usage)?;
    let host = match host {
        Some(host) => host,
        None => cell.topology.hosts.first().cloned().unwrap_or_default(),
    };
    network.find("the command line", &host).map_err(Failure::usage)?;
    let mut companions = Vec::new();
    for text in with {
        let (host, command) = text.split_once(':').ok_or_else(|| {
            Failure::usage(format!(
                "--with \"{text}\": write 'HOST: COMMAND', as 'server: iperf3 -s'"
            ))
        })?;
        network.find("--with", host.trim()).map_err(Failure::usage)?;
        let words = words(&format!("--with \"{text}\""), command)?;
        let argv = words.iter().map(|w| network.fill_in("--with", w));
        let argv = argv.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
        companions.push(HostProgram { host: host.trim().into(), argv });
    }
    let words = argv.iter().map(|w| network.fill_in("the command line", w));
    let argv = words.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
    let plan = ExecPlan {
        cell,
        main: HostProgram { host, argv },
        with: companions,
        show_with,
        head_start: after,
        interactive,
        terminal: None,
        folder: folder(lab.kernel)?.into(),
        environment: environment(&lab.environment)?,
    };
    let carrier = carrier(lab.kernel, &lab.guest, std::slice::from_ref(&plan.cell))?;
    let real_time = lab.real_time || interactive;
    let stop = Bell::new().map(Arc::new).map_err(Failure::system)?;
    if interactive {
        interrupt::listen_beside_terminal(&stop)?;
        if lab.kernel == Backend::Guest {
            eprintln!("{LOST}");
        }
    } else {
        interrupt::listen(&stop)?;
    }
    let code = lab_exec(&plan, &carrier, real_time, &stop).map_err(Failure::system)?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(255)))
}

/// A guest's console is our terminal: on anything else nobody would see the prompt, and its end would not be heard.
fn has_terminal() -> Result<(), Failure> {
    for (stream, there) in
        [("input", std::io::stdin().is_terminal()), ("output", std::io::stdout().is_terminal())]
    {
        if !there {
            return Err(Failure::usage(format!(
                "a shell needs a terminal, and standard {stream} is none; \
                 for a script: quell lab exec TOPOLOGY HOST -- sh -c 'COMMANDS'"
            )));
        }
    }
    Ok(())
}

/// Where programs start: in our own folder. Elsewhere their relative paths would mean other files.
fn folder(kernel: Backend) -> Result<PathBuf, Failure> {
    let folder = std::env::current_dir().map_err(|error| {
        Failure::usage(format!(
            "programs start in the current folder, and that can't be found ({error}); \
             go to one that is there (as: cd /)"
        ))
    })?;
    match OWN.into_iter().find(|own| folder.starts_with(own)) {
        Some(own) if kernel == Backend::Guest => Err(Failure::usage(format!(
            "programs start in the current folder, {}, and a guest does not see it: it has {own} of its own. Go to another folder (cd /), or do without the guest: \
         --kernel host",
            folder.display()
        ))),
        _ => Ok(folder),
    }
}

/// What programs need of the environment, beside what begins with LC_.
const NEEDED: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ"];

/// The environment of programs in a lab: what every program needs, and what was named. The rest may hold secrets, and stays here.
fn environment(named: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut found = Vec::new();
    for (name, value) in std::env::vars_os() {
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str())
            && (NEEDED.contains(&name) || name.starts_with("LC_"))
        {
            found.push((name.to_owned(), value.to_owned()));
        }
    }
    for name in named {
        if name.contains('=') {
            return Err(Failure::usage(format!(
                "--env {name}: give the name alone; its value is that of this shell"
            )));
        }
        let value =
            std::env::var(name).map_err(|why| Failure::usage(format!("--env {name}: {why}")))?;
        found.push((name.clone(), value));
    }
    Ok(found)
}

/// The network of an experiment, with the queues of a scenario where one is named; or a topology by itself.
fn cell(lab: &LabPlace) -> Result<CellPlan, Failure> {
    let (name, text) = text_of(&lab.topology)?;
    let is_experiment = text.parse::<toml::Table>().is_ok_and(|t| t.contains_key("topology"));
    if is_experiment {
        let only: Vec<String> = lab.scenario.iter().cloned().collect();
        let ready = prepare(&name, &[], &only, None)?;
        let mut cell = ready
            .plans
            .into_iter()
            .next()
            .ok_or_else(|| Failure::usage(format!("{name} has no scenario")))?;
        cell.tasks.clear();
        cell.changes.clear();
        if lab.scenario.is_none() {
            cell.queues.clear();
        }
        return Ok(cell);
    }
    let mut topology: Topology = load_file::parse_as(&name, &text).map_err(Failure::usage)?;
    let folder = Path::new(&name).parent().unwrap_or(Path::new("."));
    line_files::read_into(&mut topology, folder)
        .map_err(|e| Failure::usage(format!("{name}: {e}")))?;
    topology.parse().map_err(|e| Failure::usage(format!("{name}: {e}")))?;
    if let Some(scenario) = &lab.scenario {
        return Err(Failure::usage(format!(
            "{name} is a topology and has no scenario `{scenario}`"
        )));
    }
    Ok(CellPlan {
        id: CellId { scenario: "lab".into(), probe: "exec".into(), repeat: 0 },
        seed: 1,
        kernel: None,
        topology,
        sysctl: BTreeMap::new(),
        node_sysctl: BTreeMap::new(),
        routes: Vec::new(),
        queues: Vec::new(),
        changes: Vec::new(),
        tasks: Vec::new(),
        warm_up: Span::from_nanos(0),
        duration: Span::from_nanos(0),
    })
}
