//! `quell agent --bus`: measures by its plan while its lease lasts, keeps what it measured until the collector has it.
//!
//! ```text
//!   broker ──► answers, plan ──► Courier ──► in force? ──► Measuring ──► records ──┐
//!     ▲                            ▲                                               │ each second
//!     └────────── reports ─────────┴──────────────── Journal ◄─────────────────────┘
//! ```

use crate::courier::{Courier, CourierNews};
use crate::journal::{Journal, JournalError};
use crate::limits::RefusedStart;
use crate::measure::{Measured, Measuring};
use crate::messages::{from_agent, read_answer, to_agent};
use crate::name::{NameError, check_name};
use crate::plan::AgentPlan;
use crate::record::SlotEnd;
use quell_bus::{Bus, BusConfig, BusEvent};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, Bell, readable, wait};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A killed agent loses what it measured since it last wrote.
const WRITE_NS: u64 = 1_000_000_000;
/// How often slots of what is not measured get their ends.
const SETTLE_NS: u64 = 60 * WRITE_NS;

pub struct AgentConfig {
    pub name: String,
    pub host: String,
    pub bus: BusConfig,
    pub journal: PathBuf,
    pub most_bytes: u64,
    /// Nanoseconds since 1970: [`quell_sys::wall::realtime_ns`].
    pub wall: fn() -> u64,
    /// `quell` itself, which measures paths, pages and bulk tests as a child.
    pub program: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Name(#[from] NameError),
    /// Another one has its name, or its collector is of another version.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    System(#[from] SysError),
}

/// What of a plan this host's owner forbids: [`crate::limits::Limits::check`].
pub type Forbids<'a> = &'a dyn Fn(&AgentPlan) -> Vec<RefusedStart>;

/// Until the bell rings, or another agent of its name is there. `tell` gets a line for a person when something changed.
pub fn run(
    config: AgentConfig,
    stop: &Bell,
    forbids: Forbids<'_>,
    tell: &mut dyn FnMut(&str),
) -> Result<(), AgentError> {
    check_name(&config.name)?;
    let journal = Journal::open(&config.journal, config.most_bytes)?;
    let run = quell_sys::secret::number()?;
    let courier = Courier::new(&config.name, &config.host, journal, run, boot());
    let mut bus = config.bus;
    bus.subscriptions.subjects = vec![to_agent(&config.name)];
    let mut agent = Agent {
        subject: from_agent(&config.name),
        program: config.program,
        wall: config.wall,
        courier,
        bus: Bus::start(bus)?,
        is_connected: false,
        measuring: None,
        measured: Vec::new(),
        write_ns: 0,
        bell: Arc::new(Bell::new()?),
        is_new: true,
        forbids,
        refused: BTreeMap::new(),
        forbidden: Vec::new(),
        ahead_ns: (config.wall)().saturating_sub(monotonic_ns()),
        settle_ns: 0,
        said: String::new(),
        tell,
    };
    let ended = agent.until(stop);
    agent.silence("the agent was stopped");
    agent.write();
    agent.report(true);
    ended
}

/// Another number each time this machine starts: a copy of its disk elsewhere is another agent.
fn boot() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

struct Agent<'a> {
    program: PathBuf,
    wall: fn() -> u64,
    subject: String,
    courier: Courier,
    bus: Bus,
    is_connected: bool,
    measuring: Option<Measuring>,
    measured: Vec<Measured>,
    write_ns: u64,
    /// Rings when something was measured.
    bell: Arc<Bell>,
    /// Nothing was measured in this process yet.
    is_new: bool,
    forbids: Forbids<'a>,
    /// Of the plan: what is not measured, by peer and class, and why.
    refused: BTreeMap<(String, String), String>,
    forbidden: Vec<RefusedStart>,
    /// Of the wall clock, what the monotonic clock is behind: another one where it was set, or the machine slept.
    ahead_ns: u64,
    /// When slots of that get their ends next.
    settle_ns: u64,
    said: String,
    tell: &'a mut dyn FnMut(&str),
}

