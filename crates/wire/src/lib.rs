//! Packets, as bytes and as what they mean. Pure: nothing here sends or receives.
//!
//! ```text
//!   icmp     echo request and reply (RFC 792, RFC 4443), and what Quell puts into them
//!   icmp_error  ICMP errors: what they mean, the packet that they quote, MPLS labels behind it (RFC 4884, RFC 4950)
//!   hop_probe   packets of one flow that routers on the way answer
//!   stamp    STAMP, unauthenticated (RFC 8762), with extra padding (RFC 8972)
//!   oneway   Quell's datagrams in one direction
//!   hello    what a Quell TCP client tells its server first
//!   iperf3   the protocol of iperf3, with Quell's addition
//!   ends     what both ends of a path tell each other of it
//!   layers   packets of all kinds, built of headers inside each other
//!   auth     how both ends of a connection prove that they share a secret
//!   text     what a peer says, made fit for a terminal and a log
//! ```
//!
//! Readers take any bytes and give a value or nothing; they never panic.

pub mod auth;
pub mod ends;
pub mod hello;
pub mod hop_probe;
pub mod icmp;
pub mod icmp_error;
pub mod iperf3;
pub mod layers;
pub mod oneway;
mod read;
pub mod stamp;
pub mod text;

/// Largest payload of UDP and of an ICMP echo in an IPv4 packet: 65,535 bytes without 28 of headers.
pub const LARGEST_PAYLOAD: u16 = 65_507;

pub use hello::Hello;
pub use icmp::Echo;
