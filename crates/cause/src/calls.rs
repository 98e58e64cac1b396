//! Facts of calls (`quell rr`), and the rule from them to a cause: what removes a wait is its cause.
//!
//! ```text
//!   the same calls again with …    TCP_NODELAY    quick ACKs there    quick ACKs here
//!   delayed-ack, this end waited   sooner         sooner              –
//!   nagle, this end waited         sooner         as long             –
//!   delayed-ack, server waited     –              –                   sooner
//! ```
//!
//! Then what the server says that it took itself, then retransmission timers that ran out for segments that the other end did not have.

use crate::Cause;
use quell_finding::{Evidence, Finding};
use serde::Serialize;

/// The least delay of an ACK on Linux (`TCP_DELACK_MIN`, include/net/tcp.h: 40 ms), less a tick of a kernel's clock.
pub const LEAST_DELAY_MS: f64 = 30.0;

/// What a server takes is told from so much on.
const LEAST_SERVER_MS: f64 = 1.0;

/// One of the two ends of a connection: as it is seen from one of them, or from a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Endpoint {
    Here,
    There,
    Client,
    Server,
}

/// A cause, the end that waited to send, and whether nothing else is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    pub cause: Cause,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Endpoint>,
    pub sure: bool,
}

impl Diagnosis {
    pub fn sure(cause: Cause, end: Endpoint) -> Self {
        Self { cause, end: Some(end), sure: true }
    }

    pub fn unsure(self) -> Self {
        Self { sure: false, ..self }
    }

    pub fn unknown() -> Self {
        Self { cause: Cause::Unknown, end: None, sure: false }
    }
}

/// A finding of a cause, with the end that waited.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EndFinding {
    #[serde(flatten)]
    pub finding: Finding,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Endpoint>,
}

/// What calls with one thing changed are beside the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallEffect {
    Sooner,
    Same,
    /// The times leave both open, or nobody tried.
    #[default]
    Unknown,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CallExperiment {
    pub calls: usize,
    pub median_ms: f64,
    pub sooner_ms: f64,
    pub effect: CallEffect,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Retransmissions {
    pub segments: u32,
    /// Segments of which the other end said that it had them (DSACK, RFC 2883).
    pub needless: u32,
    /// Calls in which a retransmission timer or a tail loss probe of that host ran out.
    pub timers: u32,
}

impl Retransmissions {
    pub fn add(&mut self, more: Self) {
        self.segments = self.segments.saturating_add(more.segments);
        self.needless = self.needless.saturating_add(more.needless);
        self.timers = self.timers.saturating_add(more.timers);
    }

    /// Calls that waited for a timer for a segment that the other end did not have.
    fn waits(self) -> u32 {
        self.timers.min(self.segments.saturating_sub(self.needless))
    }
}

/// What calls of one size showed. Times are in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CallFacts {
    pub calls: u64,
    pub median_ms: f64,
    pub fastest_ms: f64,
    /// What the handshake took, where one connection carries all calls.
    pub handshake_ms: Option<f64>,
    pub rtt_ms: Option<f64>,
    /// The median of what the server says that it took itself.
    pub server_ms: Option<f64>,
    /// Calls in which a reply was there before the whole request had arrived.
    pub early: u64,
    /// Calls in which Nagle's rule held the end of the request, right after the last write.
    pub held: u64,
    pub held_bytes: u32,
    /// Calls in which this host delayed an ACK, and nothing of the reply came for as long.
    pub paused: u64,
    pub no_delay: CallExperiment,
    pub quick_ack_there: CallExperiment,
    pub quick_ack_here: CallExperiment,
    pub again_here: Retransmissions,
    pub again_there: Retransmissions,
    /// Packets overtook each other, or came twice more often than they were sent again: a DSACK proves nothing.
    pub disordered: bool,
}

impl CallFacts {
    /// What most calls waited for; none where nothing is wrong.
    pub fn diagnosis(&self) -> Option<Diagnosis> {
        use Endpoint::{Here, There};
        if self.no_delay.effect == CallEffect::Sooner {
            return Some(self.held_here());
        }
        if self.quick_ack_here.effect == CallEffect::Sooner {
            return Some(Diagnosis::sure(Cause::DelayedAck, There));
        }
        if self.server_ms.is_some_and(|ms| ms >= LEAST_SERVER_MS && ms > self.median_ms / 2.0) {
            return Some(Diagnosis::sure(Cause::SenderIdle, There));
        }
        let (here, there) = (self.again_here.waits(), self.again_there.waits());
        if here + there > 0 {
            let end = if there > here { There } else { Here };
            return Some(match self.server_ms {
                _ if self.disordered => Diagnosis::unknown(),
                // A DSACK that was lost, and what the server sent again, nobody tells.
                None => {
                    Diagnosis { end: None, ..Diagnosis::sure(Cause::RetransmissionTimeout, end) }
                        .unsure()
                }
                Some(_) => Diagnosis::sure(Cause::RetransmissionTimeout, end),
            });
        }
        let open = |experiment: CallExperiment, calls: u64| {
            self.is_common(calls) && experiment.effect == CallEffect::Unknown
        };
        // What was sent again needlessly here may stand for a reply that was lost, which a silent server does not tell.
        let is_late = self.server_ms.is_none() && self.again_here.timers > 0;
        let is_open =
            is_late || open(self.no_delay, self.held) || open(self.quick_ack_here, self.paused);
        (is_open || self.is_slow()).then(Diagnosis::unknown)
    }

