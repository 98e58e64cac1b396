//! How a connection of HTTP/2 ended before its answer was there: who ended it, and what was said.

use crate::http::RpmError;
use crate::limits::LIMITS;
use quell_wire::text::printable;
use std::net::SocketAddr;

pub fn broken(to: SocketAddr, error: &h2::Error) -> RpmError {
    let why = || printable(&error.to_string(), LIMITS.words);
    match () {
        () if error.is_io() => RpmError::Left(to),
        () if error.is_remote() && error.is_go_away() => RpmError::GoneAway { to, why: why() },
        () if error.is_remote() => RpmError::CalledOff { to, why: why() },
        () => RpmError::NotHttp2(to, why()),
    }
}
