//! Facts of one direction of a captured connection (`quell trace`), and the rules from them to causes.
//!
//! ```text
//!   sent again − had there already (DSACK) + answers lost on the way back = what was needed
//!   held upon the ACK of a small segment     ── that ACK came late ──► delayed-ack      ── as the path has it ──► nagle
//! ```
//!
//! Directions as counts: nothing is said of a single packet.

use crate::Cause;
use crate::calls::{Diagnosis, EndFinding, Endpoint};
use quell_finding::{Evidence, Severity};
use serde::Serialize;

/// An ACK that takes so much longer than the path was delayed: 40 ms on Linux, 20 ms once.
const DELAYED_MS: f64 = 15.0;

/// It was full for a third of the time in which data was under way.
const FULL_SHARE: f64 = 1.0 / 3.0;

/// So often a timer sent again what is longer than all that arrived.
const TOO_LARGE_TIMES: u64 = 3;

/// One direction of a connection. Times are in milliseconds, of the side where the capture was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CaptureFacts {
    pub sent: u64,
    pub sent_again: u64,
    /// Segments that the receiver had twice, as it says (DSACK).
    pub needless: u64,
    /// Segments whose first answer did not pass here: lost on the way back.
    pub answers_lost: u64,
    /// Segments sent again after a silence: by a retransmission timer or a tail loss probe.
    pub timers: u64,
    pub timer_ms: f64,
    /// Segments sent again upon duplicate or selective ACKs.
    pub fast: u64,
    /// SYNs, or their answers, sent again by a timer.
    pub syns_again: u64,
    pub syn_ms: f64,
    /// Small segments that left right upon the ACK of an earlier one.
    pub held: u64,
    pub held_ms: f64,
    /// What those ACKs took: the least, and the median.
    pub held_ack_least_ms: f64,
    pub held_ack_ms: f64,
    /// Small segments that left while an earlier one was unacknowledged: Nagle's rule was off.
    pub not_held: u64,
    /// What the path to the receiver and back takes, by answers that carried data or by the handshake.
    pub path_ms: Option<f64>,
    pub zero_windows: u64,
    pub zero_window_ms: f64,
    /// How often, and for how long, all was sent that the receiver's window lets the sender.
    pub full_windows: u64,
    pub full_window_ms: f64,
    /// For how long anything was under way.
    pub busy_ms: f64,
    /// The median of the windows that were full, in bytes.
    pub window: u64,
    pub largest_arrived: u32,
    /// Segments sent again by a timer that are longer than that.
    pub too_large: u64,
    pub out_of_order: u64,
    /// ACKs that the capture recorded before the data that they are for.
    pub acks_before_data: u64,
}

impl CaptureFacts {
    /// Waits for a timer for what was lost there or on the way back.
    fn lost_waits(&self) -> u64 {
        self.timers.min((self.sent_again + self.answers_lost).saturating_sub(self.needless))
    }

    /// Zero windows, or a window that was full for much of the time.
    pub fn is_window_limited(&self) -> bool {
        let full = self.full_window_ms > 0.0 && self.full_window_ms >= self.busy_ms * FULL_SHARE;
        full || self.zero_window_ms > 0.0
    }

    /// The causes, what cost the most time first, each with that time.
    pub fn diagnoses(&self, end: Endpoint) -> Vec<(Diagnosis, f64)> {
        let mut found = Vec::new();
        let black_hole = self.too_large >= TOO_LARGE_TIMES && self.largest_arrived > 0;
        if black_hole {
            found.push((Diagnosis::sure(Cause::MtuBlackHole, end), self.timer_ms));
        } else if self.lost_waits() > 0 || self.syns_again > 0 {
            let ms = self.timer_ms + self.syn_ms;
            found.push((Diagnosis::sure(Cause::RetransmissionTimeout, end), ms));
        }
        if self.fast > 0 && self.sent_again > self.needless + self.timers {
            found.push((Diagnosis::sure(Cause::FastRetransmit, end), 0.0));
        }
        if self.held > self.not_held {
            let path_ms = self.path_ms.unwrap_or(0.0);
            let least = self.held_ack_least_ms - path_ms >= DELAYED_MS;
            let diagnosis = match self.held_ack_ms - path_ms >= DELAYED_MS {
                true if least => Diagnosis::sure(Cause::DelayedAck, end),
                true => Diagnosis::sure(Cause::DelayedAck, end).unsure(),
                false => Diagnosis::sure(Cause::Nagle, end),
            };
            found.push((diagnosis, self.held_ms));
        }
        if self.is_window_limited() {
            let ms = self.zero_window_ms + self.full_window_ms;
            found.push((Diagnosis::sure(Cause::ReceiverWindow, end), ms));
        }
        found.sort_by(|(_, a_ms), (_, b_ms)| b_ms.total_cmp(a_ms));
        found
    }

    /// The findings about `subject`, each with how long it was waited for.
    pub fn findings(
        &self,
        subject: &str,
        end: Endpoint,
        sender: &str,
        receiver: &str,
    ) -> Vec<(EndFinding, f64)> {
        let finding = |(diagnosis, ms): (Diagnosis, f64)| {
            let mut finding = diagnosis.cause.finding(subject, sender, receiver);
            finding.sure = diagnosis.sure;
            finding.evidence = self.evidence(diagnosis.cause);
            (EndFinding { finding, end: diagnosis.end }, ms)
        };
        self.diagnoses(end).into_iter().map(finding).collect()
    }

