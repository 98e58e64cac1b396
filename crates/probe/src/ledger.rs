//! The ledger of one stream: what was sent, what came, and what became of each packet.
//!
//! ```text
//!            sent ──► waiting ──reply────────────────► Ok, or Late  (each further reply: Duplicate)
//!              │         ├─────ICMP error────────────► Error
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
use crate::direction::{self, Counts, Losses, LostWhere};
use nix::errno::Errno;
use quell_model::{EchoSample, EchoStatus};
use std::collections::VecDeque;

/// Packets that were given up and are known again when a reply comes after all.
const MOST_GIVEN_UP: usize = 1 << 16;

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
    patience: Patience,
    bytes: u32,
    /// Number of the first packet in `packets`; all before are settled.
    first: u64,
    packets: VecDeque<Packet>,
    /// Packets that were given up and not answered since, ascending, with what was said of them.
    given_up: VecDeque<(u64, Packet, EchoStatus)>,
    waiting: usize,
    /// The quickest and the slowest answer that may be to what was sent first took so long.
    least_ns: u64,
    longest_ns: u64,
    arrived: u64,
    counts: Counts,
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
            counts: Counts::new(),
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
        let state = State::Waiting;
        self.packets.push_back(Packet { t_ns, epoch, late_ns, queued_ns: None, state });
        self.waiting += 1;
    }

    /// The next packet was not sent.
    pub fn refused(&mut self, t_ns: i64, late_ns: u64, why: Refusal) {
        let packet = Packet { t_ns, epoch: 0, late_ns, queued_ns: None, state: State::Failed };
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
    pub fn sent_at(&self, seq: u64) -> Option<Sent> {
        let packet = match seq.checked_sub(self.first) {
            Some(place) => self.packets.get(usize::try_from(place).ok()?)?,
            None => &self.given_up[self.place_given_up(seq)?].1,
        };
        Some(Sent { t_ns: packet.t_ns, epoch: packet.epoch, queued_ns: packet.queued_ns })
    }

    fn place_given_up(&self, seq: u64) -> Option<usize> {
        self.given_up.binary_search_by_key(&seq, |(given_up, ..)| *given_up).ok()
    }

    /// A reply came.
    pub fn reply(&mut self, seq: u64, reply: Reply) {
        let down_order = reply.down_order.unwrap_or(self.arrived);
        self.arrived += 1;
        let is_late = reply.rtt_ns > self.patience.wait_ns();
        let (packet, status) = match seq.checked_sub(self.first) {
            Some(_) => {
                let Some(packet) = self.packet(seq) else { return };
                let status = match packet.state {
                    State::Waiting if is_late => EchoStatus::Late,
                    State::Waiting => EchoStatus::Ok,
                    State::Answered => EchoStatus::Duplicate,
                    State::Failed => return,
                };
                packet.state = State::Answered;
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
        let counted = direction::Packet { seq, t_ns: packet.t_ns };
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

    /// Counts that a row tells a direction, or no longer does.
    fn tell(&mut self, status: EchoStatus, by: i64) {
        match status {
            EchoStatus::LostUp => self.told.up = self.told.up.saturating_add_signed(by),
            EchoStatus::LostDown => self.told.down = self.told.down.saturating_add_signed(by),
            _ => {}
        }
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
        let Some(packet) = self.packet(seq).filter(|p| p.state == State::Waiting) else { return };
        packet.state = State::Failed;
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
        let is_over = |p: &&Packet| p.t_ns.saturating_add(patience_ns) <= now_ns;
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
            self.packets.drain(..over);
            self.first += over as u64;
            self.counts.tidy(&waiting);
            return;
        }
        let directions = self.counts.gave_up(&unanswered, &waiting);
        let mut directions = directions.into_iter();
        for _ in 0..over {
            let Some(packet) = self.packets.pop_front() else { break };
            let seq = self.first;
            self.first += 1;
            if packet.state != State::Waiting {
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

    /// Packets that are not given up and have no answer, in order.
    fn unanswered(&self) -> Vec<direction::Packet> {
        (self.first..)
            .zip(&self.packets)
            .filter(|(_, p)| p.state == State::Waiting)
            .map(|(seq, p)| direction::Packet { seq, t_ns: p.t_ns })
            .collect()
    }

    /// The stream ends at `now_ns`: of what is still waiting nobody knows what became of it.
    pub fn finish(&mut self, now_ns: i64) {
        self.expire(now_ns);
        self.take_back_what_may_be_late(now_ns);
        self.settled = Some(self.losses());
        while let Some(packet) = self.packets.pop_front() {
            if packet.state == State::Waiting {
                let status = self.without_a_reply(&packet, now_ns);
                self.rows.push(packet.row(self.first, self.bytes, status));
            }
            self.first += 1;
        }
        self.waiting = 0;
    }

    /// A packet to which an answer as slow as the slowest one could not have come by now is not known to be lost: nobody waited for it.
    fn take_back_what_may_be_late(&mut self, now_ns: i64) {
        let longest_ns = i64::try_from(self.longest_ns).unwrap_or(i64::MAX);
        for (seq, packet, said) in std::mem::take(&mut self.given_up) {
            // Where a direction is told, another reply proves the loss.
            if said == EchoStatus::Lost && packet.t_ns.saturating_add(longest_ns) > now_ns {
                let status = self.without_a_reply(&packet, now_ns);
                self.rows.push(packet.row(seq, self.bytes, status));
            }
        }
    }

    /// What is said of a packet that may be lost or only late: it does not count where none that was sent then could be answered by now.
    fn without_a_reply(&self, packet: &Packet, now_ns: i64) -> EchoStatus {
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

    fn packet(&mut self, seq: u64) -> Option<&mut Packet> {
        let place = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        self.packets.get_mut(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EchoStatus::{
        Duplicate, Error, Late, Lost, LostDown, LostUp, NotSent, Ok, Unfinished, Unsure,
    };
    use quell_units::Span;

    const MS: i64 = 1_000_000;

    fn patience() -> Patience {
        Patience::exactly(Span::from_millis(100))
    }

    /// A stream of `count` packets, one every 10 ms, patience 100 ms.
    fn stream(count: i64) -> Ledger {
        let mut ledger = Ledger::new(56, patience());
        for n in 0..count {
            ledger.sent(n * 10 * MS, 0, 0);
        }
        ledger
    }

    fn reply(up_order: u64) -> Reply {
        Reply { rtt_ns: 5_000_000, up_order: Some(up_order), ..Reply::default() }
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
    fn a_reply_after_the_patience_says_that_the_packet_was_late_and_not_lost() {
        let mut ledger = stream(3);
        ledger.expire(115 * MS);
        assert_eq!(statuses(&mut ledger), [(0, Lost), (1, Lost)]);
        ledger.reply(0, Reply { rtt_ns: 116_000_000, ..Reply::default() });
        ledger.reply(0, Reply::default());
        ledger.reply(2, Reply::default());
        let rows = ledger.take();
        let got: Vec<_> = rows.iter().map(|r| (r.seq, r.status, r.t_ns, r.rtt_ns)).collect();
        assert_eq!(
            got,
            [(0, Late, 0, Some(116_000_000)), (2, Ok, 20 * MS, Some(0))],
            "the second copy of what was given up is nothing"
        );
    }

    /// 100 ms are waited for. What came is read before the program wakes to give anything up.
    #[test]
    fn an_answer_is_late_by_its_own_round_trip_whenever_the_program_woke() {
        let answers = [(0, 150, Late), (1, 99, Ok), (2, 101, Late), (3, 100, Ok)];
        for woke_ms in [0, 40, 99] {
            let mut ledger = stream(4);
            ledger.expire(woke_ms * MS);
            for (seq, rtt_ms, _) in answers {
                ledger.reply(seq, Reply { rtt_ns: rtt_ms * MS as u64, ..Reply::default() });
            }
            assert_eq!(ledger.waiting(), 0);
            let mut rows = ledger.take();
            quell_model::rows::latest(&mut rows);
            let got: Vec<_> = rows.iter().map(|r| (r.seq, r.status)).collect();
            assert_eq!(got, answers.map(|(seq, _, status)| (seq, status)), "{woke_ms} ms");
            ledger.finish(10_000 * MS);
            assert_eq!(ledger.take(), []);
        }
    }

    #[test]
    fn a_late_reply_takes_back_the_direction_that_was_told() {
        let mut ledger = stream(8);
        for (seq, order) in [(0, 0), (1, 1), (3, 3), (4, 4), (5, 5)] {
            ledger.reply(seq, reply(order));
        }
        ledger.expire(130 * MS);
        assert_eq!(ledger.take().last().map(|r| (r.seq, r.status)), Some((2, LostDown)));
        ledger.reply(2, Reply { rtt_ns: 130_000_000, ..reply(2) });
        assert_eq!(statuses(&mut ledger), [(2, Late)]);
        ledger.finish(500 * MS);
        assert_eq!(ledger.more_losses(), None, "6 and 7 are lost, and nobody knows where");
    }

    #[test]
    fn directions_that_were_taken_back_are_not_counted_in_the_end() {
        let mut ledger = stream(40);
        for seq in (0..14).filter(|s| ![2, 4].contains(s)) {
            ledger.reply(seq, reply(seq));
        }
        ledger.expire(150 * MS);
        let lost = |r: &EchoSample| r.status == LostDown;
        assert_eq!(ledger.take().iter().filter(|r| lost(r)).count(), 2);
        for seq in [2, 4] {
            ledger.reply(seq, Reply { rtt_ns: 130_000_000, ..reply(seq) });
        }
        // Of 20 and 21 one was lost on each way.
        for seq in (14..40).filter(|s| ![20, 21].contains(s)) {
            ledger.reply(seq, reply(if seq > 20 { seq - 1 } else { seq }));
        }
        ledger.finish(900 * MS);
        assert_eq!(ledger.more_losses(), Some(Losses { up: 1, down: 1 }));
    }

    #[test]
    fn the_patience_grows_with_the_round_trips() {
        let mut ledger = Ledger::new(56, Patience::between(Span::from_millis(100), Span::MAX));
        for n in 0..30 {
            ledger.sent(n * 10 * MS, 0, 0);
        }
        ledger.reply(0, Reply { rtt_ns: 90_000_000, ..Reply::default() });
        ledger.expire(150 * MS);
        assert_eq!(statuses(&mut ledger), [(0, Ok)], "twice 90 ms are waited for");
        ledger.expire(190 * MS);
        assert_eq!(statuses(&mut ledger), [(1, Lost)]);
    }

    #[test]
    fn losses_that_are_certain_in_number_but_not_one_by_one_are_told_at_the_end() {
        let mut ledger = stream(20);
        for seq in (0..20).filter(|s| ![5, 6].contains(s)) {
            ledger.reply(seq, reply(if seq > 5 { seq - 1 } else { seq }));
        }
        ledger.finish(500 * MS);
        let rows = ledger.take();
        assert_eq!(rows.iter().filter(|r| r.status == Lost).count(), 2);
        assert_eq!(ledger.more_losses(), Some(Losses { up: 1, down: 1 }));
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
    fn what_was_given_up_before_an_answer_as_slow_as_the_others_could_come_is_not_lost() {
        let late = |seq, rtt_ns| {
            move |ledger: &mut Ledger| {
                ledger.reply(seq, Reply { rtt_ns, ..Reply::default() });
            }
        };
        let story = |answers: &[&dyn Fn(&mut Ledger)]| {
            let mut ledger = stream(10);
            ledger.expire(300 * MS);
            assert_eq!(statuses(&mut ledger).len(), 10, "all are given up");
            for answer in answers {
                answer(&mut ledger);
            }
            ledger.finish(300 * MS);
            statuses(&mut ledger)
        };
        // Sent at 0 and 10 ms, each answered 270 ms later: what was sent after 30 ms could not be here yet.
        let (first, second) = (late(0, 270_000_000), late(1, 270_000_000));
        let unsettled = (4..10).map(|seq| (seq, Unfinished));
        let wanted: Vec<_> = [(0, Late), (1, Late)].into_iter().chain(unsettled).collect();
        assert_eq!(story(&[&first, &second]), wanted, "2 and 3 are lost");
        assert_eq!(story(&[]), [], "where nothing came back all are lost");
    }

    /// Connects that are refused: the answer tells not to which SYN it is. That to a second one comes after 150 ms.
    #[test]
    fn an_answer_to_what_was_sent_again_does_not_show_that_the_path_is_slow() {
        let story = |decide: &dyn Fn(&mut Ledger)| {
            let mut ledger = stream(10);
            ledger.reply(0, Reply { rtt_ns: 20_000_000, ..Reply::default() });
            ledger.saw(150_000_000);
            ledger.expire(200 * MS);
            decide(&mut ledger);
            ledger.finish(200 * MS);
            let mut rows = ledger.take();
            quell_model::rows::latest(&mut rows);
            rows.iter().filter(|r| r.status == Unsure).map(|r| r.seq).collect::<Vec<_>>()
        };
        assert!(story(&|ledger| ledger.lost(1)).is_empty(), "1 was lost: so are all others");
        let unsure = story(&|ledger| ledger.unsure(1, Some(150_000_000)));
        assert_eq!(unsure, [1, 6, 7, 8, 9], "1 took 150 ms perhaps: so may what came after 50 ms");
        assert_eq!(story(&|ledger| ledger.unsure(1, None)), [1]);
    }

    /// Half of the packets are lost, or come back late, and a reply is awaited for 100 ms or 4 s. Of those sent long before the end it is known; of
    /// those sent shortly before it some are answered, and what has no answer yet must not be left out beside them.
    #[test]
    fn of_those_sent_at_the_same_time_none_is_left_out_for_having_no_reply_yet() {
        for (wait_ms, late_ms) in [(4000, 20), (100, 3000), (4000, 3000)] {
            let mut ledger = Ledger::new(56, Patience::exactly(Span::from_millis(wait_ms)));
            let mut rng = quell_stats::Rng::new(wait_ms + late_ms);
            let mut replies = Vec::new();
            for n in 0..1000 {
                ledger.sent(n * 10 * MS, 0, 0);
                let rtt_ms = if rng.below(4) == 0 { late_ms } else { 20 };
                if rng.below(2) == 0 {
                    replies.push((n * 10 * MS + rtt_ms as i64 * MS, n as u64, rtt_ms));
                }
            }
            replies.sort_unstable();
            let end_ns = 10_000 * MS;
            for (at_ns, seq, rtt_ms) in replies {
                if at_ns <= end_ns {
                    ledger.expire(at_ns);
                    ledger.reply(seq, Reply { rtt_ns: rtt_ms * MS as u64, ..Reply::default() });
                }
            }
            ledger.finish(end_ns);
            let mut rows = ledger.take();
            quell_model::rows::latest(&mut rows);
            let left_out: Vec<u64> =
                rows.iter().filter(|r| r.status == Unfinished).map(|r| r.seq).collect();
            assert_eq!(
                left_out,
                [999],
                "it alone is younger than a round trip, whatever became of it"
            );
            let lost = rows.iter().filter(|r| r.status == Lost).count();
            let most = lost + rows.iter().filter(|r| r.status == Unsure).count();
            let truth = rows.len() - 1 - rows.iter().filter(|r| r.status.is_answered()).count();
            assert_eq!(most, truth, "all that is not answered may be lost");
            assert!(lost < 500 && most >= 480, "{lost} {most}");
        }
    }

    #[test]
    fn errors_are_rows_of_their_packets_and_end_the_waiting() {
        let mut ledger = stream(2);
        for (n, answer) in [(2, Errno::EPERM), (3, Errno::ENOBUFS), (4, Errno::EAGAIN)] {
            ledger.refused(n * 10 * MS, 0, Refusal::of(answer));
        }
        ledger.error(1);
        ledger.error(1);
        ledger.reply(2, Reply::default());
        assert_eq!(statuses(&mut ledger), [(2, Error), (3, NotSent), (4, NotSent), (1, Error)]);
        assert_eq!(ledger.waiting(), 1);
        assert_eq!(ledger.next(), 5);
    }

    #[test]
    fn what_is_decided_later_than_it_came_has_its_place_in_the_order_of_arrival() {
        let mut ledger = stream(4);
        ledger.reply(1, Reply { down_order: Some(1), ..Reply::default() });
        ledger.saw(80_000_000);
        assert_eq!((ledger.expiring_before(99 * MS), ledger.expiring_before(110 * MS)), (0, 2));
        ledger.reply(0, Reply { down_order: Some(0), ..Reply::default() });
        ledger.unsure(2, Some(80_000_000));
        ledger.lost(3);
        let rows = ledger.take();
        let got: Vec<_> = rows.iter().map(|r| (r.seq, r.status, r.down_order)).collect();
        assert_eq!(got, [(1, Ok, Some(1)), (0, Ok, Some(0)), (2, Unsure, None), (3, Lost, None)]);
        assert_eq!(ledger.waiting(), 0);
    }

    #[test]
    fn what_was_given_up_and_is_answered_perhaps_when_it_was_sent_again_is_unsure_and_not_lost() {
        let mut ledger = stream(3);
        ledger.expire(200 * MS);
        ledger.unsure(1, None);
        ledger.abandoned(2);
        ledger.unsure(1, None);
        let wanted = [(0, Lost), (1, Lost), (2, Lost), (1, Unsure)];
        assert_eq!(statuses(&mut ledger), wanted);
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
        let mut ledger = Ledger::new(56, patience());
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
        let mut ledger = Ledger::new(56, patience());
        for n in 0..100_000 {
            ledger.sent(n * 10 * MS, 0, 0);
            ledger.reply(n as u64, reply(n as u64));
            ledger.expire(n * 10 * MS);
        }
        assert!(ledger.packets.len() <= 11, "{}", ledger.packets.len());
        assert_eq!(ledger.take().len(), 100_000);
    }
}
