//! The page of a run: one file without the network, in parts of which one is seen at a time.
//!
//! ```text
//!   Summary   one sentence, one picture, at most three more, the rest folded
//!   Compare   what belongs together, beside each other
//!   Explore   every packet, to zoom in; the one part with scripts
//!   Data      tables, claims, how it was measured
//! ```

pub mod markup;
mod measured;
mod tables;

use crate::analysis::{Results, Summary};
use crate::compare::{self, By, Comparison, MeasuredRun, Wanted};
use crate::figures::sweep::Sweep;
use crate::figures::{self, Capacity, Name, PageWidth};
use crate::insight::{self, Pair};
use crate::view;
use markup::{details, document, escape, figure_of_both, list, tab};
use quell_chart::Figure;
use quell_model::manifest::Backend;
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
}

pub fn render(run: &Run, results: &Results, given: &Given) -> String {
    let m = &run.manifest;
    let summary = Summary::of(results, m);
    let title = if m.title.is_empty() { &m.experiment } else { &m.title };
    let (explore, scripts) = view::explorer(run).unwrap_or_default();
    let compared = compared(run, results);
    let mut tabs = vec![("summary", "Summary", summary_tab(run, results, &summary, given))];
    tabs.extend(compared.map(|text| ("compare", "Compare", text)));
    tabs.extend((!explore.is_empty()).then(|| ("explore", "Explore", explore.to_owned())));
    tabs.push(("data", "Data", data_tab(run, results, &summary, given)));
    let links = tabs.iter().map(|(id, name, _)| format!("<a href=\"#{id}\">{name}</a> "));
    let links: String = links.collect();
    let parts: String = tabs.iter().map(|(id, _, text)| tab(id, text)).collect();
    let foot = format!("Quell {} · run {}", m.quell, m.run);
    let body = format!(
        "{}<nav>{links}</nav>\n</header>\n<main>\n{parts}</main>\n<footer><p>{}</p></footer>\n",
        header(m, title),
        escape(&foot)
    );
    document(&format!("{title} · {}", m.run), &body, &scripts)
}

/// One sentence, one picture, what else there is to say, at most three more pictures; the rest is folded.
fn summary_tab(run: &Run, results: &Results, summary: &Summary, given: &Given) -> String {
    let m = &run.manifest;
    let pairs = insight::ranked(m, results, summary);
    let mut said = insight::opening(m, results, summary).into_iter();
    let mut text = String::new();
    if let Some(first) = said.next() {
        text += &format!("<p id=\"conclusion\">{}</p>\n", escape(&first));
    }
    let mut figures = page_figures(run, summary, given, &pairs).into_iter();
    text += &figures
        .next()
        .unwrap_or_else(|| "<p>Nothing was measured that a figure could show.</p>\n".to_owned());
    text += &list(&said.collect::<Vec<_>>());
    text += &verdict(m);
    if !given.changed.is_empty() {
        let said = list(given.changed);
        text += &format!("<h2 id=\"kernels\">What the kernel changed</h2>\n{said}");
    }
    text.extend(figures.by_ref().take(3));
    let rest: Vec<String> = figures.collect();
    if !rest.is_empty() {
        text += &details(&format!("{} more figures", rest.len()), &rest.concat());
    }
    text + &about(given.about)
}

/// What belongs together, beside each other; none where there is nothing to compare.
fn compared(run: &Run, results: &Results) -> Option<String> {
    let pairs = Pair::all(&run.manifest);
    let by = if pairs.is_empty() { By::Scenario } else { By::Pair(&pairs) };
    let wanted = Wanted { by: Some(by), ..Wanted::default() };
    let sources = [MeasuredRun { run, results }];
    let comparison = Comparison::of(&sources, &wanted).ok()?;
    Some(compare::section(&comparison))
}

fn data_tab(run: &Run, results: &Results, summary: &Summary, given: &Given) -> String {
    let m = &run.manifest;
    let mut text = "<h2 id=\"tables\">Results</h2>\n".to_owned();
    text += &tables::summary(m, results, summary, given.published);
    text += &tables::loads(m, results, summary);
    text += &tables::expectations(m);
    text += &tables::streams(results);
    text + &measured::section(run)
}

/// How its claims came out.
fn verdict(m: &Manifest) -> String {
    let Some(verdict) = insight::verdict(&m.expectations) else { return String::new() };
    let held = m.expectations.iter().all(|e| e.held);
    let (mark, class) = if held { ("✓", "held") } else { ("✗", "failed") };
    let verdict = escape(&verdict);
    format!("<p class=\"{class}\">{mark} <a href=\"#expectations\">{verdict}</a></p>\n")
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
    details("The experiment in its own words", &parts)
}

fn header(m: &Manifest, title: &str) -> String {
    let mut text = format!("<header>\n<h1>{}</h1>\n", escape(title));
    let time = if m.kernel.virtual_time { "virtual time" } else { "real time" };
    let origin = match m.kernel.backend {
        Backend::Unknown => time.to_owned(),
        backend => {
            format!("{} kernel {}, {time} · seed {}", backend.name(), m.kernel.version, m.seed)
        }
    };
    let _ = writeln!(
        text,
        "<p class=\"facts\">{} · started {} · {}</p>",
        escape(&m.experiment),
        escape(&m.started),
        escape(&origin)
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
    text
}

/// The page's figures, the best first: of pairs the one that changed most alone, then all. Dots would make the page several times as large and
/// show what the lines show.
fn page_figures(run: &Run, summary: &Summary, given: &Given, pairs: &[Pair]) -> Vec<String> {
    let both = |name: Name, [wide, narrow]: [Option<Figure>; 2]| {
        // The page says once which run it is.
        let source = figures::source(&run.manifest);
        let [wide, narrow] = [wide?, narrow?].map(|figure| figure.without(&source));
        Some(figure_of_both(name.name, name.shows, &wide, &narrow))
    };
    let shapes = [PageWidth::Wide, PageWidth::Narrow];
    let mut found = Vec::new();
    let Given { capacities, .. } = *given;
    let first = figures::Wanted {
        capacities,
        pairs: Some(&pairs[..pairs.len().min(1)]),
        ..Default::default()
    };
    let rest = figures::Wanted { capacities, pairs: Some(pairs), ..Default::default() };
    let best = figures::NAMES[0];
    found.extend(both(best, shapes.map(|shape| figures::one(run, best, shape, &first))));
    for sweep in given.swept {
        let name = Name { name: "sweep", shows: "what changes with the swept field" };
        let of = |shape| figures::sweep::figure(&run.manifest, summary, sweep, shape);
        found.extend(both(name, shapes.map(of)));
    }
    // One pair was shown whole.
    let left_out = |name: &str| name == "rtt-scatter" || name == best.name && pairs.len() < 2;
    let others = figures::Wanted { pairs: Some(pairs.get(1..).unwrap_or_default()), ..rest };
    let names = figures::best_first(run).filter_map(figures::named);
    for name in names.filter(|n| !left_out(n.name)) {
        let (shown, wanted) = match name == best {
            true => (Name { name: "before-after-others", ..name }, &others),
            false => (name, &rest),
        };
        found.extend(both(shown, shapes.map(|shape| figures::one(run, name, shape, wanted))));
    }
    found
}
