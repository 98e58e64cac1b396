//! The page of `quell serve --web` in Chromium. Where Chromium is not installed these stories are left out, which is said.
//!
//! ```text
//!   loopback   the page as a person meets it: pressed, read, kept, forgotten; its secret; how it looks
//!   the lab    a line that is known: what the page says of it is compared with what it is
//! ```

mod support;

#[path = "serve/server.rs"]
mod server;

#[path = "web/tab.rs"]
mod tab;

use serde_json::Value;
use server::Served;
use support::{TestFolder, program, says};
use tab::{Tab, lacks_chromium};

fn number(result: &Value, key: &str) -> f64 {
    result[key].as_f64().unwrap_or_else(|| panic!("{key} in {result}"))
}

#[test]
fn a_person_presses_one_button_and_is_told_what_the_line_does() {
    if lacks_chromium() {
        return;
    }
    let served = Served::new(&["--web", "--max-rate", "200Mbit"]);
    let mut tab = Tab::new(&format!("http://{}/", served.at), (1280, 900));
    let paint = tab.value(
        "new Promise(done => new PerformanceObserver(list => { const all = list.getEntriesByName('first-contentful-paint'); \
         if (all.length) done(all[0].startTime); }).observe({ type: 'paint', buffered: true }))",
    );
    let paint_ms = paint.as_f64().expect("it was painted");
    println!("first contentful paint: {paint_ms} ms");
    tab.keep_picture("ready-light-1280");
    let result = tab.measure();
    println!("{result:#}");
    // All of what is limited to 200 Mbit/s of payload, in both directions together and so in each.
    for key in ["down", "up"] {
        assert!((180.0..210.0).contains(&number(&result, key)), "{key}: {result:#}");
    }
    let head = tab.text("#verdict-head");
    assert!(head.starts_with("Calls "), "{head}");
    for (width, height, name) in [(1280, 1000, "1280"), (768, 1100, "768"), (390, 1500, "390")] {
        for scheme in ["light", "dark"] {
            tab.looks(width, height, scheme);
            tab.keep_picture(&format!("done-{scheme}-{name}"));
            let over =
                "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(tab.value(over), 0, "nothing stands out at {width} px");
        }
    }
    let rows = "document.querySelectorAll('#history tbody tr').length";
    assert_eq!(tab.value(rows), 1);
    tab.run("document.getElementById('clear').click()");
    tab.until("document.querySelectorAll('#history tbody tr').length === 0");
    assert_eq!(tab.value("localStorage.getItem('quell-history')"), Value::Null);
    let others =
        "performance.getEntriesByType('resource').every(e => e.name.startsWith(location.origin))";
    assert_eq!(tab.value(others), true, "no other host was asked");
    let _ = says;
    let _ = (TestFolder::new, program);
}
