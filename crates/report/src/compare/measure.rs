//! The differences of each metric, and what they say.

use super::factor::{CompareError, Group, Member, SetKey, Wanted};
use crate::analysis::{Clocks, FEWEST, StreamResult};
use quell_model::metric::{Metric, MetricUnit};
use quell_stats::{Batch, Difference, Interval, Pooled, Ranged, TAIL, mean, sd};
use std::collections::HashSet;

/// What is compared where nobody says: of each stream what it has.
const USUAL: [Metric; 9] = [
    Metric::Loss,
    Metric::RttP50,
    Metric::RttP99,
    Metric::UpP50,
    Metric::DownP50,
    Metric::JitterUp,
    Metric::JitterRtt,
    Metric::Goodput,
    Metric::Load,
];

/// A stream that all groups measured, or the streams that stand for it in each.
#[derive(Debug)]
pub struct Set<'a> {
    pub scenario: Option<String>,
    pub probe: Option<String>,
    pub stream: Option<String>,
    pub measures: Vec<Measure>,
    pub(crate) members: Vec<Vec<Member<'a>>>,
}

impl Set<'_> {
    pub fn name(&self) -> String {
        let probe = self.probe.as_ref().filter(|p| Some(*p) != self.stream.as_ref());
        let probe = probe.filter(|p| *p != quell_model::CellId::TOGETHER);
        let parts = [self.scenario.as_ref(), probe, self.stream.as_ref()];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        if parts.is_empty() { "all".to_owned() } else { parts.join(" · ") }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    pub metric: Metric,
    /// The first group's figure, in the metric's unit, with its 95 % interval.
    pub first: Ranged,
    pub repeats: usize,
    pub against: Vec<Against>,
}

/// A group held against the first.
#[derive(Debug, Clone, PartialEq)]
pub struct Against {
    pub group: usize,
    pub figure: Ranged,
    pub repeats: usize,
    /// By how much it is more than the first group's, with its 95 % interval.
    pub difference: Difference,
    pub basis: Basis,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// So many repeats of both that began alike.
    Pairs(usize),
    Repeats,
    /// Packets of one measurement or two: it tells of these, and nothing of what differs from one measurement to the next.
    Packets,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Each repeat has the same value.
    Equal,
    NotSeen,
    /// Its 95 % interval leaves nothing out: by chance, one in twenty does.
    Perhaps(Towards),
    /// It would differ by chance in one of twenty such comparisons with all of their figures together.
    Surely(Towards),
    Unknown(Why),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Towards {
    /// What people want more of became more, or what they want less of less.
    Better,
    Worse,
    /// More of what is neither good nor bad.
    More,
    Less,
}

/// Why nobody knows whether figures differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    FewRepeats,
    FewPackets,
    /// Delays of fewer than half of the packets sent.
    Minority,
}

impl Why {
    pub fn words(self) -> &'static str {
        match self {
            Why::FewRepeats => "there are fewer than three repeats",
            Why::FewPackets => "the packets are too few",
            Why::Minority => "fewer than half of the packets were answered",
        }
    }
}

/// Whether people want more of it; none where it is neither good nor bad.
fn is_good(metric: Metric) -> Option<bool> {
    match metric {
        Metric::Goodput | Metric::GoodputAll => Some(true),
        Metric::Share | Metric::Sent | Metric::Received => None,
        _ => Some(false),
    }
}

struct GroupStreams<'a> {
    members: &'a [Member<'a>],
    packets: Option<Pooled<'a>>,
}

/// A figure with its intervals: the usual one, and the one that counts among all figures.
struct Figure {
    usual: Ranged,
    among: Ranged,
    basis: Basis,
}

