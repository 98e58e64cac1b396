//! A policer on the path drops what is above its rate.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::Policer,
    name: "policer",
    title: "a policer on the path drops what is above its rate",
    sentence: "a policer drops what {sender} sends above its rate",
    rule: "packets are lost while the round trip stays flat, and what arrives is a steady rate",
    severity: Severity::Warning,
    why: "a policer drops where a queue would delay, so that TCP sees loss and swings",
    remedies: &["shape just below that rate at the sender: `quell shape`, or --fq-rate"],
    source: "Flach et al., An Internet-Wide Analysis of Traffic Policing, SIGCOMM 2016",
};
