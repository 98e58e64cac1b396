//! One page load: a tab of its own, the page in it, and what it waited for.
//!
//! ```text
//!   context ── tab ── navigate ──► events ──► waterfall
//!                        │   load, or time is over
//!                        └──► the page's own marks ──► PageLoad
//! ```
//!
//! A context has cache, cookies and connections of its own: the first load in it is cold, the next is warm.

use crate::PageError;
use crate::browser::Browser;
use crate::devtools::{Told, Until};
use crate::loading::Loading;
use crate::marks::{Marks, SCRIPT};
use quell_model::page::{HttpVersion, PageEnd, PageLoad};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use serde_json::{Value, json};

/// Where pages have a cache and connections of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context(String);

/// What is to be loaded.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The page's address.
    pub url: &'a str,
    /// Its number in its series.
    pub number: u32,
    /// Whether the context has loaded it before.
    pub warm: bool,
    /// When it is given up: time of the monotonic clock, in nanoseconds.
    pub deadline_ns: u64,
    /// What times in results count from.
    pub origin_ns: u64,
}

/// How long a page may take to tell its times once its own time is over: it looks for its paints for three seconds.
const ANSWER_NS: u64 = 5_000_000_000;

impl Browser {
    /// A context that knows nothing yet.
    ///
    /// # Errors
    /// When the browser does not answer.
    pub fn context(&mut self, stop: &Bell) -> Result<Context, PageError> {
        let answer = self.ask("", "Target.createBrowserContext", json!({}), stop)?;
        text(&answer, "browserContextId").map(Context)
    }

    /// Forgets a context, with all that is open in it.
    ///
    /// # Errors
    /// When the browser does not answer.
    pub fn forget(&mut self, context: Context, stop: &Bell) -> Result<(), PageError> {
        let params = json!({ "browserContextId": context.0 });
        self.ask("", "Target.disposeBrowserContext", params, stop).map(|_| ())
    }

