//! Where pages are loaded: contexts, with a cache, cookies and connections of their own, and tabs in them.
//!
//! ```text
//!   context ── tab ── a load ── closed ── tab ── the next load is warm
//!      └── put away within seconds, or the browser ends and another takes its place
//! ```
//!
//! A page can keep its tab from being closed, as one that goes elsewhere at that moment: so nothing here waits for it for long.

use crate::PageError;
use crate::browser::{Browser, Context};
use crate::devtools::Until;
use crate::limits::LIMITS;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use serde_json::{Value, json};

pub(crate) struct Tab {
    target: String,
    pub session: String,
}

impl Browser {
    /// A context that knows nothing yet; the one before is put away. Where the browser does not get done with that, another takes its place.
    pub fn context(&mut self, stop: &Bell) -> Result<Context, PageError> {
        if !self.is_spent
            && let Some(before) = self.open.take()
        {
            let deadline_ns = monotonic_ns().saturating_add(LIMITS.away_ns);
            let params = json!({ "browserContextId": before.0 });
            let until = Until { deadline_ns, stop };
            let method = "Target.disposeBrowserContext";
            let away = self.devtools.call("", method, params, until);
            match away.and_then(|_| self.create(until)) {
                Ok(context) => return Ok(context),
                Err(_) if stop.rings() => return Err(PageError::Stopped),
                Err(_) => self.is_spent = true,
            }
        }
        if self.is_spent {
            self.renew(stop)?;
        }
        let deadline_ns = monotonic_ns().saturating_add(self.patience_ns);
        match self.create(Until { deadline_ns, stop }) {
            Err(PageError::Silent { .. }) if stop.rings() => Err(PageError::Stopped),
            Err(error) => Err(self.explain(error)),
            context => context,
        }
    }

    fn create(&mut self, until: Until<'_>) -> Result<Context, PageError> {
        let answer = self.devtools.call("", "Target.createBrowserContext", json!({}), until)?;
        let context = Context(text(&answer, "browserContextId")?);
        self.open = Some(context.clone());
        Ok(context)
    }

    /// Whether a context is there, with all that it knows.
    pub fn keeps(&self, context: &Context) -> bool {
        !self.is_spent && self.open.as_ref() == Some(context)
    }

    pub(crate) fn tab(&mut self, context: &Context, stop: &Bell) -> Result<Tab, PageError> {
        let params = json!({ "url": "about:blank", "browserContextId": context.0 });
        let target = text(&self.ask("", "Target.createTarget", params, stop)?, "targetId")?;
        let params = json!({ "targetId": target, "flatten": true });
        let session = text(&self.ask("", "Target.attachToTarget", params, stop)?, "sessionId")?;
        Ok(Tab { target, session })
    }

    /// Closes a tab, and waits until it is gone, but not longer than until then. A page that goes elsewhere as it is closed stays, so that it
    /// is told again. One that is not gone in time goes with its browser.
    pub(crate) fn close(&mut self, tab: &Tab, limit_ns: u64, stop: &Bell) -> Result<(), PageError> {
        let limit_ns = limit_ns.min(monotonic_ns().saturating_add(2 * LIMITS.away_ns));
        loop {
            let params = json!({ "targetId": tab.target });
            let until = Until { deadline_ns: limit_ns, stop };
            match self.devtools.call("", "Target.closeTarget", params, until) {
                Ok(_) => {}
                // A tab whose process crashed may be gone.
                Err(PageError::Refused { .. }) => return Ok(()),
                Err(_) if stop.rings() => return Err(PageError::Stopped),
                Err(_) => break,
            }
            let again_ns = limit_ns.min(monotonic_ns().saturating_add(LIMITS.again_ns));
            loop {
                match self.devtools.next_told(Until { deadline_ns: again_ns, stop }) {
                    Ok(Some(told)) if is_end(&told.method, &told.params, tab) => return Ok(()),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => {
                        self.is_spent = true;
                        return Ok(());
                    }
                }
            }
            if stop.rings() {
                return Err(PageError::Stopped);
            }
            if monotonic_ns() >= limit_ns {
                break;
            }
        }
        self.is_spent = true;
        Ok(())
    }

    /// Asks what the browser answers without the network.
    pub(crate) fn ask(
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
}

/// Whether that is what is told of a tab that is gone.
fn is_end(method: &str, params: &Value, tab: &Tab) -> bool {
    method == "Target.detachedFromTarget"
        && params.get("sessionId").and_then(Value::as_str) == Some(&tab.session)
}

fn text(answer: &Value, key: &str) -> Result<String, PageError> {
    let text = answer.get(key).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| PageError::Nonsense(format!("an answer without {key}")))
}
