//! Browsers on bad days: each is told apart, nothing is waited for without an end, and nothing stays behind.

use quell_model::page::{PageEnd, PageLoad};
use quell_page::PageError;
use quell_page::browser::{Browser, BrowserOptions};
use quell_page::load::PageRequest;
use quell_sys::clock::monotonic_ns;
use quell_sys::pidfd;
use quell_sys::wait::{Bell, readable, wait};
use quell_units::Span;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A load that has far more time than it needs.
const LONG_NS: u64 = 600_000_000_000;
/// One that has no time at all once it has begun.
const SHORT_NS: u64 = 50_000_000;

fn fake() -> Browser {
    started(None).expect("the fake starts")
}

fn started(patience: Option<Span>) -> Result<Browser, PageError> {
    let program = Some(env!("CARGO_BIN_EXE_fake-browser").into());
    let options = BrowserOptions { program, patience, ..BrowserOptions::default() };
    Browser::start(&options, &Bell::new().expect("a bell"))
}

fn load(browser: &mut Browser, page: &str, time_ns: u64) -> Result<PageLoad, PageError> {
    let stop = Bell::new().expect("a bell");
    let context = browser.context(&stop)?;
    let origin_ns = monotonic_ns();
    let deadline_ns = origin_ns + time_ns;
    let url = &format!("http://{page}/");
    browser.load(
        &context,
        PageRequest { url, number: 0, warm: false, deadline_ns, origin_ns },
        &stop,
    )
}

#[test]
fn a_page_that_is_there_has_its_times_and_its_request() {
    let load = load(&mut fake(), "fine", LONG_NS).expect("a load");
    assert_eq!(load.end, PageEnd::Loaded);
    let marks = [load.doc_ms, load.paint_ms, load.fcp_ms, load.lcp_ms, load.load_ms];
    assert_eq!(marks, [180.5, 200.0, 200.0, 310.2, 400.0].map(Some));
    let request = &load.requests[0];
    assert_eq!((request.wait_ms, request.receive_ms), (Some(20.5), Some(59.0)));
    assert_eq!((load.bytes(), load.network_ms()), (24_000, Some(100.0)));
}

#[test]
fn a_page_that_never_ends_is_given_up_with_what_is_known_of_it() {
    let mut browser = fake();
    // Where the machine stood still for all of its time, nothing came that could be known: once more with more.
    let slow = [SHORT_NS, 100 * SHORT_NS, 1000 * SHORT_NS].into_iter().find_map(|time_ns| {
        let slow = load(&mut browser, "endless", time_ns).ok()?;
        assert_eq!((&slow.end, slow.load_ms), (&PageEnd::TimedOut, None));
        slow.doc_ms.is_some().then_some(slow)
    });
    let slow = slow.expect("a load of which something is known");
    assert_eq!((slow.doc_ms, slow.requests[0].end_ms), (Some(180.5), None));
    // The browser is as good as before.
    assert_eq!(load(&mut browser, "fine", LONG_NS).map(|l| l.end), Ok(PageEnd::Loaded));
}

#[test]
fn a_server_that_says_nothing_is_a_page_that_nobody_can_ask() {
    // A browser that has no CPU for seconds is as one that hangs: then once more.
    let mut loads = (0..5).map(|_| load(&mut fake(), "silent", SHORT_NS));
    let load = loads.find_map(Result::ok).expect("a load");
    assert_eq!((load.end, load.doc_ms), (PageEnd::TimedOut, None));
    // What the browser did is known all the same.
    let request = &load.requests[0];
    assert_eq!((&*request.url, request.end_ms), ("http://page/", None));
}

#[test]
fn what_is_wrong_with_a_page_is_told_in_the_browsers_words() {
    let mut browser = fake();
    let mut end = |page: &str| load(&mut browser, page, LONG_NS).map(|l| l.end);
    assert_eq!(end("cert"), Ok(PageEnd::Failed("net::ERR_CERT_AUTHORITY_INVALID".into())));
    assert_eq!(end("tab"), Ok(PageEnd::Failed("the page's process crashed".into())));
    assert_eq!(end("dialog"), Ok(PageEnd::Loaded), "nobody answers a question: it is refused");
}

#[test]
fn a_page_whose_scripts_never_end_is_no_hanging_browser() {
    // Whoever has no patience with the page has none with a browser that gets no CPU either: then once more with more.
    let mut ends = [300, 3_000, 30_000].into_iter().map(|ms| {
        let mut browser = started(Some(Span::from_millis(ms)))?;
        load(&mut browser, "busy", LONG_NS).map(|load| load.end)
    });
    let is_told = |end: &Result<PageEnd, PageError>| {
        println!("{end:?}");
        matches!(end, Ok(PageEnd::Failed(why)) if why.contains("its scripts"))
    };
    assert!(ends.any(|end| is_told(&end)), "it is the page that is busy");
}

#[test]
fn a_page_that_goes_elsewhere_as_it_is_asked_is_there_when_its_last_document_is() {
    let load = load(&mut fake(), "leaves", LONG_NS).expect("a load");
    assert_eq!((&load.end, load.moved.len()), (&PageEnd::Loaded, 1), "{load:?}");
    assert_eq!(load.moved[0].url, "http://leaves/on");
}

#[test]
fn a_question_is_answered_whatever_is_waited_for() {
    let load = load(&mut fake(), "asks", LONG_NS).expect("a load");
    assert_eq!((load.end, load.load_ms), (PageEnd::Loaded, Some(400.0)));
}

