//! What held a sender of TCP up: what its kernel says, as parts of the time. Pure.
//!
//! ```text
//!   window        the kernel's clock of it (TCP_INFO): pacing and congestion control let a segment go, the window did not
//!   send buffer   the kernel's clock of it, or looks at which all was sent, the windows had room, and the buffer was full of what is unacknowledged
//!   queue         how far TCP's round trip stayed above the least that it saw: what stands in a queue of the path all the time
//!   no data       looks at which nothing waited to be sent, the above apart: a program or CPU that is too slow
//!   cwnd          looks at which data waited and the congestion window was full
//!   the rest      data waits, all windows have room: paced, by the kernel's rate (--fq-rate) or by congestion control
//!   CPU           the clock of the scheduler: a thread that moves data and never sleeps is held up by nothing else
//! ```
//!
//! The shares are facts. The verdict is only what they leave no choice about: without a rate the one that took most of the time; with one that
//! was not reached, whatever took at least half of what is missing. Otherwise it is unknown. A window or buffer of which a part stands in a queue
//! of the path holds nothing up: the path is full, and a larger one would only make the queue longer.

use quell_wire::iperf3::Moment;
use serde::Serialize;

/// What holds up a sender of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The window that the receiver offers.
    ReceiveWindow,
    /// The sender's own buffer.
    SendBuffer,
    /// Both of these, in turn.
    #[serde(rename = "receive-window-and-send-buffer")]
    Both,
    /// The rate that was asked for, or that the server allows.
    Rate,
    /// Congestion control, which is to say the path.
    Path,
    /// This host's own queue, where packets stood: what comes behind it is no narrower.
    OwnQueue,
    /// The CPU of what writes the data: it never waited for room.
    SenderCpu,
    /// The CPU of what reads the data: it never waited for more, and the window that it left shut held the sender up.
    ReceiverCpu,
    /// The facts leave several.
    Unknown,
}

impl Limit {
    /// Whether it is a window or buffer of an end.
    fn is_of_an_end(self) -> bool {
        matches!(self, Self::ReceiveWindow | Self::SendBuffer | Self::Both)
    }
}

/// Parts of the time, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Held {
    /// The receiver's window alone held it up.
    #[serde(rename = "window_share")]
    pub window: f64,
    /// The own send buffer held it up.
    #[serde(rename = "send_buffer_share")]
    pub send_buffer: f64,
    /// Nothing waited to be sent, though there was room to write.
    #[serde(rename = "no_data_share")]
    pub no_data: f64,
    /// Data waited and the congestion window was full.
    #[serde(rename = "cwnd_share")]
    pub cwnd: f64,
    /// The part of the rate that was asked for, or allowed, that was not reached; none without such a rate.
    #[serde(rename = "missing_share")]
    pub missing: Option<f64>,
    /// By how many milliseconds TCP's round trip exceeded the least one all the time, its variation left out; none where the kernel knows no least
    /// one.
    #[serde(rename = "queue_ms")]
    pub queue: Option<f64>,
    /// By how many milliseconds it exceeded that at most.
    #[serde(rename = "queue_most_ms")]
    pub queue_most: Option<f64>,
    /// The part of the time in which what wrote the data was on a CPU or waited for one; none where that is not known.
    #[serde(rename = "sender_cpu_share")]
    pub sender_cpu: Option<f64>,
    /// The same of what read the data.
    #[serde(rename = "receiver_cpu_share")]
    pub receiver_cpu: Option<f64>,
    /// Whether there was a look at which not all had been written yet: else nobody saw what held it up.
    #[serde(skip)]
    pub seen: bool,
    /// Milliseconds that a segment takes at the rate that all streams got; the line takes no longer. None where they got nothing.
    #[serde(skip)]
    pub segment_ms: Option<f64>,
    /// How many streams there are.
    #[serde(skip)]
    pub streams: u64,
}

