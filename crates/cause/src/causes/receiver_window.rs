//! The receive window was full.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::ReceiverWindow,
    name: "receiver-window",
    title: "the receive window was full",
    sentence: "{sender} waited for {receiver}: its receive window was full",
    rule: "a sender's kernel was limited by the window for more than two thirds of the time, and no queue stood on the path",
    severity: Severity::Warning,
    why: "at most one window arrives in each round trip",
    remedies: &[
        "at the receiver: no SO_RCVBUF in the program, a larger third figure of net.ipv4.tcp_rmem",
        "at the receiver: a program that reads faster",
    ],
    source: "RFC 9293, section 3.8.6; tcp_chrono_start of net/ipv4/tcp_output.c (rwnd_limited)",
};
