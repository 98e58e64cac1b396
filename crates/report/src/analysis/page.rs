//! Page loads in figures: of the loads of one stream in one cell, their means.

use quell_model::page::{PageEnd, PageLoad};
use quell_model::{Subject, Told};
use quell_stats::{mean, sd};
use quell_store::CellData;
use std::collections::{BTreeMap, HashMap};

/// What the page loads of one stream showed in one cell. Times are means in milliseconds over the loads that came so far; none where
/// none did.
#[derive(Debug, Clone, PartialEq)]
pub struct PageResult {
    /// The loads, in their order; without those that the measurement's end cut.
    pub loads: Vec<PageLoad>,
    pub loaded: u64,
    pub doc_ms: Option<f64>,
    pub paint_ms: Option<f64>,
    /// Until a first text or picture was painted.
    pub fcp_ms: Option<f64>,
    /// Until the largest text or picture was painted.
    pub lcp_ms: Option<f64>,
    pub load_ms: Option<f64>,
    /// Standard deviation of these; none of one load.
    pub load_sd_ms: Option<f64>,
}

impl PageResult {
    /// The streams of a cell that loaded pages, in the order of their first loads. What is no load, as of another version, is left.
    pub fn of_all(data: &CellData) -> Vec<(String, Self)> {
        let mut streams: Vec<(String, Vec<PageLoad>)> = Vec::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        for fact in &data.facts {
            let Subject::Stream(stream, Told::PageLoad) = &fact.subject else { continue };
            let Ok(load) = serde_json::from_str::<PageLoad>(&fact.value) else { continue };
            let at = *known.entry(stream).or_insert_with(|| {
                streams.push((stream.clone(), Vec::new()));
                streams.len() - 1
            });
            streams[at].1.push(load);
        }
        streams.into_iter().map(|(name, loads)| (name, Self::of(loads))).collect()
    }

    fn of(mut loads: Vec<PageLoad>) -> Self {
        loads.retain(|load| load.end != PageEnd::Unfinished);
        loads.sort_by_key(|load| load.number);
        // What a page that never came painted on its way is no figure of a page.
        let whole = || loads.iter().filter(|load| load.end == PageEnd::Loaded);
        let over = |of: fn(&PageLoad) -> Option<f64>| whole().filter_map(of).collect::<Vec<f64>>();
        let load_ms = over(|l| l.load_ms);
        Self {
            loaded: whole().count() as u64,
            doc_ms: mean(&over(|l| l.doc_ms)),
            paint_ms: mean(&over(|l| l.paint_ms)),
            fcp_ms: mean(&over(|l| l.fcp_ms)),
            lcp_ms: mean(&over(|l| l.lcp_ms)),
            load_ms: mean(&load_ms),
            load_sd_ms: sd(&load_ms),
            loads,
        }
    }

    pub fn begun(&self) -> u64 {
        self.loads.len() as u64
    }

    /// The part of them that did not come; none of none.
    pub fn loss_ratio(&self) -> Option<f64> {
        let begun = self.begun();
        (begun > 0).then(|| (begun - self.loaded) as f64 / begun as f64)
    }

    /// Answers that came over the network within the loads that came, by their protocol in the word of ALPN.
    pub fn protocols(&self) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        let requests = self.whole().flat_map(|load| &load.requests);
        for request in requests.filter(|r| !r.protocol.is_empty() && !r.from_cache) {
            *counts.entry(&*request.protocol).or_default() += 1;
        }
        counts
    }

    pub fn failed_requests(&self) -> u64 {
        self.whole().map(|load| load.failed_requests().count() as u64).sum()
    }

    fn whole(&self) -> impl Iterator<Item = &PageLoad> {
        self.loads.iter().filter(|load| load.end == PageEnd::Loaded)
    }

    /// What has to be said where pages came without some of what belongs to them.
    pub(super) fn incomplete(&self) -> Option<String> {
        let mut failed = self.whole().flat_map(PageLoad::failed_requests);
        let first = failed.next()?;
        let all = self.whole().map(|load| load.requests.len()).sum::<usize>();
        let (url, trouble) = (&first.url, first.trouble()?);
        let failed = failed.count() + 1;
        Some(format!("{failed} of {all} requests of pages that came failed, as {url}: {trouble}"))
    }

    pub(super) fn missing(&self) -> Option<String> {
        let missing = || self.loads.iter().filter(|load| load.end != PageEnd::Loaded);
        let why = missing().next()?.end.why()?;
        let (missing, begun) = (missing().count(), self.begun());
        Some(format!("{missing} of {begun} page loads did not come to their end: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(number: u32, end: PageEnd, load_ms: Option<f64>) -> PageLoad {
        PageLoad {
            number,
            warm: false,
            t_ns: 0,
            end,
            doc_ms: Some(100.0),
            paint_ms: None,
            fcp_ms: None,
            lcp_ms: None,
            load_ms,
            moved: Vec::new(),
            requests: Vec::new(),
        }
    }

    #[test]
    fn a_page_that_did_not_come_counts_as_missing_and_not_in_the_means() {
        let of = PageResult::of(vec![
            load(0, PageEnd::Loaded, Some(400.0)),
            load(1, PageEnd::TimedOut, None),
            load(2, PageEnd::Loaded, Some(500.0)),
        ]);
        assert_eq!((of.begun(), of.loaded, of.load_ms), (3, 2, Some(450.0)));
        assert!(of.loss_ratio().is_some_and(|part| (part - 1.0 / 3.0).abs() < 1e-9));
        assert!(of.load_sd_ms.is_some_and(|sd| (sd - 5000_f64.sqrt()).abs() < 1e-9), "{of:?}");
        let said = of.missing().expect("one is missing");
        assert_eq!(said, "1 of 3 page loads did not come to their end: its time was over");
    }

    #[test]
    fn an_error_of_the_server_is_no_page() {
        let of = PageResult::of(vec![
            load(0, PageEnd::Answered(404), None),
            load(1, PageEnd::Loaded, Some(500.0)),
        ]);
        assert_eq!((of.begun(), of.loaded, of.load_ms), (2, 1, Some(500.0)));
        let said = of.missing().expect("one is missing");
        assert_eq!(said, "1 of 2 page loads did not come to their end: the server answered 404");
    }

    #[test]
    fn one_that_the_end_of_the_measurement_cut_is_not_counted() {
        let of = PageResult::of(vec![load(0, PageEnd::Unfinished, None)]);
        assert_eq!((of.begun(), of.loss_ratio(), of.load_ms, of.missing()), (0, None, None, None));
    }
}
