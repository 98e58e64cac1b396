//! What a run shows, in a few sentences: the first that a reader sees.

use super::text::escape;
use crate::analysis::Summary;
use crate::insight;
use quell_model::Manifest;
use std::fmt::Write;

/// Most expectations that are told one by one where they did not hold.
const TOLD: usize = 6;

pub(super) fn section(m: &Manifest, summary: &Summary) -> String {
    let list = |sentences: &[String]| match sentences {
        [] => String::new(),
        some => {
            let items = some.iter().map(|said| format!("<li>{}</li>\n", escape(said)));
            format!("<ul>\n{}</ul>\n", items.collect::<String>())
        }
    };
    let text = list(&insight::opening(m, summary)) + &expectations(m);
    match text.is_empty() {
        true => text,
        false => format!("<section id=\"conclusion\">\n{text}</section>\n"),
    }
}

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
