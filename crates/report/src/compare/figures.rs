//! Groups laid over each other: distributions, boxes, courses in time.

use super::comparison::{Comparison, of_pages};
use super::factor::Member;
use super::measure::{Measure, Set};
use super::text::unit;
use crate::analysis::series::{StreamDelays, goodput_of, stream_delays};
use crate::figures::common::{distribution, five_numbers, grid, times};
use crate::figures::{Name, PageWidth};
use quell_chart::{Axis, Bars, Boxes, Figure, Panel, Polyline};
use quell_model::metric::Metric;
use quell_store::EchoSeries;
use std::borrow::Cow;

const MOST_PANELS: usize = 12;

pub const BAR: &str = "bar";

pub const NAMES: [Name; 5] = [
    Name { name: "cdf", shows: "distribution of the round-trip time, groups over each other" },
    Name { name: "box", shows: "round-trip time as boxes, groups beside each other" },
    Name { name: BAR, shows: "each figure with its interval, as bars beside each other" },
    Name { name: "time", shows: "round-trip time over time, groups over each other" },
    Name { name: "goodput", shows: "goodput over time, groups over each other" },
];

/// The delays of each set, by group; nothing where a group has none.
pub struct Delays<'a> {
    sets: Vec<(String, Vec<Option<StreamDelays>>)>,
    comparison: &'a Comparison<'a>,
    span: (f64, Option<f64>),
}

impl<'a> Delays<'a> {
    /// Of all sets whose packets have round trips, of what was sent in this time, in seconds.
    pub fn of(comparison: &'a Comparison<'a>, span: (f64, Option<f64>)) -> Self {
        let of_group = |members: &Vec<Member>| {
            let series: Vec<Cow<EchoSeries>> =
                members.iter().filter_map(find).map(|series| part(series, span)).collect();
            let series: Vec<&EchoSeries> = series.iter().map(Cow::as_ref).collect();
            let stream = series.first()?.stream.clone();
            Some(stream_delays(stream, &series)).filter(|d| d.answered > 0)
        };
        let of_set = |set: &Set| (set.name(), set.members.iter().map(of_group).collect::<Vec<_>>());
        let sets =
            comparison.sets.iter().map(of_set).filter(|(_, all)| all.iter().any(Option::is_some));
        Self { sets: sets.collect(), comparison, span }
    }

    /// The figure of this name; none where there is nothing that it could show.
    pub fn figure(&self, name: &str, shape: PageWidth) -> Option<Figure> {
        let figure = self.whole(name, shape)?;
        let (from, to) = self.span;
        let words = match (from, to) {
            (0.0, None) => return Some(figure),
            (from, Some(to)) => format!("From {from} s to {to} s alone."),
            (from, None) => format!("From {from} s on alone."),
        };
        Some(figure.between(from, to).also(&words))
    }

    fn whole(&self, name: &str, shape: PageWidth) -> Option<Figure> {
        match name {
            "cdf" => self.distribution(shape),
            "box" => self.boxes(shape),
            BAR => bars(self.comparison, shape),
            "time" => self.over_time(shape),
            "goodput" => goodput(self.comparison, self.span, shape),
            _ => None,
        }
    }

    fn distribution(&self, shape: PageWidth) -> Option<Figure> {
        let how = "share of the packets sent, of all repeats; a line that ends below 100 % shows the loss";
        self.panels("Distribution of the round-trip time", how, shape, 230, |groups| {
            distribution(self.named(groups))
        })
    }

    fn over_time(&self, shape: PageWidth) -> Option<Figure> {
        let how = "first repeat of each; gaps in a line are lost packets";
        self.panels("Round-trip time over time", how, shape, 190, |groups| {
            let end = groups.iter().flatten().filter_map(|d| d.over_time.last());
            let end = end.fold(1.0, |end: f64, (t, _)| end.max(t.ceil()));
            let x = Axis::time("Time").from(0.0).to(end);
            self.named(groups).fold(
                Panel::new(x, times(groups.iter().flatten())),
                |panel, (label, delays)| {
                    panel.mark(Polyline::with_gaps(label, delays.over_time.iter().copied()))
                },
            )
        })
    }

    fn boxes(&self, shape: PageWidth) -> Option<Figure> {
        let names: Vec<String> = self.sets.iter().map(|(name, _)| name.clone()).collect();
        let all = self.sets.iter().flat_map(|(_, groups)| groups.iter().flatten());
        let mut panel = Panel::new(Axis::categories("", names), times(all));
        for (index, group) in self.comparison.groups.iter().enumerate() {
            let of = |(at, (_, groups)): (usize, &(String, Vec<Option<StreamDelays>>))| {
                Some((at, five_numbers(groups.get(index)?.as_ref()?.summary.as_ref()?)))
            };
            let found = self.sets.iter().enumerate().filter_map(of);
            panel =
                panel.mark(found.fold(Boxes::new(group.label.clone()), |b, (at, n)| b.at(at, n)));
        }
        (!self.sets.is_empty()).then(|| {
            let how = "median, quartiles, and whiskers up to 1.5 times the distance of the quartiles; all repeats";
            framed(self.comparison, "Round-trip time", how, 0).panel(panel).size(shape.width(980), 460)
        })
    }

