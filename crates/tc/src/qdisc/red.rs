//! Random early detection, and the sums that it is set up with, as Floyd's paper and `tc` have them.

use std::ops::RangeInclusive;

use quell_units::{Bytes, Rate, Ratio};

use super::{Kind, need};
use crate::rates::transmit_ticks;
use crate::table::{Encoded, OptionError, Reported, attr, options, word, words};
use crate::value::{ratio, saturate, size};

options! {
    /// Random early detection. `limit` and `avpkt` must be given; the rest follows from them as in `tc`.
    Red "red" {
        /// The real length of the queue.
        limit: Option<Bytes> = Name("limit"), Part(1), Count;
        /// Average length at which dropping begins; default a third of `max`.
        min: Option<Bytes> = Name("min"), Part(1), Count;
        /// Average length at which the probability is reached; default a quarter of `limit`.
        max: Option<Bytes> = Name("max"), Part(1), Count;
        /// Size of an average packet, for the ageing of the average; 1000 is usual.
        avpkt: Option<Bytes> = Name("avpkt"), Part(2), Count unreported;
        /// Packets that may come at once; default (2·min + max) / (3·avpkt).
        burst: Option<u32> = Name("burst"), Part(2), Count unreported;
        /// Probability at `max`; default 2 %.
        probability: Option<Ratio> = Name("probability"), Part(3), Fraction;
        /// The link's rate, for ageing the average while idle; default 10 Mbit/s.
        bandwidth: Option<Rate> = Name("bandwidth"), Part(2), Rate64 unreported;
        /// Mark instead of dropping; default off.
        ecn: Option<bool> = Flag("ecn", ""), Part(4), Count;
        /// Drop even ECN-capable packets above `max`; default off.
        harddrop: Option<bool> = Flag("harddrop", ""), Part(4), Count;
        /// Adapt the probability to keep the average in the middle; default off.
        adaptive: Option<bool> = Flag("adaptive", ""), Part(4), Count;
        /// Queue packets that are not ECN-capable instead of dropping them early; needs `ecn`. Default off.
        nodrop: Option<bool> = Flag("nodrop", ""), Part(4), Count;
    }
}

impl Kind for Red {
    const CLASSFUL: bool = true;

    fn check(&self) -> Result<(), String> {
        need(self.limit.is_some(), "red needs `limit`, the queue's length in bytes")?;
        let average = self.avpkt.is_some_and(|avpkt| avpkt.get() > 0);
        need(average, "red needs `avpkt`, usually \"1000\"")?;
        need(self.nodrop != Some(true) || self.ecn == Some(true), "`nodrop` needs ecn = true")
    }

    fn classes(&self) -> Option<RangeInclusive<u16>> {
        Some(1..=1)
    }

    fn encode(&self) -> Result<Option<Encoded>, String> {
        let rate = self.bandwidth.map_or(1_250_000, Rate::bytes_per_second);
        let sums = self.sums(rate)?;
        let flags = flags([self.ecn, self.harddrop, self.adaptive, self.nodrop]);
        let mut parms = words(&[size(self.limit), sums.min, sums.max]);
        parms.extend([sums.w_log, sums.p_log, sums.cell_log, 0]);
        let attrs = vec![
            (1, parms.into()),
            (2, sums.table.to_vec().into()),
            attr(3, &[sums.max_p]),
            // struct nla_bitfield32: value, and that it speaks of all four bits.
            attr(4, &[flags, 15]),
        ];
        Ok(Some(Encoded { attrs, ..Encoded::default() }))
    }

