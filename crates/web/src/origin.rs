//! Who may ask: the page that this server gave out, and programs. No other page may make a browser use this server.
//!
//! ```text
//!   Host            an address, or a name that nobody outside can point at us     else 421: a page of a foreign name that leads here
//!   Origin          absent, or this very host                                     else 403
//!   Sec-Fetch-Site  absent, same-origin or none                                   else 403
//! ```
//!
//! A browser tells `Sec-Fetch-Site` only to addresses that it trusts (HTTPS, loopback), and no `Origin` with a mere picture. So what costs
//! something needs more: a header that a foreign page may not send without asking first (and we never say yes), or a key in the path,
//! which a foreign page can't read.

use crate::head::Request;
use std::net::IpAddr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    #[error(
        "this name is not known here; use the address, or start the server with --web-name NAME"
    )]
    Name,
    #[error("another page asks, and only the page of this server may")]
    Page,
}

/// Ends of names that nobody outside can point anywhere (RFC 6762, RFC 8375, and what routers give out).
const INSIDE: [&str; 7] = ["local", "localhost", "lan", "home", "internal", "home.arpa", "test"];

/// Whether this request may be heard. `names` are further names of ours.
pub fn check(request: &Request, names: &[String]) -> Result<(), Foreign> {
    let host = request.host.as_deref().ok_or(Foreign::Name)?;
    if !is_ours(host, names) {
        return Err(Foreign::Name);
    }
    if let Some(site) = &request.site
        && !matches!(site.as_str(), "same-origin" | "none")
        // A link to the page may be on any page.
        && !(request.path == "/" && request.origin.is_none())
    {
        return Err(Foreign::Page);
    }
    match &request.origin {
        None => Ok(()),
        Some(origin) => {
            let of = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            let same = of.is_some_and(|of| of.eq_ignore_ascii_case(host));
            if same { Ok(()) } else { Err(Foreign::Page) }
        }
    }
}

fn is_ours(host: &str, names: &[String]) -> bool {
    let name = name_of(host).to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:%".contains(&b))
    {
        return false;
    }
    let inside = |end: &str| name == end || name.ends_with(&format!(".{end}"));
    // An address of the link has a zone behind it (RFC 6874).
    let address = name.split('%').next().unwrap_or(name);
    address.parse::<IpAddr>().is_ok()
        // No name of one word leads out of a home.
        || !name.contains(['.', ':'])
        || INSIDE.iter().any(|end| inside(end))
        || names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Whether a `Host` is a name of this very machine, which no other one in the same home has, at one of these ports: `own`, its name, with or without
/// what follows, or one of `names`.
pub fn is_this_machine(host: &str, own: &str, names: &[String], ports: &[u16]) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => (name, port.parse::<u16>().ok()),
        None => (host, None),
    };
    let is_named = |known: &str| {
        let first = name.split('.').next().unwrap_or_default();
        known.eq_ignore_ascii_case(name) || known.eq_ignore_ascii_case(first)
    };
    let port_fits = port.map_or(vec![80, 443], |port| vec![port]).iter().any(|p| ports.contains(p));
    port_fits && (is_named(own) || names.iter().any(|known| known.eq_ignore_ascii_case(name)))
}

fn name_of(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &str, path: &str) -> Result<(), Foreign> {
        let text = format!("GET {path} HTTP/1.1\r\n{lines}\r\n");
        let (request, _) = crate::head::request(text.as_bytes()).unwrap().unwrap();
        check(&request, &["quell.example.org".into()])
    }

    #[test]
    fn the_own_page_and_programs_are_heard() {
        for lines in [
            "Host: 192.0.2.1:5201\r\n",
            "Host: [2001:db8::1]:5201\r\nOrigin: http://[2001:db8::1]:5201\r\n",
            "Host: [fe80::1%2]:5201\r\n",
            "Host: nas.local\r\nSec-Fetch-Site: same-origin\r\n",
            "Host: server:5201\r\nSec-Fetch-Site: none\r\n",
            "Host: quell.example.org\r\nOrigin: https://QUELL.example.org\r\n",
        ] {
            assert_eq!(heard(lines, "/web/ping"), Ok(()), "{lines}");
        }
        assert_eq!(
            heard("Host: 192.0.2.1\r\nSec-Fetch-Site: cross-site\r\n", "/"),
            Ok(()),
            "a link"
        );
    }

    #[test]
    fn a_neighbour_that_hands_a_proof_on_has_another_name_or_port() {
        let names = ["quell.example.org".to_owned()];
        for (host, is_it) in [
            ("nas", false),
            ("nas:5201", true),
            ("NAS.local:5201", true),
            ("nas.local:5202", false),
            ("evil.local:5201", false),
            ("evil.nas:5201", false),
            ("quell.example.org:5201", true),
            ("quell.example.org", false),
            ("localhost:5201", false),
        ] {
            assert_eq!(is_this_machine(host, "nas", &names, &[5201]), is_it, "{host}");
        }
        assert!(is_this_machine("nas.lan", "nas", &names, &[80]));
    }

    #[test]
    fn another_page_is_not_heard_by_whatever_name_it_comes() {
        for (lines, why) in [
            ("", Foreign::Name),
            ("Host: evil.example.com\r\n", Foreign::Name),
            (
                "Host: evil.example.com:5201\r\nOrigin: http://evil.example.com:5201\r\n",
                Foreign::Name,
            ),
            ("Host: 192.0.2.1/x\r\n", Foreign::Name),
            ("Host: 192.0.2.1\r\nOrigin: http://evil.example.com\r\n", Foreign::Page),
            ("Host: 192.0.2.1\r\nOrigin: null\r\n", Foreign::Page),
            ("Host: 192.0.2.1:5201\r\nOrigin: http://192.0.2.1:80\r\n", Foreign::Page),
            ("Host: 192.0.2.1\r\nSec-Fetch-Site: cross-site\r\n", Foreign::Page),
            ("Host: 192.0.2.1\r\nSec-Fetch-Site: same-site\r\n", Foreign::Page),
        ] {
            assert_eq!(heard(lines, "/web/ping"), Err(why), "{lines}");
        }
    }
}
