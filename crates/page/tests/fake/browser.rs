//! A browser for tests: speaks the DevTools protocol on the descriptors 3 and 4, and does with a page what its host's name says.
//!
//! ```text
//!   http://fine/      is there            http://crash/     the browser ends        http://garbage/   it says nonsense
//!   http://endless/   never ends          http://tab/       the page's process does http://flood/     it says too much
//!   http://dialog/    asks something      http://hang/      it falls silent         http://busy/      the page does
//!   http://cert/      is not trusted      http://silent/    no first byte comes   http://stays/     is closed at the second time
//!   http://leaves/    goes elsewhere when it is asked       http://stuck/     is never closed
//!   http://asks/      asks whether it may be left, when it is asked
//! ```
//!
//! It has a child, as browsers have, whose number and folder it tells in its version.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::process::{Command, Stdio};

#[expect(clippy::zombie_processes, reason = "its child is there to be killed with its group")]
fn main() {
    // SAFETY: whoever starts a browser with --remote-debugging-pipe gives it these two.
    let (from, to) = unsafe { (File::from_raw_fd(3), File::from_raw_fd(4)) };
    let folder =
        std::env::args().find_map(|a| Some(a.strip_prefix("--user-data-dir=")?.to_owned()));
    let sleep =
        || Command::new("sleep").arg("1000").stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = sleep().expect("sleep is part of every Debian");
    let product = format!("Fake {} {}", child.id(), folder.unwrap_or_default());
    let mut fake =
        Fake { to, product, page: String::new(), document: 0, told_to_close: 0, waits: None };
    let mut unread = Vec::new();
    for byte in std::io::BufReader::new(from).bytes() {
        match byte {
            Ok(0) => {
                let message = serde_json::from_slice(&unread).expect("what it is told is JSON");
                unread.clear();
                fake.hear(&message);
            }
            Ok(byte) => unread.push(byte),
            Err(_) => break,
        }
    }
}

struct Fake {
    to: File,
    product: String,
    /// The host of the page that it went to last.
    page: String,
    /// The number of its document.
    document: u32,
    told_to_close: u32,
    /// The question that is answered when the page's own has an answer.
    waits: Option<Value>,
}

