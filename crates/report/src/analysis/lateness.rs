//! Whether the machine that measured was short of CPU: how late its programs were.

use quell_model::EchoSample;

/// What a program does later than this, in nanoseconds, it had no CPU for.
pub const LATE_NS: u64 = 5_000_000;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lateness {
    /// Packets that were sent more than 5 ms after they were due, or whose answers were seen more than 5 ms after the kernel had them.
    pub late: u64,
    /// Packets of which one of both is known.
    pub of: u64,
    /// The longest such delay in nanoseconds.
    pub worst_ns: u64,
}

impl Lateness {
    pub(super) fn take(&mut self, ns: Option<u64>) {
        if let Some(ns) = ns {
            *self = self.and(Self { late: u64::from(ns > LATE_NS), of: 1, worst_ns: ns });
        }
    }

    /// What was taken is told anew, and no better.
    pub(super) fn take_back(&mut self, ns: Option<u64>) {
        if let Some(ns) = ns {
            self.late -= u64::from(ns > LATE_NS);
            self.of -= 1;
        }
    }

    pub fn and(self, other: Self) -> Self {
        Self {
            late: self.late + other.late,
            of: self.of + other.of,
            worst_ns: self.worst_ns.max(other.worst_ns),
        }
    }

    pub fn is_much(&self) -> bool {
        self.late > 0 && self.late.saturating_mul(100) >= self.of
    }

    pub fn said(&self) -> Option<String> {
        self.is_much().then(|| {
            let share = self.late as f64 * 100.0 / self.of as f64;
            let worst = self.worst_ns as f64 / 1e6;
            format!(
                "This machine was short of CPU: {share:.1} % of the packets were sent, or their answers seen, more than 5 ms late \
                 (the latest {worst:.1} ms). Times that the kernel stamped are right all the same; packets left later than \
                 planned."
            )
        })
    }
}

/// The later of both: that a packet was sent, and that its answer was seen.
pub(super) fn latest_ns(sample: &EchoSample) -> Option<u64> {
    sample.seen_late_ns.max(sample.sent_late_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::EchoStatus;

    fn lateness(packets: &[EchoSample]) -> Lateness {
        let mut lateness = Lateness::default();
        packets.iter().for_each(|s| lateness.take(latest_ns(s)));
        lateness
    }

    fn packets(late: impl Fn(u64) -> (u64, u64)) -> Vec<EchoSample> {
        let packet = |seq| {
            let (sent, seen) = late(seq);
            EchoSample {
                seen_late_ns: Some(seen),
                sent_late_ns: Some(sent),
                ..EchoSample::new(0, seq, 56, EchoStatus::Ok)
            }
        };
        (0..1000).map(packet).collect()
    }

    #[test]
    fn a_machine_that_was_late_for_one_packet_in_a_hundred_is_told_and_one_that_slept_once_is_not()
    {
        let once = packets(|n| if n == 7 { (300_000_000, 0) } else { (40_000, 60_000) });
        assert_eq!(lateness(&once).said(), None);
        let often = packets(|n| if n % 50 == 0 { (0, 7_000_000) } else { (0, 60_000) });
        let said = lateness(&often).said().expect("2 % were late");
        assert!(said.contains("2.0 %") && said.contains("7.0 ms"), "{said}");
        assert_eq!(Lateness::default().said(), None);
    }
}
