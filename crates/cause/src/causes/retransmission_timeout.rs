//! A packet was lost, and a timer had to run out.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::RetransmissionTimeout,
    name: "retransmission-timeout",
    title: "a packet was lost, and a timer had to run out",
    sentence: "{sender} lost packets and waited for its retransmission timer",
    rule: "segments were sent again that the other end did not have, and a retransmission timer or a tail loss probe ran out",
    severity: Severity::Warning,
    why: "the timer lasts 200 ms at least on Linux, and nothing moves until then",
    remedies: &[
        "find where packets are lost: `quell trace` of a capture at each end, counters of interfaces and queues",
    ],
    source: "RFC 6298; RFC 8985, section 7",
};
