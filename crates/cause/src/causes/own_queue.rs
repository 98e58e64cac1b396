//! Packets stood in this host's own queue.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::OwnQueue,
    name: "own-queue",
    title: "packets stood in this host's own queue",
    sentence: "packets of {sender} stood in a queue of its own host",
    rule: "the queue of the interface held packets at more than half of the looks",
    severity: Severity::Warning,
    why: "the first narrow place is this host's own interface or shaper; what comes behind it is no narrower",
    remedies: &[
        "that is right where the queue is a shaper with fq_codel or CAKE; else `quell shape` keeps the queue short",
    ],
    source: "TCA_STATS of the queue: backlog",
};
