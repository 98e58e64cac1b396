//! What is asked on a connection of its own, over http or https: the server's word of itself, and a probe.

use crate::http::{self, HttpTarget, RpmError, Secured};
use crate::plan::RpmPlan;
use crate::secure;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use quell_web::nq::{self, NqConfig};
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

/// Shortest time of a connection that was closed without an answer, in milliseconds, that shows a request on its way: servers give one 5 s and more, and
/// one that will have none of it says so at once.
pub const WAITED_MS: f64 = 3000.0;

/// What became of a request on a new connection.
#[derive(Debug, Clone, PartialEq)]
pub enum Probed {
    Answered(ForeignProbe),
    /// The server closed the connection without an answer, by then; a request through a full queue may take longer than it waits for one.
    Unanswered {
        at_least: ForeignProbe,
        why: RpmError,
    },
}

impl Probed {
    pub fn answered(self) -> Result<ForeignProbe, RpmError> {
        match self {
            Self::Answered(times) => Ok(times),
            Self::Unanswered { why, .. } => Err(why),
        }
    }

    /// One that failed when the connection had stood for so long: closed, and not since the server would not have it at all.
    fn failed(at_least: ForeignProbe, stood_ms: f64, why: RpmError) -> Result<Self, RpmError> {
        let ended =
            matches!(why, RpmError::Closed(_) | RpmError::Left { .. } | RpmError::NoTls { .. });
        match ended && stood_ms >= WAITED_MS {
            true => Ok(Self::Unanswered { at_least, why }),
            false => Err(why),
        }
    }
}

/// What the server says of itself.
pub fn config(plan: &RpmPlan, stop: &Bell) -> Result<NqConfig, RpmError> {
    let scheme = if plan.tls { "https" } else { "http" };
    let url = Url::parse(&format!("{scheme}://{}{}", plan.authority, nq::PATH))
        .ok_or_else(|| RpmError::Unknown(printable(&plan.authority, 100)))?;
    if plan.tls {
        let secured = Secured::of(plan, &url)?;
        let mut session = secure::connect(plan.to, &secured, plan.secret.as_ref(), stop)?;
        let (status, bytes, _) = session.get(&url, stop)?;
        if status != 200 {
            return Err(http::refused(plan.to, status, nq::PATH, &bytes));
        }
        return Ok(NqConfig::parse(&bytes)?);
    }
    let (stream, _) = http::connect(plan.to, plan.secret.as_ref(), stop)?;
    http::say(&stream, plan.to, &http::get(&url, false), stop)?;
    let (said, bytes) = http::answer(&stream, plan.to, stop)?;
    let bytes = http::body(&stream, plan.to, &said, bytes, stop)?;
    if said.status != 200 {
        return Err(http::refused(plan.to, said.status, nq::PATH, &bytes));
    }
    Ok(NqConfig::parse(&bytes)?)
}

/// One request on a connection of its own.
pub fn probe(at: &HttpTarget, stop: &Bell) -> Result<Probed, RpmError> {
    let (stream, tcp_ms) = http::connect(at.to, at.secret.as_ref(), stop)?;
    let stood = monotonic_ns();
    if let Some(secured) = &at.secured {
        let times = |tls_ms, http_ms| ForeignProbe { tcp_ms, tls_ms, http_ms };
        let (mut session, tls_ms) = match secure::begin(stream, at.to, secured, stop) {
            Ok(begun) => begun,
            // Of the handshake and the request together that is known.
            Err(error) => {
                let stood_ms = since_ms(stood);
                return Probed::failed(times(None, stood_ms), stood_ms, error);
            }
        };
        let began = monotonic_ns();
        let (status, bytes, http_ms) = match session.get(&at.small, stop) {
            Ok(answer) => answer,
            Err(error) => {
                let waited = times(Some(tls_ms), since_ms(began));
                return Probed::failed(waited, since_ms(stood), error);
            }
        };
        if status != 200 || bytes.is_empty() {
            return Err(http::refused(at.to, status, &at.small.path, &bytes));
        }
        return Ok(Probed::Answered(times(Some(tls_ms), http_ms)));
    }
    let request = http::get(&at.small, false);
    let times = |http_ms| ForeignProbe { tcp_ms, tls_ms: None, http_ms };
    let answered = http::say(&stream, at.to, &request, stop).and_then(|()| {
        let (said, bytes) = http::answer(&stream, at.to, stop)?;
        let bytes = http::body(&stream, at.to, &said, bytes, stop)?;
        Ok((said.status, bytes))
    });
    let http_ms = since_ms(stood);
    let (status, bytes) = match answered {
        Ok(answered) => answered,
        Err(error) => return Probed::failed(times(http_ms), http_ms, error),
    };
    if status != 200 || bytes.is_empty() {
        return Err(http::refused(at.to, status, &at.small.path, &bytes));
    }
    Ok(Probed::Answered(times(http_ms)))
}

fn since_ms(began_ns: u64) -> f64 {
    (monotonic_ns() - began_ns) as f64 / 1e6
}
