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
use quell_grade::{Assessment, LoadedDelay};
use quell_model::page::{HttpVersion, PageEnd, PageLoad};
use quell_model::{Event, Fact, Subject, Told, When};
use quell_stats::Sample;
use quell_store::{About, End, Keep, Origin, StoreError, command_line};
use quell_sys::clock::{is_virtual, monotonic_ns};
use quell_sys::wait::Bell;
use quell_units::fmt;
use quell_wire::text::printable;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
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
    /// How well a call, a game and a page work beside the pages' own load; none of too few connections.
    pub grade: Option<Assessment>,
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

    /// What is said first, a sentence each.
    pub fn opening(&self) -> Vec<String> {
        let grade = self.grade.as_ref().map(Assessment::said);
        grade.into_iter().chain(self.pages.iter().filter_map(PageSeries::opening)).collect()
    }
}

impl PageSeries {
    /// How long it took, or why it was never there; none where nobody loaded it.
    fn opening(&self) -> Option<String> {
        let url = printable(&self.url, LIMITS.name);
        let cold = || self.loads.iter().filter(|load| !load.warm && load.end == PageEnd::Loaded);
        let median =
            |of: fn(&PageLoad) -> Option<f64>| Some(Sample::new(cold().filter_map(of))?.median());
        let Some(took) = median(|load| load.load_ms) else {
            let failed = fmt::plural(self.loads.len() as u64, "load");
            let why = self.loads.iter().rev().find_map(|load| load.end.why())?;
            let why = printable(&why, 2 * LIMITS.name);
            return Some(format!("{url} was never there in {failed}: {why}."));
        };
        let network = median(PageLoad::network_ms)
            .map_or_else(String::new, |ms| format!(", {} of it for the network", fmt::ms(ms)));
        let loads = match cold().count() {
            1 => String::new(),
            count => format!(" (median of {count} loads)"),
        };
        Some(format!("{url} is there after {}{network}{loads}.", fmt::ms(took)))
    }
}

/// By how much longer connections take beside the pages' own load than the quickest to the same host.
fn grade(pages: &[PageSeries]) -> Option<Assessment> {
    let loads = || pages.iter().flat_map(|page| &page.loads);
    let connects =
        |load: &PageLoad| load.requests.iter().filter(|r| r.connect_ms.is_some()).count();
    let mut hosts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for request in loads().flat_map(|load| &load.requests) {
        let host = request.url.split('/').nth(2).unwrap_or_default();
        hosts.entry(host).or_default().extend(request.connect_ms);
    }
    let least = |times: &Vec<f64>| times.iter().copied().fold(f64::INFINITY, f64::min);
    let idle_ms = Sample::new(hosts.values().map(least).filter(|ms| ms.is_finite()))?.median();
    let added = hosts.values().flat_map(|times| times.iter().map(|ms| ms - least(times)));
    let added = Sample::new(added)?;
    let seconds =
        Sample::new(loads().filter_map(|load| load.load_ms)).map_or(0.0, |ms| ms.median() / 1e3);
    Assessment::of(&LoadedDelay {
        idle_ms,
        p50_ms: idle_ms + added.median(),
        p95_ms: idle_ms + added.quantile(0.95)?,
        // A handshake that was lost comes a second later.
        loss: 0.0,
        least_loss: 0.0,
        jitter_ms: None,
        samples: added.count(),
        load: "beside the page's own load".into(),
        connections: loads().map(connects).max().unwrap_or(0) as u32,
        seconds,
    })
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
        grade: None,
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
    report.grade = grade(&report.pages);
    if plan.scripts && !report.is_virtual && ended.is_ok() && !stop.rings() {
        ended = scripts(&options, stop).map(|speed| report.scripts = Some(speed));
    }
    report.error = match ended {
        Ok(()) | Err(PageError::Stopped) => None,
        Err(PageError::Store(why)) => return Err(PageError::Store(why)),
        Err(error) => Some(error.to_string()),
    };
    let end = End::of(report.error.as_deref(), stop.rings());
    if let Some(mut keep) = keep {
        keep.headline(report.opening());
        report.run = Some(keep.finish(end)?);
    }
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
    use super::*;
    use quell_model::page::PageRequest;

    #[test]
    fn connections_beside_the_pages_load_are_graded_against_the_quickest_of_their_host() {
        let pages = |added: f64, each: usize| {
            let request = |n: usize| PageRequest {
                url: format!(
                    "https://{}.test/{n}",
                    if n.is_multiple_of(2) { "near" } else { "far" }
                ),
                connect_ms: Some(
                    if n.is_multiple_of(2) { 5.0 } else { 80.0 } + if n > 1 { added } else { 0.0 },
                ),
                ..PageRequest::default()
            };
            let load = PageLoad {
                number: 0,
                warm: false,
                t_ns: 0,
                end: PageEnd::Loaded,
                doc_ms: None,
                paint_ms: None,
                fcp_ms: None,
                lcp_ms: None,
                load_ms: Some(2000.0),
                moved: Vec::new(),
                requests: (0..each).map(request).collect(),
            };
            [PageSeries { url: "https://near.test/".into(), loads: vec![load] }]
        };
        let graded = |added, each| grade(&pages(added, each)).map(|grade| grade.sentence);
        assert_eq!(graded(0.4, 19), None, "too few");
        let good = graded(0.4, 60).expect("enough of them");
        assert!(
            good.starts_with("Calls, games and pages work beside the page's own load"),
            "{good}"
        );
        let bad = graded(450.0, 60).expect("enough of them");
        assert!(bad.contains("break") && bad.contains("450 ms added"), "{bad}");
        assert!(pages(0.4, 60)[0].opening().is_some_and(|told| told.contains("is there after")));
        let mut never = pages(0.4, 60);
        never[0].loads[0] = PageLoad {
            end: PageEnd::Failed("net::ERR_CONNECTION_REFUSED".into()),
            load_ms: None,
            ..never[0].loads[0].clone()
        };
        assert_eq!(
            never[0].opening().as_deref(),
            Some("https://near.test/ was never there in 1 load: net::ERR_CONNECTION_REFUSED.")
        );
    }

    #[test]
    fn a_page_goes_by_its_address_and_without_tls_that_is_said() {
        assert_eq!(stream_name("https://example.org/", false), "example.org");
        assert_eq!(stream_name("https://example.org", true), "warm example.org");
        assert_eq!(stream_name("http://example.org/a/", false), "http://example.org/a");
    }
}
