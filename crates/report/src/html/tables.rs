//! The page's tables of results. Each scrolls within itself where a screen is narrow.

use super::markup::{cell, details, escape, figure, head, head_of_figures, row_name, scrolling};
use crate::analysis::{EchoResult, OwnTime, Results, Spread, StreamResult, Summary};
use crate::layout::{MINORITY, TableLayout};
use quell_model::{CellId, Manifest};
use std::collections::BTreeMap;

pub(super) fn summary(
    m: &Manifest,
    results: &Results,
    summary: &Summary,
    published: &BTreeMap<String, String>,
) -> String {
    let layout = TableLayout::of(m, results, summary);
    let told: String =
        results.summaries.iter().map(|said| format!("<p>{}</p>\n", escape(said))).collect();
    if layout.is_empty() {
        return if told.is_empty() { "<p>Nothing was measured.</p>\n".to_owned() } else { told };
    }
    let with_published = layout.rows.iter().any(|r| published.contains_key(&r.scenario));
    let mut heads = vec![head("Scenario")];
    heads.extend(layout.has_streams().then(|| head("Stream")));
    heads.extend(layout.has_ways().then(|| head("Way")));
    heads.extend(layout.columns.iter().map(|column| {
        let from = column.from.as_ref().map_or(String::new(), |from| format!("{from}, "));
        head_of_figures(&format!("{} {}", column.name, column.of), &(from + column.unit))
    }));
    heads.extend(with_published.then(|| head("Published")));
    let rows = layout.rows.iter().map(|row| {
        let mut cells = vec![row_name(&row.scenario)];
        cells.extend(row.stream_name().map(|name| cell("", &name)));
        let way = || cell("", row.way.as_deref().unwrap_or("–"));
        cells.extend(layout.has_ways().then(way));
        cells.extend(row.cells.iter().map(|value| match value {
            Some(value) => figure(value.figure(), value.interval()),
            None => figure("–".to_owned(), None),
        }));
        let note = || cell("note", published.get(&row.scenario).map_or("", String::as_str));
        cells.extend(with_published.then(note));
        cells
    });
    let mut caption = match m.repeats() {
        1 => "By scenario, one repeat".to_owned(),
        n => format!("By scenario, {}", layout.over(n)),
    };
    let minority = layout.has_minorities().then(|| MINORITY.to_owned());
    for said in minority.into_iter().chain(layout.of_pages(m)) {
        caption = format!("{caption}. {said}");
    }
    scrolling(&caption, &heads, rows)
}

/// What loads carried together each way, where the table above has a row for each flow.
pub(super) fn loads(m: &Manifest, results: &Results, summary: &Summary) -> String {
    if !TableLayout::of(m, results, summary).has_streams() || summary.loads.is_empty() {
        return String::new();
    }
    let heads = [head("Scenario"), head("Way"), head_of_figures("all loads", "Mbit/s")];
    let rows = summary.loads.iter().map(|row| {
        let ends = row.carried_mbps.interval.and_then(|ends| ends.low.zip(ends.high));
        let beside = match row.probe == CellId::TOGETHER {
            true => String::new(),
            false => format!(" <small>beside {}</small>", escape(&row.probe)),
        };
        let way = escape(row.way.as_deref().unwrap_or("not known"));
        vec![
            row_name(&row.scenario),
            format!("<td>{way}{beside}</td>"),
            figure(
                format!("{:.3}", row.carried_mbps.value),
                ends.map(|(low, high)| format!("{low:.3}–{high:.3}")),
            ),
        ]
    });
    scrolling("What loads carried in each direction", &heads, rows)
}

/// The claims of the experiment, and whether they held.
pub(super) fn expectations(m: &Manifest) -> String {
    if m.expectations.is_empty() {
        return String::new();
    }
    let rows = m.expectations.iter().map(|e| {
        let (class, word) = if e.held { ("held", "✓ held") } else { ("failed", "✗ failed") };
        let claim = format!("<td class=\"claim\"><code>{}</code></td>", escape(&e.claim));
        vec![claim, cell(class, word), cell("", &e.found)]
    });
    let heads = ["Expectation", "Result", "Found"].map(head);
    let caption = "What the experiment file expects, and what was found";
    format!("<h3 id=\"expectations\">Expectations</h3>\n{}", scrolling(caption, &heads, rows))
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
    let of = |is: fn(&StreamResult) -> bool| results.rows.iter().filter(|r| is(r)).collect();
    let echoes: Vec<&StreamResult> = of(|r| r.echo().is_some());
    let flows: Vec<&StreamResult> = of(|r| r.flow().is_some());
    let both = [
        (echoes, "Streams of packets that are answered"),
        (flows, "Flows of data, probes and loads"),
    ];
    let tables = both.into_iter().filter(|(rows, _)| !rows.is_empty());
    let tables: String = tables.map(|(rows, caption)| stream_rows(caption, &rows)).collect();
    match tables.is_empty() {
        true => tables,
        false => details("Every stream of every measurement", &tables),
    }
}

fn stream_rows(caption: &str, rows: &[&StreamResult]) -> String {
    let shown: Vec<&StreamColumn> =
        STREAM_COLUMNS.iter().filter(|(_, of)| rows.iter().any(|r| of(r).is_some())).collect();
    let mut heads = ["Scenario", "Probe", "Stream"].map(head).to_vec();
    heads.push(head_of_figures("Repeat", ""));
    heads.extend(shown.iter().map(|(name, _)| head_of_figures(name, "")));
    let rows = rows.iter().map(|row| {
        let id = &row.cell;
        let mut cells = vec![row_name(&id.scenario), cell("", &id.probe), cell("", &row.stream)];
        cells.push(figure(id.repeat.to_string(), None));
        let value = |of: fn(&StreamResult) -> Option<String>| of(row).unwrap_or("–".to_owned());
        cells.extend(shown.iter().map(|(_, of)| figure(value(*of), None)));
        cells
    });
    scrolling(caption, &heads, rows)
}
