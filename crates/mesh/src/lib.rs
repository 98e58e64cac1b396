//! A mesh: agents measure the paths between each other by a plan that ends, and a collector keeps what they saw.
//!
//! ```text
//!   pure    plan      what one agent is to measure, until when
//!           record    what an agent measured; numbered, each counts once
//!           history   the minutes of each pair ──► events ──► common_cause   what became worse, and where
//!           file      mesh.toml ──► peers, schedule ──► a plan for each agent
//!           traffic   what these would send and keep
//!           limits    what an agent does for others at most: its own file
//!           name      what agents, targets and classes may be called
//!           slots     which planned slots have an end
//!           messages  what agent and collector tell each other, and where
//!           courier   an agent's side of the wire
//!           rights    what the broker lets each of them say
//!   disk    folder    what was measured, as Parquet; safe once it is acknowledged
//!           journal   what an agent measured, until it is in that folder
//!           collector the other side of the wire
//!   both    agent     measures (measure, child) while its lease lasts
//!           collect   stores what agents measured, and renews their leases
//!   shown   matrix    pairs, the worst first; smoke   a pair's figure; page   all of it for a browser
//! ```

pub mod agent;
mod child;
pub mod collect;
pub mod collector;
pub mod common_cause;
pub mod courier;
pub mod events;
pub mod file;
pub mod folder;
pub mod history;
pub mod journal;
pub mod limits;
pub mod matrix;
mod measure;
pub mod messages;
pub mod name;
pub mod page;
pub mod peers;
pub mod plan;
pub mod record;
pub mod rights;
pub mod schedule;
pub mod slots;
pub mod smoke;
pub mod text;
pub mod traffic;

pub use journal::{Journal, JournalError};
pub use plan::{ALL_PLANS, AgentPlan, PlannedProbe, ProbeKind};
pub use record::{PathHop, Record, RecordKind, SlotEnd};
