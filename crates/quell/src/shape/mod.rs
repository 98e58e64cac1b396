//! `quell shape`: queues on a real interface, with a way back.

mod applying;
mod around;
mod change;
mod chosen;
mod device;
mod hold;
mod ifb;
mod import;
mod in_lab;
mod kept;
mod kinds;
mod lead;
mod names;
mod parts;
mod patience;
mod persist;
mod prove;
mod recipe;
mod rehearsal;
mod report;
mod standby;
mod state;
mod told_apart;
mod wanted;
mod watch;
mod watchdog;

use crate::failure::Failure;
use crate::options::Json;
use applying::{Applying, let_in_again};
pub use change::{ChangeArgs, change};
use clap::Args;
pub use hold::{HoldArgs, hold};
pub use import::{ImportArgs, import};
pub use kinds::kernel_has;
pub use parts::{hosts_by_class, whose};
pub use patience::{Patience, patience};
pub use persist::{PersistArgs, persist};
pub use prove::{ProveArgs, prove};
use quell_act::{
    ActError, Applied, Goal, Kernel, Leave, Log, Machine, Now, Off, Planned, Standing,
};
use quell_sys::clock::monotonic_ns;
use quell_sys::netns::NetNs;
use quell_units::Span;
pub use recipe::{RecipeArgs, recipe};
pub use rehearsal::{TryArgs, try_it};
pub use report::standing;
use serde_json::{Value, json};
use standby::Standby;
use state::open_to_change;
pub use state::{State, failure, open};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wanted::Wanted;
pub use watchdog::{WATCHDOG, watchdog};

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
    /// The interface; all where absent
    #[arg(long = "dev", value_name = "DEV")]
    pub device: Option<String>,
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
    let within = Patience::or_usual(args.confirm_within, is_over_ssh);
    let applying = Applying {
        device: &args.wanted.device,
        command: "quell shape apply",
        confirm_within: within,
        why: if args.confirm_within.is_none() { " (since you are here over ssh)" } else { "" },
        replace: args.replace,
        no_way_back: args.no_way_back,
        state: &args.state,
    };
    let applied = applying.lead(&mut kernel, settled)?;
    let document = json!({
        "device": args.wanted.device,
        "steps": applied.steps,
        "remarks": applied.said,
        "confirm_within_s": within.span().map(|span| span.nanos() as f64 / 1e9),
    });
    report::done(&args.wanted.device, &applied, "as wanted", &document, args.json);
    Ok(ExitCode::SUCCESS)
}

/// `quell shape confirm`.
pub fn confirm(args: &ConfirmArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open_to_change()?;
    // In the log stands the name that it had.
    let mut known = |name: &String| match args.state.log_of(&mut kernel, name) {
        Ok(log) => log.begun.device,
        Err(_) => name.clone(),
    };
    let device = args.device.as_ref().map(&mut known);
    let kept = quell_act::confirm(&args.state.folder, device.as_deref(), "quell shape confirm")
        .map_err(failure)?;
    if args.json.json {
        println!("{}", crate::text::document(&json!({ "confirmed": kept })));
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
    let done = off.map_err(|error| failure(lost(error, &mut kernel, device)))?;
    if let Some(path) = path {
        hold::ended(&path);
    }
    let document = json!({"device": device, "steps": done.steps, "remarks": done.said});
    report::done(device, &done, "as it was before", &document, args.json);
    Ok(ExitCode::SUCCESS)
}

/// What there is to say where no log knows of queues that have an IFB of Quell's.
fn lost(error: ActError, kernel: &mut Kernel, device: &str) -> ActError {
    let ActError::Nothing(why) = &error else { return error };
    let (name, mac) = (wanted::ifb_of(device), Some(wanted::mac_of(device)));
    let now = kernel.read(&Goal::default()).unwrap_or_default();
    if now.links.get(&name).is_none_or(|there| there.mac != mac) {
        return error;
    }
    ActError::Nothing(format!(
        "{why}, as far as its logs say. But {name} is there, an IFB as Quell makes it: the log was lost. `quell shape apply` with the options \
         of then makes it Quell's again, and then `off` takes it off; or by hand: tc qdisc del dev {device} root; tc qdisc del dev {device} \
         ingress; ip link del {name}"
    ))
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
        println!(
            "{}",
            crate::text::document(
                &json!({ "recovered": done.iter().map(one).collect::<Vec<Value>>() })
            )
        );
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
        return watch::watch(&args.state, args.device.as_deref(), args.json, every);
    }
    let mut kernel = open()?;
    let namespace = NetNs::current().map_err(Failure::system)?.inode();
    let look = || Seen::of_all(args, &mut kernel).map_err(Unseen::Failed);
    let (all, changing) =
        quell_act::still(&args.state.folder, namespace, look).map_err(|unseen| match unseen {
            Unseen::Failed(failed) => failed,
            Unseen::Unread(error) => failure(error),
        })?;
    let now_ns = monotonic_ns();
    let entries: Vec<_> =
        all.into_iter().map(|seen| seen.entry(now_ns, changing.as_deref())).collect();
    report::status(&entries, args.json);
    let broken = entries.iter().any(|entry| entry.broken);
    Ok(if broken { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// A change that is in force, and the machine beside it.
struct Seen {
    log: Log,
    now: Now,
    differs: Option<String>,
    known: Option<Standby>,
}

/// Why nothing was seen.
enum Unseen {
    Failed(Failure),
    Unread(ActError),
}

impl From<ActError> for Unseen {
    fn from(error: ActError) -> Self {
        Unseen::Unread(error)
    }
}

impl Seen {
    fn of_all(args: &StatusArgs, kernel: &mut Kernel) -> Result<Vec<Seen>, Failure> {
        let logs = args.state.logs_of(kernel, args.device.as_deref())?;
        let one = |log: Log| {
            let now = kernel.read(&(&log.begun.before).into()).map_err(Failure::system)?;
            let (mut differs, known) = differs(&log, &args.state.folder, kernel);
            let roots = report::roots(&log, &now);
            if let Some((name, ..)) = roots.iter().find(|root| parts::is_of_another_version(root.1))
            {
                differs = Some(format!(
                    "another version of Quell made the classifier of {name}, so that off comes before apply"
                ));
            }
            Ok(Seen { log, now, differs, known })
        };
        logs.into_iter().map(one).collect()
    }

    fn entry(self, now_ns: u64, changing: Option<&str>) -> report::Entry {
        let Seen { log, now, differs, known } = self;
        let attendance = known.map(|known| report::Attendance::of(&log, &now, &known));
        report::entry(&log, &now, now_ns, (differs, changing), attendance)
    }
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
