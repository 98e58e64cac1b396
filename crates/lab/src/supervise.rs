//! Carrying out a cell: build the network, start an agent on each host that has tasks, let them begin together, relay what they
//! report into the journal, change what the timeline says, and end everything.
//!
//! ```text
//!              Prepare, Start, Stop                     frames
//!   supervisor ───────────────────► agent (per host) ───────────► supervisor ──► journal
//!        └── timeline: lines and queues
//! ```
//!
//! The same on a host's namespaces and in a guest kernel, where it runs as the first process. It waits in the kernel (ppoll)
//! until an agent reports, a change is due or a second is over; it never spins and never guesses how long something takes.

use crate::build::{self, Built};
use crate::cell::CellPlan;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use quell_model::frame::{self, Decoder};
use quell_model::{Command, Event, Fact, Outcome, Subject, Task, When};
use quell_sys::clock::monotonic_ns;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// Where frames are kept. Each call must reach the kernel that keeps the file, so that a killed run loses at most what was not
/// yet appended.
pub trait Journal {
    /// Appends whole frames.
    fn append(&mut self, frames: &[u8]) -> std::io::Result<()>;
}

/// How long agents may take to get ready or to stop, in nanoseconds of the cell's own clock.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Between "everybody is ready" and the first load.
const LEAD_NS: u64 = 50_000_000;

/// How often progress is written.
const TICK_NS: u64 = 1_000_000_000;

/// Why a cell was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// The network could not be built.
    #[error(transparent)]
    Build(#[from] build::BuildError),
    /// An agent could not be started or spoken to.
    #[error("the agent of `{host}`: {why}")]
    Agent {
        /// Its host.
        host: String,
        /// What went wrong.
        why: String,
    },
    /// The journal can't be written.
    #[error("writing the journal: {0}; is the disk full?")]
    Journal(std::io::Error),
    /// A frame can't be made or read.
    #[error(transparent)]
    Frame(#[from] frame::FrameError),
    /// Waiting failed.
    #[error("waiting for agents: {0}")]
    Wait(nix::Error),
}

struct Agent {
    host: String,
    child: Child,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    decoder: Decoder,
    tasks: Vec<Task>,
}

/// Carries out a plan. `agent` is the program (with arguments) that runs as an agent: Quell itself. Ends with an `End` event in
/// the journal, or with `Abort` and an error.
pub fn supervise(
    plan: &CellPlan,
    agent: &[String],
    journal: &mut dyn Journal,
) -> Result<(), SuperviseError> {
    let begun = monotonic_ns();
    let kernel = nix::sys::utsname::uname()
        .map(|u| u.release().to_string_lossy().into_owned())
        .unwrap_or_default();
    put(journal, &Event::Begin { cell: plan.id.clone(), seed: plan.seed, kernel })?;
    let result = carry_out(plan, agent, journal, begun);
    match &result {
        Ok(()) => put(journal, &Event::End { virtual_ns: monotonic_ns() - begun })?,
        Err(error) => put(journal, &Event::Abort { reason: error.to_string() })?,
    }
    result
}

fn put(journal: &mut dyn Journal, event: &Event) -> Result<(), SuperviseError> {
    journal.append(&frame::encode(event)?).map_err(SuperviseError::Journal)
}

fn carry_out(
    plan: &CellPlan,
    agent: &[String],
    journal: &mut dyn Journal,
    begun: u64,
) -> Result<(), SuperviseError> {
    let mut built = build::build(plan)?;
    let ways = crate::ways::facts(&built.network, &plan.tasks);
    for event in crate::facts::facts(&built, When::Before).into_iter().chain(ways) {
        put(journal, &event)?;
    }
    let mut supervisor = Supervisor {
        agents: start_agents(plan, &built, agent)?,
        ready: BTreeSet::new(),
        ended: BTreeSet::new(),
        begun,
        start: None,
    };
    let result = supervisor.run(plan, &mut built, journal);
    supervisor.dismiss();
    result?;
    for event in crate::facts::facts(&built, When::After) {
        put(journal, &event)?;
    }
    Ok(())
}

/// What agents, and programs that are loads, get of an environment: the same wherever and by whomever a cell is carried out.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/"),
    ("TERM", "dumb"),
];

fn start_agents(
    plan: &CellPlan,
    built: &Built,
    program: &[String],
) -> Result<Vec<Agent>, SuperviseError> {
    let mut agents = Vec::new();
    for (node, space) in built.network.nodes.iter().zip(&built.spaces) {
        let tasks: Vec<Task> = plan.tasks.iter().filter(|t| t.host == node.name).cloned().collect();
        if tasks.is_empty() {
            continue;
        }
        let failed = |why: String| SuperviseError::Agent { host: node.name.clone(), why };
        let spawn = || {
            std::process::Command::new(&program[0])
                .args(&program[1..])
                .current_dir("/")
                .env_clear()
                .envs(ENVIRONMENT)
                .env("QUELL_HOST", &node.name)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
        };
        let mut child = build::with_own_files(&built.network, space, spawn)
            .map_err(|e| failed(e.to_string()))?
            .map_err(|e| failed(format!("starting `{}`: {e}", program.join(" "))))?;
        let input = child.stdin.take();
        let output = child.stdout.take();
        agents.push(Agent {
            host: node.name.clone(),
            child,
            input,
            output,
            decoder: Decoder::new(),
            tasks,
        });
    }
    Ok(agents)
}

