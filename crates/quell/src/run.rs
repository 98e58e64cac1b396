//! `quell run`, `quell lab list`, `quell lab show`.

use crate::completion;
use crate::failure::Failure;
use crate::options::{Backend, Guest, Json, Place, refused};
use crate::shape::LinePathArgs;
use crate::split::{self, Scheduler};
use crate::text::say;
use crate::{interrupt, kernel, progress, results, text};
use clap::Args;
use quell_experiment::part::{self, PartNumber};
use quell_experiment::run::lacking::{self, INSTEAD};
use quell_experiment::run::{Carrier, Finished, GuestKernel, GuestOptions, Options, RealHosts};
use quell_experiment::spec::{Experiment, WhoseKernel, load_file, set};
use quell_experiment::{PrepareError, Ready, builtin, nearest, prepare, run_to_repeat, text_of};
use quell_lab::cell::CellPlan;
use quell_lab::kernel::{Series, congestion_controls};
use quell_lab::kernel_lacks::congestion_asked;
use quell_model::{KernelRecord, Manifest};
use quell_policy::{LinePath, TypedLine};
use quell_sys::wait::Bell;
use quell_units::{Rate, Span};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Self {
        Self::usage(error)
    }
}

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct RunArgs {
    /// Name of a built-in experiment, a file, or the folder of a run to repeat
    #[arg(add = completion::experiments())]
    pub experiment: String,
    /// Change any field: topology.link.dsl.up.rate=1Mbit (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub changes: Vec<String>,
    /// Your line in the place of the link `dsl`, up/down: 10/50 (Mbit/s), 512kbit/2Mbit or 50down/10up
    #[arg(long, value_name = "UP/DOWN")]
    pub line: Option<TypedLine>,
    #[command(flatten)]
    pub path: LinePathArgs,
    /// How long each measurement takes
    #[arg(long)]
    pub duration: Option<Span>,
    /// How often each measurement is made, each time with another seed
    #[arg(long)]
    pub repeat: Option<u32>,
    /// All randomness comes from this number
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    pub seed: Option<u64>,
    /// Measurements side by side; by default as many as CPUs (one on the host's kernel)
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Only these scenarios (repeatable)
    #[arg(long = "only", value_name = "SCENARIO")]
    pub only: Vec<String>,
    #[command(flatten)]
    pub place: Place,
    /// Between real hosts: a file with a table [machines], host by host "local" or "ssh://USER@HOST"
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "line"])]
    pub on: Option<PathBuf>,
    /// Copy this program to the machines that have not got it, into the user's own cache there
    #[arg(long)]
    pub install: bool,
    /// What carries the traffic: the guest kernel (virtual time) or this machine's (real time)
    ///
    /// The default is what the experiment says, mostly the guest's.
    #[arg(long, value_enum)]
    pub kernel: Option<Backend>,
    #[command(flatten)]
    pub guest: Guest,
    /// Also write the report here
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub parts: Parts,
    #[command(flatten)]
    pub json: Json,
}

/// One run on many machines.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Many machines")]
pub struct Parts {
    /// Only this part of the measurements, for example 3/10; `quell data gather` makes a run of all
    #[arg(long, value_name = "I/N", conflicts_with = "on")]
    pub part: Option<PartNumber>,
    /// Print what makes another program run it in so many parts, and run nothing
    #[arg(long, value_name = "N", requires = "scheduler", conflicts_with_all = ["part", "on"], value_parser = clap::value_parser!(u32).range(1..))]
    pub split: Option<u32>,
    /// Which program
    #[arg(long = "for", value_name = "PROGRAM", requires = "split", value_parser = split::schedulers())]
    pub scheduler: Option<Scheduler>,
}

#[derive(Debug, Args)]
pub struct ShowExperimentArgs {
    /// Its name
    pub name: String,
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}", u64::MAX))
}