/// What pings beside the load found, the medians beside and before it compared, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Beside {
    /// What the load added to the round trip.
    pub added: Option<f64>,
    /// What it added to the way of the data.
    pub added_there: Option<f64>,
    /// What it added to 49 of 50 round trips at least, behind how it began.
    pub added_always: Option<f64>,
    /// What it added to nine of ten of them at least.
    pub added_mostly: Option<f64>,
    /// What it added to one of ten of them at least.
    pub added_seldom: Option<f64>,
    /// How far the idle path's round trips vary: nine of ten exceed the median by no more.
    pub varies: f64,
    /// Whether data flowed the other way too.
    pub both: bool,
}

/// Whether a queue stood on the way of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queue {
    None,
    Stands,
    Unknown,
}

/// Less than this is how a flow begins, and what is seen between two looks.
const TRACE: f64 = 0.01;
/// A thread that slept for less than the rest was never held up for long.
const AWAKE: f64 = 0.95;
/// So many milliseconds a busy host may take longer to answer.
const WAKES_MS: f64 = 0.1;
/// Bytes of headers that a pacing queue counts with each segment (fq: Ethernet, IPv6, TCP with all its options).
const HEADERS: f64 = 14.0 + 40.0 + 60.0;

impl Held {
    /// Of these streams' states over time from `from_ns` on, each beginning and ending with the time that counts; `asked` is in bits a second, and
    /// `amount` in bytes, for each. `reached` is what all of them got, in bits a second. None where the kernel tells nothing.
    pub fn of(
        streams: &[&[Moment]],
        from_ns: i64,
        asked: Option<u64>,
        reached: f64,
        amount: Option<u64>,
    ) -> Option<Self> {
        let mut all = Sums { amount: amount.unwrap_or(u64::MAX), ..Sums::default() };
        for moments in streams {
            let begun = moments.partition_point(|moment| moment.t_ns < from_ns);
            // How a flow begins is not what holds it up: a tenth is left out.
            let counted = moments.get(begun..).unwrap_or_default();
            all.add(counted.get(counted.len() / 10..).unwrap_or_default());
        }
        if all.busy <= 0.0 || all.time <= 0.0 {
            return None;
        }
        let look = |count: u64| count as f64 / all.looks.max(1) as f64;
        let send_buffer = (all.buffer / all.time).max(look(all.filled)).min(1.0);
        Some(Self {
            window: (all.window / all.time).min(1.0),
            send_buffer,
            no_data: (look(all.empty) - send_buffer).max(0.0),
            cwnd: look(all.full),
            missing: allowed(streams, asked).map(|bits| (1.0 - reached / bits).max(0.0)),
            queue: all.queue_ms(),
            queue_most: all.queue_most_ms(),
            sender_cpu: None,
            receiver_cpu: None,
            seen: all.looks > 0,
            segment_ms: all.segment_us().map(|us| us / 1e3),
            streams: all.streams,
        })
    }

    /// What they leave no choice about, for segments of `mss` bytes, with what pings found.
    pub fn by(&self, mss: Option<u32>, beside: Beside) -> Limit {
        let limit = self.bound(mss);
        let awake = |share: Option<f64>| share.is_some_and(|share| share >= AWAKE);
        if awake(self.sender_cpu) && limit != Limit::Rate {
            return Limit::SenderCpu;
        }
        if awake(self.receiver_cpu) && limit == Limit::ReceiveWindow {
            return Limit::ReceiverCpu;
        }
        match (limit, self.stands(beside)) {
            (limit, Queue::Stands) if limit.is_of_an_end() => Limit::Path,
            (limit, Queue::Unknown) if limit.is_of_an_end() => Limit::Unknown,
            // The sender's chances alternate, and the path was full meanwhile.
            (Limit::Unknown, Queue::Stands)
                if self.seen && self.missing.is_none() && self.no_data < 0.5 =>
            {
                Limit::Path
            }
            _ => limit,
        }
    }

