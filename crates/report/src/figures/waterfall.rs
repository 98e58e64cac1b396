//! What a page waited for: a row for each request of one load, from when the page asked for it to its last byte.

use super::common::{Made, PageWidth, Subject, distinct, source};
use crate::analysis::PageResult;
use crate::layout::NETWORK_SHARE;
use quell_chart::{Axis, Figure, Mark, Panel, Spans};
use quell_model::page::{PageEnd, PageLoad, PageRequest};

/// What a request waits for, and how long it did in milliseconds.
type RequestPhase = (&'static str, fn(&PageRequest) -> Option<f64>);

const STEPS: [RequestPhase; 6] = [
    ("queue", |r| r.queued_ms),
    ("DNS", |r| r.dns_ms),
    ("connect", |r| r.connect_ms),
    ("TLS", |r| r.tls_ms),
    ("wait", |r| r.wait_ms),
    ("receive", |r| r.receive_ms),
];

/// The first load that came of each scenario: scenario, stream, load, and how many there are.
fn loads(subject: Subject) -> Vec<(String, String, PageLoad, usize)> {
    let mut found: Vec<(String, String, PageLoad, usize)> = Vec::new();
    for (record, data) in subject.run.iter() {
        for (stream, pages) in PageResult::of_all(data) {
            let scenario = &record.id.scenario;
            let known = found.iter().any(|(s, name, ..)| s == scenario && *name == stream);
            let has_all =
                |load: &&PageLoad| load.end == PageEnd::Loaded && !load.requests.is_empty();
            let loaded = pages.loads.iter().find(has_all);
            if let (Some(load), false) = (loaded, known) {
                found.push((scenario.clone(), stream, load.clone(), pages.loads.len()));
            }
        }
    }
    found
}

pub(super) fn streams_of(subject: Subject) -> Vec<String> {
    distinct(loads(subject).iter().map(|(_, stream, ..)| stream))
}

pub(super) fn figure(subject: Subject, shape: PageWidth) -> Made {
    let (run, title) = (subject.run, "What a page waited for");
    let all = loads(subject);
    let Some((_, stream, ..)) = all.first() else {
        return Err("No page load that came to its end was recorded in this run.".to_owned());
    };
    // More can't be read: neither loads, nor rows of one.
    let left_out = match all.len().saturating_sub(2) {
        0 => String::new(),
        n => format!(" {n} more scenarios are left out; --scenarios names some."),
    };
    let shown = &all[..all.len().min(2)];
    let last =
        shown.iter().flat_map(|(_, _, load, _)| load.requests.iter().map(end)).fold(1.0, f64::max);
    let share = match run.manifest.kernel.virtual_time {
        true => format!(" Times are {NETWORK_SHARE}."),
        false => String::new(),
    };
    let mut height = 130;
    let mut figure = Figure::new(title)
        .subtitle(format!(
            "Stream {stream}: the requests of the first load of each scenario, in the order in which the page asked for them"
        ))
        .note(format!(
            "{}. queue: in the browser, as for a free connection; wait: until the answer's first byte; what a connection needed is drawn where it was made.{share}{left_out}",
            source(&run.manifest)
        ));
    for (scenario, _, load, of) in shown {
        let requests = &load.requests[..load.requests.len().min(120)];
        height += 90 + 13 * requests.len() as u32;
        figure = figure.panel(panel(scenario, load, requests, *of, last, shape));
    }
    Ok(figure.size(shape.width(980), height))
}

fn panel(
    scenario: &str,
    load: &PageLoad,
    requests: &[PageRequest],
    of: usize,
    last: f64,
    shape: PageWidth,
) -> Panel {
    let names =
        requests.iter().map(|r| short(&r.url, if shape == PageWidth::Narrow { 16 } else { 44 }));
    let total = load.load_ms.map_or(String::new(), |ms| format!(", all there after {ms:.1} ms"));
    let more = match load.requests.len() - requests.len() {
        0 => String::new(),
        n => format!(" ({n} more are left out)"),
    };
    let count = if of > 1 { format!(", first of {of} loads") } else { String::new() };
    let all = load.requests.len();
    // Two lines at most, in whatever font there is.
    let title = match (shape, load.load_ms) {
        (PageWidth::Narrow, Some(ms)) => format!("{scenario}: {all} requests{more} in {ms:.1} ms"),
        _ => format!("{scenario}: {all} requests{more}{total}{count}"),
    };
    let x = Axis::linear("Time from the start of the load").unit("ms").from(0.0).to(last * 1.02);
    let mut panel = Panel::new(x, Axis::categories("", names)).title(title);
    let mut from: Vec<f64> = requests.iter().map(|r| r.start_ms).collect();
    for (name, step) in STEPS {
        let mut spans = Vec::new();
        for (row, (request, from)) in requests.iter().zip(&mut from).enumerate() {
            if let Some(took) = step(request).filter(|took| *took > 0.0) {
                spans.push((row, *from, *from + took));
                *from += took;
            }
        }
        if !spans.is_empty() {
            panel = panel.mark(Spans::new(name, spans));
        }
    }
    let marks = [("document", load.doc_ms), ("paint", load.paint_ms), ("all there", load.load_ms)];
    panel.marks(marks.into_iter().filter_map(|(name, at)| Some(Mark::event(at?, name))))
}

fn end(request: &PageRequest) -> f64 {
    let steps: f64 = STEPS.iter().filter_map(|(_, step)| step(request)).sum();
    request.end_ms.unwrap_or(0.0).max(request.start_ms + steps)
}

/// Host and path, the middle left out where that is long.
fn short(url: &str, most: usize) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let count = rest.chars().count();
    if count <= most {
        return rest.to_owned();
    }
    let keep = most - 1;
    let head: String = rest.chars().take(keep / 3).collect();
    let tail: String = rest.chars().skip(count - (keep - keep / 3)).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_long_address_keeps_its_host_and_its_end() {
        assert_eq!(short("https://page.test/a.css?v=1", 44), "page.test/a.css");
        let long = short("https://static.example.org/images/a/b/c/d/picture-17.webp", 30);
        assert!(long.starts_with("static.ex…") && long.ends_with("picture-17.webp"), "{long}");
        assert_eq!(long.chars().count(), 30);
    }
}
