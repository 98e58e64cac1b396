//! The table of causes, in the order of [`Cause`].

use quell_finding::{Finding, Remedy, Severity};
use serde::{Deserialize, Serialize};

/// What somebody waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    ReceiverWindow,
    SendBuffer,
    SenderIdle,
    Cpu,
    Disk,
    RateLimit,
    OwnQueue,
    PathQueue,
    RetransmissionTimeout,
    FastRetransmit,
    DelayedAck,
    Nagle,
    MtuBlackHole,
    Policer,
    Unknown,
}

/// What is known and said of a cause, whichever instrument finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub cause: Cause,
    /// By which programs know it and people ask for it, as "delayed-ack".
    pub name: &'static str,
    /// What is wrong, in a few words.
    pub title: &'static str,
    /// The same of two ends: `{sender}` is who waited to send, `{receiver}` the other one.
    pub sentence: &'static str,
    /// When it is said.
    pub rule: &'static str,
    pub severity: Severity,
    pub why: &'static str,
    /// What to do, the best first.
    pub remedies: &'static [&'static str],
    /// Who says so: an RFC, a function of the kernel, a paper.
    pub source: &'static str,
}

/// All causes, the unknown one last.
pub const TABLE: &[Row] = &[
    Row {
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
    },
    Row {
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
    },
    Row {
        cause: Cause::SenderIdle,
        name: "sender-idle",
        title: "the program had nothing to send",
        sentence: "the program of {sender} had nothing to send",
        rule: "a sender's kernel had nothing to send for more than two thirds of the time; of a call, the server says that it took most of the time itself",
        severity: Severity::Note,
        why: "neither TCP nor the path took this time",
        remedies: &["look at the program that sends, and at its load"],
        source: "tcp_info(7): busy_time; RFC 9293, section 3.9.1",
    },
    Row {
        cause: Cause::Cpu,
        name: "cpu",
        title: "the program had no CPU to spare",
        sentence: "the program of {sender} used its whole CPU",
        rule: "the thread that moves the data was on a CPU for 95 % of the time or more",
        severity: Severity::Warning,
        why: "one thread runs on one CPU at a time, so that no more data moves",
        remedies: &[
            "more streams on more CPUs (-P)",
            "a faster CPU, offloads (TSO, GRO), larger segments",
        ],
        source: "/proc/PID/schedstat (sched-stats of the kernel's documentation)",
    },
    Row {
        cause: Cause::Disk,
        name: "disk",
        title: "the file was slower than the network",
        sentence: "{sender} waited for its file: the disk was slower than the network",
        rule: "reading or writing the file took more than two thirds of the time",
        severity: Severity::Warning,
        why: "the network could carry more than the disk reads or writes",
        remedies: &["measure without the file; a faster disk"],
        source: "measured: time in read(2) and write(2)",
    },
    Row {
        cause: Cause::RateLimit,
        name: "rate-limit",
        title: "the rate that was asked for or allowed was reached",
        sentence: "{sender} sent as fast as it was allowed to",
        rule: "95 % of the rate that was asked for, or that the server allows, was reached",
        severity: Severity::Note,
        why: "the rate was a choice, so that it says nothing of the path",
        remedies: &["ask for a higher rate, or none"],
        source: "the rate asked for; --max-rate of the server",
    },
    Row {
        cause: Cause::OwnQueue,
        name: "own-queue",
        title: "packets stood in this host's own queue",
        sentence: "packets of {sender} stood in a queue of its own host",
        rule: "the queue of the interface held packets at more than half of the looks",
        severity: Severity::Warning,
        why: "the first narrow place is this host's own interface or shaper; what comes behind it is no narrower",
        remedies: &[
            "that is right where the queue is a shaper with fq_codel or CAKE; else `quell shape` keeps the queue short",
        ],
        source: "TCA_STATS of the queue: backlog",
    },
    Row {
        cause: Cause::PathQueue,
        name: "path-queue",
        title: "a queue on the path was full",
        sentence: "{sender} filled the path: packets stood in a queue on it",
        rule: "the round trip stayed above the idle one while data flowed, and neither end held anything back",
        severity: Severity::Note,
        why: "the path carries no more; a longer queue only adds delay",
        remedies: &[
            "shape just below the rate of the line, so that packets wait where the queue is kept short: `quell shape`",
        ],
        source: "RFC 7567; TCP_INFO: rtt, min_rtt",
    },
    Row {
        cause: Cause::RetransmissionTimeout,
        name: "retransmission-timeout",
        title: "a packet was lost, and a timer had to run out",
        sentence: "{sender} lost packets and waited for its retransmission timer",
        rule: "segments were sent again that the other end did not have, and a retransmission timer or a tail loss probe ran out",
        severity: Severity::Warning,
        why: "the timer lasts 200 ms at least on Linux, and nothing moves until then",
        remedies: &[
            "find where packets are lost: `quell trace` of a capture at each end, counters of interfaces and queues",
        ],
        source: "RFC 6298; RFC 8985, section 7",
    },
    Row {
        cause: Cause::FastRetransmit,
        name: "fast-retransmit",
        title: "packets were lost and sent again at once",
        sentence: "{sender} lost packets and sent them again at once",
        rule: "segments were sent again after duplicate or selective ACKs, without a timer",
        severity: Severity::Note,
        why: "a classic sender halves its rate at each loss",
        remedies: &[
            "find where packets are lost: counters of interfaces and queues; loss without a queue is a bad line",
        ],
        source: "RFC 5681, section 3.2; RFC 6675",
    },
    Row {
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
    },
    Row {
        cause: Cause::Nagle,
        name: "nagle",
        title: "a small message waited for an ACK",
        sentence: "{sender} held a small segment until an earlier one was acknowledged",
        rule: "a small segment waited behind an unacknowledged one, and the ACK was prompt; the wait is gone with TCP_NODELAY",
        severity: Severity::Warning,
        why: "that costs up to a round trip of each such message",
        remedies: &["at the sender: TCP_NODELAY, or one write for a whole message"],
        source: "RFC 896; RFC 1122, section 4.2.3.4",
    },
    Row {
        cause: Cause::MtuBlackHole,
        name: "mtu-black-hole",
        title: "large packets do not arrive, small ones do",
        sentence: "large packets of {sender} do not arrive, small ones do",
        rule: "full-sized segments are sent again and again while small ones are acknowledged; or all above some size is lost, and no ICMP says so",
        severity: Severity::Serious,
        why: "a hop drops what is too big for it, and its message about that is lost: connections open, and then hang",
        remedies: &[
            "mend the hop or its firewall: ICMP type 3 code 4, ICMPv6 type 2",
            "net.ipv4.tcp_mtu_probing=1 at the sender finds a size that passes",
            "clamp the MSS at the router",
        ],
        source: "RFC 2923; RFC 4821",
    },
    Row {
        cause: Cause::Policer,
        name: "policer",
        title: "a policer on the path drops what is above its rate",
        sentence: "a policer drops what {sender} sends above its rate",
        rule: "packets are lost while the round trip stays flat, and what arrives is a steady rate",
        severity: Severity::Warning,
        why: "a policer drops where a queue would delay, so that TCP sees loss and swings",
        remedies: &["shape just below that rate at the sender: `quell shape`, or --fq-rate"],
        source: "Flach et al., An Internet-Wide Analysis of Traffic Policing, SIGCOMM 2016",
    },
    Row {
        cause: Cause::Unknown,
        name: "unknown",
        title: "nothing explains the wait for certain",
        sentence: "what {sender} waited for is unknown: several things took their part",
        rule: "none of the others explains most of the time",
        severity: Severity::Note,
        why: "the facts beside it are measured, and leave several causes",
        remedies: &[],
        source: "the facts beside it",
    },
];

impl Cause {
    /// Its row.
    pub const fn row(self) -> &'static Row {
        &TABLE[self as usize]
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
    TABLE.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_row_its_own_name_and_plain_sentences() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!(row.cause as usize, at, "{}", row.name);
            assert!(TABLE[..at].iter().all(|other| other.name != row.name), "{}", row.name);
            for text in [row.title, row.sentence, row.rule, row.why, row.source] {
                assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text}", row.name);
                assert!(text.split_whitespace().count() <= 30, "{}: {text}", row.name);
            }
        }
    }

    #[test]
    fn a_sentence_names_both_ends() {
        let said = Cause::ReceiverWindow.sentence("this end", "the server");
        assert_eq!(said, "this end waited for the server: its receive window was full");
        assert_eq!(named("receiver-window").map(|row| row.cause), Some(Cause::ReceiverWindow));
        assert_eq!(named("moon"), None);
    }
}
