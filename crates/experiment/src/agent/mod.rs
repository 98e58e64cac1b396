//! The agent: carries out the tasks of one host.
//!
//! ```text
//!   commands ──► main thread ──prepare──► Work ──start──► a thread each ──events──► Outbox ──┐
//!                     ▲                                                                       │ once a second, at once
//!                     └───────────────────────────────────────────────────────────────────────┘ when somebody waits for it
//!   events   ◄── main thread
//! ```
//!
//! It speaks over any pair of byte streams, in frames (`quell_model::frame`). A task that fails or panics says so in its `Ended` event
//! and takes no other along. The end of the commands means `Stop`; when nobody reads the events any more, everything ends. Who is asked for
//! its clock (`Ask`) has a lease: when nothing is said to it for so long, whoever started it is lost, and it ends by itself.

mod managed;
mod outbox;

use crate::kinds::{self, Opening, Work, opens};
use managed::ManagedQueues;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use outbox::Outbox;
use quell_load::FLUSH_NS;
use quell_load::sample::{QueueSampler, SocketSampler};
use quell_model::frame::{Decoder, FrameError};
use quell_model::{AgentHost, Command, Event, Fact, Outcome, Said, Subject, Task, TaskKind, When};
use quell_netlink::sysctl;
use quell_sys::SysError;
use quell_sys::backlog::Backlog;
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wait::{Alarm, Bell, came, readable, wait, writable};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Why an agent ended otherwise than by a `Stop` or the end of its commands.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("an agent could not read its commands: {0}")]
    Input(std::io::Error),
    #[error("an agent could not understand its commands: {0}")]
    Frame(#[from] FrameError),
    #[error("an agent could not hand on its events: {0}; whoever started it is gone")]
    Output(std::io::Error),
    #[error("an agent {0}")]
    System(#[from] SysError),
    #[error("an agent was asked to {0}")]
    Order(&'static str),
}

/// What the main thread and the tasks' threads share.
struct AgentState {
    outbox: Outbox,
    stop: Bell,
}

/// Carries out commands from `input` and writes events to `output` until told to stop.
///
/// Both are duplicated and used without buffers; standard input and output will do. Writing to the output, through whichever descriptor, no
/// longer blocks from here on: while nobody takes the events they wait here, and commands are heard. The tasks use the network namespace that
/// the calling thread is in.
pub fn run(input: impl AsFd, output: impl AsFd) -> Result<(), AgentError> {
    let owned = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
    let input = owned(input.as_fd()).map_err(AgentError::Input)?;
    let output = owned(output.as_fd()).map_err(AgentError::Output)?;
    let flags = fcntl(&output, FcntlArg::F_GETFL).map(OFlag::from_bits_retain);
    flags
        .and_then(|flags| fcntl(&output, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)))
        .map_err(|errno| AgentError::Output(errno.into()))?;
    let shared = Arc::new(AgentState { outbox: Outbox::new()?, stop: Bell::new()? });
    let backlog = Backlog::default();
    let threads = Vec::new();
    let mut agent = Agent { shared, prepared: None, threads, stopped: false, lease: None, backlog };
    let result = agent.attend(&input, &output);
    // Whatever happened: end the tasks, and hand on what they have.
    agent.stop();
    result.and(agent.hand_on_all(&output))
}

struct Agent {
    shared: Arc<AgentState>,
    /// Tasks that wait for the start; none before `Prepare` and after `Start`.
    prepared: Option<Vec<(Task, Work)>>,
    threads: Vec<JoinHandle<()>>,
    stopped: bool,
    /// How long it goes on when nothing is said to it, and since when that is, in nanoseconds; none where it was not asked.
    lease: Option<(u64, u64)>,
    /// What was said and that nobody took yet.
    backlog: Backlog,
}

impl Agent {
    fn attend(&mut self, mut input: &File, output: &File) -> Result<(), AgentError> {
        let mut decoder = Decoder::new();
        let mut alarm = Alarm::new()?;
        let mut buffer = vec![0; 64 * 1024];
        while !self.stopped {
            let running = !self.threads.is_empty();
            let flush = running.then(|| monotonic_ns().saturating_add(FLUSH_NS));
            alarm.set(flush.into_iter().chain(self.lease_end()).min())?;
            let next = match self.backlog.is_empty() {
                true => readable(&self.shared.outbox),
                // There is no room: nothing new, however urgent, goes before there is some.
                false => writable(output),
            };
            let mut fds = [readable(&input), next, readable(&alarm)];
            wait(&mut fds)?;
            let told = came(&fds[0]);
            if told {
                match input.read(&mut buffer) {
                    Ok(0) => return Ok(()),
                    Ok(got) => decoder.push(&buffer[..got]),
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(AgentError::Input(e)),
                }
                if let Some((_, heard)) = &mut self.lease {
                    *heard = monotonic_ns();
                }
                while let Some(command) = decoder.next_value()? {
                    self.obey(command)?;
                }
            } else if self.lease_end().is_some_and(|end| monotonic_ns() >= end) {
                return Ok(());
            }
            self.hand_on(output)?;
        }
        Ok(())
    }

    fn hand_on(&mut self, output: &File) -> Result<(), AgentError> {
        self.shared.outbox.flush(&mut self.backlog, output).map_err(AgentError::Output)
    }

    fn lease_end(&self) -> Option<u64> {
        self.lease.map(|(lease, heard)| heard.saturating_add(lease))
    }

    /// All there is, however long that takes: whoever started us ends that. With a lease, for as long as that is.
    fn hand_on_all(&mut self, output: &File) -> Result<(), AgentError> {
        let mut alarm = Alarm::new()?;
        alarm.set(self.lease.map(|(lease, _)| monotonic_ns().saturating_add(lease)))?;
        self.hand_on(output)?;
        while !self.backlog.is_empty() {
            let mut fds = [writable(output), readable(&alarm)];
            wait(&mut fds)?;
            if !came(&fds[0]) {
                return Ok(());
            }
            self.hand_on(output)?;
        }
        Ok(())
    }

    fn obey(&mut self, command: Command) -> Result<(), AgentError> {
        match command {
            Command::Prepare { tasks } => self.prepare(tasks),
            Command::Start { at_monotonic_ns } => self.start(at_monotonic_ns),
            Command::Stop => {
                self.stopped = true;
                Ok(())
            }
            Command::Ask { at_ns, lease } => {
                let monotonic_ns = monotonic_ns();
                if self.lease.replace((lease.nanos(), monotonic_ns)).is_none() {
                    self.shared.outbox.say(&Said::Host(host()));
                }
                self.shared.outbox.say(&Said::Clock { asked_ns: at_ns, monotonic_ns });
                Ok(())
            }
        }
    }

    fn prepare(&mut self, tasks: Vec<Task>) -> Result<(), AgentError> {
        if self.prepared.is_some() || !self.threads.is_empty() {
            return Err(AgentError::Order("prepare twice"));
        }
        let mut prepared = Vec::new();
        let mut seen = BTreeSet::new();
        for task in tasks {
            let work = match seen.insert(task.id.clone()) {
                true => guarded(|| prepare(&task)),
                false => Err("another task has the same id".to_owned()),
            };
            match work {
                Ok(work) => {
                    self.shared.outbox.put(&Event::Ready { task: task.id.clone() });
                    prepared.push((task, work));
                }
                Err(why) => self.shared.outbox.put(&Event::Ended {
                    task: task.id,
                    t_ns: 0,
                    outcome: Outcome::Failed(why),
                }),
            }
        }
        self.prepared = Some(prepared);
        Ok(())
    }

    fn start(&mut self, origin_ns: u64) -> Result<(), AgentError> {
        let prepared = self.prepared.take().ok_or(AgentError::Order("start before it prepared"))?;
        let first = prepared.iter().map(|(task, _)| task.start_ns.min(0)).min().unwrap_or(0);
        let late = monotonic_ns().saturating_sub(origin_ns.saturating_add_signed(first));
        if let Some((task, _)) = prepared.first().filter(|_| late > 0 && self.lease.is_some()) {
            let subject = Subject::Host(format!("{}/late", task.host));
            self.shared.outbox.put(&Fact::new(When::During, subject, late.to_string()).into());
        }
        for (task, work) in prepared {
            let window = Window {
                origin_ns,
                start_ns: origin_ns.saturating_add_signed(task.start_ns),
                duration_ns: task.duration.nanos(),
            };
            let shared = Arc::clone(&self.shared);
            let id = task.id.clone();
            let thread = std::thread::Builder::new().name(id.clone());
            match thread.spawn(move || carry_out(&task, work, &window, &shared)) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => {
                    let why = format!("could not start a thread for it: {error}");
                    let outcome = Outcome::Failed(why);
                    self.shared.outbox.put(&Event::Ended { task: id, t_ns: 0, outcome });
                }
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.shared.stop.ring();
        for thread in self.threads.drain(..) {
            // It catches its own panics; and if it had not, there would be nothing to do but go on.
            let _ = thread.join();
        }
    }
}

fn host() -> AgentHost {
    let kernel = nix::sys::utsname::uname().map(|u| u.release().to_string_lossy().into_owned());
    let (disciplined, most_wrong_us) = quell_sys::wall::discipline().unwrap_or_default();
    AgentHost {
        quell: env!("CARGO_PKG_VERSION").into(),
        kernel: kernel.unwrap_or_default(),
        disciplined,
        most_wrong_us,
        congestion: sysctl::read("net.ipv4.tcp_congestion_control").unwrap_or_default(),
    }
}

/// What a task needs is opened before the start, the rest happens after it. Reasons are for people.
fn prepare(task: &Task) -> Result<Work, String> {
    let opening = kinds::work(task).or_else(|| sampling(task));
    opening.ok_or("no kind of probe or load knows what this task is")?()
}

/// What is watched and set beside probes and loads.
fn sampling(task: &Task) -> Option<Opening<'_>> {
    match &task.kind {
        TaskKind::SampleQueues { devices, interval } => {
            opens(|| QueueSampler::prepare(&task.host, devices, *interval), QueueSampler::run)
        }
        TaskKind::SampleSockets { interval } => {
            opens(|| SocketSampler::prepare(*interval), SocketSampler::run)
        }
        TaskKind::ManageQueues { plan, lasts } => {
            opens(|| ManagedQueues::prepare(plan, *lasts), ManagedQueues::run)
        }
        _ => None,
    }
}

fn carry_out(task: &Task, work: Work, window: &Window, shared: &AgentState) {
    let emit = |event: Event| shared.outbox.put(&event);
    let is_server = task.kind.about().is_server;
    let result = guarded(|| work(window, &shared.stop, &emit));
    let now = monotonic_ns();
    let outcome = match result {
        Ok(()) if !is_server && now < window.end_ns() && shared.stop.rings() => {
            Outcome::Failed("it was stopped before its time".into())
        }
        Ok(()) => Outcome::Done,
        Err(why) => Outcome::Failed(why),
    };
    shared.outbox.put(&Event::Ended { task: task.id.clone(), t_ns: window.t(now), outcome });
}

/// Does something that must not take others along when it panics.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "nothing more is known".into());
        Err(format!("it panicked, which is a fault in Quell: {said}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_reason() {
        let said = guarded::<()>(|| panic!("seven is {}", 7)).unwrap_err();
        assert!(said.contains("seven is 7"), "{said}");
        assert_eq!(guarded(|| Ok(5)), Ok(5));
    }
}
