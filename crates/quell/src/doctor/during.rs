//! Watching while a command runs.
//!
//! ```text
//!   quiet second ─ snapshot ─ start ─ ten looks a second at queues and connections ─ end, or limit ─ snapshot
//! ```

use super::drops;
use super::seen::{Examination, Watched};
use crate::failure::Failure;
use crate::text::fitted;
use quell_doctor::Stalls;
use quell_doctor::during::{cpu, moved};
use quell_finding::wrapped;
use quell_host::capture::{Depth, connections, take};
use quell_netlink::sock_diag::DiagSocket;
use quell_sys::clock::monotonic_ns;
use quell_sys::pidfd;
use quell_sys::wait::{Alarm, Bell, readable, wait};
use quell_units::Span;
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

/// How long a command may take where nothing else is asked for.
pub(super) const LIMIT: Span = Span::from_secs(600);
/// Between two looks: uneven, so that what repeats itself is not always met at the same point, and 100 ms on average.
const BETWEEN_NS: [u64; 6] =
    [112_000_000, 87_000_000, 121_000_000, 92_000_000, 76_000_000, 113_000_000];
/// How long is watched before, for what is usual.
const QUIET_NS: u64 = 1_000_000_000;
/// How long a command that is asked to end may take.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Most connections that are kept though they ended.
const MOST: usize = 512;

/// The program and its arguments.
fn words(command: &str) -> Result<Vec<String>, Failure> {
    if let Some(host) = command.strip_prefix("flow:") {
        let own = std::env::current_exe()
            .map_err(|e| Failure::system(format!("finding this program: {e}")))?;
        let own = own.to_string_lossy().into_owned();
        return Ok([own.as_str(), "flow", host.trim(), "-t", "5"].map(str::to_owned).to_vec());
    }
    crate::words::words(&format!("--during \"{command}\""), command)
}

/// Watches while the command runs.
pub(super) fn watch(command: &str, limit: Span) -> Result<Examination, Failure> {
    let words = words(command)?;
    let stop = Arc::new(Bell::new().map_err(Failure::system)?);
    crate::interrupt::listen(&stop)?;
    let mut alarm = Alarm::new().map_err(Failure::system)?;
    let quiet = take(Depth::Moving);
    alarm.set(Some(monotonic_ns() + QUIET_NS)).map_err(Failure::system)?;
    wait(&mut [readable(&alarm), readable(&*stop)]).map_err(Failure::system)?;
    let before = take(Depth::Full);
    let pause = before.seconds_since(&quiet).max(0.001);
    let quiet_switches = match (quiet.switches(), before.switches()) {
        (Ok(was), Ok(now)) => Some(now.saturating_sub(was) as f64 / pause),
        _ => None,
    };
    let monitor = drops::Monitor::open();
    // What it prints is not what we print.
    let error = std::io::stderr();
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::from(
            std::os::fd::AsFd::as_fd(&error).try_clone_to_owned().map_err(Failure::system)?,
        ))
        .process_group(0)
        .spawn()
        .map_err(|e| Failure::system(format!("starting `{}` for --during: {e}", words[0])))?;
    let begun = monotonic_ns();
    let mut seen = Seen { monitor: Some(monitor), ..Seen::default() };
    let end = follow(&mut child, begun + limit.nanos(), &stop, &mut alarm, &mut seen);
    let seconds = (monotonic_ns() - begun) as f64 / 1e9;
    let failed = match end? {
        Ended::ByItself(status) if status.success() => None,
        Ended::ByItself(status) => Some(format!("it ended with {status}")),
        Ended::TooLong => Some(format!("it ran longer than --limit {limit} and was ended")),
        Ended::Stopped => Some("it was stopped".to_owned()),
    };
    let drops = seen.monitor.take().map_or(Err(String::new()), |m| m.map(drops::Monitor::finish));
    let mut now = take(Depth::Full);
    if let Ok(sockets) = &mut now.sockets {
        let there: Vec<u64> = sockets.tcp.iter().map(|socket| socket.cookie).collect();
        sockets.tcp.extend(seen.connections.into_values().filter(|s| !there.contains(&s.cookie)));
    }
    let watched = Watched {
        command: command.to_owned(),
        seconds,
        failed,
        looks: seen.stalls.looks,
        moves: moved(&before, &now),
        cpu: cpu(&before, &now),
        quiet_switches,
        longest: seen.longest,
        drops,
    };
    let seconds = now.seconds_since(&quiet);
    Ok(Examination {
        before: Some(before),
        now,
        stalls: seen.stalls,
        watched: Some(watched),
        seconds,
    })
}

/// What was seen ten times a second.
#[derive(Default)]
struct Seen {
    monitor: Option<Result<drops::Monitor, String>>,
    stalls: Stalls,
    connections: BTreeMap<u64, DiagSocket>,
    longest: BTreeMap<String, u64>,
}

