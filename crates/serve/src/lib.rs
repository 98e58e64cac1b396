//! One server for all that measures: flows, iperf3 clients, calls, reflected packets.
//!
//! ```text
//!                     ┌─ admission ─► session   a test of iperf3 or quell flow
//!   TCP ─ server ─────┤      ├─► quell_rr  calls of quell rr
//!                     │      ├─► web  the page that measures from a browser
//!                     │      └─► ends      how this end sees the path, for quell doctor
//!                     └─ hub ─┬ places     who is there, what they may use
//!                             └ waiting    which tests wait for their streams
//!   UDP ─ udp ────────────────┬ streams of tests, each with a socket of its own
//!                             └ STAMP, reflected
//!   rate, turns  what all of them send and take together, and whose turn it is
//!   privileges   what root gives up once the ports are open
//!   event, log   what is told meanwhile, and writing it while nobody waits for that
//! ```
//!
//! One port number for both. Nobody gets more than they give before they have proven an address by a TCP handshake, and, where there is
//! a secret, that they know it. Everything is bounded: half handshakes in number and time, sessions, streams, rates, time, memory.

mod admission;
mod ends;
pub mod event;
mod guest;
mod hub;
mod lock;
pub mod log;
mod pause;
pub mod places;
pub mod privileges;
mod rate;
mod reflections;
mod server;
mod session;
mod turns;
mod udp;
mod waiting;
mod web;

pub use event::Event;
pub use places::Limits;
pub use server::{Config, ServeError, Server};
pub use web::WebConfig;
