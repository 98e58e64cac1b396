//! What is known of a path so far: its hops, who answered there, what became of the probes of each flow.
//!
//! ```text
//!   probe's news ──► Known ──┬─► live view, summary, JSON
//!                            └─► Shape, as JSON: what a kept run remembers beside its samples
//! ```

use super::limiter::Fates;
use crate::ping::tally::Tally;
use quell_model::EchoSample;
use quell_probe::path::{HopAnswer, HopSize, Limit, News, Unmatched};
use quell_report::analysis::Counts;
use quell_wire::icmp_error::Meaning;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Most addresses of one hop that are remembered: there are not so many links side by side.
const MOST_ADDRESSES: usize = 64;

/// All that is known.
#[derive(Debug, Clone)]
pub struct Known {
    /// What does not change with each probe.
    pub shape: Shape,
    /// Figures of each hop, all flows together; the first is hop 1.
    pub tallies: Vec<Tally>,
    /// What became of the probes of each flow, hop by hop.
    pub flows: Vec<Vec<Outcome>>,
    /// The probes of each hop by time, all flows together.
    fates: Vec<Fates>,
    interval_ns: u64,
    /// The hop whose sizes are searched, and for about how many nanoseconds yet.
    pub searching: Option<(u8, u64)>,
}

/// Probes of one flow to one hop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How many.
    pub sent: u64,
    /// How many of them were answered.
    pub answered: u64,
    /// Of how many nobody knows whether they were.
    pub unsure: u64,
}

impl Outcome {
    /// Of a hop's probes, whatever their flow.
    pub fn of(counts: &Counts) -> Self {
        Self { sent: counts.sent, answered: counts.answered(), unsure: counts.unsure }
    }

    /// So many are known to be lost.
    pub fn least_lost(&self) -> u64 {
        self.most_lost().saturating_sub(self.unsure)
    }

    /// So many are not known to be answered.
    pub fn most_lost(&self) -> u64 {
        self.sent.saturating_sub(self.answered)
    }

    /// It grows as the hop's did.
    fn grow(&mut self, before: Self, after: Self) {
        let grown =
            |own: u64, before: u64, after: u64| own.saturating_add(after).saturating_sub(before);
        *self = Self {
            sent: grown(self.sent, before.sent, after.sent),
            answered: grown(self.answered, before.answered, after.answered),
            unsure: grown(self.unsure, before.unsure, after.unsure),
        };
    }
}

/// The path itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The first is hop 1.
    pub hops: Vec<Hop>,
    /// Of each flow, the hop at which it ends.
    pub ends: Vec<Option<u8>>,
    /// Answers of which nobody can know to which packet they belong.
    pub unmatched: u64,
    /// Answers about packets that were never sent, for all that is known.
    #[serde(default)]
    pub strange: u64,
    /// Whether answers of which nobody can know that were taken for those of the only packet under way.
    #[serde(default)]
    pub trusted: bool,
    /// Whether all was asked about sizes that is.
    #[serde(default)]
    pub surveyed: bool,
    /// The hop at which the search for sizes was left, since it took too long.
    #[serde(default)]
    pub search_left: Option<u8>,
    /// Who says of the probes themselves that they are too big, and what is not.
    #[serde(default)]
    pub too_big: Option<(IpAddr, u32)>,
}

/// A hop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Who answered there, in the order in which they were first seen.
    pub who: Vec<Who>,
    /// The largest packet that is known to get there, in bytes.
    pub mtu: Option<u32>,
    /// Why it is less than at the hop before.
    pub narrow: Option<Narrow>,
    /// It answers none that are larger, and those behind it do.
    pub answers_less: bool,
    /// Marked packets are never answered there, unmarked ones right behind them are.
    #[serde(default)]
    pub marks_vanish: bool,
}

impl Hop {
    /// Whether packets arrived there at this address.
    pub fn arrived_at(&self, address: IpAddr) -> bool {
        self.who.iter().any(|who| who.address == address && who.arrived)
    }
}

/// Why no larger packet gets to a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Narrow {
    /// This router said so.
    Said(IpAddr),
    /// They vanish.
    Vanish,
}

