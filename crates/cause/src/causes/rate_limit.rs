//! The rate that was asked for or allowed was reached.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::RateLimit,
    name: "rate-limit",
    title: "the rate that was asked for or allowed was reached",
    sentence: "{sender} sent as fast as it was allowed to",
    rule: "95 % of the rate that was asked for, or that the server allows, was reached",
    severity: Severity::Note,
    why: "the rate was a choice, so that it says nothing of the path",
    remedies: &["ask for a higher rate, or none"],
    source: "the rate asked for; --max-rate of the server",
};
