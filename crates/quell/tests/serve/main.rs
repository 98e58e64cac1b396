//! `quell serve` with its clients, friendly and hostile.

mod hostile;
mod link_local;
mod metrics;
mod server;
mod service;
mod udp;

#[path = "../../../mesh/tests/broker/support.rs"]
mod broker;
#[path = "../support/mod.rs"]
mod support;

use support::left_out;
