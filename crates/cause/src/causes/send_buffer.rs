//! The send buffer was full.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::SendBuffer,
    name: "send-buffer",
    title: "the send buffer was full",
    sentence: "{sender} waited for acknowledgements: its send buffer was full",
    rule: "a sender's kernel was limited by its buffer for more than two thirds of the time, and no queue stood on the path",
    severity: Severity::Warning,
    why: "a sender keeps what is not acknowledged, so that at most one buffer arrives in each round trip",
    remedies: &[
        "at the sender: no SO_SNDBUF in the program, a larger third figure of net.ipv4.tcp_wmem",
    ],
    source: "tcp(7); tcp_chrono_start of net/ipv4/tcp_output.c (sndbuf_limited)",
};
