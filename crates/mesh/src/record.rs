//! What an agent measured. An agent numbers its records from 0 in its journal; `(agent, number)` counts once, however often it comes.

use quell_model::Sketch;
use quell_model::rows::EchoSample;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Wall time is nanoseconds since 1970, UTC, by the agent's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Of the agent's journal, without a gap.
    pub number: u64,
    pub peer: String,
    /// The class of the mesh's file.
    pub class: String,
    pub kind: RecordKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RecordKind {
    /// Probe packets whose fate is settled. The `t_ns` of each is wall time.
    Packets(Vec<EchoSample>),
    /// The hops of the path, nearest first.
    Path { wall_ns: i64, hops: Vec<PathHop> },
    /// What a bulk test moved: bytes at the receiver, in a time.
    Flow { wall_ns: i64, down: bool, bytes: u64, duration_ns: u64, retransmits: Option<u64> },
    /// Round trips a minute under load.
    Rpm { wall_ns: i64, down: Option<f64>, up: Option<f64> },
    /// When the page was there.
    Page { wall_ns: i64, loaded_ns: u64, bytes: u64 },
    /// How so many planned slots in a row ended, the first at this time. What was measured is an end itself.
    Slots { wall_ns: i64, count: u64, end: SlotEnd },
    /// Packets of an earlier time, of which the agent could no longer hold each: the journal was full.
    Thinned(Sketch),
    /// So many records before this one were dropped by the agent for want of space.
    Dropped { records: u64 },
}

impl RecordKind {
    /// The latest time in it, by the agent's clock.
    pub fn newest_ns(&self) -> Option<i64> {
        match self {
            RecordKind::Packets(packets) => packets.iter().map(|packet| packet.t_ns).max(),
            RecordKind::Path { wall_ns, .. }
            | RecordKind::Flow { wall_ns, .. }
            | RecordKind::Rpm { wall_ns, .. }
            | RecordKind::Page { wall_ns, .. }
            | RecordKind::Slots { wall_ns, .. } => Some(*wall_ns),
            RecordKind::Thinned(sketch) => Some(sketch.from_ns),
            RecordKind::Dropped { .. } => None,
        }
    }
}

/// Each planned slot has one of these ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotEnd {
    Ok,
    /// It was begun and failed: the reason, for a person.
    Failed(String),
    /// It was not begun: the reason, for a person, as a limit of the agent.
    NotStarted(String),
    /// Nobody knows: the agent was gone. It says so when it is there again, and until then the collector does.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathHop {
    /// None where nobody answered.
    pub address: Option<IpAddr>,
    pub rtt_ns: Option<u64>,
}