#[test]
fn a_page_that_is_not_closed_is_told_again_and_then_goes_with_its_browser() {
    // One that has no CPU for seconds goes too: then once more.
    let kept = (0..5).find_map(|_| {
        let mut browser = fake();
        let first = browser.version.clone();
        assert_eq!(load(&mut browser, "stays", LONG_NS).map(|l| l.end), Ok(PageEnd::Loaded));
        assert_eq!(load(&mut browser, "fine", LONG_NS).map(|l| l.end), Ok(PageEnd::Loaded));
        (browser.version == first).then_some((browser, first))
    });
    let (mut browser, first) = kept.expect("it is the same browser");
    let begun_ns = monotonic_ns();
    let stuck = load(&mut browser, "stuck", LONG_NS).map(|l| l.end);
    assert_eq!(stuck, Ok(PageEnd::Loaded));
    assert!(monotonic_ns() - begun_ns < LONG_NS / 10, "it is not waited for");
    assert_eq!(load(&mut browser, "fine", LONG_NS).map(|l| l.end), Ok(PageEnd::Loaded));
    assert_ne!(browser.version, first, "another took its place");
}

#[test]
fn what_a_browser_knew_is_gone_with_it_and_the_next_one_knows_nothing() {
    let mut browser = fake();
    let stop = Bell::new().expect("a bell");
    let context = browser.context(&stop).expect("a context");
    let mut loads = ["stuck", "fine"].into_iter().map(|page| {
        let (url, deadline_ns) = (&*format!("http://{page}/"), monotonic_ns() + LONG_NS);
        let wanted =
            PageRequest { url, number: 0, warm: page == "fine", deadline_ns, origin_ns: 0 };
        browser.load(&context, wanted, &stop).map(|load| load.end)
    });
    assert_eq!(loads.next(), Some(Ok(PageEnd::Loaded)));
    let warm = loads.next();
    let is_said = |why: &String| why.contains("ended with its cache");
    assert!(matches!(&warm, Some(Ok(PageEnd::Failed(why))) if is_said(why)), "{warm:?}");
}

#[test]
fn after_a_browser_that_crashed_or_hangs_there_is_another() {
    for page in ["crash", "hang", "garbage"] {
        let mut browser = fake();
        load(&mut browser, page, SHORT_NS).expect_err(page);
        let next = load(&mut browser, "fine", LONG_NS).map(|l| l.end);
        assert_eq!(next, Ok(PageEnd::Loaded), "after {page}");
    }
}

#[test]
fn a_browser_that_crashes_is_told_with_its_last_words() {
    let error = load(&mut fake(), "crash", LONG_NS).expect_err("it is gone").to_string();
    assert!(error.contains("ended") && error.contains("the display is gone"), "{error}");
}

#[test]
fn a_browser_that_hangs_is_told_from_a_page_that_does() {
    let error = load(&mut fake(), "hang", SHORT_NS).expect_err("silence");
    assert!(matches!(error, PageError::Silent { .. }), "{error}");
}

#[test]
fn what_is_no_protocol_ends_it_and_what_has_no_end_is_not_kept() {
    let error = load(&mut fake(), "garbage", LONG_NS).expect_err("nonsense").to_string();
    assert!(error.contains("not the DevTools protocol") && error.contains("<html>"), "{error}");
    let error = load(&mut fake(), "flood", LONG_NS).expect_err("too much").to_string();
    assert!(error.contains("more than"), "{error}");
}

#[test]
fn the_bell_ends_a_load_at_once() {
    let mut browser = fake();
    let (stop, quiet) = (Bell::new().expect("a bell"), Bell::new().expect("a bell"));
    let context = browser.context(&quiet).expect("a context");
    stop.ring();
    let deadline_ns = monotonic_ns() + LONG_NS;
    let wanted =
        PageRequest { url: "http://endless/", number: 0, warm: false, deadline_ns, origin_ns: 0 };
    assert_eq!(browser.load(&context, wanted, &stop), Err(PageError::Stopped));
}

#[test]
fn nothing_of_a_browser_stays_behind_neither_its_children_nor_its_folder() {
    for page in ["fine", "hang"] {
        let mut browser = fake();
        let told = browser.version.clone();
        let mut words = told.split(' ').skip(1);
        let child: u32 = words.next().expect("its child").parse().expect("a number");
        let folder = words.next().expect("its folder");
        let child = pidfd::open(child).expect("its child is there");
        assert!(Path::new(folder).is_dir(), "{folder}");
        let _ = load(&mut browser, page, SHORT_NS);
        drop(browser);
        wait(&mut [readable(&child)]).expect("its child ends");
        assert!(!Path::new(folder).exists(), "{folder} is still there after {page}");
    }
}

#[test]
fn what_is_no_browser_is_told_with_what_it_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = |text: &str, patience: Option<Span>| {
        let path = folder.path().join("browser");
        std::fs::write(folder.path().join("text"), text).expect("a script");
        // Copied by another process: what this one has open for writing, a child of another test may still hold when it is to be run.
        let copied = Command::new("cp").arg(folder.path().join("text")).arg(&path).status();
        assert!(copied.expect("cp is on every system").success());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a program");
        let options = BrowserOptions { program: Some(path), patience, ..BrowserOptions::default() };
        let stop = Bell::new().expect("a bell");
        Browser::start(&options, &stop).expect_err("it is none").to_string()
    };
    let error = start("#!/bin/sh\necho 'cannot open display' >&2\nexit 1\n", None);
    assert!(error.contains("ended at once") && error.contains("cannot open display"), "{error}");
    let error = start("#!/bin/sh\nexec sleep 1000\n", Some(Span::from_millis(200)));
    assert!(error.contains("does not answer"), "{error}");
    let missing =
        BrowserOptions { program: Some("/no/such/browser".into()), ..BrowserOptions::default() };
    let error = Browser::start(&missing, &Bell::new().expect("a bell")).expect_err("none");
    assert!(error.to_string().contains("`chromium`"), "{error}");
}
