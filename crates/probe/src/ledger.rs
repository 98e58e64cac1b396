//! The ledger of one stream: what was sent, what came, and what became of each packet.
//!
//! ```text
//!            sent ──► waiting ──reply────────────────► Ok, or Late  (each further reply: Duplicate)
//!              │         ├─────ICMP error────────────► Error, once the patience is over: until then an answer counts more
//!              │         ├─────answered, perhaps only when it was sent again──► Unsure, or Lost where that is certain
//!              │         ├─────patience is over──────► Lost, LostUp, LostDown ──reply after all──► Late
//!              │         │                             Lost ──answered after all, perhaps only when it was sent again──► Unsure
//!              │         │                             Lost ──the stream ends before a reply as slow as others could come──► Unsure
//!              │         ├─────no room to wait on──────► Unsure
//!              │         └─────the stream ends before► Unsure; Unfinished where no reply could have come by then
//!              └─refused by the kernel──────────────► Error; NotSent where this host's own queue did not take it
//! ```
//!
//! Late is an answer whose round trip is longer than the patience, whether or not the program woke to give the packet up before.
//!
//! Pure: times are told, nothing is read or sent. One row comes out for each packet, one more for each duplicate, and one more for each
//! packet that was given up and came late, or was given up so shortly before the end that it may only be late: that one takes the place of the
//! row that said it was lost.
//!
//! Whether a packet counts depends on when it was sent, never on what became of it: to leave out those without a reply, and to keep those that
//! were sent beside them and answered at once, would make the loss look smaller. So only those are left out that were sent so shortly before
//! the end that the quickest reply could not be here; of all others without a reply nobody knows, and they may be lost.

use crate::Patience;
use crate::direction::{Losses, LostWhere, NumberedPacket, ReflectorCounts};
use nix::errno::Errno;
use quell_model::{EchoSample, EchoStatus};
use std::collections::VecDeque;

/// Packets that were given up and are known again when a reply comes after all.
const MOST_GIVEN_UP: usize = 1 << 16;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EchoReply {
    pub rtt_ns: u64,
    pub up_ns: Option<i64>,
    pub down_ns: Option<i64>,
    pub up_order: Option<u64>,
    /// How long the reply waited for us in this host.
    pub seen_late_ns: Option<u64>,
    /// Its place in the order of arrival, where it is told later than it came.
    pub down_order: Option<u64>,
}

/// Why a packet was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// This host's own queue, or its socket's share of that, had no room for it: it never was under way.
    NoRoom,
    /// The kernel would not send it.
    Error,
}

