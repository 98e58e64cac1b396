//! What a request asks for, and whether it may: pure but for the tests that it names.

use super::measurement::WebTest;
use super::{Web, now_s};
use crate::hub::Accepted;
use crate::limits::WEB;
use quell_sys::SysError;
use quell_sys::wall::realtime_ns;
use quell_web::head::{Body, HttpMethod, Request};
use quell_web::origin::{self, Foreign};
use quell_web::page;
use quell_web::sent::SentResult;
use quell_web::well_known::{self, NqConfig};
use quell_wire::auth::address;
use serde::Deserialize;
use serde_json::json;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const BYTES: &str = "application/octet-stream";

pub enum Routed<'h> {
    Now(WebAnswer),
    Down(Arc<WebTest<'h>>, u64),
    Up(Arc<WebTest<'h>>, u64),
    Control,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAnswer {
    pub status: u16,
    pub kind: &'static str,
    pub body: Cow<'static, [u8]>,
    pub last: bool,
}

impl WebAnswer {
    pub fn text(status: u16, text: impl ToString) -> Self {
        let text = format!("{}\n", text.to_string());
        Self { status, kind: TEXT, body: text.into_bytes().into(), last: false }
    }

    fn json(value: &serde_json::Value) -> Self {
        Self { status: 200, kind: JSON, body: value.to_string().into_bytes().into(), last: false }
    }

    pub fn last(self) -> Self {
        Self { last: true, ..self }
    }
}

/// Whether the body of a request is read before it is answered.
pub fn wants_body(request: &Request) -> bool {
    request.method == HttpMethod::Post
        && matches!(request.path.as_str(), "/web/enter" | "/web/results" | "/web/measured")
}

#[derive(Deserialize)]
struct Enter {
    nonce: String,
    proof: String,
}

/// What to do. `trusted`: the connection proved the secret before there was a word of HTTP, or there is none. `tls`: it is over TLS.
pub fn route<'h>(
    web: &Web<'h>,
    guest: &Accepted,
    request: &Request,
    body: &[u8],
    (trusted, tls): (bool, bool),
) -> Result<Routed<'h>, SysError> {
    let now = |answer| Ok(Routed::Now(answer));
    if let Err(foreign) = origin::check(request, &web.config.names) {
        let status = if foreign == Foreign::Name { 421 } else { 403 };
        return now(WebAnswer::text(status, foreign).last());
    }
    if request.method == HttpMethod::Other {
        return now(WebAnswer::text(405, "GET, HEAD and POST alone are answered here").last());
    }
    let path = request.path.as_str();
    if let Some(rest) = path.strip_prefix("/nq/") {
        return draft(web, guest, request, rest);
    }
    if path == well_known::PATH {
        let ip = guest.peer.ip();
        let may =
            trusted || request.key.as_deref().is_some_and(|k| web.keys.is_good(ip, now_s(), k));
        if !may {
            return now(WebAnswer::text(
                401,
                "this server has a secret: quell flow --rpm --secret-file FILE",
            )
            .last());
        }
        let folder = format!("/nq/{}", web.keys.key(ip, now_s()));
        let host = request.host.as_deref().unwrap_or_default();
        return now(match NqConfig::below(tls, host, &folder) {
            Some(config) => WebAnswer { kind: JSON, ..WebAnswer::text(200, config.json()) },
            None => WebAnswer::text(400, "this Host is no host").last(),
        });
    }
    match path.strip_prefix("/web/") {
        Some(name) => own(web, guest, request, name, body, trusted),
        None if request.method == HttpMethod::Post => {
            now(WebAnswer::text(405, "nothing is posted there").last())
        }
        None => now(match page::file(path) {
            Some(file) => WebAnswer {
                status: 200,
                kind: file.kind,
                body: file.text.as_bytes().into(),
                last: false,
            },
            None => WebAnswer::text(404, "there is no such page here"),
        }),
    }
}

