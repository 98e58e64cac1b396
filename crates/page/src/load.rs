//! One page load: a tab of its own, the page in it, and what it waited for.
//!
//! ```text
//!   context ── tab ── navigate ──► events ──► waterfall
//!                        │   load, or time is over
//!                        └──► the page's own marks ──► PageLoad
//! ```
//!
//! The first load in a context is cold, the next is warm.

use crate::PageError;
use crate::browser::{Browser, Context};
use crate::context::Tab;
use crate::devtools::Until;
use crate::limits::LIMITS;
use crate::loading::Loading;
use crate::marks::{Marks, SCRIPT};
use quell_model::page::{HttpVersion, PageEnd, PageLoad};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'a> {
    pub url: &'a str,
    pub number: u32,
    /// Whether the context has loaded it before.
    pub warm: bool,
    /// When it is given up: time of the monotonic clock, in nanoseconds.
    pub deadline_ns: u64,
    /// What times in results count from.
    pub origin_ns: u64,
}

/// Of a page that is there and has no answer.
const SILENT: &str = "it does not tell its times: its scripts leave no time for that";

/// Of one whose answer has no end of its load.
const UNTOLD: &str = "it was there, and does not tell when";

impl PageRequest<'_> {
    /// One of which nothing came, for this reason.
    pub fn failed(self, why: String) -> PageLoad {
        self.ended(Loading::new(), PageEnd::Failed(why), Marks::default())
    }

    fn ended(self, loading: Loading, end: PageEnd, marks: Marks) -> PageLoad {
        PageLoad {
            number: self.number,
            warm: self.warm,
            t_ns: loading.begun_ns.wrapping_sub(self.origin_ns) as i64,
            load_ms: marks.load_ms.filter(|_| end == PageEnd::Loaded),
            end,
            doc_ms: marks.doc_ms,
            paint_ms: marks.paint_ms,
            fcp_ms: marks.fcp_ms,
            lcp_ms: marks.lcp_ms,
            moved: loading.moved,
            requests: loading.waterfall.rows().0,
        }
    }

    /// Until when all that has to do with the load is over.
    fn limit_ns(&self) -> u64 {
        self.deadline_ns.saturating_add(LIMITS.answer_ns)
    }
}

impl Browser {
    /// Loads a page in a tab of its own, and returns seconds after its time is over at the latest. That it can't be loaded, or not in time, is
    /// a result.
    pub fn load(
        &mut self,
        context: &Context,
        wanted: PageRequest<'_>,
        stop: &Bell,
    ) -> Result<PageLoad, PageError> {
        let mut loading = Loading::new();
        if !self.keeps(context) {
            let why =
                "the browser that loaded it before could not close it, and ended with its cache";
            return Ok(wanted.failed(why.into()));
        }
        let mut load = || {
            let tab = self.tab(context, stop)?;
            for method in ["Page.enable", "Network.enable", "Inspector.enable"] {
                self.ask(&tab.session, method, json!({}), stop)?;
            }
            self.devtools.forget();
            loading = Loading::new();
            let (end, marks) = self.load_in(&tab, wanted, &mut loading, stop)?;
            let document = loading.waterfall.answer(&loading.document);
            let end = judged(end, document, self.options.http);
            self.close(&tab, wanted.limit_ns(), stop)?;
            Ok((end, marks))
        };
        match load() {
            Ok((end, marks)) => Ok(wanted.ended(loading, end, marks)),
            Err(error) => {
                self.is_spent = true;
                Err(error)
            }
        }
    }

