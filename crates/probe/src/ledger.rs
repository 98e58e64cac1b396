//! The ledger of one stream: what was sent, what came, and what became of each packet.
//!
//! ```text
//!            sent ──► waiting ──reply────────────────► Ok          (each further reply: Duplicate)
//!              │         ├─────ICMP error────────────► Error
//!              │         ├─────patience is over──────► Lost, LostUp, LostDown
//!              │         └─────the stream ends before► Unfinished
//!              └─refused by the kernel──────────────► Error, or LostUp where a queue of this host dropped it
//! ```
//!
//! Pure: times are told, nothing is read or sent. One row comes out for each packet, and one more for each duplicate. A reply after
//! the patience is as good as none.

use crate::direction::{Counts, Direction};
use quell_model::{EchoSample, EchoStatus};
use std::collections::VecDeque;

/// What a reply tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reply {
    /// Round-trip time in nanoseconds.
    pub rtt_ns: u64,
    /// One-way delays in nanoseconds.
    pub up_ns: Option<i64>,
    /// And back.
    pub down_ns: Option<i64>,
    /// The reflector's own count.
    pub up_order: Option<u64>,
    /// How long the reply waited for us in this host.
    pub seen_late_ns: Option<u64>,
}

/// How a packet was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub t_ns: i64,
    /// What [`Ledger::sent`] was given for the caller.
    pub epoch: u64,
    /// How long it waited in this host's own queue, as far as known.
    pub queued_ns: Option<u64>,
}

/// Where a packet stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Answered,
    Failed,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    t_ns: i64,
    epoch: u64,
    late_ns: u64,
    queued_ns: Option<u64>,
    state: State,
}

impl Packet {
    fn row(&self, seq: u64, bytes: u32, status: EchoStatus) -> EchoSample {
        EchoSample {
            queued_ns: self.queued_ns,
            sent_late_ns: Some(self.late_ns),
            ..EchoSample::new(self.t_ns, seq, bytes, status)
        }
    }
}

/// One stream's packets.
#[derive(Debug)]
pub struct Ledger {
    patience_ns: i64,
    bytes: u32,
    /// Number of the first packet in `packets`; all before are settled.
    first: u64,
    packets: VecDeque<Packet>,
    waiting: usize,
    arrived: u64,
    counts: Counts,
    rows: Vec<EchoSample>,
}

impl Ledger {
    /// Nothing was sent. `bytes` is the size of the packets, `patience_ns` how long a reply is waited for.
    pub fn new(bytes: u32, patience_ns: u64) -> Self {
        Self {
            patience_ns: i64::try_from(patience_ns).unwrap_or(i64::MAX),
            bytes,
            first: 0,
            packets: VecDeque::new(),
            waiting: 0,
            arrived: 0,
            counts: Counts::new(),
            rows: Vec::new(),
        }
    }