    fn decode(from: &Reported<'_>) -> Result<Self, OptionError> {
        let parms: [u8; 16] = from.parms(1, "TCA_RED_PARMS")?;
        let at = |index| word(&parms, index).map(|bytes| Bytes::new(bytes.into()));
        // The attribute has the old flags too, where the kernel knows it.
        let wide = from.find(4).and_then(|payload| word(payload, 0)).unwrap_or(0);
        let flags = u32::from(parms[15]) | wide;
        Ok(Red {
            limit: at(0),
            min: at(1),
            max: at(2),
            probability: from.u32(3)?.map(ratio),
            ecn: Some(flags & 1 != 0),
            harddrop: Some(flags & 2 != 0),
            adaptive: Some(flags & 4 != 0),
            nodrop: Some(flags & 8 != 0),
            ..Red::default()
        })
    }
}

pub(super) fn flags(flags: [Option<bool>; 4]) -> u32 {
    flags.iter().enumerate().map(|(bit, on)| u32::from(*on == Some(true)) << bit).sum()
}

/// What the kernel wants to be told.
pub(super) struct RedSums {
    pub(super) min: u32,
    pub(super) max: u32,
    /// The average's weight is 2^-this.
    pub(super) w_log: u8,
    /// The probability's slope is 2^-this.
    pub(super) p_log: u8,
    /// Idle time is looked up in cells of 2^this ticks.
    pub(super) cell_log: u8,
    /// The probability at `max`, of 2^32.
    pub(super) max_p: u32,
    /// How much the average ages, by idle time.
    pub(super) table: [u8; 256],
}

impl Red {
    /// Computes them; an error says which of the inputs can't be met.
    pub(super) fn sums(&self, bytes_per_second: u64) -> Result<RedSums, String> {
        let average = size(self.avpkt).max(1);
        let max = self.max.map_or(size(self.limit) / 4, |max| size(Some(max)));
        let min = self.min.map_or(max / 3, |min| size(Some(min)));
        let usual = (2 * u64::from(min) + u64::from(max)) / (3 * u64::from(average));
        let burst = self.burst.unwrap_or(saturate(usual));
        let probability = self.probability.map_or(0.02, Ratio::as_f64);
        let w_log = weight(min, burst, average)
            .ok_or("`burst` is too small for `min`: it must exceed min / avpkt")?;
        let p_log = slope(min, max, probability).ok_or("`max` must be above `min`")?;
        let (cell_log, table) = ageing(w_log, average, bytes_per_second)
            .ok_or("the average can't be aged: `bandwidth` is too low for `avpkt`")?;
        let max_p = (probability * 2f64.powi(32)) as u32;
        Ok(RedSums { min, max, w_log, p_log, cell_log, max_p, table })
    }
}

/// The largest weight at which a burst of this many packets passes.
fn weight(min: u32, burst: u32, average_packet: u32) -> Option<u8> {
    let room = f64::from(burst) + 1.0 - f64::from(min) / f64::from(average_packet);
    if room < 1.0 {
        return None;
    }
    (1..32u8).find(|log| {
        let weight = 0.5f64.powi(i32::from(*log));
        room <= (1.0 - (1.0 - weight).powi(burst as i32)) / weight
    })
}

/// The slope of the probability between the thresholds, to a power of two.
fn slope(min: u32, max: u32, probability: f64) -> Option<u8> {
    if max <= min {
        return None;
    }
    let mut slope = probability / f64::from(max - min);
    for log in 0..32 {
        if slope > 1.0 {
            return Some(log);
        }
        slope *= 2.0;
    }
    None
}

fn ageing(w_log: u8, average_packet: u32, bytes_per_second: u64) -> Option<(u8, [u8; 256])> {
    let packet_time = f64::from(transmit_ticks(bytes_per_second, average_packet.into()));
    let decay = -(1.0 - 1.0 / f64::from(1u32 << w_log)).ln() / packet_time;
    let longest = 31.0 / decay;
    let cell_log = (0..32u8).find(|log| longest / 2f64.powi(i32::from(*log)) < 512.0)?;
    let mut table = [31; 256];
    table[0] = 0;
    for (index, age) in table.iter_mut().enumerate().take(255).skip(1) {
        let idle = (index as u64) << cell_log;
        *age = (idle as f64 * decay).min(31.0) as u8;
    }
    Some((cell_log, table))
}
