//! One echo stream (ICMP echo, reflected UDP) in figures: loss, order, delays and their variation.

use super::flow::BATCHES;
use super::{Clocks, Lateness, Spread};
use quell_model::{EchoSample, EchoStatus};
use quell_stats::{ArrivalOrder, Batch, Jitter, ipdv, summary};
use std::collections::BTreeMap;

/// What one echo stream showed in one cell. Packets sent while the loads warmed up don't count.
#[derive(Debug, Clone, PartialEq)]
pub struct EchoResult {
    /// Packets sent, those included that the kernel refused. Packets that ended too late to be awaited don't count.
    pub sent: u64,
    /// Packets answered in time.
    pub received: u64,
    /// Packets answered after the time that an answer was waited for.
    pub received_late: u64,
    /// (sent − received − received late) ÷ sent; none when nothing was sent.
    pub loss_ratio: Option<f64>,
    /// Packets sent and lost by stretches of the measurement.
    pub batches: Vec<Batch>,
    /// Packets known to be lost on the way to the reflector.
    pub lost_up: u64,
    /// Packets known to be lost on the way back.
    pub lost_down: u64,
    /// Packets that the kernel refused, or that an ICMP error answered.
    pub errors: u64,
    /// Further replies to packets that were answered already.
    pub duplicates: u64,
    /// Packets that came to the reflector after one that was sent later (RFC 4737); none where it does not number them.
    pub reordered_up: Option<u64>,
    /// Packets whose replies overtook each other on the way back, or on the whole way where the reflector does not number them.
    pub reordered_down: Option<u64>,
    /// Jitter of the way to the reflector in milliseconds: the mean of |D| of RFC 3550, section 6.4.1.
    pub jitter_up_ms: Option<f64>,
    /// The same of the way back.
    pub jitter_down_ms: Option<f64>,
    /// The same of the round trip.
    pub jitter_rtt_ms: Option<f64>,
    /// RFC 3550's J after the last packet, as an RTP receiver reports it, of what [`Self::jitter_of`] says: it comes up from 0, and
    /// forgets all but some thirty packets.
    pub jitter_last_ms: Option<f64>,
    /// What that, and the variation of delay, are of.
    pub jitter_of: Transit,
    /// Variation of delay between packets sent one after the other (RFC 3393), in milliseconds, as absolute values.
    pub ipdv_ms: Option<Spread>,
    /// Round-trip times in milliseconds.
    pub rtt_ms: Option<Spread>,
    /// One-way delays to the reflector in milliseconds.
    pub up_ms: Option<Spread>,
    /// One-way delays back in milliseconds.
    pub down_ms: Option<Spread>,
    /// The clocks that one-way delays are of.
    pub clocks: Clocks,
    /// How late the program that measured was.
    pub lateness: Lateness,
}

/// Which time of a packet on its way its jitter is taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transit {
    /// The one-way delay to the reflector, where the reflector tells it.
    Up,
    /// The one-way delay back.
    Down,
    /// The round-trip time.
    RoundTrip,
}

impl Transit {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Transit::Up => "up",
            Transit::Down => "down",
            Transit::RoundTrip => "round-trip",
        }
    }
}

impl EchoResult {
    /// Jitter of the way to the reflector where the reflector tells its times, else of the round trip.
    pub fn jitter_ms(&self) -> Option<f64> {
        match self.jitter_of {
            Transit::Up => self.jitter_up_ms,
            Transit::Down => self.jitter_down_ms,
            Transit::RoundTrip => self.jitter_rtt_ms,
        }
    }

    /// Packets lost on the way to the reflector, and on the way back; none where the direction of some loss is not known.
    pub fn lost_ways(&self) -> Option<(u64, u64)> {
        let lost = self.sent.checked_sub(self.received + self.received_late)?;
        (lost == self.lost_up + self.lost_down).then_some((self.lost_up, self.lost_down))
    }

