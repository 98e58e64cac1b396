//! A plan shown, and put in force.
//!
//! ```text
//!   LinePlan ─► quell_act::apply ─► reconcile: tables and classes of those who are there ─► daemon: those of who comes
//! ```

use crate::line_plan::recipe_of;
use crate::reconcile::{self, Reconciler};
use crate::subscriber_classes::SubscriberClasses;
use crate::{CommandError, LinePlan, UndoLogs, daemon, follow, open, plan_again};
use quell_act::{
    Applied, ApplyRequest, Change, FileGoal, HostTableGoal, Kernel, Lock, Log, RouteGoal, Standing,
    SysctlGoal, own_watchdog,
};
use quell_sys::netns::NetNs;
use quell_tc::{Step, Thing};
use quell_units::Span;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub struct ApplyOptions<'a> {
    pub device: &'a str,
    pub command: &'a str,
    pub confirm_within: Option<Span>,
    /// Why it is to be confirmed, behind a blank, where nobody said so.
    pub why: &'a str,
    pub replace: bool,
    pub no_way_back: bool,
    pub logs: &'a UndoLogs,
}

pub fn apply(
    kernel: &mut Kernel,
    plan: LinePlan,
    options: &ApplyOptions<'_>,
) -> Result<Applied, CommandError> {
    let LinePlan { goal, words, remarks, subscribers, policy, .. } = plan;
    let &ApplyOptions { device, command, replace, no_way_back, logs, .. } = options;
    let request = ApplyRequest {
        folder: &logs.folder,
        device: device.to_owned(),
        goal,
        wanted: words,
        recipe: recipe_of(&policy)?,
        command: command.to_owned(),
        replace,
        no_way_back,
        confirm_within: options.confirm_within.map(Span::nanos),
        trial: true,
        watchdog: &own_watchdog,
    };
    let mut foreseen = Vec::new();
    if let Some(subscribers) = &subscribers {
        foreseen = reconcile::foreseen(subscribers).map_err(CommandError::system)?;
        let log = logs.of(kernel, device).ok();
        if foreseen.is_empty() && log.is_some_and(|log| log.begun.recipe != request.recipe) {
            foreseen.push(format!("{device}: other figures, of subscribers who are not here"));
        }
    }
    if let Ok(log) = logs.of(kernel, device) {
        follow::pause(&log, &logs.folder, kernel)?;
    }
    let applied = quell_act::apply(kernel, &request);
    // Also where nothing was changed: one that was followed is followed again.
    let followed = logs.of(kernel, device).map_or(Ok(()), |log| follow::start(&log, &logs.folder));
    let mut applied = applied?;
    followed?;
    if let Some(subscribers) = &subscribers {
        let_in(subscribers, logs, device)?;
        applied.steps.extend(foreseen);
    }
    applied.said.splice(0..0, remarks);
    if let (Some(within), false) = (options.confirm_within, applied.steps.is_empty()) {
        let state = match logs.folder == Path::new(crate::DEFAULT_FOLDER) {
            true => String::new(),
            false => format!(" --state {}", logs.folder.display()),
        };
        let why = options.why;
        applied
            .said
            .push(format!("in force for {within}{why}; to keep it: quell shape confirm{state}"));
    }
    Ok(applied)
}

/// Leads tables and classes of those who are there to what is in force, and sees to it that somebody makes classes for those who come.
fn let_in(
    subscribers: &SubscriberClasses,
    logs: &UndoLogs,
    device: &str,
) -> Result<(), CommandError> {
    let namespace = NetNs::current().map_err(CommandError::system)?.inode();
    let lock = Lock::beside(&logs.folder, namespace)?;
    let led = Reconciler::open(subscribers)
        .and_then(|mut leader| leader.lead(subscribers, &BTreeSet::new()));
    drop(lock);
    led.map_err(|why| {
        CommandError::system(format!(
            "{why}; the queues are in force, and not all subscribers: apply again"
        ))
    })?;
    let log = logs.of(&mut open()?, device)?;
    daemon::start(&log, &logs.folder, device)
}

