//! What is known of a path so far: its hops, who answered there, what became of the probes of each flow.

use quell_model::EchoSample;
use quell_probe::path::{HopAnswer, HopSize, News, SizeLimit};
use quell_report::analysis::{Counts, EchoFold};
use quell_wire::icmp_error::Meaning;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Most addresses of one hop that are remembered: there are not so many links side by side.
const MOST_ADDRESSES: usize = 64;

#[derive(Debug, Clone)]
pub struct PathHops {
    pub shape: PathShape,
    /// Figures of each hop, all flows together; the first is hop 1.
    pub figures: Vec<EchoFold>,
    /// What became of the probes of each flow, hop by hop.
    pub flows: Vec<Vec<ProbeCounts>>,
    /// The hop whose sizes are searched, and for about how many nanoseconds yet.
    pub searching: Option<(u8, u64)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProbeCounts {
    pub sent: u64,
    pub answered: u64,
    /// Of so many nobody knows whether they were.
    pub unsure: u64,
}

impl ProbeCounts {
    /// Of a hop's probes, whatever their flow.
    pub fn of(counts: &Counts) -> Self {
        Self { sent: counts.sent, answered: counts.answered(), unsure: counts.unsure }
    }

    pub fn least_lost(&self) -> u64 {
        self.most_lost().saturating_sub(self.unsure)
    }

    /// So many are not known to be answered.
    pub fn most_lost(&self) -> u64 {
        self.sent.saturating_sub(self.answered)
    }

    /// The share that was lost; none where that is not known.
    pub fn loss_ratio(&self) -> Option<f64> {
        (self.sent > 0 && self.unsure == 0).then(|| self.most_lost() as f64 / self.sent as f64)
    }

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

impl std::iter::Sum for ProbeCounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            sent: sum.sent + one.sent,
            answered: sum.answered + one.answered,
            unsure: sum.unsure + one.unsure,
        })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathShape {
    /// The first is hop 1.
    pub hops: Vec<Hop>,
    pub ends: Vec<Option<u8>>,
    /// Answers that are about none of the packets, for all that is known.
    pub unmatched: u64,
    pub surveyed: bool,
    /// The hop at which the search for sizes was left, since it took too long.
    pub search_left: Option<u8>,
    /// Who says of the probes themselves that they are too big, and what is not.
    pub too_big: Option<(IpAddr, u32)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Who answered there, in the order in which they were first seen.
    pub responders: Vec<Responder>,
    /// The largest packet that is known to get there, in bytes.
    pub mtu: Option<u32>,
    /// Who says why it is less than at the hop before.
    pub mtu_said_by: Option<IpAddr>,
    /// Larger ones vanish, and nobody says why.
    pub larger_vanish: bool,
    /// It answers none that are larger, and those behind it do.
    pub answers_less: bool,
    /// Marked packets are never answered there, unmarked ones right behind them are.
    pub marked_vanish: bool,
}

