//! The waterfall: what the browser tells of its requests, one event after the other, becomes a row each.
//!
//! ```text
//!   requestWillBeSent   responseReceived (timing)             loadingFinished
//!        │                   │                                     │
//!        ├ queued ┤ dns ┤ connect ┤ tls ┤ send ┤ wait ┤   receive   ┤
//! ```
//!
//! Times are the browser's monotonic clock, in seconds; those of `timing` are milliseconds from its `requestTime`, −1 where there was
//! nothing of the kind (Chrome DevTools Protocol, domain Network, `ResourceTiming`).

use crate::devtools::DevtoolsEvent;
use crate::limits::LIMITS;
use quell_model::page::PageRequest;
use serde_json::Value;
use std::collections::HashMap;

#[derive(Debug, Clone, Default)]
pub struct Waterfall {
    rows: Vec<WaterfallRow>,
    /// The last row of each number: a page of thousands of requests tells of them at once.
    last: HashMap<String, usize>,
    /// When the first request was made.
    zero_s: Option<f64>,
    /// Requests beyond `LIMITS.requests`.
    more: u64,
}

#[derive(Debug, Clone)]
struct WaterfallRow {
    id: String,
    /// Absolute times, in seconds.
    start_s: f64,
    first_byte_s: Option<f64>,
    is_over: bool,
    is_cached: bool,
    request: PageRequest,
}

impl Waterfall {
    /// Takes an event; those that are of no request are left.
    pub fn take(&mut self, told: &DevtoolsEvent) {
        let p = &told.params;
        let Some(id) = p.get("requestId").and_then(Value::as_str) else { return };
        match told.method.as_str() {
            "Network.requestWillBeSent" => self.sent(id, p),
            "Network.requestServedFromCache" => {
                if let Some(row) = self.row(id) {
                    row.is_cached = true;
                    row.request.from_cache = true;
                }
            }
            "Network.responseReceived" => {
                if let Some(row) = self.row(id) {
                    row.answered(&p["response"]);
                }
            }
            "Network.loadingFinished" => {
                let bytes = p.get("encodedDataLength").and_then(Value::as_f64);
                let at = p.get("timestamp").and_then(Value::as_f64);
                self.over(id, at, bytes, None);
            }
            "Network.loadingFailed" => {
                let why = p.get("errorText").and_then(Value::as_str);
                let why = why.filter(|why| !why.is_empty()).unwrap_or("it failed");
                let at = p.get("timestamp").and_then(Value::as_f64);
                self.over(id, at, None, Some(why.to_owned()));
            }
            _ => {}
        }
    }

    /// The rows, in the order in which they were asked for; and how many more there were.
    pub fn rows(self) -> (Vec<PageRequest>, u64) {
        (self.rows.into_iter().map(|row| row.request).collect(), self.more)
    }

    pub fn under_way(&self) -> usize {
        self.rows.iter().filter(|row| !row.is_over).count()
    }

    /// When a request was first made, whatever redirections it met.
    pub fn asked_ms(&self, id: &str) -> Option<f64> {
        self.rows.iter().find(|row| row.id == id).map(|row| row.request.start_ms)
    }

    /// The last answer to a request, whatever redirections it met: its status, its protocol, whether the cache gave it.
    pub fn answer(&self, id: &str) -> Option<(u16, &str, bool)> {
        let request = &self.rows[*self.last.get(id)?].request;
        Some((request.status?, &request.protocol, request.from_cache))
    }

    fn row(&mut self, id: &str) -> Option<&mut WaterfallRow> {
        let row = &mut self.rows[*self.last.get(id)?];
        (!row.is_over).then_some(row)
    }

