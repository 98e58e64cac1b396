//! Pages that do what they can against being measured: each is told for what it is, ends soon after its time, and holds up no other.

use super::{Site, json};
use crate::browser::lacks_chromium;
use crate::support::TestFolder;
use serde_json::Value;

/// A load of a page with all its marks. What is painted later than is waited for has none: where the machine was that busy, once more.
#[track_caller]
fn painted(folder: &TestFolder, url: &str) -> Value {
    let mut loads = (0..5).map(|_| {
        let (code, told, error) = json(folder, &[url, "-c", "1"]);
        assert_eq!(code, Some(0), "{error}");
        told["pages"][0]["loads"][0].clone()
    });
    let is_whole = |load: &Value| {
        println!("{load:#}");
        ["doc_ms", "paint_ms", "fcp_ms", "load_ms"].iter().all(|mark| load[mark].is_f64())
    };
    loads.find(is_whole).expect("a load with all its marks")
}

#[test]
fn a_page_that_goes_elsewhere_by_itself_has_taken_until_then_and_it_is_said() {
    if lacks_chromium() {
        return;
    }
    let (folder, site) = (TestFolder::new(), Site::new());
    for path in ["/goes-on", "/replaces"] {
        let load = &painted(&folder, &site.url(path));
        let moved = &load["moved"][0];
        assert!(moved["url"].as_str().is_some_and(|url| url.ends_with("/next")), "{load}");
        let of = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{load}"));
        let at = of(&moved["at_ms"]);
        assert!((650.0..30_000.0).contains(&at), "{path} after {at} ms");
        for mark in ["doc_ms", "paint_ms", "load_ms"] {
            assert!(of(&load[mark]) > at && of(&load[mark]) < at + 30_000.0, "{mark}: {load}");
        }
    }
    let said = folder.quell(&["page", &site.url("/goes-on"), "-c", "1", "--no-scripts"]);
    assert!(said.out.contains("went on by itself"), "{}", said.out);
    let (_, told, _) = json(&folder, &[&site.url("/"), "-c", "1"]);
    assert_eq!(told["pages"][0]["loads"][0]["moved"], Value::Null, "it stays where it is");
}

#[test]
fn a_page_can_not_forge_its_figures() {
    if lacks_chromium() {
        return;
    }
    let (folder, site) = (TestFolder::new(), Site::new());
    let load = painted(&folder, &site.url("/forges"));
    for mark in ["doc_ms", "paint_ms", "fcp_ms", "load_ms"] {
        let is_true = |ms: &f64| *ms > 1.0 && *ms < 60_000.0;
        assert!(load[mark].as_f64().as_ref().is_some_and(is_true), "{mark}: {load}");
    }
}

#[test]
fn a_page_that_goes_on_for_ever_is_not_there_and_has_no_times() {
    if lacks_chromium() {
        return;
    }
    let (folder, site) = (TestFolder::new(), Site::new());
    let url = site.url("/goes-on-for-ever");
    // Of a browser that has not asked for anything and gets no CPU it is not known whose time was over: once more with more of it.
    let is_told = ["5s", "20s", "90s"].into_iter().any(|timeout| {
        let said = folder.quell(&["page", &url, "-c", "1", "--no-scripts", "--timeout", timeout]);
        assert_eq!(said.code, Some(1), "{}", said.error);
        let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
        println!("{words}");
        for lie in ["its scripts leave no time", "the times are those"] {
            assert!(!words.contains(lie), "{lie}: {words}");
        }
        words.contains("its time was over")
    });
    assert!(is_told, "its time was over");
}
