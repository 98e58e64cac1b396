//! What every stream of a cell carried, by direction: the line that it had to share with others, as the lab told it.
//!
//! A **way** is the narrowest line on a stream's path in one direction, as `dsl up`. All streams that cross it compete for it, whatever
//! they are: TCP, datagrams in one direction, packets that are answered; also those that have a narrower line elsewhere.

use super::stream_facts::Facts;
use quell_model::{EchoSample, EchoStatus, Side, Told};
use quell_store::{CellData, EchoSeries};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};

pub(crate) struct Ways<'a> {
    facts: Facts<'a>,
    flows: HashSet<&'a str>,
    received: HashSet<&'a str>,
}

impl<'a> Ways<'a> {
    pub fn of(data: &'a CellData) -> Self {
        let received = data.flows.iter().filter(|flow| flow.side == Side::Receiver);
        Self {
            facts: Facts::of(data),
            flows: data.flows.iter().map(|flow| &*flow.stream).collect(),
            received: received.map(|flow| &*flow.stream).collect(),
        }
    }

    /// The way of a stream's data, or of packets that are answered the way there.
    pub fn there(&self, stream: &str) -> Option<&'a str> {
        self.told(stream, &Told::Way).or_else(|| self.by_address(stream))
    }

    pub fn back(&self, stream: &str) -> Option<&'a str> {
        self.told(stream, &Told::WayBack)
    }

    /// Whether a stream's data goes down: to the first end of the line that it shares, or to whoever measured.
    pub fn is_down(&self, stream: &str) -> bool {
        self.there(stream).is_some_and(|way| way.split(' ').next_back() == Some("down"))
    }

    /// Rows of packets with up and down as a person has them. Those of data that goes one way have its delay and its losses as forward; where that
    /// is down, they are exchanged.
    pub fn rows<'s>(&self, series: &'s EchoSeries) -> Cow<'s, EchoSeries> {
        let stream = &series.stream;
        let goes_one_way = self.flows.contains(&**stream);
        if !goes_one_way || !self.is_down(stream) {
            return Cow::Borrowed(series);
        }
        let samples = series.samples.iter().map(|s| EchoSample {
            up_ns: s.down_ns,
            down_ns: s.up_ns,
            up_order: s.down_order,
            down_order: s.up_order,
            status: match s.status {
                EchoStatus::LostUp => EchoStatus::LostDown,
                EchoStatus::LostDown => EchoStatus::LostUp,
                status => status,
            },
            ..s.clone()
        });
        Cow::Owned(EchoSeries { samples: samples.collect(), ..series.clone() })
    }

    /// All lines that its data crosses, its way among them; none where that is not known.
    fn lines_there(&self, stream: &str) -> Vec<&'a str> {
        let path = self.told(stream, &Told::Path);
        lines(path.or_else(|| self.told_by_address(stream, Facts::path)), self.there(stream))
    }

    fn lines_back(&self, stream: &str) -> Vec<&'a str> {
        lines(self.told(stream, &Told::PathBack), self.back(stream))
    }

    fn told(&self, stream: &str, what: &Told) -> Option<&'a str> {
        let of = |name: &str| self.facts.told(name, what);
        // A flow of several connections is told of once, under its own name.
        let flow = || stream.rsplit_once('-').filter(|(_, n)| n.parse::<u32>().is_ok());
        of(stream).or_else(|| of(flow()?.0))
    }

    /// Connections of foreign programs are named by their ends, as `tcp 10.0.0.1:40000 > 10.0.0.2:80`.
    fn by_address(&self, stream: &str) -> Option<&'a str> {
        self.told_by_address(stream, Facts::way)
    }

    fn told_by_address(
        &self,
        stream: &str,
        what: fn(&Facts<'a>, IpAddr, IpAddr) -> Option<&'a str>,
    ) -> Option<&'a str> {
        let (from, to) = stream.strip_prefix("tcp ")?.split_once(" > ")?;
        let address = |text: &str| text.parse::<SocketAddr>().ok().map(|a| a.ip());
        what(&self.facts, address(from)?, address(to)?)
    }
}

fn lines<'a>(path: Option<&'a str>, way: Option<&'a str>) -> Vec<&'a str> {
    match path {
        Some(path) => path.split(", ").collect(),
        None => way.into_iter().collect(),
    }
}