/// Somebody who answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// The address.
    pub address: IpAddr,
    /// The flows that came there, from 0.
    pub flows: BTreeSet<u16>,
    /// TTL of its answers when they came here.
    pub back_ttl: Option<u8>,
    /// Whether packets arrived there: it answered as the end of a path does, and not as a router on the way.
    #[serde(default = "yes")]
    pub arrived: bool,
    /// The code with which it says that it sends no further.
    pub stops: Option<u8>,
    /// TOS bytes, as sent and as they came there.
    pub marks: BTreeSet<(u8, u8)>,
    /// MPLS labels: number, class, TTL.
    pub labels: Vec<(u32, u8, u8)>,
}

/// Of runs that were kept before that was known, whoever has the end's address.
fn yes() -> bool {
    true
}

impl Who {
    /// Over how many hops its answers came, its own included, if it sent them with one of the usual TTLs: 64, 128 or 255.
    pub fn back_hops(&self) -> Option<u8> {
        let ttl = self.back_ttl?;
        let first = [64, 128, 255].into_iter().find(|first| *first >= ttl)?;
        Some(first - ttl + 1)
    }
}

impl Known {
    /// Nothing yet, of so many flows.
    pub fn new(flows: u16, interval_ns: u64) -> Self {
        let flows = usize::from(flows);
        let shape = Shape { ends: vec![None; flows], ..Shape::default() };
        let flows = vec![Vec::new(); flows];
        Self { shape, tallies: Vec::new(), flows, fates: Vec::new(), interval_ns, searching: None }
    }

    /// What a kept run remembers; its samples are still to come.
    pub fn again(shape: Shape, interval_ns: u64) -> Self {
        let flows = u16::try_from(shape.ends.len()).unwrap_or(u16::MAX);
        Self { shape, ..Self::new(flows, interval_ns) }
    }

    /// Takes what the probe tells; whether the shape is another one now.
    pub fn take(&mut self, news: &News) -> bool {
        match news {
            News::Samples { flow, ttl, samples } => {
                samples.iter().for_each(|sample| self.sample(*flow, *ttl, sample));
                false
            }
            News::Answer(answer) => self.answer(answer),
            News::Sizes(sizes) => {
                self.searching = None;
                for (index, size) in sizes.iter().enumerate() {
                    self.size(index, size);
                }
                true
            }
            News::Surveyed => {
                self.shape.surveyed = true;
                true
            }
            News::Searching { ttl, left_ns } => {
                self.searching = Some((*ttl, *left_ns));
                false
            }
            News::SearchLeft { ttl } => {
                (self.searching, self.shape.search_left) = (None, Some(*ttl));
                true
            }
            News::TooBig { by, mtu } => {
                let first = (*by, *mtu);
                *self.shape.too_big.get_or_insert(first) == first
            }
            News::Ends { flow, ttl } => {
                if let Some(end) = self.shape.ends.get_mut(usize::from(*flow)) {
                    *end = *ttl;
                }
                true
            }
            News::Unmatched(Unmatched { short, strange, trusted }) => {
                (self.shape.unmatched, self.shape.strange) = (*short, *strange);
                self.shape.trusted = *trusted;
                true
            }
        }
    }

    /// Takes what became of a probe.
    pub fn sample(&mut self, flow: u16, ttl: u8, sample: &EchoSample) {
        let index = usize::from(ttl).saturating_sub(1);
        let interval_ns = self.interval_ns;
        if self.tallies.len() <= index {
            self.tallies.resize_with(index + 1, || Tally::new(interval_ns));
            self.fates.resize_with(index + 1, Fates::default);
        }
        self.fates[index].take(flow, sample);
        let tally = &mut self.tallies[index];
        let before = Outcome::of(&tally.fold.counts());
        tally.take(sample);
        let after = Outcome::of(&tally.fold.counts());
        let Some(hops) = self.flows.get_mut(usize::from(flow)) else { return };
        if hops.len() <= index {
            hops.resize(index + 1, Outcome::default());
        }
        // What was lost and came late counts as answered then.
        hops[index].grow(before, after);
    }

    fn hop(&mut self, index: usize) -> &mut Hop {
        if self.shape.hops.len() <= index {
            self.shape.hops.resize_with(index + 1, Hop::default);
        }
        &mut self.shape.hops[index]
    }