    /// Loads it in this tab: how it ended, and what it knows of its times.
    fn load_in(
        &mut self,
        tab: &Tab,
        wanted: PageRequest<'_>,
        loading: &mut Loading,
        stop: &Bell,
    ) -> Result<(PageEnd, Marks), PageError> {
        self.navigate(tab, wanted, loading, stop)?;
        loop {
            let end = self.watch(tab, wanted, loading, stop)?;
            if matches!(end, PageEnd::Failed(_)) {
                self.catch_up(tab, loading, stop)?;
                return Ok((end, Marks::default()));
            }
            let document = loading.document.clone();
            // Until a page's first bytes are there, there is no page that could be asked.
            let marks = match loading.frame.is_empty() {
                true => Err(SILENT.to_owned()),
                false => self.marks(tab, wanted, loading, stop)?,
            };
            let lives = self.lives(wanted, stop)?;
            self.catch_up(tab, loading, stop)?;
            match lives {
                Err(silent) if !loading.is_heard => return Err(silent),
                Err(silent) => {
                    self.is_spent = true;
                    return Ok(match end {
                        PageEnd::Loaded => (PageEnd::Failed(silent.to_string()), Marks::default()),
                        end => (end, Marks::default()),
                    });
                }
                Ok(()) => {}
            }
            if loading.document == document {
                // Its process may have crashed meanwhile.
                let crashed = loading.end.clone().filter(|end| matches!(end, PageEnd::Failed(_)));
                return Ok(match (crashed.unwrap_or(end), marks) {
                    (PageEnd::Loaded, Err(why)) => (PageEnd::Failed(why), Marks::default()),
                    (PageEnd::Loaded, Ok(marks)) if marks.load_ms.is_none() => {
                        (PageEnd::Failed(UNTOLD.into()), marks.later(loading.offset_ms))
                    }
                    (end, marks) => (end, marks.unwrap_or_default().later(loading.offset_ms)),
                });
            }
            // It went elsewhere while it was asked: what it told is of a page that is no more.
            if monotonic_ns() >= wanted.deadline_ns {
                return Ok((PageEnd::TimedOut, Marks::default()));
            }
        }
    }