    /// Whether its delays are those of fewer than half of the packets that were sent: what they were for the others is not known.
    pub fn is_minority(&self) -> bool {
        is_minority(self.received + self.received_late, self.sent)
    }

    /// The same with losses whose number is certain for each way although which packets they were is not: the probe's fact
    /// `stream/NAME/losses`, as `{"up":3,"down":1}`. What can't be read says nothing.
    pub fn with_losses(self, fact: Option<&str>) -> Self {
        let told: Option<BTreeMap<String, u64>> = fact.and_then(|f| serde_json::from_str(f).ok());
        let more = |way, known: u64| {
            told.as_ref().and_then(|t| t.get(way)).map_or(known, |n| known.max(*n))
        };
        let lost = self.sent
            - self.received
            - self.received_late
            - self.errors.min(self.sent - self.received - self.received_late);
        let lost_up = more("up", self.lost_up).min(lost);
        let lost_down = more("down", self.lost_down).min(lost - lost_up);
        Self { lost_up, lost_down, ..self }
    }

    /// What has to be said where few answers stand for all packets.
    pub fn minority(&self) -> Option<String> {
        let answered = self.received + self.received_late;
        self.is_minority().then(|| {
            format!(
                "delays are those of the {:.1} % of its packets that were answered; of the rest nobody knows them",
                answered as f64 * 100.0 / self.sent as f64
            )
        })
    }

    /// The figures of one stream whose ends have the same clock.
    pub fn of(samples: &[EchoSample]) -> Self {
        let counted: Vec<&EchoSample> =
            samples.iter().filter(|s| s.t_ns >= 0 && s.status != EchoStatus::Unfinished).collect();
        let count = |status| counted.iter().filter(|s| s.status == status).count() as u64;
        let duplicates = count(EchoStatus::Duplicate);
        let sent = counted.len() as u64 - duplicates;
        let answered: Vec<&EchoSample> =
            counted.iter().copied().filter(|s| s.status.is_answered()).collect();
        let received_late = count(EchoStatus::Late);
        let received = answered.len() as u64 - received_late;
        let jitter_of = transit(&answered);
        let delays = |of: fn(&EchoSample) -> Option<f64>| {
            let values: Vec<f64> = answered.iter().filter_map(|s| of(s)).collect();
            summary(&values)
        };
        let jitter = |of| Jitter::of(transits_by_arrival(&answered, of));
        let one_way = |of| jitter(of).mean().filter(|_| jitter_of == Transit::Up);
        let variations: Vec<f64> =
            variations(&answered, jitter_of).into_iter().map(f64::abs).collect();
        Self {
            sent,
            received,
            received_late,
            loss_ratio: (sent > 0).then(|| (sent - answered.len() as u64) as f64 / sent as f64),
            batches: batches(&counted),
            lost_up: count(EchoStatus::LostUp),
            lost_down: count(EchoStatus::LostDown),
            errors: count(EchoStatus::Error),
            duplicates,
            reordered_up: order(&answered, |s| Some((s.up_order?, s.seq))).map(overtaken),
            reordered_down: order(&answered, |s| {
                Some((s.down_order?, s.up_order.unwrap_or(s.seq)))
            })
            .map(overtaken),
            jitter_up_ms: one_way(Transit::Up),
            jitter_down_ms: one_way(Transit::Down),
            jitter_rtt_ms: jitter(Transit::RoundTrip).mean(),
            jitter_last_ms: jitter(jitter_of).last(),
            jitter_of,
            ipdv_ms: summary(&variations),
            rtt_ms: delays(rtt_ms),
            up_ms: delays(|s| s.up_ns.map(ms)),
            down_ms: delays(|s| s.down_ns.map(ms)),
            clocks: Clocks::Same,
            lateness: Lateness::of(counted.iter().copied()),
        }
    }
}

/// Whether so many answered packets are fewer than half of those that were sent, but some.
pub(crate) fn is_minority(answered: u64, sent: u64) -> bool {
    answered > 0 && answered.saturating_mul(2) < sent
}

