//! A page load as a browser saw it. Travels as the JSON text of a fact (`stream/NAME/page-load`), one a load.

use serde::{Deserialize, Serialize};

/// One load of a page. Times are milliseconds from its start (Navigation Timing, `navigationStart`), unless they say otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageLoad {
    /// Its number in its series, from 0.
    pub number: u32,
    /// Whether the browser had loaded the page before and kept what it may keep.
    pub warm: bool,
    /// When it began: nanoseconds since the start of the measurement.
    pub t_ns: i64,
    /// How it ended.
    pub end: PageEnd,
    /// When the document was read and parsed: the end of `DOMContentLoaded`.
    pub doc_ms: Option<f64>,
    /// When anything was painted (Paint Timing).
    pub paint_ms: Option<f64>,
    /// When a first text or picture was painted (Paint Timing).
    pub fcp_ms: Option<f64>,
    /// When the largest text or picture was painted (Largest Contentful Paint).
    pub lcp_ms: Option<f64>,
    /// When all was there: the end of the `load` event.
    pub load_ms: Option<f64>,
    /// Where it went by itself, by a script or a `meta refresh`: the marks are those of the last document, and count from the start of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<PageMove>,
    /// What was asked for, in the order in which it was.
    pub requests: Vec<PageRequest>,
}

impl PageLoad {
    /// Bytes that came over the network, with heads.
    pub fn bytes(&self) -> u64 {
        self.requests.iter().map(|r| r.bytes).sum()
    }

    /// For how long, until all was there, something was waited for from the network, in milliseconds: what is left of the load is the
    /// browser's own work. None of a load that did not come to its end.
    pub fn network_ms(&self) -> Option<f64> {
        let until = self.load_ms?;
        let mut spans: Vec<(f64, f64)> = self
            .requests
            .iter()
            .filter(|r| !r.from_cache)
            .map(|r| (r.start_ms.min(until), r.end_ms.unwrap_or(until).min(until)))
            .collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut sum, mut reached) = (0.0, 0.0_f64);
        for (from, to) in spans {
            sum += (to - from.max(reached)).max(0.0);
            reached = reached.max(to);
        }
        Some(sum)
    }

    /// Requests that the browser's cache answered.
    pub fn from_cache(&self) -> usize {
        self.requests.iter().filter(|r| r.from_cache).count()
    }
}

/// A page that goes elsewhere by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageMove {
    /// When, in milliseconds from the load's start.
    pub at_ms: f64,
    /// Where it went, cut where it is very long.
    pub url: String,
}

/// How a page load ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageEnd {
    /// All was there.
    Loaded,
    /// Time was over; what is known is of what came until then.
    TimedOut,
    /// The measurement was over before its time was.
    Unfinished,
    /// The browser could not load it; its words.
    Failed(String),
}

/// One request of a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageRequest {
    /// The whole address, cut where it is very long.
    pub url: String,
    /// What it is to the page, in the browser's word: `Document`, `Script`, `Image` …
    pub kind: String,
    /// The protocol in the word of ALPN (`http/1.1`, `h2`, `h3`); empty where no answer came.
    pub protocol: String,
    /// The answer's status; none where none came.
    pub status: Option<u16>,
    /// When the page asked for it.
    pub start_ms: f64,
    /// How long it stood in the browser's own queue, as for a free connection.
    pub queued_ms: Option<f64>,
    /// How long the name took; none where it was known or a connection was there.
    pub dns_ms: Option<f64>,
    /// How long the connection took, without TLS; none where one was there.
    pub connect_ms: Option<f64>,
    /// How long TLS took.
    pub tls_ms: Option<f64>,
    /// From the request to the answer's first byte.
    pub wait_ms: Option<f64>,
    /// From the answer's first byte to its last.
    pub receive_ms: Option<f64>,
    /// When its last byte was there, or it failed.
    pub end_ms: Option<f64>,
    /// Bytes that came over the network, with the head.
    pub bytes: u64,
    /// Whether the browser's cache answered.
    pub from_cache: bool,
    /// Why it failed, in the browser's words.
    pub failed: Option<String>,
}
