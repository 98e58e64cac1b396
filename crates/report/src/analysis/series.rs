//! What figures draw: points over time, distributions, rates, backlogs. Computed here, so that a figure computes nothing.

use super::counters::Counters;
use super::echo::{self, Counts, EchoFold, Transit};
use super::one_way::Clocks;
use super::shared_line::Ways;
use super::stream_facts::Facts;
use super::timeline::{self, LineChange};
use super::waiting;
use super::window::window_ns;
use quell_model::{CellId, CellRecord, EchoSample, EchoStatus, FlowSample, Side, TcpState};
use quell_stats::ecdf::ecdf;
use quell_stats::{BoxSummary, Rng, RunningAround, Sample};
use quell_store::{CellData, EchoSeries, FlowSeries, QueuePoint, QueueSeries, Run};
use std::collections::{HashMap, HashSet};

/// Most points of a distribution: more can't be told apart on a screen, and would make a page slow.
const MOST_POINTS: usize = 2000;

/// The echo streams of one scenario that a figure of delays shows.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioDelays {
    pub scenario: String,
    pub streams: Vec<StreamDelays>,
    pub changes: Vec<LineChange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that the figure shows where nobody says which.
    Usual,
    /// All that the run holds: a person named them.
    Named,
}

/// The delays of one stream, of all repeats together, and of the first repeat over time.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamDelays {
    pub stream: String,
    /// Seconds and RTT in milliseconds of the first repeat; none for a packet without an answer.
    pub over_time: Vec<(f64, Option<f64>)>,
    /// Answered packets of the first repeat, of which `dots` may be a part.
    pub answered_over_time: usize,
    /// The answered packets of the first repeat, or where there are very many one of each so many, so that they are as dense here and there as
    /// all are: seconds and RTT in milliseconds.
    pub dots: Vec<(f64, f64)>,
    /// Packets of the first repeat that were lost: when, in seconds.
    pub lost_at: Vec<f64>,
    /// RTTs in milliseconds and the part of the packets sent that came back within them, ascending.
    pub distribution: Vec<(f64, f64)>,
    /// Tukey's box over the RTTs; none without answers.
    pub summary: Option<BoxSummary>,
    /// Packets sent, of all repeats, but those of which nobody can know whether they were lost.
    pub sent: usize,
    pub answered: usize,
    /// Those of which nobody can know whether they were lost: their round trips were a second or more, if they were not.
    pub unsure: usize,
    /// The least and the most part of all that may not have been answered.
    pub loss: (f64, f64),
    /// Mean of the RTTs in milliseconds; at least so much where some are unsure.
    pub mean: Option<f64>,
    /// Their deviation from it as `ping` prints it (mdev): the root of the mean square; none where some are unsure.
    pub mdev: Option<f64>,
}

impl StreamDelays {
    /// The part of the packets that was answered, where that is fewer than half of them: what the times of the others were is not known.
    pub fn minority(&self) -> Option<f64> {
        let sent = self.sent + self.unsure;
        echo::is_minority(self.answered as u64, sent as u64)
            .then(|| self.answered as f64 / sent as f64)
    }

    /// The part of the packets of which nobody can know whether they were lost, where there are some.
    pub fn unsure_part(&self) -> Option<f64> {
        let all = (self.sent + self.unsure) as f64;
        (self.unsure > 0).then(|| self.unsure as f64 / all)
    }
}

/// RTTs by scenario: usually of the streams that measure the round trip alone (ping) where there are any, else of all echo streams.
pub fn delays(run: &Run, which: Which) -> Vec<ScenarioDelays> {
    let pings_alone =
        which == Which::Usual && echo_series(run, which).any(|(_, s)| !has_one_way(s));
    let wanted = move |s: &EchoSeries| !pings_alone || !has_one_way(s);
    let mut scenarios: Vec<ScenarioDelays> = Vec::new();
    for scenario in run.manifest.scenarios() {
        let mut streams: Vec<(String, Vec<&EchoSeries>)> = Vec::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        for (record, series) in echo_series(run, which) {
            if record.id.scenario != scenario || !wanted(series) {
                continue;
            }
            let at = *known.entry(&series.stream).or_insert_with(|| {
                streams.push((series.stream.clone(), Vec::new()));
                streams.len() - 1
            });
            streams[at].1.push(series);
        }
        let streams: Vec<_> =
            streams.into_iter().map(|(stream, all)| stream_delays(stream, &all)).collect();
        if !streams.is_empty() {
            let first = |(record, series): &(&CellRecord, &EchoSeries)| {
                record.id.scenario == scenario && series.stream == streams[0].stream
            };
            let cell = echo_series(run, which).find(first).map(|(record, _)| &record.id);
            let data = run.iter().find(|(record, _)| Some(&record.id) == cell).map(|(_, d)| d);
            let changes = data.map_or(Vec::new(), timeline::changes);
            scenarios.push(ScenarioDelays { scenario: scenario.to_owned(), streams, changes });
        }
    }
    scenarios
}

