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
//! The same on a host's namespaces and in a guest kernel, where it runs as the first process. It waits in the kernel (ppoll)
//! until an agent reports, a change is due or a second is over; it never spins and never guesses how long something takes.

mod link;
mod machine;

use crate::build::{self, Built};
use crate::cell::CellPlan;
use link::{Link, Process};
use machine::{Act, Late, Machine};
use quell_model::{Command, Event, Fact, Subject, Task, When, frame};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Alarm;
use std::process::Stdio;

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
    close(journal, &result, monotonic_ns() - begun)?;
    result
}

/// The last event: how a cell ended that took so long.
fn close(
    journal: &mut dyn Journal,
    result: &Result<(), SuperviseError>,
    virtual_ns: u64,
) -> Result<(), SuperviseError> {
    match result {
        Ok(()) => put(journal, &Event::End { virtual_ns }),
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
        let at = plan.changes.iter().map(|change| change.at);
        let machine = Machine::new(agents, at, plan.warm_up, plan.length(), begun);
        let mut change = |index: usize| {
            let change = &plan.changes[index];
            built.queues.change(&built.network, &built.spaces, &change.what)?;
            let value = serde_json::to_string(&change.what).unwrap_or_default();
            Ok(Fact::new(When::During, Subject::Change(change.at), value))
        };
        let mut alarm = Alarm::new().map_err(SuperviseError::Wait)?;
        let mut wait = |links: &[Process], until| {
            link::wait(links, &mut alarm, until).map_err(SuperviseError::Wait)
        };
        Supervisor {
            machine,
            links: &mut links,
            now: &monotonic_ns,
            wait: &mut wait,
            change: &mut change,
        }
        .run(journal)
    });
    links.iter_mut().for_each(Process::dismiss);
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
    /// Carries out a change of the plan; what is then known.
    change: &'a mut dyn FnMut(usize) -> Result<Fact, SuperviseError>,
}

impl<L: Link> Supervisor<'_, L> {
    fn run(&mut self, journal: &mut dyn Journal) -> Result<(), SuperviseError> {
        while !self.machine.is_over() {
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
                        Late::Stop => Ok(()),
                    };
                }
            }
        }
        Ok(())
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
            Act::Tell(index, command) => self.links[index].send(&command)?,
            Act::Finish(index) => self.links[index].finish(),
            Act::Keep(event) => put(journal, &event)?,
            Act::Change(index) => put(journal, &(self.change)(index)?.into())?,
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
