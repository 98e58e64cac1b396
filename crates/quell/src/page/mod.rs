//! `quell page`: loads pages in a real browser, and tells what they waited for.

mod json;
mod measured;
mod save;
mod text;

use crate::failure::Failure;
use crate::interrupt;
use crate::options::{Json, Place};
use crate::results;
use crate::text::columns;
use clap::Args;
use measured::MeasuredPage;
use quell_model::page::{HttpVersion, PageEnd, PageLoad};
use quell_page::PageError;
use quell_page::browser::{Browser, BrowserOptions, find, is_without_sandbox};
use quell_page::load::PageRequest;
use quell_page::script::{Score, score};
use quell_page::shown::shown_pin;
use quell_store::End;
use quell_sys::clock::{is_virtual, monotonic_ns};
use quell_sys::wait::Bell;
use quell_units::Span;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// The port of https:.
const HTTPS: u16 = 443;

/// Options of `quell page`.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// The pages; https:// where no scheme is given
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// Loads of each page, each with an empty cache and new connections
    #[arg(short = 'c', long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub count: u32,
    /// After each load, load it again with the cache and the connections of the first
    #[arg(long)]
    pub warm: bool,
    /// The browser; Chromium from the PATH where absent
    #[arg(long, value_name = "PATH")]
    pub browser: Option<PathBuf>,
    /// How long a load may take
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub timeout: Span,
    /// Show what each request of the first load waited for
    #[arg(long)]
    pub waterfall: bool,
    /// Don't measure how fast the browser's scripts are
    #[arg(long)]
    pub no_scripts: bool,
    /// Have the browser run scripts without its compiler (--jitless): what a slow browser makes of the same page
    #[arg(long)]
    pub no_jit: bool,
    /// Take any certificate: for a server that made its own, as `quell serve --web` does
    #[arg(long)]
    pub insecure: bool,
    /// Have pages come by this version of HTTP and no other: 1.1, 2 or 3; what browser and server agree on where absent
    #[arg(long, value_name = "VERSION")]
    pub http: Option<HttpVersion>,
    /// Keep every load with its requests as a run, for `quell show`, `compare`, `plot` and `report`
    #[arg(long)]
    pub save: bool,
    /// Also take addresses that are neither http: nor https:, as file:
    #[arg(long)]
    pub any_scheme: bool,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub json: Json,
}

