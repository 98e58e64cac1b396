//! A captured frame as bytes, and as what it means.
//!
//! ```text
//!   Frame ──link, tunnel── innermost IP header ──ip── Datagram ──tcp── Segment  =>  TcpPacket: between whom, what TCP said
//! ```
//!
//! Tunnels are read through: who talks is whom the innermost header names.
//!
//! Readers take any bytes, never panic, and tell why a frame is no TCP packet. Checksums are not checked: on the
//! machine that sent a packet, the card fills them in after the capture.

mod ip;
mod link;
mod skip;
mod tcp;
mod tunnel;

pub use ip::Datagram;
pub use skip::{NotTcp, Skip};
pub use tcp::{Flags, Segment, TcpOptions};
pub use tunnel::{Tunnel, Version};

use crate::capture::Frame;
use std::net::SocketAddr;

/// A TCP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpPacket {
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// IPv4's identification: the same twice means that the same packet was captured twice.
    pub identification: Option<u16>,
    pub hops_left: u8,
    /// The outermost tunnel that it was read out of.
    pub tunnel: Option<Tunnel>,
    pub segment: Segment,
}

impl TcpPacket {
    /// What a frame means.
    ///
    /// # Errors
    ///
    /// If it is not TCP, or can't be read as such.
    pub fn read(frame: &Frame<'_>) -> Result<Self, Skip> {
        let (datagram, tunnel) =
            tunnel::innermost(frame.link, frame.bytes, u64::from(frame.length))?;
        let (source, destination, segment) = Segment::read(datagram.payload, datagram.length)?;
        Ok(Self {
            from: SocketAddr::new(datagram.source, source),
            to: SocketAddr::new(datagram.destination, destination),
            identification: datagram.identification,
            hops_left: datagram.hops_left,
            tunnel,
            segment,
        })
    }
}