/// The same once more for what is in force, after it was led back to, or by somebody who died in the middle.
pub fn reconcile_again(kernel: &mut Kernel, path: &Path) -> Result<(), String> {
    let Some(log) = Log::read(path).map_err(|e| e.to_string())? else { return Ok(()) };
    if log.standing == Standing::Unfinished {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    follow::start(&log, folder).map_err(|e| e.to_string())?;
    if log.begun.before.our_dynamic.is_empty() {
        return Ok(());
    }
    // He is told of each change, and leads to it.
    if daemon::holder(&log).is_some() {
        return Ok(());
    }
    let plan = plan_again(&log, kernel).map_err(|e| e.to_string())?;
    let Some(standby) = plan.subscribers else { return Ok(()) };
    let _lock = Lock::beside(folder, log.begun.namespace).map_err(|e| e.to_string())?;
    Reconciler::open(&standby)?.lead(&standby, &BTreeSet::new()).map(drop)
}

#[derive(Debug, Serialize)]
pub struct PlanReport {
    pub device: String,
    /// The queues that are wanted, by interface.
    pub tree: BTreeMap<String, Vec<String>>,
    pub wanted: String,
    /// For how many hosts there is room, up and down, where they are found at run time.
    pub places: Option<(u16, u16)>,
    pub remarks: Vec<String>,
    pub steps: Vec<String>,
    /// The same as commands of `ip` and `tc`.
    pub commands: Vec<String>,
    /// What no command says.
    #[serde(skip)]
    pub beyond_commands: Vec<&'static str>,
    /// Others' queues that are in the way.
    pub foreign: Vec<String>,
    pub cannot_come_back: Vec<String>,
}

/// What [`apply`] would do. Nothing is touched.
pub fn preview(
    kernel: &mut Kernel,
    logs: &UndoLogs,
    device: &str,
    plan: &LinePlan,
) -> Result<PlanReport, CommandError> {
    let planned = quell_act::plan(kernel, &logs.folder, device, &plan.goal, true)?;
    let foreseen = plan.subscribers.as_ref().map_or(Ok(Vec::new()), reconcile::foreseen);
    let foreseen = foreseen.map_err(CommandError::system)?;
    let mut beyond_commands = Vec::new();
    if planned.steps.iter().any(looks_behind_tags) {
        beyond_commands.push(
            "by their addresses Quell finds packets with a VLAN tag too; tc has no words for that",
        );
    }
    if plan.subscribers.is_some() {
        beyond_commands.push(
            "who is in the table of subscribers, and their classes as they come, no command says",
        );
    }
    let trees = plan.goal.devices.iter();
    let trees = trees.map(|goal| (goal.name.clone(), quell_tc::outline(&goal.things)));
    Ok(PlanReport {
        device: device.to_owned(),
        tree: trees.filter(|(_, lines)| !lines.is_empty()).collect(),
        wanted: plan.words.clone(),
        places: plan.policy.policy.and_then(|name| plan.policy.places(name)),
        remarks: plan.remarks.iter().chain(&planned.said).cloned().collect(),
        steps: planned.steps.iter().map(ToString::to_string).chain(foreseen).collect(),
        commands: planned.steps.iter().map(command_of).collect(),
        beyond_commands,
        foreign: planned.foreign,
        cannot_come_back: planned.lost,
    })
}

/// Whether a step is about addresses in packets of any protocol, VLAN tags among them.
fn looks_behind_tags(step: &Change) -> bool {
    match step {
        Change::Queue {
            change: quell_tc::Change::Make(Thing::Step(Step::Filter { filter, .. })),
            ..
        } => filter.family_behind_tags().is_some(),
        _ => false,
    }
}

/// A step as a command that does the same.
pub fn command_of(step: &Change) -> String {
    match step {
        Change::MakeIfb { name, mac, .. } => {
            let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
            format!("ip link add {name} address {mac} type ifb && ip link set {name} up")
        }
        Change::SwitchOn(target) => format!("ip link set {} up", target.name),
        Change::DeleteIfb(target) => format!("ip link del {}", target.name),
        Change::Queue { device, change } => quell_tc::change_command(change, &device.name),
        Change::Sysctl(SysctlGoal { key, value }) => format!("sysctl -w {key}='{value}'"),
        Change::Route(RouteGoal { to, route: Some(route) }) => {
            format!("ip route replace {to} {route}")
        }
        Change::Route(RouteGoal { to, route: None }) => format!("ip route del {to}"),
        // Nothing that nft can be told does the same: it writes no address into a mark.
        Change::HostTable(HostTableGoal { there: true, .. }) => {
            format!("# {step}; no command says that")
        }
        Change::HostTable(HostTableGoal { device, there: false }) => {
            format!("nft delete table ip quell-hosts-{device}")
        }
        Change::File(FileGoal { path, .. }) => format!("# {step}: {}", path.display()),
    }
}
