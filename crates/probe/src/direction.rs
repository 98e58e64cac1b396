//! On which way packets were lost, by the reflector's count. Pure.
//!
//! The reflector numbers what it receives. A number that never came back is a place that some packet without an answer took:
//!
//! ```text
//!   sent        10   11   12   13          11, 12 have no answer
//!   reflected    7              8          no place is empty     → both were lost on the way there
//!   reflected    7              10         two places are empty  → both arrived, and their answers were lost
//!   reflected    7              9          one place is empty    → one was lost on each way; which one can't be told
//! ```
//!
//! Packets overtake each other, so that an empty place need not be that of the packet that was sent at that point. A packet can have
//! taken a place if two facts allow it:
//!
//! - it was sent before the answer to some packet behind that place was here (cause before effect), and
//! - it was not on its way there for longer than the slowest answered packet took there and back: the one assumption made of the path.
//!
//! ```text
//!   packets without answer, by time     a    b    c           d
//!   places each can have taken          └─┬──┴─┬──┘           └── none
//!   empty places                          7    9
//! ```
//!
//! Packets that can have taken the same places make a *stretch* (a, b, c). In it as many arrived as places are empty, two here, and one
//! was lost on the way there: the counts are certain where the single packet's fate is not. A packet is told its direction only where
//! the counts leave no choice: no empty place (d: lost on the way there), or as many as packets (all lost on the way back).
//!
//! What makes it unknown: packets behind the last answer; a network that copies packets on the way there, since a copy takes a place too
//! (then only what was lost there is certain); a reflector that began to count anew; one that does not count at all, which the
//! caller finds out.

use std::collections::{BTreeMap, VecDeque};

/// Clocks and stamps of one machine are read this much apart, at most.
const SLACK_NS: i64 = 50_000;
/// Packets and answers that are remembered where no stretch comes to an end.
const MOST: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostWhere {
    Up,
    Down,
    Unknown,
}

/// A packet as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberedPacket {
    pub seq: u64,
    pub t_ns: i64,
}

/// How many packets were certainly lost on each way. What else was lost is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    pub up: u64,
    pub down: u64,
}

#[derive(Debug, Clone, Copy)]
struct CountedAnswer {
    seq: u64,
    t_ns: i64,
}

/// Why a packet has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Lost,
    /// It was given up, and may belong to an earlier count of the reflector.
    Blind,
    Waiting,
}

#[derive(Debug, Clone, Copy)]
struct Missing {
    packet: NumberedPacket,
    why: Why,
}

/// Packets that can have taken the same places.
#[derive(Debug, Default)]
struct Stretch {
    /// Its packets, as indices from and to.
    packets: (usize, usize),
    /// Empty places, as positions from and to.
    places: (u64, u64),
    /// Packets that can't stand behind all answers.
    closed: usize,
    /// Given up, closed, and of this count.
    lost: u64,
    /// May be of another count, or may still be answered.
    doubtful: u64,
    waiting: bool,
}

impl Stretch {
    fn count(&self) -> u64 {
        (self.packets.1 - self.packets.0) as u64
    }

    fn empty(&self) -> u64 {
        self.places.1 - self.places.0
    }

    fn losses(&self, copied: bool) -> Losses {
        let empty = self.empty();
        let down = match copied || empty > self.count() {
            true => 0,
            false => empty.saturating_sub(self.doubtful),
        };
        Losses { up: self.lost.saturating_sub(empty), down }
    }
}

/// What is known of the packets that were answered.
#[derive(Debug, Clone, Default)]
pub struct ReflectorCounts {
    /// The reflector's numbers below are settled.
    base: u64,
    /// The reflector's number → the packet.
    answers: BTreeMap<u64, CountedAnswer>,
    /// From each of these times on, packets that are sent get a number above this one.
    floors: VecDeque<(i64, u64)>,
    /// Packets that were given up and are not settled, ascending.
    lost: VecDeque<Missing>,
    /// Packets sent until then may belong to an earlier count.
    blind_until: Option<i64>,
    /// The last answer had no number.
    uncounted: bool,
    /// The last packet that was given up.
    over: Option<u64>,
    longest_ns: i64,
    /// A packet was answered as two: an empty place may be that of a copy.
    copied: bool,
    /// The same, because there were places that no packet of ours can have taken.
    surplus: bool,
    settled: Losses,
    /// So many answers are remembered before it is looked whether they are needed.
    enough: usize,
}

