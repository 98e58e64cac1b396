//! `quell shape`: queues on a real interface, with a way back.

mod hold;
mod import;
mod in_lab;
mod kinds;
mod lead;
mod parts;
mod persist;
mod prove;
mod recipe;
mod rehearsal;
mod report;
mod standby;
mod state;
mod wanted;
mod watch;

use crate::failure::Failure;
use crate::options::Json;
use clap::Args;
pub use hold::{HoldArgs, hold};
pub use import::{ImportArgs, import};
pub use kinds::kernel_has;
use lead::Leader;
pub use persist::{PersistArgs, persist};
pub use prove::{ProveArgs, prove};
use quell_act::{
    ActError, Applied, Asked, Kernel, Leave, Lock, Log, Machine, Off, Planned, Standing, Watchdog,
};
use quell_sys::clock::monotonic_ns;
use quell_sys::netns::NetNs;
use quell_units::Span;
pub use recipe::{RecipeArgs, recipe};
pub use rehearsal::{TryArgs, try_it};
pub use report::standing;
use serde_json::{Value, json};
use standby::Standby;
use state::{State, open_to_change};
pub use state::{failure, open};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use wanted::Wanted;

/// The inner command that watches.
pub const WATCHDOG: &str = "shape-watchdog";

/// Over ssh a change is taken back after this time, unless it is confirmed or said otherwise.
const OVER_SSH: Span = Span::from_secs(60);

/// Options of `quell shape plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub wanted: Wanted,
    #[command(flatten)]
    pub state: State,
    #[command(flatten)]
    pub json: Json,
}

/// Options of `quell shape apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    pub wanted: Wanted,
    /// Take it back after this time unless `quell shape confirm` comes; `never` to keep it. Over ssh 60s where not given
    #[arg(long, value_name = "TIME", value_parser = patience)]
    pub confirm_within: Option<Patience>,
    /// Replace queues that somebody else made; `quell shape off` brings them back
    #[arg(long)]
    pub replace: bool,
    /// Replace also what can't be brought back
    #[arg(long)]
    pub no_way_back: bool,
    #[command(flatten)]
    pub state: State,
    #[command(flatten)]
    pub json: Json,
}

/// How long a change waits to be confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It stays.
    Never,
    /// It is taken back then.
    Within(Span),
}

pub fn patience(text: &str) -> Result<Patience, String> {
    if text == "never" {
        return Ok(Patience::Never);
    }
    let span: Span =
        text.parse().map_err(|_| format!("`{text}`: give a time as 60s, or `never`"))?;
    if span.nanos() < 1_000_000_000 {
        return Err("nobody confirms in less than a second".to_owned());
    }
    Ok(Patience::Within(span))
}

/// Options of `quell shape confirm`.
#[derive(Debug, Args)]
pub struct ConfirmArgs {
    /// The interface; all that wait where absent
    #[arg(long = "dev", value_name = "DEV")]
    pub device: Option<String>,
    #[command(flatten)]
    pub state: State,
    #[command(flatten)]
    pub json: Json,
}

/// Options of `quell shape off`.
#[derive(Debug, Args)]
pub struct OffArgs {
    /// The interface
    #[arg(long = "dev", value_name = "DEV")]
    pub device: String,
    /// Take off also what somebody changed or put in the place of Quell's queues since
    #[arg(long, conflicts_with = "keep")]
    pub replace: bool,
    /// Leave what somebody changed or put there since, and take off all else
    #[arg(long)]
    pub keep: bool,
    /// Off until the interface comes back or the machine is started anew, where `quell shape persist` was called
    #[arg(long)]
    pub for_now: bool,
    #[command(flatten)]
    pub root: persist::Root,
    #[command(flatten)]
    pub state: State,
    #[command(flatten)]
    pub json: Json,
}

/// Options of `quell shape status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Read again and again, and show who has how much by the second
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1s")]
    pub watch: Option<Span>,
    #[command(flatten)]
    pub state: State,
    #[command(flatten)]
    pub json: Json,
}

