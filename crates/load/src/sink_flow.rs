//! What a sink knows of one flow: counts, order, jitter, and a row for each packet where the sender asks for that. Pure.
//!
//! **Rows of a one-way flow.** For each datagram that arrived one row `Ok` (a further copy: `Duplicate`), with the time it was sent,
//! the one-way delay as `up_ns` and the order of arrival as `up_order`; no round trip. For each number that did not arrive although a
//! later one did, one row `LostUp`, three seconds after the gap was noticed or at the end; its time is set evenly between those
//! around the gap. What arrives after that is `Late`, which takes the place of the `LostUp`. What was lost behind the last arrival has no row: the sender's own count of packets tells it.

use quell_model::{EchoSample, EchoStatus};
use quell_stats::{Jitter, RecentOrder};
use std::collections::BTreeMap;

pub(crate) const PATIENCE_NS: i64 = 3_000_000_000;
/// A larger gap is no loss but a sender that counts nonsense: it gets no rows.
const LARGEST_GAP: u64 = 1_000_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram {
    pub seq: u64,
    /// When it was sent, relative to the start of the measurement.
    pub t_ns: i64,
    /// One-way delay; none when a clock was set.
    pub up_ns: Option<i64>,
    pub bytes: u32,
}

#[derive(Debug, Clone, Copy)]
struct Gap {
    end: u64,
    /// Sending times of the packets around it, and their numbers.
    before: (u64, i64),
    after: (u64, i64),
}

#[derive(Debug)]
pub(crate) struct SinkFlow {
    each: bool,
    order: RecentOrder,
    jitter: Jitter,
    /// One above the largest number so far, and when that was sent.
    next: u64,
    newest_ns: i64,
    bytes: u64,
    /// Datagrams, copies not counted, that were sent before the measurement began.
    early: u64,
    arrivals: u64,
    gaps: BTreeMap<u64, Gap>,
    rows: Vec<EchoSample>,
    size: u32,
}

