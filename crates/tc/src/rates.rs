//! Rates and times as the kernel's queues keep them.
//!
//! A tick is 64 ns (`PSCHED_SHIFT` is 6, `include/net/pkt_sched.h`), which `/proc/net/psched` states as 1000 ns per
//! 64 of its units: 15.625 ticks a microsecond.

use crate::qdisc::LinkLayer;

/// Ticks in a microsecond.
const TICKS_PER_US: f64 = 15.625;

/// A time in ticks, cut to whole ones, at most what 32 bits hold.
pub fn ticks(nanos: u64) -> u32 {
    u32::try_from(nanos / 64).unwrap_or(u32::MAX)
}

/// The ticks that so many bytes take at this rate (bytes per second).
pub fn transmit_ticks(bytes_per_second: u64, bytes: u64) -> u32 {
    if bytes_per_second == 0 {
        return u32::MAX;
    }
    // Cut to whole microseconds, then to whole ticks: `tc` does so, and it shows in every table.
    let us = 1_000_000.0 * (bytes as f64 / bytes_per_second as f64);
    (us.trunc() * TICKS_PER_US) as u32
}

/// The bytes that pass in so many ticks at this rate: the inverse, rounded to the nearest.
pub fn bytes_in(bytes_per_second: u64, ticks: u32) -> u64 {
    (bytes_per_second as f64 * f64::from(ticks) / TICKS_PER_US / 1_000_000.0).round() as u64
}

/// `struct tc_ratespec` before it is bytes, with the table that goes with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateSpec {
    pub bytes_per_second: u64,
    /// Bytes added to each packet.
    pub overhead: u16,
    /// The least that a packet counts as.
    pub mpu: u16,
    pub link_layer: LinkLayer,
    /// The largest packet that the table must cover; 0 for 2047.
    pub mtu: u32,
}

impl RateSpec {
    /// A rate on Ethernet, with nothing added.
    pub fn plain(bytes_per_second: u64) -> Self {
        RateSpec { bytes_per_second, overhead: 0, mpu: 0, link_layer: LinkLayer::Ethernet, mtu: 0 }
    }

    /// The rate if 32 bits don't hold it; it goes into an attribute of its own then.
    pub fn rate64(&self) -> Option<u64> {
        (self.bytes_per_second >= 1 << 32).then_some(self.bytes_per_second)
    }

    fn cell_log(&self) -> u8 {
        let mtu = if self.mtu == 0 { 2047 } else { self.mtu };
        (0..32).find(|log| mtu >> log <= 255).unwrap_or(0)
    }

    /// The 12 bytes of `struct tc_ratespec`.
    pub fn to_bytes(self) -> [u8; 12] {
        let layer = match self.link_layer {
            LinkLayer::Ethernet => 1,
            LinkLayer::Atm | LinkLayer::Adsl => 2,
        };
        let rate = u32::try_from(self.bytes_per_second).unwrap_or(u32::MAX);
        let mut bytes = [0; 12];
        bytes[0] = self.cell_log();
        bytes[1] = layer;
        bytes[2..4].copy_from_slice(&self.overhead.to_ne_bytes());
        bytes[4..6].copy_from_slice(&(-1i16).to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.mpu.to_ne_bytes());
        bytes[8..12].copy_from_slice(&rate.to_ne_bytes());
        bytes
    }

    /// The 256 transmission times that kernels before 3.8 looked up; today's only check that they are there.
    pub fn table(&self) -> Vec<u8> {
        (0..256u64)
            .flat_map(|index| {
                let size = ((index + 1) << self.cell_log()).max(self.mpu.into());
                let on_wire = match self.link_layer {
                    LinkLayer::Ethernet => size,
                    LinkLayer::Atm | LinkLayer::Adsl => size.div_ceil(48) * 53,
                };
                transmit_ticks(self.bytes_per_second, on_wire).to_ne_bytes()
            })
            .collect()
    }
}

/// What `struct tc_ratespec` says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadRate {
    pub bytes_per_second: u64,
    /// Bytes added to each packet.
    pub overhead: u16,
    /// The least that a packet counts as.
    pub mpu: u16,
    /// Framing of the link, if we know it.
    pub link_layer: Option<LinkLayer>,
}

/// Reads a `struct tc_ratespec`; `rate64` is the attribute for rates beyond 32 bits.
pub fn read_rate(bytes: &[u8; 12], rate64: Option<u64>) -> ReadRate {
    let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    let rate = u32::from_ne_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    ReadRate {
        bytes_per_second: rate64.unwrap_or(rate.into()),
        overhead: half(2),
        mpu: half(6),
        link_layer: match bytes[1] & 0xf {
            1 => Some(LinkLayer::Ethernet),
            2 => Some(LinkLayer::Atm),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_ticks_are_inverse_to_a_microsecond() {
        for rate in [8_000, 287_500, 125_000_000] {
            for bytes in [60, 1514, 16_000, 100_000] {
                let back = bytes_in(rate, transmit_ticks(rate, bytes));
                assert!(back.abs_diff(bytes) <= 1 + rate / 900_000, "{rate} {bytes} {back}");
            }
        }
    }

    #[test]
    fn a_rate_of_zero_takes_for_ever_and_does_not_panic() {
        assert_eq!(transmit_ticks(0, 1), u32::MAX);
        assert_eq!(ticks(u64::MAX), u32::MAX);
    }
}
