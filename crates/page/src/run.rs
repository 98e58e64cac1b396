//! Each page loaded as often as it was asked for, then the browser's scripts timed: what comes is handed to who watches, and kept.
//!
//! ```text
//!   PagePlan ──► browser ──► each page: cold, warm, cold … ──┬─► PageSink
//!                   │                                        ├─► Keep: a load is a fact of its page's stream
//!                   └──────► scripts, with and without JIT ──┴─► PageReport
//! ```

use crate::browser::{Browser, BrowserOptions, is_without_sandbox};
use crate::limits::LIMITS;
use crate::load::PageRequest;
use crate::script::{Score, score};
use crate::{PageError, PagePlan};
use quell_model::page::{HttpVersion, PageEnd, PageLoad};
use quell_model::{Event, Fact, Subject, Told, When};
use quell_store::{About, End, Keep, Origin, StoreError, command_line};
use quell_sys::clock::{is_virtual, monotonic_ns};
use quell_sys::wait::Bell;
use quell_wire::text::printable;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub trait PageSink {
    /// What it is measured with; no page yet.
    fn begin(&mut self, report: &PageReport);
    fn page(&mut self, url: &str);
    fn load(&mut self, load: &PageLoad);
    fn page_end(&mut self, loads: &[PageLoad]);
}

