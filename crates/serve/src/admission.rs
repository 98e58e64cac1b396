//! Who is there: the first bytes of a TCP connection decide.
//!
//! ```text
//!   QUELAUT1 ──► both prove that they know the secret ──► once more, trusted
//!   QUELLRR1 ──────────────────────────────► calls
//!   GET /, POST / … ───────────────────────► a browser, where there is a page for it
//!   QUELL-E1 ──────────────────────────────► questions about the path
//!   37 bytes, the cookie of a waiting test ► one of its streams
//!   37 bytes, another cookie ──────────────► a new test
//!   anything else, or nothing in time ─────► reset
//! ```
//!
//! Where there is a secret, each connection proves it, streams too: a cookie travels in the clear, and whoever saw one gets nothing for it.

use crate::ends;
use crate::event::{ServeEvent, reason};
use crate::hub::{Accepted, HalfOpen, Hub};
use crate::limits::{Full, Throttle};
use crate::session;
use crate::waiting::{Opened, Stranger, Waiting};
use crate::web::{self, Web};
use nix::errno::Errno;
use quell_load::bulk::Gate;
use quell_rr::RrError;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::memory;
use quell_sys::socket::exchange::{Exchange, ExchangeError};
use quell_sys::socket::preface::{self, PrefaceError};
use quell_units::Span;
use quell_wire::auth::MAGIC;
use quell_wire::ends::HELLO;
use quell_wire::iperf3::{COOKIE, Cookie, State};
use std::sync::Arc;

/// With what a hello of `quell rr` begins.
const CALLS: &[u8; 8] = b"QUELLRR1";

enum Wish {
    Stream(Arc<Waiting>),
    Test(Cookie),
    Calls,
    /// A browser, with the first bytes of what it asks, and whether it proved the secret.
    Web([u8; 8], bool),
    Ends,
}

#[derive(Debug, thiserror::Error)]
enum Unwelcome {
    #[error("it said nothing that we know")]
    Foreign,
    #[error("it did not say in time what it wants")]
    Silent,
    #[error("it went away before it said what it wants")]
    Gone,
    #[error("others came before it said what it wants, and it was the oldest of the many there")]
    Crowded,
    #[error("it wants to prove a secret; we have none (--secret-file)")]
    NoSecretHere,
    #[error("it does not know the secret")]
    Untrusted,
    #[error("it did not prove that it knows the secret (iperf3 can't)")]
    Denied,
    #[error("it did not prove that it knows the secret")]
    NoProof,
    #[error("{0}")]
    Stranger(#[from] Stranger),
    #[error("the server was stopped")]
    Stopped,
    #[error("{0}")]
    System(#[from] SysError),
}

impl From<ExchangeError> for Unwelcome {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Closed => Self::Gone,
            ExchangeError::Late => Self::Silent,
            ExchangeError::Stopped => Self::Stopped,
            ExchangeError::System(error) => Self::System(error),
        }
    }
}

pub fn open<'x, 'h: 'x>(
    (hub, web): (&Hub<'_>, Option<&Web<'h>>),
    guest: Accepted,
    half_open: HalfOpen<'x>,
) {
    let deadline = guest.came_ns.saturating_add(hub.limits.handshake_ns);
    let mut wish = Exchange::new(&guest.stream, Some(deadline), hub.stop)
        .map_err(Unwelcome::System)
        .and_then(|mut exchange| ask(hub, web.is_some(), &guest, &mut exchange));
    if half_open.lost() {
        wish = Err(Unwelcome::Crowded);
    }
    if let (Ok(Wish::Web(first, trusted)), Some(web)) = (&wish, web) {
        return web::converse(web, &guest, first, *trusted, half_open);
    }
    // What it holds is that of an unknown connection until it is closed.
    let unknown = Some(half_open).filter(|_| wish.is_err());
    match wish {
        Ok(Wish::Stream(waiting)) => {
            let opened = Opened::Tcp(guest.number, guest.stream);
            if let Err(Opened::Tcp(_, stream)) = waiting.add(opened, None) {
                hub.refuse(guest.peer, "its test has all its streams");
                stream.abort();
            }
        }
        Ok(Wish::Test(cookie)) => {
            let ran = session::run(hub, guest, cookie);
            // What its streams had is not kept for the next as much.
            memory::give_back();
            if ran {
                hub.completed();
            }
        }
        Ok(Wish::Calls) => calls(hub, &guest),
        // It is asked for only where there is a page, and was served above.
        Ok(Wish::Web(..)) => {}
        Ok(Wish::Ends) => ends::answer(hub, &guest),
        Err(why) => turn_away(hub, web.is_some(), guest, why),
    }
    drop(unknown);
}

