//! Which pages are loaded, how, and how a person writes their addresses.

use crate::PageError;
use crate::browser::{BrowserOptions, find};
use crate::server_key::shown_pin;
use quell_model::page::HttpVersion;
use quell_sys::clock::is_virtual;
use quell_units::Span;
use quell_wire::text::printable;
use std::path::PathBuf;

/// The port of https:.
const HTTPS: u16 = 443;

#[derive(Debug, Clone)]
pub struct PagePlan {
    pub urls: Vec<String>,
    /// Loads of each page, each with an empty cache and new connections.
    pub count: u32,
    /// Whether each is loaded again with what the first left.
    pub warm: bool,
    /// Chromium from the PATH where absent.
    pub browser: Option<PathBuf>,
    pub timeout: Span,
    /// Whether it is measured how fast the browser's scripts are.
    pub scripts: bool,
    /// Whether scripts run without the browser's compiler.
    pub no_jit: bool,
    pub insecure: bool,
    /// The one version of HTTP that is spoken.
    pub http: Option<HttpVersion>,
}

impl PagePlan {
    /// The browser that does so.
    pub(crate) fn options(&self) -> Result<BrowserOptions, PageError> {
        if self.timeout == Span::ZERO {
            let why = "no page is there within no time; give a --timeout above 0";
            return Err(PageError::Parameter(why.into()));
        }
        let origins = origins(&self.urls, self.http).map_err(PageError::Parameter)?;
        Ok(BrowserOptions {
            program: Some(find(self.browser.as_deref())?),
            is_virtual: is_virtual(),
            jitless: self.no_jit,
            insecure: self.insecure,
            http: self.http,
            pinned: if self.insecure { pins(&origins, self.timeout)? } else { Vec::new() },
            over_quic: origins.iter().map(|(host, port)| format!("{host}:{port}")).collect(),
            ..BrowserOptions::default()
        })
    }
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
                printable(url, 200)
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
fn pins(origins: &[(String, u16)], patience: Span) -> Result<Vec<String>, PageError> {
    let pin = |(host, port): &(String, u16)| {
        shown_pin(host, *port, patience).map_err(|why| {
            PageError::UnknownKey(format!(
                "which certificate {} has is not known: {why}. Over QUIC the browser takes one that nobody vouches for only where it is \
                 given its key, which is asked for over TCP, at the same port",
                printable(&format!("{host}:{port}"), 200)
            ))
        })
    };
    origins.iter().map(pin).collect()
}

/// A whole address out of what a person types; one of a network names a port that there is.
pub fn address(typed: &str, any_scheme: bool) -> Result<String, String> {
    let url = whole(typed, any_scheme)?;
    let scheme = url.split_once("://").filter(|(scheme, _)| {
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    });
    let port = scheme.and_then(|(_, rest)| host_and_port(rest).1);
    match port.filter(|port| !port.is_empty() && port.parse::<u16>().is_err()) {
        Some(port) => {
            Err(format!("`{}` is no port: give one from 1 to 65535", printable(port, 40)))
        }
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
    let shown = printable(typed, 200);
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
                        printable(name, 40)
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