/// What differs from the makers of a run that is repeated, so that its bytes may differ too.
pub fn other_makers(manifest: &Manifest, kernel: &KernelRecord) -> Option<String> {
    let quell = env!("CARGO_PKG_VERSION");
    let same = manifest.quell == quell && manifest.kernel == *kernel;
    (!same).then(|| {
        let maker = |quell: &str, kernel: &KernelRecord| {
            format!("quell {quell}, kernel {} {}", kernel.version, kernel.key)
        };
        let (first, here) = (maker(&manifest.quell, &manifest.kernel), maker(quell, kernel));
        format!("the bytes may differ from the first run's: it had {first}; here are {here}")
    })
}

pub fn warned(warnings: &[String]) -> String {
    warnings.iter().map(|it| text::lines("! ", it, text::columns())).collect()
}

pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    if let (Some(parts), Some(scheduler)) = (args.parts.split, args.parts.scheduler) {
        let measurements = ready(args)?.1.plans.len();
        part::most_parts(parts, measurements).map_err(Failure::usage)?;
        let typed: Vec<String> =
            std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned()).collect();
        let out = &args.place.base;
        print!("{}", split::recipe(scheduler, parts, measurements, &typed, out)?);
        return Ok(ExitCode::SUCCESS);
    }
    let (finished, experiment) = carried_out(args)?;
    if finished.manifest.part.is_some() {
        return results::after_part(&finished, &experiment, args.json);
    }
    results::after_run(&finished, &experiment, args.report.as_deref(), args.json)
}

/// What `--line` changes: the link `dsl`, and a flood that is to be more than it carries.
fn line_changes(args: &RunArgs) -> Result<Vec<String>, Failure> {
    let path = args.path.path();
    let Some(line) = args.line else {
        return match path == LinePath::default() {
            true => Ok(Vec::new()),
            false => Err(Failure::usage("--kind, --rtt and --buffer go with --line UP/DOWN")),
        };
    };
    let (name, text) = text_of(&args.experiment)?;
    let has = |place: &str| set::get(&text, &format!("{place}.name")).is_some();
    if !has("topology.link.dsl") {
        return Err(Failure::usage(format!(
            "--line changes the link `dsl`, which {name} does not have; \
             change its own: --set topology.link.NAME.up.rate=10Mbit"
        )));
    }
    if let Some(doubt) = line.doubt() {
        eprint!("{}", text::lines("! ", &doubt, text::columns()));
    }
    let mut changes = path.changes(line.rates);
    if has("load.flood") {
        let flood = Rate::from_bps(line.rates.up.bps() / 10 * 32);
        changes.push(format!("load.flood.rate=\"{flood}\""));
    }
    Ok(changes)
}

/// The run that is to be repeated, if it is one; what is to be run, and the changes that made it.
fn ready(args: &RunArgs) -> Result<(Option<Manifest>, Ready, Vec<String>), Failure> {
    let mut changes = line_changes(args)?;
    changes.extend(args.changes.iter().cloned());
    changes.extend(args.duration.map(|d| format!("duration=\"{d}\"")));
    changes.extend(args.repeat.map(|n| format!("repeat={n}")));
    changes.extend(args.seed.map(|n| format!("seed={n}")));
    let first = run_to_repeat(Path::new(&args.experiment))?;
    let only = match &first {
        Some(first) if args.only.is_empty() => {
            first.scenarios().into_iter().map(String::from).collect()
        }
        _ => args.only.clone(),
    };
    if let Some(part) = first.as_ref().and_then(|first| first.part.as_ref()) {
        return Err(Failure::usage(format!(
            "{} is part {part} of a run; name the experiment that it is of: quell run EXPERIMENT --part {part}",
            args.experiment
        )));
    }
    let ready = prepare(&args.experiment, &changes, &only, args.on.as_deref())?;
    eprint!("{}", warned(&ready.warnings));
    Ok((first, ready, changes))
}

