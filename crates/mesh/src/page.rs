//! What a mesh shows, as one page: a sentence, the matrix, the pairs with the worst first; a pair's link opens its smoke figure, changes and paths.
//!
//! It needs no script but where a collector serves it: there it follows what comes.

use crate::events::{MeshFindings, clock};
use crate::folder::Pair;
use crate::history::MeshHistory;
use crate::matrix::{MatrixRow, PairState, matrix};
use crate::smoke::smoke;
use crate::text::{details as details_of, sentences};
use quell_report::figures::PageWidth;
use quell_report::html::markup::{
    cell, details, document_with, escape, figure_of_both, head, head_of_figures, list, row_name,
    table as table_of,
};
use quell_units::fmt::{ms, percent, plural};
use std::collections::{BTreeMap, BTreeSet};

/// The worst pairs are listed, and drawn; as many agents are in the matrix, those of the worst pairs.
const MOST_PAIRS: usize = 100;

impl PairState {
    /// A class of the style sheet, a mark that needs no colour, and words.
    fn looks(self) -> (&'static str, &'static str, &'static str) {
        match self {
            PairState::Worse => ("worse", "✗", "worse than usual"),
            PairState::Silent => ("silent", "?", "nothing in the last hour"),
            PairState::AsUsual => ("as-usual", "✓", "as usual"),
        }
    }
}

/// `live`: a collector serves it.
pub fn page(mesh: &MeshHistory, findings: &MeshFindings, live: bool) -> String {
    let rows = matrix(mesh, findings);
    let ids: BTreeMap<&Pair, String> =
        mesh.pairs.keys().enumerate().map(|(n, key)| (key, format!("pair-{n}"))).collect();
    let agents: BTreeSet<&str> = mesh.pairs.keys().flat_map(|k| [&*k.agent, &*k.peer]).collect();
    let title = format!("Mesh of {}", plural(agents.len(), "agent"));
    let said = sentences(mesh, findings);
    let listed = &rows[..rows.len().min(MOST_PAIRS)];
    let mut body = format!(
        "<header><h1>{title}</h1><p class=\"notice\" id=\"stale\" role=\"alert\">The collector does not answer: this is what it said last.</p></header>\n\
         <main id=\"mesh\">\n<p class=\"facts\">{} · {} until {}</p>\n<p id=\"conclusion\">{}</p>\n",
        plural(rows.len(), "pair"),
        clock(mesh.from_ns, 0),
        clock(mesh.to_ns, mesh.from_ns),
        escape(&said[0])
    );
    body += &events(&said[1..]);
    for row in listed {
        body += &section(mesh, row, &ids[row.pair]);
    }
    body += &grid(&rows, listed.len(), &ids, &agents);
    body += &table(mesh, &rows, listed, &ids);
    body += "</main>\n";
    let (script, allowed) = match live {
        true => (
            format!("<script>\n{}</script>\n", include_str!("page.js")),
            "script-src 'unsafe-inline'; connect-src 'self'",
        ),
        false => (String::new(), ""),
    };
    document_with(&title, &body, &script, allowed, include_str!("page.css"))
}

/// A page that has nothing to show but why.
pub fn notice(why: &str) -> String {
    let body =
        format!("<main id=\"mesh\"><h1>Mesh</h1><p id=\"conclusion\">{}</p></main>\n", escape(why));
    document_with("Mesh", &body, "", "", include_str!("page.css"))
}

/// What else happened.
fn events(sentences: &[String]) -> String {
    let shown = sentences.len().min(5);
    let mut text = list(&sentences[..shown]);
    if sentences.len() > shown {
        let rest = &sentences[shown..];
        text += &details(&format!("{} earlier", rest.len()), &list(rest));
    }
    text
}

/// Who sees whom how well: of several classes the worst.
fn grid(
    rows: &[MatrixRow],
    linked: usize,
    ids: &BTreeMap<&Pair, String>,
    agents: &BTreeSet<&str>,
) -> String {
    let worst = rows.iter().flat_map(|row| [&*row.pair.agent, &*row.pair.peer]);
    let mut shown = BTreeSet::new();
    for agent in worst {
        if shown.len() < MOST_PAIRS {
            shown.insert(agent);
        }
    }
    let left_out = match agents.len() - shown.len() {
        0 => String::new(),
        rest => format!(" The agents of the worst pairs; {rest} more are left out."),
    };
    let mut cells: BTreeMap<(&str, &str), String> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let (class, mark, words) = row.state.looks();
        let Pair { agent, peer, .. } = row.pair;
        if !shown.contains(&**agent) || !shown.contains(&**peer) {
            continue;
        }
        let label = escape(&format!("{agent} to {peer}: {words}, {}", figures(row)));
        cells.entry((agent, peer)).or_insert_with(|| match at < linked {
            true => format!(
                "<a class=\"{class}\" href=\"#{}\" title=\"{label}\" aria-label=\"{label}\">{mark}</a>",
                ids[row.pair]
            ),
            false => format!("<span class=\"{class}\" title=\"{label}\">{mark}</span>"),
        });
    }
    let heads: String = shown.iter().map(|agent| head(agent)).collect();
    let lines = shown.iter().map(|from| {
        let cells = shown.iter().map(|to| {
            let cell = cells.get(&(*from, *to)).map_or("", String::as_str);
            format!("<td>{cell}</td>")
        });
        format!("<tr>{}{}</tr>\n", row_name(from), cells.collect::<String>())
    });
    format!(
        "<h2>Who sees whom</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Matrix\">\n<table class=\"matrix\">\n\
         <caption><span>From an agent, a row, to its peer, a column. ✗ worse than usual, ✓ as usual, ? nothing in the last hour.{left_out}</span></caption>\n\
         <thead><tr><td></td>{heads}</tr></thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n",
        lines.collect::<String>()
    )
}

