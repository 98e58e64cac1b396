//! `quell run`, `quell lab list`, `quell lab show`.

use crate::failure::Failure;
use crate::lacking::{self, INSTEAD};
use crate::options::{Backend, Guest, Json, Place, refused};
use crate::text::say;
use crate::{interrupt, kernel, progress, results, text};
use clap::Args;
use quell_experiment::plan::{NotBelow, not_below};
use quell_experiment::run::{Carrier, Finished, GuestKernel, GuestOptions, Options};
use quell_experiment::spec::check::CheckError;
use quell_experiment::spec::load_file::ReadError;
use quell_experiment::spec::{Experiment, WhoseKernel, load_file, set};
use quell_experiment::sweep::{self, Places, SweepError};
use quell_experiment::{builtin, nearest};
use quell_lab::cell::CellPlan;
use quell_lab::host::congestion_asked;
use quell_lab::kernel::{Series, congestion_controls};
use quell_sys::wait::Bell;
use quell_units::Span;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Options of `quell run`.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct RunArgs {
    /// Name of a built-in experiment, or a file
    pub experiment: String,
    /// Change any field, as topology.link.dsl.up.rate=1Mbit (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub changes: Vec<String>,
    /// How long each measurement takes
    #[arg(long)]
    pub duration: Option<Span>,
    /// How often each measurement is made, each time with another seed
    #[arg(long)]
    pub repeat: Option<u32>,
    /// From this comes all randomness
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    pub seed: Option<u64>,
    /// Measurements side by side; as many as CPUs where absent (one on the host's kernel)
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Only these scenarios (repeatable)
    #[arg(long = "only", value_name = "SCENARIO")]
    pub only: Vec<String>,
    #[command(flatten)]
    pub place: Place,
    /// What carries the traffic: the guest kernel (virtual time) or this machine's (real time)
    ///
    /// As the experiment says where absent, which is mostly the guest's.
    #[arg(long, value_enum)]
    pub kernel: Option<Backend>,
    #[command(flatten)]
    pub guest: Guest,
    /// Also write the report here
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub json: Json,
}

/// Options of `quell lab show`.
#[derive(Debug, Args)]
pub struct ShowExperimentArgs {
    /// Its name
    pub name: String,
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}", u64::MAX))
}

/// The text of an experiment, by name or path, and what to call it in errors.
pub fn text_of(experiment: &str) -> Result<(String, String), Failure> {
    if let Some(text) = builtin::find(experiment) {
        return Ok((experiment.into(), text.into()));
    }
    let path = Path::new(experiment);
    if !path.exists() && !experiment.contains(['/', '.']) {
        let names = builtin::ALL.map(|(name, _)| name);
        return Err(Failure::usage(format!(
            "there is no experiment `{experiment}`, built in or as a file{}",
            nearest::hint(experiment, &names)
        )));
    }
    let text = load_file::read_file(path).map_err(Failure::usage)?;
    Ok((experiment.into(), text))
}

/// An experiment that was read, changed as asked and checked.
pub struct Ready {
    /// Its text, changes made.
    pub text: String,
    /// It.
    pub experiment: Experiment,
    /// The plans of its cells.
    pub plans: Vec<CellPlan>,
    /// What a person should know before it runs, each a sentence.
    pub warnings: Vec<String>,
}