    /// The number of the next packet.
    pub fn next(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// The number of the oldest packet that is not settled.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// How many packets may still be answered.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The next packet was sent at `t_ns`, `late_ns` after it was due. `epoch` is kept for the caller: see [`Ledger::sent_at`].
    pub fn sent(&mut self, t_ns: i64, epoch: u64, late_ns: u64) {
        let state = State::Waiting;
        self.packets.push_back(Packet { t_ns, epoch, late_ns, queued_ns: None, state });
        self.waiting += 1;
    }

    /// The next packet was not sent: the kernel refused it, or a queue of this host dropped it.
    pub fn refused(&mut self, t_ns: i64, late_ns: u64, dropped: bool) {
        let packet = Packet { t_ns, epoch: 0, late_ns, queued_ns: None, state: State::Failed };
        let status = if dropped { EchoStatus::LostUp } else { EchoStatus::Error };
        self.rows.push(packet.row(self.next(), self.bytes, status));
        self.packets.push_back(packet);
    }

    /// A packet waited so long in this host's own queue.
    pub fn queued(&mut self, seq: u64, queued_ns: u64) {
        if let Some(packet) = self.packet(seq) {
            packet.queued_ns = Some(queued_ns);
        }
    }

    /// How a packet was sent, if a reply to it still counts.
    pub fn sent_at(&self, seq: u64) -> Option<Sent> {
        let packet = self.packets.get(usize::try_from(seq.checked_sub(self.first)?).ok()?)?;
        Some(Sent { t_ns: packet.t_ns, epoch: packet.epoch, queued_ns: packet.queued_ns })
    }

    /// A reply came.
    pub fn reply(&mut self, seq: u64, reply: Reply) {
        let down_order = self.arrived;
        self.arrived += 1;
        let bytes = self.bytes;
        let Some(packet) = self.packet(seq) else { return };
        let status = match packet.state {
            State::Waiting => EchoStatus::Ok,
            State::Answered => EchoStatus::Duplicate,
            State::Failed => return,
        };
        packet.state = State::Answered;
        let sample = EchoSample {
            rtt_ns: Some(reply.rtt_ns),
            up_ns: reply.up_ns,
            down_ns: reply.down_ns,
            up_order: reply.up_order,
            down_order: Some(down_order),
            seen_late_ns: reply.seen_late_ns,
            ..packet.row(seq, bytes, status)
        };
        if status == EchoStatus::Ok {
            self.waiting -= 1;
        }
        if let Some(order) = reply.up_order {
            self.counts.answered(seq, order);
        }
        self.rows.push(sample);
    }

    /// An error came back about a packet; whether it was still waited for.
    pub fn error(&mut self, seq: u64) -> bool {
        let Some(packet) = self.packet(seq).filter(|p| p.state == State::Waiting) else {
            return false;
        };
        packet.state = State::Failed;
        let packet = *packet;
        self.waiting -= 1;
        self.rows.push(packet.row(seq, self.bytes, EchoStatus::Error));
        true
    }

    /// Settles the packets whose patience is over at `now_ns`.
    pub fn expire(&mut self, now_ns: i64) {
        let over = self
            .packets
            .iter()
            .take_while(|p| p.t_ns.saturating_add(self.patience_ns) <= now_ns)
            .count();
        if over == 0 {
            return;
        }
        let unanswered: Vec<u64> = (self.first..)
            .zip(&self.packets)
            .filter(|(_, p)| p.state == State::Waiting)
            .map(|(seq, _)| seq)
            .collect();
        let directions = self.counts.directions(&unanswered);
        let mut directions = unanswered.iter().zip(directions).peekable();
        for _ in 0..over {
            let Some(packet) = self.packets.pop_front() else { break };
            let seq = self.first;
            self.first += 1;
            if packet.state == State::Waiting {
                self.waiting -= 1;
                self.counts.gave_up(seq);
                let direction = directions.next_if(|(s, _)| **s == seq).map(|(_, d)| d);
                let status = match direction {
                    Some(Direction::Up) => EchoStatus::LostUp,
                    Some(Direction::Down) => EchoStatus::LostDown,
                    Some(Direction::Unknown) | None => EchoStatus::Lost,
                };
                self.rows.push(packet.row(seq, self.bytes, status));
            }
        }
        self.counts.settle(self.first);
    }

    /// The stream ends at `now_ns`: what is still waiting is unfinished.
    pub fn finish(&mut self, now_ns: i64) {
        self.expire(now_ns);
        while let Some(packet) = self.packets.pop_front() {
            if packet.state == State::Waiting {
                self.rows.push(packet.row(self.first, self.bytes, EchoStatus::Unfinished));
            }
            self.first += 1;
        }
        self.waiting = 0;
    }

    /// The rows since the last call.
    pub fn take(&mut self) -> Vec<EchoSample> {
        std::mem::take(&mut self.rows)
    }

    fn packet(&mut self, seq: u64) -> Option<&mut Packet> {
        let place = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        self.packets.get_mut(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EchoStatus::{Duplicate, Error, Lost, LostDown, LostUp, Ok, Unfinished};

    const MS: i64 = 1_000_000;

    /// A stream of `count` packets, one every 10 ms, patience 100 ms.
    fn stream(count: i64) -> Ledger {
        let mut ledger = Ledger::new(56, 100_000_000);
        for n in 0..count {
            ledger.sent(n * 10 * MS, 0, 0);
        }
        ledger
    }

    fn reply(up_order: u64) -> Reply {
        Reply { rtt_ns: 20_000_000, up_order: Some(up_order), ..Reply::default() }
    }

    fn statuses(ledger: &mut Ledger) -> Vec<(u64, EchoStatus)> {
        ledger.take().into_iter().map(|r| (r.seq, r.status)).collect()
    }

    #[test]
    fn each_packet_gets_one_row_and_each_further_reply_one_more() {
        let mut ledger = stream(3);
        for seq in [0, 2, 1, 1] {
            ledger.reply(seq, Reply::default());
        }
        let rows = ledger.take();
        let got: Vec<_> = rows.iter().map(|r| (r.seq, r.status, r.down_order)).collect();
        assert_eq!(
            got,
            [(0, Ok, Some(0)), (2, Ok, Some(1)), (1, Ok, Some(2)), (1, Duplicate, Some(3)),]
        );
        assert_eq!(rows[1].t_ns, 20 * MS);
        assert_eq!(ledger.waiting(), 0);
        ledger.finish(MS);
        assert_eq!(ledger.take(), []);
    }

    #[test]
    fn losses_come_out_with_their_direction_when_the_patience_is_over() {
        let mut ledger = stream(8);
        // 1 is lost up, 3 and 4 down, 6 and 7 unknown: nothing behind them was answered.
        for (seq, order) in [(0, 0), (2, 1), (5, 4)] {
            ledger.reply(seq, reply(order));
        }
        ledger.take();
        ledger.expire(109 * MS);
        assert_eq!(
            statuses(&mut ledger),
            [],
            "the first packet's patience is over, and it was answered"
        );
        ledger.expire(170 * MS);
        assert_eq!(
            statuses(&mut ledger),
            [(1, LostUp), (3, LostDown), (4, LostDown), (6, Lost), (7, Lost)]
        );
    }

    #[test]
    fn a_reply_after_the_patience_is_as_good_as_none() {
        let mut ledger = stream(2);
        ledger.expire(105 * MS);
        assert_eq!(statuses(&mut ledger), [(0, Lost)]);
        ledger.reply(0, Reply::default());
        ledger.reply(1, Reply::default());
        assert_eq!(statuses(&mut ledger), [(1, Ok)]);
    }

    #[test]
    fn what_could_not_be_awaited_is_unfinished_not_lost() {
        let mut ledger = stream(20);
        ledger.finish(195 * MS);
        let got = statuses(&mut ledger);
        assert_eq!(got.iter().filter(|(_, s)| *s == Lost).count(), 10);
        assert_eq!(got.iter().filter(|(_, s)| *s == Unfinished).count(), 10);
        assert_eq!(got[10], (10, Unfinished));
    }

    #[test]
    fn errors_are_rows_of_their_packets_and_end_the_waiting() {
        let mut ledger = stream(2);
        ledger.refused(20 * MS, 0, false);
        ledger.refused(30 * MS, 0, true);
        ledger.error(1);
        ledger.error(1);
        ledger.reply(2, Reply::default());
        assert_eq!(statuses(&mut ledger), [(2, Error), (3, LostUp), (1, Error)]);
        assert_eq!(ledger.waiting(), 1);
        assert_eq!(ledger.next(), 4);
    }

    #[test]
    fn replies_to_packets_that_were_never_sent_are_nothing() {
        let mut ledger = stream(1);
        ledger.reply(1, Reply::default());
        ledger.reply(u64::MAX, Reply::default());
        ledger.error(7);
        assert_eq!(ledger.take(), []);
    }

    #[test]
    fn what_is_known_of_a_packets_leaving_stands_in_its_row_whatever_became_of_it() {
        let mut ledger = Ledger::new(56, 100_000_000);
        for (n, late) in [(0, 0), (1, 7), (2, 0)] {
            ledger.sent(n * 10 * MS, 0, late);
        }
        ledger.queued(1, 3_000);
        ledger.queued(0, 2_000);
        ledger.queued(9, 1_000);
        ledger.reply(0, Reply::default());
        ledger.finish(200 * MS);
        let rows: Vec<_> =
            ledger.take().iter().map(|r| (r.seq, r.queued_ns, r.sent_late_ns)).collect();
        assert_eq!(
            rows,
            [(0, Some(2_000), Some(0)), (1, Some(3_000), Some(7)), (2, None, Some(0))]
        );
    }

    #[test]
    fn memory_is_that_of_the_patience_not_of_the_stream() {
        let mut ledger = Ledger::new(56, 100_000_000);
        for n in 0..100_000 {
            ledger.sent(n * 10 * MS, 0, 0);
            ledger.reply(n as u64, reply(n as u64));
            ledger.expire(n * 10 * MS);
        }
        assert!(ledger.packets.len() <= 11, "{}", ledger.packets.len());
        assert_eq!(ledger.take().len(), 100_000);
    }
}
