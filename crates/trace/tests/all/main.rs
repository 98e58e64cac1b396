//! Captures of every format and tunnel, connections packet by packet, and any bytes.

mod common;
mod files;
mod properties;
mod stories;
mod tunnels;