impl SinkFlow {
    pub fn new(each: bool) -> Self {
        Self {
            each,
            order: RecentOrder::new(0),
            jitter: Jitter::new(),
            next: 0,
            newest_ns: 0,
            bytes: 0,
            early: 0,
            arrivals: 0,
            gaps: BTreeMap::new(),
            rows: Vec::new(),
            size: 0,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn packets(&self) -> u64 {
        self.order.arrived()
    }

    /// Of these, those that were sent before the measurement began.
    pub fn early(&self) -> u64 {
        self.early
    }

    pub fn arrive(&mut self, datagram: Datagram) {
        let Datagram { seq, t_ns, up_ns, bytes } = datagram;
        let nonsense = self.order.nonsense();
        let is_copy = !self.order.push(seq);
        if self.order.nonsense() > nonsense {
            return;
        }
        let up_order = self.arrivals;
        self.arrivals += 1;
        let mut status = if is_copy { EchoStatus::Duplicate } else { EchoStatus::Ok };
        if !is_copy {
            self.bytes += u64::from(bytes);
            self.early += u64::from(t_ns < 0);
            self.size = bytes;
            if let Some(up) = up_ns {
                self.jitter.push(up as f64);
            }
            if seq >= self.next {
                self.open_gap(seq, t_ns);
                self.next = seq.saturating_add(1);
                self.newest_ns = t_ns;
            } else if !self.fill_gap(seq) {
                status = EchoStatus::Late;
            }
        }
        if self.each {
            self.rows.push(EchoSample {
                up_ns,
                up_order: Some(up_order),
                ..EchoSample::new(t_ns, seq, bytes, status)
            });
        }
    }

    fn open_gap(&mut self, seq: u64, t_ns: i64) {
        if !self.each || seq <= self.next || seq - self.next > LARGEST_GAP {
            return;
        }
        let before = match self.next.checked_sub(1) {
            Some(last) => (last, self.newest_ns),
            None => (0, t_ns),
        };
        self.gaps.insert(self.next, Gap { end: seq, before, after: (seq, t_ns) });
    }

    fn fill_gap(&mut self, seq: u64) -> bool {
        let Some((first, gap)) = self.gaps.range(..=seq).next_back().map(|(f, g)| (*f, *g)) else {
            return false;
        };
        if seq >= gap.end {
            return false;
        }
        self.gaps.remove(&first);
        if first < seq {
            self.gaps.insert(first, Gap { end: seq, ..gap });
        }
        if seq + 1 < gap.end {
            self.gaps.insert(seq + 1, gap);
        }
        true
    }

    /// Gives up gaps that have been open for too long at `now_ns`, or all.
    pub fn give_up(&mut self, now_ns: Option<i64>) {
        while let Some(entry) = self.gaps.first_entry() {
            let gap = *entry.get();
            if now_ns.is_some_and(|now| gap.after.1.saturating_add(PATIENCE_NS) > now) {
                break;
            }
            let first = *entry.key();
            entry.remove();
            for seq in first..gap.end {
                self.rows.push(EchoSample::new(
                    gap.time_of(seq),
                    seq,
                    self.size,
                    EchoStatus::LostUp,
                ));
            }
        }
    }

    /// The rows since the last call.
    pub fn take(&mut self) -> Vec<EchoSample> {
        std::mem::take(&mut self.rows)
    }

    pub fn summary(&self) -> String {
        let arrived = self.order.arrived();
        let jitter = self.jitter.mean().map_or("unknown".into(), |j| format!("{:.3} ms", j / 1e6));
        format!(
            "{arrived} of {} datagrams arrived, {} reordered, {} copies, jitter {jitter} (mean |D|, RFC 3550)",
            self.next,
            self.order.reordered(),
            self.order.duplicates(),
        )
    }
}

impl Gap {
    fn time_of(&self, seq: u64) -> i64 {
        let steps = i128::from(self.after.0 - self.before.0).max(1);
        let span = i128::from(self.after.1) - i128::from(self.before.1);
        let passed = i128::from(seq - self.before.0);
        (i128::from(self.before.1) + span * passed / steps) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EchoStatus::{Duplicate, Late, LostUp, Ok};

    const MS: i64 = 1_000_000;

    /// Numbers arrive that were sent 10 ms apart, each 20 ms under way.
    fn flow(each: bool, numbers: &[u64]) -> SinkFlow {
        let mut flow = SinkFlow::new(each);
        for seq in numbers {
            let t_ns = *seq as i64 * 10 * MS;
            flow.arrive(Datagram { seq: *seq, t_ns, up_ns: Some(20 * MS), bytes: 100 });
        }
        flow
    }

    fn rows(flow: &mut SinkFlow) -> Vec<(u64, EchoStatus, i64)> {
        flow.take().into_iter().map(|r| (r.seq, r.status, r.t_ns / MS)).collect()
    }

    #[test]
    fn each_datagram_is_a_row_and_each_gap_in_the_end_too() {
        let mut flow = flow(true, &[1, 2, 5, 4, 4]);
        let arrived = [(1, Ok, 10), (2, Ok, 20), (5, Ok, 50), (4, Ok, 40), (4, Duplicate, 40)];
        assert_eq!(rows(&mut flow), arrived);
        assert_eq!((flow.packets(), flow.bytes()), (4, 400));
        flow.give_up(Some(3000 * MS));
        assert_eq!(rows(&mut flow), [], "nothing was missing for three seconds yet");
        flow.give_up(Some(3020 * MS));
        assert_eq!(rows(&mut flow), [(0, LostUp, 10)], "the time of a first packet is not known");
        flow.give_up(None);
        assert_eq!(rows(&mut flow), [(3, LostUp, 30)], "between 2 and 5");
        assert!(flow.summary().starts_with("4 of 6 datagrams arrived, 1 reordered, 1 copies"));
    }

    #[test]
    fn what_was_sent_while_loads_warmed_up_is_known_apart_also_when_it_comes_later() {
        let mut flow = SinkFlow::new(false);
        for (seq, t_ns) in [(0, -2 * MS), (2, MS), (1, -MS), (1, -MS)] {
            flow.arrive(Datagram { seq, t_ns, up_ns: None, bytes: 100 });
        }
        assert_eq!((flow.packets(), flow.early()), (3, 2));
    }

    #[test]
    fn what_arrives_after_it_was_given_up_was_late_and_not_lost() {
        let mut flow = flow(true, &[0, 3]);
        flow.give_up(Some(3030 * MS));
        flow.arrive(Datagram { seq: 1, t_ns: 10 * MS, up_ns: Some(4000 * MS), bytes: 100 });
        let mut samples = flow.take();
        let got: Vec<_> = samples.iter().map(|r| (r.seq, r.status)).collect();
        assert_eq!(got, [(0, Ok), (3, Ok), (1, LostUp), (2, LostUp), (1, Late)]);
        quell_model::rows::latest(&mut samples);
        let got: Vec<_> = samples.iter().map(|r| (r.seq, r.status)).collect();
        assert_eq!(got, [(0, Ok), (3, Ok), (2, LostUp), (1, Late)]);
    }

    #[test]
    fn a_fast_flow_is_counted_only() {
        let mut flow = flow(false, &[0, 1, 7, 5, 5]);
        flow.give_up(None);
        assert_eq!(flow.take(), []);
        assert_eq!(flow.packets(), 4);
    }

    #[test]
    fn a_sender_that_counts_nonsense_takes_no_memory() {
        let mut flow = flow(true, &[0]);
        let nonsense = Datagram { seq: u64::MAX, t_ns: i64::MAX, up_ns: None, bytes: 1 };
        flow.arrive(nonsense);
        flow.arrive(Datagram { seq: LARGEST_GAP + 7, t_ns: i64::MIN, ..nonsense });
        flow.give_up(None);
        let numbers: Vec<u64> = flow.take().iter().map(|row| row.seq).collect();
        assert_eq!(numbers, [0, LARGEST_GAP + 7]);
        assert_eq!(flow.packets(), 2, "what can't be does not count");
    }
}
