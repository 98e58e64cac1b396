//! An agent's side of the wire: what it tells, what it is told, whether it may measure. No socket and no clock in it.
//!
//! ```text
//!            ┌────────────── a beat ──────────────┐
//!   report ──┘  one batch under way               └──► the same again, if no answer came
//!   answer ──► forget what is stored · the next batch · the lease is renewed, or the plan is another one
//! ```
//!
//! Without an answer that renews it, the plan ends one lease after the last report that was answered had left.

use crate::journal::{Journal, JournalError};
use crate::limits::RefusedStart;
use crate::messages::{AgentReport, BATCH, CollectorAnswer, FORMAT, USUAL_LEASE};
use crate::plan::{AgentPlan, PLAN_FORMAT};

const BEAT_NS: u64 = 10_000_000_000;
/// The beat where the last report was not answered.
const URGENT_NS: u64 = BEAT_NS / 5;

pub struct Courier {
    name: String,
    pub journal: Journal,
    run: u64,
    incarnation: u64,
    host: String,
    /// All before this one have come to the collector.
    received: u64,
    /// Nothing is numbered before it was told where to begin.
    is_answered: bool,
    plan: Option<AgentPlan>,
    /// What was told to be the plan: also one that is not carried out.
    text: Vec<u8>,
    /// The revision that is wanted, and when the report left in whose answer it was told.
    wanted: Option<(u64, u64)>,
    due_ns: u64,
    has_more: bool,
    /// Whether the last report was answered.
    is_heard: bool,
    trouble: Option<String>,
}

/// What an answer asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CourierNews {
    Nothing,
    /// The plan is this one from now on.
    Plan(Vec<u8>),
    /// Another one has this name.
    Refused(String),
}

impl Courier {
    /// `run` is this process', and `boot` that of its machine.
    pub fn new(name: &str, host: &str, journal: Journal, run: u64, boot: u64) -> Self {
        Self {
            name: name.into(),
            run,
            incarnation: journal.id() ^ boot,
            host: host.into(),
            journal,
            received: 0,
            is_answered: false,
            plan: None,
            text: Vec::new(),
            wanted: None,
            due_ns: 0,
            has_more: false,
            is_heard: false,
            trouble: None,
        }
    }

    /// There is a connection, perhaps to a collector that knows nothing of us.
    pub fn connected(&mut self) {
        self.due_ns = 0;
    }

    pub fn heard(
        &mut self,
        answer: &CollectorAnswer,
        now_ns: u64,
    ) -> Result<CourierNews, JournalError> {
        if answer.run != self.run || answer.format != FORMAT {
            return Ok(CourierNews::Nothing);
        }
        if let Some(why) = &answer.refused {
            return Ok(CourierNews::Refused(why.clone()));
        }
        self.is_answered = true;
        self.received = answer.received;
        self.journal.received(answer.received);
        self.journal.trim(answer.stored)?;
        // A report that claims to have left later than now is not ours.
        let Some(asked_ns) = answer.asked_ns.filter(|asked| *asked <= now_ns) else {
            return Ok(CourierNews::Nothing);
        };
        self.is_heard = true;
        if std::mem::take(&mut self.has_more) {
            self.due_ns = now_ns;
        }
        match answer.plan {
            None => (self.plan, self.text, self.wanted) = (None, Vec::new(), None),
            Some(revision) => {
                self.wanted = Some((revision, asked_ns));
                if let Some(text) = answer.text.as_ref().filter(|text| **text != self.text) {
                    self.text.clone_from(text);
                    return Ok(CourierNews::Plan(text.clone()));
                }
            }
        }
        Ok(CourierNews::Nothing)
    }

    /// A plan came. Which of its probes this host's owner forbids; errors with why none is carried out, which the collector is told too.
    pub fn take_plan(
        &mut self,
        text: &[u8],
        forbids: &dyn Fn(&AgentPlan) -> Vec<RefusedStart>,
    ) -> Result<Vec<RefusedStart>, String> {
        // Its lease may be shorter than the beat so far; and what is wrong with it is told at once.
        self.due_ns = 0;
        let taken = read_plan(text, &self.name).and_then(|plan| {
            let refused = forbids(&plan);
            match refused.iter().find(|one| one.probe.is_none()) {
                Some(all) => Err(all.why.clone()),
                None => Ok((plan, refused)),
            }
        });
        match taken {
            Ok((plan, refused)) => {
                self.plan = Some(plan);
                self.trouble = refused
                    .first()
                    .map(|one| format!("{} probes are not started: {}", refused.len(), one.why));
                Ok(refused)
            }
            Err(why) => {
                (self.plan, self.trouble) = (None, Some(why.clone()));
                Err(why)
            }
        }
    }

    pub fn trouble(&mut self, why: Option<String>) {
        self.trouble = why;
    }

    /// Until when it may measure what; none where it may not.
    pub fn in_force(&self, now_ns: u64) -> Option<(&AgentPlan, u64)> {
        let (plan, (revision, asked_ns)) = (self.plan.as_ref()?, self.wanted?);
        let until_ns = asked_ns.saturating_add(plan.lease.nanos());
        // A newer one than was told of was written in between.
        (self.is_answered && plan.revision >= revision && now_ns < until_ns)
            .then_some((plan, until_ns))
    }

    /// When the next report is due.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// The next report, with what the collector lacks.
    pub fn report(&mut self, now_ns: u64, leaves: bool) -> Result<Vec<u8>, JournalError> {
        let lease_ns = self.plan.as_ref().map_or(USUAL_LEASE, |plan| plan.lease).nanos();
        let beat_ns = if std::mem::take(&mut self.is_heard) { BEAT_NS } else { URGENT_NS };
        self.due_ns = now_ns.saturating_add(beat_ns.min(lease_ns / 4));
        let piece = match self.is_answered {
            true => self.journal.unsent(self.received, BATCH)?,
            false => None,
        };
        self.has_more = piece.as_ref().is_some_and(|piece| piece.more);
        let report = AgentReport {
            format: FORMAT,
            run: self.run,
            journal: self.incarnation,
            host: self.host.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            asked_ns: now_ns,
            leaves,
            plan: self.in_force(now_ns).map(|(plan, _)| plan.revision),
            trouble: self.trouble.clone(),
            after: piece.as_ref().and_then(|piece| piece.after),
        };
        let message = report.with(piece.as_ref().map_or(&[], |piece| &piece.frames));
        message.map_err(|error| JournalError::Damaged {
            path: "a report".into(),
            why: error.to_string(),
        })
    }
}

fn read_plan(text: &[u8], agent: &str) -> Result<AgentPlan, String> {
    // The version first: a plan of another one has other fields.
    #[derive(serde::Deserialize)]
    struct Version {
        format: u32,
    }
    let unreadable = |error: serde_json::Error| format!("the plan can't be read: {error}");
    let version: Version = serde_json::from_slice(text).map_err(unreadable)?;
    if version.format != PLAN_FORMAT {
        return Err(format!(
            "the plan has format {}, and this Quell carries out {PLAN_FORMAT}; install the Quell that `quell mesh apply` came from",
            version.format
        ));
    }
    let plan: AgentPlan = serde_json::from_slice(text).map_err(unreadable)?;
    match plan.agent == agent {
        true => Ok(plan),
        false => Err(format!("the plan is that of agent `{}`", plan.agent)),
    }
}
