//! A tab of Chromium with a page in it, driven as a person would.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quell_page::browser::{Browser, BrowserOptions};
use quell_page::devtools::{DevtoolsEvent, Until};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use serde_json::{Value, json};

/// How long anything may take: a machine may be busy, and in the lab a browser's work is much.
const PATIENCE_NS: u64 = 300_000_000_000;

pub struct Tab {
    browser: Browser,
    session: String,
    stop: Bell,
    /// What went wrong in pages: errors and warnings of scripts and of the browser.
    pub complaints: Vec<String>,
    /// Addresses that pages asked for.
    pub asked: Vec<String>,
}

impl Tab {
    /// An empty one. What pages complain of and whom they ask is heard only after [`Tab::listen`].
    pub fn new((width, height): (u32, u32), options: &BrowserOptions) -> Self {
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
        let mut tab = Self { browser, session, stop, complaints: Vec::new(), asked: Vec::new() };
        tab.looks(width, height, "light");
        tab.call("Page.enable", json!({}));
        tab
    }

    /// Hears from now on what pages complain of and whom they ask.
    pub fn listen(&mut self) {
        for what in ["Runtime.enable", "Log.enable", "Network.enable"] {
            self.call(what, json!({}));
        }
    }

    /// Goes to a page, and waits until it is ready, which is when this is so.
    #[track_caller]
    pub fn go(&mut self, url: &str, is_ready: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.until(is_ready);
    }

    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let until = Until { deadline_ns: monotonic_ns() + PATIENCE_NS, stop: &self.stop };
        let answer = self.browser.devtools.call(&self.session, method, params, until);
        let at_once = Until { deadline_ns: 0, stop: &self.stop };
        let mut told = Vec::new();
        while let Ok(Some(one)) = self.browser.devtools.next_told(at_once) {
            told.push(one);
        }
        told.iter().for_each(|told| self.hear(told));
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn hear(&mut self, told: &DevtoolsEvent) {
        let params = &told.params;
        let is_bad = |level: &Value| matches!(level.as_str(), Some("error" | "warning" | "assert"));
        match &*told.method {
            "Network.requestWillBeSent" => {
                self.asked.extend(params["request"]["url"].as_str().map(str::to_owned));
            }
            "Runtime.exceptionThrown" => self.complaints.push(params.to_string()),
            "Runtime.consoleAPICalled" if is_bad(&params["type"]) => {
                self.complaints.push(params.to_string());
            }
            "Log.entryAdded" if is_bad(&params["entry"]["level"]) => {
                self.complaints.push(params.to_string());
            }
            _ => {}
        }
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

    /// Waits until what changed is painted.
    pub fn painted(&mut self) {
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
    }

    /// Presses a key and lets it go, by its name (`Tab`, `Enter`, `ArrowDown`) or by what it types (`+`).
    pub fn key(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "ArrowDown" => 40,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            _ if key.chars().count() == 1 => key,
            _ => "",
        };
        let mut event = json!({ "key": key, "windowsVirtualKeyCode": code });
        if code > 0 {
            event["code"] = key.into();
        }
        event["type"] = if text.is_empty() { "rawKeyDown" } else { "keyDown" }.into();
        event["text"] = text.into();
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", event);
    }

    /// Turns the wheel over a place of the screen; negative: away from the person.
    pub fn wheel(&mut self, (x, y): (f64, f64), by: f64) {
        let event = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": by });
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Keeps a picture, all the page's height, in the folder that `QUELL_WEB_PICTURES` names, to be looked at.
    pub fn keep_picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("QUELL_WEB_PICTURES") else { return };
        let whole = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.call("Page.captureScreenshot", whole);
        let path = std::path::Path::new(&folder).join(format!("{name}.png"));
        let bytes = STANDARD.decode(answer["data"].as_str().unwrap_or_default());
        std::fs::write(path, bytes.expect("base64")).expect("a file can be written");
    }
}