impl Seen {
    fn look(&mut self) {
        if let Some(Ok(monitor)) = &mut self.monitor {
            monitor.look();
        }
        if let Ok(sockets) = connections() {
            self.stalls.look(&sockets);
            for socket in sockets.tcp {
                if self.connections.len() < MOST || self.connections.contains_key(&socket.cookie) {
                    self.connections.insert(socket.cookie, socket);
                }
            }
        }
        for (device, waits) in quell_host::capture::backlogs() {
            let most = self.longest.entry(device).or_default();
            *most = (*most).max(waits);
        }
    }
}

enum Ended {
    ByItself(ExitStatus),
    TooLong,
    Stopped,
}

fn follow(
    child: &mut Child,
    limit: u64,
    stop: &Bell,
    alarm: &mut Alarm,
    seen: &mut Seen,
) -> Result<Ended, Failure> {
    let process = pidfd::open(child.id()).map_err(Failure::system)?;
    let mut next = monotonic_ns();
    loop {
        seen.look();
        // A look that takes long is not made up for.
        let between = BETWEEN_NS[seen.stalls.looks as usize % BETWEEN_NS.len()];
        next = (next + between).max(monotonic_ns());
        alarm.set(Some(next)).map_err(Failure::system)?;
        wait(&mut [readable(&*alarm), readable(&process), readable(stop)])
            .map_err(Failure::system)?;
        let failed = |e| Failure::system(format!("waiting for the command of --during: {e}"));
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(Ended::ByItself(status));
        }
        let rung = stop.rings();
        if !rung && monotonic_ns() < limit {
            continue;
        }
        end(child, &process, alarm)?;
        return Ok(if rung { Ended::Stopped } else { Ended::TooLong });
    }
}

/// Asks it and its children to end, and ends them where they don't.
fn end(
    child: &mut Child,
    process: &std::os::fd::OwnedFd,
    alarm: &mut Alarm,
) -> Result<(), Failure> {
    use nix::sys::signal::{Signal, killpg};
    let group = nix::unistd::Pid::from_raw(child.id() as i32);
    // A group that is gone needs no signal.
    let _ = killpg(group, Signal::SIGTERM);
    alarm.set(Some(monotonic_ns() + PATIENCE_NS)).map_err(Failure::system)?;
    wait(&mut [readable(&*alarm), readable(process)]).map_err(Failure::system)?;
    let _ = killpg(group, Signal::SIGKILL);
    child.wait().map(drop).map_err(|e| Failure::system(format!("ending the command: {e}")))
}

/// For a person.
pub(super) fn lines(watched: &Watched, width: usize) -> Vec<String> {
    let mut out = vec![fitted(
        &format!(
            "While `{}` ran ({:.1} s, {} looks):",
            quell_wire::text::line(&watched.command),
            watched.seconds,
            watched.looks
        ),
        width,
    )];
    if let Some(why) = &watched.failed {
        let said = format!("  The command did not end well: {why}. What moved until then:");
        out.push(fitted(&said, width));
    }
    let mut places: Vec<(&str, Vec<String>)> = Vec::new();
    for one in &watched.moves {
        let words = format!("{} {}", one.name, one.count);
        match places.iter_mut().find(|(place, _)| *place == one.place) {
            Some((_, all)) => all.push(words),
            None => places.push((&one.place, vec![words])),
        }
    }
    let mut paragraph = |name: &str, text: &str| {
        for (at, line) in wrapped(text, width - 30).iter().enumerate() {
            out.push(format!("  {:<27} {line}", if at == 0 { name } else { "" }));
        }
    };
    for (place, all) in &places {
        paragraph(place, &all.join(", "));
    }
    if let Some((busy, softirq)) = watched.cpu {
        paragraph(
            "CPU time",
            &format!("{busy:.0} % busy, {softirq:.0} % in softirqs, of all CPUs"),
        );
    }
    let queues = watched.longest.iter().filter(|(_, bytes)| **bytes > 0);
    let queues: Vec<String> =
        queues.map(|(device, bytes)| format!("{device} {bytes} bytes")).collect();
    if !queues.is_empty() {
        paragraph("longest queue", &queues.join(", "));
    }
    out.push(String::new());
    out.extend(drops::lines(&watched.drops, width));
    out
}

/// For a program.
pub(super) fn document(watched: &Watched) -> serde_json::Value {
    json!({
        "command": watched.command,
        "seconds": watched.seconds,
        "failed": watched.failed,
        "looks": watched.looks,
        "moved": watched.moves,
        "cpu_busy_percent": watched.cpu.map(|(busy, _)| busy),
        "softirq_percent": watched.cpu.map(|(_, softirq)| softirq),
        "longest_queue_bytes": watched.longest,
        "dropped": drops::document(&watched.drops),
    })
}
