//! A row of the table of causes.

use quell_finding::{Finding, Remedy, Severity};
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

impl Cause {
    /// Its row.
    pub fn row(self) -> &'static Row {
        &crate::TABLE[self as usize]
    }

    /// Its name, as "delayed-ack".
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its sentence about these two ends.
    pub fn sentence(self, sender: &str, receiver: &str) -> String {
        self.row().sentence.replace("{sender}", sender).replace("{receiver}", receiver)
    }

    /// A sure finding of it about `subject`, without evidence yet.
    pub fn finding(self, subject: impl Into<String>, sender: &str, receiver: &str) -> Finding {
        let row = self.row();
        Finding {
            id: row.name.to_owned(),
            subject: subject.into(),
            severity: row.severity,
            sure: true,
            says: self.sentence(sender, receiver),
            evidence: Vec::new(),
            why: row.why.to_owned(),
            remedies: row.remedies.iter().map(|text| Remedy::advice(*text)).collect(),
            source: row.source.to_owned(),
        }
    }
}

/// The row of this name.
pub fn named(name: &str) -> Option<&'static Row> {
    crate::TABLE.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_both_ends() {
        let said = Cause::ReceiverWindow.sentence("this end", "the server");
        assert_eq!(said, "this end waited for the server: its receive window was full");
        assert_eq!(named("receiver-window").map(|row| row.cause), Some(Cause::ReceiverWindow));
        assert_eq!(named("moon"), None);
    }
}