fn turn_away(hub: &Hub<'_>, has_page: bool, guest: Accepted, why: Unwelcome) {
    match why {
        Unwelcome::Stopped => guest.stream.abort(),
        Unwelcome::Denied => {
            // Closed in order, not reset: the word is to get there.
            guest.stream.finish();
            hub.refuse(guest.peer, why);
        }
        // A browser opens connections that it may never use.
        Unwelcome::Silent | Unwelcome::Gone if has_page => guest.stream.abort(),
        why => {
            hub.refuse(guest.peer, why);
            guest.stream.abort();
        }
    }
}

fn ask(
    hub: &Hub<'_>,
    has_page: bool,
    guest: &Accepted,
    exchange: &mut Exchange<'_>,
) -> Result<Wish, Unwelcome> {
    let mut first = [0; 8];
    exchange.read(&mut first)?;
    let mut trusted = hub.secret.is_none();
    if first == *MAGIC {
        let secret = hub.secret.as_ref().ok_or(Unwelcome::NoSecretHere)?;
        preface::demand(exchange, secret, &hub.reached_at).map_err(|error| match error {
            PrefaceError::Exchange(ExchangeError::Closed | ExchangeError::Late) => {
                Unwelcome::NoProof
            }
            PrefaceError::Exchange(error) => error.into(),
            PrefaceError::System(error) => error.into(),
            _ => Unwelcome::Untrusted,
        })?;
        trusted = true;
        exchange.read(&mut first)?;
    }
    if first == *CALLS {
        return if trusted { Ok(Wish::Calls) } else { Err(Unwelcome::Untrusted) };
    }
    if has_page && web::begins(&first) {
        return Ok(Wish::Web(first, trusted));
    }
    if first == *HELLO {
        return if trusted { Ok(Wish::Ends) } else { Err(Unwelcome::Untrusted) };
    }
    // What can't become a cookie is not waited for.
    if !first.iter().all(u8::is_ascii_alphanumeric) {
        return Err(Unwelcome::Foreign);
    }
    let mut bytes = [0; COOKIE];
    bytes[..first.len()].copy_from_slice(&first);
    exchange.read(&mut bytes[first.len()..])?;
    let cookie = Cookie::read(&bytes).ok_or(Unwelcome::Foreign)?;
    if !trusted {
        // iperf3 tells its user that the server is busy: it has no word for this.
        exchange.write(&[State::AccessDenied.byte()])?;
        return Err(Unwelcome::Denied);
    }
    let waiting = hub.waiting_for(&cookie, guest.peer.ip().to_canonical())?;
    Ok(waiting.map_or(Wish::Test(cookie), Wish::Stream))
}

fn calls(hub: &Hub<'_>, guest: &Accepted) {
    let pass = match hub.begin(guest.peer.ip(), &guest.stream, false) {
        Ok(pass) => pass,
        Err(full) => {
            hub.refuse(guest.peer, full);
            guest.stream.abort();
            return;
        }
    };
    let throttle = Throttle::new(&hub.rates, guest.peer.ip(), 1);
    let usual = quell_rr::Limits::default();
    let end_ns = monotonic_ns().saturating_add(hub.limits.time_ns);
    let limits = quell_rr::Limits {
        time: Span::from_nanos(hub.limits.time_ns),
        idle: usual.idle.min(Span::from_nanos(hub.limits.time_ns)),
        piece: throttle.most().unwrap_or(usual.piece),
        ..usual
    };
    let mut calls = 0;
    let mut gate = |bytes: usize| {
        if bytes == 0 {
            calls += 1;
            return Ok(());
        }
        pass.active().map_err(|_| Errno::EPIPE)?;
        hub.pause(&guest.stream, &throttle, bytes, end_ns)
    };
    let deadline = monotonic_ns().saturating_add(hub.limits.handshake_ns);
    let answered = Exchange::new(&guest.stream, Some(deadline), hub.stop)
        .map_err(RrError::from)
        .and_then(|mut exchange| {
            quell_rr::server::answer(&guest.stream, &mut exchange, CALLS, &limits, &mut gate)
        });
    if calls > 0 {
        hub.calls_end(guest.peer.ip());
    }
    guest.stream.abort();
    let why = match answered {
        Ok(_) => pass.lost().then(|| Full::SentAway.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let (session, client, why) = (pass.number, guest.peer, why.as_ref().map(reason));
    hub.tell_some(&ServeEvent::Called { session, client, calls, why });
    drop(pass);
    // Without an alarm the server of one test stays: its client's next connection matters more.
    let _ = hub.calls_ended(guest.peer.ip());
}