    /// So many calls are a third of all or more: worth an experiment.
    pub fn is_common(&self, calls: u64) -> bool {
        calls > 0 && calls * 3 >= self.calls
    }

    /// Nagle's rule made calls longer: whether the ACK that was waited for was delayed.
    fn held_here(&self) -> Diagnosis {
        let delayed = Diagnosis::sure(Cause::DelayedAck, Endpoint::Here);
        let prompt = Diagnosis::sure(Cause::Nagle, Endpoint::Here);
        let gain_ms = self.no_delay.sooner_ms;
        // A server that says nothing of itself may not do what it is asked either.
        let obeys = self.server_ms.is_some();
        match self.quick_ack_there.effect {
            CallEffect::Sooner => delayed,
            _ if gain_ms < LEAST_DELAY_MS => prompt,
            CallEffect::Same if obeys => prompt,
            _ if obeys => Diagnosis::unknown(),
            _ => match self.rtt_ms {
                Some(rtt) if gain_ms >= rtt + LEAST_DELAY_MS => delayed.unsure(),
                Some(rtt) if gain_ms <= rtt * 1.5 => prompt.unsure(),
                _ => Diagnosis::unknown(),
            },
        }
    }

    /// Even the fastest call took twice the handshake, and the server does not say why.
    fn is_slow(&self) -> bool {
        let twice = self.handshake_ms.is_some_and(|handshake| self.fastest_ms >= 2.0 * handshake);
        twice && self.server_ms.is_none() && self.fastest_ms >= LEAST_DELAY_MS
    }

    pub fn waits(&self, diagnosis: Diagnosis) -> u64 {
        match (diagnosis.cause, diagnosis.end) {
            (Cause::DelayedAck, Some(Endpoint::There)) => self.paused,
            (Cause::DelayedAck | Cause::Nagle, _) => self.held,
            (Cause::RetransmissionTimeout, _) => {
                u64::from(self.again_here.waits()) + u64::from(self.again_there.waits())
            }
            _ => 0,
        }
    }

    /// The finding about `subject`, with the facts beside it.
    pub fn finding(&self, subject: impl Into<String>) -> Option<EndFinding> {
        let diagnosis = self.diagnosis()?;
        let (here, server) = ("this end", "the server");
        let (sender, receiver) = match diagnosis.end {
            Some(Endpoint::There) => (server, here),
            _ => (here, server),
        };
        let mut finding = diagnosis.cause.finding(subject, sender, receiver);
        finding.sure = diagnosis.sure;
        finding.evidence = self.evidence();
        Some(EndFinding { finding, end: diagnosis.end })
    }

