//! What one end can receive: its window, and the times when it was zero.

use crate::time::Time;
use quell_units::Span;
use std::collections::BTreeMap;

/// Windows that are told apart; of more, each counts as the nearest.
const MOST_WINDOWS: usize = 64;

/// One end as a receiver.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Shift of its windows. `None` if it has none, or its SYN was not captured.
    pub(super) scale: Option<u8>,
    last: Option<u16>,
    /// Where the sequence numbers of its owner stood when it was told last.
    told_at: Option<u32>,
    zero: Option<ZeroWindow>,
    /// Largest window told, in bytes (not scaled if the SYN was not captured).
    pub(super) largest: u64,
    /// How often the window became zero.
    pub(super) times: u64,
    /// For how long in all.
    pub(super) total: Span,
    /// How the other end's data fills it.
    pub(super) filled: WindowFill,
}

/// For how long the other end had sent all that a window lets it, and so could only wait.
#[derive(Debug, Default)]
pub(super) struct WindowFill {
    /// Up to where the other end may send, by its own positions.
    edge: Option<i64>,
    /// The last look: when, whether something was under way, and the window, if that filled it.
    last: Option<(Time, bool, Option<u64>)>,
    /// For how long each window was full.
    windows: BTreeMap<u64, Span>,
    /// When it was full first, and by which packet.
    pub(super) first: Option<(Time, u64)>,
    /// How often it became full.
    pub(super) times: u64,
    /// For how long it was full, …
    pub(super) full: Span,
    /// … and for how long anything was under way.
    pub(super) busy: Span,
}

impl WindowFill {
    /// Whether it was full at the last look.
    pub(super) fn is_full(&self) -> bool {
        self.last.is_some_and(|(_, _, full)| full.is_some())
    }

    /// A window was told with an ACK up to here.
    fn told(&mut self, acked: i64, window: u64) {
        let edge = acked.saturating_add(i64::try_from(window).unwrap_or(i64::MAX));
        // A window may shrink, though it should not: senders take the newest (RFC 9293, 3.8.6).
        self.edge = Some(edge);
    }

    /// The other end has sent up to `top`, of which it has heard up to `acked`; it sends segments of so many bytes.
    pub(super) fn seen(&mut self, now: Time, packet: u64, (acked, top): (i64, i64), segment: u32) {
        if let Some((then, busy, full)) = self.last {
            let passed = now.since(then);
            self.busy += if busy { passed } else { Span::ZERO };
            if let Some(window) = full {
                self.full += passed;
                self.was_full(window, passed);
            }
        }
        let busy = top > acked;
        let was_full = self.is_full();
        // A window of less than a segment is as good as zero, and told as that. Linux waits for room for two segments while others are
        // under way (`tcp_tso_should_defer`).
        let full = busy
            && segment > 0
            && self.edge.is_some_and(|edge| {
                edge - top < 2 * i64::from(segment) && edge - acked >= i64::from(segment)
            });
        if full && !was_full {
            self.times += 1;
            self.first.get_or_insert((now, packet));
        }
        let window = self.edge.and_then(|edge| u64::try_from(edge - acked).ok());
        self.last = Some((now, busy, window.filter(|_| full)));
    }

    fn was_full(&mut self, window: u64, span: Span) {
        let nearest = || self.windows.keys().min_by_key(|known| known.abs_diff(window)).copied();
        let known = self.windows.len() < MOST_WINDOWS || self.windows.contains_key(&window);
        let key = if known { window } else { nearest().unwrap_or(window) };
        *self.windows.entry(key).or_default() += span;
    }

    /// The windows that were full, by time: a tenth of it they were no larger than the first, half of it than the second, nine tenths than
    /// the third.
    pub(super) fn spread(&self) -> [u64; 3] {
        let all: u128 = self.windows.values().map(|span| u128::from(span.nanos())).sum();
        [1, 5, 9].map(|tenths| {
            let mut passed = 0_u128;
            let reached = self.windows.iter().find(|(_, span)| {
                passed += u128::from(span.nanos());
                passed * 10 >= all * tenths
            });
            reached.map_or(0, |(window, _)| *window)
        })
    }
}

/// A window that is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ZeroWindow {
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

    /// Takes a window of a packet with this sequence number, which acknowledged the other end's data up to `acked`; `scaled` unless it came
    /// with SYN. Gives what has ended if it opened.
    pub(super) fn told(
        &mut self,
        now: Time,
        packet: u64,
        (seq, acked): (u32, i64),
        window: u16,
        scaled: bool,
    ) -> Option<(ZeroWindow, Span)> {
        self.last = Some(window);
        self.told_at = Some(seq);
        let shift = if scaled { self.scale.unwrap_or(0) } else { 0 };
        let bytes = u64::from(window) << shift;
        self.largest = self.largest.max(bytes);
        self.filled.told(acked, bytes);
        match (self.zero, window) {
            (None, 0) => {
                self.times += 1;
                self.zero = Some(ZeroWindow { since: now, packet, probe: None });
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
    pub(super) fn end(&mut self, now: Time) -> Option<(ZeroWindow, Span)> {
        let zero = self.zero.take()?;
        let waited = now.since(zero.since);
        self.total += waited;
        Some((zero, waited))
    }
}