fn figures(row: &MatrixRow) -> String {
    let of = |value: Option<f64>, text: fn(f64) -> String| value.map_or("–".to_owned(), text);
    format!("loss {} %, p99 {} ms", of(row.loss, percent), of(row.p99, |s| ms(s * 1e3)))
}

fn table(
    mesh: &MeshHistory,
    rows: &[MatrixRow],
    listed: &[MatrixRow],
    ids: &BTreeMap<&Pair, String>,
) -> String {
    let figure = |value: Option<f64>, text: fn(f64) -> String, of: &str| {
        let text = value.map_or("–".to_owned(), text);
        format!("<td class=\"n\" data-of=\"{of}\">{text}</td>")
    };
    let in_ms = |seconds: f64| ms(seconds * 1e3);
    let lines = listed.iter().map(|row| {
        let (class, mark, words) = row.state.looks();
        let state = match row.since() {
            Some(since) => format!("{mark} since {}", clock(since, mesh.to_ns)),
            None => format!("{mark} {words}"),
        };
        let link = format!(
            "<th scope=\"row\"><a href=\"#{}\">{} to {}</a></th>",
            ids[row.pair],
            escape(&row.pair.agent),
            escape(&row.pair.peer)
        );
        vec![
            link,
            cell("", &row.pair.class),
            figure(row.loss, percent, "loss %"),
            figure(row.p50, in_ms, "median ms"),
            figure(row.p99, in_ms, "p99 ms"),
            figure(row.usual_p99, in_ms, "before"),
            cell(&format!("whole {class}"), &state),
        ]
    });
    let heads = [
        head("Pair"),
        head("Class"),
        head_of_figures("Loss", "%, last hour"),
        head_of_figures("Median", "ms"),
        head_of_figures("p99", "ms"),
        head_of_figures("p99 before", "ms"),
        head("Worse than usual"),
    ];
    let caption = match rows.len() - listed.len() {
        0 => "Pairs by their last hour".to_owned(),
        rest => format!("The worst pairs by their last hour; {rest} more are left out"),
    };
    format!("<h2>Pairs, the worst first</h2>\n{}", table_of("wide stacks", &caption, &heads, lines))
}

/// What a pair's link opens.
fn section(mesh: &MeshHistory, row: &MatrixRow, id: &str) -> String {
    let Pair { agent, peer, class } = row.pair;
    let [wide, narrow] = [PageWidth::Wide, PageWidth::Narrow].map(|width| {
        smoke(mesh, row.pair, row.history, width.width(980))
            .title("")
            .legend(quell_chart::Legend::Top)
    });
    let shows = format!("Smoke figure from {agent} to {peer}");
    let mut text = format!(
        "<section class=\"pair\" id=\"{id}\">\n<h2>{} to {}, {}</h2>\n<p>{}. <a href=\"#mesh\">Close</a></p>\n{}",
        escape(agent),
        escape(peer),
        escape(class),
        escape(&figures(row)),
        figure_of_both(&format!("{id}-smoke"), &shows, &wide, &narrow)
    );
    text += &list(&details_of(mesh, row));
    text + "</section>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{HOUR_NS, MINUTE_NS};
    use quell_model::Sketch;

    #[test]
    fn a_page_of_a_large_mesh_shows_the_agents_of_its_worst_pairs() {
        let mut mesh = MeshHistory::new(0, HOUR_NS);
        for n in 0..150 {
            let [agent, peer] = [n, (n + 1) % 150].map(|n| format!("a{n:03}x").into());
            let sketch =
                Sketch { sent: 60, lost_up: n.min(60), ..Sketch::new(0, MINUTE_NS as u64) };
            mesh.add(Pair { agent, peer, class: "voice".into() }, &[sketch]);
        }
        let page = page(&mesh, &MeshFindings::of(&mesh), false);
        assert!(page.contains("Mesh of 150 agents") && page.contains("; 50 more are left out."));
        let matrix =
            page.split("<h2>Who sees whom</h2>").nth(1).and_then(|m| m.split("</table>").next());
        assert_eq!(matrix.map(|matrix| matrix.matches("<tr>").count()), Some(101));
        assert!(page.len() < 4 << 20, "{} bytes", page.len());
    }
}
