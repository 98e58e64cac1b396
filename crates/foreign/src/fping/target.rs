//! What is told of one target, in lines and in its list, as one packet a number.
//!
//! ```text
//!   [0] … ms      ─┐
//!   [3] timed out ─┼─► numbers ◄── list of -C: the same packets once more
//!   duplicate [2] ─┘      │
//!                         └─► times: stamps, else between the neighbours', else a step a number
//! ```

use crate::error::ForeignError;
use crate::imported::Stream;
use crate::order;
use quell_model::{EchoSample, EchoStatus};
use std::collections::{BTreeMap, HashSet};

/// What a summary says.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    /// Its line, from 1.
    pub line: usize,
    /// Packets sent.
    pub sent: u64,
    /// Packets that came back.
    pub received: u64,
    /// There are others before it, so that each may be of a part of the time (`-Q`).
    pub many: bool,
}

/// One target.
#[derive(Default)]
pub(super) struct Target {
    /// Its name, and what is known of it beside packets.
    pub stream: Stream,
    /// Packets whose lines tell when they were sent.
    pub stamped: Vec<EchoSample>,
    /// Packets without an answer whose lines tell when that was certain.
    pub late: Vec<EchoSample>,
    /// Packets whose lines have no times.
    pub timeless: Vec<EchoSample>,
    /// Round trips of all packets by number, as `-C` lists them at the end.
    pub list: Option<Vec<Option<u64>>>,
    /// Packets sent, by their summary or the last that had no answer.
    pub sent: Option<u64>,
    /// Its last summary.
    pub sum: Option<Sum>,
}

impl Target {
    /// Whether some of its lines have times.
    pub fn has_times(&self) -> bool {
        !self.stamped.is_empty() || !self.late.is_empty()
    }

    /// The stream, its packets a step of `interval` apart where nothing tells their times. Of all streams there may be so many packets `left`.
    pub fn stream(mut self, interval: u64, left: &mut usize) -> Result<Stream, ForeignError> {
        let has_times = self.has_times();
        // A timed-out packet's line came when the wait was over. When the packet was sent, its neighbours tell, and where there are none all
        // of them are late alike.
        if self.stamped.is_empty() {
            self.stamped.append(&mut self.late);
        }
        self.merge_list();
        self.check_sum()?;
        // Times of packets between others are no times at which they came.
        let is_whole = self.timeless.iter().all(|packet| packet.rtt_ns.is_none());
        let times = Times::of(&self.stamped, interval);
        for packet in &mut self.timeless {
            packet.t_ns = times.at(packet.seq).ok_or(ForeignError::TooMany)?;
        }
        let Self { mut stream, stamped: mut packets, timeless, sent, .. } = self;
        packets.extend(timeless);
        if packets.iter().all(|packet| packet.status == EchoStatus::Duplicate) {
            // `-q -c` prints these alone: of the packets there are only sums.
            return Ok(stream);
        }
        let first = packets.iter().map(|p| p.seq).min().unwrap_or(0);
        stream.packets = order::by_number(packets, left)?;
        if has_times && is_whole {
            order::arrivals(&mut stream.packets);
        }
        complete(&mut stream, first, sent, times.step, left)?;
        Ok(stream)
    }

    /// Refuses a summary that says less than its lines.
    fn check_sum(&self) -> Result<(), ForeignError> {
        let Some(Sum { line, sent, received, .. }) = self.sum.filter(|sum| !sum.many) else {
            return Ok(());
        };
        let all = self.stamped.iter().chain(&self.late).chain(&self.timeless);
        let told = all.filter(|packet| packet.status != EchoStatus::Duplicate);
        let (mut numbers, mut answered) = (HashSet::new(), HashSet::new());
        for packet in told {
            numbers.insert(packet.seq);
            if packet.status.is_answered() {
                answered.insert(packet.seq);
            }
        }
        let (numbers, answered) = (numbers.len() as u64, answered.len() as u64);
        if sent >= numbers && received >= answered {
            return Ok(());
        }
        let why = format!(
            "it says {sent} packets were sent and {received} came back, where lines tell of {numbers} and {answered}"
        );
        Err(ForeignError::Text { line, why })
    }

