//! The round-trip time to a host, by connections that are opened and closed.

use crate::CommandError;
use nix::errno::Errno;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::stream::{Connected, StreamOptions, TcpSocket};
use quell_sys::wait::Bell;
use quell_units::Span;
use std::net::SocketAddr;
use std::sync::Arc;

/// The least time of five between a SYN and its answer, to the microsecond: what the own machine takes is of that order. One that refuses
/// answers too.
pub fn least_rtt(to: SocketAddr, stop: &Arc<Bell>) -> Result<Span, CommandError> {
    const PATIENCE_NS: u64 = 5_000_000_000;
    let mut least = u64::MAX;
    for _ in 0..5 {
        let socket = TcpSocket::new(to.is_ipv6(), &StreamOptions::default())
            .map_err(CommandError::system)?;
        let begun = monotonic_ns();
        match socket.connect(to, begun + PATIENCE_NS, stop) {
            Ok(Connected::Yes) => {}
            Err(error) if error.errno == Errno::ECONNREFUSED => {}
            Ok(Connected::Stopped) => {
                return Err(CommandError::check("stopped before it was over"));
            }
            Ok(Connected::NoAnswer) => {
                return Err(CommandError::system(format!(
                    "no answer from {to} within 5s; give the time with --rtt"
                )));
            }
            Err(error) => return Err(CommandError::system(error)),
        }
        least = least.min(monotonic_ns() - begun);
    }
    Ok(Span::from_micros(least.div_ceil(1_000)))
}
