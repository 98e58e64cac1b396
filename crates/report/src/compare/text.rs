//! The comparison as a table for a terminal: at most 100 columns, and nothing said by colour.

use super::comparison::Comparison;
use super::measure::{Against, Basis, Measure, Set, Towards, Verdict, Why};
use quell_finding::WIDEST;
use quell_model::metric::{Metric, MetricUnit};
use quell_stats::Ranged;
use quell_units::table::{Align, Table, cut, wrap};
use quell_wire::text::line as clean;
use std::fmt::Write;

/// A metric's unit as tables have it, and how many of it the metric's own unit is.
pub(super) fn unit(metric: Metric) -> (&'static str, f64) {
    match metric.unit() {
        MetricUnit::Ratio => ("%", 100.0),
        MetricUnit::Time => ("ms", 1e3),
        MetricUnit::Rate => ("Mbit/s", 1e-6),
        MetricUnit::Count => ("", 1.0),
    }
}

/// Digits after the point by which figures and their difference can be told: three at most, unless these would show nothing of what the verdict
/// says to be there; then up to a nanosecond's in milliseconds.
pub(super) fn digits(metric: Metric, against: &Against) -> usize {
    let (_, factor) = unit(metric);
    let Ranged { value, low, high } = against.difference;
    let widths = [value, low.map_or(0.0, |low| value - low), high.map_or(0.0, |high| high - value)];
    let smallest =
        widths.iter().map(|w| w.abs() * factor).filter(|w| *w > 1e-9).fold(f64::INFINITY, f64::min);
    let is_hidden = (value * factor).abs() < 0.5e-3
        && matches!(against.verdict, Verdict::Surely(_) | Verdict::Perhaps(_));
    let most = if is_hidden { 6.0 } else { 3.0 };
    match smallest.is_finite() {
        true => (1.0 - smallest.log10().floor()).clamp(1.0, most) as usize,
        // As tables of results have them.
        false if matches!(metric.unit(), MetricUnit::Time | MetricUnit::Rate) => {
            if against.figure.value * factor < 100.0 { 3 } else { 1 }
        }
        false => 1,
    }
}

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

/// The interval, as `+1.2 to +3.4`; none of fewer than three repeats, whose packets tell nothing of what differs from one measurement to the next.
pub(super) fn interval(metric: Metric, against: &Against, digits: usize) -> String {
    let end = |end: Option<f64>| end.map(|end| signed(metric, end, digits));
    match (against.basis, end(against.difference.low), end(against.difference.high)) {
        (Basis::Packets | Basis::None, ..) | (_, None, None) => String::new(),
        (_, Some(low), Some(high)) => format!("{low} to {high}"),
        (_, Some(low), None) => format!("≥{low}"),
        (_, None, Some(high)) => format!("≤{high}"),
    }
}

/// By what part of the first it is more, as `+12 %`; nothing of shares, whose difference is in percent already, nor of a figure that is nothing in the
/// digits shown: of a jitter of 15 ns, which is 0.000 ms, 10 ns would be "−33 %".
pub(super) fn relative(metric: Metric, first: f64, difference: f64, digits: usize) -> String {
    let shown = figure(metric, first, digits);
    if metric.unit() == MetricUnit::Ratio || !shown.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
    {
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
        Verdict::Unknown(Why::FewRepeats) => "too few repeats",
        Verdict::Unknown(_) => "not known",
    }
}

/// A difference in a sentence, as `loss of bulk · udp: worse, 0.0 % with A, 30.0 with B, +5 to +70 %`.
fn sentence(comparison: &Comparison, set: &Set, measure: &Measure, against: &Against) -> String {
    let metric = measure.metric;
    let (unit, digits) = (unit(metric).0, digits(metric, against));
    let label = |group: usize| clean(&comparison.groups[group].label);
    let figure = |value: f64| figure(metric, value, digits);
    let range = interval(metric, against, digits);
    let range = if range.is_empty() { range } else { format!(", {range} {unit}") };
    let word = match against.verdict {
        Verdict::Unknown(why) => format!("not known, since {}", why.words()),
        verdict => word(verdict).to_owned(),
    };
    format!(
        "{} of {}: {word}, {} {unit} with {}, {} with {}{range}",
        metric.name(),
        clean(&set.name()),
        figure(measure.first.value),
        label(0),
        figure(against.figure.value),
        label(against.group)
    )
}