impl ReflectorCounts {
    pub fn new() -> Self {
        Self::default()
    }

    /// A packet was answered for the first time, after `rtt_ns`, and was the reflector's number `order`.
    pub fn answered(&mut self, packet: NumberedPacket, rtt_ns: u64, order: u64) {
        let is_late = self.over.is_some_and(|over| packet.seq <= over);
        let is_of_this_count = self.is_of_this_count(packet.t_ns);
        match self.lost.binary_search_by_key(&packet.seq, |m| m.packet.seq) {
            Ok(place) => drop(self.lost.remove(place)),
            Err(_) if !is_late || !is_of_this_count => {}
            // Its place was counted as that of a lost answer.
            Err(_) if order < self.base => self.settled.down = self.settled.down.saturating_sub(1),
            // It had none yet, and was counted as lost on its way there.
            Err(_) => self.settled.up = self.settled.up.saturating_sub(1),
        }
        self.enter(packet, rtt_ns, order);
    }

    /// A packet was answered, and the reflector does not say which number it was: it does not count, or not now.
    pub fn answered_uncounted(&mut self) {
        if !self.uncounted {
            self.begin_anew(i64::MAX, 0);
            self.uncounted = true;
        }
    }

    /// The same packet was answered again.
    pub fn answered_again(&mut self, packet: NumberedPacket, rtt_ns: u64, order: u64) {
        // The same number is a copy of the answer, another one that of the packet.
        self.copied |= order >= self.base && !self.answers.contains_key(&order);
        self.enter(packet, rtt_ns, order);
    }

    fn enter(&mut self, packet: NumberedPacket, rtt_ns: u64, order: u64) {
        let NumberedPacket { seq, t_ns } = packet;
        let rtt_ns = i64::try_from(rtt_ns).unwrap_or(i64::MAX);
        self.longest_ns = self.longest_ns.max(rtt_ns);
        let at_ns = t_ns.saturating_add(rtt_ns).saturating_add(SLACK_NS);
        let is_taken = self.answers.get(&order).is_some_and(|other| other.seq != seq);
        if is_taken || self.uncounted || self.is_before(packet, order) {
            self.uncounted = false;
            self.begin_anew(at_ns, order);
        } else if order >= self.base {
            self.answers.insert(order, CountedAnswer { seq, t_ns });
            let (last_ns, last) = self.floors.back().copied().unwrap_or((i64::MIN, 0));
            if self.floors.is_empty() || order > last {
                self.floors.push_back((at_ns.max(last_ns), order));
            }
        }
    }

    /// Whether the reflector had given a higher number before it can have got the packet: it counts upward, so that it began anew.
    fn is_before(&self, packet: NumberedPacket, order: u64) -> bool {
        self.floor(packet.t_ns).is_some_and(|floor| order <= floor)
            && self.answers.get(&order).is_none_or(|a| a.seq != packet.seq)
    }

    /// The highest number whose answer was here when a packet was sent at `t_ns`.
    fn floor(&self, t_ns: i64) -> Option<u64> {
        let behind = self.floors.partition_point(|(at, _)| *at <= t_ns);
        behind.checked_sub(1).map(|place| self.floors[place].1)
    }

    fn is_of_this_count(&self, t_ns: i64) -> bool {
        self.blind_until.is_none_or(|until| t_ns > until)
    }

    /// The reflector counts anew, and `order` was here at `at_ns`: nothing is known of what is open.
    fn begin_anew(&mut self, at_ns: i64, order: u64) {
        self.answers.clear();
        self.lost.clear();
        self.floors = VecDeque::from([(at_ns, order)]);
        self.base = order.saturating_add(1);
        self.blind_until = Some(at_ns);
        self.surplus = false;
    }

