//! Answered packets in the three orders that figures are taken in: of sending, of arrival at the reflector, of arrival here.
//!
//! ```text
//!   packets ──► waiting, sorted when asked ──► settled: jitter, delays, order of each way   (all are fed, once, when asked)
//!               beyond 4096 the first of     └─► variation, offset of the clocks
//!               each order are settled
//! ```
//!
//! Where all is kept nothing settles before it is asked for. Else a packet that is overtaken by more than 1,024 others is taken as if it had come
//! then; one-way delays are corrected by the difference and the drift of clocks as they are known when the first packets settle, and
//! shifted by what is learnt later; quantiles of more than 4,096 delays are those of [`Running`].

use super::result::{Transit, Way};
use quell_model::EchoSample;
use quell_stats::{
    ClockOffset, Jitter, OffsetEstimator, RecentOrder, Running, RunningAround, Summary as Spread,
};

/// So many packets wait for those that they overtook, where not all are kept.
const LOOK_BACK: usize = 1024;

/// The kernel sends a SYN again after so long: no connect is unsure that was answered before.
pub(crate) const LEAST_UNSURE_NS: i64 = 1_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    All,
    Recent,
}

impl Keep {
    pub fn running(self) -> Running {
        match self {
            Keep::All => Running::keeping(usize::MAX),
            Keep::Recent => Running::new(),
        }
    }

    fn running_from(self, first: Option<i64>) -> RunningAround {
        RunningAround::of(first, self.running())
    }
}

const WAYS: [Transit; 3] = [Transit::Up, Transit::Down, Transit::RoundTrip];
/// Of a packet's marks, that of the order of sending; those before are of [`WAYS`].
const SENDING: usize = 3;

#[derive(Debug, Clone, Copy)]
struct OrderedPacket {
    t_ns: i64,
    seq: u64,
    up_order: Option<u64>,
    down_order: Option<u64>,
    transit_ns: [Option<i64>; 3],
    settled: [bool; 4],
}

#[derive(Debug, Clone)]
pub(super) struct Orders {
    keep: Keep,
    waiting: Vec<OrderedPacket>,
    settled: Settled,
    /// By how much settled one-way delays are corrected; none before there are any.
    line: Option<Option<ClockOffset>>,
    /// Packets counted, and how many of them tell the way there, and the order of arrival there and here.
    answered: u64,
    told_up: u64,
    numbered: [u64; 2],
}

#[derive(Debug, Clone)]
struct Settled {
    ways: [ArrivalOrder; 3],
    ipdv_up: Variation,
    ipdv_rtt: Variation,
    offset: OffsetEstimator,
}

pub(super) struct Ways {
    /// In the order of [`WAYS`].
    pub by_transit: [Way; 3],
    pub ipdv_up_ms: Option<Spread>,
    pub ipdv_rtt_ms: Option<Spread>,
    pub some_up: bool,
    /// Whether each does, by clocks that can be compared.
    pub all_up: bool,
    pub numbered_up: bool,
    /// Whether each has its place among the replies.
    pub numbered_down: bool,
}

impl Orders {
    pub fn new(keep: Keep) -> Self {
        let arrivals = |first, each| ArrivalOrder {
            jitter: Jitter::new(),
            delays: keep.running_from(first),
            each,
            order: RecentOrder::new(0),
        };
        let each = (keep == Keep::All).then(Vec::new);
        let variation = || Variation { last: None, found: keep.running() };
        Self {
            keep,
            waiting: Vec::new(),
            settled: Settled {
                ways: [arrivals(None, None), arrivals(None, None), arrivals(Some(0), each)],
                ipdv_up: variation(),
                ipdv_rtt: variation(),
                offset: OffsetEstimator::new(),
            },
            line: None,
            answered: 0,
            told_up: 0,
            numbered: [0; 2],
        }
    }

