//! What is asked on a connection of its own, over http or https: the server's word of itself, and a probe.

use crate::http::{self, HttpTarget, RpmError};
use crate::limits::LIMITS;
use crate::plan::RpmPlan;
use crate::secure;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use quell_web::well_known::{self, NqConfig};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForeignProbe {
    pub tcp_ms: f64,
    /// A round trip of the handshake of TLS.
    pub tls_ms: Option<f64>,
    pub http_ms: f64,
}

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
}

/// A request on a new connection: how long its parts took, or have taken, and what came of it.
struct ProbeRequest {
    times: ForeignProbe,
    stood_ms: f64,
    answer: Result<(u16, Vec<u8>), RpmError>,
}

impl ProbeRequest {
    /// Asks for the small thing of a server.
    fn of(at: &HttpTarget, stop: &Bell) -> Result<Self, RpmError> {
        let (stream, tcp_ms) = http::connect(at.to, at.secret.as_ref(), stop)?;
        let stood = monotonic_ns();
        let asked = |tls_ms, http_ms, answer| {
            let times = ForeignProbe { tcp_ms, tls_ms, http_ms };
            Ok(Self { times, stood_ms: since_ms(stood), answer })
        };
        let Some(secured) = &at.secured else {
            let answer = http::fetch(&stream, at.to, &http::get(&at.small, false), stop);
            return asked(None, since_ms(stood), answer);
        };
        let (mut session, tls_ms) = match secure::begin(stream, at.to, secured, stop) {
            Ok(begun) => begun,
            // Of the handshake and the request together that is known.
            Err(error) => return asked(None, since_ms(stood), Err(error)),
        };
        let began = monotonic_ns();
        match session.get(&at.small, stop) {
            Ok((status, bytes, ms)) => asked(Some(tls_ms), ms, Ok((status, bytes))),
            Err(error) => asked(Some(tls_ms), since_ms(began), Err(error)),
        }
    }
}

/// The server that the plan names, with what it says of itself.
pub fn target(plan: &RpmPlan, stop: &Bell) -> Result<HttpTarget, RpmError> {
    let at = HttpTarget::named(plan)?;
    match ProbeRequest::of(&at, stop)?.answer? {
        (200, bytes) => at.with(NqConfig::parse(&bytes)?),
        (status, bytes) => Err(http::refused(at.to, status, well_known::PATH, &bytes)),
    }
}

pub fn probe(at: &HttpTarget, stop: &Bell) -> Result<Probed, RpmError> {
    let ProbeRequest { times, stood_ms, answer } = ProbeRequest::of(at, stop)?;
    match answer {
        Ok((200, bytes)) if !bytes.is_empty() => Ok(Probed::Answered(times)),
        Ok((status, bytes)) => Err(http::refused(at.to, status, &at.small.path, &bytes)),
        // Closed, and not since the server would not have it at all.
        Err(why @ (RpmError::Closed(_) | RpmError::Left(_) | RpmError::NoTls { .. }))
            if stood_ms >= LIMITS.waited_ms =>
        {
            Ok(Probed::Unanswered { at_least: times, why })
        }
        Err(error) => Err(error),
    }
}

fn since_ms(began_ns: u64) -> f64 {
    (monotonic_ns() - began_ns) as f64 / 1e6
}