/// Runs an experiment; nothing is printed but how far it is.
pub fn carried_out(args: &RunArgs) -> Result<(Finished, Experiment), Failure> {
    let (first, mut ready, changes) = ready(args)?;
    let on_host = match &first {
        Some(first) => first.kernel.backend == quell_model::Backend::Host,
        None => ready.experiment.kernel == Some(WhoseKernel::Host),
    };
    let kernel = args.kernel.unwrap_or(if on_host { Backend::Host } else { Backend::Guest });
    let machines = ready.experiment.machines.clone();
    if machines.is_some() && args.kernel.is_some() {
        return Err(Failure::usage("the experiment has [machines], so --kernel does not fit"));
    }
    if machines.is_none() && args.install {
        return Err(Failure::usage("--install goes with --on FILE or an experiment's [machines]"));
    }
    if args.jobs == Some(0) {
        return Err(Failure::usage("--jobs 0 runs nothing; give at least 1"));
    }
    can_be_written(args)?;
    if let Some(lacking) = ready.experiment.measured().find_map(|it| it.kind.lacks()) {
        return Err(Failure::system(lacking));
    }
    if machines.is_none() && kernel == Backend::Host {
        let said = lacking::stand_in(&mut ready.experiment, &mut ready.plans);
        for line in said.map_err(Failure::system)? {
            eprintln!("{line}");
        }
        // What else the machine does then falls upon all scenarios alike.
        ready.plans.sort_by_key(|plan| plan.id.repeat);
    }
    let part = args.parts.part.map(|part| part.deal(&mut ready.plans));
    let part = part.transpose().map_err(Failure::usage)?;
    // A second signal ends the program at once; the kernel then ends the cells.
    let stop = interrupt::bell()?;
    let carrier = match &machines {
        None => carrier(kernel, &args.guest, &ready.plans)?,
        Some(machines) => {
            let hosts = RealHosts::rehearsed(machines, &ready.plans, args.install, &stop);
            Carrier::Machines(Box::new(hosts.map_err(Failure::system)?))
        }
    };
    let others = first.as_ref().and_then(|first| other_makers(first, &carrier.record()));
    eprint!("{}", warned(&Vec::from_iter(others)));
    let cpus = quell_sys::affinity::allowed_cpus().map_or(1, |c| c.len().max(1));
    // Real time is shared: cells side by side would disturb each other.
    let is_real = machines.is_some() || kernel == Backend::Host;
    let usual = if is_real { 1 } else { cpus };
    let options = Options {
        base: args.place.base.clone(),
        carrier,
        jobs: args.jobs.unwrap_or(usual),
        text: ready.text.clone(),
        changes,
        version: env!("CARGO_PKG_VERSION").into(),
        part,
    };
    Ok((carry(&ready.experiment, &ready.plans, &options, &stop)?, ready.experiment))
}

/// Carries these plans out, and shows how far it is.
pub fn carry(
    experiment: &Experiment,
    plans: &[CellPlan],
    options: &Options,
    stop: &Bell,
) -> Result<Finished, Failure> {
    let mut scenarios: Vec<String> = Vec::new();
    let mut named = HashSet::new();
    scenarios.extend(plans.iter().map(|p| &p.id.scenario).filter(|s| named.insert(*s)).cloned());
    let mut show = progress::Show::new(&scenarios);
    let mut told = |progress: &_| show.update(progress);
    let finished = quell_experiment::run::run(experiment, plans, options, stop, &mut told)
        .map_err(Failure::system)?;
    show.finish();
    Ok(finished)
}

/// Told before anything runs: a run takes minutes, and its results need a place.
fn can_be_written(args: &RunArgs) -> Result<(), Failure> {
    args.place.can_be_written()?;
    let Some(report) = &args.report else { return Ok(()) };
    let folder = report.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if report.is_dir() {
        return Err(refused(report, "--report", "it is a folder"));
    }
    if !folder.is_dir() {
        return Err(refused(
            report,
            "--report",
            &format!("there is no folder {}", folder.display()),
        ));
    }
    Ok(())
}

