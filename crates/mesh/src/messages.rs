//! What agent and collector tell each other.
//!
//! ```text
//!   quell.from.AGENT   an AgentReport, and behind it frames of records      each beat of the agent
//!   quell.to.AGENT     a CollectorAnswer                                    to each, and when records are stored
//!   key AGENT          its plan (JSON)                                      read by the collector, written by `quell mesh apply`
//! ```
//!
//! One batch is under way at a time. An answer says up to which record all have come, so that what was lost on the way is seen at once; and up to which
//! all are in synced files, so that the agent can forget them. It renews the lease: it counts from when the report left that it answers, and an answer
//! that was long under way renews little. It goes to the subject of the agent, whatever subject the report asks to be answered on.

use crate::name::check_name;
use crate::record::{Record, SlotEnd};
use quell_model::frame::{self, Decoder, FrameError};
use quell_units::Span;
use serde::{Deserialize, Serialize};

/// Of all that is said; it rises when that is no longer understood.
pub const FORMAT: u32 = 1;
/// Bytes of frames in a report: a quarter of what nats-server takes as a message, where nothing else is configured.
pub const BATCH: usize = 256 << 10;
/// Where no plan says otherwise.
pub const USUAL_LEASE: Span = Span::from_secs(60);
/// What all agents say comes here.
pub const ALL_AGENTS: &str = "quell.from.*";
/// Who asks here hears from the collector how the mesh does.
pub const STATUS: &str = "quell.status";
const FROM: &str = "quell.from.";
const TO: &str = "quell.to.";

pub fn from_agent(agent: &str) -> String {
    format!("{FROM}{agent}")
}

pub fn to_agent(agent: &str) -> String {
    format!("{TO}{agent}")
}

/// The agent whose subject this is, which the broker's rights bind to who sent it. None where that is no agent's name.
pub fn sender(subject: &str) -> Option<&str> {
    subject.strip_prefix(FROM).filter(|name| check_name(name).is_ok())
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    pub format: u32,
    /// The process: another one each time an agent starts.
    pub run: u64,
    /// The journal of this boot of its machine: two of them are two agents.
    pub journal: u64,
    pub host: String,
    pub version: String,
    /// The agent's monotonic time when this left.
    pub asked_ns: u64,
    /// It ends now, and its name is free.
    pub leaves: bool,
    /// The revision of the plan that it carries out.
    pub plan: Option<u64>,
    /// Why it measures nothing or less than it should, for a person.
    pub trouble: Option<String>,
    /// The record before those that follow. None where the journal begins with these.
    pub after: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CollectorAnswer {
    pub format: u32,
    /// To whom: others of that name hear it too.
    pub run: u64,
    /// Of the report that this answers.
    pub asked_ns: Option<u64>,
    /// All records before this one have come.
    pub received: u64,
    /// All before this one are in synced files.
    pub stored: u64,
    /// The revision of the plan that it is to carry out.
    pub plan: Option<u64>,
    /// That plan as its key has it, where the report carries out another one.
    pub text: Option<Vec<u8>>,
    /// Why it is to end: another one has its name.
    pub refused: Option<String>,
}

impl AgentReport {
    /// A message of it and the frames of records.
    pub fn with(&self, frames: &[u8]) -> Result<Vec<u8>, FrameError> {
        let mut message = frame::encode(self)?;
        message.extend_from_slice(frames);
        Ok(message)
    }
}

/// Reads a message of an agent. No record takes more memory than the message's bytes allow: the lengths within are checked against what is there.
pub fn read_report(message: &[u8]) -> Result<(AgentReport, Vec<Record>), FrameError> {
    let mut decoder = Decoder::new();
    decoder.push(message);
    let cut = || FrameError::Value("it is cut".into());
    let report: AgentReport = decoder.next_value()?.ok_or_else(cut)?;
    let mut records = Vec::new();
    while report.format == FORMAT && decoder.pending() > 0 {
        records.push(decoder.next_value()?.ok_or_else(cut)?);
    }
    Ok((report, records))
}

pub fn read_answer(message: &[u8]) -> Result<CollectorAnswer, FrameError> {
    let mut decoder = Decoder::new();
    decoder.push(message);
    decoder.next_value()?.ok_or_else(|| FrameError::Value("it is cut".into()))
}

/// How planned slots ended, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotCounts {
    pub ok: u64,
    pub failed: u64,
    pub not_started: u64,
    pub unknown: u64,
}

impl SlotCounts {
    pub fn add(&mut self, end: &SlotEnd, count: u64) {
        let counted = match end {
            SlotEnd::Ok => &mut self.ok,
            SlotEnd::Failed(_) => &mut self.failed,
            SlotEnd::NotStarted(_) => &mut self.not_started,
            SlotEnd::Unknown => &mut self.unknown,
        };
        *counted = counted.saturating_add(count);
    }

    pub fn by_end(&self) -> [(&'static str, u64); 4] {
        [
            ("ok", self.ok),
            ("failed", self.failed),
            ("not-started", self.not_started),
            ("unknown", self.unknown),
        ]
    }

    pub fn all(&self) -> u64 {
        self.ok + self.failed + self.not_started + self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_a_sender_only_where_its_name_is_one() {
        assert_eq!(sender("quell.from.fra-1"), Some("fra-1"));
        for subject in
            ["quell.from.../etc", "quell.from.a.b", "quell.from.*", "quell.to.fra", "quell.from."]
        {
            assert_eq!(sender(subject), None, "{subject}");
        }
    }
}
