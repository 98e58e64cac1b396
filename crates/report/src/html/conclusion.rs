//! What a run shows, in a few sentences: the first that a reader sees.

use super::text::escape;
use crate::analysis::{Estimate, Summary, SummaryRow};
use quell_model::{CellId, Manifest};
use std::collections::HashSet;
use std::fmt::Write;

/// Most expectations that are told one by one where they did not hold.
const TOLD: usize = 6;

pub(super) fn section(m: &Manifest, summary: &Summary) -> String {
    let mut text = expectations(m);
    let sentences: Vec<String> =
        KINDS.iter().flat_map(|kind| sentences(summary, kind)).take(6).collect();
    if !sentences.is_empty() {
        text.push_str("<ul>\n");
        for sentence in sentences {
            let _ = writeln!(text, "<li>{}</li>", escape(&sentence));
        }
        text.push_str("</ul>\n");
    }
    match text.is_empty() {
        true => text,
        false => format!("<section id=\"conclusion\">\n{text}</section>\n"),
    }
}

/// What kernels changed.
pub(super) fn changed(sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let items = sentences.iter().map(|said| format!("<li>{}</li>\n", escape(said)));
    let items: String = items.collect();
    format!(
        "<section id=\"kernels\">\n<h2>What the kernel changed</h2>\n<ul>\n{items}</ul>\n</section>\n"
    )
}

fn expectations(m: &Manifest) -> String {
    let failed: Vec<_> = m.expectations.iter().filter(|e| !e.held).collect();
    let all = m.expectations.len();
    if all == 0 {
        return String::new();
    }
    let held = all - failed.len();
    let (mark, class) = if failed.is_empty() { ("✓", "held") } else { ("✗", "failed") };
    let mut text = format!(
        "<p class=\"{class}\">{mark} {held} of {all} <a href=\"#expectations\">expectations</a> held.</p>\n"
    );
    if !failed.is_empty() {
        text.push_str("<ul>\n");
        for e in failed.iter().take(TOLD) {
            let _ = writeln!(
                text,
                "<li><code>{}</code> did not hold: {}</li>",
                escape(&e.claim),
                escape(&e.found)
            );
        }
        text.push_str("</ul>\n");
    }
    text
}

/// What is told of each stream: its name, how a value reads, and the value.
struct Kind {
    name: &'static str,
    words: fn(f64) -> String,
    of: fn(&SummaryRow) -> Option<Estimate>,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "Median round trip",
        words: ms,
        of: |r| r.rtt_p50_ms.filter(|_| !r.of_a_minority),
    },
    Kind { name: "Loss", words: |part| format!("{:.1} %", part * 100.0), of: |r| r.loss },
    Kind { name: "Goodput", words: |mbps| format!("{mbps:.3} Mbit/s"), of: |r| r.goodput_mbps },
    Kind { name: "Page load", words: ms, of: |r| r.page_load_ms },
];

fn ms(ms: f64) -> String {
    format!("{ms:.1} ms")
}

/// One for each stream of a probe that has such a value: from the least to the most over the scenarios.
fn sentences(summary: &Summary, kind: &Kind) -> Vec<String> {
    let own = |r: &&SummaryRow| r.stream == r.probe || r.probe == CellId::TOGETHER;
    let mut streams: Vec<&str> = Vec::new();
    let mut known = HashSet::new();
    for row in summary.rows.iter().filter(own).filter(|r| (kind.of)(r).is_some()) {
        if known.insert(&*row.stream) {
            streams.push(&row.stream);
        }
    }
    // Of many streams each has its row in the table.
    streams.truncate(2);
    let sentence = |stream: &&str| {
        let rows = summary.rows.iter().filter(own).filter(|r| r.stream == **stream);
        let values: Vec<(&str, f64)> =
            rows.filter_map(|r| Some((&*r.scenario, (kind.of)(r)?.value))).collect();
        let least = values.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let most = values.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let (low, high) = ((kind.words)(least.1), (kind.words)(most.1));
        let name = kind.name;
        Some(match (values.len(), low == high) {
            (1, _) => format!("{name} of {stream}: {low}."),
            (_, true) => format!("{name} of {stream}: {low} in every scenario."),
            _ => format!("{name} of {stream}: from {low} ({}) to {high} ({}).", least.0, most.0),
        })
    };
    streams.iter().filter_map(sentence).collect()
}
