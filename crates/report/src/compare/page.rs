//! The comparison as a page: what came out, the table, the figures. One file without scripts and without the network.

use super::comparison::Comparison;
use super::figures::{Delays, NAMES};
use super::measure::{Set, Towards, Verdict};
use super::text::sentences;
use super::text::{digits, figure, interval, notes, relative, signed, unit, word};
use crate::figures::PageWidth;
use crate::html::{document, escape, figure_of_both, stacking};
use std::fmt::Write;

const TOLD: usize = 8;

pub fn render(comparison: &Comparison) -> String {
    let labels: Vec<&str> = comparison.groups.iter().map(|g| &*g.label).collect();
    let title = format!("{} compared", labels.join(", "));
    let mut body = format!("<header>\n<h1>{}</h1>\n", escape(&title));
    for group in comparison.groups.iter().filter(|g| !g.detail.is_empty()) {
        let _ = writeln!(
            body,
            "<p class=\"facts\">{}: {}</p>",
            escape(&group.label),
            escape(&group.detail)
        );
    }
    body += &conclusion(comparison);
    body += "</header>\n<main>\n<section id=\"tables\">\n<h2>Differences</h2>\n";
    body += &table(comparison);
    for note in notes(comparison) {
        let _ = writeln!(body, "<p>{}</p>", escape(&note));
    }
    body += "</section>\n<section id=\"figures\">\n<h2>Figures</h2>\n";
    let delays = Delays::of(comparison);
    let mut drawn = false;
    for name in NAMES {
        let both =
            [PageWidth::Wide, PageWidth::Narrow].map(|shape| delays.figure(name.name, shape));
        if let [Some(wide), Some(narrow)] = both {
            body += &figure_of_both(name, &wide, &narrow);
            drawn = true;
        }
    }
    if !drawn {
        body += "<p>Nothing was measured that a figure could show.</p>\n";
    }
    body += "</section>\n</main>\n";
    document(&title, &body)
}

fn conclusion(comparison: &Comparison) -> String {
    let verdicts = || {
        let measures = comparison.sets.iter().flat_map(|s| &s.measures);
        measures.flat_map(|m| &m.against).map(|a| a.verdict)
    };
    let count = |is: fn(Verdict) -> bool| verdicts().filter(|v| is(*v)).count();
    let worse = count(|v| v == Verdict::Surely(Towards::Worse));
    let better = count(|v| v == Verdict::Surely(Towards::Better));
    let unknown = count(|v| matches!(v, Verdict::Unknown(_)));
    let mut text = format!(
        "Of {} figures, {worse} got worse and {better} better, beyond what chance gives among so many; of {unknown} it is not known.",
        comparison.differences
    );
    if worse > 0 {
        text += " What got worse:";
    }
    let class = if worse > 0 { "failed" } else { "held" };
    let mut html = format!("<p class=\"{class}\">{}</p>\n", escape(&text));
    let sentences = sentences(comparison);
    if !sentences.is_empty() {
        let mut items: String =
            sentences.iter().take(TOLD).map(|s| format!("<li>{}</li>\n", escape(s))).collect();
        if let Some(more) = sentences.len().checked_sub(TOLD + 1) {
            let _ = writeln!(items, "<li>and {} more: see the table</li>", more + 1);
        }
        let _ = writeln!(html, "<ul>\n{items}</ul>");
    }
    html
}

fn table(comparison: &Comparison) -> String {
    let two = comparison.groups.len() == 2;
    let first = escape(&comparison.groups[0].label);
    let other = if two { escape(&comparison.groups[1].label) } else { "other".to_owned() };
    let group = if two {
        String::new()
    } else {
        format!("<th scope=\"col\">{}</th>", escape(&comparison.by))
    };
    let mut text = format!(
        "<thead><tr><th scope=\"col\">Of</th><th scope=\"col\">Figure</th>{group}<th scope=\"col\" class=\"n\">{first}</th>\
         <th scope=\"col\" class=\"n\">{other}</th><th scope=\"col\" class=\"n\">Difference</th>\
         <th scope=\"col\" class=\"n\">95 % interval</th><th scope=\"col\">That is</th></tr></thead>\n<tbody>\n"
    );
    for set in &comparison.sets {
        text += &rows(comparison, set, two, [&first, &other]);
    }
    let text = text + "</tbody>\n";
    stacking("By how much they differ", &text)
}

/// The rows of a set. Each figure has its column's name with it, for screens on which a row is several lines.
fn rows(comparison: &Comparison, set: &Set, two: bool, [first, other]: [&str; 2]) -> String {
    let mut text = String::new();
    for measure in &set.measures {
        let metric = measure.metric;
        for against in &measure.against {
            let digits = digits(metric, against);
            let group = match two {
                true => String::new(),
                false => format!("<td>{}</td>", escape(&comparison.groups[against.group].label)),
            };
            let difference = against.difference.value;
            let class = match against.verdict {
                Verdict::Surely(Towards::Worse) => "whole failed",
                Verdict::Surely(Towards::Better) => "whole held",
                _ => "whole",
            };
            let _ = writeln!(
                text,
                "<tr><th scope=\"row\">{}</th><td class=\"whole\">{} <small>{}</small></td>{group}\
                 <td class=\"n\" data-of=\"{first}\">{}</td><td class=\"n\" data-of=\"{other}\">{}</td>\
                 <td class=\"n\" data-of=\"Difference\">{}<br> <small>{}</small></td><td class=\"n\" data-of=\"95 % interval\">{}</td><td class=\"{class}\">{}</td></tr>",
                escape(&set.name()),
                metric.name(),
                unit(metric).0,
                figure(metric, measure.first.value, digits),
                figure(metric, against.figure.value, digits),
                signed(metric, difference, digits),
                relative(metric, measure.first.value, difference, digits),
                interval(metric, against, digits),
                word(against.verdict)
            );
        }
    }
    text
}
