//! The tables of a run, and what a column tells beside its values; the columns of packets, flows and queues are in `tables.rs`.

use crate::tables;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    Samples,
    /// Bytes and TCP state of flows.
    Flows,
    Queues,
    Outputs,
    /// How the network was set up, and what streams tell beside their rows.
    Facts,
}

impl Table {
    pub const ALL: [Table; 5] =
        [Table::Samples, Table::Flows, Table::Queues, Table::Outputs, Table::Facts];

    pub fn name(self) -> &'static str {
        match self {
            Table::Samples => "samples",
            Table::Flows => "flows",
            Table::Queues => "queues",
            Table::Outputs => "outputs",
            Table::Facts => "facts",
        }
    }

    pub fn columns(self) -> Vec<ColumnMeaning> {
        match self {
            Table::Samples => tables::sample_columns().into_iter().map(|c| c.about).collect(),
            Table::Flows => tables::flow_columns().into_iter().map(|c| c.about).collect(),
            Table::Queues => tables::queue_columns().into_iter().map(|c| c.about).collect(),
            Table::Outputs => OUTPUTS.to_vec(),
            Table::Facts => FACTS.to_vec(),
        }
    }
}

/// A column, for people and other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnMeaning {
    pub name: &'static str,
    /// Its unit; empty of names, numbers of order and the like.
    pub unit: &'static str,
    pub meaning: &'static str,
}

pub const fn column(
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
) -> ColumnMeaning {
    ColumnMeaning { name, unit, meaning }
}

pub(crate) const TIME: ColumnMeaning = column(
    "t_ns",
    "ns",
    "time since the start of the measurement, negative while loads warm up; of a packet when it was sent",
);
pub(crate) const SCENARIO: ColumnMeaning = column("scenario", "", "the measurement's scenario");
pub(crate) const PROBE: ColumnMeaning =
    column("probe", "", "the measurement's probe, `all` where they ran together");
pub(crate) const REPEAT: ColumnMeaning = column("repeat", "", "which repeat of it, from 0");

const OUTPUTS: [ColumnMeaning; 6] = [
    SCENARIO,
    PROBE,
    REPEAT,
    column("task", "", "the command's task"),
    column("stderr", "", "true of standard error"),
    column("line", "", "the line"),
];

const FACTS: [ColumnMeaning; 6] = [
    SCENARIO,
    PROBE,
    REPEAT,
    column("when", "", "before, during or after the measurement"),
    column("key", "", "what is described, as tc/router:wan or stream/call/losses"),
    column("value", "", "the description: a JSON text or a plain value"),
];
