//! What a cell's supervisor does next: a machine without I/O and without a clock.
//!
//! ```text
//!   Prepare ──► all ready ──► Start ──► all clients ended ──► Stop ──► all gone
//!      └─ patience ─┘            └── timeline, ticks ──┘        └─ patience ─┘
//! ```
//!
//! An agent that dies, or says what can't be, takes its own tasks along, and nobody else's. A message that comes twice counts once.
//!
//! Of agents on other machines more is known ([`Lease`]): each is asked for its clock once a second, from its answers it is known to be
//! there, nothing starts before all of them can, and the loss of one may end it for all.

use super::link::Came;
use quell_model::agent_message::AGENT_VERSION;
use quell_model::{AgentHost, Command, Event, Outcome, Said, Task};
use quell_units::Span;
use std::collections::{BTreeSet, VecDeque};

/// How long agents may take to get ready or to stop, in nanoseconds of the cell's own clock.
pub(super) const PATIENCE_NS: u64 = 10_000_000_000;

/// Between "everybody is ready" and the first load.
const LEAD_NS: u64 = 50_000_000;

/// How often an agent on another machine is asked before the start: of so many the one that took least tells its clock.
const READINGS: u32 = 8;

/// How agents on other machines are held.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    /// One of which nothing was heard for so long is lost; and an agent that hears nothing for so long ends by itself.
    pub lost_after: Span,
    /// Whether the others go on without it.
    pub goes_on: bool,
    /// Whether it ends before the start: to learn whether it could begin.
    pub rehearses: bool,
}

/// How often progress is written.
const TICK_NS: u64 = 1_000_000_000;

/// Something to do, at once and in this order.
#[derive(Debug)]
pub(super) enum Act {
    /// Tell the agent of this index.
    Tell(usize, Command),
    Finish(usize),
    Keep(Event),
    /// Carry out the change of this index of the plan.
    Change(usize),
}

/// Patience is over. What was said in time may still lie unheard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Late {
    /// A task of this host did not get ready, or did not end: the cell fails, for this reason.
    Task { host: String, why: String },
    /// An agent did not stop: it is not waited for.
    Stop,
}

#[derive(Debug)]
enum Phase {
    New,
    /// Patience begins once all were told.
    Preparing {
        patience: Option<u64>,
    },
    Measuring {
        start: u64,
        tick: u64,
    },
    Stopping {
        patience: Option<u64>,
    },
    Over,
}

/// An agent as it is known from what it said.
#[derive(Debug)]
struct AgentHandle {
    host: String,
    tasks: Vec<Task>,
    ready: BTreeSet<String>,
    ended: BTreeSet<String>,
    greeted: bool,
    next: u64,
    gone: bool,
    /// Its clock was asked for, and that was answered, so often.
    asked: u32,
    answered: u32,
    asked_ns: u64,
    heard_ns: u64,
    host_state: Option<AgentHost>,
    /// Its tasks that failed before the start, with the reason.
    refused: Vec<(String, String)>,
}

impl AgentHandle {
    /// Its tasks of which something is awaited: all that prepare, and later the clients.
    fn awaited(&self, preparing: bool) -> impl Iterator<Item = &Task> {
        let settled =
            move |id: &str| self.ended.contains(id) || preparing && self.ready.contains(id);
        let tasks = self.tasks.iter().filter(move |t| preparing || !t.kind.about().is_server);
        tasks.filter(move |t| !settled(&t.id))
    }
}

#[derive(Debug)]
pub(super) struct Machine {
    agents: Vec<AgentHandle>,
    /// When the plan's changes are due, after the start.
    changes: VecDeque<(u64, usize)>,
    warm_up_ns: u64,
    /// From the start of the measurement to its end.
    length_ns: u64,
    begun: u64,
    start: Option<u64>,
    phase: Phase,
    lease: Option<Lease>,
    /// The longest round trip of a question.
    round_trip_ns: u64,
    /// Hosts that were lost or could not begin, with the reason, where that ends it for all.
    failed: Vec<(String, String)>,
}

