//! A captured frame as bytes, and as what it means.
//!
//! ```text
//!   Frame ──link── network header ──ip── Datagram ──tcp── Segment  =>  Packet: between whom, and what TCP said
//! ```
//!
//! Views (`Ipv4View`, `Ipv6View`, `TcpView`) only know where the fields lie; what they give is checked once, when a
//! value is made of them. Readers take any bytes, never panic, and tell why a frame is no TCP packet. Checksums are
//! not checked: on the machine that sent a packet, the card fills them in after the capture.

mod bytes;
mod ip;
mod link;
mod tcp;

pub use ip::{Datagram, Ipv4View, Ipv6View};
pub use tcp::{Flags, Options, Segment, TcpView};

use crate::capture::Frame;
use std::net::SocketAddr;

/// Why a frame is not looked at further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// A kind of link that is not read; with its number.
    Link(u32),
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// IP, but not TCP.
    NotTcp,
    /// A fragment: its parts are not put together.
    Fragment,
    /// Less was captured than the headers need.
    CutShort,
    /// It contradicts itself, as a header that is longer than its packet.
    Malformed,
}

/// A TCP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Who sent it.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// IPv4's identification: the same twice means that the same packet was captured twice.
    pub identification: Option<u16>,
    /// What TCP said.
    pub segment: Segment,
}

impl Packet {
    /// What a frame means.
    ///
    /// # Errors
    ///
    /// If it is not TCP, or can't be read as such.
    pub fn read(frame: &Frame<'_>) -> Result<Self, Skip> {
        let header = link::network_header(frame.link, frame.bytes)?;
        let bytes = frame.bytes.get(header..).unwrap_or_default();
        let length = u64::from(frame.length).saturating_sub(header as u64);
        let datagram = Datagram::read(bytes, length)?;
        if datagram.protocol != ip::TCP {
            return Err(if datagram.fragment { Skip::Fragment } else { Skip::NotTcp });
        }
        if datagram.fragment {
            return Err(Skip::Fragment);
        }
        let (source, destination, segment) = Segment::read(datagram.payload, datagram.length)?;
        Ok(Packet {
            from: SocketAddr::new(datagram.source, source),
            to: SocketAddr::new(datagram.destination, destination),
            identification: datagram.identification,
            segment,
        })
    }
}
