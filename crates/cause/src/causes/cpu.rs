//! The program had no CPU to spare.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::Cpu,
    name: "cpu",
    title: "the program had no CPU to spare",
    sentence: "the program of {sender} used its whole CPU",
    rule: "the thread that moves the data was on a CPU for 95 % of the time or more",
    severity: Severity::Warning,
    why: "one thread runs on one CPU at a time, so that no more data moves",
    remedies: &[
        "more streams on more CPUs (-P)",
        "a faster CPU, offloads (TSO, GRO), larger segments",
    ],
    source: "/proc/PID/schedstat (sched-stats of the kernel's documentation)",
};
