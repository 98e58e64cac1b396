//! The table: a file a cause, in the order of [`Cause`].

mod cpu;
mod delayed_ack;
mod disk;
mod fast_retransmit;
mod mtu_black_hole;
mod nagle;
mod own_queue;
mod path_queue;
mod policer;
mod rate_limit;
mod receiver_window;
mod retransmission_timeout;
mod send_buffer;
mod sender_idle;
mod unknown;

use crate::{Cause, Row};
use quell_finding::{Finding, Remedy};

/// All causes, the unknown one last.
pub const TABLE: &[Row] = &[
    receiver_window::ROW,
    send_buffer::ROW,
    sender_idle::ROW,
    cpu::ROW,
    disk::ROW,
    rate_limit::ROW,
    own_queue::ROW,
    path_queue::ROW,
    retransmission_timeout::ROW,
    fast_retransmit::ROW,
    delayed_ack::ROW,
    nagle::ROW,
    mtu_black_hole::ROW,
    policer::ROW,
    unknown::ROW,
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