struct Supervisor {
    agents: Vec<Agent>,
    /// Tasks that are ready.
    ready: BTreeSet<String>,
    /// Tasks that ended.
    ended: BTreeSet<String>,
    begun: u64,
    /// When the measurement starts.
    start: Option<u64>,
}

impl Supervisor {
    fn run(
        &mut self,
        plan: &CellPlan,
        built: &mut Built,
        journal: &mut dyn Journal,
    ) -> Result<(), SuperviseError> {
        for index in 0..self.agents.len() {
            let tasks = self.agents[index].tasks.clone();
            self.tell(index, &Command::Prepare { tasks })?;
        }
        let patience = monotonic_ns() + PATIENCE_NS;
        while !self
            .all(|supervisor, id| supervisor.ready.contains(id) || supervisor.ended.contains(id))
        {
            if monotonic_ns() >= patience {
                return Err(self.late("did not get ready"));
            }
            self.wait(patience, journal)?;
        }
        let start = monotonic_ns() + LEAD_NS + plan.warm_up.nanos();
        self.start = Some(start);
        for index in 0..self.agents.len() {
            self.tell(index, &Command::Start { at_monotonic_ns: start })?;
        }
        self.measure(plan, built, journal, start)?;
        for index in 0..self.agents.len() {
            self.tell(index, &Command::Stop)?;
            self.agents[index].input = None;
        }
        let patience = monotonic_ns() + PATIENCE_NS;
        while self.agents.iter().any(|a| a.output.is_some()) {
            if monotonic_ns() >= patience {
                break;
            }
            self.wait(patience, journal)?;
        }
        Ok(())
    }

    /// Until every client has ended by itself; they all know when to.
    fn measure(
        &mut self,
        plan: &CellPlan,
        built: &mut Built,
        journal: &mut dyn Journal,
        start: u64,
    ) -> Result<(), SuperviseError> {
        let length = plan.length().nanos() - plan.warm_up.nanos();
        let patience = start + length + PATIENCE_NS;
        let mut changes = plan.changes.iter().peekable();
        let mut tick = start;
        loop {
            let now = monotonic_ns();
            while let Some(change) = changes.next_if(|c| start + c.at.nanos() <= now) {
                built.queues.change(&built.network, &built.spaces, &change.what)?;
                let value = serde_json::to_string(&change.what).unwrap_or_default();
                let fact = Fact::new(When::During, Subject::Change(change.at), value);
                put(journal, &fact.into())?;
            }
            if now >= tick {
                put(journal, &Event::Tick { t_ns: now as i64 - start as i64 })?;
                tick = now + TICK_NS;
            }
            if self.all(|supervisor, id| supervisor.ended.contains(id)) {
                return Ok(());
            }
            if now >= patience {
                return Err(self.late("did not end"));
            }
            let due = changes.peek().map_or(tick, |c| start + c.at.nanos()).min(tick).min(patience);
            self.wait(due, journal)?;
        }
    }

    /// Whether something holds for every client of every agent that still lives.
    fn all(&self, holds: impl Fn(&Supervisor, &str) -> bool) -> bool {
        let preparing = self.start.is_none();
        self.agents
            .iter()
            .filter(|a| a.output.is_some())
            .flat_map(|a| &a.tasks)
            .filter(|t| preparing || !t.kind.is_server())
            .all(|t| holds(self, &t.id))
    }

    fn late(&self, what: &str) -> SuperviseError {
        let preparing = self.start.is_none();
        let waiting = self.agents.iter().flat_map(|a| &a.tasks).find(|t| {
            let open =
                preparing && !self.ready.contains(&t.id) || !preparing && !t.kind.is_server();
            open && !self.ended.contains(&t.id)
        });
        let (host, task) = waiting.map_or(("?", "?"), |t| (t.host.as_str(), t.id.as_str()));
        SuperviseError::Agent {
            host: host.into(),
            why: format!("its task `{task}` {what} in time"),
        }
    }

    fn tell(&mut self, index: usize, command: &Command) -> Result<(), SuperviseError> {
        let bytes = frame::encode(command)?;
        let agent = &mut self.agents[index];
        let sent = match agent.input.as_mut() {
            Some(input) => input.write_all(&bytes),
            None => Ok(()),
        };
        if sent.is_err() {
            // It is gone. What it said last is still in its output, and then the output's end.
            agent.input = None;
        }
        Ok(())
    }