/// Packets sent and lost by stretches of time of the same length, from the first packet to the last.
fn batches(counted: &[&EchoSample]) -> Vec<Batch> {
    let mut batches = vec![Batch::default(); BATCHES as usize];
    let times = || counted.iter().map(|s| s.t_ns);
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return Vec::new() };
    let length = i128::from(last) - i128::from(first) + 1;
    for sample in counted.iter().filter(|s| s.status != EchoStatus::Duplicate) {
        let part = (i128::from(sample.t_ns) - i128::from(first)) * i128::from(BATCHES) / length;
        let batch = &mut batches[part as usize];
        batch.sent += 1.0;
        batch.lost += f64::from(u8::from(!sample.status.is_answered()));
    }
    batches
}

/// A packet's round-trip time in milliseconds.
pub(crate) fn rtt_ms(sample: &EchoSample) -> Option<f64> {
    sample.rtt_ns.map(|ns| ns as f64 / 1e6)
}

fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

/// One-way delays where every answered packet has one, else round-trip times.
pub(crate) fn transit(answered: &[&EchoSample]) -> Transit {
    let all_up = !answered.is_empty() && answered.iter().all(|s| s.up_ns.is_some());
    if all_up { Transit::Up } else { Transit::RoundTrip }
}

fn transit_ms(sample: &EchoSample, of: Transit) -> Option<f64> {
    match of {
        Transit::Up => sample.up_ns.map(ms),
        Transit::Down => sample.down_ns.map(ms),
        Transit::RoundTrip => rtt_ms(sample),
    }
}

/// RFC 3550 takes packets in the order of their arrival, which is not always that of their numbers.
fn transits_by_arrival(answered: &[&EchoSample], of: Transit) -> Vec<f64> {
    let mut packets: Vec<&EchoSample> = answered.to_vec();
    packets.sort_by_key(|s| match of {
        Transit::Up => (s.up_order.unwrap_or(s.seq), s.seq),
        Transit::Down | Transit::RoundTrip => (s.down_order.unwrap_or(s.seq), s.seq),
    });
    packets.into_iter().filter_map(|s| transit_ms(s, of)).collect()
}

/// RFC 3550's D, of which the jitter is the mean of the absolute values: the change of transit time from one packet that arrives to the
/// next, in milliseconds.
pub(crate) fn changes_by_arrival(answered: &[&EchoSample], of: Transit) -> Vec<f64> {
    transits_by_arrival(answered, of).windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Differences of transit times of packets with consecutive numbers, in milliseconds: a lost packet leaves no pair (RFC 3393, section
/// 2.6 and RFC 5481, section 4.1).
fn variations(answered: &[&EchoSample], of: Transit) -> Vec<f64> {
    let mut packets: Vec<&EchoSample> = answered.to_vec();
    packets.sort_by_key(|s| s.seq);
    let mut delays: Vec<Option<f64>> = Vec::with_capacity(packets.len());
    let mut next = None;
    for packet in packets {
        if next.is_some_and(|next| next != packet.seq) {
            // One gap stands for all packets that are missing here.
            delays.push(None);
        }
        delays.push(transit_ms(packet, of));
        next = packet.seq.checked_add(1);
    }
    ipdv(&delays).into_iter().flatten().collect()
}

/// Numbers of packets in the order of arrival that `key` tells; none when some packet does not tell it.
fn order(
    answered: &[&EchoSample],
    key: impl Fn(&EchoSample) -> Option<(u64, u64)>,
) -> Option<Vec<u64>> {
    let mut pairs: Vec<(u64, u64)> = answered.iter().map(|s| key(s)).collect::<Option<_>>()?;
    pairs.sort_unstable();
    (!pairs.is_empty()).then(|| pairs.into_iter().map(|(_, number)| number).collect())
}

/// Type-P-Reordered of RFC 4737, section 3.
fn overtaken(numbers: Vec<u64>) -> u64 {
    ArrivalOrder::of(numbers).reordered()
}
