//! What one end can receive: its window, and the times when it was zero.

use crate::time::Time;
use quell_units::Span;

/// One end as a receiver.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Shift of its windows. `None` if it has none, or its SYN was not captured.
    pub(super) scale: Option<u8>,
    last: Option<u16>,
    /// Where the sequence numbers of its owner stood when it was told last.
    told_at: Option<u32>,
    zero: Option<Zero>,
    /// Largest window told, in bytes (not scaled if the SYN was not captured).
    pub(super) largest: u64,
    /// How often the window became zero.
    pub(super) times: u64,
    /// For how long in all.
    pub(super) total: Span,
}

/// A window that is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Zero {
    pub(super) since: Time,
    pub(super) packet: u64,
    /// The last probe that asked.
    pub(super) probe: Option<u64>,
}

impl Window {
    /// Whether it is zero now.
    pub(super) fn is_zero(&self) -> bool {
        self.zero.is_some()
    }

    /// Whether this is the window that was told last.
    pub(super) fn is_same(&self, window: u16) -> bool {
        self.last == Some(window)
    }

    /// Whether a packet with this sequence number, whose ACK tells something `new` or not, tells a window newer than the last: one
    /// that was overtaken does not (RFC 9293, 3.10.7.4).
    pub(super) fn is_newer(&self, seq: u32, new: bool, old: bool) -> bool {
        let step = self.told_at.map_or(0, |at| seq.wrapping_sub(at).cast_signed());
        !old && (new || step >= 0)
    }

    /// Takes a window of a packet with this sequence number; `scaled` unless it came with SYN. Gives what has ended if it opened.
    pub(super) fn told(
        &mut self,
        now: Time,
        packet: u64,
        seq: u32,
        window: u16,
        scaled: bool,
    ) -> Option<(Zero, Span)> {
        self.last = Some(window);
        self.told_at = Some(seq);
        let shift = if scaled { self.scale.unwrap_or(0) } else { 0 };
        self.largest = self.largest.max(u64::from(window) << shift);
        match (self.zero, window) {
            (None, 0) => {
                self.times += 1;
                self.zero = Some(Zero { since: now, packet, probe: None });
                None
            }
            (Some(_), 1..) => self.end(now),
            _ => None,
        }
    }

    /// The other end probed.
    pub(super) fn probed(&mut self, packet: u64) {
        if let Some(zero) = &mut self.zero {
            zero.probe = Some(packet);
        }
    }

    /// It is over, or there will be no more.
    pub(super) fn end(&mut self, now: Time) -> Option<(Zero, Span)> {
        let zero = self.zero.take()?;
        let waited = now.since(zero.since);
        self.total += waited;
        Some((zero, waited))
    }
}