pub(super) fn all<'a>(
    groups: &[Group],
    sets: Vec<(SetKey, Vec<Vec<Member<'a>>>)>,
    wanted: &Wanted,
    notes: &mut Vec<String>,
) -> Result<Vec<Set<'a>>, CompareError> {
    let metrics = if wanted.metrics.is_empty() { &USUAL[..] } else { &wanted.metrics };
    let has = |members: &[Member], metric: Metric| {
        !members.is_empty() && members.iter().all(|m| value(m.row, metric).is_some())
    };
    let of = |of_groups: &[Vec<Member>], metric: Metric| -> Vec<usize> {
        let others = 1..of_groups.len();
        if !has(&of_groups[0], metric) || is_second_best(&of_groups[0], metric, wanted) {
            return Vec::new();
        }
        others.filter(|group| has(&of_groups[*group], metric)).collect()
    };
    let figures: usize = sets
        .iter()
        .flat_map(|(_, groups)| metrics.iter().map(move |metric| of(groups, *metric).len()))
        .sum();
    if figures == 0 {
        return Err(CompareError::DifferentUnits { have: measured(groups, &sets) });
    }
    let tail = TAIL / figures as f64;
    let mut inexact = false;
    let mut done = Vec::new();
    for ((scenario, probe, stream), of_groups) in sets {
        inexact |= of_groups.iter().flatten().any(|m| is_inexact(m.row));
        let asks = |metric: &Metric| matches!(metric, Metric::RttP50 | Metric::RttP99);
        let pooled = metrics.iter().any(asks);
        let sides: Vec<GroupStreams> =
            of_groups.iter().map(|members| GroupStreams::of(members, pooled)).collect();
        let measure = |metric: &Metric| {
            let others = of(&of_groups, *metric);
            let first = sides[0].figure(*metric, tail)?;
            let against = |group: &usize| {
                let second = sides[*group].figure(*metric, tail)?;
                Some(against(&sides, *group, *metric, &first, &second, tail, wanted.margin))
            };
            let against: Vec<Against> = others.iter().filter_map(against).collect();
            let repeats = of_groups[0].len();
            (!against.is_empty()).then_some(Measure {
                metric: *metric,
                first: first.usual,
                repeats,
                against,
            })
        };
        let measures: Vec<Measure> = metrics.iter().filter_map(measure).collect();
        drop(sides);
        if !measures.is_empty() {
            done.push(Set { scenario, probe, stream, measures, members: of_groups });
        }
    }
    if inexact {
        notes.push(
            "What is only known to lie between two values, as the loss of a tcp-ping may be, is left out: `quell show` has it.".to_owned(),
        );
    }
    Ok(done)
}

/// Jitter of the round trip where there is that of the way: the same thing twice, as in tables of results.
fn is_second_best(members: &[Member], metric: Metric, wanted: &Wanted) -> bool {
    let has_up = || members.iter().all(|m| value(m.row, Metric::JitterUp).is_some());
    wanted.metrics.is_empty() && metric == Metric::JitterRtt && has_up()
}

fn measured(groups: &[Group], sets: &[(SetKey, Vec<Vec<Member>>)]) -> Vec<String> {
    let of_group = |(index, group): (usize, &Group)| {
        let rows = || sets.iter().flat_map(move |(_, of)| &of[index]).map(|m| m.row);
        let has = |metric: &&Metric| rows().any(|row| value(row, **metric).is_some());
        let names: Vec<&str> = USUAL.iter().filter(has).map(|metric| metric.name()).collect();
        format!("{} has {}", group.label, names.join(", "))
    };
    groups.iter().enumerate().map(of_group).collect()
}

/// A value in the metric's unit; none where it was not measured, or is not known exactly.
fn value(row: &StreamResult, metric: Metric) -> Option<f64> {
    // What two clocks differ by is no delay.
    if matches!(metric, Metric::UpP50 | Metric::DownP50) && row.echo()?.clocks != Clocks::Same {
        return None;
    }
    row.value(metric).filter(|(least, most)| least == most).map(|(least, _)| least)
}

fn is_inexact(row: &StreamResult) -> bool {
    [Metric::Loss, Metric::RttP50]
        .iter()
        .any(|m| row.value(*m).is_some_and(|(least, most)| least != most))
}

fn is_of_packets(metric: Metric) -> bool {
    matches!(metric.unit(), MetricUnit::Time)
}

impl<'a> GroupStreams<'a> {
    fn of(members: &'a [Member<'a>], pooled: bool) -> Self {
        let each = || members.iter().filter_map(|m| Some(&*m.row.echo()?.rtt_each_ms));
        Self { members, packets: if pooled { Pooled::new(each()) } else { None } }
    }

    fn values(&self, metric: Metric) -> Vec<f64> {
        self.members.iter().filter_map(|m| value(m.row, metric)).collect()
    }

    fn is_of_a_minority(&self) -> bool {
        self.members.iter().any(|m| m.row.echo().is_some_and(|e| e.counts.minority().is_some()))
    }

    /// A metric over the group's repeats, as tables of results have it.
    fn figure(&self, metric: Metric, tail: f64) -> Option<Figure> {
        let values = self.values(metric);
        let few = values.len() < FEWEST;
        let basis = if few { Basis::Packets } else { Basis::Repeats };
        let of = |at: &dyn Fn(f64) -> Option<Ranged>, basis| {
            Some(Figure { usual: at(TAIL)?, among: at(tail)?, basis })
        };
        let quantile = |p: f64| {
            let packets = self.packets.as_ref()?;
            of(&|tail| Some(packets.quantile_beyond(p, tail)?.scaled(1e-3)), basis)
        };
        let found = match metric {
            Metric::Loss => {
                let batches: Vec<Vec<Batch>> =
                    self.members.iter().map(|m| m.row.batches().0.to_vec()).collect();
                let value = mean(&values)?;
                of(
                    &|tail| Some(Ranged::new(value, Interval::of_loss_beyond(&batches, tail)?)),
                    basis,
                )
            }
            Metric::RttP99 => quantile(0.99),
            Metric::RttP50 if few => quantile(0.5),
            _ if few => None,
            _ => {
                let value = mean(&values)?;
                of(
                    &|tail| Some(Ranged::new(value, Interval::of_mean_beyond(&values, tail)?)),
                    basis,
                )
            }
        };
        let open = Ranged { value: mean(&values)?, low: None, high: None };
        Some(found.unwrap_or(Figure { usual: open, among: open, basis: Basis::None }))
    }
}