/// `quell page`.
pub fn page(args: &PageArgs) -> Result<ExitCode, Failure> {
    let urls = args.urls.iter().map(|url| address(url, args.any_scheme));
    let urls = urls.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
    if args.timeout == Span::ZERO {
        return Err(Failure::usage("no page is there within no time; give a --timeout above 0"));
    }
    let origins = origins(&urls, args.http).map_err(Failure::usage)?;
    let program = find(args.browser.as_deref()).map_err(Failure::system)?;
    let options = BrowserOptions {
        program: Some(program),
        is_virtual: is_virtual(),
        jitless: args.no_jit,
        insecure: args.insecure,
        http: args.http,
        pinned: if args.insecure { pins(&origins, args.timeout)? } else { Vec::new() },
        over_quic: origins.iter().map(|(host, port)| format!("{host}:{port}")).collect(),
        ..BrowserOptions::default()
    };
    let stop = Arc::new(Bell::new().map_err(Failure::system)?);
    interrupt::listen(&stop)?;
    let mut browser = Browser::start(&options, &stop).map_err(Failure::system)?;
    let mut measured = MeasuredPage {
        browser: browser.version.clone(),
        without_sandbox: is_without_sandbox(),
        is_virtual: is_virtual(),
        no_jit: args.no_jit,
        insecure: args.insecure,
        http: args.http,
        pages: Vec::new(),
        scripts: None,
    };
    let mut keep = match args.save {
        true => Some(save::begin(&args.place.base, &measured)?),
        false => None,
    };
    let origin_ns = monotonic_ns();
    let live = !args.json.json;
    let width = columns();
    if live {
        print!("{}", text::headline(&measured, width));
    }
    let mut failed = None;
    for url in urls {
        if live {
            print!("{}", text::page_head(&url, width));
        }
        let (mut loads, mut unkept) = (Vec::new(), None);
        let series = series(&mut browser, &url, args, origin_ns, &stop, &mut |load| {
            if live {
                print!("{}", text::row(&load, width));
            }
            if let Some(Err(error)) = keep.as_mut().map(|keep| keep.event(&save::told(&url, &load)))
            {
                unkept.get_or_insert(error);
            }
            loads.push(load);
        });
        if let Some(error) = unkept {
            return Err(error.into());
        }
        if live {
            print!("{}", text::page_foot(&loads, args.waterfall, width));
        }
        measured.pages.push((url, loads));
        match series {
            Ok(()) => {}
            Err(PageError::Stopped) => break,
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    drop(browser);
    if !args.no_scripts && !measured.is_virtual && failed.is_none() && !stop.rings() {
        match scripts(&options, &stop) {
            Ok(both) => measured.scripts = Some(both),
            Err(PageError::Stopped) => {}
            Err(error) => failed = Some(error),
        }
    }
    let ended = End::of(failed.as_ref().map(ToString::to_string).as_deref(), stop.rings());
    let run = keep.map(|keep| keep.finish(ended)).transpose()?;
    match args.json.json {
        true => {
            let text = json::render(&measured, failed.as_ref(), run.as_deref());
            println!("{}", text.map_err(Failure::system)?);
        }
        false => print!("{}", text::closing(&measured, width)),
    }
    if let Some(run) = run.filter(|_| live) {
        println!("\nkept as {}", results::shown(&run));
    }
    if let Some(error) = failed {
        return Err(Failure::system(error));
    }
    let all = || measured.pages.iter().flat_map(|(_, loads)| loads);
    let is_fine = all().next().is_some() && all().all(|load| load.end == PageEnd::Loaded);
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Loads one page as often as it was asked for. A load in which the browser crashes or hangs is one that failed: a page can make it do that, and
/// the next has another browser.
fn series(
    browser: &mut Browser,
    url: &str,
    args: &PageArgs,
    origin_ns: u64,
    stop: &Bell,
    each: &mut dyn FnMut(PageLoad),
) -> Result<(), PageError> {
    for number in 0..args.count {
        let context = browser.context(stop)?;
        for warm in if args.warm { &[false, true][..] } else { &[false] } {
            let deadline_ns = monotonic_ns().saturating_add(args.timeout.nanos());
            let wanted = PageRequest { url, number, warm: *warm, deadline_ns, origin_ns };
            each(match browser.load(&context, wanted, stop) {
                Err(
                    error
                    @ (PageError::Gone(_) | PageError::Silent { .. } | PageError::Nonsense(_)),
                ) => wanted.failed(error.to_string()),
                load => load?,
            });
        }
    }
    Ok(())
}

/// How fast scripts are in the browser as it loads pages, and without its compiler.
fn scripts(options: &BrowserOptions, stop: &Bell) -> Result<[Score; 2], PageError> {
    let with = score(options, stop)?;
    let without = score(&BrowserOptions { jitless: true, ..options.clone() }, stop)?;
    Ok([with, without])
}

/// The hosts that are asked over QUIC and in no other way, where that is asked for; an address for which there is no such version is refused.
fn origins(urls: &[String], http: Option<HttpVersion>) -> Result<Vec<(String, u16)>, String> {
    let Some(http) = http.filter(|http| *http != HttpVersion::One) else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for url in urls {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        if !scheme.eq_ignore_ascii_case("https") {
            return Err(format!(
                "browsers speak HTTP/{} over TLS alone, and `{}` is without; give https://",
                http.number(),
                quell_wire::text::printable(url, 200)
            ));
        }
        let (host, port) = host_and_port(rest);
        let port = port.and_then(|port| port.parse().ok()).unwrap_or(HTTPS);
        let origin = (host.to_ascii_lowercase(), port);
        if http == HttpVersion::Three && !all.contains(&origin) {
            all.push(origin);
        }
    }
    Ok(all)
}

/// The keys that these hosts show over TCP: over QUIC Chromium takes no certificate that nobody vouches for, but one whose key it was told.
fn pins(origins: &[(String, u16)], patience: Span) -> Result<Vec<String>, Failure> {
    let pin = |(host, port): &(String, u16)| {
        shown_pin(host, *port, patience).map_err(|why| {
            Failure::check(format!(
                "which certificate {} has is not known: {why}. Over QUIC the browser takes one that nobody vouches for only where it is \
                 told its key, and that is asked for over TCP, at the same port",
                quell_wire::text::printable(&format!("{host}:{port}"), 200)
            ))
        })
    };
    origins.iter().map(pin).collect()
}

/// A whole address out of what a person types; one of a network names a port that there is.
fn address(typed: &str, any_scheme: bool) -> Result<String, String> {
    let url = whole(typed, any_scheme)?;
    let scheme = url.split_once("://").filter(|(scheme, _)| {
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    });
    let port = scheme.and_then(|(_, rest)| host_and_port(rest).1);
    match port.filter(|port| !port.is_empty() && port.parse::<u16>().is_err()) {
        Some(port) => Err(format!(
            "`{}` is no port: give one from 1 to 65535",
            quell_wire::text::printable(port, 40)
        )),
        None => Ok(url),
    }
}

/// Host and port in what stands behind the scheme of an address. An IPv6 address keeps its brackets.
fn host_and_port(rest: &str) -> (&str, Option<&str>) {
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A name and a password may stand before it.
    let place = place.rsplit('@').next().unwrap_or_default();
    match place.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (place, None),
    }
}

fn whole(typed: &str, any_scheme: bool) -> Result<String, String> {
    let shown = quell_wire::text::printable(typed, 200);
    if typed.is_empty() || typed.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(format!("`{shown}` is no address of a page: it is empty or has blanks in it"));
    }
    let scheme = typed.split_once("://").map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
    match scheme {
        Some((scheme, rest)) if scheme == "http" || scheme == "https" => match rest.is_empty() {
            true => Err(format!("`{shown}` names no host")),
            false => Ok(typed.to_owned()),
        },
        Some((scheme, _)) if !any_scheme => Err(format!(
            "`{shown}` is {scheme}: and no page of a network; give http: or https:, or --any-scheme if it is meant"
        )),
        Some(_) => Ok(typed.to_owned()),
        // `localhost:8080` has no scheme, `file:x` and `javascript:x` have one.
        None => match typed.split_once(':') {
            Some((name, rest))
                if !rest.starts_with(|c: char| c.is_ascii_digit()) && !typed.starts_with('[') =>
            {
                match any_scheme {
                    true => Ok(typed.to_owned()),
                    false => Err(format!(
                        "`{shown}` is {}: and no page of a network; give http: or https:, or --any-scheme if it is meant",
                        quell_wire::text::printable(name, 40)
                    )),
                }
            }
            _ => Ok(format!("https://{typed}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{HttpVersion, address, origins};

    #[test]
    fn an_address_without_a_scheme_is_that_of_a_secure_page() {
        let of = |typed| address(typed, false);
        assert_eq!(of("example.org").as_deref(), Ok("https://example.org"));
        assert_eq!(of("localhost:8080/x").as_deref(), Ok("https://localhost:8080/x"));
        assert_eq!(of("[::1]:8080").as_deref(), Ok("https://[::1]:8080"));
        assert_eq!(of("HTTP://example.org").as_deref(), Ok("HTTP://example.org"));
    }

    #[test]
    fn what_is_no_page_of_a_network_is_refused_unless_it_is_meant() {
        for typed in
            ["file:///etc/passwd", "file:x", "javascript:alert(1)", "chrome://gpu", "ftp://a/"]
        {
            let error = address(typed, false).expect_err(typed);
            assert!(error.contains("--any-scheme"), "{error}");
            assert_eq!(address(typed, true).as_deref(), Ok(typed));
        }
        for typed in ["", "a b", "https://", "a\nb", "\u{1b}[31m"] {
            assert!(address(typed, true).is_err(), "{typed:?}");
        }
    }

    #[test]
    fn a_port_that_there_is_none_of_is_refused_before_a_browser_is_asked() {
        for typed in [
            "http://127.0.0.1:99999/",
            "example.org:65536",
            "https://a@[::1]:70000?x",
            "http://a:8x/",
        ] {
            let error = address(typed, false).expect_err(typed);
            assert!(error.contains("65535"), "{error}");
        }
        for typed in ["http://[::1]/", "http://a:/", "http://a:65535/b:99999", "https://u:99999@a/"]
        {
            assert_eq!(address(typed, false).as_deref(), Ok(typed));
        }
    }

    #[test]
    fn a_page_over_quic_is_asked_for_at_its_host_and_port_and_over_tls_alone() {
        let of = |url: &str, http| origins(&[url.to_owned()], Some(http));
        let three = HttpVersion::Three;
        assert_eq!(of("https://Example.org/a:1", three), Ok(vec![("example.org".into(), 443)]));
        assert_eq!(of("https://[::1]:8443/?x", three), Ok(vec![("[::1]".into(), 8443)]));
        assert_eq!(of("https://[::1]", three), Ok(vec![("[::1]".into(), 443)]));
        assert_eq!(of("https://a:b@c:9#d", three), Ok(vec![("c".into(), 9)]));
        assert_eq!(of("https://a", HttpVersion::Two), Ok(Vec::new()));
        for http in [HttpVersion::Two, three] {
            let error = of("http://a/", http).expect_err("it is without TLS");
            assert!(error.contains("give https://"), "{error}");
        }
        assert_eq!(of("http://a/", HttpVersion::One), Ok(Vec::new()));
    }
}
