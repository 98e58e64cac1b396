//! Flows in figures: goodput at the receiver over the measurement, retransmissions, loss of datagrams.
//!
//! ```text
//!   reports ──► take ──► Counters of the sender, of the receiver
//!   facts   ──► tell ──► what was sent before the measurement        ──► result, at any moment
//! ```
//!
//! What is asked for is between two times of which the later one moves while a cell runs. So each report is kept, in 32 bytes. Where the program that
//! measured told what it found ([`MeasuredFlow`]), that is the result, and the reports are only its course.

use super::counters::{CounterReading, Counters};
use super::shared_line::{Carried, Counts, Ways};
use super::window::window_ns;
use quell_model::{CellRecord, CellStatus, FlowSample, MeasuredFlow, Side, Subject, Told};
use quell_stats::Batch;
use quell_store::CellData;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub struct FlowResult {
    /// Datagrams sent in the measurement; none for TCP. Of a run that did not tell how many were sent before: over the flow's whole
    /// life.
    pub sent: Option<u64>,
    pub received: Option<u64>,
    /// (sent − received) ÷ sent; none for TCP.
    pub loss_ratio: Option<f64>,
    /// Datagrams lost; none for TCP, or where that is not known.
    pub lost: Option<u64>,
    /// Jitter after the last datagram (RFC 3550's J, its start left out), in milliseconds, where the program that measured told it.
    pub jitter_last_ms: Option<f64>,
    /// Whether its data goes down: by the line that it shares, else not, since who connects sends.
    pub goes_down: bool,
    /// Datagrams sent and lost by stretches of the measurement, as its two ends counted them; empty for TCP.
    pub batches: Vec<Batch>,
    /// Payload that the receiver got, in megabits (10⁶) per second of the flow's own time within the measurement; none when no receiver
    /// reported, or the flow had no time there.
    pub goodput_mbps: Option<f64>,
    pub time: OwnTime,
    /// The same payload in megabits per second of the whole measurement: what it took of the line.
    pub carried_mbps: Option<f64>,
    /// What all flows of the same way carried, in megabits per second of the time from the start of the first to the end of the last.
    pub together_mbps: Option<f64>,
    /// The line that it shares with others, as `dsl up`; none where that is not known.
    pub way: Option<String>,
    /// Its payload as a part of what all streams of the cell carried the same way; none where that is not known.
    pub share: Option<f64>,
    /// Segments that the sender sent again within the measurement; none for UDP.
    pub retransmits: Option<u64>,
    /// Where the sender's own queue was full: how it was held back.
    pub held_back: Option<HeldBack>,
    /// CPU time of both ends' threads for each megabyte (10⁶ bytes) that arrived, in milliseconds, over the flow's whole life; none in virtual
    /// time, which programs take none of.
    pub cpu_ms_per_mb: Option<f64>,
}

/// Datagrams that waited until the own queue had room for them, over the flow's whole life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub struct HeldBack {
    pub packets: u64,
    /// For how long in all, in nanoseconds.
    pub ns: u64,
}