    fn sent(&mut self, id: &str, p: &Value) {
        let url = p["request"]["url"].as_str().unwrap_or_default();
        // What comes with the page itself is no request.
        if url.starts_with("data:") || url.starts_with("blob:") {
            return;
        }
        let Some(at) = p.get("timestamp").and_then(Value::as_f64) else { return };
        // A redirection keeps the number; the answer to what came before stands in the new request.
        if let Some(answer) = p.get("redirectResponse").filter(|r| r.is_object()) {
            if let Some(row) = self.row(id) {
                row.answered(answer);
            }
            let bytes = answer.get("encodedDataLength").and_then(Value::as_f64);
            self.over(id, Some(at), bytes, None);
        }
        if self.rows.len() >= LIMITS.requests {
            self.more += 1;
            return;
        }
        let zero = *self.zero_s.get_or_insert(at);
        self.last.insert(id.to_owned(), self.rows.len());
        self.rows.push(WaterfallRow {
            id: id.to_owned(),
            start_s: at,
            first_byte_s: None,
            is_over: false,
            is_cached: false,
            request: PageRequest {
                url: url.chars().take(LIMITS.url).collect(),
                kind: p.get("type").and_then(Value::as_str).unwrap_or("Other").to_owned(),
                start_ms: ms(at - zero),
                ..PageRequest::default()
            },
        });
    }

    fn over(&mut self, id: &str, at: Option<f64>, bytes: Option<f64>, failed: Option<String>) {
        let zero = self.zero_s.unwrap_or(0.0);
        let Some(row) = self.row(id) else { return };
        row.is_over = true;
        row.request.failed = failed;
        if let Some(bytes) = bytes.filter(|b| b.is_finite() && *b > 0.0 && !row.is_cached) {
            row.request.bytes = bytes as u64;
        }
        if let Some(at) = at {
            row.request.end_ms = Some(ms(at - zero));
            row.request.receive_ms = row.first_byte_s.map(|first| ms((at - first).max(0.0)));
        }
    }
}

impl WaterfallRow {
    fn answered(&mut self, response: &Value) {
        let is = |key: &str| response.get(key).and_then(Value::as_bool) == Some(true);
        let request = &mut self.request;
        request.protocol = response["protocol"].as_str().unwrap_or_default().to_owned();
        request.status = response["status"].as_u64().and_then(|s| u16::try_from(s).ok());
        if is("fromDiskCache") || is("fromPrefetchCache") {
            self.is_cached = true;
        }
        request.from_cache = self.is_cached;
        let timing = &response["timing"];
        let Some(base_s) = timing.get("requestTime").and_then(Value::as_f64) else { return };
        let at = |key: &str| timing.get(key).and_then(Value::as_f64).filter(|ms| *ms >= 0.0);
        let between = |from: &str, to: &str| Some((at(to)? - at(from)?).max(0.0));
        let begun = ["dnsStart", "connectStart", "sendStart"].into_iter().find_map(at);
        request.queued_ms = begun.map(|b| ms((base_s - self.start_s).max(0.0)) + b).map(tidy);
        request.dns_ms = between("dnsStart", "dnsEnd").map(tidy);
        request.tls_ms = between("sslStart", "sslEnd").map(tidy);
        request.connect_ms = between("connectStart", "connectEnd")
            .map(|both| tidy((both - request.tls_ms.unwrap_or(0.0)).max(0.0)));
        // Chromium before 115 tells only of the end of the answer's head.
        let first = at("receiveHeadersStart").filter(|ms| *ms > 0.0).or(at("receiveHeadersEnd"));
        request.wait_ms = first.and_then(|first| Some(tidy((first - at("sendEnd")?).max(0.0))));
        self.first_byte_s = first.map(|first| base_s + first / 1e3);
    }
}

fn ms(seconds: f64) -> f64 {
    tidy(seconds * 1e3)
}

