//! How what was applied stands, whether the machine is still so, and what passed through its queues.

use crate::class_report::{self, HostSlots, LineClass, roots};
use crate::follow::{self, FollowState};
use crate::subscriber_classes::SubscriberClasses;
use crate::{CommandError, UndoLogs, daemon, open, plan_again, reconcile};
use quell_act::{Kernel, Lock, Log, Machine, Now, Planned, Standing};
use quell_sys::clock::monotonic_ns;
use quell_sys::netns::NetNs;
use quell_tc::observed::Stats;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct StatusEntry {
    pub device: String,
    pub wanted: String,
    pub standing: String,
    pub in_order: bool,
    /// Who is changing it just now.
    pub changing: Option<String>,
    /// What its interface is called now, where that is another name.
    pub renamed_to: Option<String>,
    pub by: String,
    /// When, in seconds since 1970.
    pub since: u64,
    pub queues: Vec<QueueStatus>,
    pub subscribers: Option<Attendance>,
    /// Of a line whose rates are followed: each direction, and what is known of its signals.
    pub follow: Option<FollowState>,
}

#[derive(Debug, Serialize)]
pub struct QueueStatus {
    pub device: String,
    pub kind: String,
    pub handle: String,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub dropped_packets: u32,
    pub backlog_packets: u32,
    pub backlog_bytes: u32,
    pub hosts: Option<HostSlots>,
    pub parts: Vec<LineClass>,
}

/// Of subscribers whose classes are made when they are there: how many are.
#[derive(Debug, Clone, Serialize)]
pub struct Attendance {
    pub known: usize,
    pub here: usize,
    pub most: usize,
    /// The process that makes classes for those who come.
    pub holder: Option<u32>,
}

/// How all changes in force stand, or that of one interface.
pub fn status(logs: &UndoLogs, device: Option<&str>) -> Result<Vec<StatusEntry>, CommandError> {
    let mut kernel = open()?;
    let namespace = NetNs::current().map_err(CommandError::system)?.inode();
    // Nothing of ours is changed while all is read; where somebody is at it for long, it is read all the same.
    let lock = Lock::shared(&logs.folder, namespace)?;
    let changing = lock.as_ref().err();
    let all = logs.some_of(&mut kernel, device)?.into_iter();
    all.map(|log| entry(&log, logs, &mut kernel, changing)).collect()
}

/// While somebody is `changing` it, what is there is neither as before nor as wanted, and nobody has to do anything.
fn entry(
    log: &Log,
    logs: &UndoLogs,
    kernel: &mut Kernel,
    changing: Option<&String>,
) -> Result<StatusEntry, CommandError> {
    let now = kernel.read(&(&log.begun.before).into()).map_err(CommandError::system)?;
    let (mut differs, subscribers) = differs(log, logs, kernel, &now);
    let follow = FollowState::of(log);
    let roots = roots(log, &now);
    if let Some((name, ..)) = roots.iter().find(|root| class_report::is_of_another_version(root.1))
    {
        let why = format!("another version of Quell made the classifier of {name}");
        differs = Some((why, "after off"));
    }
    let attendance = subscribers.map(|subscribers| Attendance::of(log, &now, &subscribers));
    let (mut standing, mut broken) = log.standing_words(monotonic_ns(), "quell shape");
    let renamed = log.renamed_to(&now);
    if let (Some(name), false) = (renamed, broken) {
        broken = true;
        standing = format!(
            "its interface is named {name} now: quell shape apply --dev {name}, or off --dev {name}"
        );
    } else if let Some(differs) = differs.filter(|_| !broken) {
        broken = true;
        let (what, how) = differs;
        standing = format!("no longer as it was applied ({what}): quell shape apply {how}, or off");
    }
    if let Some(trouble) = follow.as_ref().and_then(FollowState::trouble).filter(|_| !broken) {
        (broken, standing) = (true, trouble);
    }
    let unheld = attendance.as_ref().is_some_and(|attendance| attendance.holder.is_none());
    let changing = changing.filter(|_| broken || unheld).cloned();
    match &changing {
        Some(who) => standing = format!("being changed just now by {who}"),
        None => broken |= unheld,
    }
    let begun = &log.begun;
    let queues = roots.into_iter().map(|(device, snapshot, root)| {
        let Stats { bytes, packets, drops, backlog_bytes, backlog_packets, .. } = root.stats;
        QueueStatus {
            device,
            kind: root.kind.clone(),
            handle: root.handle.to_string(),
            sent_packets: packets,
            sent_bytes: bytes,
            dropped_packets: drops,
            backlog_packets,
            backlog_bytes,
            hosts: class_report::places(snapshot),
            parts: class_report::parts(log, snapshot, root),
        }
    });
    Ok(StatusEntry {
        device: begun.device.clone(),
        wanted: begun.wanted.clone(),
        standing,
        in_order: changing.is_some() || !broken,
        changing,
        renamed_to: renamed.map(str::to_owned),
        by: begun.who.command.clone(),
        since: begun.who.at,
        queues: queues.collect(),
        subscribers: attendance,
        follow,
    })
}

/// In what a machine differs from what was applied to it, and how to apply it again; none where it does not, or where it was not applied whole.
/// And who may come and go.
fn differs(
    log: &Log,
    logs: &UndoLogs,
    kernel: &mut Kernel,
    now: &Now,
) -> (Option<(String, &'static str)>, Option<SubscriberClasses>) {
    if log.standing == Standing::Unfinished || log.begun.recipe.is_empty() {
        return (None, None);
    }
    let mut plan = match plan_again(log, kernel) {
        Ok(plan) => plan,
        Err(why) => return (Some((why.to_string(), "again")), None),
    };
    let is_followed = plan.policy.follow.is_some();
    if let Err(why) = follow::take_rates(&mut plan.goal, log, now) {
        return (Some((why.to_string(), "again")), None);
    }
    let planned = quell_act::plan(kernel, &logs.folder, &log.begun.device, &plan.goal, false);
    let differs = match planned {
        // Where nothing but a followed rate is another, nobody else changed it.
        Ok(Planned { foreign, steps, .. })
            if !(foreign.is_empty() || is_followed && steps.is_empty()) =>
        {
            Some((foreign[0].trim().to_owned(), "--replace"))
        }
        Ok(planned) => planned.steps.first().map(|step| match planned.steps.len() {
            1 => (format!("what is missing: {step}"), "again"),
            more => (format!("what is missing: {step}, and {} more steps", more - 1), "again"),
        }),
        Err(why) => Some((why.to_string(), "again")),
    };
    let table = || plan.subscribers.as_ref().and_then(reconcile::table_differs);
    (differs.or_else(|| Some((table()?, "again"))), plan.subscribers)
}

impl Attendance {
    fn of(log: &Log, now: &Now, subscribers: &SubscriberClasses) -> Self {
        let roots = roots(log, now);
        let way = subscribers.directions.first();
        let snapshot = way.and_then(|way| roots.iter().find(|(name, ..)| *name == way.device));
        let here = match (way, snapshot) {
            (Some(way), Some((_, snapshot, _))) => {
                let classes = snapshot.classes.iter();
                classes.filter(|class| way.dynamic_class(class.place()).is_some()).count()
            }
            _ => 0,
        };
        let (known, most) = (subscribers.len(), subscribers.most);
        Attendance { known, here, most, holder: daemon::holder(log) }
    }
}
