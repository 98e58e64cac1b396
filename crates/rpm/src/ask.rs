//! What is asked on a connection of its own, over http or https: the server's word of itself, and a probe.

use crate::http::{self, RpmError, Secured, Target};
use crate::plan::RpmPlan;
use crate::secure;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use quell_web::nq::{self, Config};
use quell_web::url::Url;
use quell_wire::text::printable;

/// Times of a request on a new connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForeignProbe {
    pub tcp_ms: f64,
    /// A round trip of the handshake of TLS.
    pub tls_ms: Option<f64>,
    pub http_ms: f64,
}

/// What the server says of itself.
pub fn config(plan: &RpmPlan, stop: &Bell) -> Result<Config, RpmError> {
    let scheme = if plan.tls { "https" } else { "http" };
    let url = Url::parse(&format!("{scheme}://{}{}", plan.authority, nq::PATH))
        .ok_or_else(|| RpmError::Unknown(printable(&plan.authority, 100)))?;
    if plan.tls {
        let secured = Secured::of(plan, &url)?;
        let (mut session, _) = secure::connect(plan.to, &secured, plan.secret.as_ref(), stop)?;
        let (status, bytes, _) = session.get(&url, stop)?;
        if status != 200 {
            return Err(http::refused(plan.to, status, nq::PATH, &bytes));
        }
        return Ok(Config::parse(&bytes)?);
    }
    let (stream, _) = http::connect(plan.to, plan.secret.as_ref(), stop)?;
    http::say(&stream, plan.to, &http::get(&url, false), stop)?;
    let (said, bytes) = http::answer(&stream, plan.to, stop)?;
    let bytes = http::body(&stream, plan.to, &said, bytes, stop)?;
    if said.status != 200 {
        return Err(http::refused(plan.to, said.status, nq::PATH, &bytes));
    }
    Ok(Config::parse(&bytes)?)
}

/// One request on a connection of its own.
pub fn probe(at: &Target, stop: &Bell) -> Result<ForeignProbe, RpmError> {
    if let Some(secured) = &at.secured {
        let (mut session, took) = secure::connect(at.to, secured, at.secret.as_ref(), stop)?;
        let (status, bytes, http_ms) = session.get(&at.small, stop)?;
        if status != 200 || bytes.is_empty() {
            return Err(http::refused(at.to, status, &at.small.path, &bytes));
        }
        return Ok(ForeignProbe { tcp_ms: took.tcp_ms, tls_ms: Some(took.tls_ms), http_ms });
    }
    let (stream, tcp_ms) = http::connect(at.to, at.secret.as_ref(), stop)?;
    let request = http::get(&at.small, false);
    let began = monotonic_ns();
    http::say(&stream, at.to, &request, stop)?;
    let (said, bytes) = http::answer(&stream, at.to, stop)?;
    let bytes = http::body(&stream, at.to, &said, bytes, stop)?;
    let http_ms = (monotonic_ns() - began) as f64 / 1e6;
    if said.status != 200 || bytes.is_empty() {
        return Err(http::refused(at.to, said.status, &at.small.path, &bytes));
    }
    Ok(ForeignProbe { tcp_ms, tls_ms: None, http_ms })
}