/// What is to carry these plans; refused where it can't, before anything is made.
pub fn carrier(backend: Backend, guest: &Guest, plans: &[CellPlan]) -> Result<Carrier, Failure> {
    match backend {
        Backend::Guest => {
            let options = guest_options(guest, plans)?;
            // Of a kernel that was named nothing is known; there the task tells.
            if !options.kernel.key.is_empty() {
                guest_offers(plans)?;
            }
            Ok(Carrier::Guest(options))
        }
        Backend::Host => {
            if let Some(series) = plans.iter().find_map(|plan| plan.kernel.as_ref()) {
                return Err(Failure::usage(format!(
                    "the experiment asks for guest kernels (kernels: {series} …), and --kernel host has its own: leave one of them out"
                )));
            }
            let lacking = lacking::of_the_host(plans).map_err(Failure::system)?;
            if lacking.is_empty() {
                return Ok(Carrier::Host);
            }
            Err(Failure::system(format!(
                "the running kernel lacks what this experiment needs:\n  {}\n{INSTEAD}",
                lacking.join("\n  ")
            )))
        }
    }
}

/// Told before anything runs: flows whose congestion control the lab's kernel has not would carry nothing.
fn guest_offers(plans: &[CellPlan]) -> Result<(), Failure> {
    let known = congestion_controls();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    match congestion_asked(plans).into_iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(Failure::usage(format!(
            "the lab's kernel has no congestion control `{name}`{}",
            nearest::hint(name, &known)
        ))),
    }
}

pub fn guest_options(guest: &Guest, plans: &[CellPlan]) -> Result<GuestOptions, Failure> {
    let mut asked = BTreeMap::new();
    for name in plans.iter().filter_map(|plan| plan.kernel.as_ref()) {
        if asked.contains_key(name) {
            continue;
        }
        if guest.kernel_file.is_some() {
            return Err(Failure::usage(format!(
                "the experiment asks for guest kernels (kernels: {name} …), and --kernel-file names another: leave one of them out"
            )));
        }
        asked.insert(name.clone(), kernel::found(None, Series::named(name))?);
    }
    let usual = match asked.values().next() {
        Some(first) => GuestKernel::clone(first),
        None => kernel::found(guest.kernel_file.as_deref(), None)?,
    };
    Ok(GuestOptions {
        kernel: usual,
        asked,
        memory_mib: guest.memory,
        wall_limit: guest.wall_limit.map(Into::into),
    })
}

pub fn list(json: &Json) -> Result<ExitCode, Failure> {
    let mut rows = Vec::new();
    for (name, text) in builtin::ALL {
        let experiment = load_file::parse(name, text).map_err(Failure::system)?;
        rows.push((name, experiment));
    }
    if json.json {
        let list: Vec<_> = rows
            .iter()
            .map(|(name, e)| {
                let scenarios: Vec<&str> = e.scenario.iter().map(|s| s.name.as_str()).collect();
                serde_json::json!({"name": name, "title": e.title, "scenarios": scenarios, "about": e.about.trim()})
            })
            .collect();
        println!("{}", crate::text::document(&serde_json::Value::Array(list)));
        return Ok(ExitCode::SUCCESS);
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, experiment) in &rows {
        say(&format!("{name:width$}  {}\n", experiment.title));
    }
    say("\nRun one with `quell run NAME`; copy and change one with `quell lab show NAME`.\n");
    Ok(ExitCode::SUCCESS)
}

pub fn show_experiment(args: &ShowExperimentArgs) -> Result<ExitCode, Failure> {
    let name = &args.name;
    let names = builtin::ALL.map(|(n, _)| n);
    let text = builtin::find(name).ok_or_else(|| {
        Failure::usage(format!("no experiment `{name}` is built in{}", nearest::hint(name, &names)))
    })?;
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}