fn against(
    sides: &[GroupStreams],
    group: usize,
    metric: Metric,
    first: &Figure,
    second: &Figure,
    tail: f64,
    margin: f64,
) -> Against {
    let (one, other) = (&sides[0], &sides[group]);
    let pairs = pairs(one, other, metric);
    let is_equal =
        pairs.as_ref().is_some_and(|p| p.iter().all(|(a, b)| a == b)) && metric != Metric::Loss;
    // Of losses and of far quantiles the packets of all repeats tell more than one value a repeat.
    let by_pairs = !matches!(metric, Metric::Loss | Metric::RttP99);
    let pairs = pairs.filter(|pairs| by_pairs && pairs.len() >= FEWEST);
    let of_pairs = |tail| Difference::of_pairs(pairs.as_deref()?, tail);
    let (a, b) = (one.values(metric), other.values(metric));
    let is_even = by_pairs && [&a, &b].iter().all(|values| is_even(values));
    let of_means = |tail| Difference::of_means(&a, &b, tail).filter(|_| is_even);
    let (difference, among, basis) = match (of_pairs(TAIL), of_pairs(tail)) {
        (Some(usual), Some(among)) => (usual, among, Basis::Pairs(one.members.len())),
        _ if let (Some(usual), Some(among)) = (of_means(TAIL), of_means(tail)) => {
            (usual, among, Basis::Repeats)
        }
        _ => {
            let of = |of: fn(&Figure) -> Ranged| Difference::of_two(of(first), of(second));
            let basis = if first.basis == second.basis { first.basis } else { Basis::Packets };
            let has_none = [first.basis, second.basis].contains(&Basis::None);
            (of(|f| f.usual), of(|f| f.among), if has_none { Basis::None } else { basis })
        }
    };
    let least = margin * first.usual.value.abs();
    let verdict = if is_equal {
        Verdict::Equal
    } else if is_of_packets(metric) && (one.is_of_a_minority() || other.is_of_a_minority()) {
        Verdict::Unknown(Why::Minority)
    } else {
        verdict(metric, &difference, &among, basis, least)
    };
    let repeats = other.members.len();
    Against { group, figure: second.usual, repeats, difference, basis, verdict }
}

/// Whether values lie about as close to their mean on either side: where some are several times as large as others, Student's t holds too little.
fn is_even(values: &[f64]) -> bool {
    let spread = sd(values).zip(mean(values));
    values.len() >= FEWEST && spread.is_some_and(|(sd, mean)| sd <= mean.abs() / 2.0)
}

/// The values of repeats that began alike, where each has its like and only one.
fn pairs(one: &GroupStreams, other: &GroupStreams, metric: Metric) -> Option<Vec<(f64, f64)>> {
    let mut seen = HashSet::new();
    if !one.members.iter().all(|member| seen.insert(member.start())) {
        return None;
    }
    let alike = |a: &Member| other.members.iter().find(|b| b.start() == a.start());
    let pair = |a: &Member| value(a.row, metric).zip(value(alike(a)?.row, metric));
    let pairs: Option<Vec<_>> = one.members.iter().map(pair).collect();
    pairs.filter(|pairs| pairs.len() == other.members.len())
}

fn verdict(
    metric: Metric,
    difference: &Difference,
    among: &Difference,
    basis: Basis,
    least: f64,
) -> Verdict {
    let good = is_good(metric);
    let (up, down) = match good {
        Some(true) => (Towards::Better, Towards::Worse),
        Some(false) => (Towards::Worse, Towards::Better),
        None => (Towards::More, Towards::Less),
    };
    let towards = |d: &Difference| match (d.is_above(least), d.is_below(-least)) {
        (true, _) => Some(up),
        (_, true) => Some(down),
        _ => None,
    };
    // A few small counts that happen to be alike show no spread; that is no proof that there is none.
    let is_by_luck = metric.unit() == MetricUnit::Count && among.low == among.high;
    match (towards(among).filter(|_| !is_by_luck), towards(difference)) {
        (Some(sure), _) => Verdict::Surely(sure),
        (None, Some(perhaps)) => Verdict::Perhaps(perhaps),
        _ if basis == Basis::None => Verdict::Unknown(Why::FewRepeats),
        _ if difference.low.is_none() || difference.high.is_none() => {
            Verdict::Unknown(Why::FewPackets)
        }
        _ => Verdict::NotSeen,
    }
}

trait Scaled {
    fn scaled(self, factor: f64) -> Ranged;
}

impl Scaled for quell_stats::PooledQuantile {
    fn scaled(self, factor: f64) -> Ranged {
        let end = |end: Option<f64>| end.map(|end| end * factor);
        Ranged { value: self.value * factor, low: end(self.low), high: end(self.high) }
    }
}