impl Hop {
    pub fn arrived_at(&self, address: IpAddr) -> bool {
        self.responders.iter().any(|one| one.address == address && one.arrived)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responder {
    pub address: IpAddr,
    pub flows: BTreeSet<u16>,
    /// TTL of its answers when they came here.
    pub answer_ttl: Option<u8>,
    /// Whether packets arrived there: it answered as the end of a path does, and not as a router on the way.
    pub arrived: bool,
    /// The code with which it says that it sends no further.
    pub unreachable_code: Option<u8>,
    pub marks: BTreeSet<(u8, u8)>,
    pub mpls: Vec<MplsLabel>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MplsLabel {
    pub label: u32,
    pub class: u8,
    pub ttl: u8,
}

impl Responder {
    fn new(address: IpAddr) -> Self {
        Self {
            address,
            flows: BTreeSet::new(),
            answer_ttl: None,
            arrived: false,
            unreachable_code: None,
            marks: BTreeSet::new(),
            mpls: Vec::new(),
        }
    }

    /// Over how many hops its answers came, its own included, if it sent them with one of the usual TTLs: 64, 128 or 255.
    pub fn hops_back(&self) -> Option<u8> {
        let ttl = self.answer_ttl?;
        let first = [64, 128, 255].into_iter().find(|first| *first >= ttl)?;
        Some(first - ttl + 1)
    }
}

impl PathHops {
    pub fn new(flows: u16) -> Self {
        let flows = usize::from(flows);
        let shape = PathShape { ends: vec![None; flows], ..PathShape::default() };
        Self { shape, figures: Vec::new(), flows: vec![Vec::new(); flows], searching: None }
    }

    /// What a kept run remembers; its samples are still to come.
    pub fn of_shape(shape: PathShape) -> Self {
        let flows = u16::try_from(shape.ends.len()).unwrap_or(u16::MAX);
        Self { shape, ..Self::new(flows) }
    }

    /// Takes what the probe tells; whether the shape is another one now.
    pub fn take(&mut self, news: &News) -> bool {
        match news {
            News::Samples { flow, ttl, samples } => {
                samples.iter().for_each(|sample| self.sample(*flow, *ttl, sample));
                return false;
            }
            News::Answer(answer) => return self.answer(answer),
            News::Sizes(sizes) => {
                self.searching = None;
                for (index, size) in sizes.iter().enumerate() {
                    self.size(index, size);
                }
            }
            News::Surveyed => self.shape.surveyed = true,
            News::Searching { ttl, left_ns } => {
                self.searching = Some((*ttl, *left_ns));
                return false;
            }
            News::SearchLeft { ttl } => {
                (self.searching, self.shape.search_left) = (None, Some(*ttl));
            }
            News::TooBig { by, mtu } => {
                let first = (*by, *mtu);
                return *self.shape.too_big.get_or_insert(first) == first;
            }
            News::Ends { flow, ttl } => {
                if let Some(end) = self.shape.ends.get_mut(usize::from(*flow)) {
                    *end = *ttl;
                }
            }
            News::Unmatched(count) => self.shape.unmatched = *count,
        }
        true
    }

    pub fn sample(&mut self, flow: u16, ttl: u8, sample: &EchoSample) {
        let index = usize::from(ttl).saturating_sub(1);
        if self.figures.len() <= index {
            self.figures.resize_with(index + 1, EchoFold::bounded);
        }
        let fold = &mut self.figures[index];
        let before = ProbeCounts::of(&fold.counts());
        fold.take(sample);
        let after = ProbeCounts::of(&fold.counts());
        let Some(hops) = self.flows.get_mut(usize::from(flow)) else { return };
        if hops.len() <= index {
            hops.resize(index + 1, ProbeCounts::default());
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
        let responders = &mut self.hop(usize::from(answer.ttl).saturating_sub(1)).responders;
        let at = match responders.iter().position(|one| one.address == answer.from) {
            Some(at) => at,
            None if responders.len() == MOST_ADDRESSES => return false,
            None => {
                responders.push(Responder::new(answer.from));
                responders.len() - 1
            }
        };
        let responder = &mut responders[at];
        let before = responder.clone();
        responder.flows.insert(answer.flow);
        responder.answer_ttl = answer.back_ttl.or(responder.answer_ttl);
        match answer.said {
            None | Some(Meaning::NoPort) => responder.arrived = true,
            Some(Meaning::Unreachable(code)) => responder.unreachable_code = Some(code),
            Some(_) => {}
        }
        if let Some((sent, came)) = answer.marks
            && responder.marks.len() < MOST_ADDRESSES
        {
            responder.marks.insert((sent.byte(), came.byte()));
        }
        if !answer.labels.is_empty() {
            let label = |l: &quell_wire::icmp_error::Label| MplsLabel {
                label: l.label,
                class: l.class,
                ttl: l.ttl,
            };
            responder.mpls = answer.labels.iter().map(label).collect();
        }
        *responder != before
    }

    fn size(&mut self, index: usize, size: &HopSize) {
        if size.bytes.is_none() && index >= self.shape.hops.len() {
            return;
        }
        let hop = self.hop(index);
        hop.mtu = size.bytes;
        hop.answers_less = size.answers_less;
        hop.marked_vanish = size.marks_vanish;
        hop.larger_vanish = size.limit == Some(SizeLimit::Vanish);
        hop.mtu_said_by = match size.limit {
            Some(SizeLimit::Said(by)) => Some(by),
            _ => None,
        };
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
            .flat_map(|hop| hop.responders.iter().map(|one| one.address))
            .collect();
        let others = |hop: &Hop| hop.responders.iter().any(|one| !at_end.contains(&one.address));
        self.shape.hops.iter().rposition(others).map_or(0, |index| index + 1).max(farthest)
    }

    /// The hops that there are, with the number of each, who answered there and what became of its probes.
    pub fn hops(&self) -> impl Iterator<Item = (usize, &Hop, Counts)> {
        static NOBODY: Hop = Hop {
            responders: Vec::new(),
            mtu: None,
            mtu_said_by: None,
            larger_vanish: false,
            answers_less: false,
            marked_vanish: false,
        };
        (0..self.length()).map(|index| {
            let hop = self.shape.hops.get(index).unwrap_or(&NOBODY);
            let counts = self.figures.get(index).map(EchoFold::counts).unwrap_or_default();
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

    /// What became of a flow's probes at a hop; of none where there is no such hop.
    pub fn counts(&self, flow: usize, hop: usize) -> ProbeCounts {
        let found = || self.flows.get(flow)?.get(hop.checked_sub(1)?).copied();
        found().unwrap_or_default()
    }
}