/// To the microsecond, as finely as the browser tells.
fn tidy(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows(told: &[(&str, Value)]) -> Vec<PageRequest> {
        let mut waterfall = Waterfall::default();
        for (method, params) in told {
            let method = format!("Network.{method}");
            waterfall.take(&DevtoolsEvent {
                method,
                session: String::new(),
                params: params.clone(),
            });
        }
        waterfall.rows().0
    }

    fn sent(id: &str, at: f64, url: &str) -> (&'static str, Value) {
        let request = json!({ "url": url });
        (
            "requestWillBeSent",
            json!({ "requestId": id, "timestamp": at, "request": request, "type": "Image" }),
        )
    }

    #[test]
    fn a_request_is_taken_apart_into_what_it_waited_for() {
        let timing = json!({
            "requestTime": 100.001, "dnsStart": 2.0, "dnsEnd": 3.0, "connectStart": 3.0, "connectEnd": 65.0,
            "sslStart": 24.0, "sslEnd": 65.0, "sendStart": 65.5, "sendEnd": 66.0,
            "receiveHeadersStart": 87.0, "receiveHeadersEnd": 88.0,
        });
        let response = json!({ "protocol": "h2", "status": 200, "timing": timing });
        let rows = rows(&[
            sent("1", 100.0, "https://a.test/"),
            ("responseReceived", json!({ "requestId": "1", "response": response })),
            (
                "loadingFinished",
                json!({ "requestId": "1", "timestamp": 100.108, "encodedDataLength": 5120 }),
            ),
        ]);
        let row = &rows[0];
        let parts =
            [row.queued_ms, row.dns_ms, row.connect_ms, row.tls_ms, row.wait_ms, row.receive_ms];
        assert_eq!(parts, [3.0, 1.0, 21.0, 41.0, 21.0, 20.0].map(Some));
        assert_eq!((row.start_ms, row.end_ms), (0.0, Some(108.0)));
        assert_eq!((row.bytes, row.status, row.protocol.as_str()), (5120, Some(200), "h2"));
    }

    #[test]
    fn a_request_on_a_connection_that_is_there_has_no_dns_and_no_connect() {
        let timing = json!({
            "requestTime": 5.0, "dnsStart": -1, "dnsEnd": -1, "connectStart": -1, "connectEnd": -1,
            "sslStart": -1, "sslEnd": -1, "sendStart": 0.2, "sendEnd": 0.3, "receiveHeadersEnd": 20.3,
        });
        let rows = rows(&[
            sent("1", 5.0, "https://a.test/x"),
            ("responseReceived", json!({ "requestId": "1", "response": { "timing": timing } })),
        ]);
        assert_eq!((rows[0].dns_ms, rows[0].connect_ms, rows[0].tls_ms), (None, None, None));
        assert_eq!((rows[0].wait_ms, rows[0].end_ms), (Some(20.0), None), "its end did not come");
    }

    #[test]
    fn each_leg_of_a_redirection_is_a_request() {
        let mut second = sent("1", 7.1, "https://b.test/").1;
        second["redirectResponse"] = json!({ "status": 301, "encodedDataLength": 200 });
        let rows = rows(&[
            sent("1", 7.0, "https://a.test/"),
            ("requestWillBeSent", second),
            (
                "loadingFinished",
                json!({ "requestId": "1", "timestamp": 7.3, "encodedDataLength": 900 }),
            ),
        ]);
        let seen: Vec<_> = rows.iter().map(|r| (r.status, r.bytes, r.end_ms)).collect();
        assert_eq!(seen, [(Some(301), 200, Some(100.0)), (None, 900, Some(300.0))]);
    }

    #[test]
    fn what_the_cache_answers_costs_no_bytes_and_what_fails_says_why() {
        let rows = rows(&[
            sent("1", 1.0, "https://a.test/1"),
            ("requestServedFromCache", json!({ "requestId": "1" })),
            (
                "loadingFinished",
                json!({ "requestId": "1", "timestamp": 1.1, "encodedDataLength": 900 }),
            ),
            sent("2", 1.0, "https://a.test/2"),
            (
                "loadingFailed",
                json!({ "requestId": "2", "timestamp": 1.2, "errorText": "net::ERR_CONNECTION_RESET" }),
            ),
            sent("3", 1.0, "data:image/png;base64,AA"),
        ]);
        assert_eq!(rows.len(), 2, "data is part of the page");
        assert_eq!((rows[0].from_cache, rows[0].bytes), (true, 0));
        assert_eq!(rows[1].failed.as_deref(), Some("net::ERR_CONNECTION_RESET"));
    }

    #[test]
    fn events_without_sense_are_left() {
        let rows = rows(&[
            ("requestWillBeSent", json!({ "requestId": 7 })),
            ("requestWillBeSent", json!({ "requestId": "a" })),
            ("responseReceived", json!({ "requestId": "nobody", "response": 3 })),
            ("loadingFinished", json!(null)),
        ]);
        assert_eq!(rows, []);
    }
}
