//! Carrying out a cell: build the network, start an agent on each host that has tasks, let them begin together, relay what they
//! report into the journal, change what the timeline says, and end everything.
//!
//! ```text
//!              Prepare, Start, Stop                     frames
//!   supervisor ───────────────────► agent (per host) ───────────► supervisor ──► journal
//!        └── timeline: lines and queues
//! ```
//!
//! What is done next is decided by a [machine](self::machine) without I/O; what carries commands and events is a [link](self::link).
//! The same on a host's namespaces and in a guest kernel, where it runs as the first process; and for agents on other machines, which
//! others started ([`supervise_machines`]): there no network is built. It waits in the kernel (ppoll)
//! until an agent reports, a change is due or a second is over; it never spins and never guesses how long something takes.

mod link;
mod machine;

use crate::build::{self, Built};
use crate::cell::CellPlan;
use crate::topology::Network;
pub use link::ClockReading;
use link::{Link, Process};
pub use machine::Lease;
use machine::{Act, Late, Machine};
use quell_model::{AgentHost, Command, Event, Fact, Subject, Task, When, frame};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, Bell};
use std::cell::Cell;
use std::process::{Child, Stdio};

/// Where frames are kept. Each call must reach the kernel that keeps the file, so that a killed run loses at most what was not
/// yet appended.
pub trait Journal {
    /// Appends whole frames; after an error, none of them is there in part.
    fn append(&mut self, frames: &[u8]) -> std::io::Result<()>;
}

/// How long, after patience is over, what lies unheard is still taken, in nanoseconds of the cell's own clock.
const UNHEARD_NS: u64 = 60_000_000_000;

#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    #[error(transparent)]
    Build(#[from] build::BuildError),
    #[error("the agent of `{host}`: {why}")]
    Agent { host: String, why: String },
    #[error("writing the journal: {0}; is the disk full?")]
    Journal(std::io::Error),
    #[error(transparent)]
    Frame(#[from] frame::FrameError),
    #[error("waiting for agents: {0}")]
    Wait(SysError),
    /// Hosts that were lost or could not begin.
    #[error("{}", of_hosts(.0))]
    Hosts(Vec<(String, String)>),
    #[error("it was stopped")]
    Stopped,
}

fn of_hosts(failed: &[(String, String)]) -> String {
    failed.iter().map(|(host, why)| format!("`{host}`: {why}")).collect::<Vec<_>>().join("\n")
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
    more_descriptors();
    let result = carry_out(plan, agent, journal, begun);
    close(journal, &result, monotonic_ns() - begun)?;
    result
}

/// Each agent takes some of the supervisor: as root room for thousands, else as many as the system lets it. Without, what is refused says so.
fn more_descriptors() {
    use nix::sys::resource::{Resource::RLIMIT_NOFILE, getrlimit, setrlimit};
    let Ok((_, most)) = getrlimit(RLIMIT_NOFILE) else { return };
    if setrlimit(RLIMIT_NOFILE, 1 << 16, 1 << 16).is_err() {
        let _ = setrlimit(RLIMIT_NOFILE, most, most);
    }
}

/// The last event: how a cell ended that took so long.
fn close<T>(
    journal: &mut dyn Journal,
    result: &Result<T, SuperviseError>,
    virtual_ns: u64,
) -> Result<(), SuperviseError> {
    match result {
        Ok(_) => put(journal, &Event::End { virtual_ns }),
        Err(SuperviseError::Stopped) => put(journal, &Event::Stopped { virtual_ns }),
        Err(error) => put(journal, &Event::Abort { reason: error.to_string() }),
    }
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
    let ways = crate::shared_line::facts(&built.network, &plan.tasks);
    for event in crate::facts::facts(&built, When::Before).into_iter().chain(ways) {
        put(journal, &event)?;
    }
    let mut links = Vec::new();
    let mut agents = Vec::new();
    let result = start_agents(plan, &built, agent, &mut links, &mut agents).and_then(|()| {
        // Those of the plan, and the steps of lines that change by themselves.
        let steps = built.queues.steps(plan.length()).into_iter().map(|at| (at, None));
        let asked = plan.changes.iter().map(|change| (change.at, Some(&change.what)));
        let mut changes: Vec<_> = steps.chain(asked).collect();
        changes.sort_by_key(|(at, _)| *at);
        let at = changes.iter().map(|(at, _)| *at);
        let machine = Machine::new(agents, at, plan.warm_up, plan.length(), begun);
        let mut change = |index: usize, start_ns: u64| {
            let (at, what) = changes[index];
            let Some(what) = what else {
                built.queues.step(&built.network, &built.spaces, at, start_ns)?;
                return Ok(None);
            };
            built.queues.change(&built.network, &built.spaces, what)?;
            let value = serde_json::to_string(what).unwrap_or_default();
            Ok(Some(Fact::new(When::During, Subject::Change(at), value)))
        };
        let mut alarm = Alarm::new().map_err(SuperviseError::Wait)?;
        let mut wait = |links: &[Process], until| {
            link::wait(links, &mut alarm, None, until).map_err(SuperviseError::Wait)
        };
        Supervisor {
            machine,
            links: &mut links,
            now: &monotonic_ns,
            wait: &mut wait,
            change: &mut change,
            stops: &|| false,
        }
        .run(journal)
        .map(drop)
    });
    links.iter_mut().for_each(Process::dismiss);
    result?;
    for event in crate::facts::facts(&built, When::After) {
        put(journal, &event)?;
    }
    Ok(())
}

/// The machine behind a host: what its agent told, and its clock less ours before the start and after it.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineState {
    pub host: String,
    pub agent: AgentHost,
    pub clock: [Option<ClockReading>; 2],
}