    fn evidence(&self, cause: Cause) -> Vec<Evidence> {
        const CAPTURE: &str = "the capture";
        let count = |name: &str, value: u64, words: String| {
            Evidence::count(name, value, CAPTURE).in_words(words)
        };
        let waited = |name: &str, ms: f64, words: String| {
            Evidence::number(name, ms, "ms", CAPTURE).in_words(words)
        };
        let again = count(
            "sent again",
            self.sent_again,
            format!(
                "{} segments were sent again, {} needlessly, of {} sent",
                self.sent_again, self.needless, self.sent
            ),
        );
        match cause {
            Cause::DelayedAck | Cause::Nagle => {
                let path = match self.path_ms {
                    Some(ms) => format!("the path takes {ms:.1} ms"),
                    None => "what the path takes is not known".to_owned(),
                };
                let words = format!(
                    "{} small segments left right upon an ACK, which took {:.1} ms (median); {path}",
                    self.held, self.held_ack_ms
                );
                vec![
                    count("held", self.held, words),
                    waited("waited", self.held_ms, format!("{:.1} ms in all", self.held_ms)),
                ]
            }
            Cause::RetransmissionTimeout | Cause::MtuBlackHole => {
                let words = format!(
                    "{} timers ran out, {:.0} ms in all",
                    self.timers + self.syns_again,
                    self.timer_ms + self.syn_ms
                );
                let mut seen = vec![waited("waited", self.timer_ms + self.syn_ms, words), again];
                if cause == Cause::MtuBlackHole {
                    let words = format!(
                        "{} of them for segments above {} bytes, the largest that arrived",
                        self.too_large, self.largest_arrived
                    );
                    seen.push(count("too large", self.too_large, words));
                }
                seen
            }
            Cause::ReceiverWindow => {
                let mut seen = Vec::new();
                if self.zero_windows > 0 {
                    let words = format!(
                        "the window was zero {} times, for {:.0} ms",
                        self.zero_windows, self.zero_window_ms
                    );
                    seen.push(waited("zero window", self.zero_window_ms, words));
                }
                if self.full_window_ms > 0.0 {
                    let words = format!(
                        "a window of {} bytes was full for {:.0} of {:.0} ms with data under way",
                        self.window, self.full_window_ms, self.busy_ms
                    );
                    seen.push(waited("full window", self.full_window_ms, words));
                }
                seen
            }
            _ => vec![again],
        }
    }
}

/// Puts what costs the most first: by severity, then by time.
pub fn costliest_first(findings: &mut [(EndFinding, f64)]) {
    let note = |found: &EndFinding| found.finding.severity == Severity::Note;
    findings.sort_by(|(a, a_ms), (b, b_ms)| note(a).cmp(&note(b)).then(b_ms.total_cmp(a_ms)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_direction_make_its_causes() {
        let held = CaptureFacts {
            held: 9,
            held_ms: 400.0,
            held_ack_least_ms: 60.0,
            held_ack_ms: 60.0,
            path_ms: Some(20.0),
            ..CaptureFacts::default()
        };
        let lost =
            CaptureFacts { sent_again: 4, timers: 3, timer_ms: 700.0, ..CaptureFacts::default() };
        let full = CaptureFacts {
            full_windows: 20,
            full_window_ms: 300.0,
            busy_ms: 500.0,
            ..CaptureFacts::default()
        };
        for (facts, causes) in [
            (CaptureFacts::default(), vec![]),
            (held, vec![("delayed-ack", true)]),
            (CaptureFacts { held_ack_least_ms: 21.0, ..held }, vec![("delayed-ack", false)]),
            (CaptureFacts { held_ack_ms: 22.0, ..held }, vec![("nagle", true)]),
            (CaptureFacts { not_held: 9, ..held }, vec![]),
            (lost, vec![("retransmission-timeout", true)]),
            (CaptureFacts { needless: 4, ..lost }, vec![]),
            (
                CaptureFacts { needless: 4, answers_lost: 2, ..lost },
                vec![("retransmission-timeout", true)],
            ),
            (
                CaptureFacts { too_large: 3, largest_arrived: 1200, ..lost },
                vec![("mtu-black-hole", true)],
            ),
            (
                CaptureFacts { fast: 2, sent_again: 9, timers: 0, ..lost },
                vec![("fast-retransmit", true)],
            ),
            (CaptureFacts { fast: 2, sent_again: 9, needless: 9, timers: 0, ..lost }, vec![]),
            (full, vec![("receiver-window", true)]),
            (CaptureFacts { busy_ms: 1000.0, ..full }, vec![]),
            (
                CaptureFacts { zero_window_ms: 5.0, ..CaptureFacts::default() },
                vec![("receiver-window", true)],
            ),
        ] {
            let found = facts.diagnoses(Endpoint::Client);
            let found: Vec<_> = found.iter().map(|(it, _)| (it.cause.name(), it.sure)).collect();
            assert_eq!(found, causes, "{facts:?}");
        }
    }
}