    fn named<'d>(
        &'d self,
        groups: &'d [Option<StreamDelays>],
    ) -> impl Iterator<Item = (String, &'d StreamDelays)> {
        let labels = self.comparison.groups.iter().map(|g| g.label.clone());
        labels.zip(groups).filter_map(|(label, delays)| Some((label, delays.as_ref()?)))
    }

    fn panels(
        &self,
        title: &str,
        how: &str,
        shape: PageWidth,
        height: u32,
        panel: impl Fn(&[Option<StreamDelays>]) -> Panel,
    ) -> Option<Figure> {
        let left_out = self.sets.len().saturating_sub(MOST_PANELS);
        let some = self.sets.iter().take(MOST_PANELS);
        let panels = some.map(|(name, groups)| panel(groups).title(name.clone())).collect();
        arranged(framed(self.comparison, title, how, left_out), panels, shape, height)
    }
}

/// A panel for each metric: its figures with their intervals, by group.
fn bars(comparison: &Comparison, shape: PageWidth) -> Option<Figure> {
    let mut metrics: Vec<Metric> = Vec::new();
    for measure in comparison.sets.iter().flat_map(|set| &set.measures) {
        if !metrics.contains(&measure.metric) {
            metrics.push(measure.metric);
        }
    }
    let panel = |metric: &Metric| {
        let of = |set: &'_ Set| set.measures.iter().find(|m| m.metric == *metric).cloned();
        let measured: Vec<(String, Measure)> =
            comparison.sets.iter().filter_map(|set| Some((set.name(), of(set)?))).collect();
        let names = measured.iter().map(|(name, _)| name.clone());
        let (unit, factor) = unit(*metric);
        let axis = Axis::linear(metric.name()).unit(unit).with_zero();
        let panel = Panel::new(Axis::categories("", names), axis);
        comparison.groups.iter().enumerate().fold(panel, |panel, (number, group)| {
            let bars = measured.iter().enumerate().fold(
                Bars::new(group.label.clone()),
                |bars, (at, (_, m))| {
                    let ranged = match number {
                        0 => Some(m.first),
                        _ => m.against.iter().find(|a| a.group == number).map(|a| a.figure),
                    };
                    match ranged {
                        None => bars,
                        Some(r) => match r.low.zip(r.high).filter(|(low, high)| low < high) {
                            Some((low, high)) => bars.with_interval(
                                at,
                                r.value * factor,
                                low * factor,
                                high * factor,
                            ),
                            None => bars.at(at, r.value * factor),
                        },
                    }
                },
            );
            panel.mark(bars)
        })
    };
    let left_out = metrics.len().saturating_sub(MOST_PANELS);
    let panels: Vec<Panel> = metrics.iter().take(MOST_PANELS).map(panel).collect();
    let how = "whiskers: 95 % intervals; none where the repeats or the packets are too few";
    let how = match of_pages(&comparison.groups, &comparison.sets) {
        Some(note) => format!("{how}. {note}"),
        None => how.to_owned(),
    };
    arranged(framed(comparison, "Figures with their intervals", &how, left_out), panels, shape, 230)
}

fn part(series: &EchoSeries, (from, to): (f64, Option<f64>)) -> Cow<'_, EchoSeries> {
    if (from, to) == (0.0, None) {
        return Cow::Borrowed(series);
    }
    let mut series = series.clone();
    let (from, to) = ((from * 1e9) as i64, to.map_or(i64::MAX, |to| (to * 1e9) as i64));
    series.samples.retain(|s| (from..to).contains(&s.t_ns));
    Cow::Owned(series)
}

fn find<'a>(member: &Member<'a>) -> Option<&'a EchoSeries> {
    member.data.echo(&member.row.stream)
}

fn goodput(
    comparison: &Comparison,
    (from, to): (f64, Option<f64>),
    shape: PageWidth,
) -> Option<Figure> {
    let shown = |(t, _): &(f64, f64)| (from..=to.unwrap_or(f64::INFINITY)).contains(t);
    let course = |members: &Vec<Member>| {
        let points = members.iter().find_map(|m| goodput_of(m.record, m.data, &m.row.stream))?;
        Some(points.into_iter().filter(shown).collect())
            .filter(|points: &Vec<_>| !points.is_empty())
    };
    let flows = |set: &&Set| set.members.iter().any(|members| course(members).is_some());
    let sets: Vec<&Set> = comparison.sets.iter().filter(flows).collect();
    let panel = |set: &&Set| {
        let axis = Axis::linear("Goodput").unit("Mbit/s").with_zero();
        let panel = Panel::new(Axis::time("Time").from(0.0), axis).title(set.name());
        set.members.iter().zip(&comparison.groups).fold(panel, |panel, (members, group)| {
            match course(members) {
                Some(points) => panel.mark(Polyline::new(group.label.clone(), points).stepped()),
                None => panel,
            }
        })
    };
    let left_out = sets.len().saturating_sub(MOST_PANELS);
    let panels = sets.iter().take(MOST_PANELS).map(panel).collect();
    let figure = framed(
        comparison,
        "Goodput over time",
        "first repeat of each; payload that receivers' programs got",
        left_out,
    );
    arranged(figure, panels, shape, 190)
}

fn framed(comparison: &Comparison, title: &str, how: &str, left_out: usize) -> Figure {
    let details: Vec<String> = comparison
        .groups
        .iter()
        .filter(|g| !g.detail.is_empty())
        .map(|g| format!("{}: {}", g.label, g.detail))
        .collect();
    let rest = match left_out {
        0 => String::new(),
        n => format!(" {n} more are left out: name scenarios or streams."),
    };
    let note = if details.is_empty() {
        rest.trim().to_owned()
    } else {
        format!("{}.{rest}", details.join("; "))
    };
    Figure::new(title).subtitle(format!("By {}: {how}", comparison.by)).note(note)
}

fn arranged(figure: Figure, panels: Vec<Panel>, shape: PageWidth, height: u32) -> Option<Figure> {
    (!panels.is_empty()).then(|| grid(figure, panels, shape, height))
}