/// The comparison as a table for a screen of so many columns; what is undecided as a number, unless all is asked for.
pub fn render_in(width: usize, comparison: &Comparison, all: bool) -> String {
    let width = width.clamp(80, WIDEST);
    let mut text = String::new();
    for group in comparison.groups.iter().filter(|g| !g.detail.is_empty()) {
        for (index, line) in wrap(&clean(&group.detail), width - 3).into_iter().enumerate() {
            let label = if index == 0 { &*group.label } else { "" };
            let _ = writeln!(text, "{label:<2} {line}");
        }
    }
    text += &rows(comparison, width, all);
    text.push('\n');
    let hidden = hidden(comparison).filter(|_| !all).map(|said| said + "; --all lists them.");
    for line in hidden.iter().chain(&notes(comparison)).flat_map(|note| wrap(note, width)) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Whether a row shows something: a difference, or for want of repeats figures that are apart.
pub(super) fn is_decided(measure: &Measure, against: &Against) -> bool {
    let (metric, difference) = (measure.metric, against.difference.value);
    let shown = figure(metric, difference, digits(metric, against));
    let is_shown = shown.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    let apart = || is_shown && difference.abs() > 0.01 * measure.first.value.abs();
    match against.verdict {
        Verdict::Surely(_) | Verdict::Perhaps(_) => true,
        Verdict::Unknown(Why::FewRepeats) => apart(),
        _ => false,
    }
}

pub(super) fn hidden(comparison: &Comparison) -> Option<String> {
    let hidden = || comparison.pairs().filter(|(m, a)| !is_decided(m, a)).map(|(_, a)| a.verdict);
    let unknown: Vec<Why> = hidden()
        .filter_map(|verdict| match verdict {
            Verdict::Unknown(why) => Some(why),
            _ => None,
        })
        .collect();
    let (all, alike) = (comparison.differences, hidden().count() - unknown.len());
    let alike = (alike > 0).then(|| format!("{alike} of {all} figures show no difference"));
    let unknown = unknown
        .first()
        .map(|why| format!("{} of {all} figures are not known: {}", unknown.len(), why.words()));
    let said: Vec<String> = alike.into_iter().chain(unknown).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

pub(super) fn notes(comparison: &Comparison) -> Vec<String> {
    let all = || comparison.pairs();
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
    if any(|a| !matches!(a.basis, Basis::Packets | Basis::None)) {
        notes.push(how + ".");
    }
    if any(|a| matches!(a.verdict, Verdict::Perhaps(_))) {
        notes.push(format!(
            "perhaps: its own interval leaves 0 out, as one in twenty does by chance, and here are {}.",
            comparison.differences
        ));
    }
    if any(|a| matches!(a.basis, Basis::Packets | Basis::None)) {
        let said = "Intervals need three repeats; a verdict with * is of these packets only.";
        notes.push(said.to_owned());
    }
    let mut whys: Vec<&str> = Vec::new();
    for (_, against) in all() {
        if let Verdict::Unknown(why @ (Why::FewPackets | Why::Minority)) = against.verdict
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Full,
    /// Nothing of by what part figures differ.
    WithoutParts,
    /// Nor more words than must be.
    Terse,
}

fn rows(comparison: &Comparison, width: usize, all: bool) -> String {
    let forms = [Form::Full, Form::WithoutParts, Form::Terse];
    // Names are cut only where nothing else is left to give up.
    let whole = forms.iter().map(|form| (usize::MAX, *form));
    let mut steps = whole.chain([24, 16, 12, 10].map(|longest| (longest, Form::Terse)));
    let mut table = table_of(comparison, usize::MAX, Form::Full, width, all);
    while table.width() > width
        && let Some((longest, form)) = steps.next()
    {
        table = table_of(comparison, longest, form, width, all);
    }
    if comparison.pairs().any(|(m, a)| all || is_decided(m, a)) {
        format!("\n{table}")
    } else {
        String::new()
    }
}

fn table_of(comparison: &Comparison, longest: usize, form: Form, width: usize, all: bool) -> Table {
    use Align::{Left, Right};
    let two = comparison.groups.len() == 2;
    let label = |group: usize| cut(&clean(&comparison.groups[group].label), longest);
    let mut table = Table::new([Left, Left, Right, Right, Right, Right, Right, Left]);
    let texts = [
        String::new(),
        if two { String::new() } else { cut(&clean(&comparison.by), longest) },
        label(0),
        if two { label(1) } else { "other".to_owned() },
        "difference".to_owned(),
        String::new(),
        "95 % interval".to_owned(),
        String::new(),
    ];
    table.row(texts.to_vec());
    let mut is_first = true;
    for set in &comparison.sets {
        let rows: Vec<Vec<String>> = of_set(set, two, &label, form, all);
        if rows.is_empty() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            table.text("");
        }
        table.text(cut(&clean(&set.name()), width));
        rows.into_iter().for_each(|row| table.row(row));
    }
    table
}

fn of_set(
    set: &Set,
    two: bool,
    label: &dyn Fn(usize) -> String,
    form: Form,
    all: bool,
) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for measure in &set.measures {
        let metric = measure.metric;
        let shown = measure.against.iter().filter(|a| all || is_decided(measure, a));
        for (index, against) in shown.enumerate() {
            let digits = digits(metric, against);
            let name = match index {
                0 => format!("  {} {}", metric.name(), unit(metric).0).trim_end().to_owned(),
                _ => String::new(),
            };
            let difference = against.difference.value;
            let mark = if against.basis == Basis::Packets { " *" } else { "" };
            rows.push(vec![
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
                    (_, verdict) => word(verdict).to_owned() + mark,
                },
            ]);
        }
    }
    rows
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
    let of_set = |set| sentences_of(comparison, set, &is_meant);
    comparison.sets.iter().flat_map(of_set).collect()
}

