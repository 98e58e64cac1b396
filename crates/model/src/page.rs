//! A page load as a browser saw it. Travels as the JSON text of a fact (`stream/NAME/page-load`), one a load.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.1 (RFC 9112).
    #[default]
    #[serde(rename = "1.1")]
    One,
    /// HTTP/2 (RFC 9113), over TLS.
    #[serde(rename = "2")]
    Two,
    /// HTTP/3 (RFC 9114), over QUIC.
    #[serde(rename = "3")]
    Three,
}

impl HttpVersion {
    pub fn number(self) -> &'static str {
        match self {
            Self::One => "1.1",
            Self::Two => "2",
            Self::Three => "3",
        }
    }

    /// Whether an answer came by it, by its protocol in the word of ALPN. A server that answers with HTTP/1.0 is asked by HTTP/1.1.
    pub fn is_of(self, protocol: &str) -> bool {
        match self {
            Self::One => protocol.starts_with("http/1"),
            Self::Two => protocol == "h2",
            Self::Three => protocol == "h3",
        }
    }
}

impl FromStr for HttpVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::One, Self::Two, Self::Three];
        let found = all.into_iter().find(|version| version.number() == text);
        found.ok_or_else(|| "give 1.1, 2 or 3".into())
    }
}

/// One load of a page. Times are milliseconds from its start (Navigation Timing, `navigationStart`), unless they say otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageLoad {
    /// Its number in its series, from 0.
    pub number: u32,
    /// Whether the browser had loaded the page before and kept what it may keep.
    pub warm: bool,
    /// When it began: nanoseconds since the start of the measurement.
    pub t_ns: i64,
    pub end: PageEnd,
    /// When the document was read and parsed: the end of `DOMContentLoaded`.
    pub doc_ms: Option<f64>,
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

    /// Requests of the page that failed or were answered with an error; not the document itself, which is the page. What the browser gave up
    /// because the page went elsewhere did not fail, and the picture for its tab that it looks for unasked is none of the page's.
    pub fn failed_requests(&self) -> impl Iterator<Item = &PageRequest> {
        let mut document = match self.end {
            PageEnd::Answered(status) => Some(status),
            _ => None,
        };
        self.requests.iter().filter(move |request| {
            let is_document = request.kind == "Document" && document.is_some();
            if is_document && request.status == document {
                document = None;
                return false;
            }
            request.trouble().is_some() && !request.is_the_browsers()
        })
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageEnd {
    Loaded,
    /// Time was over; what is known is of what came until then.
    TimedOut,
    /// The measurement was over before its time was.
    Unfinished,
    /// The browser could not load it; its words.
    Failed(String),
    /// The server answered with an error, this status: what came is no page, whatever it looks like.
    Answered(u16),
}

impl PageEnd {
    /// Why the page did not come, in words; none where it did.
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Loaded => None,
            Self::TimedOut => Some("its time was over".into()),
            Self::Unfinished => Some("the measurement was over".into()),
            Self::Failed(why) => Some(why.clone()),
            Self::Answered(status) => Some(format!("the server answered {status}")),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct PageRequest {
    /// The whole address, cut where it is very long.
    pub url: String,
    /// What it is to the page, in the browser's word: `Document`, `Script`, `Image` …
    pub kind: String,
    /// The protocol in the word of ALPN (`http/1.1`, `h2`, `h3`); empty where no answer came.
    pub protocol: String,
    /// The answer's status; none where none came.
    pub status: Option<u16>,
    pub start_ms: f64,
    /// How long it stood in the browser's own queue, as for a free connection.
    pub queued_ms: Option<f64>,
    /// How long the name took; none where it was known or a connection was there.
    pub dns_ms: Option<f64>,
    /// How long the connection took, without TLS; none where one was there.
    pub connect_ms: Option<f64>,
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

/// What the browser says of a request that it gave up itself, as those of a page that goes elsewhere.
pub const GIVEN_UP: &str = "net::ERR_ABORTED";

impl PageRequest {
    /// Whether the browser asked by itself, for a picture that the page does not name.
    fn is_the_browsers(&self) -> bool {
        self.kind == "Other" && self.url.ends_with("/favicon.ico")
    }

    /// What went wrong with it: the status of an error, or the browser's words.
    pub fn trouble(&self) -> Option<String> {
        match (self.status, &self.failed) {
            (Some(status @ 400..), _) => Some(status.to_string()),
            (_, Some(why)) if why != GIVEN_UP => Some(why.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: &str, status: Option<u16>, failed: Option<&str>) -> PageRequest {
        PageRequest {
            kind: kind.into(),
            status,
            failed: failed.map(str::to_owned),
            ..PageRequest::default()
        }
    }

    #[test]
    fn an_object_that_is_missing_or_breaks_off_failed_and_one_that_was_given_up_did_not() {
        let load = |end| PageLoad {
            number: 0,
            warm: false,
            t_ns: 0,
            end,
            doc_ms: None,
            paint_ms: None,
            fcp_ms: None,
            lcp_ms: None,
            load_ms: None,
            moved: Vec::new(),
            requests: vec![
                request("Document", Some(404), None),
                request("Image", Some(404), None),
                request("Image", Some(200), Some("net::ERR_CONNECTION_RESET")),
                request("Image", None, Some("net::ERR_ABORTED")),
                PageRequest {
                    url: "https://a.test/favicon.ico".into(),
                    ..request("Other", Some(404), None)
                },
                request("Image", Some(304), None),
                // A frame within the page.
                request("Document", Some(404), None),
            ],
        };
        let trouble = |end| {
            let load = load(end);
            load.failed_requests().filter_map(PageRequest::trouble).collect::<Vec<_>>()
        };
        assert_eq!(trouble(PageEnd::Answered(404)), ["404", "net::ERR_CONNECTION_RESET", "404"]);
        assert_eq!(trouble(PageEnd::Loaded).len(), 4);
    }

    #[test]
    fn a_version_of_http_is_read_as_it_is_written() {
        for version in [HttpVersion::One, HttpVersion::Two, HttpVersion::Three] {
            assert_eq!(version.number().parse(), Ok(version));
        }
        assert!("h3".parse::<HttpVersion>().is_err());
        assert!(HttpVersion::One.is_of("http/1.0") && !HttpVersion::One.is_of("h2"));
    }
}