fn own<'h>(
    web: &Web<'h>,
    guest: &Accepted,
    request: &Request,
    name: &str,
    body: &[u8],
    trusted: bool,
) -> Result<Routed<'h>, SysError> {
    let ip = guest.peer.ip();
    // A foreign page may not send it without asking, and a question is never answered.
    let Some(key) = &request.key else {
        return Ok(Routed::Now(
            WebAnswer::text(403, "only the page of this server may ask for this").last(),
        ));
    };
    let has_secret = web.hub.secret.is_some();
    let may = trusted || web.keys.is_good(ip, now_s(), key);
    let post = request.method == HttpMethod::Post;
    if !may && !matches!(name, "hello" | "enter") {
        return Ok(Routed::Now(
            WebAnswer::text(401, "this server has a secret, which was not proven").last(),
        ));
    }
    Ok(Routed::Now(match (name, post) {
        ("hello", false) => {
            let [a, b, c, d, e, f, g, h, ..] = quell_sys::secret::nonce()?;
            let random = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
            let nonce = has_secret.then(|| web.keys.nonce(ip, now_s(), random));
            let limits = &web.hub.limits;
            let most = limits.rate_of_client();
            WebAnswer::json(&json!({
                "version": env!("CARGO_PKG_VERSION"), "secret": has_secret && !may, "nonce": nonce,
                "most_bits": most, "address": ip.to_canonical().to_string(),
            }))
        }
        ("enter", true) => match (&web.hub.secret, serde_json::from_slice::<Enter>(body)) {
            (None, _) => WebAnswer::text(400, "this server has no secret"),
            (Some(_), _) if !is_meant(web, guest, request) => {
                let why = "a secret is proven to this server's address or own name alone: use one, or start it with --web-name NAME";
                WebAnswer::text(421, why).last()
            }
            (Some(secret), Ok(enter))
                if web.keys.proves(
                    (secret, request.host.as_deref().unwrap_or_default()),
                    ip,
                    now_s(),
                    &enter.nonce,
                    &enter.proof,
                ) =>
            {
                WebAnswer::json(&json!({ "key": web.keys.key(ip, now_s()) }))
            }
            // Nobody tries many secrets over one connection.
            _ => WebAnswer::text(401, "that is not the secret").last(),
        },
        ("ping", false) => one_byte(),
        // The next one needs a connection of its own.
        ("fresh", false) => one_byte().last(),
        ("results", false) => WebAnswer::json(&json!(web.results())),
        ("results", true) => match SentResult::read(body, realtime_ns() / 1_000_000_000) {
            Some(sent) => {
                web.keep(ip, sent);
                WebAnswer::text(200, "kept")
            }
            None => {
                let why = "that is no result, or its time is a day ahead of this server's clock";
                WebAnswer::text(400, why).last()
            }
        },
        ("measured", true) => {
            let test = web.tests.of_number(asked(request, "t").unwrap_or_default(), ip);
            match (test, SentResult::read(body, realtime_ns() / 1_000_000_000)) {
                (Some(test), Some(sent)) => {
                    test.tells(sent);
                    WebAnswer::text(200, "told")
                }
                _ => WebAnswer::text(400, "that is no result of a test that runs").last(),
            }
        }
        ("test", false) => return Ok(Routed::Control),
        ("down" | "up", _) => {
            let number = asked(request, "t").unwrap_or_default();
            let Some(test) = web.tests.of_number(number, ip) else {
                return Ok(Routed::Now(WebAnswer::text(410, "this test is over").last()));
            };
            return Ok(carried(request, name == "up", test));
        }
        _ => WebAnswer::text(404, "there is no such page here"),
    }))
}

/// Whether the host that a browser names is this server, and no machine beside it that hands a proof on: its name, or the address that it is reached at.
fn is_meant(web: &Web<'_>, guest: &Accepted, request: &Request) -> bool {
    let host = request.host.as_deref().unwrap_or_default();
    let ip = host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 80));
    let own: Vec<SocketAddr> =
        guest.stream.local().into_iter().chain(web.hub.reached_at.iter().copied()).collect();
    match host.parse::<SocketAddr>().ok().or(ip) {
        Some(meant) => own.iter().any(|at| address(*at) == address(meant)),
        None => {
            let ports: Vec<u16> = own.iter().map(SocketAddr::port).collect();
            let own = nix::unistd::gethostname().unwrap_or_default();
            let own = own.to_string_lossy();
            // Who is on this machine may call it so.
            let is_here = guest.peer.ip().to_canonical().is_loopback();
            let is_localhost = host.split(':').next() == Some("localhost");
            let own = if is_here && is_localhost { "localhost" } else { &own };
            origin::is_this_machine(host, own, &web.config.names, &ports)
        }
    }
}

/// What a client of the draft asks for: a key, and what it may have with it.
fn draft<'h>(
    web: &Web<'h>,
    guest: &Accepted,
    request: &Request,
    rest: &str,
) -> Result<Routed<'h>, SysError> {
    let (key, name) = rest.split_once('/').unwrap_or((rest, ""));
    let now = |answer| Ok(Routed::Now(answer));
    if !web.keys.is_good(guest.peer.ip(), now_s(), key) {
        let why = "this address is not good any more: ask for /.well-known/nq again";
        return now(WebAnswer::text(403, why).last());
    }
    match name {
        "small" => now(one_byte()),
        "large" | "upload" => match web.tests.of_client(guest.peer, &guest.stream) {
            Ok(test) => Ok(carried(request, name == "upload", test)),
            Err(full) => now(WebAnswer::text(503, format!("busy, try again later: {full}")).last()),
        },
        _ => now(WebAnswer::text(404, "there is no such page here")),
    }
}

fn carried<'h>(request: &Request, up: bool, test: Arc<WebTest<'h>>) -> Routed<'h> {
    match (up, request.method, request.body) {
        (false, HttpMethod::Get, _) => {
            let bytes = asked(request, "bytes").and_then(|bytes| bytes.parse().ok());
            Routed::Down(test, bytes.unwrap_or(WEB.large).min(WEB.large))
        }
        (true, HttpMethod::Post, Body::Bytes(length)) => Routed::Up(test, length),
        (true, HttpMethod::Post, Body::Chunks) => {
            Routed::Now(WebAnswer::text(411, "say how long it is: Content-Length").last())
        }
        _ => Routed::Now(WebAnswer::text(405, "GET down, POST up").last()),
    }
}

/// What follows a name in what follows the question mark.
fn asked<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    request.query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn one_byte() -> WebAnswer {
    WebAnswer { status: 200, kind: BYTES, body: Cow::Borrowed(b"."), last: false }
}