    /// What is seen of a window or buffer that is not what holds the sender up, the path being full; `limit` is the verdict.
    pub fn keeps_queue(&self, mss: Option<u32>, limit: Limit) -> Option<Limit> {
        let (bound, most) = (self.bound(mss), self.window.max(self.send_buffer));
        match bound {
            Limit::Unknown if limit == Limit::Path && most >= TRACE => match () {
                () if self.window >= self.send_buffer => Some(Limit::ReceiveWindow),
                () => Some(Limit::SendBuffer),
            },
            _ => bound.is_of_an_end().then_some(bound),
        }
    }

    /// TCP's round trip grows with a queue on either way, with hosts that are slow to answer, and varies on paths without a queue; pings tell these
    /// apart, and without them it is not known. A window's own bursts are a queue as well, between two of which the path has nothing to carry.
    ///
    /// ```text
    ///   pings that met no queue    one in ten or more     the path was idle as often, and full it is not
    ///                              one in fifty or more   nobody can tell: idle now and then, or pings that passed the flow's queue by
    ///                              fewer                  a queue stands, if it is TCP's
    /// ```
    fn stands(&self, beside: Beside) -> Queue {
        let Some(queue) = self.queue else { return Queue::Unknown };
        // Half of it: a queue that is a flow's own holds the pings up less.
        let explains = |added: f64| added >= queue / 2.0;
        let met_none = |added: f64| added <= self.segment_ms.unwrap_or(0.0) / 20.0 + beside.varies;
        let has_idled = beside.added_mostly.is_some_and(met_none);
        let waits_always = beside.added_always.is_some_and(|added| !met_none(added))
            && beside.added_mostly.is_some_and(explains);
        match (beside.added_there, beside.added) {
            _ if has_idled && !beside.both && self.is_shared(beside.added_seldom) => Queue::None,
            // TCP met no queue now and then, pings hardly ever.
            _ if queue <= 0.0 && !has_idled && beside.added_mostly > Some(WAKES_MS) => {
                Queue::Unknown
            }
            _ if queue <= 0.0 => Queue::None,
            _ if !waits_always => Queue::Unknown,
            (Some(there), _) if explains(there) => Queue::Stands,
            (None, Some(added)) if explains(added) && !beside.both => Queue::Stands,
            _ => Queue::Unknown,
        }
    }

    /// Whether pings stand in the flow's queue, one in ten at least: they waited longer than a fair queue would make them wait, which lets a segment of
    /// each stream pass before, and one is on the line.
    fn is_shared(&self, added_seldom: Option<f64>) -> bool {
        let fair = self.segment_ms.map(|segment| segment * (self.streams + 1) as f64);
        added_seldom.zip(fair).is_some_and(|(added, fair)| added > fair)
    }

    fn bound(&self, mss: Option<u32>) -> Limit {
        if !self.seen {
            return Limit::Unknown;
        }
        let Some(missing) = self.missing else {
            let rest = 1.0 - self.window - self.send_buffer - self.no_data;
            let shares = [
                (Limit::ReceiveWindow, self.window),
                (Limit::SendBuffer, self.send_buffer),
                (Limit::Path, rest),
            ];
            let most = shares.into_iter().find(|(_, share)| *share > 0.5);
            return match most {
                Some((limit, _)) => limit,
                // Together, and each for longer than all that is not either of them.
                None if self.window + self.send_buffer > 0.5
                    && self.window.min(self.send_buffer) > rest + self.no_data =>
                {
                    Limit::Both
                }
                None => Limit::Unknown,
            };
        };
        let mss = f64::from(mss.unwrap_or(536).max(1));
        let (limit, share) = self.most();
        let enough = TRACE.max(missing / 2.0);
        match () {
            () if missing >= TRACE && self.window.min(self.send_buffer) >= enough => Limit::Both,
            () if missing >= TRACE && share >= enough => limit,
            () if missing <= 1.0 - mss / (mss + HEADERS) + TRACE => Limit::Rate,
            () => Limit::Unknown,
        }
    }

    /// Whether the queue stays about as long as it is, so that something keeps it.
    pub fn is_kept(&self) -> bool {
        matches!((self.queue, self.queue_most), (Some(least), Some(most)) if most <= 2.0 * least)
    }