pub(crate) fn delayed(run: &Run, which: Which) -> Vec<String> {
    let pings_alone =
        which == Which::Usual && echo_series(run, which).any(|(_, s)| !has_one_way(s));
    let series = echo_series(run, which).filter(|(_, s)| !pings_alone || !has_one_way(s));
    series.map(|(_, s)| s.stream.clone()).collect()
}

pub(crate) fn stream_delays(stream: String, repeats: &[&EchoSeries]) -> StreamDelays {
    let counted: Vec<&EchoSample> =
        repeats.iter().flat_map(|s| &s.samples).filter(counts).collect();
    let sample = Sample::new(counted.iter().filter_map(|s| echo::rtt_ms(s)));
    // Of all that were sent: a line that ends below 1 shows the loss.
    let answered = |s: &Sample| s.count() as f64 / counted.len() as f64;
    let distribution = sample.as_ref().map_or(Vec::new(), |s| {
        ecdf(s, MOST_POINTS)
            .into_iter()
            .map(|step| (step.value, step.share * answered(s)))
            .collect()
    });
    let first: Vec<&EchoSample> =
        repeats.first().map_or(Vec::new(), |s| s.samples.iter().filter(counts).collect());
    let points: Vec<(f64, Option<f64>)> =
        first.iter().map(|s| (seconds(s.t_ns), echo::rtt_ms(s))).collect();
    let dots = dots(&points);
    let answers = sample.as_ref().map_or(0, Sample::count);
    let unsure = repeats.iter().flat_map(|s| &s.samples).filter(is_unsure).count();
    // An answer whose time nobody told is no loss.
    let lost = counted.iter().filter(|s| !s.status.is_answered()).count();
    let all = ((counted.len() + unsure) as f64).max(1.0);
    let figures = sample.as_ref().map(Sample::summary);
    let mdev = |sd: f64| sd * ((answers as f64 - 1.0) / answers as f64).sqrt();
    StreamDelays {
        stream,
        sent: counted.len(),
        answered: answers,
        unsure,
        loss: (lost as f64 / all, (lost + unsure) as f64 / all),
        mean: match unsure {
            0 => figures.map(|figures| figures.mean),
            _ => least_mean_ms(&counted, unsure),
        },
        mdev: figures.filter(|_| unsure == 0).map(|figures| mdev(figures.sd.unwrap_or(0.0))),
        answered_over_time: points.iter().filter(|(_, rtt)| rtt.is_some()).count(),
        over_time: points,
        dots,
        lost_at: first.iter().filter(|s| s.status.is_lost()).map(|s| seconds(s.t_ns)).collect(),
        distribution,
        summary: sample.as_ref().map(BoxSummary::new),
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioGaps {
    pub scenario: String,
    pub stream: String,
    pub sent: usize,
    pub answered: usize,
    /// Pairs of packets that arrived one after the other: so many changes and times between them there are.
    pub pairs: usize,
    /// RFC 3550's D in milliseconds, with its sign: the change of transit time from one packet that arrives to the next. The mean of its
    /// absolute values is the jitter that tables show. Values, and the part of all that is not above each.
    pub changes: Vec<(f64, f64)>,
    /// Times between arrivals in milliseconds: at the reflector where it tells its times, else of replies.
    /// As `changes`.
    pub between: Vec<(f64, f64)>,
    pub of: Transit,
}

impl ScenarioGaps {
    /// The part of the packets that was answered, where that is fewer than half of them.
    pub fn minority(&self) -> Option<f64> {
        echo::is_minority(self.answered as u64, self.sent as u64)
            .then(|| self.answered as f64 / self.sent as f64)
    }
}

/// The part of all values that is not above each of these, ascending.
fn distribution(values: Vec<f64>) -> Vec<(f64, f64)> {
    let steps = Sample::new(values).map_or(Vec::new(), |s| ecdf(&s, MOST_POINTS));
    steps.into_iter().map(|step| (step.value, step.share)).collect()
}

pub(crate) fn gapped(run: &Run, which: Which) -> Vec<String> {
    let one_way_alone =
        which == Which::Usual && echo_series(run, which).any(|(_, s)| has_one_way(s));
    let series = echo_series(run, which).filter(|(_, s)| !one_way_alone || has_one_way(s));
    series.map(|(_, s)| s.stream.clone()).collect()
}

/// Variation of delay and time between arrivals by scenario: usually of the streams with one-way delays (UDP) where there are any, else
/// of all echo streams. The same packets, in the same order, as those of the table's jitter.
pub fn gaps(run: &Run, which: Which) -> Vec<ScenarioGaps> {
    let one_way_alone =
        which == Which::Usual && echo_series(run, which).any(|(_, s)| has_one_way(s));
    // A stream without an answer has no one-way delays; it is one of these if it has them elsewhere.
    let one_way = echo_series(run, which).filter(|(_, s)| one_way_alone && has_one_way(s));
    let one_way: HashSet<&str> = one_way.map(|(_, s)| &*s.stream).collect();
    let wanted = |series: &EchoSeries| !one_way_alone || one_way.contains(&*series.stream);
    let probes_have_some = has_own(run);
    let facts: Vec<Facts> = run.cells.iter().map(Facts::of).collect();
    let all = run.iter().zip(&facts).flat_map(|((record, data), facts)| {
        let series = echoes_of(record, data, which, probes_have_some);
        series.filter(|s| wanted(s)).map(move |series| (record, facts, series))
    });
    let mut found: Vec<ScenarioGaps> = Vec::new();
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    let (mut changes, mut between): (Vec<Vec<f64>>, Vec<Vec<f64>>) = Default::default();
    for (record, facts, series) in all {
        let gaps = Gaps::of(facts, series);
        let (scenario, stream) = (&record.id.scenario, &series.stream);
        let at = *known.entry((scenario, stream)).or_insert_with(|| {
            found.push(ScenarioGaps {
                scenario: scenario.clone(),
                stream: stream.clone(),
                sent: 0,
                answered: 0,
                pairs: 0,
                changes: Vec::new(),
                between: Vec::new(),
                of: gaps.of,
            });
            changes.push(Vec::new());
            between.push(Vec::new());
            found.len() - 1
        });
        if found[at].answered == 0 {
            found[at].of = gaps.of;
        }
        found[at].sent += gaps.counts.sent as usize;
        found[at].answered += gaps.counts.answered() as usize;
        between[at].extend(gaps.between);
        changes[at].extend(gaps.changes);
    }
    for (gaps, (changes, between)) in found.iter_mut().zip(changes.into_iter().zip(between)) {
        gaps.pairs = changes.len();
        gaps.changes = distribution(changes);
        gaps.between = distribution(between);
    }
    found
}

struct Gaps {
    counts: Counts,
    of: Transit,
    changes: Vec<f64>,
    between: Vec<f64>,
}

impl Gaps {
    fn of(facts: &Facts, series: &EchoSeries) -> Self {
        let fold = EchoFold::of(facts, series);
        let (counts, of) = (fold.counts(), fold.jitter_of());
        let transits = fold.transits(of);
        let mut arrivals: Vec<i64> =
            transits.iter().filter_map(|(t, transit)| t.checked_add(*transit)).collect();
        arrivals.sort_unstable();
        let apart = |pair: &[i64]| pair[1].abs_diff(pair[0]) as f64 / 1e6;
        let ms = |(_, ns): (i64, i64)| ns as f64 / 1e6;
        Self {
            counts,
            of,
            changes: transits.windows(2).map(|pair| ms(pair[1]) - ms(pair[0])).collect(),
            between: arrivals.windows(2).map(apart).collect(),
        }
    }
}

/// Scenarios one after the other along one axis of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Course<T> {
    pub probe: String,
    pub parts: Vec<Part<T>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Part<T> {
    pub scenario: String,
    /// Where it begins on the common axis, in seconds.
    pub from_s: f64,
    pub to_s: f64,
    /// What is added to its own times on the common axis.
    pub shift_s: f64,
    pub lines: Vec<T>,
    pub changes: Vec<LineChange>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Goodput {
    pub stream: String,
    /// Whether it is the probe's own rather than a load's.
    pub is_probe: bool,
    /// The line that it shares with others, as `dsl up`.
    pub way: Option<String>,
    /// Starts of intervals in seconds on the common axis, and Mbit/s in each. All flows of a part have the same intervals.
    pub intervals: Vec<(f64, f64)>,
}

/// Goodput by flow, scenarios one after the other, first repeat. The cells are those of the probe that is a flow itself, where there is one,
/// else of the first probe in whose cells data flowed.
pub fn goodput(run: &Run, begin_ns: i64) -> Option<Course<Goodput>> {
    let received = |data: &CellData| data.flows.iter().any(|f| f.side == Side::Receiver);
    let own = |record: &CellRecord, data: &CellData| {
        received(data) && data.flows.iter().any(|f| is_own(&f.stream, &record.id.probe))
    };
    let probe = choose_probe(run, own).or_else(|| choose_probe(run, |_, d| received(d)))?;
    Some(course(run, probe, begin_ns, |record, data, shift_s, end_ns| {
        let ways = Ways::of(data);
        let flow = |f: &FlowSeries| Goodput {
            stream: f.stream.clone(),
            is_probe: is_own(&f.stream, &record.id.probe),
            way: ways.there(&f.stream).map(str::to_owned),
            intervals: rates(&f.samples, shift_s, (begin_ns, end_ns)),
        };
        data.flows.iter().filter(|f| f.side == Side::Receiver).map(flow).collect()
    }))
}

/// The goodput of one flow of a cell: starts of intervals in seconds, and Mbit/s in each, and the end; none where no receiver reported.
pub(crate) fn goodput_of(
    record: &CellRecord,
    data: &CellData,
    stream: &str,
) -> Option<Vec<(f64, f64)>> {
    let end_ns = window_ns(record, data)?;
    let mut points = rates(&data.flow(stream, Side::Receiver)?.samples, 0.0, (0, end_ns));
    let last = points.last().map_or(f64::NAN, |(_, rate)| *rate);
    points.push((seconds(end_ns), last));
    Some(points)
}

/// Starts of intervals on the common axis, and Mbit/s in each.
fn rates(samples: &[FlowSample], shift_s: f64, (begin_ns, end_ns): (i64, i64)) -> Vec<(f64, f64)> {
    let step_ns = interval_ns(end_ns - begin_ns);
    let counters = Counters::of(samples);
    let interval = |t: i64| {
        let to = (t + step_ns).min(end_ns);
        (shift_s + seconds(t), counters.rate_mbps(t, to))
    };
    (begin_ns..end_ns).step_by(step_ns as usize).map(interval).collect()
}

#[derive(Debug, Clone, PartialEq)]
pub struct TcpCourse {
    pub scenario: String,
    pub stream: String,
    pub states: Vec<(f64, TcpState)>,
}

/// TCP's own states by connection, first repeat of each scenario: of the probes' connections, or of all where streams were named or no probe has
/// one.
pub fn tcp(run: &Run, which: Which) -> Vec<TcpCourse> {
    let of_probe = |(record, data): (&CellRecord, &CellData)| {
        data.flows.iter().any(|f| f.side == Side::Sender && is_own(&f.stream, &record.id.probe))
    };
    let which = if run.iter().any(of_probe) { which } else { Which::Named };
    let mut found: Vec<TcpCourse> = Vec::new();
    let mut known: HashSet<(&str, &str)> = HashSet::new();
    for (record, data) in run.iter() {
        let by_hand = matches!(&record.tasks[..], [only] if !only.id.contains('/'));
        let end_ns = window_ns(record, data).unwrap_or(0);
        for flow in data.flows.iter().filter(|f| f.side == Side::Sender) {
            let shown = which == Which::Named || by_hand || is_own(&flow.stream, &record.id.probe);
            let key = (&*record.id.scenario, &*flow.stream);
            if !shown || known.contains(&key) {
                continue;
            }
            let within = flow.samples.iter().filter(|s| (0..=end_ns).contains(&s.t_ns));
            let states: Vec<(f64, TcpState)> =
                within.filter_map(|s| Some((seconds(s.t_ns), s.tcp?))).collect();
            if !states.is_empty() {
                known.insert(key);
                found.push(TcpCourse {
                    scenario: record.id.scenario.clone(),
                    stream: flow.stream.clone(),
                    states,
                });
            }
        }
    }
    found
}

#[derive(Debug, Clone, PartialEq)]
pub struct OneWayCourse {
    pub scenario: String,
    pub stream: String,
    /// Seconds and delay to the reflector in milliseconds, none of a packet without one.
    pub up: Vec<(f64, Option<f64>)>,
    /// The same of the way back.
    pub down: Vec<(f64, Option<f64>)>,
    pub changes: Vec<LineChange>,
}

/// One-way delays, first repeat of each scenario, where both ends have one clock: two clocks' differences are no delays.
pub fn one_way(run: &Run, which: Which) -> Vec<OneWayCourse> {
    let mut found: Vec<OneWayCourse> = Vec::new();
    let mut known: HashSet<(&str, &str)> = HashSet::new();
    let probes_have_some = has_own(run);
    for (record, data) in run.iter() {
        let series = echoes_of(record, data, which, probes_have_some);
        let (facts, ways) = (Facts::of(data), Ways::of(data));
        for series in series.filter(|s| has_one_way(s)) {
            let key = (&*record.id.scenario, &*series.stream);
            if known.contains(&key) || EchoFold::of(&facts, series).result().clocks != Clocks::Same
            {
                continue;
            }
            known.insert(key);
            let series = ways.rows(series);
            let course = |of: fn(&EchoSample) -> Option<i64>| {
                let ms = |s: &EchoSample| Some(of(s)? as f64 / 1e6);
                let samples = series.samples.iter().filter(counts);
                samples.map(|s| (seconds(s.t_ns), ms(s))).collect()
            };
            found.push(OneWayCourse {
                scenario: record.id.scenario.clone(),
                stream: series.stream.clone(),
                up: course(|s| s.up_ns),
                down: course(|s| s.down_ns),
                changes: timeline::changes(data),
            });
        }
    }
    found
}

#[derive(Debug, Clone, PartialEq)]
pub struct Backlog {
    /// `node:device`.
    pub device: String,
    /// Kind of the queue in which they wait, as `fq_codel`: what was placed there, or the line's own buffer.
    pub kind: String,
    /// Seconds on the common axis, and bytes waiting.
    pub bytes: Vec<(f64, f64)>,
    /// Seconds on the common axis, and how long it took until as many bytes had left as were waiting, in milliseconds; none where that was not
    /// before the last look. Of a queue that sends in order it is what the last of them waited.
    pub wait: Vec<(f64, Option<f64>)>,
}

/// Whether a queue is part of the emulation of a line: its delay, its marking, its rate. Packets in the delay are under way and don't
/// wait, and the rate's bucket counts those of the queue inside again. The handles are those of the lab's lines.
pub(crate) fn is_of_line(handle: &str) -> bool {
    ["f001:", "f002:", "f003:"].iter().any(|major| handle.starts_with(major))
}

/// Backlogs by device, scenarios one after the other, first repeat, of the devices where most was waiting. A device's qdiscs and classes count
/// the same bytes again and again; the one that held most stands for the device. What emulates the line is left out.
pub fn backlog(run: &Run, begin_ns: i64) -> Option<Course<Backlog>> {
    let probe = goodput(run, 0)
        .map(|course| course.probe)
        .filter(|probe| run.iter().any(|(r, d)| r.id.probe == *probe && !d.queues.is_empty()))
        .or_else(|| choose_probe(run, |_, data| !data.queues.is_empty()))?;
    let mut course = course(run, probe, begin_ns, |_, data, shift_s, end_ns| {
        let mut devices: Vec<&str> = data.queues.iter().map(|q| q.device.as_str()).collect();
        devices.dedup();
        let fullest = |device: &&str| {
            let waits = |q: &&QueueSeries| q.device == *device && !is_of_line(&q.handle);
            let queues = data.queues.iter().filter(waits);
            // A class counts what its queue counts; it is the queue that was chosen.
            let rank = |q: &&QueueSeries| {
                (peak(q), !q.kind.ends_with(" class"), std::cmp::Reverse(q.handle.clone()))
            };
            queues.max_by_key(rank)
        };
        let within = |t_ns: i64| (begin_ns..=end_ns).contains(&t_ns);
        let line = |queue: &QueueSeries| {
            let at = |p: &QueuePoint| shift_s + seconds(p.t_ns);
            let shown = queue.points.iter().filter(|p| within(p.t_ns));
            let waits = queue.points.iter().zip(waiting::waits_ms(&queue.points));
            let waits = waits.filter(|(p, _)| within(p.t_ns)).map(|(p, wait)| (at(p), wait));
            Backlog {
                device: queue.device.clone(),
                kind: queue.kind.clone(),
                bytes: shown.map(|p| (at(p), p.backlog_bytes as f64)).collect(),
                wait: waits.collect(),
            }
        };
        devices.iter().filter_map(fullest).map(line).collect()
    });
    let mut peaks: Vec<(f64, String)> = Vec::new();
    for line in course.parts.iter().flat_map(|p| &p.lines) {
        let peak = line.bytes.iter().map(|(_, b)| *b).fold(0.0, f64::max);
        match peaks.iter_mut().find(|(_, device)| *device == line.device) {
            Some((known, _)) => *known = known.max(peak),
            None => peaks.push((peak, line.device.clone())),
        }
    }
    peaks.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let shown: Vec<String> =
        peaks.into_iter().take(5).filter(|(peak, _)| *peak > 0.0).map(|p| p.1).collect();
    for part in &mut course.parts {
        part.lines.retain(|line| shown.contains(&line.device));
    }
    Some(course)
}

fn peak(queue: &QueueSeries) -> u64 {
    queue.points.iter().map(|p| p.backlog_bytes).max().unwrap_or(0)
}

/// The first probe, in the manifest's order, one of whose cells fits.
fn choose_probe(run: &Run, fits: impl Fn(&CellRecord, &CellData) -> bool) -> Option<String> {
    run.iter().find(|(record, data)| fits(record, data)).map(|(r, _)| r.id.probe.clone())
}

/// Whether a stream is the probe's own: its name, or its name with a number where there are several connections.
pub(crate) fn is_own(stream: &str, probe: &str) -> bool {
    match stream.strip_prefix(probe) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(|n| n.parse::<u32>().is_ok()),
        None => false,
    }
}

/// Scenarios one after the other, of each what comes from `begin_ns` on. `lines` gets what is to be added to a cell's times, and its end.
fn course<T>(
    run: &Run,
    probe: String,
    begin_ns: i64,
    lines: impl Fn(&CellRecord, &CellData, f64, i64) -> Vec<T>,
) -> Course<T> {
    let mut parts = Vec::new();
    let begin_s = seconds(begin_ns);
    let mut from_s = begin_s;
    for scenario in run.manifest.scenarios() {
        let cell = run.iter().find(|(record, data)| {
            record.id.scenario == scenario && record.id.probe == probe && !data.is_empty()
        });
        let Some((record, data)) = cell else { continue };
        let Some(end_ns) = window_ns(record, data).filter(|end| *end > begin_ns) else { continue };
        let length = seconds(end_ns - begin_ns);
        let to_s = from_s + length;
        let changes = timeline::changes(data);
        let lines = lines(record, data, from_s - begin_s, end_ns);
        let (scenario, shift_s) = (scenario.to_owned(), from_s - begin_s);
        parts.push(Part { scenario, from_s, to_s, shift_s, lines, changes });
        // A little air, so that the end of one is not taken for the start of the next.
        from_s = to_s + length * 0.04;
    }
    Course { probe, parts }
}

impl Part<Goodput> {
    /// The same with no sum of flows above this rate. TCP hands its data over in order: what came behind a lost segment is counted when that has come
    /// again, although it was there before. So what is too much in one interval belongs to those before it.
    pub(crate) fn held_to(mut self, mbps: f64) -> Self {
        let count = self.lines.first().map_or(0, |line| line.intervals.len());
        for at in (0..count).rev() {
            let sum: f64 = self.lines.iter().filter_map(|l| l.intervals.get(at)).map(|i| i.1).sum();
            let share = if sum > mbps { mbps / sum } else { continue };
            for line in &mut self.lines {
                let Some((_, rate)) = line.intervals.get_mut(at) else { continue };
                let rest = *rate * (1.0 - share);
                *rate *= share;
                if let Some(before) = at.checked_sub(1).and_then(|at| line.intervals.get_mut(at)) {
                    before.1 += rest;
                }
            }
        }
        self
    }
}

/// Intervals of rates: round numbers of seconds, some 40 to a scenario.
fn interval_ns(end_ns: i64) -> i64 {
    let steps = [1, 2, 5].map(|n| n * 1_000_000_000_i64);
    let round = (0..9).flat_map(|zeros| steps.map(|s| s * 10_i64.pow(zeros)));
    round.into_iter().find(|step| end_ns / step <= 50).unwrap_or(end_ns)
}

/// Echo streams. Usually the probes': where a cell of an experiment has one of its probe's own name, the others are those of loads.
/// What was measured by hand has no loads, whatever its streams are called.
fn echo_series(run: &Run, which: Which) -> impl Iterator<Item = (&CellRecord, &EchoSeries)> {
    let probes_have_some = has_own(run);
    run.iter().flat_map(move |(record, data)| {
        echoes_of(record, data, which, probes_have_some).map(move |series| (record, series))
    })
}

fn has_own(run: &Run) -> bool {
    run.iter().any(|(record, data)| data.echo(&record.id.probe).is_some())
}

fn echoes_of<'a>(
    record: &'a CellRecord,
    data: &'a CellData,
    which: Which,
    probes_have_some: bool,
) -> impl Iterator<Item = &'a EchoSeries> {
    let probe = &record.id.probe;
    let by_hand = matches!(&record.tasks[..], [only] if !only.id.contains('/'));
    // In the cell of a probe that is a flow all packets are those of loads, unless all probes run in one.
    let is_alone = probes_have_some && *probe != CellId::TOGETHER;
    let own_alone = which == Which::Usual
        && !by_hand
        && (is_alone || data.echoes.iter().any(|s| s.stream == *probe));
    data.echoes.iter().filter(move |series| !own_alone || series.stream == *probe)
}