impl Machine {
    /// For agents by host, with the tasks of each. `length` begins with the warm-up; `now` is the cell's beginning.
    pub fn new(
        agents: impl IntoIterator<Item = (String, Vec<Task>)>,
        changes: impl IntoIterator<Item = Span>,
        warm_up: Span,
        length: Span,
        now: u64,
    ) -> Self {
        let known = |(host, tasks)| AgentHandle {
            host,
            tasks,
            ready: BTreeSet::new(),
            ended: BTreeSet::new(),
            greeted: false,
            next: 0,
            gone: false,
            asked: 0,
            answered: 0,
            asked_ns: 0,
            heard_ns: now,
            host_state: None,
            refused: Vec::new(),
        };
        Self {
            agents: agents.into_iter().map(known).collect(),
            changes: changes.into_iter().map(|at| at.nanos()).zip(0..).collect(),
            warm_up_ns: warm_up.nanos(),
            length_ns: length.nanos() - warm_up.nanos(),
            begun: now,
            start: None,
            phase: Phase::New,
            lease: None,
            round_trip_ns: 0,
            failed: Vec::new(),
        }
    }

    /// The same for agents on other machines.
    pub fn of_machines(self, lease: Lease) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// What ended it for all.
    pub fn failed(&self) -> &[(String, String)] {
        &self.failed
    }

    pub fn host_state(&self, index: usize) -> Option<&AgentHost> {
        self.agents[index].host_state.as_ref()
    }

    /// Ends it, whatever is still running.
    pub fn stop(&mut self, acts: &mut Vec<Act>) {
        for n in 0..self.agents.len() {
            acts.extend([Act::Tell(n, Command::Stop), Act::Finish(n)]);
        }
        self.phase = Phase::Stopping { patience: None };
    }

    /// Questions that are due, and the agents that are lost since nothing was heard of them.
    fn keep(&mut self, lease: Lease, now: u64, acts: &mut Vec<Act>) {
        for index in 0..self.agents.len() {
            let agent = &mut self.agents[index];
            if agent.gone {
                continue;
            }
            if now >= agent.lost_at(lease) {
                let why = match agent.greeted {
                    true => format!("nothing was heard of it for {}", lease.lost_after),
                    false => "no agent began there".to_owned(),
                };
                acts.extend(self.lose(index, &why, now).into_iter().map(Act::Keep));
                acts.push(Act::Finish(index));
                continue;
            }
            if now >= agent.asks_at() {
                agent.asked += 1;
                agent.asked_ns = now;
                let ask = Command::Ask { at_ns: now, lease: lease.lost_after };
                acts.push(Act::Tell(index, ask));
            }
        }
    }

    /// When the measurement started, or 0.
    pub fn start_ns(&self) -> u64 {
        self.start.unwrap_or(0)
    }

    /// Whether nothing is left to do.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// When there is something to do, if nothing comes until then.
    pub fn due(&self) -> u64 {
        let kept = self.lease.into_iter().flat_map(|lease| {
            let there = self.agents.iter().filter(|agent| !agent.gone);
            there.map(move |agent| agent.asks_at().min(agent.lost_at(lease)))
        });
        kept.chain([self.next_step()]).min().unwrap_or(0)
    }

    fn next_step(&self) -> u64 {
        match self.phase {
            Phase::New | Phase::Over => 0,
            Phase::Preparing { patience } | Phase::Stopping { patience } => patience.unwrap_or(0),
            Phase::Measuring { start, tick } => {
                let change = self.changes.front().map_or(tick, |(at, _)| start + at);
                change.min(tick).min(start + self.length_ns + PATIENCE_NS)
            }
        }
    }

