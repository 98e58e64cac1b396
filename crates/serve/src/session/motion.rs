//! Whether the bytes of a running test move. A test keeps its place by that: one that stands still is told of it to nobody, and goes only when
//! somebody else needs what it has.
//!
//! ```text
//!   no byte yet ─────────────── at rest, as one that is still being agreed on
//!   bytes came, or were sent ── at work, until none did for the patience: a window of zero, nothing acknowledged, no datagram
//! ```
//!
//! The patience is that of a step of the agreement, and longer on a long path: four of its round trips.

use super::broke::Break;
use super::lane::ServedLane;
use crate::hub::Pass;
use quell_load::look::tcp_info;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::stream::TcpSocket;

/// It is looked at often in the beginning, so that a test that moves is known as one, and later so often.
const FIRST_NS: u64 = 20_000_000;
const LATER_NS: u64 = 500_000_000;

/// Longest patience, as a talk's behind a full path.
const LONGEST_NS: u64 = super::talk::LONGEST_DRAIN_NS;

/// How far a test's bytes have come.
#[derive(Debug)]
pub struct Motion<'a> {
    pass: &'a Pass<'a>,
    control: &'a TcpSocket,
    least_ns: u64,
    bytes: u64,
    start_ns: u64,
    /// When to look next.
    pub next_ns: u64,
}

impl<'a> Motion<'a> {
    /// Nothing has moved yet.
    pub fn new(pass: &'a Pass<'a>, control: &'a TcpSocket, least_ns: u64) -> Self {
        Self { pass, control, least_ns, bytes: 0, start_ns: monotonic_ns(), next_ns: 0 }
    }

    /// Tells the places when bytes have moved. Errors when another has the place.
    pub fn look(&mut self, now: u64, lanes: &[ServedLane]) -> Result<(), Break> {
        if now < self.next_ns {
            return Ok(());
        }
        let bytes: u64 = lanes.iter().map(ServedLane::through).sum();
        let moved = bytes > self.bytes;
        let lasted = now.saturating_sub(self.start_ns);
        self.next_ns = now.saturating_add((lasted / 8).clamp(FIRST_NS, LATER_NS));
        if moved {
            self.bytes = bytes;
            let round_trip = tcp_info(self.control).map_or(0, |info| u64::from(info.rtt) * 1000);
            let patience = self.least_ns.max(round_trip.saturating_mul(4)).min(LONGEST_NS);
            self.pass.moved(patience).map_err(|_| Break::StoodStill)?;
        }
        Ok(())
    }
}
