//! The page of a run: one file without scripts and without the network. What it shows in a few sentences, the experiment's own words, tables,
//! figures, then how it was measured.

pub(crate) mod markup;
mod measured;
mod tables;

use crate::analysis::{Results, Summary};
use crate::figures::sweep::Sweep;
use crate::figures::{self, Capacity, Name, PageWidth};
use crate::insight::{self, Pair};
use markup::{document, escape, figure_of_both, list};
use quell_chart::Figure;
use quell_model::{CellStatus, Manifest};
use quell_store::Run;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What a page has beside the run and its results.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// Figures that others published, by scenario: they stand beside each row.
    pub published: &'a BTreeMap<String, String>,
    /// The experiment's own words.
    pub about: &'a str,
    pub swept: &'a [Sweep],
    pub capacities: &'a [Capacity],
    /// What the kernels of an experiment changed, in sentences; none where it has one.
    pub changed: &'a [String],
    /// Scenarios that belong together.
    pub pairs: &'a [Pair],
}

/// The whole page as HTML. `published` has texts by scenario that stand beside each row: figures that others published.
pub fn render(run: &Run, results: &Results, published: &BTreeMap<String, String>) -> String {
    let pairs = Pair::all(&run.manifest, &BTreeMap::new());
    let given =
        Given { published, about: "", swept: &[], capacities: &[], changed: &[], pairs: &pairs };
    render_with(run, results, &given)
}

/// The same with what the experiment's file tells.
pub fn render_with(run: &Run, results: &Results, given: &Given) -> String {
    let m = &run.manifest;
    let summary = Summary::of(results, m);
    let title = if m.title.is_empty() { &m.experiment } else { &m.title };
    let mut page = header(m, title);
    page.push_str("<main>\n");
    page += &conclusion(m, &summary, given.pairs);
    if !given.changed.is_empty() {
        let said = list(given.changed);
        page += &format!(
            "<section id=\"kernels\">\n<h2>What the kernel changed</h2>\n{said}</section>\n"
        );
    }
    page += &about(given.about);
    page.push_str("<section id=\"tables\">\n<h2>Results</h2>\n");
    page += &tables::summary(m, results, &summary, given.published);
    page += &tables::loads(m, results, &summary);
    page += &tables::expectations(m);
    page.push_str("</section>\n");
    page += &figure_section(run, &summary, given);
    page += &tables::streams(results);
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

/// What it shows in a few sentences, and how its claims came out.
fn conclusion(m: &Manifest, summary: &Summary, pairs: &[Pair]) -> String {
    let said = list(&insight::opening(m, summary, pairs));
    let verdict = insight::verdict(&m.expectations).map_or(String::new(), |verdict| {
        let held = m.expectations.iter().all(|e| e.held);
        let (mark, class) = if held { ("✓", "held") } else { ("✗", "failed") };
        format!(
            "<p class=\"{class}\">{mark} <a href=\"#expectations\">{}</a></p>\n",
            escape(&verdict)
        )
    });
    match said.is_empty() && verdict.is_empty() {
        true => String::new(),
        false => format!("<section id=\"conclusion\">\n{said}{verdict}</section>\n"),
    }
}

/// The experiment's own words: paragraphs, and what is drawn with spaces as it is.
fn about(text: &str) -> String {
    let text = text.trim_matches('\n').trim_end();
    if text.trim().is_empty() {
        return String::new();
    }
    let paragraph = |part: &str| {
        let is_drawn = part.lines().any(|line| line.starts_with("  ") || line.contains("   "));
        let (open, close) = if is_drawn { ("<pre>", "</pre>") } else { ("<p>", "</p>") };
        format!("{open}{}{close}\n", escape(part.trim_matches('\n')))
    };
    let parts: String =
        text.split("\n\n").filter(|part| !part.trim().is_empty()).map(paragraph).collect();
    format!("<section id=\"about\">\n{parts}</section>\n")
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
                " {done} of {all} measurements ran to their end; <a href=\"#measurements\">their table</a> says what is missing."
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
             their end. Figures and tables show what there is; <a href=\"#measurements\">their table</a> says what is \
             missing and why.</p>",
            m.cells.len()
        );
    }
    text.push_str(
        "<nav><a href=\"#tables\">Results</a> <a href=\"#figures\">Figures</a> <a href=\"#how\">How it was \
         measured</a></nav>\n</header>\n",
    );
    text
}

fn figure_section(run: &Run, summary: &Summary, given: &Given) -> String {
    let mut text = "<section id=\"figures\">\n<h2>Figures</h2>\n".to_owned();
    for sweep in given.swept {
        let of = |shape| figures::sweep::figure(&run.manifest, summary, sweep, shape);
        if let [Some(wide), Some(narrow)] = [PageWidth::Wide, PageWidth::Narrow].map(of) {
            let name = Name { name: "sweep", shows: "what changes with the swept field" };
            text += &figure_of_both(name, &wide, &narrow);
        }
    }
    let of = |shape| page_figures(run, shape, given.capacities);
    let wide: Vec<_> = of(PageWidth::Wide).collect();
    for ((name, wide), (_, narrow)) in wide.iter().zip(of(PageWidth::Narrow)) {
        text += &figure_of_both(*name, wide, &narrow);
    }
    if wide.is_empty() {
        text.push_str("<p>Nothing was measured that a figure could show.</p>\n");
    }
    text + "</section>\n"
}

/// The page's figures. Dots would make it several times as large and show what the lines show.
fn page_figures<'a>(
    run: &'a Run,
    shape: PageWidth,
    capacities: &'a [Capacity],
) -> impl Iterator<Item = (Name, Figure)> + use<'a> {
    figures::present(run, shape, capacities).filter(|(name, _)| name.name != "rtt-scatter")
}
