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
use crate::marks::{Marks, SCRIPT};
use crate::waterfall::Waterfall;
use quell_model::page::{PageEnd, PageLoad};
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
        let mut loading = Loading::default();
        let begun_ns = monotonic_ns();
        self.navigate(&session, wanted, &mut loading, stop)?;
        let mut end = loading.end.take().unwrap_or(PageEnd::TimedOut);
        let marks = match &end {
            PageEnd::Failed(_) => Marks::default(),
            // Until a page's first bytes are there, there is no page that could be asked.
            _ if !loading.is_there => Marks::default(),
            _ => self.marks(&session, &mut loading, stop)?,
        };
        if end == PageEnd::Loaded && marks.load_ms.is_none() {
            end = PageEnd::Failed(
                "it does not tell its times: its scripts leave no time for that".into(),
            );
        }
        let params = json!({ "targetId": target });
        // A tab whose process crashed may be gone.
        match self.ask("", "Target.closeTarget", params, stop) {
            Ok(_) | Err(PageError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(PageLoad {
            number: wanted.number,
            warm: wanted.warm,
            t_ns: begun_ns.wrapping_sub(wanted.origin_ns) as i64,
            load_ms: marks.load_ms.filter(|_| end == PageEnd::Loaded),
            end,
            doc_ms: marks.doc_ms,
            paint_ms: marks.paint_ms,
            fcp_ms: marks.fcp_ms,
            lcp_ms: marks.lcp_ms,
            requests: loading.waterfall.rows().0,
        })
    }

    /// Goes to the page and watches until it is there, can't be, or time is over.
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
            Ok(answer) => {
                loading.is_there = true;
                let error = answer.get("errorText").and_then(Value::as_str).unwrap_or_default();
                if !error.is_empty() {
                    loading.end = Some(PageEnd::Failed(error.to_owned()));
                }
            }
            Err(PageError::Refused { why, .. }) => loading.end = Some(PageEnd::Failed(why)),
            Err(PageError::Silent { .. }) => {}
            Err(error) => return Err(self.explain(error)),
        }
        while loading.end.is_none() {
            match self.devtools.next_told(until) {
                Ok(Some(told)) => self.heard(session, &told, loading, stop)?,
                Ok(None) if stop.rings() => return Err(PageError::Stopped),
                Ok(None) => loading.end = Some(PageEnd::TimedOut),
                Err(error) => return Err(self.explain(error)),
            }
        }
        Ok(())
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
        loading.waterfall.take(told);
        match told.method.as_str() {
            "Page.loadEventFired" => loading.end = Some(PageEnd::Loaded),
            "Inspector.targetCrashed" => {
                loading.end = Some(PageEnd::Failed("the page's process crashed".into()));
            }
            // Nobody is there to answer, and until then the page stands still.
            "Page.javascriptDialogOpening" => {
                let params = json!({ "accept": false });
                match self.ask(session, "Page.handleJavaScriptDialog", params, stop) {
                    Ok(_) | Err(PageError::Refused { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What the page knows of its times; and what was still told of its requests.
    fn marks(
        &mut self,
        session: &str,
        loading: &mut Loading,
        stop: &Bell,
    ) -> Result<Marks, PageError> {
        let params = json!({ "expression": SCRIPT, "awaitPromise": true, "returnByValue": true });
        let marks = match self.ask(session, "Runtime.evaluate", params, stop) {
            Ok(answer) => Marks::of(&answer),
            // A page that never ends may not have one that could be asked, or be busy with itself for ever.
            Err(PageError::Refused { .. } | PageError::Silent { .. }) => Marks::default(),
            Err(error) => return Err(error),
        };
        // Only a browser that still answers can say that a page does not.
        self.ask("", "Browser.getVersion", json!({}), stop)?;
        while let Some(told) = self.devtools.next_told(Until { deadline_ns: 0, stop })? {
            if told.session == session {
                loading.waterfall.take(&told);
            }
        }
        Ok(marks)
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

/// A load under way.
#[derive(Default)]
struct Loading {
    waterfall: Waterfall,
    /// Whether the page's first bytes are there.
    is_there: bool,
    end: Option<PageEnd>,
}

fn text(answer: &Value, key: &str) -> Result<String, PageError> {
    let text = answer.get(key).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| PageError::Nonsense(format!("an answer without {key}")))
}