    /// What is to be done now. After each act it is asked again, until there is none.
    pub fn step(&mut self, now: u64) -> Result<Vec<Act>, Late> {
        let mut acts = Vec::new();
        let patience_ns = PATIENCE_NS + self.lease.map_or(0, |lease| lease.lost_after.nanos());
        if let Some(lease) = self.lease.filter(|_| !matches!(self.phase, Phase::New | Phase::Over))
        {
            self.keep(lease, now, &mut acts);
        }
        if !self.failed.is_empty() && matches!(self.phase, Phase::Measuring { .. }) {
            self.stop(&mut acts);
            return Ok(acts);
        }
        loop {
            match &mut self.phase {
                Phase::New => {
                    let prepare = |(n, a): (usize, &AgentHandle)| {
                        Act::Tell(n, Command::Prepare { tasks: a.tasks.clone() })
                    };
                    acts.extend(self.agents.iter().enumerate().map(prepare));
                    self.phase = Phase::Preparing { patience: None };
                    return Ok(acts);
                }
                Phase::Preparing { patience } => {
                    let patience = *patience.get_or_insert(now + patience_ns);
                    if let Some(late) = self.awaited(true) {
                        return if now < patience {
                            Ok(acts)
                        } else {
                            Err(late("did not get ready"))
                        };
                    }
                    if let Some(lease) = self.lease {
                        let unknown = |a: &AgentHandle| !a.gone && a.answered < READINGS;
                        if self.agents.iter().any(unknown) && now < patience {
                            return Ok(acts);
                        }
                        self.refusals();
                        if lease.rehearses || !self.failed.is_empty() {
                            self.stop(&mut acts);
                            return Ok(acts);
                        }
                    }
                    let start = now + LEAD_NS + 4 * self.round_trip_ns + self.warm_up_ns;
                    self.start = Some(start);
                    let command = Command::Start { at_monotonic_ns: start };
                    acts.extend((0..self.agents.len()).map(|n| Act::Tell(n, command.clone())));
                    self.phase = Phase::Measuring { start, tick: start };
                }
                Phase::Measuring { start, tick } => {
                    let start = *start;
                    while let Some((_, change)) =
                        self.changes.pop_front_if(|(at, _)| start + *at <= now)
                    {
                        acts.push(Act::Change(change));
                    }
                    if now >= *tick {
                        acts.push(Act::Keep(Event::Tick { t_ns: now as i64 - start as i64 }));
                        *tick = now + TICK_NS;
                    }
                    if let Some(late) = self.awaited(false) {
                        let patience = start + self.length_ns + PATIENCE_NS;
                        return if now < patience { Ok(acts) } else { Err(late("did not end")) };
                    }
                    self.stop(&mut acts);
                    return Ok(acts);
                }
                Phase::Stopping { patience } => {
                    let patience = *patience.get_or_insert(now + PATIENCE_NS);
                    if self.agents.iter().any(|a| !a.gone) {
                        return if now < patience { Ok(acts) } else { Err(Late::Stop) };
                    }
                    self.phase = Phase::Over;
                }
                Phase::Over => return Ok(acts),
            }
        }
    }

    /// What an agent said: what of it is to be kept, and whether nobody need listen to it any more.
    pub fn hear(&mut self, index: usize, came: Came, now: u64) -> (Vec<Event>, bool) {
        let mut kept = Vec::new();
        let mut over = came.over;
        if self.agents[index].gone {
            return (kept, over.is_some());
        }
        self.agents[index].heard_ns = now;
        for said in came.said {
            if let Said::Clock { asked_ns, .. } = said {
                self.round_trip_ns = self.round_trip_ns.max(now.saturating_sub(asked_ns));
            }
            match self.agents[index].take(said) {
                Ok(event) => kept.extend(event),
                Err(why) => {
                    over = Some(why);
                    break;
                }
            }
        }
        let gone = over.is_some();
        if let Some(why) = over {
            kept.extend(self.lose(index, &why, now));
        }
        (kept, gone)
    }