/// Carries out the tasks of a plan by agents that were started already, a child of ours each, by host: on this machine, or a program that reaches
/// another one. `stop` ends it early. Ends with `End`, `Stopped` or `Abort` in the journal, as [`supervise`] does.
pub fn supervise_machines(
    plan: &CellPlan,
    network: &Network,
    agents: Vec<(String, Child)>,
    lease: Lease,
    journal: &mut dyn Journal,
    stop: &Bell,
) -> Result<Vec<MachineState>, SuperviseError> {
    let begun = monotonic_ns();
    put(journal, &Event::Begin { cell: plan.id.clone(), seed: plan.seed, kernel: String::new() })?;
    let mut links = Vec::new();
    let mut tasks = Vec::new();
    for (host, child) in agents {
        links.push(Process::new(child).map_err(SuperviseError::Wait)?);
        let its = plan.tasks.iter().filter(|task| task.host == host);
        tasks.push((host.clone(), its.cloned().collect()));
    }
    for event in crate::shared_line::facts(network, &plan.tasks) {
        put(journal, &event)?;
    }
    let hosts: Vec<String> = tasks.iter().map(|(host, _)| host.clone()).collect();
    let machine = Machine::new(tasks, [], plan.warm_up, plan.length(), begun).of_machines(lease);
    let mut alarm = Alarm::new().map_err(SuperviseError::Wait)?;
    // Once it is known, it is not waited for: it rings on.
    let told = Cell::new(false);
    let mut wait = |links: &[Process], until| {
        let stop = (!told.get()).then_some(stop);
        link::wait(links, &mut alarm, stop, until).map_err(SuperviseError::Wait)
    };
    let ran = Supervisor {
        machine,
        links: &mut links,
        now: &monotonic_ns,
        wait: &mut wait,
        change: &mut |_, _| Err(SuperviseError::Stopped),
        stops: &|| stop.rings() && !told.replace(true),
    }
    .run(journal);
    links.iter_mut().for_each(Process::dismiss);
    let result = ran.and_then(|machine| {
        let mut states = Vec::new();
        for (index, (host, link)) in hosts.iter().zip(&links).enumerate() {
            let agent = machine.host_state(index).cloned().unwrap_or_default();
            let state = MachineState { host: host.clone(), agent, clock: link.clock };
            if !lease.rehearses {
                put(journal, &state.fact())?;
            }
            states.push(state);
        }
        match (machine.failed(), told.get()) {
            (_, true) => Err(SuperviseError::Stopped),
            ([], false) => Ok(states),
            (failed, false) => Err(SuperviseError::Hosts(failed.to_vec())),
        }
    });
    close(journal, &result, monotonic_ns() - begun)?;
    result
}