impl Agent<'_> {
    fn until(&mut self, stop: &Bell) -> Result<(), AgentError> {
        let mut alarm = Alarm::new()?;
        loop {
            while let Some(event) = self.bus.next_event() {
                self.bus_event(event)?;
            }
            self.take();
            let now_ns = monotonic_ns();
            self.follow(now_ns)?;
            if now_ns >= self.write_ns && !self.measured.is_empty() {
                self.write();
                self.write_ns = now_ns + WRITE_NS;
            }
            self.settle(now_ns);
            if self.is_connected && now_ns >= self.courier.due_ns() {
                self.report(false);
            }
            if stop.rings() {
                return Ok(());
            }
            alarm.set(self.next_ns())?;
            wait(&mut [
                readable(stop),
                readable(&self.bus),
                readable(&*self.bell),
                readable(&alarm),
            ])?;
        }
    }

    /// When it has something to do by itself.
    fn next_ns(&self) -> Option<u64> {
        let write = (!self.measured.is_empty()).then_some(self.write_ns);
        let report = self.is_connected.then(|| self.courier.due_ns());
        let lease = self.courier.in_force(monotonic_ns()).map(|(_, until_ns)| until_ns);
        let settle = (!self.refused.is_empty()).then_some(self.settle_ns);
        [write, report, lease, settle].into_iter().flatten().min()
    }

    fn bus_event(&mut self, event: BusEvent) -> Result<(), AgentError> {
        match event {
            BusEvent::Connected { version } => {
                self.is_connected = true;
                self.courier.connected();
                self.say(&format!("connected to nats-server {version}"));
            }
            BusEvent::Lost { why } => {
                self.is_connected = false;
                self.say(&why);
            }
            BusEvent::Refused { why } => self.say(&why),
            BusEvent::Message { payload, .. } => {
                let Ok(answer) = read_answer(&payload) else { return Ok(()) };
                match self.courier.heard(&answer, monotonic_ns())? {
                    CourierNews::Nothing => {}
                    CourierNews::Plan(text) => match self.courier.take_plan(&text, self.forbids) {
                        Ok(refused) => self.forbidden = refused,
                        Err(why) => self.say(&why),
                    },
                    CourierNews::Refused(why) => return Err(AgentError::Refused(why)),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Measures what is in force, and nothing else.
    fn follow(&mut self, now_ns: u64) -> Result<(), AgentError> {
        let ahead_ns = (self.wall)().saturating_sub(now_ns);
        let before_ns = std::mem::replace(&mut self.ahead_ns, ahead_ns);
        if ahead_ns.abs_diff(before_ns) > WRITE_NS {
            // Slots are by that clock, and begin anew. A time that comes again has others.
            self.courier.journal.set_back(before_ns.saturating_sub(ahead_ns));
            self.silence("the clock was set, or the machine slept");
        }
        let wanted = self.courier.in_force(now_ns).map(|(plan, _)| plan.clone());
        let wanted_revision = wanted.as_ref().map(|plan| plan.revision);
        if wanted_revision == self.measuring.as_ref().map(|measuring| measuring.revision) {
            return Ok(());
        }
        self.silence("the plan changed, or it was not renewed in time");
        let Some(plan) = wanted else {
            self.say("silent: no plan is in force");
            return Ok(());
        };
        // The time since it last measured: slots of it that nobody began.
        let end = match std::mem::take(&mut self.is_new) {
            true => SlotEnd::Unknown,
            false => SlotEnd::NotStarted("no plan was in force".into()),
        };
        let (wall_ns, start_ns) = (self.wall_ns(), monotonic_ns());
        let open = self.courier.journal.slots().settled(wall_ns, &|_, _| Some(end.clone()));
        self.measured.extend(open);
        self.write();
        let followed = self.courier.journal.follow(&plan, wall_ns);
        self.kept(followed);
        self.say(&format!(
            "measures {} probes of plan {} in leases of {}",
            plan.probes.len(),
            plan.revision,
            plan.lease
        ));
        let mut probes = Vec::new();
        for (at, probe) in plan.probes.into_iter().enumerate() {
            match self.forbidden.iter().find(|one| one.probe == Some(at)) {
                None => probes.push(probe),
                Some(one) => {
                    self.refused.insert((probe.peer, probe.class), one.why.clone());
                }
            }
        }
        let start = (wall_ns, start_ns);
        let measuring =
            Measuring::begin(plan.revision, start, &probes, &self.bell, &self.program, self.wall)?;
        self.measuring = Some(measuring);
        self.bell.ring();
        Ok(())
    }

    /// Slots of what is not measured end, with the reason.
    fn settle(&mut self, now_ns: u64) {
        if self.measuring.is_some() && !self.refused.is_empty() && now_ns >= self.settle_ns {
            self.settle_ns = now_ns + SETTLE_NS;
            self.close(None);
        }
    }

    /// Ends what is being measured, at once.
    fn silence(&mut self, why: &str) {
        if let Some(measuring) = self.measuring.take() {
            self.measured.extend(measuring.end());
            self.write();
            self.close(Some(why));
            self.refused.clear();
        }
    }

    /// Slots until now that have no end were not started: for the reason why they are not measured, else for this one.
    fn close(&mut self, why: Option<&str>) {
        let end = |peer: &str, class: &str| {
            let refused = self.refused.get(&(peer.to_owned(), class.to_owned()));
            Some(SlotEnd::NotStarted(refused.map(String::as_str).or(why)?.into()))
        };
        let closed = self.courier.journal.slots().settled(self.wall_ns(), &end);
        self.measured.extend(closed);
        self.write();
    }

    fn wall_ns(&self) -> i64 {
        (self.wall)() as i64
    }

    fn take(&mut self) {
        self.bell.silence();
        let Some(measuring) = &self.measuring else { return };
        self.measured.extend(measuring.take());
        for (probe, why) in measuring.failed() {
            self.courier.trouble(Some(why.clone()));
            self.refused.insert((probe.peer, probe.class), why);
        }
    }

    fn write(&mut self) {
        let written = self.courier.journal.append(std::mem::take(&mut self.measured));
        self.kept(written);
    }

    fn kept(&mut self, result: Result<(), JournalError>) {
        if let Err(why) = result {
            let why = why.to_string();
            self.say(&why);
            self.courier.trouble(Some(why));
        }
    }

    fn report(&mut self, leaves: bool) {
        match self.courier.report(monotonic_ns(), leaves) {
            Ok(message) => drop(self.bus.publish(&self.subject, message)),
            Err(why) => self.say(&why.to_string()),
        }
    }

    /// Each change once.
    fn say(&mut self, what: &str) {
        if self.said != what {
            self.said = what.into();
            (self.tell)(what);
        }
    }
}
