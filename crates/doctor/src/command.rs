//! Watching while a command runs.
//!
//! ```text
//!   quiet second ─ snapshot ─ start ─ ten looks a second at queues and connections ─ end, or limit ─ snapshot
//! ```

use crate::counters::{CounterMove, cpu, moved};
use crate::examination::{DoctorError, Examination};
use crate::facts::ConnectionLooks;
use crate::packet_drops::{DropReport, Monitor};
use crate::peer::or_why;
use crate::reported::Reported;
use quell_finding::Finding;
use quell_host::capture::{Depth, backlogs, connections, take};
use quell_host::sockets::KEPT;
use quell_netlink::sock_diag::DiagSocket;
use quell_sys::clock::monotonic_ns;
use quell_sys::pidfd;
use quell_sys::wait::{Alarm, Bell, readable, wait};
use quell_units::Span;
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

/// Between two looks: uneven, so that what repeats itself is not always met at the same point, and 100 ms on average.
const BETWEEN_NS: [u64; 6] =
    [112_000_000, 87_000_000, 121_000_000, 92_000_000, 76_000_000, 113_000_000];
/// How long is watched before, for what is usual.
const QUIET_NS: u64 = 1_000_000_000;
/// How long a command that is asked to end may take.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Which command, and how long it may take.
pub struct CommandPlan {
    pub shown: String,
    pub words: Vec<String>,
    pub limit: Span,
    pub stop: Arc<Bell>,
}

/// What a command did, and what moved meanwhile.
#[derive(Debug, Serialize)]
pub struct CommandReport {
    pub command: String,
    pub seconds: f64,
    /// Why it did not end well.
    pub failed: Option<String>,
    pub looks: u32,
    pub moved: Vec<CounterMove>,
    pub cpu_busy_percent: Option<f64>,
    pub softirq_percent: Option<f64>,
    /// The longest queue of each device.
    pub longest_queue_bytes: BTreeMap<String, u64>,
    /// What the kernel dropped, or why nobody knows.
    #[serde(serialize_with = "or_why")]
    pub dropped: Result<DropReport, String>,
    /// What it found itself, where it was a quell.
    #[serde(skip)]
    pub reported: Vec<Finding>,
}

/// What was seen ten times a second.
struct Looks {
    monitor: Result<Monitor, String>,
    seen: ConnectionLooks,
    connections: BTreeMap<u64, DiagSocket>,
    longest: BTreeMap<String, u64>,
}

impl Looks {
    fn look(&mut self) {
        if let Ok(monitor) = &mut self.monitor {
            monitor.look();
        }
        let backlogs = backlogs();
        if let Ok(sockets) = connections() {
            self.seen.look(monotonic_ns(), &sockets, &backlogs);
            for socket in sockets.tcp {
                if self.connections.len() < KEPT || self.connections.contains_key(&socket.cookie) {
                    self.connections.insert(socket.cookie, socket);
                }
            }
        }
        for (device, waits) in backlogs {
            let most = self.longest.entry(device).or_default();
            *most = (*most).max(waits);
        }
    }
}

