//! A row of the table of causes.

use quell_finding::Severity;
use serde::{Deserialize, Serialize};

/// What somebody waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The receive window was full.
    ReceiverWindow,
    /// The send buffer was full.
    SendBuffer,
    /// The program had nothing to send.
    SenderIdle,
    /// The program had no CPU to spare.
    Cpu,
    /// The file was slower than the network.
    Disk,
    /// The rate that was asked for or allowed was reached.
    RateLimit,
    /// Packets stood in this host's own queue.
    OwnQueue,
    /// A queue on the path was full.
    PathQueue,
    /// A packet was lost, and a timer had to run out.
    RetransmissionTimeout,
    /// Packets were lost and sent again at once.
    FastRetransmit,
    /// A small message waited for a delayed ACK.
    DelayedAck,
    /// A small message waited for an ACK.
    Nagle,
    /// Large packets do not arrive, small ones do.
    MtuBlackHole,
    /// A policer on the path drops what is above its rate.
    Policer,
    /// Nothing explains the wait for certain.
    Unknown,
}

/// What is known and said of a cause, whichever instrument finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Which.
    pub cause: Cause,
    /// By which programs know it and people ask for it, as "delayed-ack".
    pub name: &'static str,
    /// What is wrong, in a few words.
    pub title: &'static str,
    /// The same of two ends: `{sender}` is who waited to send, `{receiver}` the other one.
    pub sentence: &'static str,
    /// When it is said.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// Why it matters.
    pub why: &'static str,
    /// What to do, the best first.
    pub remedies: &'static [&'static str],
    /// Who says so: an RFC, a function of the kernel, a paper.
    pub source: &'static str,
}
