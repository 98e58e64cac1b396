//! Chromium itself, against servers on loopback. Where it is not installed these stories are left out, which is said.

#[path = "../../quell/tests/support/left_out.rs"]
mod left_out;

use quell_model::page::{HttpVersion, PageEnd, PageLoad};
use quell_page::browser::{Browser, BrowserOptions, find};
use quell_page::identity::pin;
use quell_page::load::PageRequest;
use quell_page::script::score;
use quell_page::server::SiteServer;
use quell_page::site;
use quell_sys::clock::monotonic_ns;
use quell_sys::trusted::in_user_namespace;
use quell_sys::wait::Bell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};

/// A load that has far more time than it needs.
const LONG_NS: u64 = 600_000_000_000;
/// One that waits for a server in vain.
const SHORT_NS: u64 = 5_000_000_000;

fn lacks_chromium() -> bool {
    let lacks = find(None).err();
    if let Some(error) = &lacks {
        left_out::for_want_of(error);
    }
    lacks.is_some()
}

fn browser(pinned: Option<String>) -> Browser {
    let names = BTreeMap::from([(format!("*.{}", site::DOMAIN), "127.0.0.1".to_owned())]);
    let options =
        BrowserOptions { names, pinned: pinned.into_iter().collect(), ..BrowserOptions::default() };
    Browser::start(&options, &bell()).expect("Chromium starts")
}

fn bell() -> Bell {
    Bell::new().expect("a bell")
}

/// Loads of one page in one context, one after the other.
fn loads(browser: &mut Browser, url: &str, count: u32, time_ns: u64) -> Vec<PageLoad> {
    let stop = bell();
    let context = browser.context(&stop).expect("a context");
    let mut load = |number| {
        let origin_ns = monotonic_ns();
        let deadline_ns = origin_ns + time_ns;
        let wanted = PageRequest { url, number, warm: number > 0, deadline_ns, origin_ns };
        browser.load(&context, wanted, &stop).expect("the browser lives")
    };
    (0..count).map(&mut load).collect()
}

/// Pages of others are not opened by root of the machine.
#[test]
fn where_root_starts_it_the_browser_is_nobody() {
    if lacks_chromium() || !nix::unistd::geteuid().is_root() || in_user_namespace() {
        return;
    }
    let _browser = browser(None);
    let own = std::process::id();
    let children =
        std::fs::read_to_string(format!("/proc/{own}/task/{}/children", nix::unistd::gettid()));
    let children = children.expect("its children");
    let status = children
        .split_whitespace()
        .map(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs"));
    let of_browser: Vec<_> = status.filter(|s| s.starts_with("Name:\tchrom")).collect();
    assert_eq!(of_browser.len(), 1, "{children}");
    for line in ["Uid:\t65534\t65534\t65534\t65534", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"]
    {
        assert!(of_browser[0].lines().any(|l| l == line), "{line}: {}", of_browser[0]);
    }
}

#[test]
fn the_labs_page_comes_with_all_its_objects_and_a_warm_cache_spares_them() {
    if lacks_chromium() {
        return;
    }
    let server = SiteServer::prepare((Ipv4Addr::LOCALHOST, 0).into(), 7, HttpVersion::One)
        .expect("it listens");
    let url = format!("https://{}:{}/", site::HOSTS[0], server.port());
    let stop = bell();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| server.run(&stop));
        // What is painted later than is waited for has no time, and a tab that is not closed in time takes the cache with it: where the machine
        // was that busy, once more.
        let marks =
            |load: &PageLoad| [load.doc_ms, load.paint_ms, load.fcp_ms, load.lcp_ms, load.load_ms];
        let mut tries = (0..5).map(|_| loads(&mut browser(Some(pin(7))), &url, 2, LONG_NS));
        let both = tries.find(|both| {
            println!("{:?}", both.iter().map(|load| (&load.end, marks(load))).collect::<Vec<_>>());
            let loaded = both.iter().all(|load| load.end == PageEnd::Loaded);
            loaded && marks(&both[0]).iter().all(Option::is_some)
        });
        let both = both.expect("two loads, the first with all its marks");
        let [cold, warm] = &both[..] else { panic!("two loads: {both:?}") };
        for load in &both {
            assert_eq!((&load.end, load.requests.len()), (&PageEnd::Loaded, 61));
            let failed: Vec<_> = load.requests.iter().filter(|r| r.failed.is_some()).collect();
            assert!(failed.is_empty(), "{failed:?}");
        }
        assert!(cold.requests.iter().all(|r| r.protocol == "http/1.1" && r.status == Some(200)));
        let mut hosts: Vec<_> = cold.requests.iter().filter(|r| r.tls_ms.is_some()).collect();
        hosts.sort_by_key(|r| r.url.split('/').nth(2));
        hosts.dedup_by_key(|r| r.url.split('/').nth(2).map(str::to_owned));
        assert_eq!(hosts.len(), 3, "TLS with each of three hosts");
        assert!((550_000..750_000).contains(&cold.bytes()), "{} bytes", cold.bytes());
        assert_eq!(
            (cold.from_cache(), warm.from_cache() >= 59),
            (0, true),
            "{}",
            warm.from_cache()
        );
        assert!(warm.bytes() < 40_000, "{} bytes", warm.bytes());
        let marks = marks(cold);
        assert!(cold.doc_ms <= cold.load_ms && cold.paint_ms <= cold.lcp_ms, "{marks:?}");

        // The certificate is taken for its key alone.
        let refused = loads(&mut browser(None), &url, 1, LONG_NS).remove(0);
        assert_eq!(refused.end, PageEnd::Failed("net::ERR_CERT_AUTHORITY_INVALID".into()));
        stop.ring();
        thread.join().expect("it does not panic").expect("it ends well");
    });
}

