//! What held a sender of TCP up: what its kernel says, as parts of the time. Pure.
//!
//! ```text
//!   window        the kernel's clock of it (TCP_INFO): pacing and congestion control let a segment go, the window did not
//!   send buffer   the kernel's clock of it, or looks at which all was sent, the windows had room, and the buffer was full of what is unacknowledged
//!   queue         how far TCP's round trip stayed above the least that it saw: what stands in a queue of the path all the time
//!   idle          the kernel's clock of it: all that was written had been acknowledged (idle.rs)
//!   no data       looks at which nothing waited to be sent, the above apart, idle at least: a program or CPU that is too slow
//!   cwnd          looks at which data waited and the congestion window was full, and no more than what the kernel's clocks leave
//!   held back     for how long the receiver, as it tells, read nothing since the rate that it allows was used up
//!   the rest      data waits, all windows have room: paced, by the kernel's rate (--fq-rate) or by congestion control
//!   file          the time that reading or writing it took at this end (filed.rs)
//!   CPU           the clock of the scheduler: a thread that moves data and never sleeps is held up by nothing else
//! ```
//!
//! The shares are facts. The verdict is only what they leave no choice about: without a rate the one that took most of the time; with one that
//! was not reached, whatever took at least half of what is missing. Otherwise it is unknown. So it is where windows or buffers took a tenth of what the path
//! took most of: where packets are lost, both hold a flow up, in turn. A window or buffer of which a part stands in a queue
//! of the path holds nothing up: the path is full, and a larger one would only make the queue longer. Where the queue is others' packets too (shared.rs),
//! a larger one would get more of the path, and nobody knows which of the two held the flow up. Where the path shares fairly, pings pass the
//! flow's own queue, and TCP's round trip alone tells that there may be one (grown.rs): unknown as well. So it is where a receiver acknowledged late
//! (late_acks.rs).

use crate::faster;
use crate::filed::FileShare;
use crate::grown::RoundTrip;
use crate::idle;
use crate::late_acks;
use crate::part::{PARTLY, Part};
use crate::shared::{slows, varies};
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
    /// The program that writes the data: there was nothing to send.
    Sender,
    /// The file at this end, out of which the data is read or to which it is written: nothing else was waited for.
    File,
    /// The CPU of what writes the data: it never waited for room.
    SenderCpu,
    /// The CPU of what reads the data: it never waited for more, and the window that it left shut held the sender up.
    ReceiverCpu,
    /// The facts leave several.
    Unknown,
}

impl Limit {
    /// Whether it is, or may become by a queue that stands, something else than the sender.
    fn blames_others(self) -> bool {
        matches!(self, Self::Path | Self::Unknown) || self.is_of_an_end()
    }

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
    /// All that had been written was acknowledged, by the kernel's clock: whatever the path was, nothing could be on it.
    #[serde(rename = "idle_share")]
    pub idle: f64,
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
    /// Whether the flow was the slower the longer TCP's round trip was, as a window is beside others' packets and not alone on a full path.
    #[serde(rename = "slower_as_rtt_grew")]
    pub slows: bool,
    /// Whether its rate did not stay, as that of a queue does which stands all the time and is the flow's alone.
    #[serde(rename = "rate_varied")]
    pub varied: bool,
    /// The part of the time in which what wrote the data was on a CPU or waited for one; none where that is not known.
    #[serde(rename = "sender_cpu_share")]
    pub sender_cpu: Option<f64>,
    /// The same of what read the data.
    #[serde(rename = "receiver_cpu_share")]
    pub receiver_cpu: Option<f64>,
    /// The part of the time in which the program that reads the data did not run when it was to; none where its end does not tell.
    #[serde(rename = "receiver_paused_share")]
    pub receiver_paused: Option<f64>,
    /// The part of the time in which the receiver read nothing, since the rate that it allows was used up; none where its end does not tell.
    #[serde(rename = "receiver_held_back_share")]
    pub receiver_held_back: Option<f64>,
    /// What a file at this end took of the time; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileShare>,
    /// Whether acknowledgements seem to have come late, of a receiver that does not tell whether it ran.
    #[serde(rename = "acknowledged_late")]
    pub late_acks: bool,
    /// Whether there was a look at which not all had been written yet: else nobody saw what held it up.
    #[serde(skip)]
    pub seen: bool,
    /// Milliseconds that a segment takes at the rate that all streams got; the line takes no longer. None where they got nothing.
    #[serde(skip)]
    pub segment_ms: Option<f64>,
    /// TCP's round trips; none where the kernel knows none.
    #[serde(skip)]
    pub round_trip: Option<RoundTrip>,
    /// How many streams there are.
    #[serde(skip)]
    pub streams: u64,
}

