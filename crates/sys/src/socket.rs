//! Sockets that measure: what the standard library's do not tell or set.
//!
//! ```text
//!   datagram   UDP: open with TOS, kernel receive stamps, TTL, errors from the path
//!   echo       ICMP echo: an unprivileged ping socket, or a raw one
//!   ends       opening, and the addresses of both ends
//!   inbox      many datagrams in one call, each with stamp, TOS, TTL and destination
//!   errors     the socket's error queue: which packet an ICMP error was about, and when packets left
//!   stream     TCP: connect with a deadline, congestion control, pacing, window, abort
//!   handshake  what the kernel tells of a SYN and its answer
//!   hops       packets that live for a number of hops only, and what is said about them
//!   way        the own address and the device by which packets leave
//!   attempts   TCP connections that are tried and given up again, many at once
//!   bulk       many datagrams in one call, in trains; what a socket's own buffer dropped
//!   bulk_stream  much over one TCP connection, without waiting and without copying
//!   exchange   whole messages over TCP, until a time or until somebody rings
//!   preface    both ends of a connection prove that they share a secret
//!   shared     UDP: one port, a socket for whoever comes and one for each peer
//!   option     setsockopt(2), with errors that say what could not be set
//! ```
//!
//! Receive stamps are `SO_TIMESTAMPNS`: taken when the packet enters the stack, by the wall clock. Transmit stamps are asked for
//! with `option::observe_departures` and come through the error queue: one before this host's own queue and one behind it. A
//! round-trip time counts from the first: a queue of our own is a part of the path that we want to measure.

pub mod attempts;
pub mod bulk;
pub mod bulk_stream;
pub mod datagram;
pub mod echo;
mod ends;
pub mod errors;
pub mod exchange;
pub mod handshake;
pub mod hops;
pub mod inbox;
pub mod option;
pub mod preface;
pub mod shared;
pub mod stream;
pub mod way;

pub use attempts::Attempts;
pub use datagram::Udp;
pub use echo::EchoSocket;
pub use errors::{ErrorQueue, IcmpReport, PathError};
pub use handshake::Handshake;
pub use hops::{IcmpErrors, Syn};
pub use inbox::{Arrival, Inbox};
pub use way::{Way, keep_whole};