    fn evidence(&self) -> Vec<Evidence> {
        const CALLS: &str = "quell rr";
        const KERNEL: &str = "TCP_INFO";
        const SERVER: &str = "quell serve";
        let ms = |name, value: f64, source| {
            let words = format!("{name} {value:.1} ms");
            Evidence::number(name, value, "ms", source).in_words(words)
        };
        let mut seen = vec![ms("the median call took", self.median_ms, CALLS)];
        seen.extend(self.rtt_ms.map(|rtt| ms("the least round trip", rtt, KERNEL)));
        seen.extend(self.server_ms.map(|own| ms("of the call the server took", own, SERVER)));
        let part = |name: &str, part, words: String| {
            Evidence::part(name, part, self.calls, "calls", KERNEL).in_words(words)
        };
        if self.held > 0 {
            let words = format!(
                "in {} of {} calls up to {} bytes were held behind an unacknowledged segment",
                self.held, self.calls, self.held_bytes
            );
            seen.push(part("held", self.held, words));
        }
        if self.paused > 0 {
            let words = format!(
                "in {} of {} replies there was a pause while this host delayed an ACK",
                self.paused, self.calls
            );
            seen.push(part("paused", self.paused, words));
        }
        for (what, experiment) in [
            ("with TCP_NODELAY", self.no_delay),
            ("with quick ACKs at the server", self.quick_ack_there),
            ("with quick ACKs here", self.quick_ack_here),
        ] {
            if experiment.calls > 0 {
                let CallExperiment { calls, median_ms, .. } = experiment;
                let words = format!("{what} {calls} calls took {median_ms:.1} ms");
                seen.push(Evidence::number(what, median_ms, "ms", CALLS).in_words(words));
            }
        }
        for (end, again, source) in
            [("this end", self.again_here, KERNEL), ("the server", self.again_there, SERVER)]
        {
            let Retransmissions { segments, needless, timers } = again;
            if segments > 0 {
                let words = format!(
                    "{end} sent {segments} segments again, {needless} needlessly; in {timers} calls a timer ran out"
                );
                let name = format!("sent again by {end}");
                seen.push(Evidence::count(name, segments.into(), source).in_words(words));
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(effect: CallEffect, sooner_ms: f64) -> CallExperiment {
        CallExperiment { calls: 5, median_ms: 20.0, sooner_ms, effect }
    }

    fn held() -> CallFacts {
        CallFacts {
            calls: 20,
            median_ms: 80.0,
            rtt_ms: Some(20.0),
            server_ms: Some(0.1),
            held: 20,
            no_delay: experiment(CallEffect::Sooner, 60.0),
            ..CallFacts::default()
        }
    }

    fn said(facts: CallFacts) -> (&'static str, Option<Endpoint>, bool) {
        let diagnosis = facts.diagnosis();
        diagnosis.map_or(("", None, true), |it| (it.cause.name(), it.end, it.sure))
    }

    #[test]
    fn what_removes_the_wait_is_the_cause() {
        use Endpoint::{Here, There};
        let [sooner, same] = [CallEffect::Sooner, CallEffect::Same].map(|it| experiment(it, 40.0));
        let lost = Retransmissions { segments: 5, needless: 1, timers: 5 };
        let silent = CallFacts { server_ms: None, ..held() };
        let plain = CallFacts { held: 0, no_delay: CallExperiment::default(), ..held() };
        for (facts, cause) in [
            (CallFacts { quick_ack_there: sooner, ..held() }, ("delayed-ack", Some(Here), true)),
            (CallFacts { quick_ack_there: same, ..held() }, ("nagle", Some(Here), true)),
            (held(), ("unknown", None, false)),
            (silent, ("delayed-ack", Some(Here), false)),
            (CallFacts { rtt_ms: Some(60.0), ..silent }, ("nagle", Some(Here), false)),
            (CallFacts { no_delay: experiment(CallEffect::Same, 0.0), ..held() }, ("", None, true)),
            (CallFacts { no_delay: CallExperiment::default(), ..held() }, ("unknown", None, false)),
            (CallFacts { quick_ack_here: sooner, ..plain }, ("delayed-ack", Some(There), true)),
            (CallFacts { server_ms: Some(50.0), ..plain }, ("sender-idle", Some(There), true)),
            (CallFacts { again_here: lost, ..plain }, ("retransmission-timeout", Some(Here), true)),
            (
                CallFacts { again_there: lost, ..plain },
                ("retransmission-timeout", Some(There), true),
            ),
            (CallFacts { again_here: lost, disordered: true, ..plain }, ("unknown", None, false)),
            (plain, ("", None, true)),
        ] {
            assert_eq!(said(facts), cause, "{facts:?}");
        }
    }

    #[test]
    fn what_was_sent_again_needlessly_or_without_a_timer_is_no_wait() {
        let again = |segments, needless, timers| Retransmissions { segments, needless, timers };
        for (again, cause) in
            [(again(9, 9, 9), ""), (again(9, 0, 0), ""), (again(9, 8, 3), "retransmission-timeout")]
        {
            let facts = CallFacts {
                held: 0,
                again_here: again,
                no_delay: CallExperiment::default(),
                ..held()
            };
            assert_eq!(said(facts).0, cause, "{again:?}");
            // A silent server may have lost its reply.
            let silent = CallFacts { server_ms: None, ..facts };
            let of_silent = if cause.is_empty() && again.timers > 0 { "unknown" } else { cause };
            assert_eq!(said(silent).0, of_silent, "{again:?}");
        }
    }

    #[test]
    fn a_finding_names_the_end_and_shows_the_facts() {
        let facts = CallFacts { quick_ack_there: experiment(CallEffect::Sooner, 40.0), ..held() };
        let found = facts.finding("calls of 64 bytes").expect("a cause");
        assert_eq!((&*found.finding.id, found.end), ("delayed-ack", Some(Endpoint::Here)));
        assert!(found.finding.says.starts_with("this end held"), "{}", found.finding.says);
        assert!(found.finding.evidence.len() >= 5, "{:?}", found.finding.evidence);
        assert_eq!(facts.waits(facts.diagnosis().expect("a cause")), 20);
    }
}