/// Reads, changes and checks an experiment.
pub fn prepare(name: &str, changes: &[String], only: &[String]) -> Result<Ready, Failure> {
    let (name, original) = text_of(name)?;
    // Errors in the file itself are told with its own lines, before any change.
    let unchanged = load_file::parse(&name, &original).map_err(Failure::usage)?;
    let mut text = set::apply(&original, changes).map_err(Failure::usage)?;
    let mut read = load_file::parse(&name, &text)
        .map_err(|e| Failure::usage(misread(&name, &original, changes, &e)))?;
    let mut warnings = Vec::new();
    if let Some(without) = published_elsewhere(&unchanged, &read) {
        text = set::apply(&text, &without).map_err(Failure::usage)?;
        read = load_file::parse(&name, &text).map_err(Failure::usage)?;
        warnings.push(
            "published figures are left out: they belong to the network as the file has it"
                .to_owned(),
        );
    }
    if let Some(count) = claims_elsewhere(&unchanged, &read) {
        text = set::apply(&text, &["expect=[]".to_owned()]).map_err(Failure::usage)?;
        read = load_file::parse(&name, &text).map_err(Failure::usage)?;
        warnings.push(format!(
            "{count} expectations are left out: they belong to the network as the file has it"
        ));
    }
    let (mut experiment, mut plans) = sweep::spread(&text, &read).map_err(|e| match e {
        SweepError::Check(e) => Failure::usage(misfit(&name, &original, changes, &e)),
        other => Failure::usage(format!("{name}: {other}")),
    })?;
    // A swept scenario goes by the name that it has in the file, too: all of its values.
    let places = Places::of(&read);
    let base = |scenario: &str| places.get(scenario).map(|(base, _)| base);
    let is_wanted = |scenario: &str| {
        only.iter().any(|o| o == scenario || base(scenario).is_some_and(|base| base == o))
    };
    let names: Vec<&str> =
        experiment.scenario.iter().chain(&read.scenario).map(|s| s.name.as_str()).collect();
    if let Some(wanted) = only.iter().find(|w| !names.contains(&w.as_str())) {
        let hint = nearest::hint(wanted, &names);
        return Err(Failure::usage(format!("{name} has no scenario `{wanted}`{hint}")));
    }
    if !only.is_empty() {
        plans.retain(|p| is_wanted(&p.id.scenario));
        experiment.scenario.retain(|s| is_wanted(&s.name));
        // A change without scenarios is one in all: those of other scenarios go.
        let other = |s: &[String]| !s.is_empty() && !s.iter().any(|s| only.contains(s));
        experiment.timeline.retain(|change| !other(&change.scenarios));
        for change in &mut experiment.timeline {
            change.scenarios.retain(|s| only.contains(s));
        }
    }
    warnings.extend(not_below(&plans).iter().map(NotBelow::to_string));
    Ok(Ready { text, experiment, plans, warnings })
}

/// Warnings as lines of a terminal.
pub fn warned(warnings: &[String]) -> String {
    warnings.iter().map(|it| text::lines("! ", it, text::columns())).collect()
}

/// How many claims of the file are about another network than this one; none where the person made claims of their own.
fn claims_elsewhere(original: &Experiment, read: &Experiment) -> Option<usize> {
    let same = original.topology == read.topology && original.timeline == read.timeline;
    (!same && !read.expect.is_empty() && original.expect == read.expect)
        .then_some(read.expect.len())
}

/// The changes that take out what others published of a network, if this is another one.
fn published_elsewhere(original: &Experiment, read: &Experiment) -> Option<Vec<String>> {
    let same = original.topology == read.topology && original.timeline == read.timeline;
    let published = read.scenario.iter().filter(|s| !same && !s.published.is_empty());
    let without: Vec<String> =
        published.map(|s| format!("scenario.{}.published={{}}", s.name)).collect();
    (!without.is_empty()).then_some(without)
}

/// The change that made an error, or all of them where no single one did: the person knows neither the changed text nor its lines.
/// `same` tells whether a text gets the same error.
fn blamed(original: &str, changes: &[String], same: impl Fn(&str) -> bool) -> String {
    let made_it = |count: &usize| set::apply(original, &changes[..*count]).is_ok_and(|t| same(&t));
    match (1..=changes.len()).find(made_it) {
        Some(count) => changes[count - 1].clone(),
        None => changes.join(", "),
    }
}

/// An error of reading, told of the change that made it.
fn misread(name: &str, original: &str, changes: &[String], error: &ReadError) -> String {
    let ReadError::Text { why, .. } = error else { return error.to_string() };
    let same = |text: &str| {
        let error = load_file::parse(name, text).err();
        matches!(error, Some(ReadError::Text { why: again, .. }) if again == *why)
    };
    format!("{name} with {}: {why}", blamed(original, changes, same))
}

/// What does not fit together: told with the file's lines where the file itself is wrong, else of the change that made it so.
fn misfit(name: &str, original: &str, changes: &[String], error: &CheckError) -> String {
    let of = |text: &str| {
        let read = load_file::parse(name, text);
        match read.map(|e| sweep::spread(text, &e)) {
            Ok(Err(SweepError::Check(e))) => e.problems,
            _ => Vec::new(),
        }
    };
    let (made, found) = error.problems.iter().cloned().partition::<Vec<_>, _>({
        let before = of(original);
        move |problem| !before.contains(problem)
    });
    let mut told = made
        .into_iter()
        .map(|problem| {
            let change = blamed(original, changes, |text| of(text).contains(&problem));
            format!("{name} with {change}: {}", problem.text)
        })
        .collect::<Vec<_>>();
    if !found.is_empty() {
        told.push(CheckError { problems: found }.told(name, original));
    }
    told.join("\n")
}

