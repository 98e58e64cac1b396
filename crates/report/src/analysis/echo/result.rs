//! What one echo stream showed: counts, loss, order, delays and their variation.

use crate::analysis::lateness::Lateness;
use crate::analysis::one_way::Clocks;
use quell_model::{EchoSample, EchoStatus};
use quell_stats::Batch;
use quell_stats::Summary as Spread;
use quell_units::fmt::plural;
use std::collections::BTreeMap;

/// What became of how many packets. Those sent while the loads warmed up don't count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets sent, those included that the kernel refused. Packets that ended too late to be awaited don't count.
    pub sent: u64,
    pub received: u64,
    /// Packets answered after the time that an answer was waited for.
    pub received_late: u64,
    pub lost: u64,
    /// Of these, known to be lost on the way to the reflector.
    pub lost_up: u64,
    /// Known to be lost on the way back.
    pub lost_down: u64,
    /// Packets that the kernel refused, or that an ICMP error answered.
    pub errors: u64,
    /// Further replies to packets that were answered already.
    pub duplicates: u64,
    /// Packets sent so shortly before the end that none could be answered by then: they count as nothing.
    pub unfinished: u64,
    /// Packets sent of which nobody can know whether they were lost: something answered after the kernel had sent them again, or they were not
    /// waited for so long that they must be.
    pub unsure: u64,
    /// Packets sent that the server left unanswered, or may have, by what it said: no loss, or none that is known.
    pub unanswered: u64,
    /// Of the answered, those of which no time is known: a file counts answers that it does not list.
    pub untimed: u64,
    /// Packets that never were sent, since this host's own queue had no room for them: they count as nothing.
    pub not_sent: u64,
}

impl Counts {
    pub fn answered(&self) -> u64 {
        self.received + self.received_late
    }

    /// (sent − answered) ÷ sent; none when nothing was sent, or where that is not known.
    pub fn loss_ratio(&self) -> Option<f64> {
        self.loss_range().filter(|_| self.unsure + self.unanswered == 0).map(|(_, most)| most)
    }

    /// The least and the most that (sent − answered) ÷ sent can be; none when nothing was sent.
    pub fn loss_range(&self) -> Option<(f64, f64)> {
        let most = self.sent - self.answered();
        let part = |lost: u64| lost as f64 / self.sent as f64;
        (self.sent > 0).then(|| (part(most - self.unsure - self.unanswered), part(most)))
    }

    /// The part whose answers have times, where that is less than half, but some: what the delays of the others were is not known, and figures of
    /// so few must not pass for those of all.
    pub fn minority(&self) -> Option<f64> {
        let timed = self.answered() - self.untimed;
        is_minority(timed, self.sent).then(|| timed as f64 / self.sent as f64)
    }

    /// Packets lost on the way to the reflector, and on the way back; none where the direction of some loss is not known.
    pub fn lost_ways(&self) -> Option<(u64, u64)> {
        let lost = self.sent.checked_sub(self.answered())?;
        (lost == self.lost_up + self.lost_down).then_some((self.lost_up, self.lost_down))
    }

    pub(super) fn lose(&mut self, said: EchoStatus) {
        self.lost += 1;
        self.lost_up += u64::from(said == EchoStatus::LostUp);
        self.lost_down += u64::from(said == EchoStatus::LostDown);
    }

    pub(super) fn find(&mut self, said: EchoStatus) {
        self.lost -= 1;
        self.lost_up -= u64::from(said == EchoStatus::LostUp);
        self.lost_down -= u64::from(said == EchoStatus::LostDown);
    }

    /// The same with losses whose number is certain for each way although which packets they were is not: the probe's fact
    /// `stream/NAME/losses`, as `{"up":3,"down":1}`.
    pub(super) fn with_losses(self, told: &BTreeMap<String, u64>) -> Self {
        let more = |way: &str, known: u64| told.get(way).map_or(known, |n| known.max(*n));
        let lost_up = more("up", self.lost_up).min(self.lost);
        let lost_down = more("down", self.lost_down).min(self.lost - lost_up);
        Self { lost_up, lost_down, ..self }
    }

