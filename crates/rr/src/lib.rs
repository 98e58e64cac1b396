//! Request and response over TCP: how many calls a second, how long each takes, and who waited for what.
//!
//! ```text
//!   protocol   what a client and a server tell each other beside the bytes of calls
//!   client     one call after the other, with what TCP says of it
//!   server     answers, within limits
//!   counters   what this host's TCP counted
//!   run        plan -> calls of each size -> report; calls again with one thing changed tell what they waited for
//!   compare    whether calls with one thing changed are sooner; cliffs between sizes
//!   task       client and server as tasks of an experiment
//! ```
//!
//! A program that writes a request in two small pieces makes two rules of TCP wait for each other: the sender holds the second piece until
//! the first is acknowledged (Nagle, RFC 896), and the receiver delays the acknowledgement because an answer could carry it (RFC 1122,
//! section 4.2.3.2; 40 ms at least on Linux, `TCP_DELACK_MIN` in include/net/tcp.h). The rule from facts to a cause is `cause::calls`.

#![allow(missing_docs)]

pub mod client;
pub mod compare;
pub mod counters;
pub mod protocol;
pub mod run;
pub mod server;
pub mod task;

pub use client::{Call, CallShape, Caller};
pub use compare::Cliff;
pub use run::{CallSink, Fix, RrPlan, RrReport, SizeResult, SizeSweep, run};
pub use server::{Limits, RrServer};
pub use task::{ClientTask, ServerTask};

use quell_sys::SysError;
use quell_sys::socket::exchange::ExchangeError;
use quell_sys::socket::preface::PrefaceError;
use std::net::SocketAddr;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RrError {
    #[error("{0}")]
    Parameter(String),
    #[error("{0}")]
    System(#[from] SysError),
    #[error(
        "no answer from TCP {to} within {waited}{}",
        if *.answered { ", where it answered before" } else { ": is the host up, and does no firewall drop it?" }
    )]
    NoAnswer { to: SocketAddr, waited: quell_units::Span, answered: bool },
    /// It serves, but the measurement was over before the first call could begin.
    #[error(
        "{to}: the connection and the first, uncounted call took {waited}, longer than the measurement, so no call was \
         made. The path or a queue held them up that long"
    )]
    OpenedTooLate { to: SocketAddr, waited: quell_units::Span },
    /// Something else listens there, or the server takes no more.
    #[error(
        "{to} did not answer the first call ({why}): either it is no `quell serve`, or it has as many connections as it allows, or it wants a secret (--secret-file)"
    )]
    NotServing { to: SocketAddr, why: String },
    #[error("{to} serves no more after {calls} calls: {why}")]
    Gone { to: SocketAddr, calls: u64, why: String },
    /// It answers, or goes on answering, so slowly that nobody would wait for the end.
    #[error(
        "{to} is slow: {calls} calls, and the waiting beside them, took {spare} longer than 5 s each. So no more were \
         made; --patience waits longer, --sizes and --calls ask for less"
    )]
    Slow { to: SocketAddr, calls: u64, spare: quell_units::Span },
    #[error("{0}")]
    Preface(PrefaceError),
    #[error("{0}")]
    Exchange(#[from] ExchangeError),
    #[error("it was stopped")]
    Stopped,
}

impl RrError {
    /// Nothing came back for as long as it was waited for: packets are lost or under way, and another attempt may be answered.
    fn is_silence(&self) -> bool {
        matches!(self, Self::NoAnswer { .. })
    }
}