    fn answer(&mut self, answer: &HopAnswer) -> bool {
        let hop = self.hop(usize::from(answer.ttl).saturating_sub(1));
        let place = match hop.who.iter().position(|who| who.address == answer.from) {
            Some(place) => place,
            None if hop.who.len() == MOST_ADDRESSES => return false,
            None => {
                hop.who.push(Who {
                    address: answer.from,
                    flows: BTreeSet::new(),
                    back_ttl: None,
                    arrived: false,
                    stops: None,
                    marks: BTreeSet::new(),
                    labels: Vec::new(),
                });
                hop.who.len() - 1
            }
        };
        let who = &mut hop.who[place];
        let before = who.clone();
        who.flows.insert(answer.flow);
        who.back_ttl = answer.back_ttl.or(who.back_ttl);
        match answer.said {
            None | Some(Meaning::NoPort) => who.arrived = true,
            Some(Meaning::Unreachable(code)) => who.stops = Some(code),
            Some(_) => {}
        }
        if let Some((sent, came)) = answer.marks
            && who.marks.len() < MOST_ADDRESSES
        {
            who.marks.insert((sent.byte(), came.byte()));
        }
        if !answer.labels.is_empty() {
            who.labels = answer.labels.iter().map(|l| (l.label, l.class, l.ttl)).collect();
        }
        *who != before
    }

    fn size(&mut self, index: usize, size: &HopSize) {
        if size.bytes.is_none() && index >= self.shape.hops.len() {
            return;
        }
        let hop = self.hop(index);
        hop.mtu = size.bytes;
        hop.answers_less = size.answers_less;
        hop.marks_vanish = size.marks_vanish;
        hop.narrow = size.limit.map(|limit| match limit {
            Limit::Said(by) => Narrow::Said(by),
            Limit::Vanish => Narrow::Vanish,
        });
    }

    /// The farthest end of a flow; where one does not end, the farthest hop at which anybody answered but who did at an end.
    pub fn length(&self) -> usize {
        let ends = || self.shape.ends.iter().flatten().copied();
        let farthest = usize::from(ends().max().unwrap_or(0));
        if self.shape.ends.iter().all(Option::is_some) {
            return farthest;
        }
        let at_end: Vec<IpAddr> = ends()
            .filter_map(|ttl| self.at(ttl))
            .flat_map(|hop| hop.who.iter().map(|who| who.address))
            .collect();
        let others = |hop: &Hop| hop.who.iter().any(|who| !at_end.contains(&who.address));
        self.shape.hops.iter().rposition(others).map_or(0, |index| index + 1).max(farthest)
    }

    /// The hops that there are, with the number of each, who answered there and what became of its probes.
    pub fn hops(&self) -> impl Iterator<Item = (usize, &Hop, Counts)> {
        static NOBODY: Hop = Hop {
            who: Vec::new(),
            mtu: None,
            narrow: None,
            answers_less: false,
            marks_vanish: false,
        };
        (0..self.length()).map(|index| {
            let hop = self.shape.hops.get(index).unwrap_or(&NOBODY);
            let counts = self.tallies.get(index).map(|t| t.fold.counts()).unwrap_or_default();
            (index + 1, hop, counts)
        })
    }

    /// Whether packets arrived at this address, the other end's, at all: where it is may change from packet to packet.
    pub fn reached(&self, to: IpAddr) -> bool {
        self.shape.hops.iter().any(|hop| hop.arrived_at(to))
    }

    /// The path's MTU, once the end, of this address, was asked; a flow may also end at a router that sends no further.
    pub fn mtu(&self, to: IpAddr) -> Option<u32> {
        let end = self.at(self.shape.ends.first().copied().flatten()?)?;
        end.mtu.filter(|_| end.arrived_at(to))
    }

    fn at(&self, ttl: u8) -> Option<&Hop> {
        self.shape.hops.get(usize::from(ttl).checked_sub(1)?)
    }

    /// Whether a limit of this hop's answers explains what has none there, as far as can be known; beside a survey or not.
    pub fn may_be_limited(&self, hop: usize, survey: bool) -> bool {
        let fates = hop.checked_sub(1).and_then(|index| self.fates.get(index));
        // In the first round of a flow two probes are ahead of the one that finds the end; a survey asks for the marks and for a size.
        let unseen = (2 * self.flows.len()).saturating_sub(1) + if survey { 2 } else { 0 };
        fates.is_none_or(|fates| fates.may_be_limited(unseen))
    }

    /// What became of a flow's probes at a hop; of none where there is no such hop.
    pub fn outcome(&self, flow: usize, hop: usize) -> Outcome {
        let found = || self.flows.get(flow)?.get(hop.checked_sub(1)?).copied();
        found().unwrap_or_default()
    }
}