    /// Whether it was anything but the rate, as far as the kernel saw.
    pub fn nothing_else(&self) -> bool {
        // A sender that keeps to a rate has nothing waiting between its writes.
        let reached = self.missing.is_some_and(|missing| missing < TRACE);
        self.most().1 < TRACE && (self.no_data < 0.5 || reached)
    }

    fn most(&self) -> (Limit, f64) {
        let shares = [
            (Limit::ReceiveWindow, self.window),
            (Limit::SendBuffer, self.send_buffer),
            (Limit::Path, self.cwnd),
        ];
        shares.into_iter().fold((Limit::Unknown, 0.0), |a, b| if b.1 > a.1 { b } else { a })
    }
}

/// What was asked for, or allowed, of all streams together, in bits a second; none where one of them has no such rate.
fn allowed(streams: &[&[Moment]], asked: Option<u64>) -> Option<f64> {
    let each = streams.iter().map(|moments| {
        let set = moments.last().map(|last| last.pacing_limit.saturating_mul(8));
        let bits = [asked, set.filter(|bits| *bits > 0)].into_iter().flatten().min();
        bits.map(|bits| bits as f64)
    });
    let all: Option<f64> = each.sum();
    all.filter(|bits| *bits > 0.0)
}

/// Microseconds, bytes, looks, of all streams.
#[derive(Debug, Default)]
struct Sums {
    time: f64,
    busy: f64,
    window: f64,
    buffer: f64,
    looks: u64,
    empty: u64,
    full: u64,
    filled: u64,
    streams: u64,
    moved: f64,
    segment: u64,
    /// Bytes that each stream has to send.
    amount: u64,
    /// Of all streams: the least and the greatest smoothed round trip, the least one, and each look's variation.
    smoothed_us: Option<u64>,
    most_us: u64,
    least_us: Option<u64>,
    variations_us: Vec<u64>,
}

impl Sums {
    fn add(&mut self, moments: &[Moment]) {
        // The last look may be after the last byte was written.
        let [first, .., last, _] = moments else { return };
        let less = |of: fn(&Moment) -> u64| of(last).saturating_sub(of(first)) as f64;
        let seconds = (last.t_ns - first.t_ns).max(0) as f64 / 1e9;
        self.time += seconds * 1e6;
        self.streams += 1;
        self.moved += less(|m| m.acked);
        self.busy += less(|m| m.busy_us);
        self.window += less(|m| m.window_limited_us);
        self.buffer += less(|m| m.buffer_limited_us);
        for moment in &moments[..moments.len() - 1] {
            self.most_us = self.most_us.max(moment.srtt_us);
            // Behind the last write nothing can wait.
            if moment.unsent == 0 && moment.acked + moment.in_flight >= self.amount {
                continue;
            }
            self.looks += 1;
            self.empty += u64::from(moment.unsent == 0);
            let segment = moment.segment.max(1);
            let is_full = moment.in_flight > 0 && moment.in_flight + segment > moment.cwnd;
            self.full += u64::from(moment.unsent > 0 && is_full);
            let offers_more = moment.in_flight + segment <= moment.window;
            let filled = moment.unsent == 0 && moment.full && offers_more && !is_full;
            self.filled += u64::from(filled);
            self.segment = self.segment.max(segment);
            let less = |before: Option<u64>, now: u64| {
                let known = Some(now).filter(|us| *us > 0);
                before.into_iter().chain(known).min()
            };
            self.smoothed_us = less(self.smoothed_us, moment.srtt_us);
            self.least_us = less(self.least_us, moment.min_rtt_us);
            self.variations_us.push(moment.rttvar_us);
        }
    }

