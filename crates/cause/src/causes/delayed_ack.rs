//! A small message waited for a delayed ACK.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::DelayedAck,
    name: "delayed-ack",
    title: "a small message waited for a delayed ACK",
    sentence: "{sender} held a small segment until {receiver} sent an ACK that it had delayed",
    rule: "a small segment waited behind an unacknowledged one, and the wait is gone where the ACK is sent at once",
    severity: Severity::Serious,
    why: "a delayed ACK comes 40 ms later on Linux, and up to half a second elsewhere; each such message takes that longer",
    remedies: &[
        "at the sender: TCP_NODELAY, or one write for a whole message",
        "at the receiver: TCP_QUICKACK set again after each receive, or `ip route change … quickack 1`",
    ],
    source: "RFC 1122, sections 4.2.3.2 and 4.2.3.4; RFC 896",
};