#[test]
fn by_http_2_all_objects_of_the_labs_page_come_in_one_connection() {
    if lacks_chromium() {
        return;
    }
    let listens = SiteServer::prepare((Ipv4Addr::LOCALHOST, 0).into(), 7, HttpVersion::Two);
    let server = listens.expect("it listens");
    let url = format!("https://{}:{}/", site::HOSTS[0], server.port());
    let stop = bell();
    let load = std::thread::scope(|scope| {
        let thread = scope.spawn(|| server.run(&stop));
        let load = loads(&mut browser(Some(pin(7))), &url, 1, LONG_NS).remove(0);
        stop.ring();
        thread.join().expect("it does not panic").expect("it ends well");
        load
    });
    assert_eq!((&load.end, load.requests.len()), (&PageEnd::Loaded, 61));
    assert!(load.requests.iter().all(|r| r.protocol == "h2" && r.status == Some(200)));
    assert!((550_000..750_000).contains(&load.bytes()), "{} bytes", load.bytes());
    // The three names lead to one address, and the certificate is that of all: one handshake is enough, and none is told where the browser
    // had connected before it sent its first request.
    let made = load.requests.iter().filter(|r| r.tls_ms.is_some()).count();
    assert!(made <= 1, "{made} connections");
}

#[test]
fn a_server_that_never_answers_is_a_page_that_never_ends_and_one_that_is_not_there_is_told() {
    if lacks_chromium() {
        return;
    }
    let mut browser = browser(None);
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("it listens");
    let port = silent.local_addr().expect("it is bound").port();
    // Long enough that the browser has asked also where it gets no CPU for a while: of one that told nothing nobody knows whether it lives.
    let load = loads(&mut browser, &format!("http://127.0.0.1:{port}/"), 1, SHORT_NS).remove(0);
    assert_eq!((&load.end, load.load_ms), (&PageEnd::TimedOut, None), "{load:?}");
    drop(silent);
    let load = loads(&mut browser, &format!("http://127.0.0.1:{port}/"), 1, LONG_NS).remove(0);
    assert_eq!(load.end, PageEnd::Failed("net::ERR_CONNECTION_REFUSED".into()));
}

#[test]
fn a_browser_without_its_compiler_runs_scripts_slower_and_is_told_so() {
    if lacks_chromium() {
        return;
    }
    // On a busy machine each piece of work is at its fastest now and then: the more often it is tried, the more likely.
    let mut fastest = [[0.0_f64; 6]; 2];
    let pace = |of: &[f64; 6]| of.iter().map(|work| work.ln()).sum::<f64>() / 6.0;
    for _ in 0..10 {
        for (fastest, jitless) in fastest.iter_mut().zip([false, true]) {
            let score = score(&BrowserOptions { jitless, ..BrowserOptions::default() }, &bell());
            let kernels = score.expect("a score").kernels;
            assert_eq!(kernels.len(), 6, "{kernels:?}");
            for (fastest, (_, score)) in fastest.iter_mut().zip(kernels) {
                *fastest = fastest.max(score);
            }
        }
        if pace(&fastest[0]) > pace(&fastest[1]) + 1.5_f64.ln() {
            return;
        }
    }
    panic!("with its compiler it is no faster: {fastest:?}");
}