    /// How far the smoothed round trip stayed above the least one, less what that is uncertain by: the median of its variation, and that the least
    /// one is a SYN's, where data is two segments and one ACK for both. A line takes no longer for these than the rate that was reached.
    fn queue_ms(&self) -> Option<f64> {
        let (smoothed, least) = (self.smoothed_us? as f64, self.least_us? as f64);
        let all = quell_stats::Sample::new(self.variations_us.iter().map(|us| *us as f64))?;
        let pair = self.segment_us().map_or(0.0, |segment| 2.0 * segment);
        Some((smoothed - least - all.median() - pair).max(0.0) / 1e3)
    }
}

impl Sums {
    /// How long a segment takes at the rate of all streams.
    fn segment_us(&self) -> Option<f64> {
        let rate = self.moved * self.streams as f64 / self.time;
        (rate > 0.0).then(|| self.segment as f64 / rate)
    }

    /// How far the smoothed round trip exceeded the least one at most.
    fn queue_most_ms(&self) -> Option<f64> {
        Some(self.most_us.saturating_sub(self.least_us?) as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1448;

    /// Ten seconds of a flow at `mbit`, held by the window for `window` of the time and by its buffer for `buffer`.
    fn flow(mbit: f64, window: f64, buffer: f64, state: Moment) -> Vec<Moment> {
        let at = |n: u64| Moment {
            t_ns: (n * 100_000_000) as i64,
            acked: (mbit * 1e6 / 8.0 * n as f64 / 10.0) as u64,
            busy_us: n * 100_000,
            window_limited_us: (window * n as f64 * 1e5) as u64,
            buffer_limited_us: (buffer * n as f64 * 1e5) as u64,
            segment: MSS,
            ..state
        };
        (0..=100).map(at).collect()
    }

    /// Data waits, and all windows have room.
    fn waits() -> Moment {
        Moment {
            cwnd: 20 * MSS,
            window: 11 * MSS,
            unsent: 100_000,
            in_flight: 5 * MSS,
            srtt_us: 50_100,
            rttvar_us: 200,
            min_rtt_us: 50_000,
            ..Moment::default()
        }
    }

    /// What the states show of one stream, which got what was acknowledged.
    fn of(moments: &[Moment], asked: Option<u64>, amount: Option<u64>) -> Held {
        let [first, .., last] = moments else { panic!("states") };
        let reached = (last.acked - first.acked) as f64 * 8e9 / (last.t_ns - first.t_ns) as f64;
        Held::of(&[moments], 0, asked, reached, amount).unwrap()
    }

    #[test]
    fn what_never_slept_was_held_up_by_its_cpu_and_by_nothing_else() {
        let judged = |moments: &[Moment], sender_cpu, receiver_cpu, asked| {
            let held = of(moments, asked, None);
            Held { sender_cpu, receiver_cpu, ..held }.by(Some(MSS as u32), Beside::default())
        };
        let (path, window) = (flow(900.0, 0.0, 0.0, waits()), flow(900.0, 0.9, 0.0, waits()));
        assert_eq!(judged(&path, Some(0.97), Some(0.2), None), Limit::SenderCpu);
        // One that slept for a tenth of the time was kept waiting, and not by its CPU.
        assert_eq!(judged(&path, Some(0.9), Some(0.2), None), Limit::Path);
        assert_eq!(judged(&path, None, None, None), Limit::Path);
        // A reader that never slept left the window shut; one that slept had read all that there was.
        assert_eq!(judged(&window, Some(0.3), Some(0.98), None), Limit::ReceiverCpu);
        assert_eq!(judged(&window, Some(0.3), Some(0.5), None), Limit::ReceiveWindow);
        assert_eq!(judged(&path, Some(0.3), Some(0.98), None), Limit::Path);
        // Who reaches the rate that was asked for is held up by that, however busy the CPU; who does not and never sleeps, by the CPU.
        assert_eq!(judged(&path, Some(0.99), None, Some(900_000_000)), Limit::Rate);
        assert_eq!(judged(&path, Some(0.99), None, Some(2_000_000_000)), Limit::SenderCpu);
    }

    fn verdict(moments: &[Moment], asked: Option<u64>) -> Limit {
        of(moments, asked, None).by(Some(MSS as u32), Beside::default())
    }

    #[test]
    fn where_both_ends_hold_a_flow_up_both_are_named() {
        assert_eq!(verdict(&flow(2.5, 0.45, 0.45, waits()), None), Limit::Both);
        assert_eq!(verdict(&flow(2.5, 0.45, 0.45, waits()), Some(5_000_000)), Limit::Both);
        assert_eq!(verdict(&flow(2.5, 0.45, 0.1, waits()), Some(5_000_000)), Limit::ReceiveWindow);
        assert_eq!(verdict(&flow(2.5, 0.2, 0.2, waits()), None), Limit::Path, "the rest is more");
    }

    #[test]
    fn a_window_that_keeps_a_flow_below_its_rate_is_named_however_little_is_missing() {
        // 15.9 kB in 50 ms are 2.55 Mbit/s: of 3 Mbit/s 15 % are missing, of 2.8 Mbit/s 9 %, of 2.6 Mbit/s 2 %.
        for (asked, window) in [(3.0f64, 0.15), (2.8, 0.09), (2.6, 0.02), (30.0, 0.9)] {
            let moments = flow(2.55, window, 0.0, waits());
            let found = verdict(&moments, Some((asked * 1e6) as u64));
            assert_eq!(found, Limit::ReceiveWindow, "{asked} Mbit/s");
        }
        assert_eq!(verdict(&flow(2.55, 0.97, 0.0, waits()), None), Limit::ReceiveWindow);
    }

    #[test]
    fn a_rate_that_is_reached_holds_a_flow_up_and_nothing_else() {
        let moments = flow(2.0, 0.0, 0.0, waits());
        let held = of(&moments, Some(2_000_000), None);
        assert_eq!(
            (held.by(Some(1448), Beside::default()), held.nothing_else()),
            (Limit::Rate, true)
        );
        let between_writes = flow(2.0, 0.0, 0.0, Moment { unsent: 0, ..waits() });
        let held = of(&between_writes, Some(2_000_000), None);
        assert_eq!(
            (held.by(Some(1448), Beside::default()), held.nothing_else()),
            (Limit::Rate, true)
        );
        // A queue that paces counts headers too.
        assert_eq!(verdict(&flow(2.0 * 0.956, 0.0, 0.0, waits()), Some(2_000_000)), Limit::Rate);
        let server = flow(2.0, 0.0, 0.0, Moment { pacing_limit: 250_000, ..waits() });
        assert_eq!(verdict(&server, None), Limit::Rate, "the server allows no more");
    }

    #[test]
    fn a_full_congestion_window_is_the_path_with_and_without_a_rate() {
        let full = Moment { in_flight: 20 * MSS, ..waits() };
        assert_eq!(verdict(&flow(9.5, 0.0, 0.0, full), None), Limit::Path);
        assert_eq!(verdict(&flow(9.5, 0.0, 0.0, full), Some(9_800_000)), Limit::Path);
        assert_eq!(verdict(&flow(9.5, 0.0, 0.0, full), Some(50_000_000)), Limit::Path);
    }

    #[test]
    fn a_window_of_which_a_part_stands_in_a_queue_holds_nothing_up() {
        // 399 kB at 19.1 Mbit/s are 167 ms, on a path of 100 ms.
        let queued = Moment { srtt_us: 165_900, min_rtt_us: 100_000, rttvar_us: 900, ..waits() };
        let moments = flow(19.1, 0.95, 0.0, queued);
        let held = of(&moments, None, None);
        // Less 0.9 ms of variation and the 1.2 ms of two segments.
        assert!(held.queue.is_some_and(|ms| (63.7..63.9).contains(&ms)), "{held:?}");
        let by = |beside| held.by(Some(1448), beside);
        let added = |ms| Beside {
            added: Some(ms),
            added_always: Some(ms),
            added_mostly: Some(ms),
            added_seldom: Some(ms),
            ..Beside::default()
        };
        assert_eq!(by(added(65.9)), Limit::Path);
        assert_eq!(by(Beside::default()), Limit::Unknown, "without pings");
        // Pings see no queue: it is not known whose time it is.
        assert_eq!(by(added(0.1)), Limit::Unknown);
        // Acknowledgements waited behind the data of the other direction.
        let back = Beside { added_there: Some(0.0), both: true, ..added(65.9) };
        assert_eq!(by(back), Limit::Unknown);
        assert_eq!(by(Beside { added_there: Some(65.0), ..back }), Limit::Path);
        assert_eq!(by(Beside { added_there: None, ..back }), Limit::Unknown);
        // One in thirty met none.
        assert_eq!(by(Beside { added_always: Some(0.0), ..added(65.9) }), Limit::Unknown);
        // It came back to the least round trip now and then: nothing stood.
        let mut empty = moments.clone();
        empty[50].srtt_us = 100_500;
        assert_eq!(verdict(&empty, None), Limit::ReceiveWindow);
        let silent = flow(19.1, 0.95, 0.0, Moment { min_rtt_us: 0, ..queued });
        assert_eq!(verdict(&silent, None), Limit::Unknown, "no least round trip is known");
    }

    /// The figures are the lab's: a line of 20 Mbit/s and 40 ms, of which 64 kB of socket need half, two of these 99 %, and 128 kB 96 %.
    #[test]
    fn bursts_of_a_window_between_which_pings_pass_are_no_full_path() {
        let state = Moment { srtt_us: 46_000, min_rtt_us: 40_059, rttvar_us: 3_290, ..waits() };
        let by = |mbit, state: Moment, [always, mostly, median, seldom]: [f64; 4], both| {
            let held = of(&flow(mbit, 0.17, 0.83, state), None, None);
            assert!(held.queue.is_some_and(|ms| ms > 0.2), "{held:?}");
            let beside = Beside {
                added: Some(median),
                added_there: Some(median),
                added_always: Some(always),
                added_mostly: Some(mostly),
                added_seldom: Some(seldom),
                both,
                ..Beside::default()
            };
            held.by(Some(MSS as u32), beside)
        };
        assert_eq!(by(9.57, state, [0.0, 0.0, 0.09, 7.14], false), Limit::SendBuffer);
        assert_eq!(by(9.57, state, [0.0, 0.0, 0.09, 7.14], true), Limit::Unknown, "whose queue?");
        // A fair queue lets a segment pass before a ping, and one is on the line: whether the flow's own queue is empty pings do not see.
        assert_eq!(by(9.57, state, [0.0, 0.0, 0.09, 2.4], false), Limit::Unknown);
        let full = Moment { rttvar_us: 3_000, ..state };
        assert_eq!(by(18.91, full, [0.84, 1.17, 5.36, 7.7], false), Limit::Path);
        let nearly = Moment { srtt_us: 49_800, rttvar_us: 5_000, ..state };
        for mostly in [0.71, 0.08] {
            assert_eq!(by(18.26, nearly, [0.0, mostly, 8.4, 14.3], false), Limit::Unknown);
        }
    }

    /// 16 kB of 2.5 Mbit/s and 40 ms reach 97 %: TCP sees no queue now and then, and nine of ten pings one.
    #[test]
    fn a_window_that_leaves_the_line_idle_hardly_ever_is_not_known_to_hold_a_flow_up() {
        let held = of(&flow(2.32, 0.6, 0.4, waits()), None, None);
        let beside = |ms| Beside { added: Some(5.5), added_mostly: Some(ms), ..Beside::default() };
        assert_eq!(held.queue, Some(0.0));
        assert_eq!(held.by(Some(1448), beside(0.44)), Limit::Unknown);
        assert_eq!(held.by(Some(1448), beside(0.0)), Limit::ReceiveWindow);
    }

    #[test]
    fn a_path_that_is_full_is_what_holds_up_who_is_held_by_it_and_by_buffers_in_turn() {
        let state = Moment { srtt_us: 240_000, min_rtt_us: 40_473, ..waits() };
        let held = of(&flow(2.38, 0.01, 0.46, state), None, None);
        let held = Held { no_data: 0.09, ..held };
        let added = Some(600.0);
        let beside = Beside {
            added,
            added_there: added,
            added_always: added,
            added_mostly: added,
            ..Beside::default()
        };
        assert_eq!(held.by(Some(1448), beside), Limit::Path);
        assert_eq!(held.keeps_queue(Some(1448), Limit::Path), Some(Limit::SendBuffer));
        assert_eq!(held.by(Some(1448), Beside::default()), Limit::Unknown);
        assert_eq!(held.keeps_queue(Some(1448), Limit::Unknown), None);
    }

    #[test]
    fn a_buffer_that_is_full_of_what_is_unacknowledged_holds_the_sender_up() {
        let sent = Moment { unsent: 0, full: true, ..waits() };
        assert_eq!(verdict(&flow(2.2, 0.0, 0.0, sent), None), Limit::SendBuffer);
        let room = Moment { full: false, ..sent };
        assert_eq!(verdict(&flow(2.2, 0.0, 0.0, room), None), Limit::Unknown);
        // As full as the congestion window allows: no room would help.
        let window = Moment { in_flight: 20 * MSS, window: 40 * MSS, ..sent };
        assert_eq!(verdict(&flow(2.2, 0.0, 0.0, window), None), Limit::Unknown);
    }

    #[test]
    fn behind_the_last_write_nothing_waits_and_no_program_is_too_slow() {
        // 60 kB, written at once; the first looks see the path hold them up, and the others what is still on its way.
        let sent = |n: u64| Moment {
            unsent: if n < 30 { 20_000 } else { 0 },
            in_flight: if n < 30 { 20 * MSS } else { 60_000 },
            ..waits()
        };
        let moments: Vec<_> = flow(0.0, 0.0, 0.0, waits())
            .into_iter()
            .zip(0..)
            .map(|(m, n)| Moment { t_ns: m.t_ns, busy_us: m.busy_us, ..sent(n) })
            .collect();
        let found = |amount| of(&moments, None, amount);
        assert!(found(None).no_data > 0.5, "a sender that has more to write is late");
        let held = found(Some(60_000));
        assert!(held.no_data < 0.01 && held.cwnd > 0.99, "{held:?}");
        let at_once: Vec<_> = moments[30..].to_vec();
        let held = of(&at_once, None, Some(60_000));
        assert_eq!(held.by(Some(1448), Beside::default()), Limit::Unknown);
        assert!(held.no_data < 0.01, "{held:?}");
    }

    #[test]
    fn a_queue_that_grows_is_not_one_that_is_kept() {
        let mut moments = flow(2.6, 0.0, 0.1, Moment { srtt_us: 56_000, ..waits() });
        moments[60].srtt_us = 135_000;
        let held = of(&moments, None, None);
        assert_eq!(held.queue_most, Some(85.0));
        assert!(!held.is_kept(), "{held:?}");
        let moments = flow(2.6, 0.0, 0.1, Moment { srtt_us: 135_000, ..waits() });
        assert!(of(&moments, None, None).is_kept());
    }

    #[test]
    fn what_the_facts_do_not_force_is_unknown() {
        assert_eq!(verdict(&flow(5.0, 0.3, 0.3, waits()), None), Limit::Unknown);
        // Half of the rate is missing, and nothing that the kernel saw explains it.
        assert_eq!(verdict(&flow(5.0, 0.02, 0.0, waits()), Some(10_000_000)), Limit::Unknown);
        let idle = Moment { unsent: 0, ..waits() };
        assert_eq!(verdict(&flow(5.0, 0.0, 0.0, idle), None), Limit::Unknown, "a slow program");
        assert_eq!(verdict(&flow(5.0, 0.0, 0.9, idle), None), Limit::SendBuffer);
        assert_eq!(Held::of(&[&[]], 0, None, 0.0, None), None);
    }
}