impl Fake {
    fn hear(&mut self, message: &Value) {
        if self.page == "hang" {
            return;
        }
        let result = match message["method"].as_str().unwrap_or_default() {
            "Browser.getVersion" => json!({ "product": self.product }),
            "Target.createBrowserContext" => json!({ "browserContextId": "C" }),
            "Target.createTarget" => json!({ "targetId": "T" }),
            "Target.attachToTarget" => json!({ "sessionId": "S" }),
            "Page.navigate" => {
                let url = message["params"]["url"].as_str().unwrap_or_default();
                self.page = url.split('/').nth(2).unwrap_or_default().to_owned();
                match self.go() {
                    Some(result) => result,
                    None => return,
                }
            }
            "Page.handleJavaScriptDialog" if self.page == "asks" => {
                assert_eq!(message["params"]["accept"], true, "it may be left");
                let value = json!({ "now": 900.0, "load": 400.0 });
                let result = json!({ "result": { "type": "object", "value": value } });
                let id = self.waits.take().expect("it was asked");
                self.say(&json!({ "id": id, "result": result }));
                json!({})
            }
            "Page.handleJavaScriptDialog" => {
                self.event("Page.loadEventFired", json!({ "timestamp": 1.4 }));
                json!({})
            }
            "Target.closeTarget" if self.page == "stuck" => return,
            "Target.closeTarget" => {
                self.told_to_close += 1;
                if self.page != "stays" || self.told_to_close == 2 {
                    self.say(&json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S" } }));
                }
                json!({ "success": true })
            }
            "Target.disposeBrowserContext" if self.page == "stuck" => return,
            // It is told late that it has gone elsewhere.
            "Runtime.evaluate" if self.page == "leaves" && self.document == 1 => {
                let why = "Inspected target navigated or closed";
                self.say(&json!({ "id": message["id"], "error": { "message": why } }));
                self.document = 2;
                let frame = json!({ "id": "F", "loaderId": "L2", "url": "http://leaves/on" });
                self.event("Page.frameNavigated", json!({ "frame": frame }));
                self.event("Page.loadEventFired", json!({ "timestamp": 2.4 }));
                return;
            }
            "Runtime.evaluate" if self.page == "asks" => {
                self.waits = Some(message["id"].clone());
                self.event("Page.javascriptDialogOpening", json!({ "type": "beforeunload" }));
                return;
            }
            "Page.createIsolatedWorld" if self.page == "busy" => return,
            "Page.createIsolatedWorld" => json!({ "executionContextId": 7 }),
            // In the page's own world the page itself would answer.
            "Runtime.evaluate" if message["params"]["contextId"] != 7 => {
                json!({ "result": { "type": "object", "value": { "now": 2.0, "load": 1.0 } } })
            }
            "Runtime.evaluate" if self.page == "silent" => panic!("there is no page yet"),
            "Runtime.evaluate" => {
                let value = json!({ "now": 900.0, "doc": 180.5, "paint": 200.0, "fcp": 200.0, "lcp": 310.2, "load": 400.0 });
                json!({ "result": { "type": "object", "value": value } })
            }
            _ => json!({}),
        };
        self.say(&json!({ "id": message["id"], "result": result }));
    }

    /// What becomes of the page; the answer to who asked for it, unless there is none.
    fn go(&mut self) -> Option<Value> {
        match self.page.as_str() {
            "crash" => {
                eprintln!("[0101/000000:FATAL] the display is gone");
                std::process::exit(1);
            }
            "hang" => return None,
            "silent" => {
                self.sent();
                return None;
            }
            "cert" => return Some(json!({ "errorText": "net::ERR_CERT_AUTHORITY_INVALID" })),
            "garbage" => {
                self.raw(b"<html>no protocol</html>\0");
                return None;
            }
            "flood" => {
                let much = vec![b'x'; 1 << 20];
                (0..64).for_each(|_| self.raw(&much));
                return None;
            }
            _ => {}
        }
        self.sent();
        match self.page.as_str() {
            "tab" => self.event("Inspector.targetCrashed", json!({})),
            "endless" => {}
            "dialog" => {
                self.event(
                    "Page.javascriptDialogOpening",
                    json!({ "type": "alert", "message": "?" }),
                );
            }
            _ => {
                let timing = json!({ "requestTime": 1.0, "sendStart": 20.0, "sendEnd": 20.5, "receiveHeadersEnd": 41.0 });
                let response = json!({ "protocol": "http/1.1", "status": 200, "timing": timing });
                self.event(
                    "Network.responseReceived",
                    json!({ "requestId": "1", "response": response }),
                );
                self.event(
                    "Network.loadingFinished",
                    json!({ "requestId": "1", "timestamp": 1.1, "encodedDataLength": 24_000 }),
                );
                self.event("Page.loadEventFired", json!({ "timestamp": 1.4 }));
            }
        }
        self.document = 1;
        Some(json!({ "frameId": "F", "loaderId": "L" }))
    }

    fn sent(&mut self) {
        self.event(
            "Network.requestWillBeSent",
            json!({ "requestId": "1", "timestamp": 1.0, "type": "Document", "request": { "url": "http://page/" } }),
        );
    }

    fn event(&mut self, method: &str, params: Value) {
        self.say(&json!({ "method": method, "sessionId": "S", "params": params }));
    }

    fn say(&mut self, message: &Value) {
        self.raw(format!("{message}\0").as_bytes());
    }

    /// Nobody may read it any more.
    fn raw(&mut self, bytes: &[u8]) {
        if self.to.write_all(bytes).is_err() {
            std::process::exit(0);
        }
    }
}
