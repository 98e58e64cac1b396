//! The comparison as a table for a terminal: at most 100 columns, and nothing said by colour.

use super::comparison::Comparison;
use super::measure::{Against, Basis, Measure, Set, Towards, Verdict};
use crate::table::{WIDEST, clean, cut, wrap};
use quell_model::metric::{Metric, Unit};
use quell_stats::Ranged;
use std::fmt::Write;

const NARROWEST: usize = 80;

/// A metric's unit as tables have it, and how many of it the metric's own unit is.
pub(super) fn unit(metric: Metric) -> (&'static str, f64) {
    match metric.unit() {
        Unit::Ratio => ("%", 100.0),
        Unit::Time => ("ms", 1e3),
        Unit::Rate => ("Mbit/s", 1e-6),
        Unit::Count => ("", 1.0),
    }
}

/// Most digits after the point: a nanosecond in milliseconds.
const MOST_DIGITS: f64 = 6.0;

/// Digits after the point by which figures and their difference can be told: three at most, unless these would show nothing of what the verdict says to be
/// there.
pub(super) fn digits(metric: Metric, against: &Against) -> usize {
    let (_, factor) = unit(metric);
    let Ranged { value, low, high } = against.difference;
    let widths = [value, low.map_or(0.0, |low| value - low), high.map_or(0.0, |high| high - value)];
    let smallest =
        widths.iter().map(|w| w.abs() * factor).filter(|w| *w > 1e-9).fold(f64::INFINITY, f64::min);
    let is_hidden = (value * factor).abs() < 0.5e-3
        && matches!(against.verdict, Verdict::Surely(_) | Verdict::Perhaps(_));
    let most = if is_hidden { MOST_DIGITS } else { 3.0 };
    match smallest.is_finite() {
        true => (1.0 - smallest.log10().floor()).clamp(1.0, most) as usize,
        // As tables of results have them.
        false if matches!(metric.unit(), Unit::Time | Unit::Rate) => {
            if against.figure.value * factor < 100.0 { 3 } else { 1 }
        }
        false => 1,
    }
}

/// A figure in the table's unit.
pub(super) fn figure(metric: Metric, value: f64, digits: usize) -> String {
    without_nothing(format!("{:.digits$}", value * unit(metric).1))
}

pub(super) fn signed(metric: Metric, value: f64, digits: usize) -> String {
    let text = without_nothing(format!("{:+.digits$}", value * unit(metric).1));
    text.replace('-', "−")
}