    /// The patience of `over` is over: they are in order of sending, and behind all those before. `waiting` may still be answered, in
    /// order of sending too. Tells the directions of `over`.
    pub fn gave_up(
        &mut self,
        over: &[NumberedPacket],
        waiting: &[NumberedPacket],
    ) -> Vec<LostWhere> {
        if self.uncounted {
            return vec![LostWhere::Unknown; over.len()];
        }
        for packet in over {
            let why = if self.is_of_this_count(packet.t_ns) { Why::Lost } else { Why::Blind };
            self.lost.push_back(Missing { packet: *packet, why });
            self.over = Some(packet.seq);
        }
        let packets = self.missing(waiting);
        let given_up = self.lost.len();
        let (stretches, has_surplus) = self.stretches(&packets);
        self.surplus |= has_surplus;
        let copied = self.copied || self.surplus;
        let mut found = vec![LostWhere::Unknown; over.len()];
        let first = given_up - over.len();
        for stretch in &stretches {
            let direction = match stretch.empty() {
                0 if stretch.closed > 0 => LostWhere::Up,
                empty if empty == stretch.count() && !copied => LostWhere::Down,
                _ => continue,
            };
            for index in stretch.packets.0.max(first)..stretch.packets.1.min(given_up) {
                if packets[index].why == Why::Lost {
                    found[index - first] = direction;
                }
            }
        }
        self.settle(&packets, &stretches);
        found
    }

    /// Forgets what was answered and is not needed any more: to be called now and then. `waiting` may still be answered.
    pub fn tidy(&mut self, waiting: &[NumberedPacket]) {
        if self.answers.len() > self.enough {
            self.gave_up(&[], waiting);
            self.enough = 2 * self.answers.len() + 1024;
        }
    }

    /// The losses that are certain, of packets that were given up. `waiting` may still be answered.
    pub fn losses(&self, waiting: &[NumberedPacket]) -> Losses {
        let packets = self.missing(waiting);
        let (stretches, has_surplus) = self.stretches(&packets);
        stretches.iter().fold(self.settled, |sum, stretch| {
            let Losses { up, down } = stretch.losses(self.copied || self.surplus || has_surplus);
            Losses { up: sum.up + up, down: sum.down + down }
        })
    }

    fn missing(&self, waiting: &[NumberedPacket]) -> Vec<Missing> {
        let waiting = waiting.iter().map(|p| Missing { packet: *p, why: Why::Waiting });
        self.lost.iter().copied().chain(waiting).collect()
    }

    /// The stretches in order, and whether there are places that none of these packets can have taken.
    fn stretches(&self, packets: &[Missing]) -> (Vec<Stretch>, bool) {
        let map = EmptyPlaces::of(self);
        let reach = self.longest_ns.saturating_add(SLACK_NS);
        let mut stretches: Vec<Stretch> = Vec::new();
        let (mut has_surplus, mut covered) = (false, 0);
        for (index, missing) in packets.iter().enumerate() {
            let t_ns = missing.packet.t_ns;
            let from = self.floor(t_ns).map_or(0, |order| map.below(order)).max(
                // Times of sending go up, and so do places; a clock that was set must not break that.
                stretches.last().map_or(0, |s| s.places.0),
            );
            let behind = map.first_sent_after(t_ns.saturating_add(reach));
            let to = behind.map_or(map.empty, |order| map.below(order)).max(from).max(covered);
            has_surplus |= from > covered;
            if stretches.last().is_none_or(|s| from >= s.places.1) {
                let places = (from, from);
                stretches.push(Stretch { packets: (index, index), places, ..Stretch::default() });
            }
            if let Some(stretch) = stretches.last_mut() {
                stretch.packets.1 = index + 1;
                stretch.places.1 = to;
                stretch.closed += usize::from(behind.is_some());
                stretch.lost += u64::from(behind.is_some() && missing.why == Why::Lost);
                stretch.doubtful += u64::from(missing.why != Why::Lost);
                stretch.waiting |= missing.why == Why::Waiting;
            }
            covered = covered.max(to);
        }
        has_surplus |= covered < map.empty;
        has_surplus |= stretches.iter().any(|s| s.empty() > s.count());
        (stretches, has_surplus)
    }

    /// Adds up the stretches that nothing can change any more, and forgets them.
    fn settle(&mut self, packets: &[Missing], stretches: &[Stretch]) {
        let done = |s: &&Stretch| s.closed as u64 == s.count() && !s.waiting;
        let done = stretches.iter().take_while(done).count();
        // Where no stretch ends, the oldest are given up: of what they share with those behind, nothing is told.
        let is_forced = done == 0 && self.lost.len().max(self.answers.len()) > MOST;
        if is_forced {
            self.begin_anew_behind(packets);
            return;
        }
        let mut forgotten = 0;
        for stretch in &stretches[..done] {
            let Losses { up, down } = stretch.losses(self.copied || self.surplus);
            self.settled.up += up;
            self.settled.down += down;
            forgotten = stretch.packets.1;
        }
        self.lost.drain(..forgotten.min(self.lost.len()));
        // What the next packet can have taken, and all behind it, is still needed.
        let next = packets.get(forgotten).map(|m| m.packet.t_ns);
        let floor = match next {
            Some(t_ns) => self.floor(t_ns),
            None => self.floors.back().map(|(_, order)| *order),
        };
        if let Some(floor) = floor {
            self.base = self.base.max(floor.saturating_add(1));
            self.answers = self.answers.split_off(&self.base);
            while self.floors.get(1).is_some_and(|(_, order)| *order <= floor) {
                self.floors.pop_front();
            }
        }
    }