    /// The same where so many of those without an answer may have been left unanswered: of those that are known to be lost on a way none was.
    pub(super) fn with_unanswered(self, told: u64) -> Self {
        let unanswered = told.min(self.lost - self.lost_up - self.lost_down);
        Self { unanswered, lost: self.lost - unanswered, ..self }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Way {
    /// In milliseconds; at least so much, where the next says more.
    pub delays_ms: Option<Spread>,
    /// The most that they can be, where that is not the same; infinite where nobody knows.
    pub delays_at_most_ms: Option<Spread>,
    /// Of each round trip in milliseconds, in the order of arrival; empty where not all packets are kept, and of one way.
    pub each_ms: Vec<f64>,
    /// The mean of |D| of RFC 3550, section 6.4.1, in milliseconds.
    pub jitter_ms: Option<f64>,
    /// RFC 3550's J after the last packet.
    pub jitter_last_ms: Option<f64>,
    /// Packets that arrived after one that was sent later (RFC 4737).
    pub reordered: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EchoResult {
    pub counts: Counts,
    /// Packets sent and lost by stretches of the measurement; empty where not all packets are kept.
    pub batches: Vec<Batch>,
    pub batches_at_most: Vec<Batch>,
    /// Packets whose replies came after one to a later packet.
    pub reordered: u64,
    /// Packets that came to the reflector after one that was sent later (RFC 4737); none where it does not number them.
    pub reordered_up: Option<u64>,
    /// Packets whose replies overtook each other on the way back, or on the whole way where the reflector does not number them.
    pub reordered_down: Option<u64>,
    /// Jitter of the way to the reflector in milliseconds: the mean of |D| of RFC 3550, section 6.4.1.
    pub jitter_up_ms: Option<f64>,
    pub jitter_down_ms: Option<f64>,
    pub jitter_rtt_ms: Option<f64>,
    /// RFC 3550's J after the last packet, as an RTP receiver reports it, of what [`Self::jitter_of`] says: it comes up from 0, and
    /// forgets all but some thirty packets.
    pub jitter_last_ms: Option<f64>,
    pub jitter_of: Transit,
    /// Variation of delay between packets sent one after the other (RFC 3393), in milliseconds, as absolute values.
    pub ipdv_ms: Option<Spread>,
    /// Round-trip times in milliseconds; at least so much, where the next says more.
    pub rtt_ms: Option<Spread>,
    /// The most that they can be where some packets are unsure; infinite where nobody knows.
    pub rtt_at_most_ms: Option<Spread>,
    /// That of each packet in the order of arrival; empty where not all packets are kept.
    pub rtt_each_ms: Vec<f64>,
    pub up_ms: Option<Spread>,
    pub down_ms: Option<Spread>,
    pub clocks: Clocks,
    /// How late the program that measured was: sending or seeing, whichever is later.
    pub lateness: Lateness,
    pub seen: Lateness,
    pub left: Lateness,
    /// How long packets waited in this host's own queue, in milliseconds.
    pub queued_ms: Option<Spread>,
}

/// Which time of a packet on its way its jitter is taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transit {
    /// The one-way delay to the reflector, where the reflector tells it.
    Up,
    Down,
    RoundTrip,
}

impl Transit {
    pub fn name(self) -> &'static str {
        match self {
            Transit::Up => "up",
            Transit::Down => "down",
            Transit::RoundTrip => "round-trip",
        }
    }
}

impl EchoResult {
    pub(crate) fn turned(self) -> Self {
        let Counts { lost_up, lost_down, .. } = self.counts;
        Self {
            counts: Counts { lost_up: lost_down, lost_down: lost_up, ..self.counts },
            reordered_up: self.reordered_down,
            reordered_down: self.reordered_up,
            jitter_up_ms: self.jitter_down_ms,
            jitter_down_ms: self.jitter_up_ms,
            jitter_of: match self.jitter_of {
                Transit::Up => Transit::Down,
                Transit::Down => Transit::Up,
                Transit::RoundTrip => Transit::RoundTrip,
            },
            up_ms: self.down_ms,
            down_ms: self.up_ms,
            ..self
        }
    }

    /// The least and the most that a figure of the round-trip times can be; the most is infinite where nobody knows.
    pub fn rtt_range(&self, of: fn(&Spread) -> f64) -> Option<(f64, f64)> {
        let least = of(self.rtt_ms.as_ref()?);
        Some((least, self.rtt_at_most_ms.as_ref().map_or(least, of)))
    }

    /// What has to be said where nobody can know of some packets whether they were lost.
    pub fn unsure(&self) -> Option<String> {
        let Counts { unsure, sent, .. } = self.counts;
        let (least, most) = self.counts.loss_range().filter(|_| unsure > 0)?;
        if unsure == sent {
            return Some(format!(
                "how many of its {} were lost is unknown",
                plural(sent, "packet")
            ));
        }
        Some(format!(
            "of {unsure} of {} it is unknown whether they were lost. The loss is at least {:.1} %, at most {:.1} %, and round trips \
             have bounds only",
            plural(sent, "packet"),
            least * 100.0,
            most * 100.0
        ))
    }

    /// What has to be said where this host's own queue was full.
    pub fn not_sent(&self) -> Option<String> {
        let Counts { not_sent, sent, .. } = self.counts;
        (not_sent > 0).then(|| {
            format!(
                "{} beside the {sent} not sent: no room in the own queue; this is no loss",
                plural(not_sent, "packet")
            )
        })
    }

    /// Jitter of the way to the reflector where the reflector tells its times, else of the round trip.
    pub fn jitter_ms(&self) -> Option<f64> {
        match self.jitter_of {
            Transit::Up => self.jitter_up_ms,
            Transit::Down => self.jitter_down_ms,
            Transit::RoundTrip => self.jitter_rtt_ms,
        }
    }

    /// What has to be said where few answers stand for all packets.
    pub fn minority(&self) -> Option<String> {
        let part = self.counts.minority()?;
        Some(format!(
            "delays are those of the {:.1} % of its packets whose times are known; those of the rest are unknown",
            part * 100.0
        ))
    }
}

/// Whether so many answered packets are fewer than half of those that were sent, but some.
pub(crate) fn is_minority(answered: u64, sent: u64) -> bool {
    answered > 0 && answered.saturating_mul(2) < sent
}

pub(crate) fn rtt_ms(sample: &EchoSample) -> Option<f64> {
    sample.rtt_ns.map(|ns| ns as f64 / 1e6)
}
