//! The page's tables of results. Each scrolls within itself where a screen is narrow.

use super::text::escape;
use crate::analysis::{EchoResult, OwnTime, Results, Spread, StreamResult, Summary};
use crate::layout::{MINORITY, TableLayout};
use quell_model::{CellId, Manifest};
use std::collections::BTreeMap;
use std::fmt::Write;

pub(crate) fn scrolling(caption: &str, table: &str) -> String {
    boxed("wide", caption, table)
}

/// A table each of whose rows is several lines where a screen is narrow. Its figures name their columns (`data-of`).
pub(crate) fn stacking(caption: &str, table: &str) -> String {
    boxed("wide stacks", caption, table)
}

fn boxed(class: &str, caption: &str, table: &str) -> String {
    format!(
        "<div class=\"{class}\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table>\n<caption><span>{0}</span></caption>\n\
         {table}</table>\n</div>\n",
        escape(caption)
    )
}

pub(super) fn summary(
    m: &Manifest,
    results: &Results,
    summary: &Summary,
    published: &BTreeMap<String, String>,
) -> String {
    let layout = TableLayout::of(m, results, summary);
    if layout.rows.iter().all(|r| r.cells.iter().all(Option::is_none)) {
        return "<p>Nothing was measured.</p>\n".to_owned();
    }
    let with_streams = layout.rows.iter().any(|r| r.stream.is_some());
    let with_ways = layout.rows.iter().any(|r| r.way.is_some());
    let with_published = layout.rows.iter().any(|r| published.contains_key(&r.scenario));
    let mut text = "<thead><tr><th scope=\"col\">Scenario</th>".to_owned();
    if with_streams {
        text.push_str("<th scope=\"col\">Stream</th>");
    }
    if with_ways {
        text.push_str("<th scope=\"col\">Way</th>");
    }
    for column in &layout.columns {
        let from = column.from.as_ref().map(|f| format!("{}, ", escape(f))).unwrap_or_default();
        let _ = write!(
            text,
            "<th scope=\"col\" class=\"n\">{} {}<br><small>{from}{}</small></th>",
            column.name,
            escape(&column.of),
            column.unit
        );
    }
    if with_published {
        text.push_str("<th scope=\"col\">Published</th>");
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in &layout.rows {
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", escape(&row.scenario));
        if let Some((probe, stream)) = &row.stream {
            let name = if probe == stream || probe == CellId::TOGETHER {
                stream.clone()
            } else {
                format!("{probe}: {stream}")
            };
            let _ = write!(text, "<td>{}</td>", escape(&name));
        }
        if with_ways {
            let _ = write!(text, "<td>{}</td>", escape(row.way.as_deref().unwrap_or("–")));
        }
        for cell in &row.cells {
            let figure = match cell {
                Some(value) => match value.interval() {
                    Some(interval) => format!("{}<br><small>{interval}</small>", value.figure()),
                    None => value.figure(),
                },
                None => "–".to_owned(),
            };
            let _ = write!(text, "<td class=\"n\">{figure}</td>");
        }
        if with_published {
            let note = published.get(&row.scenario).map(String::as_str).unwrap_or_default();
            let _ = write!(text, "<td class=\"note\">{}</td>", escape(note));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n");
    let marked = layout.rows.iter().flat_map(|r| &r.cells).flatten().any(|v| v.of_a_minority);
    let repeats = m.cells.iter().map(|c| c.id.repeat).max().unwrap_or(0) + 1;
    let caption = match repeats {
        1 => "By scenario, one repeat".to_owned(),
        n => format!("By scenario, {}", layout.over(n)),
    };
    let caption = if marked { format!("{caption}. {MINORITY}") } else { caption };
    let caption = match layout.of_pages(m) {
        Some(said) => format!("{caption}. {said}"),
        None => caption,
    };
    scrolling(&caption, &text)
}

/// What loads carried together each way, where the table above has a row for each flow.
pub(super) fn loads(m: &Manifest, results: &Results, summary: &Summary) -> String {
    let layout = TableLayout::of(m, results, summary);
    if layout.rows.iter().all(|r| r.stream.is_none()) || summary.loads.is_empty() {
        return String::new();
    }
    let mut text = "<thead><tr><th scope=\"col\">Scenario</th><th scope=\"col\">Way</th>\
                    <th scope=\"col\" class=\"n\">all loads<br><small>Mbit/s</small></th></tr></thead>\n<tbody>\n"
        .to_owned();
    for row in &summary.loads {
        let interval = row.carried_mbps.interval.and_then(|i| i.low.zip(i.high));
        let interval = interval
            .map_or(String::new(), |(low, high)| format!("<br><small>{low:.3}–{high:.3}</small>"));
        let beside = match row.probe == CellId::TOGETHER {
            true => String::new(),
            false => format!(" <small>beside {}</small>", escape(&row.probe)),
        };
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{}</th><td>{}{beside}</td><td class=\"n\">{:.3}{interval}</td></tr>",
            escape(&row.scenario),
            escape(row.way.as_deref().unwrap_or("not known")),
            row.carried_mbps.value
        );
    }
    scrolling("What loads carried each way", &(text + "</tbody>\n"))
}

/// The claims of the experiment, and whether they held.
pub(super) fn expectations(m: &Manifest) -> String {
    if m.expectations.is_empty() {
        return String::new();
    }
    let mut text = "<thead><tr><th scope=\"col\">Expectation</th><th scope=\"col\">Result</th>\
                    <th scope=\"col\">Found</th></tr></thead>\n<tbody>\n"
        .to_owned();
    for e in &m.expectations {
        let (class, word) = if e.held { ("held", "✓ held") } else { ("failed", "✗ failed") };
        let _ = writeln!(
            text,
            "<tr><td class=\"claim\"><code>{}</code></td><td class=\"{class}\">{word}</td><td>{}</td></tr>",
            escape(&e.claim),
            escape(&e.found)
        );
    }
    text.push_str("</tbody>\n");
    format!(
        "<h3 id=\"expectations\">Expectations</h3>\n{}",
        scrolling("What the experiment file expects, and what was found", &text)
    )
}

/// A column of the table of streams: its name, and its text for a stream.
type StreamColumn = (&'static str, fn(&StreamResult) -> Option<String>);

const STREAM_COLUMNS: [StreamColumn; 24] = [
    ("sent", |r| r.sent().map(|n| n.to_string())),
    ("received", |r| r.received().map(|n| n.to_string())),
    ("late", |r| r.echo().map(|e| e.counts.received_late.to_string())),
    ("loss, %", |r| {
        let (least, most) = r.loss_range()?;
        let percent = |ratio: f64| format!("{:.2}", ratio * 100.0);
        Some(match least == most {
            true => percent(most),
            false => format!("{} to {}", percent(least), percent(most)),
        })
    }),
    ("unsure", |r| r.echo().map(|e| e.counts.unsure).filter(|n| *n > 0).map(|n| n.to_string())),
    ("not sent", |r| r.echo().map(|e| e.counts.not_sent).filter(|n| *n > 0).map(|n| n.to_string())),
    ("lost up / down", |r| r.lost_ways().map(|(up, down)| format!("{up} / {down}"))),
    ("duplicates", |r| r.echo().map(|e| e.counts.duplicates.to_string())),
    ("reordered up / down", |r| {
        let count = |n: Option<u64>| n.map_or("–".to_owned(), |n| n.to_string());
        r.echo().map(|e| format!("{} / {}", count(e.reordered_up), count(e.reordered_down)))
    }),
    ("errors", |r| r.echo().map(|e| e.counts.errors.to_string())),
    ("jitter up / down, ms", |r| {
        let (up, down) = (r.echo()?.jitter_up_ms?, r.echo()?.jitter_down_ms?);
        Some(format!("{up:.3} / {down:.3}"))
    }),
    ("jitter of the RTT, ms", |r| r.echo()?.jitter_rtt_ms.map(|j| format!("{j:.3}"))),
    ("IPDV p99, ms", |r| r.echo()?.ipdv_ms.as_ref().map(|s| format!("{:.3}", s.p99))),
    ("RTT min / p50 / p99 / max, ms", |r| rtt_times(r.echo()?)),
    ("page doc / paint / FCP / LCP / total / sd, ms", |r| {
        let p = r.pages.as_ref()?;
        let of = [p.doc_ms, p.paint_ms, p.fcp_ms, p.lcp_ms, p.load_ms, p.load_sd_ms];
        let of = of.map(|ms| ms.map_or("–".to_owned(), |ms| format!("{ms:.1}")));
        Some(of.join(" / "))
    }),
    ("up min / p50 / p99 / max, ms", |r| r.echo()?.up_ms.as_ref().map(times)),
    ("down min / p50 / p99 / max, ms", |r| r.echo()?.down_ms.as_ref().map(times)),
    ("way", |r| r.flow()?.way.clone()),
    ("goodput, Mbit/s", |r| r.flow()?.goodput_mbps.map(|g| format!("{g:.3}"))),
    ("of its time, s", |r| match r.flow()?.time {
        OwnTime::Whole => Some("all".to_owned()),
        OwnTime::Part(from, to) => Some(format!("{from:.1} to {to:.1}")),
        OwnTime::Never => Some("none".to_owned()),
    }),
    ("share of its way, %", |r| r.flow()?.share.map(|s| format!("{:.1}", s * 100.0))),
    ("CPU, ms/MB", |r| r.flow()?.cpu_ms_per_mb.map(|ms| format!("{ms:.3}"))),
    ("retransmits", |r| r.flow()?.retransmits.map(|n| n.to_string())),
    ("held back by its own queue", |r| {
        let held_back = r.flow()?.held_back?;
        Some(format!("{} for {:.1} s", held_back.packets, held_back.ns as f64 / 1e9))
    }),
];

/// What is not known exactly as `≥410.000 ≤838.000`.
fn rtt_times(echo: &EchoResult) -> Option<String> {
    let figures: [fn(&Spread) -> f64; 4] = [|s| s.min, |s| s.p50, |s| s.p99, |s| s.max];
    let shown = figures.map(|of| {
        let (least, most) = echo.rtt_range(of)?;
        Some(match least == most {
            true => format!("{least:.3}"),
            false if most.is_infinite() => format!("≥{least:.3}"),
            false => format!("≥{least:.3} ≤{most:.3}"),
        })
    });
    let shown: Option<Vec<String>> = shown.into_iter().collect();
    Some(shown?.join(" / "))
}

fn times(s: &Spread) -> String {
    format!("{:.3} / {:.3} / {:.3} / {:.3}", s.min, s.p50, s.p99, s.max)
}

/// Every stream of every measurement, loads included. Columns that no stream has are left out.
pub(super) fn streams(results: &Results) -> String {
    if results.rows.is_empty() {
        return String::new();
    }
    let (mut echoes, mut flows) = (Vec::new(), Vec::new());
    for row in &results.rows {
        if row.echo().is_some() {
            echoes.push(row);
        }
        if row.flow().is_some() {
            flows.push(row);
        }
    }
    let mut text = "<details>\n<summary>Every stream of every measurement</summary>\n".to_owned();
    for (rows, caption) in [
        (echoes, "Streams of packets that are answered"),
        (flows, "Flows of data, probes and loads"),
    ] {
        if !rows.is_empty() {
            text += &scrolling(caption, &stream_rows(&rows));
        }
    }
    text + "</details>\n"
}

fn stream_rows(rows: &[&StreamResult]) -> String {
    let shown: Vec<&StreamColumn> =
        STREAM_COLUMNS.iter().filter(|(_, of)| rows.iter().any(|r| of(r).is_some())).collect();
    let mut text = "<thead><tr><th scope=\"col\">Scenario</th><th scope=\"col\">Probe</th>\
                    <th scope=\"col\">Stream</th><th scope=\"col\" class=\"n\">Repeat</th>"
        .to_owned();
    for (name, _) in &shown {
        let _ = write!(text, "<th scope=\"col\" class=\"n\">{name}</th>");
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        let _ = write!(
            text,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"n\">{}</td>",
            escape(&row.cell.scenario),
            escape(&row.cell.probe),
            escape(&row.stream),
            row.cell.repeat
        );
        for (_, of) in &shown {
            let _ =
                write!(text, "<td class=\"n\">{}</td>", escape(&of(row).unwrap_or("–".to_owned())));
        }
        text.push_str("</tr>\n");
    }
    text + "</tbody>\n"
}