fn sentences_of(
    comparison: &Comparison,
    set: &Set,
    is_meant: &impl Fn(Verdict) -> bool,
) -> Vec<String> {
    let pairs = set.measures.iter().flat_map(|m| m.against.iter().map(move |a| (m, a)));
    let meant = pairs.filter(|(_, against)| is_meant(against.verdict));
    meant.map(|(measure, against)| sentence(comparison, set, measure, against)).collect()
}

/// What the other groups changed against the first, for who does not ask for the table: what differs, and of how many figures nothing more is known.
pub fn changed(comparison: &Comparison) -> Vec<String> {
    let surely = told(comparison, |v| matches!(v, Verdict::Surely(_)));
    let perhaps = told(comparison, |v| matches!(v, Verdict::Perhaps(_)));
    let differ = surely.len() + perhaps.len();
    let labels: Vec<String> = comparison.groups.iter().map(|g| clean(&g.label)).collect();
    let count = |is: fn(Verdict) -> bool| comparison.verdicts().filter(|v| is(*v)).count();
    let mut said = vec![format!(
        "{} against {}: {differ} of {} figures differ, {} are equal in every repeat",
        labels[1..].join(", "),
        labels[0],
        comparison.differences,
        count(|v| v == Verdict::Equal)
    )];
    said.extend(surely.into_iter().chain(perhaps).take(8));
    if differ > 8 {
        said.push(format!("and {} more", differ - 8));
    }
    said
}
