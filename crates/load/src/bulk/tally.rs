//! What a mover has counted so far: written by one thread, read by any.

use quell_stats::log_histogram::{LogHistogram, bucket};
use quell_wire::iperf3::{DatagramLog, LossRecord};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Buckets of gaps: one of eighteen minutes and more is as long as any.
const GAPS: usize = bucket(1 << 40) + 1;

/// A count with one writer at a time, so that adding needs no locked instruction.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What went over a TCP connection, or out of a UDP socket.
#[derive(Debug, Default)]
pub struct Tally {
    pub(super) bytes: Count,
    pub(super) packets: Count,
    pub(super) refused: Count,
    pub(super) first_ns: Count,
    pub(super) first_packets: Count,
    pub(super) last_ns: Count,
}

impl Tally {
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of payload that were handed to the kernel, or taken from it.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Datagrams that were handed to the kernel; 0 for TCP.
    pub fn packets(&self) -> u64 {
        self.packets.get()
    }

    /// Datagrams that a queue of this host refused (`ENOBUFS`); they are counted as sent too, since they have numbers and are lost.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Receiver over TCP: when the newest bytes were taken, in nanoseconds of the monotonic clock; 0 before any. Sender of datagrams: when the newest
    /// one was sent.
    pub fn last_ns(&self) -> u64 {
        self.last_ns.get()
    }

    /// For how long datagrams were sent, in nanoseconds: from the first ones to the last, and those first ones take as long as others. None where all
    /// went at once.
    pub fn sent_for_ns(&self) -> Option<u64> {
        let (all, first) = (self.packets.get(), self.first_packets.get());
        let span = self.last_ns.get().saturating_sub(self.first_ns.get());
        let steps = all.checked_sub(first).filter(|steps| *steps > 0 && span > 0)?;
        let lasted = u128::from(span) * u128::from(all) / u128::from(steps);
        u64::try_from(lasted).ok()
    }
}

/// What came into a UDP socket.
#[derive(Debug)]
pub struct UdpTally {
    pub(super) bytes: Count,
    pub(super) arrived: Count,
    pub(super) sent: Count,
    pub(super) reordered: Count,
    pub(super) duplicates: Count,
    pub(super) foreign: Count,
    pub(super) jitter_ns: Count,
    pub(super) rfc_jitter_ns: Count,
    pub(super) socket_drops: Count,
    pub(super) first_ns: Count,
    pub(super) last_ns: Count,
    pub(super) first_number: Count,
    pub(super) longest_ns: Count,
    pub(super) losses: Mutex<LossRecord>,
    pub(super) log: Mutex<DatagramLog>,
    pub(super) gaps: Box<[Count]>,
}

/// One look at a [`UdpTally`]. Numbers of one look fit together to within what arrives while looking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UdpCounts {
    /// Bytes of payload, copies not counted.
    pub bytes: u64,
    /// Datagrams, copies not counted.
    pub packets: u64,
    /// How many the sender had sent when it sent the newest one that came: arrived and missing ones.
    pub sent: u64,
    /// Arrived behind a later one (RFC 4737).
    pub reordered: u64,
    pub duplicates: u64,
    /// Of another length than this flow's, or with a number that it can't have: somebody else's.
    pub foreign: u64,
    /// Interarrival jitter now in nanoseconds, by the kernel's receive stamps and the sender's time of sending: RFC 3550's estimate without its
    /// start from 0, which few datagrams do not leave.
    pub jitter_ns: u64,
    /// The estimate itself.
    pub rfc_jitter_ns: u64,
    /// Datagrams that the kernel threw away because this socket's buffer was full: losses of this host, not of the network. Where it
    /// threw whole trains away, the number is an upper bound: so many trains of the longest that came, and no more than are missing.
    pub socket_drops: u64,
    /// When the first and the newest came, in nanoseconds of the monotonic clock; 0 before the first.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// The number of the first that came.
    pub first_number: u64,
    /// The longest time between one arrival and the next in nanoseconds, since the start or since it was [forgotten](UdpTally::forget_longest).
    pub longest_ns: u64,
}

impl UdpCounts {
    /// Datagrams that have not arrived, or not yet.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.packets)
    }
}

impl UdpTally {
    pub fn new() -> Self {
        let count = Count::default;
        Self {
            bytes: count(),
            arrived: count(),
            sent: count(),
            reordered: count(),
            duplicates: count(),
            foreign: count(),
            jitter_ns: count(),
            rfc_jitter_ns: count(),
            socket_drops: count(),
            first_ns: count(),
            last_ns: count(),
            first_number: count(),
            longest_ns: count(),
            losses: Mutex::default(),
            log: Mutex::default(),
            gaps: (0..GAPS).map(|_| count()).collect(),
        }
    }

    /// All counts as they are now.
    pub fn counts(&self) -> UdpCounts {
        // The number of those sent is stored last and read first, so that nothing looks lost that was only not yet counted.
        let sent = self.sent.get();
        let packets = self.arrived.get();
        UdpCounts {
            bytes: self.bytes.get(),
            packets,
            sent: sent.max(packets),
            reordered: self.reordered.get(),
            duplicates: self.duplicates.get(),
            foreign: self.foreign.get(),
            jitter_ns: self.jitter_ns.get(),
            rfc_jitter_ns: self.rfc_jitter_ns.get(),
            socket_drops: self.socket_drops.get(),
            first_ns: self.first_ns.get(),
            last_ns: self.last_ns.get(),
            first_number: self.first_number.get(),
            longest_ns: self.longest_ns.get(),
        }
    }

    /// The longest time between arrivals is measured anew from here on; one that ends at this very moment may count as either.
    pub fn forget_longest(&self) {
        self.longest_ns.set(0);
    }

    /// Times between one arrival and the next in nanoseconds, by the kernel's receive stamps. Datagrams of one train arrived together: their
    /// gaps are 0.
    pub fn gaps(&self) -> LogHistogram {
        LogHistogram::from_counts(self.gaps.iter().map(Count::get).enumerate())
    }

    /// What is seen of losses; nothing before the first.
    pub fn losses(&self) -> LossRecord {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Each datagram that came, where that was asked for.
    pub fn log(&self) -> DatagramLog {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn gap(&self, gap_ns: u64, times: u64) {
        self.gaps[bucket(gap_ns).min(GAPS - 1)].add(times);
        if gap_ns > self.longest_ns.get() {
            self.longest_ns.set(gap_ns);
        }
    }
}

impl Default for UdpTally {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_datagrams_at_a_rate_take_n_times_what_is_between_two() {
        let sent_for = |first_packets: u64, all: u64, span_ns: u64| {
            let tally = Tally::new();
            tally.first_packets.set(first_packets);
            tally.packets.set(all);
            tally.first_ns.set(7);
            tally.last_ns.set(7 + span_ns);
            tally.sent_for_ns()
        };
        assert_eq!(sent_for(1, 800, 799_000), Some(800_000));
        // Of pieces of 64 the first one's last datagram has a time.
        assert_eq!(sent_for(64, 640, 900), Some(1000));
        assert_eq!([sent_for(0, 0, 0), sent_for(1, 1, 0), sent_for(64, 64, 0)], [None; 3]);
    }
}