    /// There is no end to a stretch: all that is open stays unknown.
    fn begin_anew_behind(&mut self, packets: &[Missing]) {
        let last = packets.iter().rev().find(|m| m.why != Why::Waiting).map(|m| m.packet.t_ns);
        let (at_ns, order) = self.floors.back().copied().unwrap_or((i64::MIN, 0));
        self.begin_anew(at_ns.max(last.unwrap_or(i64::MIN)), order);
    }
}

/// The places that are empty, counted from the oldest that is not settled.
struct EmptyPlaces {
    orders: Vec<u64>,
    /// How many are empty below each of the orders.
    below: Vec<u64>,
    /// When a packet was sent, and the lowest order of those sent then or later.
    ahead: Vec<(i64, u64)>,
    /// How many there are in all.
    empty: u64,
}

impl EmptyPlaces {
    fn of(counts: &ReflectorCounts) -> Self {
        let orders: Vec<u64> = counts.answers.keys().copied().collect();
        let below: Vec<u64> =
            orders.iter().zip(0..).map(|(order, n)| order - counts.base - n).collect();
        let mut ahead: Vec<(i64, u64)> =
            counts.answers.iter().map(|(order, a)| (a.t_ns, *order)).collect();
        ahead.sort_unstable();
        let mut least = u64::MAX;
        for (_, order) in ahead.iter_mut().rev() {
            least = least.min(*order);
            *order = least;
        }
        Self { empty: below.last().copied().unwrap_or(0), orders, below, ahead }
    }

    /// Empty places below this order.
    fn below(&self, order: u64) -> u64 {
        let place = self.orders.partition_point(|o| *o < order);
        match self.orders.get(place) {
            Some(found) if *found == order => self.below[place],
            _ => place.checked_sub(1).map_or(0, |before| self.below[before]),
        }
    }

    /// The lowest order of packets that were sent later than this.
    fn first_sent_after(&self, t_ns: i64) -> Option<u64> {
        let place = self.ahead.partition_point(|(t, _)| *t <= t_ns);
        self.ahead.get(place).map(|(_, order)| *order)
    }
}

#[cfg(test)]
mod tests {
    use super::LostWhere::{Down, Unknown, Up};
    use super::*;
    use proptest::prelude::*;
    use quell_stats::Rng;

    const MS: i64 = 1_000_000;

    fn packet(seq: u64) -> NumberedPacket {
        NumberedPacket { seq, t_ns: seq as i64 * 20 * MS }
    }

    /// What a network does to packets: shares of 1, and delays in milliseconds.
    #[derive(Debug, Clone, Copy)]
    struct Network {
        lost_up: f64,
        lost_down: f64,
        copied_up: f64,
        copied_down: f64,
        /// The least of each way, and how much more it may be.
        delay: f64,
        jitter_up: f64,
        jitter_down: f64,
    }

    const STILL: Network = Network {
        lost_up: 0.0,
        lost_down: 0.0,
        copied_up: 0.0,
        copied_down: 0.0,
        delay: 30.0,
        jitter_up: 0.0,
        jitter_down: 0.0,
    };

    /// What became of each packet in truth, and what was said.
    struct Story {
        /// Whether it arrived, and whether an answer came back, ever.
        truth: Vec<(bool, bool)>,
        said: Vec<Option<LostWhere>>,
        losses: Losses,
    }

