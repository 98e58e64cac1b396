//! The comparison as a page: what came out, the table, the figures. One file without scripts and without the network.

use super::comparison::Comparison;
use super::figures::{Delays, NAMES};
use super::measure::{Against, Basis, Measure, Set, Towards, Verdict};
use super::text::{
    digits, figure, hidden, interval, is_decided, notes, relative, sentences, signed, unit, word,
};
use crate::figures::{Name, PageWidth};
use crate::html::markup::{
    self, cell, details, document, escape, figure_of_both, head, head_of_figures, list, row_name,
};

pub fn render(comparison: &Comparison) -> String {
    let labels: Vec<&str> = comparison.groups.iter().map(|g| &*g.label).collect();
    let title = format!("{} compared", labels.join(", "));
    let mut body = format!("<header>\n<h1>{}</h1>\n</header>\n<main>\n", escape(&title));
    body += &section(comparison);
    let delays = Delays::of(comparison, (0.0, None));
    let both = |name: Name| {
        let draw = |shape| delays.figure(name.name, shape);
        Some(figure_of_both(
            name.name,
            name.shows,
            &draw(PageWidth::Wide)?,
            &draw(PageWidth::Narrow)?,
        ))
    };
    body.extend(NAMES.into_iter().filter_map(both));
    document(&title, &(body + "</main>\n"), "")
}

/// What is compared, what came out, and the table.
pub fn section(comparison: &Comparison) -> String {
    let mut text = String::new();
    for group in comparison.groups.iter().filter(|g| !g.detail.is_empty()) {
        let said = format!("{}: {}", group.label, group.detail);
        text += &format!("<p class=\"facts\">{}</p>\n", escape(&said));
    }
    text += &conclusion(comparison);
    text += &table(comparison);
    let notes = notes(comparison).into_iter();
    notes.fold(text, |text, note| format!("{text}<p class=\"facts\">{}</p>\n", escape(&note)))
}

fn conclusion(comparison: &Comparison) -> String {
    let count = |is: fn(Verdict) -> bool| comparison.verdicts().filter(|v| is(*v)).count();
    let worse = count(|v| v == Verdict::Surely(Towards::Worse));
    let better = count(|v| v == Verdict::Surely(Towards::Better));
    let text = format!(
        "Of {} figures, {better} got better and {worse} worse, beyond what chance gives among so many.",
        comparison.differences
    );
    let class = if worse > 0 { "failed" } else { "held" };
    let mut worse = sentences(comparison);
    let more = worse.len().saturating_sub(8);
    worse.truncate(8);
    worse.extend((more > 0).then(|| format!("and {more} more: see the table")));
    format!("<p class=\"{class}\">{}</p>\n{}", escape(&text), list(&worse))
}

/// What is decided; the others are folded away. Each figure has its column's name with it, for screens on which a row is several lines.
fn table(comparison: &Comparison) -> String {
    let decided = rows(comparison, is_decided);
    let rest = rows(comparison, |measure, against| !is_decided(measure, against));
    let heads = heads(comparison);
    let rest = match rest.len() {
        0 => String::new(),
        _ => details(
            &hidden(comparison).unwrap_or_default(),
            &markup::table(
                "wide stacks",
                "What does not differ, or is unknown",
                &heads,
                rest.into_iter(),
            ),
        ),
    };
    let decided = match decided.is_empty() {
        true => "<p>No difference is known.</p>\n".to_owned(),
        false => {
            markup::table("wide stacks", "By how much they differ", &heads, decided.into_iter())
        }
    };
    decided + &rest
}

/// The label of the group that is held against the first, where there is one.
fn other<'a>(comparison: &'a Comparison) -> Option<&'a str> {
    (comparison.groups.len() == 2).then(|| &*comparison.groups[1].label)
}

fn has_intervals(comparison: &Comparison) -> bool {
    comparison.pairs().any(|(_, a)| !matches!(a.basis, Basis::Packets | Basis::None))
}

fn heads(comparison: &Comparison) -> Vec<String> {
    let other = other(comparison);
    let mut heads = vec![head("Of"), head("Figure")];
    heads.extend(other.is_none().then(|| head(&comparison.by)));
    let figures = [&*comparison.groups[0].label, other.unwrap_or("other"), "Difference"];
    heads.extend(figures.map(|name| head_of_figures(name, "")));
    heads.extend(has_intervals(comparison).then(|| head_of_figures("95 % interval", "")));
    heads.push(head("That is"));
    heads
}

fn rows(comparison: &Comparison, is_shown: fn(&Measure, &Against) -> bool) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for set in &comparison.sets {
        for measure in &set.measures {
            let shown = measure.against.iter().filter(|against| is_shown(measure, against));
            rows.extend(shown.map(|against| row(comparison, set, measure, against)));
        }
    }
    rows
}

fn row(comparison: &Comparison, set: &Set, measure: &Measure, against: &Against) -> Vec<String> {
    let (metric, digits) = (measure.metric, digits(measure.metric, against));
    let (first, difference) = (measure.first.value, against.difference.value);
    let group = &*comparison.groups[against.group].label;
    let of = |name: &str, html: String| {
        format!("<td class=\"n\" data-of=\"{}\">{html}</td>", escape(name))
    };
    let part = relative(metric, first, difference, digits);
    let class = match against.verdict {
        Verdict::Surely(Towards::Worse) => "whole failed",
        Verdict::Surely(Towards::Better) => "whole held",
        _ => "whole",
    };
    let name = format!("{} <small>{}</small>", metric.name(), unit(metric).0);
    let mut cells = vec![row_name(&set.name()), format!("<td class=\"whole\">{name}</td>")];
    cells.extend(other(comparison).is_none().then(|| cell("", group)));
    cells.extend([
        of(&comparison.groups[0].label, figure(metric, first, digits)),
        of(other(comparison).unwrap_or("other"), figure(metric, against.figure.value, digits)),
        of(
            "Difference",
            format!("{}<br> <small>{part}</small>", signed(metric, difference, digits)),
        ),
    ]);
    cells.extend(
        has_intervals(comparison).then(|| of("95 % interval", interval(metric, against, digits))),
    );
    let mark = if against.basis == Basis::Packets { " *" } else { "" };
    cells.push(cell(class, &format!("{}{mark}", word(against.verdict))));
    cells
}