    /// Waits until something comes or the time is there, and relays what came.
    fn wait(&mut self, until: u64, journal: &mut dyn Journal) -> Result<(), SuperviseError> {
        let left = until.saturating_sub(monotonic_ns());
        let timeout = TimeSpec::new((left / 1_000_000_000) as i64, (left % 1_000_000_000) as i64);
        let open: Vec<usize> =
            (0..self.agents.len()).filter(|i| self.agents[*i].output.is_some()).collect();
        let ready: Vec<usize> = {
            let mut fds: Vec<PollFd<'_>> = open
                .iter()
                .filter_map(|i| self.agents[*i].output.as_ref())
                .map(|o| PollFd::new(o.as_fd(), PollFlags::POLLIN))
                .collect();
            match ppoll(&mut fds, Some(timeout), None) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(SuperviseError::Wait(error)),
            }
            let came = |fd: &PollFd<'_>| fd.revents().is_some_and(|r| !r.is_empty());
            open.iter().zip(&fds).filter(|(_, fd)| came(fd)).map(|(i, _)| *i).collect()
        };
        for index in ready {
            self.relay(index, journal)?;
        }
        Ok(())
    }

    fn relay(&mut self, index: usize, journal: &mut dyn Journal) -> Result<(), SuperviseError> {
        let agent = &mut self.agents[index];
        let Some(output) = agent.output.as_mut() else { return Ok(()) };
        let mut buffer = vec![0; 64 * 1024];
        let count = match output.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            Err(_) => 0,
        };
        if count == 0 {
            agent.output = None;
            return self.lost(index, journal);
        }
        agent.decoder.push(&buffer[..count]);
        let mut frames = Vec::new();
        while let Some(event) = self.agents[index].decoder.next_value::<Event>()? {
            match &event {
                Event::Ready { task } => {
                    self.ready.insert(task.clone());
                }
                Event::Ended { task, .. } => {
                    self.ended.insert(task.clone());
                }
                _ => {}
            }
            frames.extend(frame::encode(&event)?);
        }
        if frames.is_empty() {
            return Ok(());
        }
        journal.append(&frames).map_err(SuperviseError::Journal)
    }

    /// An agent is gone: its tasks that had not ended are reported with the reason, and the others go on.
    fn lost(&mut self, index: usize, journal: &mut dyn Journal) -> Result<(), SuperviseError> {
        let agent = &mut self.agents[index];
        agent.input = None;
        agent.output = None;
        // It has ended, and then this changes nothing; or it only closed its output, and nobody hears it any more.
        let _ = agent.child.kill();
        let status = agent.child.wait();
        let why = match &status {
            Ok(status) if status.success() => "its agent ended before it".to_string(),
            Ok(status) => format!("its agent died: {status}"),
            Err(error) => format!("its agent is lost: {error}"),
        };
        let now = monotonic_ns() as i64;
        let t_ns = now - self.start.unwrap_or(self.begun) as i64;
        let open: Vec<String> = agent
            .tasks
            .iter()
            .map(|t| t.id.clone())
            .filter(|id| !self.ended.contains(id))
            .collect();
        for task in open {
            self.ended.insert(task.clone());
            put(journal, &Event::Ended { task, t_ns, outcome: Outcome::Failed(why.clone()) })?;
        }
        Ok(())
    }

    /// Ends agents that did not end by themselves.
    fn dismiss(&mut self) {
        for agent in &mut self.agents {
            agent.input = None;
            if !matches!(agent.child.try_wait(), Ok(Some(_))) {
                // It may have gone in between; then there is nothing to end.
                let _ = agent.child.kill();
                let _ = agent.child.wait();
            }
        }
    }
}

impl std::fmt::Display for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::TaskKind;

    #[derive(Default)]
    struct Kept(Decoder);

    impl Journal for Kept {
        fn append(&mut self, frames: &[u8]) -> std::io::Result<()> {
            self.0.push(frames);
            Ok(())
        }
    }

    #[test]
    fn an_agent_that_died_before_it_was_told_anything_is_told_of_with_its_status() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "exec <&-; echo closed >&2; exit 7"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut closed = [0; 7];
        child.stderr.take().unwrap().read_exact(&mut closed).unwrap();
        let kind = TaskKind::Command { argv: vec!["true".into()] };
        let span = quell_units::Span::ZERO;
        let task = Task {
            id: "work".into(),
            host: "a".into(),
            start_ns: 0,
            duration: span,
            seed: 1,
            kind,
        };
        let agent = Agent {
            host: "a".into(),
            input: child.stdin.take(),
            output: child.stdout.take(),
            child,
            decoder: Decoder::new(),
            tasks: vec![task.clone()],
        };
        let mut supervisor = Supervisor {
            agents: vec![agent],
            ready: BTreeSet::new(),
            ended: BTreeSet::new(),
            begun: monotonic_ns(),
            start: None,
        };
        let mut journal = Kept::default();
        supervisor.tell(0, &Command::Prepare { tasks: vec![task] }).unwrap();
        while supervisor.agents[0].output.is_some() {
            supervisor.wait(monotonic_ns() + PATIENCE_NS, &mut journal).unwrap();
        }
        let event = journal.0.next_value::<Event>().unwrap();
        let Some(Event::Ended { task, outcome: Outcome::Failed(why), .. }) = event else {
            panic!("{event:?}")
        };
        assert_eq!((task.as_str(), why.as_str()), ("work", "its agent died: exit status: 7"));
    }
}