    /// A packet each 20 ms through a network; each is given up after `patience` milliseconds. With copies, the first packet's come back.
    fn story(count: u64, network: Network, patience: i64, seed: u64) -> Story {
        let mut rng = Rng::new(seed);
        let mut chance = |share: f64| rng.f64() < share;
        let mut arrivals: Vec<(i64, u64)> = Vec::new();
        let mut draws = Rng::new(seed ^ 7);
        let mut way = |jitter: f64| ((network.delay + jitter * draws.f64()) * MS as f64) as i64;
        for seq in 0..count {
            let is_first = seq == 0 && network.copied_up > 0.0;
            if !is_first && chance(network.lost_up) {
                continue;
            }
            for _ in 0..1 + u8::from(is_first || chance(network.copied_up)) {
                arrivals.push((packet(seq).t_ns + way(network.jitter_up), seq));
            }
        }
        arrivals.sort_unstable();
        let mut answers: Vec<(i64, u64, u64)> = Vec::new();
        let mut truth = vec![(false, false); count as usize];
        for (order, (at, seq)) in arrivals.into_iter().enumerate() {
            truth[seq as usize].0 = true;
            let is_first = seq == 0 && network.copied_up > 0.0;
            if !is_first && chance(network.lost_down) {
                continue;
            }
            truth[seq as usize].1 = true;
            for _ in 0..1 + u8::from(chance(network.copied_down)) {
                answers.push((at + way(network.jitter_down), seq, order as u64));
            }
        }
        answers.sort_unstable();
        let mut counts = ReflectorCounts::new();
        let mut said = vec![None; count as usize];
        let mut answered = vec![false; count as usize];
        let (mut next_answer, mut first, mut sent) = (0, 0u64, 0u64);
        let mut now = 0;
        while first < count {
            now += 100 * MS;
            while let Some((at, seq, order)) = answers.get(next_answer).filter(|a| a.0 <= now) {
                let rtt = (at - packet(*seq).t_ns) as u64;
                match std::mem::replace(&mut answered[*seq as usize], true) {
                    false => counts.answered(packet(*seq), rtt, *order),
                    true => counts.answered_again(packet(*seq), rtt, *order),
                }
                next_answer += 1;
            }
            while sent < count && packet(sent).t_ns <= now {
                sent += 1;
            }
            let from = first;
            while first < sent && packet(first).t_ns + patience * MS <= now {
                first += 1;
            }
            let open = |range: std::ops::Range<u64>| -> Vec<NumberedPacket> {
                range.filter(|s| !answered[*s as usize]).map(packet).collect()
            };
            let (over, waiting) = (open(from..first), open(first..sent));
            for (packet, direction) in over.iter().zip(counts.gave_up(&over, &waiting)) {
                said[packet.seq as usize] = Some(direction);
            }
        }
        Story { truth, said, losses: counts.losses(&[]) }
    }

    impl Story {
        fn wrong(&self) -> Vec<usize> {
            let is_wrong = |n: &usize| match (self.said[*n], self.truth[*n]) {
                (Some(Up), (arrived, _)) => arrived,
                (Some(Down), fate) => fate != (true, false),
                _ => false,
            };
            (0..self.truth.len()).filter(is_wrong).collect()
        }

        fn lost(&self) -> (u64, u64) {
            let count = |fate| self.truth.iter().filter(|t| **t == fate).count() as u64;
            (count((false, false)), count((true, false)))
        }

        fn told(&self, direction: LostWhere) -> u64 {
            self.said.iter().filter(|s| **s == Some(direction)).count() as u64
        }
    }

    #[test]
    fn an_overtaken_packet_whose_answer_is_lost_is_not_said_to_be_lost_on_the_way_there() {
        // 2 came to the reflector after 3, as its number 3, and that answer was lost: the places are 0 1 _ 2 at the sender.
        let mut counts = ReflectorCounts::new();
        for (seq, order) in [(0, 0), (1, 1), (3, 2), (4, 4), (5, 5), (20, 6)] {
            counts.answered(packet(seq), 60 * MS as u64, order);
        }
        assert_eq!(counts.gave_up(&[2, 10, 11].map(packet), &[]), [Down, Up, Up]);
    }

