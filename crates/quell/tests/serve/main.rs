//! `quell serve` with its clients, friendly and hostile.

mod hostile;
mod link_local;
mod server;
mod service;
mod udp;

#[path = "../support/mod.rs"]
mod support;
