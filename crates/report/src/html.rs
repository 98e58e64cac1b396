//! The page of a run: one file without scripts and without the network, figures first, then tables, then how it was measured.

mod measured;
mod tables;
mod text;

use crate::analysis::{Results, Summary};
use crate::figures::sweep::Sweep;
use crate::figures::{self, Name, Shape};
use quell_chart::Figure;
use quell_model::{CellStatus, Manifest};
use quell_store::Run;
use std::collections::BTreeMap;
use std::fmt::Write;
pub(crate) use tables::scrolling;
pub(crate) use text::escape;

/// The whole page as HTML. `published` has texts by scenario that stand beside each row: figures that others published.
pub fn render(run: &Run, results: &Results, published: &BTreeMap<String, String>) -> String {
    render_swept(run, results, published, &[])
}

/// The same of a run with swept fields, of each of which there is a figure.
pub fn render_swept(
    run: &Run,
    results: &Results,
    published: &BTreeMap<String, String>,
    swept: &[Sweep],
) -> String {
    let m = &run.manifest;
    let summary = Summary::of(results, m);
    let title = if m.title.is_empty() { &m.experiment } else { &m.title };
    let mut page = header(m, title);
    page.push_str("<main>\n");
    page += &figure_section(run, &summary, swept);
    page.push_str("<section id=\"tables\">\n<h2>Results</h2>\n");
    page += &tables::summary(m, results, &summary, published);
    page += &tables::expectations(m);
    page += &tables::streams(results);
    page.push_str("</section>\n");
    page += &measured::section(run);
    page.push_str("</main>\n");
    let _ = writeln!(
        page,
        "<footer><p>Quell {} · run {}</p></footer>",
        escape(&m.quell),
        escape(&m.run)
    );
    document(&format!("{title} · {}", m.run), &page)
}

/// A page with this title around a body: one file, without scripts and without the network.
pub(crate) fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(title),
        include_str!("html/page.css")
    )
}

fn header(m: &Manifest, title: &str) -> String {
    let mut text = format!("<header>\n<h1>{}</h1>\n", escape(title));
    let time = if m.kernel.virtual_time { "virtual time" } else { "real time" };
    let _ = writeln!(
        text,
        "<p class=\"facts\">{} · started {} · {} kernel {}, {time} · seed {}</p>",
        escape(&m.experiment),
        escape(&m.started),
        m.kernel.backend.name(),
        escape(&m.kernel.version),
        m.seed
    );
    let done = m.cells.iter().filter(|c| c.status == CellStatus::Complete).count();
    if m.was_stopped() {
        let rest = match m.cells.len() {
            1 => String::new(),
            all => format!(
                " {done} of {all} measurements ran to their end; <a href=\"#cells\">their table</a> says what is missing."
            ),
        };
        let _ = writeln!(
            text,
            "<p class=\"notice\" role=\"alert\"><strong>■ Stopped.</strong> The measurement was stopped from outside, as by \
             Ctrl-C. Figures and tables show what was measured until then.{rest}</p>"
        );
    } else if !m.complete {
        let _ = writeln!(
            text,
            "<p class=\"notice\" role=\"alert\"><strong>⚠ Partial run.</strong> {done} of {} measurements ran to \
             their end. Figures and tables show what there is; <a href=\"#cells\">their table</a> says what is \
             missing and why.</p>",
            m.cells.len()
        );
    }
    if !m.expectations.is_empty() {
        let held = m.expectations.iter().filter(|e| e.held).count();
        let all = m.expectations.len();
        let (mark, class) = if held == all { ("✓", "held") } else { ("✗", "failed") };
        let _ = writeln!(
            text,
            "<p class=\"{class}\">{mark} {held} of {all} <a href=\"#claims\">expectations</a> held.</p>"
        );
    }
    text.push_str(
        "<nav><a href=\"#figures\">Figures</a> <a href=\"#tables\">Results</a> <a href=\"#how\">How it was \
         measured</a></nav>\n</header>\n",
    );
    text
}

fn figure_section(run: &Run, summary: &Summary, swept: &[Sweep]) -> String {
    let mut text = "<section id=\"figures\">\n<h2>Figures</h2>\n".to_owned();
    for sweep in swept {
        let of = |shape| figures::sweep::figure(&run.manifest, summary, sweep, shape);
        if let [Some(wide), Some(narrow)] = [Shape::Wide, Shape::Narrow].map(of) {
            let name = Name { name: "sweep", shows: "what changes with the swept field" };
            text += &figure_of_both(name, &wide, &narrow);
        }
    }
    let wide: Vec<_> = page_figures(run, Shape::Wide).collect();
    for ((name, wide), (_, narrow)) in wide.iter().zip(page_figures(run, Shape::Narrow)) {
        text += &figure_of_both(*name, wide, &narrow);
    }
    if wide.is_empty() {
        text.push_str("<p>Nothing was measured that a figure could show.</p>\n");
    }
    text + "</section>\n"
}

/// A figure twice, laid out for either width, unless it has one shape only and scrolls.
pub(crate) fn figure_of_both(name: Name, wide: &Figure, narrow: &Figure) -> String {
    let (wide, narrow) = (wide.svg(), narrow.svg());
    let both = wide != narrow;
    let class = if both { "wide desk" } else { "wide" };
    let label = escape(name.shows);
    let mut text = format!(
        "<figure id=\"{}\">\n<div class=\"{class}\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">{wide}</div>\n",
        escape(name.name)
    );
    if both {
        let _ = writeln!(text, "<div class=\"phone\">{narrow}</div>");
    }
    text + "</figure>\n"
}

/// The page's figures. Dots would make it several times as large and show what the lines show.
fn page_figures(run: &Run, shape: Shape) -> impl Iterator<Item = (Name, Figure)> {
    figures::present(run, shape).filter(|(name, _)| name.name != "rtt-scatter")
}
