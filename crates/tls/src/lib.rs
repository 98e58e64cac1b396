//! TLS over a connection, for one thread that waits in the kernel alone: no runtime, no other thread.
//!
//! ```text
//!   identity    a key and its certificate, made on the spot
//!   trust       what a server shows, whose certificates are believed
//!   socket      TLS as HTTP/2 (the crate h2) reads and writes it; never waits
//!   drive       polls until nothing more comes of it, then waits: for the socket, a time, who rings
//! ```

pub mod drive;
pub mod identity;
pub mod socket;
pub mod trust;