    /// An agent is gone: its tasks that had not ended are over, with the reason.
    fn lose(&mut self, index: usize, why: &str, now: u64) -> Vec<Event> {
        let t_ns = now as i64 - self.start.unwrap_or(self.begun) as i64;
        let goes_on = match (self.lease, &self.phase) {
            (None, _) | (_, Phase::Stopping { .. } | Phase::Over) => true,
            (_, Phase::New | Phase::Preparing { .. }) => false,
            (Some(lease), Phase::Measuring { .. }) => lease.goes_on,
        };
        let agent = &mut self.agents[index];
        if !goes_on {
            self.failed.push((agent.host.clone(), why.to_owned()));
        }
        agent.gone = true;
        let open: Vec<String> = agent
            .tasks
            .iter()
            .map(|t| &t.id)
            .filter(|id| !agent.ended.contains(*id))
            .cloned()
            .collect();
        agent.ended.extend(open.iter().cloned());
        let ended = |task| Event::Ended { task, t_ns, outcome: Outcome::Failed(why.to_owned()) };
        open.into_iter().map(ended).collect()
    }

    /// Tasks that failed before the start, of hosts that are there: with them it does not begin.
    fn refusals(&mut self) {
        for agent in self.agents.iter().filter(|agent| !agent.gone) {
            let why = |(task, why): &(String, String)| {
                (agent.host.clone(), format!("its task `{task}`: {why}"))
            };
            self.failed.extend(agent.refused.iter().map(why));
        }
    }

    /// The first task that is awaited, as an error in these words.
    fn awaited(&self, preparing: bool) -> Option<impl Fn(&str) -> Late> {
        let (agent, task) =
            self.agents.iter().find_map(|a| Some((a, a.awaited(preparing).next()?)))?;
        Some(move |what: &str| Late::Task {
            host: agent.host.clone(),
            why: format!("its task `{}` {what} in time", task.id),
        })
    }
}

impl AgentHandle {
    /// When it is asked next: at once while its clock is not known well, if it answered.
    fn asks_at(&self) -> u64 {
        match self.asked {
            0 if !self.greeted => u64::MAX,
            0 => 0,
            asked if asked == self.answered && asked < READINGS => 0,
            _ => self.asked_ns.saturating_add(TICK_NS),
        }
    }

    /// When it is lost, if nothing is heard of it until then. To connect takes its time.
    fn lost_at(&self, lease: Lease) -> u64 {
        let connecting = if self.greeted { 0 } else { PATIENCE_NS };
        self.heard_ns.saturating_add(lease.lost_after.nanos()).saturating_add(connecting)
    }

    /// A message: the event in it, if it is new; or why it can't be.
    fn take(&mut self, said: Said) -> Result<Option<Event>, String> {
        let (sequence, event) = match said {
            Said::Hello { version: AGENT_VERSION, .. } => {
                self.greeted = true;
                return Ok(None);
            }
            Said::Hello { version, .. } => {
                return Err(format!("its agent speaks version {version}, and not {AGENT_VERSION}"));
            }
            Said::Event { .. } if !self.greeted => {
                return Err("its agent did not say who it is".into());
            }
            Said::Clock { .. } => {
                self.answered += 1;
                return Ok(None);
            }
            Said::Host(host) => {
                self.host_state = Some(host);
                return Ok(None);
            }
            Said::Event { sequence, event } => (sequence, event),
        };
        if sequence < self.next {
            return Ok(None);
        }
        if sequence > self.next {
            return Err(format!("message {} of its agent was lost", self.next));
        }
        self.next += 1;
        match &event {
            Event::Ready { task } => drop(self.ready.insert(task.clone())),
            Event::Ended { task, outcome, .. } => {
                // A task ends once.
                if !self.ended.insert(task.clone()) {
                    return Ok(None);
                }
                if let Outcome::Failed(why) = outcome
                    && !self.ready.contains(task)
                {
                    self.refused.push((task.clone(), why.clone()));
                }
            }
            _ => {}
        }
        Ok(Some(event))
    }
}