/// Options of `quell shape recover`.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    #[command(flatten)]
    pub state: State,
    #[command(flatten)]
    pub json: Json,
}

/// Options of the watchdog.
#[derive(Debug, Args)]
pub struct WatchdogArgs {
    /// The undo log
    log: PathBuf,
    /// The process that takes the steps
    applier: u32,
    /// When it began, in seconds since 1970
    at: u64,
    /// When they must have been taken, on the monotonic clock
    limit: u64,
}

/// `quell shape plan`.
pub fn plan(args: &PlanArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open()?;
    let settled = args.wanted.settle(&mut kernel)?;
    let (folder, device) = (&args.state.folder, args.wanted.device.as_str());
    let planned =
        quell_act::plan(&mut kernel, folder, device, &settled.goal, true).map_err(failure)?;
    let foreseen = settled.standby.as_ref().map_or(Ok(Vec::new()), lead::foreseen);
    report::plan(device, &settled, &planned, &foreseen.map_err(Failure::system)?, args.json);
    Ok(ExitCode::SUCCESS)
}

/// `quell shape apply`.
pub fn apply(args: &ApplyArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open_to_change()?;
    let settled = args.wanted.settle(&mut kernel)?;
    let confirm = match args.confirm_within {
        Some(Patience::Within(span)) => Some(span),
        Some(Patience::Never) => None,
        None => is_over_ssh().then_some(OVER_SSH),
    };
    let asked = Asked {
        folder: &args.state.folder,
        device: args.wanted.device.clone(),
        goal: settled.goal,
        wanted: settled.words,
        recipe: settled.recipe,
        command: "quell shape apply".to_owned(),
        replace: args.replace,
        no_way_back: args.no_way_back,
        confirm_within: confirm.map(Span::nanos),
        trial: true,
        watchdog: &watchdog,
    };
    let foreseen = match &settled.standby {
        Some(standby) => foreseen(standby, &asked, &args.state)?,
        None => Vec::new(),
    };
    let mut applied = quell_act::apply(&mut kernel, &asked).map_err(failure)?;
    if let Some(standby) = &settled.standby {
        let_in(standby, &args.state, &args.wanted.device)?;
        applied.steps.extend(foreseen);
    }
    let mut said = settled.remarks;
    said.extend(applied.said.iter().cloned());
    if let (Some(within), false) = (confirm, applied.steps.is_empty()) {
        let folder = &args.state.folder;
        let usual = folder == Path::new("/run/quell");
        let state = if usual { String::new() } else { format!(" --state {}", folder.display()) };
        let why = if args.confirm_within.is_none() { " (since you are here over ssh)" } else { "" };
        said.push(format!("in force for {within}{why}; to keep it: quell shape confirm{state}"));
    }
    let document = json!({
        "device": args.wanted.device,
        "steps": applied.steps,
        "remarks": said,
        "confirm_within_s": confirm.map(|span| span.nanos() as f64 / 1e9),
    });
    report::done(
        &args.wanted.device,
        &Applied { said, ..applied },
        "as wanted",
        &document,
        args.json,
    );
    Ok(ExitCode::SUCCESS)
}

/// What will be done about tables and classes of those who are there, by this process or by the one who makes classes, whoever is faster.
fn foreseen(standby: &Standby, asked: &Asked<'_>, state: &State) -> Result<Vec<String>, Failure> {
    let mut steps = lead::foreseen(standby).map_err(Failure::system)?;
    if steps.is_empty()
        && state
            .log_of(&mut open()?, &asked.device)
            .is_ok_and(|log| log.begun.recipe != asked.recipe)
    {
        steps.push(format!("{}: other figures, of subscribers who are not here", asked.device));
    }
    Ok(steps)
}