    /// Takes a packet that was answered. Of those sent before the measurement only clocks are read.
    pub fn take(&mut self, s: &EchoSample, apart: bool) {
        let rtt = s.rtt_ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX));
        if s.t_ns >= 0 {
            self.answered += 1;
            self.told_up += u64::from(s.up_ns.is_some());
            for (count, order) in self.numbered.iter_mut().zip([s.up_order, s.down_order]) {
                *count += u64::from(order.is_some());
            }
        }
        self.waiting.push(OrderedPacket {
            t_ns: s.t_ns,
            seq: s.seq,
            up_order: s.up_order,
            down_order: s.down_order,
            transit_ns: [s.up_ns, s.down_ns, rtt],
            settled: [false; 4],
        });
        if self.keep == Keep::Recent && self.waiting.len() >= 4 * LOOK_BACK {
            self.settle(apart);
        }
    }

    fn settle(&mut self, apart: bool) {
        let Self { waiting, settled, .. } = self;
        let count = waiting.len() - LOOK_BACK;
        settled.clock(waiting, count);
        let offset = settled.offset.estimate().filter(|_| apart);
        let line = *self.line.get_or_insert(offset);
        settled.feed(waiting, count, line);
        waiting.retain(|p| p.settled != [true; 4]);
    }

    pub fn round_trip(&self, unsure: u64) -> Way {
        let mut settled = self.settled.ways[2].clone();
        let mut waiting = self.waiting.clone();
        waiting.sort_by_key(|p| place(p, Transit::RoundTrip));
        for packet in waiting.iter().filter(|p| !p.settled[2]) {
            settled.take(packet, Transit::RoundTrip, None);
        }
        settled.way_with(unsure)
    }

    /// When each packet was sent and its time on this way, in the order of arrival. All are there only where all are kept.
    pub fn transits(&self, of: Transit, apart: bool) -> Vec<(i64, i64)> {
        let mut waiting = self.waiting.clone();
        let mut settled = self.settled.clone();
        let count = waiting.len();
        settled.clock(&mut waiting, count);
        let line = settled.offset.estimate().filter(|_| apart);
        waiting.sort_by_key(|p| place(p, of));
        let counted = waiting.iter().filter(|p| p.t_ns >= 0);
        counted.filter_map(|p| Some((p.t_ns, p.transit(of, line)?))).collect()
    }

    /// Whether one-way delays are known of all packets that were answered.
    pub fn all_up(&self, apart: bool) -> bool {
        match apart {
            false => self.all(self.told_up),
            true => self.figures(true, 0).0.all_up,
        }
    }

    fn all(&self, count: u64) -> bool {
        self.answered > 0 && count == self.answered
    }

    /// All figures, and how far the two clocks are apart, if that can be told. Of so many packets beside nobody knows whether they are lost.
    pub fn figures(&self, apart: bool, unsure: u64) -> (Ways, Option<ClockOffset>) {
        let mut settled = self.settled.clone();
        let mut waiting = self.waiting.clone();
        let count = waiting.len();
        settled.clock(&mut waiting, count);
        let offset = settled.offset.estimate().filter(|_| apart);
        let line = self.line.unwrap_or(offset);
        settled.feed(&mut waiting, count, line);
        let learnt = |now: ClockOffset| {
            now.middle_ns().saturating_sub(line.map_or(0, |line| line.at(now.middle_at_ns())))
        };
        let shift = offset.map_or(0, learnt);
        let [up, down, rtt] = &settled.ways;
        // Of clocks that can't be compared there are no delays.
        let comparable = !apart || offset.is_some();
        let one_way = |way: &ArrivalOrder, shift| match comparable {
            true => way.way(shift),
            false => Way { reordered: way.order.reordered(), ..Way::default() },
        };
        let all = |count: u64| self.all(count);
        let ways = Ways {
            by_transit: [
                one_way(up, shift),
                one_way(down, shift.saturating_neg()),
                rtt.way_with(unsure),
            ],
            ipdv_up_ms: settled.ipdv_up.found.summary(1e6),
            ipdv_rtt_ms: settled.ipdv_rtt.found.summary(1e6),
            some_up: self.told_up > 0,
            all_up: comparable && all(self.told_up),
            numbered_up: all(self.numbered[0]),
            numbered_down: all(self.numbered[1]),
        };
        (ways, offset)
    }
}

impl Settled {
    fn clock(&mut self, waiting: &mut [OrderedPacket], count: usize) {
        waiting.sort_by_key(|p| p.seq);
        for packet in waiting[..count].iter().filter(|p| !p.settled[SENDING]) {
            if let [Some(up), Some(down), _] = packet.transit_ns {
                self.offset.push(packet.t_ns, up, down);
            }
        }
    }

