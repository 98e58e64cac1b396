//! `quell page`: loads pages in a real browser, and tells what they waited for.

mod json;
mod measured;
mod text;

use crate::failure::Failure;
use crate::interrupt;
use crate::options::Json;
use crate::text::columns;
use clap::Args;
use measured::Measured;
use quell_model::page::{PageEnd, PageLoad};
use quell_page::PageError;
use quell_page::browser::{Browser, Options, find, is_without_sandbox};
use quell_page::load::Wanted;
use quell_page::script::{Score, score};
use quell_sys::clock::{is_virtual, monotonic_ns};
use quell_sys::wait::Bell;
use quell_units::Span;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

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
    /// Also take addresses that are neither http: nor https:, as file:
    #[arg(long)]
    pub any_scheme: bool,
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
    let program = find(args.browser.as_deref()).map_err(Failure::system)?;
    let options = Options {
        program: Some(program),
        is_virtual: is_virtual(),
        jitless: args.no_jit,
        insecure: args.insecure,
        ..Options::default()
    };
    let stop = Arc::new(Bell::new().map_err(Failure::system)?);
    interrupt::listen(&stop)?;
    let mut browser = Browser::start(&options, &stop).map_err(Failure::system)?;
    let mut measured = Measured {
        browser: browser.version.clone(),
        without_sandbox: is_without_sandbox(),
        is_virtual: is_virtual(),
        no_jit: args.no_jit,
        insecure: args.insecure,
        pages: Vec::new(),
        scripts: None,
    };
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
        let mut loads = Vec::new();
        let series = series(&mut browser, &url, args, &stop, &mut |load| {
            if live {
                print!("{}", text::row(&load, width));
            }
            loads.push(load);
        });
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
    match args.json.json {
        true => println!("{}", json::render(&measured, failed.as_ref()).map_err(Failure::system)?),
        false => print!("{}", text::closing(&measured, width)),
    }
    if let Some(error) = failed {
        return Err(Failure::system(error));
    }
    let all = || measured.pages.iter().flat_map(|(_, loads)| loads);
    let is_fine = all().next().is_some() && all().all(|load| load.end == PageEnd::Loaded);
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Loads one page as often as it was asked for.
fn series(
    browser: &mut Browser,
    url: &str,
    args: &PageArgs,
    stop: &Bell,
    each: &mut dyn FnMut(PageLoad),
) -> Result<(), PageError> {
    let origin_ns = monotonic_ns();
    for number in 0..args.count {
        let context = browser.context(stop)?;
        for warm in if args.warm { &[false, true][..] } else { &[false] } {
            let deadline_ns = monotonic_ns().saturating_add(args.timeout.nanos());
            let wanted = Wanted { url, number, warm: *warm, deadline_ns, origin_ns };
            each(browser.load(&context, wanted, stop)?);
        }
        browser.forget(context, stop)?;
    }
    Ok(())
}

/// How fast scripts are in the browser as it loads pages, and without its compiler.
fn scripts(options: &Options, stop: &Bell) -> Result<[Score; 2], PageError> {
    let with = score(options, stop)?;
    let without = score(&Options { jitless: true, ..options.clone() }, stop)?;
    Ok([with, without])
}

/// A whole address out of what a person types.
fn address(typed: &str, any_scheme: bool) -> Result<String, String> {
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
    use super::address;

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
}
