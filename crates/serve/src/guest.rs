//! Who came.

use quell_sys::socket::stream::TcpSocket;
use std::net::SocketAddr;

/// A connection that came.
pub struct Guest {
    /// The connection.
    pub stream: TcpSocket,
    /// Who.
    pub peer: SocketAddr,
    /// How many came before it.
    pub number: u64,
    /// When it came, in nanoseconds of the monotonic clock.
    pub came_ns: u64,
}
