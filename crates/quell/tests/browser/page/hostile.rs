//! Pages that do what they can against being measured: each is told for what it is, ends soon after its time, and holds up no other.

use super::{Site, json};
use crate::browser::lacks_chromium;
use crate::support::{self, TestFolder};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

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

/// A page that is not there within two seconds is given up soon after; where the machine has no CPU for a browser, once more.
#[track_caller]
fn is_given_up_soon(path: &str) {
    let (folder, site) = (TestFolder::new(), Site::new());
    let is_given_up = (0..5).any(|_| {
        let begun = Instant::now();
        let (code, told, error) = json(&folder, &[&site.url(path), "-c", "1", "--timeout", "2s"]);
        assert_eq!(code, Some(1), "{error}");
        let end = &told["pages"][0]["loads"][0]["end"];
        println!("{path}: {end} after {:?}", begun.elapsed());
        // Its time, 5 s more, and a browser's start on a busy machine.
        end == "timed-out" && begun.elapsed() < Duration::from_secs(40)
    });
    assert!(is_given_up, "{path}");
}

#[test]
fn a_page_whose_scripts_never_end_is_given_up_soon_after_its_time() {
    if lacks_chromium() {
        return;
    }
    for path in ["/busy", "/asks"] {
        is_given_up_soon(path);
    }
}

#[test]
fn a_page_that_asks_whether_it_may_be_left_holds_up_nobody() {
    if lacks_chromium() {
        return;
    }
    let (folder, site) = (TestFolder::new(), Site::new());
    let begun = Instant::now();
    let (code, told, error) =
        json(&folder, &[&site.url("/may-be-left"), &site.url("/"), "-c", "2"]);
    assert_eq!((code, &told["error"]), (Some(0), &Value::Null), "{error}{told:#}");
    assert!(begun.elapsed() < Duration::from_secs(600), "{:?}", begun.elapsed());
    for page in told["pages"].as_array().expect("pages") {
        let ends: Vec<&Value> =
            page["loads"].as_array().expect("loads").iter().map(|load| &load["end"]).collect();
        assert_eq!(ends, ["loaded", "loaded"], "{page:#}");
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

#[test]
fn what_is_known_of_a_page_that_did_not_come_is_told() {
    if lacks_chromium() {
        return;
    }
    let (folder, site) = (TestFolder::new(), Site::new());
    let page = |path: &str, timeout: &str| {
        let said = folder.quell(&[
            "page",
            &site.url(path),
            "-c",
            "1",
            "--no-scripts",
            "--timeout",
            timeout,
        ]);
        assert_eq!(said.code, Some(1), "{path}: {}{}", said.out, said.error);
        said.out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    // Its document was asked for, and never answered; a busy machine may not have asked for it within 3 s.
    let mut silent = ["3s", "20s", "90s"].into_iter().map(|timeout| page("/silent", timeout));
    assert!(silent.any(|words| words.contains("1 of 1 requests have no end, as http://")));
    let words = page("/breaks-off", "90s");
    assert!(words.contains("the server broke off: less came than it announced"), "{words}");
    assert!(page("/no-status", "90s").contains("the status 2"), "no page");
    assert!(!page("/stops", "5s").contains(" 0 of "), "what tells nothing is not told");
}

#[test]
fn a_page_of_very_many_pictures_is_given_up_soon_after_its_time() {
    if lacks_chromium() {
        return;
    }
    is_given_up_soon("/many");
}

/// Whether there is a process whose command line names this folder.
fn lives(folder: &Path) -> bool {
    let name = folder.to_string_lossy();
    let lines = std::fs::read_dir("/proc").expect("it is there").flatten();
    let mut lines = lines.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(&*name))
}

#[test]
fn the_folder_of_a_browser_whose_owner_was_killed_is_removed_by_the_next() {
    if lacks_chromium() {
        return;
    }
    let (folder, site) = (TestFolder::new(), Site::new());
    let within = tempfile::tempdir().expect("a folder");
    let page = |path: &str| {
        let url = site.url(path);
        let mut command = folder.command(&["page", &url, "-c", "1", "--no-scripts"]);
        command.env("TMPDIR", within.path()).stdout(Stdio::piped());
        command
    };
    let mut killed = page("/silent").spawn().expect("it starts");
    // It says so when its browser runs.
    let out = BufReader::new(killed.stdout.take().expect("its words"));
    assert!(out.lines().next().is_some_and(|line| line.is_ok_and(|line| line.contains("Chrom"))));
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");
    let left = || std::fs::read_dir(within.path()).expect("it is there").flatten().count();
    assert_eq!(left(), 1, "nobody was there to remove it");
    // Its browser ends with it, and what that started a little later, which may write until then.
    let begun = Instant::now();
    while lives(within.path()) {
        assert!(begun.elapsed() < Duration::from_secs(120), "it outlives who started it");
        std::thread::yield_now();
    }
    assert!(page("/").status().expect("it runs").success());
    assert_eq!(left(), 0);
}

#[test]
fn a_temporary_folder_with_a_long_path_is_told_with_what_to_do() {
    if lacks_chromium() {
        return;
    }
    let folder = TestFolder::new();
    let long = folder.path(&"x".repeat(100));
    std::fs::create_dir(&long).expect("a folder");
    let arguments = ["page", "http://127.0.0.1:9/", "-c", "1"];
    let mut command = folder.command(&arguments);
    command.env("TMPDIR", &long);
    let said = support::said(command, &arguments).refused(3);
    assert!(said.contains("TMPDIR"), "{said}");
}