#[derive(Debug, Serialize)]
pub struct PageReport {
    pub browser: String,
    pub sandbox: bool,
    #[serde(rename = "virtual_time")]
    pub is_virtual: bool,
    pub no_jit: bool,
    pub insecure: bool,
    pub http: Option<HttpVersion>,
    pub pages: Vec<PageSeries>,
    pub scripts: Option<ScriptSpeed>,
    pub error: Option<String>,
    pub run: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
pub struct PageSeries {
    pub url: String,
    #[serde(serialize_with = "documents")]
    pub loads: Vec<PageLoad>,
}

/// How fast the browser's scripts are: as it loaded pages, and without its compiler.
#[derive(Debug, Serialize)]
pub struct ScriptSpeed {
    #[serde(serialize_with = "of_score")]
    pub with_compiler: Score,
    #[serde(serialize_with = "of_score")]
    pub without_compiler: Score,
}

impl PageReport {
    /// Whether there is a load, and each came to its end.
    pub fn is_fine(&self) -> bool {
        let all = || self.pages.iter().flat_map(|page| &page.loads);
        all().next().is_some() && all().all(|load| load.end == PageEnd::Loaded)
    }
}

/// Loads the pages; kept as a run under `base` where there is one.
pub fn run(
    plan: &PagePlan,
    base: Option<&Path>,
    stop: &Bell,
    sink: &mut dyn PageSink,
) -> Result<PageReport, PageError> {
    let options = plan.options()?;
    let mut browser = Browser::start(&options, stop)?;
    let mut report = PageReport {
        browser: browser.version.clone(),
        sandbox: !is_without_sandbox(),
        is_virtual: is_virtual(),
        no_jit: plan.no_jit,
        insecure: plan.insecure,
        http: plan.http,
        pages: Vec::new(),
        scripts: None,
        error: None,
        run: None,
    };
    let mut keep = base.map(|base| begin(base, &report.browser)).transpose()?;
    let origin_ns = monotonic_ns();
    sink.begin(&report);
    let mut ended = Ok(());
    for url in &plan.urls {
        sink.page(url);
        let mut loads = Vec::new();
        ended = series(&mut browser, url, plan, origin_ns, stop, &mut |load| {
            sink.load(&load);
            let kept = keep.as_mut().map_or(Ok(()), |keep| keep.event(&told(url, &load)));
            loads.push(load);
            kept.map_err(PageError::from)
        });
        sink.page_end(&loads);
        report.pages.push(PageSeries { url: url.clone(), loads });
        if ended.is_err() {
            break;
        }
    }
    drop(browser);
    if plan.scripts && !report.is_virtual && ended.is_ok() && !stop.rings() {
        ended = scripts(&options, stop).map(|speed| report.scripts = Some(speed));
    }
    report.error = match ended {
        Ok(()) | Err(PageError::Stopped) => None,
        Err(PageError::Store(why)) => return Err(PageError::Store(why)),
        Err(error) => Some(error.to_string()),
    };
    let end = End::of(report.error.as_deref(), stop.rings());
    report.run = keep.map(|keep| keep.finish(end)).transpose()?;
    Ok(report)
}

/// Loads one page as often as it was asked for. A load in which the browser crashes or hangs is one that failed: a page can make it do that, and
/// the next has another browser.
fn series(
    browser: &mut Browser,
    url: &str,
    plan: &PagePlan,
    origin_ns: u64,
    stop: &Bell,
    each: &mut dyn FnMut(PageLoad) -> Result<(), PageError>,
) -> Result<(), PageError> {
    for number in 0..plan.count {
        let context = browser.context(stop)?;
        for warm in if plan.warm { &[false, true][..] } else { &[false] } {
            let deadline_ns = monotonic_ns().saturating_add(plan.timeout.nanos());
            let wanted = PageRequest { url, number, warm: *warm, deadline_ns, origin_ns };
            each(match browser.load(&context, wanted, stop) {
                Err(
                    error
                    @ (PageError::Gone(_) | PageError::Silent { .. } | PageError::Nonsense(_)),
                ) => wanted.failed(error.to_string()),
                load => load?,
            })?;
        }
    }
    Ok(())
}

fn scripts(options: &BrowserOptions, stop: &Bell) -> Result<ScriptSpeed, PageError> {
    let with_compiler = score(options, stop)?;
    let without_compiler = score(&BrowserOptions { jitless: true, ..options.clone() }, stop)?;
    Ok(ScriptSpeed { with_compiler, without_compiler })
}

fn begin(base: &Path, browser: &str) -> Result<Keep, StoreError> {
    let about = About {
        name: "page".into(),
        // One for all, so that runs with other options are held against each other.
        scenario: "page".into(),
        title: format!("{} by {browser}", command_line()),
        task: "page".into(),
        clock: "CLOCK_MONOTONIC".into(),
        // Nothing of it is random but what the browser makes so.
        seed: 1,
        window_ns: None,
        origin: Origin::Here(Duration::ZERO),
    };
    Keep::begin(base, &about)
}

/// A load as an event: `stream/ADDRESS/page-load`, as those of an experiment's probe.
fn told(url: &str, load: &PageLoad) -> Event {
    let stream = stream_name(url, load.warm);
    let value = serde_json::to_string(load).expect("a load is JSON: numbers, texts and lists");
    Fact::new(When::During, Subject::stream(stream, Told::PageLoad), value).into()
}

/// The stream of a page's loads, of warm ones another: as short as tables want it, and no two pages' the same.
fn stream_name(url: &str, warm: bool) -> String {
    let url = url.strip_prefix("https://").unwrap_or(url);
    let url = printable(url.strip_suffix('/').unwrap_or(url), LIMITS.name);
    if warm { format!("warm {url}") } else { url }
}

/// Loads, each with its end in two keys and its sums.
fn documents<S: Serializer>(loads: &[PageLoad], to: S) -> Result<S::Ok, S::Error> {
    let document = |load: &PageLoad| {
        let mut value = serde_json::to_value(load).unwrap_or_default();
        let (end, why) = match &load.end {
            PageEnd::Loaded => ("loaded", Value::Null),
            PageEnd::TimedOut => ("timed-out", Value::Null),
            PageEnd::Unfinished => ("unfinished", Value::Null),
            PageEnd::Failed(_) => ("failed", load.end.why().into()),
            PageEnd::Answered(_) => ("error-status", load.end.why().into()),
        };
        value["end"] = end.into();
        value["why"] = why;
        value["failed_requests"] = load.failed_requests().count().into();
        value["bytes"] = load.bytes().into();
        value["network_ms"] = load.network_ms().into();
        value
    };
    to.collect_seq(loads.iter().map(document))
}

fn of_score<S: Serializer>(score: &Score, to: S) -> Result<S::Ok, S::Error> {
    let kernels: serde_json::Map<String, Value> =
        score.kernels.iter().map(|(name, runs)| (name.clone(), (*runs).into())).collect();
    json!({ "runs_per_s": score.score, "kernels": kernels }).serialize(to)
}

#[cfg(test)]
mod tests {
    use super::stream_name;

    #[test]
    fn a_page_goes_by_its_address_and_without_tls_that_is_said() {
        assert_eq!(stream_name("https://example.org/", false), "example.org");
        assert_eq!(stream_name("https://example.org", true), "warm example.org");
        assert_eq!(stream_name("http://example.org/a/", false), "http://example.org/a");
    }
}