impl FlowResult {
    /// What has to be said where the sender's own queue was full.
    pub(super) fn held_back(&self) -> Option<String> {
        let HeldBack { packets, ns } = self.held_back?;
        let seconds = ns as f64 / 1e9;
        Some(format!(
            "held back by its own host: the own queue was full, and {packets} datagrams waited for room, {seconds:.1} s in all"
        ))
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OwnTime {
    Whole,
    /// From here to there, in seconds.
    Part(f64, f64),
    /// It was over before the measurement began, or began after it.
    Never,
}

impl OwnTime {
    pub fn said(self) -> Option<String> {
        match self {
            OwnTime::Whole => None,
            OwnTime::Part(from, to) => Some(format!(
                "ran from {from:.1} s to {to:.1} s; its goodput is of that time, its share of the whole measurement"
            )),
            OwnTime::Never => Some("did not run within the measurement".to_owned()),
        }
    }
}

/// Adds up the flows of each way: a read from many servers is over when the slowest of them is.
fn add_up(results: &mut [(String, FlowResult)], window_s: f64) {
    let mut ways = BTreeMap::<String, (f64, f64, f64)>::new();
    for (_, flow) in &*results {
        let (Some(way), Some(mbps)) = (&flow.way, flow.carried_mbps) else { continue };
        let (from, to) = match flow.time {
            OwnTime::Whole => (0.0, window_s),
            OwnTime::Part(from, to) => (from, to),
            OwnTime::Never => continue,
        };
        let all = ways.entry(way.clone()).or_insert((0.0, from, to));
        *all = (all.0 + mbps * window_s, all.1.min(from), all.2.max(to));
    }
    for (_, flow) in results {
        let all = flow.way.as_ref().and_then(|way| ways.get(way));
        flow.together_mbps = all.map(|(megabits, from, to)| megabits / (to - from));
    }
}

/// Stretches of the measurement in which losses are counted.
pub(crate) const BATCHES: i64 = 16;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowFolds {
    flows: BTreeMap<String, FlowFold>,
}

impl FlowFolds {
    pub fn of(data: &CellData) -> Self {
        let mut folds = Self::default();
        for series in &data.flows {
            let fold = folds.flow(&series.stream);
            series.samples.iter().for_each(|s| fold.take(s));
        }
        for fact in &data.facts {
            if let Subject::Stream(stream, what) = &fact.subject {
                folds.flow(stream).tell(what, &fact.value);
            }
        }
        folds
    }

    fn flow(&mut self, stream: &str) -> &mut FlowFold {
        self.flows.entry(stream.to_owned()).or_default()
    }

    /// What arrived of each flow whose receiver reported, or whose program told; none where nobody knows.
    fn arrived(&self, end_ns: Option<i64>) -> impl Iterator<Item = (&str, Option<f64>)> {
        let known = |fold: &FlowFold| fold.receiver().is_some() || fold.measured.is_some();
        let flows = self.flows.iter().filter(move |(_, fold)| known(fold));
        flows.map(move |(stream, fold)| (&**stream, fold.arrived(end_ns)))
    }

    /// Which packets count beside them: those of a program's own test, where it told of all of them what arrived.
    fn counts(&self, end_ns: i64, ways: &Ways) -> Counts {
        let all = || self.flows.iter().filter(|(_, fold)| fold.ends().next().is_some());
        if all().next().is_none() || all().any(|(_, fold)| fold.measured.is_none()) {
            return Counts::Until(end_ns);
        }
        let down = all().filter(|(stream, _)| ways.is_down(stream));
        let times = down.filter_map(|(_, fold)| Some((fold.measured?.seconds? * 1e9) as i64));
        Counts::Test(end_ns, times.max().map_or(end_ns, |time| time.max(end_ns)))
    }

    /// The flows with their results so far, in order of their names; `record` and `data` are the cell's, as they stand.
    pub fn results(&self, record: &CellRecord, data: &CellData) -> Vec<(String, FlowResult)> {
        let window = window_ns(record, data);
        let is_complete = record.status == CellStatus::Complete;
        let ways = Ways::of(data);
        let counts = window.map(|end| self.counts(end, &ways));
        let carried = Carried::of(self.arrived(window), counts, data);
        let reported = self.flows.iter().filter(|(_, fold)| fold.ends().next().is_some());
        let result = |(stream, fold): (&String, &FlowFold)| {
            let (way, goes_down) = (ways.there(stream), ways.is_down(stream));
            let result = fold.result(window, is_complete, way, &carried);
            (stream.clone(), FlowResult { goes_down, ..result })
        };
        let mut results: Vec<_> = reported.map(result).collect();
        add_up(&mut results, window.unwrap_or(0) as f64 / 1e9);
        results
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
struct FlowFold {
    sender: Counters,
    receiver: Counters,
    /// Datagrams before the measurement, as sender and receiver told them.
    before: [Option<String>; 2],
    held_back: Option<HeldBack>,
    cpu_ns: [Option<u64>; 2],
    measured: Option<MeasuredFlow>,
}

impl FlowFold {
    fn take(&mut self, sample: &FlowSample) {
        match sample.side {
            Side::Sender => self.sender.take(sample),
            Side::Receiver => self.receiver.take(sample),
        }
    }

    /// Takes what an end told of it: the first that is told of a subject.
    fn tell(&mut self, what: &Told, value: &str) {
        let end = match what {
            Told::SentBefore => 0,
            Told::ReceivedBefore => 1,
            Told::HeldBack => {
                self.held_back = self.held_back.or_else(|| serde_json::from_str(value).ok());
                return;
            }
            Told::SenderCpu | Told::ReceiverCpu => {
                let end = usize::from(*what == Told::ReceiverCpu);
                self.cpu_ns[end] = self.cpu_ns[end].or_else(|| value.parse().ok());
                return;
            }
            Told::Measured => {
                let told = || serde_json::from_str::<MeasuredFlow>(value).ok()?.believed();
                self.measured = self.measured.or_else(told);
                return;
            }
            _ => return,
        };
        self.before[end].get_or_insert_with(|| value.to_owned());
    }

    fn sender(&self) -> Option<&Counters> {
        Some(&self.sender).filter(|end| end.last().is_some())
    }

    fn receiver(&self) -> Option<&Counters> {
        Some(&self.receiver).filter(|end| end.last().is_some())
    }

    /// Its payload that arrived: all that the program that measured it counted, whenever it came, else what its receiver had within the measurement.
    fn arrived(&self, end_ns: Option<i64>) -> Option<f64> {
        match self.measured {
            Some(measured) => measured.received_bytes.map(|bytes| bytes as f64),
            None => Some(self.receiver()?.within(0, end_ns?, |c| c.bytes)),
        }
    }

    /// The ends that reported, with their first report and their last.
    fn ends(&self) -> impl Iterator<Item = (&CounterReading, &CounterReading)> {
        [&self.sender, &self.receiver].into_iter().filter_map(|end| end.first().zip(end.last()))
    }

    fn result(
        &self,
        window: Option<i64>,
        is_complete: bool,
        way: Option<&str>,
        carried: &Carried,
    ) -> FlowResult {
        let own = match self.measured {
            Some(measured) => measured.seconds.map(|s| (0, (s * 1e9) as i64)).filter(|o| o.1 > 0),
            None => window.and_then(|end| self.own_time(end)),
        };
        let within = |end: Option<&Counters>, of| Some(end?.within(0, window?, of));
        let bytes = within(self.receiver(), |c| c.bytes);
        let told = |end: &&Counters| end.tcp().is_some_and(|tcp| tcp.retransmits.is_some());
        let tcp_sender = self.sender().filter(told);
        let datagrams = self.measured.and_then(|measured| measured.datagrams);
        let (sent, received) = self.datagrams(is_complete);
        let lost = sent.zip(received).map(|(sent, got)| sent.saturating_sub(got));
        let loss = sent.zip(lost).filter(|(sent, _)| *sent > 0);
        let retransmits = within(tcp_sender, |c| c.retransmits).map(|n| n.round() as u64);
        let rate = |bytes: f64, ns: i64| bytes * 8e3 / ns as f64;
        let result = FlowResult {
            sent,
            received,
            loss_ratio: loss.map(|(sent, lost)| lost as f64 / sent as f64),
            lost,
            jitter_last_ms: datagrams.and_then(|datagrams| datagrams.jitter_ms),
            goes_down: false,
            batches: match (self.sender().zip(self.receiver()), window) {
                (Some(_), Some(end)) if sent.is_some() => self.batches(end),
                _ => Vec::new(),
            },
            goodput_mbps: self.receiver().zip(own).map(|(f, (from, to))| f.rate_mbps(from, to)),
            time: match (own, self.measured) {
                // One datagram has come, and takes no time.
                (None, Some(_)) => OwnTime::Whole,
                _ => time(own, window.unwrap_or(0)),
            },
            together_mbps: None,
            carried_mbps: bytes.zip(window).map(|(bytes, end)| rate(bytes, end)),
            share: self.arrived(window).and_then(|bytes| carried.share(way, bytes)),
            way: way.map(str::to_owned),
            retransmits,
            held_back: self.held_back,
            cpu_ms_per_mb: self.cpu_ms_per_mb(),
        };
        let Some(measured) = self.measured else { return result };
        let got = measured.received_bytes.map(|bytes| bytes as f64);
        FlowResult {
            loss_ratio: datagrams.and_then(|datagrams| datagrams.loss()),
            lost: datagrams.map(|datagrams| datagrams.all_lost()),
            goodput_mbps: got.zip(own).map(|(bytes, (from, to))| rate(bytes, to - from)),
            // A line that was still delivering when the measurement was over carried no more for it.
            carried_mbps: got
                .zip(window)
                .map(|(bytes, end)| rate(bytes, end.max(own.map_or(end, |(from, to)| to - from)))),
            retransmits: measured.retransmits.or(retransmits),
            ..result
        }
    }

    fn cpu_ms_per_mb(&self) -> Option<f64> {
        let [Some(sender), Some(receiver)] = self.cpu_ns else { return None };
        let bytes = self.receiver()?.last()?.bytes;
        // Nanoseconds a byte are milliseconds a megabyte.
        (bytes > 0).then(|| sender.saturating_add(receiver) as f64 / bytes as f64)
    }

    /// From when to when it ran within the measurement, in nanoseconds: from the first report of either end, to the last of its sender of
    /// datagrams. TCP ran until its receiver had the last byte, or both ends no longer tried to get more across: who ends a connection by the
    /// clock does so at once, and its other end hears of that later, as a sender does of the last ACK. Where nothing came at all, it ran as long
    /// as one of them tried.
    fn own_time(&self, end_ns: i64) -> Option<(i64, i64)> {
        let first = self.ends().map(|(first, _)| first.t_ns).min()?;
        let is_udp = self.ends().any(|(_, last)| last.packets > 0);
        let last = match (self.sender.last(), self.receiver.last()) {
            (Some(sent), _) if is_udp => sent.t_ns,
            (Some(sent), Some(got)) if got.bytes > 0 => {
                self.receiver.had_all_ns()?.max(sent.t_ns.min(got.t_ns))
            }
            _ => self.ends().map(|(_, last)| last.t_ns).max()?,
        };
        let (from, to) = (first.max(0), last.min(end_ns));
        (from < to).then_some((from, to))
    }

    /// Datagrams that were sent in the measurement, and those of them that arrived, whenever they did; none for TCP, and where the
    /// cell was cut off before the two ends told what was sent before: of what was under way then nobody knows.
    fn datagrams(&self, is_complete: bool) -> (Option<u64>, Option<u64>) {
        if let Some(measured) = self.measured {
            return match measured.datagrams {
                Some(datagrams) => (Some(datagrams.sent), Some(datagrams.arrived)),
                None => (None, None),
            };
        }
        if !is_complete && self.before.iter().any(Option::is_none) {
            return (None, None);
        }
        let counts = |end: &Counters| end.last().map(|last| last.packets);
        let (sent, received) = (counts(&self.sender), counts(&self.receiver));
        if sent.max(received).unwrap_or(0) == 0 {
            return (None, None);
        }
        let early = self.early();
        (sent.map(|n| n.saturating_sub(early[0])), received.map(|n| n.saturating_sub(early[1])))
    }

    /// Datagrams that were sent before the measurement, as its sender and its receiver counted them; nothing where one did not.
    fn early(&self) -> [u64; 2] {
        let counted = |end: &Counters| end.last().map_or(0, |last| last.packets);
        if let Some(datagrams) = self.measured.and_then(|measured| measured.datagrams) {
            let sent = counted(&self.sender).saturating_sub(datagrams.sent);
            return [sent, counted(&self.receiver).saturating_sub(datagrams.arrived)];
        }
        let [sent, received] =
            [0, 1].map(|end: usize| self.before[end].as_ref()?.parse::<u64>().ok());
        // What one end counted apart and the other did not can't be compared.
        match (sent, received) {
            (Some(sent), Some(received)) => [sent, received],
            (Some(sent), None)
                if self.receiver.last().is_some() && counted(&self.receiver) == 0 =>
            {
                [sent, 0]
            }
            _ => [0, 0],
        }
    }

    /// Losses by stretches of the measurement, from the counters of sender and receiver. What is under way at a border counts for one or
    /// the other; at the first border and the last nothing is: both are between packets, whenever these arrive.
    fn batches(&self, end_ns: i64) -> Vec<Batch> {
        let early = self.early();
        // What was still under way in the end was neither lost nor did it arrive.
        let datagrams = self.measured.and_then(|measured| measured.datagrams);
        let under_way = datagrams.map_or(0, |d| d.sent.saturating_sub(d.arrived + d.all_lost()));
        let counted = |end: &Counters, (early, late): (u64, u64), batch: i64| {
            let all = end.last().map_or(0, |last| last.packets.saturating_sub(late)) as f64;
            let at = |n: i64| match n {
                0 => early as f64,
                BATCHES => all,
                _ => end.at(end_ns / BATCHES * n, |c| c.packets).min(all),
            };
            at(batch + 1) - at(batch)
        };
        let batch = |n| {
            let sent = counted(&self.sender, (early[0], under_way), n);
            Batch { sent, lost: sent - counted(&self.receiver, (early[1], 0), n) }
        };
        (0..BATCHES).map(batch).collect()
    }
}

fn time(own: Option<(i64, i64)>, window_ns: i64) -> OwnTime {
    let Some((from, to)) = own else { return OwnTime::Never };
    let seconds = |ns: i64| ns as f64 / 1e9;
    // Connections take a moment to end: a fiftieth is nothing.
    match (window_ns - (to - from)) as f64 > window_ns as f64 * 0.02 {
        true => OwnTime::Part(seconds(from), seconds(to)),
        false => OwnTime::Whole,
    }
}
