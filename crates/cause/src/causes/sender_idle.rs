//! The program had nothing to send.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::SenderIdle,
    name: "sender-idle",
    title: "the program had nothing to send",
    sentence: "the program of {sender} had nothing to send",
    rule: "a sender's kernel had nothing to send for more than two thirds of the time; of a call, the server says that it took most of the time itself",
    severity: Severity::Note,
    why: "neither TCP nor the path took this time",
    remedies: &["look at the program that sends, and at its load"],
    source: "tcp_info(7): busy_time; RFC 9293, section 3.9.1",
};
