//! A tab of Chromium with the page in it, driven as a person would.

use quell_page::browser::{Browser, Options, find};
use quell_page::devtools::Until;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use serde_json::{Value, json};

/// How long anything may take: a machine may be busy, and in the lab a browser's work is much.
const PATIENCE_NS: u64 = 300_000_000_000;

pub fn lacks_chromium() -> bool {
    let lacks = find(None).err();
    if let Some(error) = &lacks {
        eprintln!("skipped: {error}");
    }
    lacks.is_some()
}

pub struct Tab {
    browser: Browser,
    session: String,
    stop: Bell,
}

impl Tab {
    /// Opens the page, and waits until it is ready.
    pub fn new(url: &str, (width, height): (u32, u32)) -> Self {
        Self::with(url, (width, height), &Options::default())
    }

    pub fn with(url: &str, (width, height): (u32, u32), options: &Options) -> Self {
        let stop = Bell::new().expect("a bell");
        let mut browser = Browser::start(options, &stop).expect("Chromium starts");
        let until = Until { deadline_ns: monotonic_ns() + PATIENCE_NS, stop: &stop };
        let mut text = |session: &str, method: &str, params: Value, key: &str| {
            let answer = browser.devtools.call(session, method, params, until).expect(method);
            answer[key].as_str().unwrap_or_default().to_owned()
        };
        let target = text("", "Target.createTarget", json!({ "url": "about:blank" }), "targetId");
        let attach = json!({ "targetId": target, "flatten": true });
        let session = text("", "Target.attachToTarget", attach, "sessionId");
        let mut tab = Self { browser, session, stop };
        tab.looks(width, height, "light");
        tab.call("Page.enable", json!({}));
        tab.go(url);
        tab
    }

    /// Goes to a page, and waits until it is ready.
    pub fn go(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.until("document.body && document.body.dataset.state === 'ready'");
    }

    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let until = Until { deadline_ns: monotonic_ns() + PATIENCE_NS, stop: &self.stop };
        let answer = self.browser.devtools.call(&self.session, method, params, until);
        self.browser.devtools.forget();
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// What an expression is, awaited where it is a promise.
    pub fn value(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer:#}");
        answer["result"].get("value").cloned().unwrap_or(Value::Null)
    }

    pub fn run(&mut self, statement: &str) {
        self.value(&format!("{{ {statement}; null }}"));
    }

    pub fn text(&mut self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector('{selector}').textContent"));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until this is so: the page itself looks at each change of it.
    #[track_caller]
    pub fn until(&mut self, condition: &str) {
        let wait = format!(
            "new Promise(done => {{ const look = () => {{ try {{ if ({condition}) {{ watch.disconnect(); done(true); }} }} catch {{}} }};
             const watch = new MutationObserver(look);
             watch.observe(document, {{ subtree: true, childList: true, attributes: true, characterData: true }});
             document.addEventListener('readystatechange', look); look(); }})"
        );
        assert_eq!(self.value(&wait), true, "{condition}");
    }

    /// Presses the button and waits for the result.
    #[track_caller]
    pub fn measure(&mut self) -> Value {
        self.run("document.getElementById('start').click()");
        self.until("['done', 'failed'].includes(document.body.dataset.state)");
        let said = self.text("#status");
        let result = self.value("document.body.dataset.result");
        let result = result.as_str().unwrap_or_else(|| panic!("it failed: {said}"));
        serde_json::from_str(result).expect("it is JSON")
    }

    pub fn looks(&mut self, width: u32, height: u32, scheme: &str) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 }),
        );
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
    }

    /// Keeps a picture in the folder that `QUELL_WEB_PICTURES` names, to be looked at.
    pub fn keep_picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("QUELL_WEB_PICTURES") else { return };
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let path = std::path::Path::new(&folder).join(format!("{name}.png"));
        std::fs::write(path.with_extension("base64"), answer["data"].as_str().unwrap_or_default())
            .expect("a file can be written");
    }
}