/// `quell run`.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let (finished, experiment) = carried_out(args)?;
    results::after_run(&finished, &experiment, args.report.as_deref(), args.json)
}

/// Runs an experiment; nothing is printed but how far it is.
pub fn carried_out(args: &RunArgs) -> Result<(Finished, Experiment), Failure> {
    let mut changes = args.changes.clone();
    changes.extend(args.duration.map(|d| format!("duration=\"{d}\"")));
    changes.extend(args.repeat.map(|n| format!("repeat={n}")));
    changes.extend(args.seed.map(|n| format!("seed={n}")));
    let mut ready = prepare(&args.experiment, &changes, &args.only)?;
    eprint!("{}", warned(&ready.warnings));
    let kernel = args.kernel.unwrap_or(match ready.experiment.kernel {
        Some(WhoseKernel::Host) => Backend::Host,
        Some(WhoseKernel::Guest) | None => Backend::Guest,
    });
    if args.jobs == Some(0) {
        return Err(Failure::usage("--jobs 0 runs nothing; give at least 1"));
    }
    can_be_written(args)?;
    if let Some(lacking) = ready.experiment.measured().find_map(|it| it.kind.lacks()) {
        return Err(Failure::system(lacking));
    }
    if kernel == Backend::Host {
        for line in lacking::stand_in(&mut ready.experiment, &mut ready.plans)? {
            eprintln!("{line}");
        }
        // What else the machine does then falls upon all scenarios alike.
        ready.plans.sort_by_key(|plan| plan.id.repeat);
    }
    let carrier = carrier(kernel, &args.guest, &ready.plans)?;
    let cpus = quell_sys::affinity::allowed_cpus().map_or(1, |c| c.len().max(1));
    // Real time is shared: cells side by side would disturb each other.
    let usual = if kernel == Backend::Host { 1 } else { cpus };
    let options = Options {
        base: args.place.base.clone(),
        carrier,
        jobs: args.jobs.unwrap_or(usual),
        text: ready.text.clone(),
        changes,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    // A second signal ends the program at once; the kernel then ends the cells.
    let stop = Arc::new(Bell::new().map_err(Failure::system)?);
    interrupt::listen(&stop)?;
    let scenarios: Vec<String> = ready.experiment.scenario.iter().map(|s| s.name.clone()).collect();
    let mut show = progress::Show::new(&scenarios);
    let finished = quell_experiment::run::run(
        &ready.experiment,
        &ready.plans,
        &options,
        &stop,
        &mut |progress| show.update(progress),
    )
    .map_err(Failure::system)?;
    show.finish();
    Ok((finished, ready.experiment))
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
            let lacking = lacking::of_the_host(plans)?;
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
            "the lab's kernel has no congestion control `{name}`{}; it has {}",
            nearest::hint(name, &known),
            known.join(", ")
        ))),
    }
}

/// The guest kernels to use, with their options.
pub fn guest_options(guest: &Guest, plans: &[CellPlan]) -> Result<GuestOptions, Failure> {
    let kernel = |found: kernel::KernelFile| GuestKernel {
        path: found.path,
        version: found.version,
        key: found.key,
    };
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
        asked.insert(name.clone(), kernel(kernel::found(None, Series::named(name))?));
    }
    let usual = match asked.values().next() {
        Some(first) => GuestKernel::clone(first),
        None => kernel(kernel::found(guest.kernel_file.as_deref(), None)?),
    };
    Ok(GuestOptions {
        kernel: usual,
        asked,
        memory_mib: guest.memory,
        wall_limit: guest.wall_limit.map(Into::into),
    })
}

/// `quell lab list`.
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

/// `quell lab show`.
pub fn show_experiment(args: &ShowExperimentArgs) -> Result<ExitCode, Failure> {
    let name = &args.name;
    let names = builtin::ALL.map(|(n, _)| n);
    let text = builtin::find(name).ok_or_else(|| {
        Failure::usage(format!("no experiment `{name}` is built in{}", nearest::hint(name, &names)))
    })?;
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}
