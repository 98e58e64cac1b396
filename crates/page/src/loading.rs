//! What is known of a page load while it is under way: its requests, its document, and where it went by itself.
//!
//! ```text
//!   navigate ──► document A ──── load ──► there
//!                    │ a script: location = …
//!                    └──► document B ──── load ──► there, and counted from A's start
//! ```
//!
//! A page that sends the browser on by a script or a `meta refresh` has taken until then. A redirection of HTTP is the same navigation.

use crate::devtools::DevtoolsEvent;
use crate::limits::LIMITS;
use crate::waterfall::Waterfall;
use quell_model::page::{GIVEN_UP, PageEnd, PageMove};
use quell_sys::clock::monotonic_ns;
use serde_json::Value;

pub(crate) struct Loading {
    pub waterfall: Waterfall,
    /// When it began: time of the monotonic clock, in nanoseconds.
    pub begun_ns: u64,
    /// The page's frame; empty until its first bytes are there.
    pub frame: String,
    /// The document in it, by the number that the browser gives it.
    pub document: String,
    pub moved: Vec<PageMove>,
    /// When the navigation to the document began, in milliseconds from the first one's.
    pub offset_ms: f64,
    pub end: Option<PageEnd>,
    /// Whether the browser told anything of it.
    pub is_heard: bool,
}

impl Loading {
    pub fn new() -> Self {
        Self {
            waterfall: Waterfall::default(),
            begun_ns: monotonic_ns(),
            frame: String::new(),
            document: String::new(),
            moved: Vec::new(),
            offset_ms: 0.0,
            end: None,
            is_heard: false,
        }
    }

    /// The answer to who asked for the page: its first bytes are there, or it can't be had.
    pub fn navigated(&mut self, answer: &Value) {
        let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
        self.frame = text("frameId").to_owned();
        self.document = text("loaderId").to_owned();
        if !text("errorText").is_empty() {
            self.end = Some(PageEnd::Failed(text("errorText").to_owned()));
        }
    }

    pub fn take(&mut self, told: &DevtoolsEvent) {
        self.is_heard = true;
        self.waterfall.take(told);
        match told.method.as_str() {
            "Page.frameNavigated" => self.moves(&told.params["frame"]),
            "Page.loadEventFired" if self.end.is_none() => self.end = Some(PageEnd::Loaded),
            "Network.loadingFailed" if self.end.is_none() => self.breaks_off(&told.params),
            "Inspector.targetCrashed" => {
                self.end = Some(PageEnd::Failed("the page's process crashed".into()));
            }
            _ => {}
        }
    }

    /// A document that breaks off has no load event. One that the browser gave up, as the page goes elsewhere or stops itself, did not.
    fn breaks_off(&mut self, params: &Value) {
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_document = !self.document.is_empty() && text("requestId") == self.document;
        if is_document && !["", GIVEN_UP].contains(&text("errorText")) {
            self.end = Some(PageEnd::Failed(text("errorText").to_owned()));
        }
    }

    /// Another document is in a frame. Its request has its number; what needs none, as `about:blank`, has only the moment at which it is heard of.
    fn moves(&mut self, frame: &Value) {
        let text = |key: &str| frame.get(key).and_then(Value::as_str).unwrap_or_default();
        let document = text("loaderId");
        if self.frame.is_empty() || text("id") != self.frame || document == self.document {
            return;
        }
        self.document = document.to_owned();
        let heard_ms = || monotonic_ns().saturating_sub(self.begun_ns) as f64 / 1e6;
        self.offset_ms = self.waterfall.asked_ms(document).unwrap_or_else(heard_ms);
        // In the place of what is not there the browser shows a page of its own.
        let missing = text("unreachableUrl");
        let url = if missing.is_empty() { text("url") } else { missing };
        if self.moved.len() < LIMITS.moves {
            let url = url.chars().take(LIMITS.url).collect();
            self.moved.push(PageMove { at_ms: self.offset_ms, url });
        }
        self.end = match missing.is_empty() {
            true => None,
            false => Some(PageEnd::Failed("where it went by itself there is no page".into())),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hear(loading: &mut Loading, method: &str, params: Value) {
        loading.take(&DevtoolsEvent { method: method.into(), session: String::new(), params });
    }

    fn begun() -> Loading {
        let mut loading = Loading::new();
        loading.navigated(&json!({ "frameId": "F", "loaderId": "A" }));
        let request = json!({ "url": "http://a.test/" });
        hear(
            &mut loading,
            "Network.requestWillBeSent",
            json!({ "requestId": "A", "timestamp": 1.0, "request": request }),
        );
        hear(
            &mut loading,
            "Page.frameNavigated",
            json!({ "frame": { "id": "F", "loaderId": "A" } }),
        );
        loading
    }

    #[test]
    fn a_page_that_goes_on_by_itself_is_there_when_its_last_document_is() {
        let mut loading = begun();
        hear(&mut loading, "Page.loadEventFired", json!({}));
        assert_eq!(loading.end, Some(PageEnd::Loaded));
        let request = json!({ "url": "http://a.test/x" });
        hear(
            &mut loading,
            "Network.requestWillBeSent",
            json!({ "requestId": "B", "timestamp": 3.25, "request": request }),
        );
        let frame = json!({ "id": "F", "loaderId": "B", "url": "http://a.test/x" });
        hear(&mut loading, "Page.frameNavigated", json!({ "frame": frame }));
        assert_eq!((&loading.end, loading.offset_ms), (&None, 2250.0));
        let wanted = PageMove { at_ms: 2250.0, url: "http://a.test/x".into() };
        assert_eq!(loading.moved, [wanted]);
        hear(&mut loading, "Page.loadEventFired", json!({}));
        assert_eq!(loading.end, Some(PageEnd::Loaded));
    }

    #[test]
    fn a_document_that_breaks_off_is_no_page_and_one_that_stops_itself_may_go_on() {
        let failed = |id: &str, why: &str| {
            let mut loading = begun();
            let params = json!({ "requestId": id, "timestamp": 2.0, "errorText": why });
            hear(&mut loading, "Network.loadingFailed", params);
            loading.end
        };
        let why = "net::ERR_CONTENT_LENGTH_MISMATCH";
        assert_eq!(failed("A", why), Some(PageEnd::Failed(why.into())));
        assert_eq!(failed("A", "net::ERR_ABORTED"), None);
        assert_eq!(failed("picture", why), None);
    }

    #[test]
    fn frames_within_the_page_are_no_moves_and_what_is_not_there_is_no_page() {
        let mut loading = begun();
        let inner =
            json!({ "id": "G", "parentId": "F", "loaderId": "C", "url": "http://ad.test/" });
        hear(&mut loading, "Page.frameNavigated", json!({ "frame": inner }));
        assert_eq!(loading.moved, []);
        let error = json!({ "id": "F", "loaderId": "D", "url": "chrome-error://chromewebdata/", "unreachableUrl": "http://no.test/" });
        hear(&mut loading, "Page.frameNavigated", json!({ "frame": error }));
        hear(&mut loading, "Page.loadEventFired", json!({}));
        assert_eq!(loading.moved[0].url, "http://no.test/");
        assert!(matches!(loading.end, Some(PageEnd::Failed(_))), "{:?}", loading.end);
    }
}