/// Rounding gives "-0.0", which is nothing.
fn without_nothing(text: String) -> String {
    match text.strip_prefix(['-', '+']) {
        Some(rest) if rest.bytes().all(|b| matches!(b, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

/// The interval, as `+1.2 to +3.4`.
pub(super) fn interval(metric: Metric, against: &Against, digits: usize) -> String {
    let end = |end: Option<f64>| end.map(|end| signed(metric, end, digits));
    let mark = if against.basis == Basis::Packets { "*" } else { "" };
    match (end(against.difference.low), end(against.difference.high)) {
        (Some(low), Some(high)) => format!("{low} to {high}{mark}"),
        (Some(low), None) => format!("≥{low}{mark}"),
        (None, Some(high)) => format!("≤{high}{mark}"),
        (None, None) => "–".to_owned(),
    }
}

/// By what part of the first it is more, as `+12 %`; nothing of shares, whose difference is in percent already, nor of a figure that is nothing in the
/// digits shown: of a jitter of 15 ns, which is 0.000 ms, 10 ns would be "−33 %".
pub(super) fn relative(metric: Metric, first: f64, difference: f64, digits: usize) -> String {
    let shown = figure(metric, first, digits);
    if metric.unit() == Unit::Ratio || !shown.bytes().any(|byte| matches!(byte, b'1'..=b'9')) {
        return String::new();
    }
    let part = difference / first.abs() * 100.0;
    let digits = usize::from(part.abs() < 10.0);
    without_nothing(format!("{part:+.digits$}")).replace('-', "−") + " %"
}

pub(super) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Equal => "equal",
        Verdict::NotSeen => "no difference seen",
        Verdict::Perhaps(Towards::Better) => "perhaps better",
        Verdict::Perhaps(Towards::Worse) => "perhaps worse",
        Verdict::Perhaps(Towards::More) => "perhaps more",
        Verdict::Perhaps(Towards::Less) => "perhaps less",
        Verdict::Surely(Towards::Better) => "better",
        Verdict::Surely(Towards::Worse) => "worse",
        Verdict::Surely(Towards::More) => "more",
        Verdict::Surely(Towards::Less) => "less",
        Verdict::Unknown(_) => "not known",
    }
}

/// Says that a figure got worse, or that nobody can tell; nothing where neither is so.
pub(super) fn sentence(
    first: &str,
    group: &str,
    set: &str,
    measure: &Measure,
    against: &Against,
) -> Option<String> {
    let metric = measure.metric;
    let (unit, digits) = (unit(metric).0, digits(metric, against));
    let values = format!(
        "{} {unit} in {}, {} in {}",
        figure(metric, measure.first.value, digits),
        clean(first),
        figure(metric, against.figure.value, digits),
        clean(group)
    );
    let name = format!("{} of {}", metric.name(), clean(set));
    match against.verdict {
        Verdict::Surely(Towards::Worse) => {
            let range = interval(metric, against, digits).replace('*', "");
            Some(format!("{name} got worse: {values}, {range} {unit}"))
        }
        Verdict::Unknown(why) => {
            Some(format!("whether {name} got worse is not known, since {}: {values}", why.words()))
        }
        _ => None,
    }
}

/// The comparison as a table for a screen of so many columns.
pub fn render_in(width: usize, comparison: &Comparison) -> String {
    let width = width.clamp(NARROWEST, WIDEST);
    let mut text = String::new();
    for group in comparison.groups.iter().filter(|g| !g.detail.is_empty()) {
        for (index, line) in wrap(&clean(&group.detail), width - 3).into_iter().enumerate() {
            let label = if index == 0 { &*group.label } else { "" };
            let _ = writeln!(text, "{label:<2} {line}");
        }
    }
    text += &rows(comparison, width);
    let notes = notes(comparison);
    if !notes.is_empty() {
        text.push('\n');
    }
    for line in notes.iter().flat_map(|note| wrap(note, width)) {
        let _ = writeln!(text, "{line}");
    }
    text
}

pub(super) fn notes(comparison: &Comparison) -> Vec<String> {
    let all = || {
        comparison
            .sets
            .iter()
            .flat_map(|s| &s.measures)
            .flat_map(|m| m.against.iter().map(move |a| (m, a)))
    };
    let any = |is: fn(&Against) -> bool| all().any(|(_, a)| is(a));
    let mut notes = Vec::new();
    let pairs = all().find_map(|(_, a)| match a.basis {
        Basis::Pairs(count) => Some(count),
        _ => None,
    });
    let mut how = match pairs {
        Some(count) => format!(
            "95 % intervals of the differences, by {count} pairs of repeats that share their seed"
        ),
        None => "95 % intervals of the differences".to_owned(),
    };
    if let (Some(_), true) = (pairs, any(|a| a.basis == Basis::Repeats)) {
        how += "; of losses and p99 by the packets of all repeats";
    }
    notes.push(how + ".");
    if any(|a| matches!(a.verdict, Verdict::Perhaps(_))) {
        notes.push(format!(
            "perhaps: its own interval leaves 0 out, as one in twenty does by chance, and here are {}.",
            comparison.differences
        ));
    }
    if any(|a| a.basis == Basis::Packets) {
        notes.push(
            "* of fewer than three repeats: it tells of these packets, and nothing of what differs from one measurement to the next."
                .to_owned(),
        );
    }
    let mut whys: Vec<&str> = Vec::new();
    for (_, against) in all() {
        if let Verdict::Unknown(why) = against.verdict
            && !whys.contains(&why.words())
        {
            whys.push(why.words());
        }
    }
    if !whys.is_empty() {
        notes.push(format!("not known: {}.", whys.join(", or ")));
    }
    notes.extend(comparison.notes.iter().map(|note| clean(note)));
    notes
}

/// Columns of the table. The last is on the left, as the first.
type Cells = Vec<String>;

/// How much of it a table has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Full,
    /// Nothing of by what part figures differ.
    WithoutParts,
    /// Nor more words than must be.
    Terse,
}

fn rows(comparison: &Comparison, width: usize) -> String {
    let two = comparison.groups.len() == 2;
    let grid = |longest: usize, form: Form| {
        let label = |group: usize| within(&clean(&comparison.groups[group].label), longest);
        let head = |group: usize| if two { label(group) } else { "other".to_owned() };
        let first = label(0);
        let mut cells: Vec<Cells> = vec![vec![
            String::new(),
            if two { String::new() } else { within(&clean(&comparison.by), longest) },
            first,
            head(1),
            "difference".to_owned(),
            String::new(),
            "95 % interval".to_owned(),
            String::new(),
        ]];
        let mut sets = Vec::new();
        for set in &comparison.sets {
            sets.push((cells.len(), cut(&clean(&set.name()), width)));
            cells.extend(of_set(set, two, &label, form));
        }
        (cells, sets)
    };
    let steps = [
        (40, Form::Full),
        (40, Form::WithoutParts),
        (24, Form::Full),
        (24, Form::WithoutParts),
        (16, Form::WithoutParts),
        (12, Form::WithoutParts),
    ];
    let mut made = steps.iter().map(|(longest, form)| grid(*longest, *form));
    let fits = |(cells, _): &(Vec<Cells>, _)| {
        widths(cells).iter().sum::<usize>() + 2 * 7 <= width + 2 * empty(cells)
    };
    let (cells, sets) = made.find(fits).unwrap_or_else(|| grid(10, Form::Terse));
    let widths = widths(&cells);
    let mut text = String::from("\n");
    for (index, row) in cells.iter().enumerate() {
        if let Some((_, name)) = sets.iter().find(|(at, _)| *at == index) {
            let _ = writeln!(text, "{}{name}", if index > 1 { "\n" } else { "" });
        }
        let mut line = String::new();
        for (column, (cell, room)) in
            row.iter().zip(&widths).enumerate().filter(|(_, (_, room))| **room > 0)
        {
            let fill = " ".repeat(room.saturating_sub(cell.chars().count()));
            let left = matches!(column, 0 | 1 | 7);
            line += &if left { format!("{cell}{fill}  ") } else { format!("{fill}{cell}  ") };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// A name cut in its middle: scenarios begin alike, and those of a sweep end in their value.
fn within(name: &str, most: usize) -> String {
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= most {
        return name.to_owned();
    }
    let end = most / 2;
    let (first, last) = (&chars[..most - end - 1], &chars[chars.len() - end..]);
    first.iter().chain(&['…']).chain(last).collect()
}

fn widths(cells: &[Cells]) -> Vec<usize> {
    (0..8).map(|c| cells.iter().map(|row| row[c].chars().count()).max().unwrap_or(0)).collect()
}

/// Columns without anything in them take no room.
fn empty(cells: &[Cells]) -> usize {
    widths(cells).iter().filter(|w| **w == 0).count()
}

fn of_set(set: &Set, two: bool, label: &dyn Fn(usize) -> String, form: Form) -> Vec<Cells> {
    let mut cells = Vec::new();
    for measure in &set.measures {
        let metric = measure.metric;
        for (index, against) in measure.against.iter().enumerate() {
            let digits = digits(metric, against);
            let name = match (index, unit(metric).0) {
                (0, "") => format!("  {}", metric.name()),
                (0, unit) => format!("  {} {unit}", metric.name()),
                _ => String::new(),
            };
            let difference = against.difference.value;
            cells.push(vec![
                name,
                if two { String::new() } else { label(against.group) },
                figure(metric, measure.first.value, digits),
                figure(metric, against.figure.value, digits),
                signed(metric, difference, digits),
                match form {
                    Form::Full => relative(metric, measure.first.value, difference, digits),
                    _ => String::new(),
                },
                interval(metric, against, digits),
                match (form, against.verdict) {
                    (Form::Terse, Verdict::NotSeen) => "none seen".to_owned(),
                    (_, verdict) => word(verdict).to_owned(),
                },
            ]);
        }
    }
    cells
}

/// What got worse, a sentence each; none where nothing did. What is neither better nor worse does not count, and of what may differ by chance
/// only what differs beyond that.
pub fn sentences(comparison: &Comparison) -> Vec<String> {
    told(comparison, |verdict| matches!(verdict, Verdict::Surely(Towards::Worse)))
}

/// Of what nobody can tell whether it got worse, and why, a sentence each.
pub fn unknown(comparison: &Comparison) -> Vec<String> {
    told(comparison, |verdict| matches!(verdict, Verdict::Unknown(_)))
}

pub fn is_all_unknown(comparison: &Comparison) -> bool {
    unknown(comparison).len() == comparison.differences
}

fn told(comparison: &Comparison, is_meant: impl Fn(Verdict) -> bool) -> Vec<String> {
    let first = &comparison.groups[0].label;
    let mut found = Vec::new();
    for set in &comparison.sets {
        let name = set.name();
        let of_pair = |measure: &Measure, against: &Against| {
            let group = &comparison.groups[against.group].label;
            sentence(first, group, &name, measure, against)
        };
        for measure in &set.measures {
            let meant = measure.against.iter().filter(|against| is_meant(against.verdict));
            found.extend(meant.filter_map(|against| of_pair(measure, against)));
        }
    }
    found
}