    fn navigate(
        &mut self,
        tab: &Tab,
        wanted: PageRequest<'_>,
        loading: &mut Loading,
        stop: &Bell,
    ) -> Result<(), PageError> {
        let until = Until { deadline_ns: wanted.deadline_ns, stop };
        let params = json!({ "url": wanted.url });
        // It answers when the page's first bytes are there.
        match self.devtools.call(&tab.session, "Page.navigate", params, until) {
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
        tab: &Tab,
        wanted: PageRequest<'_>,
        loading: &mut Loading,
        stop: &Bell,
    ) -> Result<PageEnd, PageError> {
        loop {
            if let Some(end) = &loading.end {
                return Ok(end.clone());
            }
            // A page may have more to say than is ever heard, as one that asks something again and again.
            if monotonic_ns() >= wanted.deadline_ns
                || !self.hear(tab, wanted.deadline_ns, loading, stop)?
            {
                return Ok(PageEnd::TimedOut);
            }
        }
    }

    /// Takes the next thing that is told of the page; whether there was one until then.
    fn hear(
        &mut self,
        tab: &Tab,
        deadline_ns: u64,
        loading: &mut Loading,
        stop: &Bell,
    ) -> Result<bool, PageError> {
        match self.devtools.next_told(Until { deadline_ns, stop }) {
            Ok(Some(told)) => {
                if told.session == tab.session {
                    loading.take(&told);
                }
                Ok(true)
            }
            Ok(None) if stop.rings() => Err(PageError::Stopped),
            Ok(None) => Ok(false),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// What the page knows of its times, or why it does not tell.
    ///
    /// A page's scripts can put words of their own in the place of the browser's (`performance.getEntries = …`). So it is asked in a world of
    /// ours (`Page.createIsolatedWorld`), which has the same times and none of those words.
    fn marks(
        &mut self,
        tab: &Tab,
        wanted: PageRequest<'_>,
        loading: &mut Loading,
        stop: &Bell,
    ) -> Result<Result<Marks, String>, PageError> {
        let deadline_ns = monotonic_ns().saturating_add(self.patience_ns);
        let deadline_ns = deadline_ns.min(wanted.limit_ns().saturating_sub(LIMITS.lives_ns));
        match self.asked(tab, &loading.frame, Until { deadline_ns, stop }) {
            Ok(answer) => Ok(Ok(Marks::of(&answer))),
            Err(PageError::Silent { .. }) if stop.rings() => Err(PageError::Stopped),
            // It is busy with itself for ever, or there is none yet that could be asked.
            Err(PageError::Silent { .. }) => Ok(Err(SILENT.into())),
            // As a rule it goes elsewhere, of which nothing was told yet.
            Err(PageError::Refused { why, .. }) => {
                let document = loading.document.clone();
                while loading.document == document
                    && !matches!(loading.end, Some(PageEnd::Failed(_)))
                    && self.hear(tab, deadline_ns, loading, stop)?
                {}
                Ok(Err(format!("the browser does not tell the page's times: {why}")))
            }
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Whether the browser still answers: only one that does can say that a page does not.
    fn lives(
        &mut self,
        wanted: PageRequest<'_>,
        stop: &Bell,
    ) -> Result<Result<(), PageError>, PageError> {
        let deadline_ns = monotonic_ns().saturating_add(self.patience_ns).min(wanted.limit_ns());
        let until = Until { deadline_ns, stop };
        match self.devtools.call("", "Browser.getVersion", json!({}), until) {
            Ok(_) => Ok(Ok(())),
            Err(PageError::Silent { .. }) if stop.rings() => Err(PageError::Stopped),
            Err(silent @ PageError::Silent { .. }) => Ok(Err(silent)),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Takes what was told already and not looked at.
    fn catch_up(&mut self, tab: &Tab, loading: &mut Loading, stop: &Bell) -> Result<(), PageError> {
        while self.hear(tab, 0, loading, stop)? {}
        Ok(())
    }

    /// The script's answer, out of a world of its own in this frame.
    fn asked(&mut self, tab: &Tab, frame: &str, until: Until<'_>) -> Result<Value, PageError> {
        let params = json!({ "frameId": frame, "worldName": "quell" });
        let world = self.devtools.call(&tab.session, "Page.createIsolatedWorld", params, until)?;
        let params = json!({
            "expression": SCRIPT, "contextId": world["executionContextId"], "awaitPromise": true, "returnByValue": true,
        });
        self.devtools.call(&tab.session, "Runtime.evaluate", params, until)
    }

    pub fn evaluate(
        &mut self,
        script: &str,
        deadline_ns: u64,
        stop: &Bell,
    ) -> Result<Value, PageError> {
        let context = self.context(stop)?;
        let tab = self.tab(&context, stop)?;
        let params = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let until = Until { deadline_ns, stop };
        let answer = match self.devtools.call(&tab.session, "Runtime.evaluate", params, until) {
            Err(PageError::Silent { .. }) if stop.rings() => Err(PageError::Stopped),
            Err(error) => Err(self.explain(error)),
            answer => answer,
        }?;
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
        // Chromium takes what it finds before an answer breaks off, and what has no head at all.
        (PageEnd::Loaded, Some((status @ ..100, ..)), _) => PageEnd::Failed(format!(
            "the server's answer has the status {status}, which is none of HTTP: it broke off, or something else speaks there"
        )),
        (PageEnd::Loaded, Some((_, "http/0.9", _)), _) => {
            PageEnd::Failed("what came has no head of HTTP: something else speaks there".into())
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
        for (status, protocol) in [(2, "http/1.1"), (200, "http/0.9")] {
            let none = of(PageEnd::Loaded, status, protocol, None);
            assert!(matches!(&none, PageEnd::Failed(why) if why.contains("of HTTP")), "{none:?}");
        }
        let cached = Some((200, "h2", true));
        assert_eq!(judged(PageEnd::Loaded, cached, Some(HttpVersion::Three)), PageEnd::Loaded);
    }
}