    #[test]
    fn losses_on_one_way_are_each_told_and_neighbours_on_both_ways_are_counted() {
        let up = story(2000, Network { lost_up: 0.1, ..STILL }, 1000, 1);
        let down = story(2000, Network { lost_down: 0.1, ..STILL }, 1000, 2);
        assert!(up.told(Up) + 20 > up.lost().0 && up.told(Down) == 0, "{:?}", up.losses);
        assert!(down.told(Down) + 20 > down.lost().1 && down.told(Up) == 0, "{:?}", down.losses);
        let both = story(2000, Network { lost_up: 0.1, lost_down: 0.05, ..STILL }, 1000, 3);
        let (lost_up, lost_down) = both.lost();
        assert!(both.told(Unknown) > 50, "neighbours can't be told apart: {}", both.told(Unknown));
        assert!(both.losses.up <= lost_up && both.losses.up + 9 > lost_up, "{:?}", both.losses);
        assert!(both.losses.down <= lost_down && both.losses.down + 9 > lost_down);
        assert_eq!(both.wrong(), [0; 0]);
    }

    #[test]
    fn totals_are_true_where_packets_overtake_and_one_in_a_hundred_is_lost_each_way() {
        let network =
            Network { lost_up: 0.01, lost_down: 0.01, jitter_up: 50.0, jitter_down: 30.0, ..STILL };
        let story = story(50_000, network, 3000, 4);
        let (up, down) = story.lost();
        assert!((400..600).contains(&up) && (400..600).contains(&down), "{up} {down}");
        assert_eq!(story.wrong(), [0; 0]);
        assert!(story.losses.up <= up && story.losses.up + 3 >= up, "{:?} of {up}", story.losses);
        assert!(
            story.losses.down <= down && story.losses.down + 3 >= down,
            "{:?} of {down}",
            story.losses
        );
        assert!(story.told(Up) + story.told(Down) > (up + down) / 2, "most are told one by one");
    }

    #[test]
    fn behind_the_last_answer_nothing_is_known() {
        let mut counts = ReflectorCounts::new();
        let over = [packet(0), packet(1)];
        assert_eq!(counts.gave_up(&over, &[]), [Unknown, Unknown]);
        assert_eq!(counts.losses(&[]), Losses::default());
    }

    #[test]
    fn a_reflector_that_counts_anew_makes_what_was_open_unknown_and_is_believed_from_then_on() {
        // Whether the old numbers are still remembered, or settled long ago.
        for is_settled in [false, true] {
            let mut counts = ReflectorCounts::new();
            let rtt = 10 * MS as u64;
            for seq in 0..100 {
                counts.answered(packet(seq), rtt, seq);
            }
            if is_settled {
                assert_eq!(counts.gave_up(&[], &[]), []);
                assert_eq!(counts.answers.len(), 0);
            }
            // 100 and 101 were lost; the reflector forgot us before 104.
            for seq in [102, 103] {
                counts.answered(packet(seq), rtt, seq - 2);
            }
            for seq in (104..200).filter(|s| *s != 150) {
                counts.answered(packet(seq), rtt, seq - 104 - u64::from(seq > 150));
            }
            let over = [100, 101, 150].map(packet);
            assert_eq!(counts.gave_up(&over, &[]), [Unknown, Unknown, Up]);
            assert_eq!(counts.losses(&[]), Losses { up: 1, down: 0 });
        }
    }

    #[test]
    fn what_was_lost_while_the_reflector_did_not_count_stays_unknown_when_it_does() {
        let mut counts = ReflectorCounts::new();
        counts.answered_uncounted();
        for seq in (10..100).filter(|s| *s != 50) {
            counts.answered(packet(seq), 10 * MS as u64, seq - 10 - u64::from(seq > 50));
        }
        let over = [5, 50].map(packet);
        assert_eq!(counts.gave_up(&over, &[]), [Unknown, Up]);
        counts.answered_uncounted();
        assert_eq!(counts.gave_up(&[packet(99)], &[]), [Unknown]);
    }

    #[test]
    fn an_answer_that_comes_after_all_is_no_longer_a_loss() {
        let mut counts = ReflectorCounts::new();
        let rtt = 10 * MS as u64;
        for seq in (0..100).filter(|s| *s != 50) {
            counts.answered(packet(seq), rtt, seq);
        }
        assert_eq!(counts.gave_up(&[packet(50)], &[]), [Down]);
        assert_eq!(counts.losses(&[]), Losses { up: 0, down: 1 });
        counts.answered(packet(50), 5000 * MS as u64, 50);
        assert_eq!(counts.losses(&[]), Losses::default());
    }