/// Leads tables and classes of those who are there to what is in force, and sees to it that somebody makes classes for those who come.
fn let_in(standby: &Standby, state: &State, device: &str) -> Result<(), Failure> {
    let namespace = NetNs::current().map_err(Failure::system)?.inode();
    let lock = Lock::beside(&state.folder, namespace).map_err(failure)?;
    let led = Leader::open(standby).and_then(|mut leader| leader.lead(standby, &BTreeSet::new()));
    drop(lock);
    led.map_err(|why| {
        Failure::system(format!(
            "{why}; the queues are in force, and not all subscribers: apply again"
        ))
    })?;
    let log = state.log_of(&mut open()?, device)?;
    hold::start(&log, &state.folder, device)
}

/// The same once more for what is in force, after it was led back to, or by somebody who died in the middle.
fn let_in_again(kernel: &mut Kernel, path: &Path) -> Result<(), String> {
    let Some(log) = Log::read(path).map_err(|e| e.to_string())? else { return Ok(()) };
    if log.begun.before.our_guests.is_empty() || log.standing == Standing::Unfinished {
        return Ok(());
    }
    // He is told of each change, and leads to it.
    if hold::holder(&log).is_some() {
        return Ok(());
    }
    let settled = wanted::settled_again(&log, kernel).map_err(|e| e.to_string())?;
    let Some(standby) = settled.standby else { return Ok(()) };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let _lock = Lock::beside(folder, log.begun.namespace).map_err(|e| e.to_string())?;
    Leader::open(&standby)?.lead(&standby, &BTreeSet::new()).map(drop)
}

/// `quell shape confirm`.
pub fn confirm(args: &ConfirmArgs) -> Result<ExitCode, Failure> {
    drop(open_to_change()?);
    let device = args.device.as_deref();
    let kept =
        quell_act::confirm(&args.state.folder, device, "quell shape confirm").map_err(failure)?;
    if args.json.json {
        println!("{:#}", json!({ "confirmed": kept }));
    } else {
        kept.iter().for_each(|device| println!("{device}: what is in force stays"));
    }
    Ok(ExitCode::SUCCESS)
}

/// `quell shape off`.
pub fn off(args: &OffArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open_to_change()?;
    let (folder, device) = (&args.state.folder, args.device.as_str());
    let leave = match (args.replace, args.keep) {
        (true, _) => Leave::Nothing,
        (_, true) => Leave::All,
        _ => Leave::Ask,
    };
    let command = "quell shape off";
    let asked = Off { folder, device, command, leave, watchdog: &watchdog };
    let path = args.state.log_of(&mut kernel, device).ok().map(|log| log.path().to_owned());
    let mut off = quell_act::off(&mut kernel, &asked);
    // Nothing was done: what persists stays as well.
    if let Err(error @ ActError::NotAsLeft(_)) = off {
        return Err(failure(error));
    }
    if !args.for_now {
        let forgotten = persist::forget(&args.root, device)?;
        if matches!(off, Err(ActError::Nothing(_))) && !forgotten.is_empty() {
            off = Ok(Applied { steps: Vec::new(), said: Vec::new() });
        }
        if let Ok(done) = &mut off {
            done.said.extend(forgotten);
        }
    }
    let done = off.map_err(failure)?;
    if let Some(path) = path {
        hold::ended(&path);
    }
    let document = json!({"device": device, "steps": done.steps, "remarks": done.said});
    report::done(device, &done, "as it was before", &document, args.json);
    Ok(ExitCode::SUCCESS)
}

/// `quell shape recover`.
pub fn recover(args: &RecoverArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open_to_change()?;
    let done = quell_act::recover(&mut kernel, &args.state.folder, "quell shape recover")
        .map_err(failure)?;
    for log in args.state.logs()? {
        let_in_again(&mut kernel, log.path()).map_err(Failure::system)?;
    }
    if args.json.json {
        let one = |(device, done): &(String, Applied)| json!({"device": device, "steps": done.steps, "remarks": done.said});
        println!("{:#}", json!({ "recovered": done.iter().map(one).collect::<Vec<Value>>() }));
        return Ok(ExitCode::SUCCESS);
    }
    if done.is_empty() {
        println!("nothing is unfinished");
    }
    for (device, done) in &done {
        report::done(device, done, "as it was before", &Value::Null, args.json);
    }
    Ok(ExitCode::SUCCESS)
}