    /// Loads a page in a tab of its own. That it can't be loaded, or not in time, is a result.
    ///
    /// # Errors
    /// When the browser itself ends, hangs or says nonsense; when the bell rings.
    pub fn load(
        &mut self,
        context: &Context,
        wanted: Wanted<'_>,
        stop: &Bell,
    ) -> Result<PageLoad, PageError> {
        let params = json!({ "url": "about:blank", "browserContextId": context.0 });
        let target = text(&self.ask("", "Target.createTarget", params, stop)?, "targetId")?;
        let params = json!({ "targetId": target, "flatten": true });
        let session = text(&self.ask("", "Target.attachToTarget", params, stop)?, "sessionId")?;
        for method in ["Page.enable", "Network.enable", "Inspector.enable"] {
            self.ask(&session, method, json!({}), stop)?;
        }
        self.devtools.forget();
        let mut loading = Loading::new();
        self.navigate(&session, wanted, &mut loading, stop)?;
        let (mut end, marks) = loop {
            let end = self.watch(&session, wanted, &mut loading, stop)?;
            // Until a page's first bytes are there, there is no page that could be asked.
            if matches!(end, PageEnd::Failed(_)) || loading.frame.is_empty() {
                break (end, Marks::default());
            }
            let document = loading.document.clone();
            let marks = self.marks(&session, wanted, &mut loading, stop)?;
            if loading.document == document {
                break (end, marks.later(loading.offset_ms));
            }
            // It went elsewhere while it was asked: what it told is of a page that is no more.
            if end == PageEnd::TimedOut {
                break (end, Marks::default());
            }
        };
        if end == PageEnd::Loaded && marks.load_ms.is_none() {
            end = PageEnd::Failed(
                "it does not tell its times: its scripts leave no time for that".into(),
            );
        }
        if matches!(end, PageEnd::Failed(_)) {
            self.catch_up(&session, &mut loading, stop)?;
        }
        end = judged(end, loading.waterfall.answer(&loading.document), self.http);
        let params = json!({ "targetId": target });
        // A tab whose process crashed may be gone.
        match self.ask("", "Target.closeTarget", params, stop) {
            Ok(_) | Err(PageError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(PageLoad {
            number: wanted.number,
            warm: wanted.warm,
            t_ns: loading.begun_ns.wrapping_sub(wanted.origin_ns) as i64,
            load_ms: marks.load_ms.filter(|_| end == PageEnd::Loaded),
            end,
            doc_ms: marks.doc_ms,
            paint_ms: marks.paint_ms,
            fcp_ms: marks.fcp_ms,
            lcp_ms: marks.lcp_ms,
            moved: loading.moved,
            requests: loading.waterfall.rows().0,
        })
    }

    /// Goes to the page.
    fn navigate(
        &mut self,
        session: &str,
        wanted: Wanted<'_>,
        loading: &mut Loading,
        stop: &Bell,
    ) -> Result<(), PageError> {
        let until = Until { deadline_ns: wanted.deadline_ns, stop };
        let params = json!({ "url": wanted.url });
        // It answers when the page's first bytes are there.
        match self.devtools.call(session, "Page.navigate", params, until) {
            Ok(answer) => loading.navigated(&answer),
            Err(PageError::Refused { why, .. }) => loading.end = Some(PageEnd::Failed(why)),
            Err(PageError::Silent { .. }) => {}
            Err(error) => return Err(self.explain(error)),
        }
        Ok(())
    }

    /// Watches until the page is there, can't be, or time is over.
    fn watch(
        &mut self,
        session: &str,
        wanted: Wanted<'_>,
        loading: &mut Loading,
        stop: &Bell,
    ) -> Result<PageEnd, PageError> {
        let until = Until { deadline_ns: wanted.deadline_ns, stop };
        loop {
            if let Some(end) = &loading.end {
                return Ok(end.clone());
            }
            // A page may have more to say than is ever heard, as one that asks something again and again.
            if monotonic_ns() >= wanted.deadline_ns {
                return Ok(PageEnd::TimedOut);
            }
            match self.devtools.next_told(until) {
                Ok(Some(told)) => self.heard(session, &told, loading, stop)?,
                Ok(None) if stop.rings() => return Err(PageError::Stopped),
                Ok(None) => return Ok(PageEnd::TimedOut),
                Err(error) => return Err(self.explain(error)),
            }
        }
    }

    fn heard(
        &mut self,
        session: &str,
        told: &Told,
        loading: &mut Loading,
        stop: &Bell,
    ) -> Result<(), PageError> {
        if told.session != session {
            return Ok(());
        }
        loading.take(told);
        // Nobody is there to answer, and until then the page stands still.
        if told.method == "Page.javascriptDialogOpening" {
            let params = json!({ "accept": false });
            match self.ask(session, "Page.handleJavaScriptDialog", params, stop) {
                Ok(_) | Err(PageError::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What the page knows of its times; and what was still told of its requests.
    ///
    /// A page's scripts can put words of their own in the place of the browser's (`performance.getEntries = …`). So it is asked in a world of
    /// ours (`Page.createIsolatedWorld`), which has the same times and none of those words.
    fn marks(
        &mut self,
        session: &str,
        wanted: Wanted<'_>,
        loading: &mut Loading,
        stop: &Bell,
    ) -> Result<Marks, PageError> {
        let now_ns = monotonic_ns();
        let end_ns = wanted.deadline_ns.max(now_ns).saturating_add(ANSWER_NS);
        let until =
            Until { deadline_ns: now_ns.saturating_add(self.patience_ns).min(end_ns), stop };
        let marks = match self.asked(session, &loading.frame, until) {
            Ok(answer) => Marks::of(&answer),
            Err(PageError::Silent { .. }) if stop.rings() => return Err(PageError::Stopped),
            // A page that never ends may not have one that could be asked, or be busy with itself for ever.
            Err(PageError::Refused { .. } | PageError::Silent { .. }) => Marks::default(),
            Err(error) => return Err(self.explain(error)),
        };
        // Only a browser that still answers can say that a page does not.
        self.ask("", "Browser.getVersion", json!({}), stop)?;
        self.catch_up(session, loading, stop)?;
        Ok(marks)
    }

    /// Takes what was told already and not looked at.
    fn catch_up(
        &mut self,
        session: &str,
        loading: &mut Loading,
        stop: &Bell,
    ) -> Result<(), PageError> {
        while let Some(told) = self.devtools.next_told(Until { deadline_ns: 0, stop })? {
            if told.session == session {
                loading.take(&told);
            }
        }
        Ok(())
    }

    /// The script's answer, out of a world of its own in this frame.
    fn asked(&mut self, session: &str, frame: &str, until: Until<'_>) -> Result<Value, PageError> {
        let params = json!({ "frameId": frame, "worldName": "quell" });
        let world = self.devtools.call(session, "Page.createIsolatedWorld", params, until)?;
        let params = json!({
            "expression": SCRIPT, "contextId": world["executionContextId"], "awaitPromise": true, "returnByValue": true,
        });
        self.devtools.call(session, "Runtime.evaluate", params, until)
    }

    /// Asks what the browser answers without the network.
    fn ask(
        &mut self,
        session: &str,
        method: &str,
        params: Value,
        stop: &Bell,
    ) -> Result<Value, PageError> {
        let deadline_ns = monotonic_ns().saturating_add(self.patience_ns);
        match self.devtools.call(session, method, params, Until { deadline_ns, stop }) {
            Err(PageError::Silent { .. }) if stop.rings() => Err(PageError::Stopped),
            Err(error) => Err(self.explain(error)),
            answer => answer,
        }
    }

    /// Evaluates a script in an empty page; its value.
    ///
    /// # Errors
    /// As [`PageError`] says; a script that throws is refused.
    pub fn evaluate(
        &mut self,
        script: &str,
        deadline_ns: u64,
        stop: &Bell,
    ) -> Result<Value, PageError> {
        let context = self.context(stop)?;
        let params = json!({ "url": "about:blank", "browserContextId": context.0 });
        let target = text(&self.ask("", "Target.createTarget", params, stop)?, "targetId")?;
        let params = json!({ "targetId": target, "flatten": true });
        let session = text(&self.ask("", "Target.attachToTarget", params, stop)?, "sessionId")?;
        let params = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let until = Until { deadline_ns, stop };
        let answer = match self.devtools.call(&session, "Runtime.evaluate", params, until) {
            Err(PageError::Silent { .. }) if stop.rings() => Err(PageError::Stopped),
            Err(error) => Err(self.explain(error)),
            answer => answer,
        }?;
        self.forget(context, stop)?;
        match answer.get("exceptionDetails") {
            Some(thrown) => Err(PageError::Refused {
                method: "Runtime.evaluate".into(),
                why: thrown["exception"]["description"].as_str().unwrap_or("it threw").to_owned(),
            }),
            None => Ok(answer["result"]["value"].clone()),
        }
    }
}

/// How a load ended, where the document's answer is known: an error is no page, and one by another version of HTTP none that was asked for.
fn judged(end: PageEnd, document: Option<(u16, &str, bool)>, http: Option<HttpVersion>) -> PageEnd {
    match (&end, document, http) {
        // An error without a word of its own is told by the browser as a failure.
        (PageEnd::Loaded | PageEnd::Failed(_), Some((status @ 400.., ..)), _) => {
            PageEnd::Answered(status)
        }
        // The cache keeps what it was by, however that came about.
        (PageEnd::Loaded, Some((_, protocol, false)), Some(http)) if !http.is_of(protocol) => {
            PageEnd::Failed(format!(
                "the page came by {protocol} and not by HTTP/{}: where it came from does not offer that",
                http.number()
            ))
        }
        _ => end,
    }
}

fn text(answer: &Value, key: &str) -> Result<String, PageError> {
    let text = answer.get(key).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| PageError::Nonsense(format!("an answer without {key}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_no_page_and_neither_is_one_by_another_version_of_http() {
        let of = |end: PageEnd, status, protocol, http| {
            judged(end, Some((status, protocol, false)), http)
        };
        assert_eq!(of(PageEnd::Loaded, 404, "h2", None), PageEnd::Answered(404));
        let failed = PageEnd::Failed("net::ERR_HTTP_RESPONSE_CODE_FAILURE".into());
        assert_eq!(of(failed, 500, "h2", None), PageEnd::Answered(500));
        assert_eq!(of(PageEnd::TimedOut, 200, "h2", Some(HttpVersion::Three)), PageEnd::TimedOut);
        assert_eq!(of(PageEnd::Loaded, 200, "h2", Some(HttpVersion::Two)), PageEnd::Loaded);
        assert_eq!(of(PageEnd::Loaded, 200, "h2", None), PageEnd::Loaded);
        let other = of(PageEnd::Loaded, 200, "http/1.1", Some(HttpVersion::Two));
        assert!(
            matches!(&other, PageEnd::Failed(why) if why.contains("not by HTTP/2")),
            "{other:?}"
        );
        let cached = Some((200, "h2", true));
        assert_eq!(judged(PageEnd::Loaded, cached, Some(HttpVersion::Three)), PageEnd::Loaded);
    }
}