    #[test]
    fn an_answer_that_comes_before_anything_was_said_of_its_packet_is_no_loss_either() {
        let mut counts = ReflectorCounts::new();
        for seq in 0..99 {
            counts.answered(packet(seq), 10 * MS as u64, seq);
        }
        assert_eq!(counts.gave_up(&[packet(99)], &[]), [Unknown], "nothing behind it is known");
        counts.answered(packet(99), 500 * MS as u64, 99);
        for seq in 100..200 {
            counts.answered(packet(seq), 10 * MS as u64, seq);
        }
        assert_eq!(counts.losses(&[]), Losses::default());
    }

    #[test]
    fn a_copy_that_took_a_place_before_a_packet_was_sent_may_have_taken_one_behind_it_too() {
        // The reflector got packet 2 twice, and the answer to one of the two was lost: of its empty places one is of no packet.
        for (copied, said) in [(None, Down), (Some(2), Unknown)] {
            let mut counts = ReflectorCounts::new();
            for seq in (0..60).filter(|s| *s != 50) {
                let copies = u64::from(copied.is_some_and(|packet| seq > packet));
                counts.answered(packet(seq), 10 * MS as u64, seq + copies);
            }
            assert_eq!(counts.gave_up(&[packet(50)], &[]), [said]);
            let down = u64::from(said == Down);
            assert_eq!(counts.losses(&[]), Losses { up: 0, down }, "{copied:?}");
        }
    }

    #[test]
    fn what_is_settled_is_forgotten() {
        let mut counts = ReflectorCounts::new();
        let mut most = 0;
        for seq in 0..100_000 {
            if seq % 10 != 3 {
                counts.answered(packet(seq), 10 * MS as u64, seq - (seq + 6) / 10);
            } else if let Some(over) = seq.checked_sub(20) {
                counts.gave_up(&[packet(over)], &[packet(seq - 10), packet(seq)]);
            }
            most = most.max(counts.answers.len() + counts.floors.len() + counts.lost.len());
        }
        assert!(most < 100, "{most}");
        assert!(counts.settled.up > 9_990 && counts.settled.down == 0, "{:?}", counts.settled);
    }

    #[test]
    fn losses_without_an_end_take_bounded_memory() {
        let mut counts = ReflectorCounts::new();
        counts.answered(packet(0), u64::MAX, 0);
        for seq in 1..400_000 {
            if seq % 2 == 0 {
                counts.answered(packet(seq), 10 * MS as u64, seq);
            } else if seq % 1000 == 1 {
                let over: Vec<NumberedPacket> =
                    (seq.saturating_sub(500)..seq).filter(|s| s % 2 == 1).map(packet).collect();
                counts.gave_up(&over, &[]);
            }
        }
        assert!(counts.lost.len().max(counts.answers.len()) < 2 * MOST);
    }

    fn networks() -> impl Strategy<Value = Network> {
        let share = || prop_oneof![Just(0.0), 0.0..0.5];
        (share(), share(), share(), share(), 0.0..60.0, 0.0..60.0).prop_map(
            |(lost_up, lost_down, copied_up, copied_down, jitter_up, jitter_down)| {
                // No packet is longer on its way there than another one there and back.
                let delay = 61.0;
                Network {
                    lost_up,
                    lost_down,
                    copied_up,
                    copied_down,
                    delay,
                    jitter_up,
                    jitter_down,
                }
            },
        )
    }

    proptest! {
        /// Losses both ways, overtaking both ways, copies of both: what is said is so.
        #[test]
        fn what_is_told_is_never_wrong(network in networks(), count in 1u64..300, seed in any::<u64>()) {
            let story = story(count, network, 300, seed);
            let (up, down) = story.lost();
            prop_assert_eq!(story.wrong(), vec![0usize; 0]);
            prop_assert!(story.losses.up <= up, "{:?} up of {}", story.losses, up);
            prop_assert!(story.losses.down <= down, "{:?} down of {}", story.losses, down);
        }

        #[test]
        fn a_reflector_that_counts_nonsense_makes_no_panic(
            events in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), 0u8..3), 0..60),
        ) {
            let mut counts = ReflectorCounts::new();
            let mut next = 0u64;
            for (seq, rtt, order, kind) in events {
                let packet = NumberedPacket { seq, t_ns: seq as i64 };
                match kind {
                    0 => counts.answered(packet, rtt, order),
                    1 => counts.answered_again(packet, rtt, order),
                    _ => {
                        next += 1;
                        counts.gave_up(&[NumberedPacket { seq: next, t_ns: next as i64 }], &[packet]);
                    }
                }
            }
            counts.losses(&[]);
        }
    }
}
