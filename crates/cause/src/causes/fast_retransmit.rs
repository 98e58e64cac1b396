//! Packets were lost and sent again at once.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::FastRetransmit,
    name: "fast-retransmit",
    title: "packets were lost and sent again at once",
    sentence: "{sender} lost packets and sent them again at once",
    rule: "segments were sent again after duplicate or selective ACKs, without a timer",
    severity: Severity::Note,
    why: "a classic sender halves its rate at each loss",
    remedies: &[
        "find where packets are lost: counters of interfaces and queues; loss without a queue is a bad line",
    ],
    source: "RFC 5681, section 3.2; RFC 6675",
};