    /// A list tells the packets of the lines once more: what it adds are those that no line tells of, and answers to those that a line gave up.
    fn merge_list(&mut self) {
        let Some(list) = self.list.take() else { return };
        let lines = self.stamped.iter().chain(&self.timeless);
        let told = lines.filter(|packet| packet.status != EchoStatus::Duplicate);
        let (answered, lost): (Vec<&EchoSample>, _) = told.partition(|p| p.status.is_answered());
        let numbers = |packets: Vec<&EchoSample>| packets.iter().map(|p| p.seq).collect();
        let (answered, lost): (HashSet<u64>, HashSet<u64>) = (numbers(answered), numbers(lost));
        self.sent = self.sent.max(Some(list.len() as u64));
        for (seq, rtt_ns) in (0..).zip(list) {
            if answered.contains(&seq) || rtt_ns.is_none() && lost.contains(&seq) {
                continue;
            }
            let status = if rtt_ns.is_some() { EchoStatus::Ok } else { EchoStatus::Lost };
            self.timeless.push(EchoSample { rtt_ns, ..EchoSample::new(0, seq, 0, status) });
        }
    }
}

/// When packets were sent, by their numbers.
struct Times {
    known: BTreeMap<u64, i64>,
    /// Nanoseconds from one packet to the next.
    step: u64,
}

impl Times {
    fn of(stamped: &[EchoSample], interval: u64) -> Self {
        let mut known = BTreeMap::new();
        // The first answer to a packet tells best when it was sent.
        for packet in stamped.iter().filter(|p| p.status != EchoStatus::Duplicate) {
            known.entry(packet.seq).or_insert(packet.t_ns);
        }
        for packet in stamped {
            known.entry(packet.seq).or_insert(packet.t_ns);
        }
        let ends = known.first_key_value().zip(known.last_key_value());
        let step = ends.filter(|(first, last)| last.0 > first.0);
        let step = step.map(|(a, b)| (b.1 - a.1) as f64 / (b.0 - a.0) as f64);
        Self { step: step.filter(|ns| *ns > 0.0).map_or(interval, |ns| ns as u64), known }
    }

    /// None for a number that is too far away.
    fn at(&self, seq: u64) -> Option<i64> {
        let steps = |count: u64| i64::try_from(u128::from(count) * u128::from(self.step)).ok();
        let before = self.known.range(..=seq).next_back();
        let after = self.known.range(seq..).next();
        match (before, after) {
            (Some((a, t)), Some((b, u))) if b > a => {
                let part = (seq - a) as f64 / (b - a) as f64;
                Some(t + ((u - t) as f64 * part) as i64)
            }
            (Some((a, t)), _) => t.checked_add(steps(seq - a)?),
            (None, Some((b, u))) => u.checked_sub(steps(b - seq)?),
            (None, None) => steps(seq),
        }
    }
}

/// What the summary says was sent and no line tells was lost: before the first packet that a line tells of, or after the last.
fn complete(
    stream: &mut Stream,
    first: u64,
    sent: Option<u64>,
    interval: u64,
    left: &mut usize,
) -> Result<(), ForeignError> {
    let Some(sent) = sent else { return Ok(()) };
    let told = order::sent(&stream.packets) as u64;
    let more = usize::try_from(sent.saturating_sub(told)).unwrap_or(usize::MAX);
    *left = left.checked_sub(more).ok_or(ForeignError::TooMany)?;
    let step = i64::try_from(interval).unwrap_or(i64::MAX);
    let before = first.min(sent.saturating_sub(told));
    let Some(start) = stream.packets.first().map(|p| p.t_ns) else { return Ok(()) };
    for packet in &mut stream.packets {
        packet.seq += before;
    }
    let lost = |t_ns, seq| EchoSample::new(t_ns, seq, 0, EchoStatus::Lost);
    let early = (0..before)
        .map(|seq| lost(start.saturating_sub(step.saturating_mul((before - seq) as i64)), seq));
    let early: Vec<EchoSample> = early.collect();
    stream.packets.splice(0..0, early);
    let end = stream.packets.iter().map(|p| (p.t_ns, p.seq)).max_by_key(|(_, seq)| *seq);
    let Some((t_ns, last)) = end else { return Ok(()) };
    for seq in last + 1..sent {
        stream
            .packets
            .push(lost(t_ns.saturating_add(step.saturating_mul((seq - last) as i64)), seq));
    }
    Ok(())
}
