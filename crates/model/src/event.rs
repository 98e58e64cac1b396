//! Events: what agents send back. A journal is a sequence of them.

use crate::cell::CellId;
use crate::fact::Fact;
use crate::rows::{EchoSample, FlowSample, QueueSample};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Done,
    /// It could not go on; the reason, for a person.
    Failed(String),
}

/// Something that an agent, or the lab itself, reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// First event of a journal: which cell this is.
    Begin {
        cell: CellId,
        /// The cell's seed.
        seed: u64,
        /// `uname -r` of the kernel that carries the traffic.
        kernel: String,
    },
    /// The task is ready to start: a server listens, a client has its sockets.
    Ready { task: String },
    Ended {
        task: String,
        /// When: nanoseconds since the start of the measurement.
        t_ns: i64,
        outcome: Outcome,
    },
    /// Probe packets of one stream.
    Echo { stream: String, samples: Vec<EchoSample> },
    Flow {
        /// The flow's name.
        stream: String,
        /// Its states, in order of time.
        samples: Vec<FlowSample>,
    },
    Queues {
        /// The states, in order of time.
        samples: Vec<QueueSample>,
    },
    /// A line that a command printed.
    Output {
        task: String,
        /// Whether it came from standard error.
        stderr: bool,
        line: String,
    },
    /// How the network was set up, or what a stream tells beside its rows.
    Fact(Fact),
    /// Virtual (or real) time has come this far: nanoseconds since the start of the measurement. Sent about each second, so that
    /// progress can be shown and a killed run says how far it came.
    Tick {
        /// Nanoseconds since the start of the measurement.
        t_ns: i64,
    },
    /// Last event of a journal of a cell that ran to its end.
    End {
        /// How long the cell took by its own clock, warm-up included, in nanoseconds.
        virtual_ns: u64,
    },
    /// The cell could not be carried out; the reason, for a person.
    Abort {
        /// What was tried, on what, what the kernel answered, and what to do.
        reason: String,
    },
    /// Last event of a journal of a cell that was stopped from outside, as by Ctrl-C.
    Stopped {
        /// How long the cell took until then by its own clock in nanoseconds.
        virtual_ns: u64,
    },
}

impl From<Fact> for Event {
    fn from(fact: Fact) -> Self {
        Event::Fact(fact)
    }
}