impl Refusal {
    /// What the kernel's answer says. A socket that is full says `EAGAIN`, a raw one `ENOBUFS` (`__ip_append_data`, net/ipv4/ip_output.c);
    /// of a packet that the own queue dropped as it came, `ENOBUFS` comes too, where errors are asked for (`IP_RECVERR`;
    /// `net_xmit_errno`, linux/netdevice.h). Of what a queue drops later, or in place of another packet, nothing is told.
    pub fn of(errno: Errno) -> Self {
        match errno {
            Errno::EAGAIN | Errno::ENOBUFS => Self::NoRoom,
            _ => Self::Error,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendRecord {
    pub t_ns: i64,
    /// What [`Ledger::sent`] was given for the caller.
    pub epoch: u64,
    /// How long it waited in this host's own queue, as far as known.
    pub queued_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketState {
    Waiting,
    /// An error came from the path, which anybody may have sent; an answer may still come.
    Blamed,
    Answered,
    Failed,
}

impl PacketState {
    fn is_open(self) -> bool {
        matches!(self, PacketState::Waiting | PacketState::Blamed)
    }
}

#[derive(Debug, Clone, Copy)]
struct LedgerPacket {
    t_ns: i64,
    epoch: u64,
    late_ns: u64,
    queued_ns: Option<u64>,
    state: PacketState,
}

impl LedgerPacket {
    fn row(&self, seq: u64, bytes: u32, status: EchoStatus) -> EchoSample {
        EchoSample {
            queued_ns: self.queued_ns,
            sent_late_ns: Some(self.late_ns),
            ..EchoSample::new(self.t_ns, seq, bytes, status)
        }
    }
}

#[derive(Debug)]
pub struct Ledger {
    patience: Patience,
    bytes: u32,
    /// Number of the first packet in `packets`; all before are settled.
    first: u64,
    packets: VecDeque<LedgerPacket>,
    /// Packets that were given up and not answered since, ascending, with what was said of them.
    given_up: VecDeque<(u64, LedgerPacket, EchoStatus)>,
    waiting: usize,
    /// The quickest and the slowest answer that may be to what was sent first took so long.
    least_ns: u64,
    longest_ns: u64,
    arrived: u64,
    counts: ReflectorCounts,
    /// Losses that are certain, once it is finished.
    settled: Option<Losses>,
    /// Packets of which the rows tell the direction.
    told: Losses,
    rows: Vec<EchoSample>,
}

impl Ledger {
    /// Nothing was sent. `bytes` is the size of the packets, `patience` how long a reply is waited for.
    pub fn new(bytes: u32, patience: Patience) -> Self {
        Self {
            patience,
            bytes,
            first: 0,
            packets: VecDeque::new(),
            given_up: VecDeque::new(),
            waiting: 0,
            least_ns: u64::MAX,
            longest_ns: 0,
            arrived: 0,
            counts: ReflectorCounts::new(),
            settled: None,
            told: Losses::default(),
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

    /// Until when the last packet that was given up could be answered as late as is waited for by now; that was less when it was given up.
    pub fn late_until(&self) -> Option<i64> {
        let patience_ns = i64::try_from(self.patience.wait_ns()).unwrap_or(i64::MAX);
        self.given_up.back().map(|(_, packet, _)| packet.t_ns.saturating_add(patience_ns))
    }

    /// How long a reply is waited for, by now.
    pub fn patience_ns(&self) -> u64 {
        self.patience.wait_ns()
    }

    /// How long a reply is waited for at most.
    pub fn most_patience_ns(&self) -> u64 {
        self.patience.most_ns()
    }

    /// The next packet was sent at `t_ns`, `late_ns` after it was due. `epoch` is kept for the caller: see [`Ledger::sent_at`].
    pub fn sent(&mut self, t_ns: i64, epoch: u64, late_ns: u64) {
        let state = PacketState::Waiting;
        self.packets.push_back(LedgerPacket { t_ns, epoch, late_ns, queued_ns: None, state });
        self.waiting += 1;
    }

    /// The next packet was not sent.
    pub fn refused(&mut self, t_ns: i64, late_ns: u64, why: Refusal) {
        let packet =
            LedgerPacket { t_ns, epoch: 0, late_ns, queued_ns: None, state: PacketState::Failed };
        let status = match why {
            Refusal::NoRoom => EchoStatus::NotSent,
            Refusal::Error => EchoStatus::Error,
        };
        self.rows.push(packet.row(self.next(), self.bytes, status));
        self.packets.push_back(packet);
    }

    /// A packet waited so long in this host's own queue.
    pub fn queued(&mut self, seq: u64, queued_ns: u64) {
        if let Some(packet) = self.packet(seq) {
            packet.queued_ns = Some(queued_ns);
        }
    }

    /// How a packet was sent, as long as it is remembered.
    pub fn sent_at(&self, seq: u64) -> Option<SendRecord> {
        let packet = match seq.checked_sub(self.first) {
            Some(place) => self.packets.get(usize::try_from(place).ok()?)?,
            None => &self.given_up[self.place_given_up(seq)?].1,
        };
        Some(SendRecord { t_ns: packet.t_ns, epoch: packet.epoch, queued_ns: packet.queued_ns })
    }

    fn place_given_up(&self, seq: u64) -> Option<usize> {
        self.given_up.binary_search_by_key(&seq, |(given_up, ..)| *given_up).ok()
    }

    pub fn reply(&mut self, seq: u64, reply: EchoReply) {
        let down_order = reply.down_order.unwrap_or(self.arrived);
        self.arrived += 1;
        let is_late = reply.rtt_ns > self.patience.wait_ns();
        let (packet, status) = match seq.checked_sub(self.first) {
            Some(_) => {
                let Some(packet) = self.packet(seq) else { return };
                let status = match packet.state {
                    PacketState::Waiting | PacketState::Blamed if is_late => EchoStatus::Late,
                    PacketState::Waiting | PacketState::Blamed => EchoStatus::Ok,
                    PacketState::Answered => EchoStatus::Duplicate,
                    PacketState::Failed => return,
                };
                packet.state = PacketState::Answered;
                let packet = *packet;
                self.waiting -= usize::from(status != EchoStatus::Duplicate);
                (packet, status)
            }
            None => {
                let Some(place) = self.place_given_up(seq) else { return };
                let Some((_, packet, said)) = self.given_up.remove(place) else { return };
                self.tell(said, -1);
                (packet, EchoStatus::Late)
            }
        };
        self.took(reply.rtt_ns);
        let counted = NumberedPacket { seq, t_ns: packet.t_ns };
        match reply.up_order {
            None => self.counts.answered_uncounted(),
            Some(order) if status == EchoStatus::Duplicate => {
                self.counts.answered_again(counted, reply.rtt_ns, order);
            }
            Some(order) => self.counts.answered(counted, reply.rtt_ns, order),
        }
        self.rows.push(EchoSample {
            rtt_ns: Some(reply.rtt_ns),
            up_ns: reply.up_ns,
            down_ns: reply.down_ns,
            up_order: reply.up_order,
            down_order: Some(down_order),
            seen_late_ns: reply.seen_late_ns,
            ..packet.row(seq, self.bytes, status)
        });
    }

    /// ReflectorCounts that a row tells a direction, or no longer does.
    fn tell(&mut self, status: EchoStatus, by: i64) {
        match status {
            EchoStatus::LostUp => self.told.up = self.told.up.saturating_add_signed(by),
            EchoStatus::LostDown => self.told.down = self.told.down.saturating_add_signed(by),
            _ => {}
        }
    }

    /// An error came from the path about a packet: that is what became of it, unless it is answered in time. Whether it was still waited for.
    pub fn blamed(&mut self, seq: u64) -> bool {
        let packet = self.packet(seq).filter(|p| p.state == PacketState::Waiting);
        packet.map(|packet| packet.state = PacketState::Blamed).is_some()
    }

    /// An error is what became of a packet, and no answer can come; whether it was still waited for.
    pub fn error(&mut self, seq: u64) -> bool {
        let Some(packet) = self.packet(seq).filter(|p| p.state.is_open()) else {
            return false;
        };
        packet.state = PacketState::Failed;
        let packet = *packet;
        self.waiting -= 1;
        self.rows.push(packet.row(seq, self.bytes, EchoStatus::Error));
        true
    }

    /// There was no room to wait any longer for a reply to this packet: nobody knows what became of it.
    pub fn abandoned(&mut self, seq: u64) {
        self.ended(seq, EchoStatus::Unsure);
    }

    /// A packet was answered, and nobody can know whether it was lost before. The answer came after so long, if it may be to what was sent first.
    pub fn unsure(&mut self, seq: u64, took_ns: Option<u64>) {
        if let Some(took_ns) = took_ns {
            self.took(took_ns);
        }
        match self.place_given_up(seq).and_then(|place| self.given_up.remove(place)) {
            Some((_, packet, said)) => {
                self.tell(said, -1);
                self.rows.push(packet.row(seq, self.bytes, EchoStatus::Unsure));
            }
            None => self.ended(seq, EchoStatus::Unsure),
        }
    }

    /// A packet is certain to be lost: it need not be waited for.
    pub fn lost(&mut self, seq: u64) {
        self.ended(seq, EchoStatus::Lost);
    }

    /// What was still waited for is no longer.
    fn ended(&mut self, seq: u64, status: EchoStatus) {
        let Some(packet) = self.packet(seq).filter(|p| p.state == PacketState::Waiting) else {
            return;
        };
        packet.state = PacketState::Failed;
        let packet = *packet;
        self.waiting -= 1;
        self.rows.push(packet.row(seq, self.bytes, status));
    }

    /// An answer came after so long that is not told yet: others are waited for accordingly. How slow the path was it shows only when it is known
    /// that it may be to what was sent first, and not only to what the kernel sent again.
    pub fn saw(&mut self, took_ns: u64) {
        self.patience.saw(took_ns);
    }

    fn took(&mut self, ns: u64) {
        self.patience.saw(ns);
        self.least_ns = self.least_ns.min(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Packets at the front whose patience is over at `now_ns`.
    fn over(&self, now_ns: i64) -> usize {
        let patience_ns = i64::try_from(self.patience.wait_ns()).unwrap_or(i64::MAX);
        let is_over = |p: &&LedgerPacket| p.t_ns.saturating_add(patience_ns) <= now_ns;
        self.packets.iter().take_while(is_over).count()
    }

    /// The number of the first packet that will not be given up at `now_ns`.
    pub fn expiring_before(&self, now_ns: i64) -> u64 {
        self.first + self.over(now_ns) as u64
    }

    /// Gives up the packets whose patience is over at `now_ns`.
    pub fn expire(&mut self, now_ns: i64) {
        let over = self.over(now_ns);
        let mut unanswered = self.unanswered();
        let waiting = unanswered
            .split_off(unanswered.partition_point(|packet| packet.seq < self.first + over as u64));
        if unanswered.is_empty() {
            for _ in 0..over {
                let Some(packet) = self.packets.pop_front() else { break };
                self.give_up_blamed(&packet);
                self.first += 1;
            }
            self.counts.tidy(&waiting);
            return;
        }
        let directions = self.counts.gave_up(&unanswered, &waiting);
        let mut directions = directions.into_iter();
        for _ in 0..over {
            let Some(packet) = self.packets.pop_front() else { break };
            self.give_up_blamed(&packet);
            let seq = self.first;
            self.first += 1;
            if packet.state != PacketState::Waiting {
                continue;
            }
            self.waiting -= 1;
            let status = match directions.next() {
                Some(LostWhere::Up) => EchoStatus::LostUp,
                Some(LostWhere::Down) => EchoStatus::LostDown,
                Some(LostWhere::Unknown) | None => EchoStatus::Lost,
            };
            self.tell(status, 1);
            self.rows.push(packet.row(seq, self.bytes, status));
            if self.given_up.len() >= MOST_GIVEN_UP {
                self.given_up.pop_front();
            }
            self.given_up.push_back((seq, packet, status));
        }
    }

    /// The time of the first packet is over: if there was an error about it, that is what became of it.
    fn give_up_blamed(&mut self, packet: &LedgerPacket) {
        if packet.state == PacketState::Blamed {
            self.waiting -= 1;
            self.rows.push(packet.row(self.first, self.bytes, EchoStatus::Error));
        }
    }

    /// Packets that are not given up and have no answer, in order.
    fn unanswered(&self) -> Vec<NumberedPacket> {
        (self.first..)
            .zip(&self.packets)
            .filter(|(_, p)| p.state == PacketState::Waiting)
            .map(|(seq, p)| NumberedPacket { seq, t_ns: p.t_ns })
            .collect()
    }

    /// The stream ends at `now_ns`: of what is still waiting nobody knows what became of it.
    pub fn finish(&mut self, now_ns: i64) {
        self.expire(now_ns);
        let certain = self.losses();
        let back = self.take_back_what_may_be_late(now_ns);
        self.settled = Some(Losses {
            up: certain.up.saturating_sub(back.up),
            down: certain.down.saturating_sub(back.down),
        });
        while let Some(packet) = self.packets.pop_front() {
            self.give_up_blamed(&packet);
            if packet.state == PacketState::Waiting {
                let status = self.without_a_reply(&packet, now_ns);
                self.rows.push(packet.row(self.first, self.bytes, status));
            }
            self.first += 1;
        }
        self.waiting = 0;
    }

    /// A packet to which an answer as slow as the slowest one could not have come by now is not known to be lost: nobody waited for it. Nor is a
    /// direction that was told of it: that it was so long on its way there was ruled out by answers that were not as slow yet. How many directions
    /// that were told are taken back.
    fn take_back_what_may_be_late(&mut self, now_ns: i64) -> Losses {
        let longest_ns = i64::try_from(self.longest_ns).unwrap_or(i64::MAX);
        let told = self.told;
        for (seq, packet, said) in std::mem::take(&mut self.given_up) {
            if packet.t_ns.saturating_add(longest_ns) > now_ns {
                self.tell(said, -1);
                let status = self.without_a_reply(&packet, now_ns);
                self.rows.push(packet.row(seq, self.bytes, status));
            }
        }
        Losses { up: told.up - self.told.up, down: told.down - self.told.down }
    }

    /// What is said of a packet that may be lost or only late: it does not count where none that was sent then could be answered by now.
    fn without_a_reply(&self, packet: &LedgerPacket, now_ns: i64) -> EchoStatus {
        let least_ns = i64::try_from(self.least_ns).unwrap_or(i64::MAX);
        match packet.t_ns.saturating_add(least_ns) > now_ns {
            true => EchoStatus::Unfinished,
            false => EchoStatus::Unsure,
        }
    }

    /// How many packets were lost on which way, as far as that is certain, where that is more than the rows tell one by one.
    pub fn more_losses(&self) -> Option<Losses> {
        let counted = self.settled.unwrap_or_else(|| self.losses());
        (counted != self.told).then_some(counted)
    }

    fn losses(&self) -> Losses {
        let Losses { up, down } = self.counts.losses(&self.unanswered());
        Losses { up: up.max(self.told.up), down: down.max(self.told.down) }
    }

    /// The rows since the last call.
    pub fn take(&mut self) -> Vec<EchoSample> {
        std::mem::take(&mut self.rows)
    }

    fn packet(&mut self, seq: u64) -> Option<&mut LedgerPacket> {
        let place = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        self.packets.get_mut(place)
    }
}

#[cfg(test)]
mod tests;
