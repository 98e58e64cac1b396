//! One server for all that measures: flows, iperf3 clients, calls, reflected packets.
//!
//! ```text
//!                     ┌─ admission ─► session   a test of iperf3 or quell flow
//!   TCP ─ server ─────┤      ├─► quell_rr  calls of quell rr
//!                     │      ├─► web  the page that measures from a browser
//!                     │      └─► ends      how this end sees the path, for quell doctor
//!                     └─ hub ─┬ limits     who is connected, what they may use, how fast
//!                             └ waiting    which tests wait for their streams
//!   UDP ─ udp ────────────────┬ streams of tests, each with a socket of its own
//!                             └ STAMP, reflected
//!   home         the networks that this machine is in: whom it serves, and where it is found
//!   privileges   what root gives up once the ports are open; congestion: the one right that a helper keeps
//!   counts       the same as metrics
//!   event, log   what is told meanwhile, and writing it while nobody waits for that
//! ```
//!
//! One port number for both. Nobody gets more than they give before they have proven an address by a TCP handshake, and, where there is
//! a secret, that they know it. Everything is bounded: half handshakes in number and time, sessions, streams, rates, time, memory.

mod admission;
mod congestion;
mod counts;
mod ends;
pub mod event;
mod home;
mod hub;
mod limits;
pub mod log;
pub mod privileges;
mod server;
mod session;
mod udp;
mod waiting;
mod web;

pub use event::ServeEvent;
pub use limits::Limits;
pub use server::{ServeConfig, ServeError, Server};
pub use web::WebConfig;