impl MachineState {
    /// As the manifest has it.
    fn fact(&self) -> Event {
        let AgentHost { quell, kernel, disciplined, most_wrong_us, congestion } = &self.agent;
        let clock = |clock: &Option<ClockReading>| {
            clock.map(|c| serde_json::json!({"offset_ns": c.offset_ns, "bound_ns": c.bound_ns}))
        };
        let [before, after] = &self.clock;
        let value = serde_json::json!({
            "quell": quell, "kernel": kernel, "clock_disciplined": disciplined,
            "clock_most_wrong_us": most_wrong_us, "before": clock(before), "after": clock(after),
            "congestion": congestion,
        });
        Fact::new(When::After, Subject::Host(self.host.clone()), value.to_string()).into()
    }
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
    links: &mut Vec<Process>,
    agents: &mut Vec<(String, Vec<Task>)>,
) -> Result<(), SuperviseError> {
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
        let child = build::with_own_files(&built.network, space, spawn)
            .map_err(|e| failed(e.to_string()))?
            .map_err(|e| failed(format!("starting `{}`: {e}", program.join(" "))))?;
        links.push(Process::new(child).map_err(SuperviseError::Wait)?);
        agents.push((node.name.clone(), tasks));
    }
    Ok(())
}

/// Waits until a time for what comes over links; those that are to be attended to, by index.
type Wait<'a, L> = dyn FnMut(&[L], u64) -> Result<Vec<usize>, SuperviseError> + 'a;

/// Does what the machine says, over links of one kind.
struct Supervisor<'a, L> {
    machine: Machine,
    links: &'a mut [L],
    now: &'a dyn Fn() -> u64,
    wait: &'a mut Wait<'a, L>,
    /// Carries out a change; what is then known. It is told when the measurement started.
    change: &'a mut dyn FnMut(usize, u64) -> Result<Option<Fact>, SuperviseError>,
    /// Tells once that it is to end early.
    stops: &'a dyn Fn() -> bool,
}

impl<L: Link> Supervisor<'_, L> {
    fn run(mut self, journal: &mut dyn Journal) -> Result<Machine, SuperviseError> {
        while !self.machine.is_over() {
            if (self.stops)() {
                let mut acts = Vec::new();
                self.machine.stop(&mut acts);
                for act in acts {
                    self.act(act, journal)?;
                }
            }
            match self.machine.step((self.now)()) {
                Ok(acts) if acts.is_empty() => {
                    self.listen(self.machine.due(), journal)?;
                }
                Ok(acts) => {
                    for act in acts {
                        self.act(act, journal)?;
                    }
                }
                // Where this process was held up (a slow disk), what was said in time may lie unheard.
                Err(late) => {
                    let over = self.machine.due().saturating_add(UNHEARD_NS);
                    if (self.now)() < over && self.listen(0, journal)? {
                        continue;
                    }
                    return match late {
                        Late::Task { host, why } => Err(SuperviseError::Agent { host, why }),
                        Late::Stop => Ok(self.machine),
                    };
                }
            }
        }
        Ok(self.machine)
    }

    /// Until something came or the time is there; whether anything came.
    fn listen(&mut self, until: u64, journal: &mut dyn Journal) -> Result<bool, SuperviseError> {
        if self.machine.is_over() {
            return Ok(false);
        }
        let ready = (self.wait)(self.links, until)?;
        for index in &ready {
            let came = self.links[*index].attend();
            let (kept, gone) = self.machine.hear(*index, came, (self.now)());
            if gone {
                self.links[*index].finish();
            }
            put_all(journal, &kept)?;
        }
        Ok(!ready.is_empty())
    }

    fn act(&mut self, act: Act, journal: &mut dyn Journal) -> Result<(), SuperviseError> {
        match act {
            Act::Tell(index, Command::Start { at_monotonic_ns }) => {
                let link = &mut self.links[index];
                let at_monotonic_ns = at_monotonic_ns.saturating_add_signed(link.offset_ns());
                link.send(&Command::Start { at_monotonic_ns })?;
            }
            Act::Tell(index, Command::Ask { lease, .. }) => {
                let at_ns = (self.now)();
                self.links[index].send(&Command::Ask { at_ns, lease })?;
            }
            Act::Tell(index, command) => self.links[index].send(&command)?,
            Act::Finish(index) => self.links[index].finish(),
            Act::Keep(event) => put(journal, &event)?,
            Act::Change(index) => {
                if let Some(fact) = (self.change)(index, self.machine.start_ns())? {
                    put(journal, &fact.into())?;
                }
            }
        }
        Ok(())
    }
}

/// In one piece, if there is anything.
fn put_all(journal: &mut dyn Journal, events: &[Event]) -> Result<(), SuperviseError> {
    let mut frames = Vec::new();
    for event in events {
        frames.extend(frame::encode(event)?);
    }
    if frames.is_empty() {
        Ok(())
    } else {
        journal.append(&frames).map_err(SuperviseError::Journal)
    }
}

#[cfg(test)]
mod tests;