    /// Takes the first packets of each order, with one-way delays less what the clocks are apart by this line.
    fn feed(&mut self, waiting: &mut [OrderedPacket], count: usize, line: Option<ClockOffset>) {
        waiting.sort_by_key(|p| p.seq);
        for packet in &mut waiting[..count] {
            if !std::mem::replace(&mut packet.settled[SENDING], true) && packet.t_ns >= 0 {
                self.ipdv_up.take(packet.seq, packet.transit(Transit::Up, line));
                self.ipdv_rtt.take(packet.seq, packet.transit(Transit::RoundTrip, line));
            }
        }
        for (index, (of, way)) in WAYS.into_iter().zip(&mut self.ways).enumerate() {
            waiting.sort_by_key(|p| place(p, of));
            for packet in &mut waiting[..count] {
                if !std::mem::replace(&mut packet.settled[index], true) {
                    way.take(packet, of, line);
                }
            }
        }
    }
}

impl OrderedPacket {
    fn transit(&self, of: Transit, line: Option<ClockOffset>) -> Option<i64> {
        let apart = line.map_or(0, |line| line.at(self.t_ns));
        match of {
            Transit::Up => Some(self.transit_ns[0]?.saturating_sub(apart)),
            Transit::Down => Some(self.transit_ns[1]?.saturating_add(apart)),
            Transit::RoundTrip => self.transit_ns[2],
        }
    }
}

/// Packets of one way, in the order of their arrival at its end.
#[derive(Debug, Clone)]
struct ArrivalOrder {
    jitter: Jitter,
    delays: RunningAround,
    /// Each of the round trips, where all are kept.
    each: Option<Vec<i64>>,
    order: RecentOrder,
}

impl ArrivalOrder {
    fn take(&mut self, packet: &OrderedPacket, of: Transit, line: Option<ClockOffset>) {
        if packet.t_ns < 0 {
            return;
        }
        // On the way back they left in the order in which they had come to the reflector.
        let back = packet.up_order.filter(|_| of == Transit::Down);
        self.order.push(back.unwrap_or(packet.seq));
        if let Some(transit) = packet.transit(of, line) {
            self.jitter.push(transit as f64);
            self.delays.push(transit);
            if let Some(each) = &mut self.each {
                each.push(transit);
            }
        }
    }

    /// The figures, with delays that are so much shorter.
    fn way(&self, shift_ns: i64) -> Way {
        let ms = |ns: f64| ns / 1e6;
        let each = self.each.iter().flatten();
        Way {
            delays_ms: self.delays.summary(shift_ns, 1e6),
            delays_at_most_ms: None,
            each_ms: each.map(|ns| ms(ns.saturating_sub(shift_ns) as f64)).collect(),
            jitter_ms: self.jitter.mean().map(ms),
            jitter_last_ms: self.jitter.last().map(ms),
            reordered: self.order.reordered(),
        }
    }

    /// The figures where so many more may have been answered after a second or more.
    fn way_with(&self, unsure: u64) -> Way {
        let way = self.way(0);
        let bounds = || self.delays.bounds(unsure, LEAST_UNSURE_NS, 1e6);
        match Some(unsure).filter(|n| *n > 0).and_then(|_| bounds()) {
            Some([least, most]) => {
                Way { delays_ms: Some(least), delays_at_most_ms: Some(most), ..way }
            }
            None => way,
        }
    }
}

/// Differences of transit times of packets with consecutive numbers: a lost packet leaves no pair (RFC 3393, section 2.6 and RFC 5481,
/// section 4.1).
#[derive(Debug, Clone)]
struct Variation {
    last: Option<(u64, Option<i64>)>,
    found: Running,
}

impl Variation {
    fn take(&mut self, seq: u64, transit: Option<i64>) {
        if let Some((before, Some(then))) = self.last.replace((seq, transit))
            && before.checked_add(1) == Some(seq)
            && let Some(now) = transit
        {
            self.found.push(now.abs_diff(then));
        }
    }
}

/// The place of a packet in the order of arrival at the end of a way, which is not always that of their numbers: RFC 3550 takes them so.
fn place(packet: &OrderedPacket, of: Transit) -> (u64, u64) {
    let order = if of == Transit::Up { packet.up_order } else { packet.down_order };
    (order.unwrap_or(packet.seq), packet.seq)
}