fn has_one_way(series: &EchoSeries) -> bool {
    series.samples.iter().any(|s| s.up_ns.is_some())
}

/// The least that the mean of the round trips can be, where so many more may have been answered.
fn least_mean_ms(counted: &[&EchoSample], unsure: usize) -> Option<f64> {
    let mut known = RunningAround::default();
    let times = counted.iter().filter_map(|s| i64::try_from(s.rtt_ns?).ok());
    times.for_each(|ns| known.push(ns));
    let [least, _] = known.bounds(unsure as u64, echo::LEAST_UNSURE_NS, 1e6)?;
    Some(least.mean)
}

fn is_unsure(sample: &&EchoSample) -> bool {
    sample.t_ns >= 0 && sample.status == EchoStatus::Unsure
}

fn counts(sample: &&EchoSample) -> bool {
    use EchoStatus::{Duplicate, NotSent, Unfinished, Unsure};
    sample.t_ns >= 0 && !matches!(sample.status, Unfinished | Duplicate | Unsure | NotSent)
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// The points that have a value, or of each stretch of so many one, drawn by lot: where packets are dense the dots are, and no rhythm of theirs is
/// caught by one of ours.
fn dots(points: &[(f64, Option<f64>)]) -> Vec<(f64, f64)> {
    let all: Vec<(f64, f64)> = points.iter().filter_map(|(t, ms)| Some((*t, (*ms)?))).collect();
    let stretch = all.len().div_ceil(4000).max(1);
    let mut rng = Rng::new(1);
    let one = |chunk: &[(f64, f64)]| chunk[(rng.f64() * chunk.len() as f64) as usize % chunk.len()];
    all.chunks(stretch).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waited_behind_a_loss_is_drawn_when_it_came_and_nothing_is_lost_of_it() {
        let line = |rates: [f64; 4]| Goodput {
            stream: "tcp".into(),
            is_probe: true,
            way: None,
            intervals: (0..4).map(f64::from).zip(rates).collect(),
        };
        let part = Part {
            scenario: "bulk".into(),
            from_s: 0.0,
            to_s: 4.0,
            shift_s: 0.0,
            lines: vec![line([1.0, 0.0, 4.0, 1.0]), line([1.0, 1.0, 1.0, 1.0])],
            changes: Vec::new(),
        };
        let sums = |part: &Part<Goodput>| -> Vec<f64> {
            let at = |i: usize| part.lines.iter().map(|line| line.intervals[i].1).sum();
            (0..4).map(at).collect()
        };
        assert_eq!(sums(&part), [2.0, 1.0, 5.0, 2.0]);
        let held = part.held_to(3.0);
        assert_eq!(sums(&held), [2.0, 3.0, 3.0, 2.0]);
    }
}
