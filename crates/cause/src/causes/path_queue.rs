//! A queue on the path was full.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::PathQueue,
    name: "path-queue",
    title: "a queue on the path was full",
    sentence: "{sender} filled the path: packets stood in a queue on it",
    rule: "the round trip stayed above the idle one while data flowed, and neither end held anything back",
    severity: Severity::Note,
    why: "the path carries no more; a longer queue only adds delay",
    remedies: &[
        "shape just below the rate of the line, so that the queue stands where it is kept short: `quell shape`",
    ],
    source: "RFC 7567; TCP_INFO: rtt, min_rtt",
};