/// `quell shape status`.
pub fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    if let Some(every) = args.watch {
        return watch::watch(&args.state, args.json, every);
    }
    let mut kernel = open()?;
    let logs = args.state.logs()?;
    let mut entries = Vec::new();
    let mut broken = false;
    for log in &logs {
        let now = kernel.read(&(&log.begun.before).into()).map_err(Failure::system)?;
        let (differs, known) = differs(log, &args.state.folder, &mut kernel);
        let attendance = known.map(|known| report::Attendance::of(log, &now, &known));
        let entry = report::entry(log, &now, monotonic_ns(), differs, attendance);
        broken |= entry.broken;
        entries.push(entry);
    }
    report::status(&entries, args.json);
    Ok(if broken { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// In what a machine differs from what was applied to it; none where it does not, or where it was not applied whole. And who may come and
/// go.
fn differs(log: &Log, folder: &Path, kernel: &mut Kernel) -> (Option<String>, Option<Standby>) {
    if log.standing == Standing::Unfinished || log.begun.recipe.is_empty() {
        return (None, None);
    }
    let again = wanted::settled_again(log, kernel).map_err(|failure| failure.to_string());
    let mut standby = None;
    let planned = again.and_then(|settled| {
        let device = log.begun.device.as_str();
        standby = settled.standby;
        let planned = quell_act::plan(kernel, folder, device, &settled.goal, false);
        planned.map_err(|e| e.to_string())
    });
    let differs = match planned {
        Ok(Planned { foreign, .. }) if !foreign.is_empty() => Some(foreign[0].trim().to_owned()),
        Ok(planned) => planned.steps.first().map(|step| match planned.steps.len() {
            1 => format!("what is missing: {step}"),
            more => format!("what is missing: {step}, and {} more steps", more - 1),
        }),
        Err(why) => Some(why),
    };
    let table = || standby.as_ref().and_then(lead::table_differs);
    (differs.or_else(table), standby)
}

/// `quell shape-watchdog`.
pub fn guard(args: &WatchdogArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open()?;
    let watched = quell_act::watch(&args.log, (args.applier, args.at), args.limit, &mut kernel);
    // It may have led back, or whoever applied may have died before all subscribers were entered.
    let watched =
        watched.and_then(|()| let_in_again(&mut kernel, &args.log).map_err(ActError::System));
    watched.map(|()| ExitCode::SUCCESS).map_err(failure)
}

/// This program as a watchdog.
pub fn watchdog(log: &Log, limit_ns: u64) -> Result<Watchdog, ActError> {
    // It changes to another folder; the log itself is not there yet.
    let path = std::path::absolute(log.path()).map_err(|e| ActError::NoWatchdog(e.to_string()))?;
    // Also where the file was replaced since this process was started.
    let mut command = Command::new("/proc/self/exe");
    let who = &log.begun.who;
    let numbers = [who.pid.to_string(), who.at.to_string(), limit_ns.to_string()];
    command.arg(WATCHDOG).arg(path).args(numbers);
    Watchdog::start(command)
}

/// Whether a network carries what is typed here. `sudo` hides the variable, but not the processes above.
fn is_over_ssh() -> bool {
    let mut pid = std::process::id().to_string();
    let mut server_above = || {
        // As deep as any shell in a shell; a ring can't be.
        for _ in 0..64 {
            let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { break };
            // The name stands in brackets and may have any character in it.
            let Some((head, rest)) = stat.rsplit_once(')') else { break };
            let name = head.split_once('(').map_or("", |(_, name)| name);
            if ["sshd", "dropbear", "mosh-server"].iter().any(|server| name.starts_with(server)) {
                return true;
            }
            let Some(parent) = rest.split_whitespace().nth(1) else { break };
            pid = parent.to_owned();
        }
        false
    };
    std::env::var_os("SSH_CONNECTION").is_some() || server_above()
}
