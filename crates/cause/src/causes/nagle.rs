//! A small message waited for an ACK.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::Nagle,
    name: "nagle",
    title: "a small message waited for an ACK",
    sentence: "{sender} held a small segment until an earlier one was acknowledged",
    rule: "a small segment waited behind an unacknowledged one, and the ACK was prompt; the wait is gone with TCP_NODELAY",
    severity: Severity::Warning,
    why: "that costs up to a round trip of each such message",
    remedies: &["at the sender: TCP_NODELAY, or one write for a whole message"],
    source: "RFC 896; RFC 1122, section 4.2.3.4",
};