/// What pings beside the load found, the medians beside and before it compared, in milliseconds. Where data flows both ways, what they met
/// always, mostly and seldom is of the way of the data alone, and unknown where nobody tells the ways apart.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Beside<'a> {
    /// What the load added to the round trip.
    pub added: Option<f64>,
    /// What it added to the way of the data.
    pub added_there: Option<f64>,
    /// What it added to 49 of 50 of them at least, behind how it began.
    pub added_always: Option<f64>,
    /// What it added to nine of ten of them at least.
    pub added_mostly: Option<f64>,
    /// What it added to one of ten of them at least.
    pub added_seldom: Option<f64>,
    /// What it added to each of them.
    pub waits: &'a [f64],
    /// How far the idle path's round trips vary: nine of ten exceed the median by no more.
    pub varies: f64,
    /// What the idle path's round trips took.
    pub idle: Option<f64>,
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
            all.add(settled(moments, from_ns));
        }
        if all.busy <= 0.0 || all.time <= 0.0 {
            return None;
        }
        let look = |count: u64| count as f64 / all.looks.max(1) as f64;
        let send_buffer = (all.buffer / all.time).max(look(all.filled)).min(1.0);
        let idle = (all.idle / all.time).min(1.0);
        // A program that is stopped looks at nothing, but the kernel's clocks go on.
        let left = (1.0 - idle - (all.window + all.buffer) / all.time).max(0.0);
        Some(Self {
            window: (all.window / all.time).min(1.0),
            send_buffer,
            no_data: (look(all.empty) - send_buffer).max(idle),
            idle,
            cwnd: look(all.full).min(left),
            missing: allowed(streams, asked).map(|bits| (1.0 - reached / bits).max(0.0)),
            queue: all.queue_ms(),
            queue_most: all.queue_most_ms(),
            slows: slows(streams, from_ns),
            varied: varies(streams, from_ns),
            sender_cpu: None,
            receiver_cpu: None,
            receiver_paused: None,
            receiver_held_back: None,
            file: None,
            late_acks: false,
            seen: all.looks > 0,
            segment_ms: all.segment_us().map(|us| us / 1e3),
            round_trip: all.round_trip(),
            streams: all.streams,
        })
    }

    /// What they leave no choice about, for segments of `mss` bytes, with what pings found.
    pub fn by(&self, mss: Option<u32>, beside: Beside<'_>) -> Limit {
        let limit = self.bound(mss);
        let awake = |share: Option<f64>| share.is_some_and(|share| share >= AWAKE);
        if awake(self.sender_cpu) && limit != Limit::Rate {
            return Limit::SenderCpu;
        }
        if awake(self.receiver_cpu) && limit == Limit::ReceiveWindow {
            return Limit::ReceiverCpu;
        }
        match self.file_holds() {
            Part::Mostly if limit != Limit::Rate => return Limit::File,
            Part::Partly if limit != Limit::Rate => return Limit::Unknown,
            _ => {}
        }
        // Not reading shuts the window, and that fills the sender's buffer.
        if self.is_held_back() {
            return Limit::Rate;
        }
        if self.is_partly_held_back() && limit != Limit::Rate {
            return Limit::Unknown;
        }
        let queue = self.stands(beside);
        // Who does not run asks no pings meanwhile, or answers none: that a queue stood is of the rest of the time, where windows were shut as well.
        let is_full = queue == Queue::Stands
            && !self.is_beside_others()
            && Part::of(self.window) == Part::Hardly;
        match limit {
            Limit::SendBuffer if queue != Queue::Stands => self.beside_queue(limit, queue),
            limit if self.is_paused() && !is_full && limit.blames_others() => Limit::Unknown,
            Limit::Path if self.late_acks => Limit::Unknown,
            limit => self.beside_queue(limit, queue),
        }
    }

    fn file_holds(&self) -> Part {
        let lacked = self.no_data.max(self.window);
        self.file.map_or(Part::Hardly, |file| file.holds(lacked))
    }

    /// Whether a file at this end may have held it up, and something else too.
    pub fn is_partly_of_file(&self) -> bool {
        self.file_holds() == Part::Partly
    }

    /// Whether the receiver's program did not run for so long that this matters.
    pub fn is_paused(&self) -> bool {
        late_acks::is_paused(self.receiver_paused)
    }

    /// Whether the receiver read nothing most of the time, since its rate was used up.
    pub fn is_held_back(&self) -> bool {
        self.receiver_held_back.is_some_and(|share| Part::of(share) == Part::Mostly)
    }

    /// Whether it did so for so long that this matters.
    pub fn is_partly_held_back(&self) -> bool {
        self.receiver_held_back.is_some_and(|share| Part::of(share) != Part::Hardly)
    }

    /// Whether a queue that stands may be others' as well, or the path's rate varies.
    pub fn is_beside_others(&self) -> bool {
        self.slows || self.varied
    }

    /// Whether windows or buffers did for longer than a flow takes to begin.
    pub fn is_partly_of_the_ends(&self) -> bool {
        self.window + self.send_buffer >= TRACE
    }

    /// What a queue leaves of what the shares say.
    fn beside_queue(&self, limit: Limit, queue: Queue) -> Limit {
        match (limit, queue) {
            // The queue that stands is others' as well, whoever made it first.
            (limit, Queue::Stands) if limit.is_of_an_end() && self.is_beside_others() => {
                Limit::Unknown
            }
            (limit, Queue::Stands) if limit.is_of_an_end() => Limit::Path,
            (limit, Queue::Unknown) if limit.is_of_an_end() => Limit::Unknown,
            // The sender's chances alternate, and the path was full meanwhile.
            (Limit::Unknown, Queue::Stands)
                if self.seen
                    && self.missing.is_none()
                    && self.no_data < 0.5
                    && Part::of(self.idle) == Part::Hardly
                    && !self.is_beside_others() =>
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
    ///
    ///   pings that met segments    waited for less than one at the flow's rate, and others met none: the line is faster
    /// ```
    fn stands(&self, beside: Beside<'_>) -> Queue {
        let Some(queue) = self.queue else { return Queue::Unknown };
        // Half of it: a queue that is a flow's own holds the pings up less.
        let explains = |added: f64| added >= queue / 2.0;
        let none = self.segment_ms.unwrap_or(0.0) / 20.0 + beside.varies;
        let met_none = |added: f64| added <= none;
        let has_idled = beside.added_mostly.is_some_and(met_none);
        let waits_always = beside.added_always.is_some_and(|added| !met_none(added))
            && beside.added_mostly.is_some_and(explains);
        let meets_some = beside.added_seldom.is_none_or(|added| !met_none(added));
        // With others in it a line is full while each has but a part of it.
        let is_faster = has_idled
            && self.segment_ms.is_some_and(|segment| {
                faster::is_faster(beside.waits, none + 2.0 * beside.varies, segment)
            });
        match (beside.added_there, beside.added) {
            _ if is_faster => Queue::None,
            // Pings that pass a token bucket by what it saved up tell of no line that was idle.
            _ if queue <= 0.0 && self.may_have_queued(beside.idle) => Queue::Unknown,
            _ if has_idled
                && !beside.both
                && self.is_shared(beside.added_seldom, beside.varies) =>
            {
                Queue::None
            }
            // TCP met no queue now and then, pings hardly ever.
            _ if queue <= 0.0 && !has_idled && beside.added_mostly > Some(WAKES_MS) => {
                Queue::Unknown
            }
            _ if queue <= 0.0 && meets_some && self.may_have_waited(beside.idle) => Queue::Unknown,
            _ if queue <= 0.0 => Queue::None,
            _ if !waits_always => Queue::Unknown,
            (Some(there), _) if explains(there) => Queue::Stands,
            (None, Some(added)) if explains(added) && !beside.both => Queue::Stands,
            _ => Queue::Unknown,
        }
    }

    /// Whether TCP's round trip grew as by a queue of the flow's own.
    fn may_have_queued(&self, idle_ms: Option<f64>) -> bool {
        self.grew().is_some_and(|(took, pair)| took.may_have_queued(pair, idle_ms))
    }

    /// Whether it grew as at a token bucket that the flow kept empty.
    fn may_have_waited(&self, idle_ms: Option<f64>) -> bool {
        self.grew().is_some_and(|(took, pair)| took.may_have_waited(pair, idle_ms))
    }

    /// TCP's round trips, and what a pair of segments takes. Each stream has its burst.
    fn grew(&self) -> Option<(RoundTrip, f64)> {
        let pair = self.segment_ms.map(|segment| 2.0 * segment * self.streams as f64);
        self.round_trip.zip(pair)
    }

    /// Whether pings stand in the flow's queue, one in ten at least: they waited longer than a fair queue would make them wait, which lets a segment of
    /// each stream pass before, and one is on the line, and longer than they vary (`varies`) without the flow.
    fn is_shared(&self, added_seldom: Option<f64>, varies: f64) -> bool {
        let fair = self.segment_ms.map(|segment| segment * (self.streams + 1) as f64);
        added_seldom.zip(fair).is_some_and(|(added, fair)| added > fair + 2.0 * varies)
    }

    fn bound(&self, mss: Option<u32>) -> Limit {
        if !self.seen {
            return Limit::Unknown;
        }
        let Some(missing) = self.missing else {
            match Part::of(self.idle) {
                Part::Mostly => return Limit::Sender,
                Part::Partly => return Limit::Unknown,
                Part::Hardly => {}
            }
            let rest = 1.0 - self.window - self.send_buffer - self.no_data;
            let shares = [
                (Limit::ReceiveWindow, self.window),
                (Limit::SendBuffer, self.send_buffer),
                (Limit::Path, rest),
            ];
            let most = shares.into_iter().find(|(_, share)| *share > 0.5);
            return match most {
                Some((Limit::Path, _)) if self.window + self.send_buffer >= PARTLY => {
                    Limit::Unknown
                }
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
            () if missing >= TRACE && share >= enough => match limit {
                Limit::Path if self.window + self.send_buffer >= PARTLY * missing => Limit::Unknown,
                limit => limit,
            },
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

/// States of the time that counts. How a flow begins is not what holds it up: a tenth is left out.
fn settled(moments: &[Moment], from_ns: i64) -> &[Moment] {
    let begun = moments.partition_point(|moment| moment.t_ns < from_ns);
    let counted = moments.get(begun..).unwrap_or_default();
    counted.get(counted.len() / 10..).unwrap_or_default()
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
    idle: f64,
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
    /// Of all streams: each look's smoothed round trip, the greatest of these, the least round trip, and each look's variation.
    smoothed_us: Vec<u64>,
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
        self.idle += idle::us(&moments[..moments.len() - 1], self.amount);
        self.window += less(|m| m.window_limited_us);
        self.buffer += less(|m| m.buffer_limited_us);
        for moment in &moments[..moments.len() - 1] {
            self.most_us = self.most_us.max(moment.srtt_us);
            // Behind the last write nothing can wait.
            if idle::all_is_written(moment, self.amount) {
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
            let known = |us: u64| Some(us).filter(|us| *us > 0);
            self.smoothed_us.extend(known(moment.srtt_us));
            self.least_us = self.least_us.into_iter().chain(known(moment.min_rtt_us)).min();
            self.variations_us.push(moment.rttvar_us);
        }
    }

    /// How far the smoothed round trip stayed above the least one, less what that is uncertain by: the median of its variation, and that the least
    /// one is a SYN's, where data is two segments and one ACK for both. A line takes no longer for these than the rate that was reached.
    fn queue_ms(&self) -> Option<f64> {
        let (smoothed, least) = (*self.smoothed_us.iter().min()? as f64, self.least_us? as f64);
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

    fn round_trip(&self) -> Option<RoundTrip> {
        let all = quell_stats::Sample::new(self.smoothed_us.iter().map(|us| *us as f64))?;
        Some(RoundTrip { least_ms: self.least_us? as f64 / 1e3, median_ms: all.median() / 1e3 })
    }

    /// How far the smoothed round trip exceeded the least one at most.
    fn queue_most_ms(&self) -> Option<f64> {
        Some(self.most_us.saturating_sub(self.least_us?) as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests;