pub(crate) fn watch(plan: &CommandPlan) -> Result<(Examination, CommandReport), DoctorError> {
    let mut alarm = Alarm::new()?;
    let quiet = take(Depth::Moving);
    alarm.set(Some(monotonic_ns() + QUIET_NS))?;
    wait(&mut [readable(&alarm), readable(&*plan.stop)])?;
    let before = take(Depth::Full);
    let pause = before.seconds_since(&quiet).max(0.001);
    let quiet_switches = match (quiet.switches(), before.switches()) {
        (Ok(was), Ok(now)) => Some(now.saturating_sub(was) as f64 / pause),
        _ => None,
    };
    let monitor = Monitor::open();
    let failed = |e: std::io::Error| {
        DoctorError::Failed(format!("starting `{}` for --during: {e}", plan.words[0]))
    };
    // What it prints is not what we print.
    let error = std::io::stderr().as_fd().try_clone_to_owned().map_err(failed)?;
    let reported = Reported::open().map_err(failed)?;
    let mut child = Command::new(&plan.words[0])
        .args(&plan.words[1..])
        .envs([reported.variable()])
        .stdin(Stdio::null())
        .stdout(Stdio::from(error))
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let begun = monotonic_ns();
    let (seen, connections, longest) = Default::default();
    let mut looks = Looks { monitor, seen, connections, longest };
    let end = follow(&mut child, begun + plan.limit.nanos(), &plan.stop, &mut alarm, &mut looks);
    let seconds = (monotonic_ns() - begun) as f64 / 1e9;
    let failed = match end? {
        CommandEnd::ByItself(status) if status.success() => None,
        CommandEnd::ByItself(status) => Some(format!("it ended with {status}")),
        CommandEnd::TooLong => {
            Some(format!("it ran longer than --limit {} and was ended", plan.limit))
        }
        CommandEnd::Stopped => Some("it was stopped".to_owned()),
    };
    let dropped = looks.monitor.map(Monitor::finish);
    let mut now = take(Depth::Full);
    if let Ok(sockets) = &mut now.sockets {
        let there: Vec<u64> = sockets.tcp.iter().map(|socket| socket.cookie).collect();
        sockets.tcp.extend(looks.connections.into_values().filter(|s| !there.contains(&s.cookie)));
    }
    let cpu = cpu(&before, &now);
    let report = CommandReport {
        command: plan.shown.clone(),
        seconds,
        failed,
        looks: looks.seen.count,
        moved: moved(&before, &now),
        cpu_busy_percent: cpu.map(|(busy, _)| busy),
        softirq_percent: cpu.map(|(_, softirq)| softirq),
        longest_queue_bytes: looks.longest,
        dropped,
        reported: reported.read(),
    };
    let seconds = now.seconds_since(&quiet);
    let looks = looks.seen;
    Ok((Examination { before: Some(before), now, looks, quiet_switches, seconds }, report))
}

enum CommandEnd {
    ByItself(ExitStatus),
    TooLong,
    Stopped,
}

fn follow(
    child: &mut Child,
    limit: u64,
    stop: &Bell,
    alarm: &mut Alarm,
    looks: &mut Looks,
) -> Result<CommandEnd, DoctorError> {
    let process = pidfd::open(child.id()).map_err(waiting)?;
    let mut next = monotonic_ns();
    loop {
        looks.look();
        // A look that takes long is not made up for.
        let between = BETWEEN_NS[looks.seen.count as usize % BETWEEN_NS.len()];
        next = (next + between).max(monotonic_ns());
        alarm.set(Some(next))?;
        wait(&mut [readable(&*alarm), readable(&process), readable(stop)])?;
        if let Some(status) = child.try_wait().map_err(waiting)? {
            return Ok(CommandEnd::ByItself(status));
        }
        let rung = stop.rings();
        if !rung && monotonic_ns() < limit {
            continue;
        }
        end(child, &process, alarm)?;
        return Ok(if rung { CommandEnd::Stopped } else { CommandEnd::TooLong });
    }
}

fn waiting(error: std::io::Error) -> DoctorError {
    DoctorError::Failed(format!("waiting for the command of --during: {error}"))
}

/// Asks it and its children to end, and ends them where they don't.
fn end(child: &mut Child, process: &OwnedFd, alarm: &mut Alarm) -> Result<(), DoctorError> {
    use nix::sys::signal::{Signal, killpg};
    let group = nix::unistd::Pid::from_raw(child.id() as i32);
    // A group that is gone needs no signal.
    let _ = killpg(group, Signal::SIGTERM);
    alarm.set(Some(monotonic_ns() + PATIENCE_NS))?;
    wait(&mut [readable(&*alarm), readable(process)])?;
    let _ = killpg(group, Signal::SIGKILL);
    child.wait().map(drop).map_err(waiting)
}