/// Which packets that are answered count beside flows: those that arrived in the time in which the flows' bytes did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// What arrived within the measurement, which ends then, as of flows by their rows.
    Until(i64),
    /// The program told what arrived of its test, which ended then. There it counted until the end of the test arrived, which takes the way as long as a
    /// packet does: packets count that were sent until then. Here it counted until the second time.
    Test(i64, i64),
}

/// What was carried each way within the measurement, by all streams.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Carried {
    /// Payload bytes that arrived, by way.
    by_way: BTreeMap<String, f64>,
    /// Whether a stream carried something on a way that is not known.
    unknown: bool,
}

impl Carried {
    /// Of all streams of a cell, `flows` being what arrived of each flow that its receiver told of. Of packets that are answered: what arrived within
    /// this time, by their ways.
    pub fn of<'a>(
        flows: impl Iterator<Item = (&'a str, Option<f64>)>,
        time: Option<Counts>,
        data: &CellData,
    ) -> Self {
        let mut carried = Self::default();
        let Some(time) = time else { return carried };
        let ways = Ways::of(data);
        for (stream, bytes) in flows {
            match bytes {
                Some(bytes) => carried.add(&ways.lines_there(stream), bytes),
                None => carried.unknown = true,
            }
        }
        for series in &data.echoes {
            // The packets of a flow whose bytes are counted.
            if ways.received.contains(&*series.stream) {
                continue;
            }
            let apart = ways.told(&series.stream, &Told::Clocks) == Some("apart");
            let (there, back) = arrived(&series.samples, apart, time);
            carried.add(&ways.lines_there(&series.stream), there);
            carried.add(&ways.lines_back(&series.stream), back);
        }
        carried
    }

    fn add(&mut self, lines: &[&str], bytes: f64) {
        self.unknown |= lines.is_empty() && bytes > 0.0;
        for line in lines {
            *self.by_way.entry((*line).to_owned()).or_default() += bytes;
        }
    }

    /// The part of so many bytes of all that went the same way. None where it is not known which way something went, unless nothing
    /// else went any way.
    pub fn share(&self, way: Option<&str>, bytes: f64) -> Option<f64> {
        let all = self.by_way.get(way?).copied().filter(|all| *all > 0.0 && !self.unknown)?;
        Some((bytes / all).min(1.0))
    }
}

/// Payload bytes of packets that arrived there within the measurement, and of their answers that came back within it. What was sent in it
/// and waited in a queue beyond its end was carried after it, as that part of a flow's bytes is.
fn arrived(samples: &[EchoSample], apart: bool, time: Counts) -> (f64, f64) {
    let (end_ns, sent_until, back_until) = match time {
        Counts::Until(end) => (end, false, end),
        Counts::Test(end, back) => (end, true, back),
    };
    let offset = if apart { offset(samples) } else { 0 };
    let (mut there, mut back, mut last_up) = (0.0, 0.0, 0);
    let within = |sent: i64, took: i64, end| (0..end).contains(&sent.saturating_add(took));
    for sample in samples {
        let bytes = f64::from(sample.bytes);
        let rtt = sample.rtt_ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX));
        let answered = sample.status.is_answered();
        // Answered or lost on the way back: both arrived there.
        if answered || sample.status == EchoStatus::LostDown {
            let up = match (sample.up_ns, rtt) {
                (Some(up), Some(rtt)) if apart => up.saturating_sub(offset).clamp(0, rtt),
                (Some(up), _) if !apart => up,
                (_, Some(rtt)) => rtt / 2,
                // What became of the one before is the best that is known.
                _ => last_up,
            };
            last_up = up;
            let up = if sent_until { 0 } else { up };
            there += if within(sample.t_ns, up, end_ns) { bytes } else { 0.0 };
        }
        if answered || sample.status == EchoStatus::Duplicate {
            // Of data that goes one way there is no round trip.
            let took = rtt.or(sample.up_ns.filter(|_| !apart)).unwrap_or(last_up);
            back += if within(sample.t_ns, took, back_until) { bytes } else { 0.0 };
        }
    }
    (there, back)
}

/// How far the clock there is ahead, by the packet with the shortest round trip: of it the least was queueing, and half is taken for the way there.
fn offset(samples: &[EchoSample]) -> i64 {
    let known = samples.iter().filter_map(|s| Some((s.rtt_ns?, s.up_ns?)));
    let ahead =
        |(rtt, up): (u64, i64)| up.saturating_sub(i64::try_from(rtt / 2).unwrap_or(i64::MAX));
    known.min().map_or(0, ahead)
}
