//! The sums that random early detection is set up with, as Floyd's paper and `tc` have them.

use super::rates::transmit_ticks;

/// What the kernel wants to be told beside the thresholds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RedSums {
    /// The average's weight is 2^-this.
    pub w_log: u8,
    /// The probability's slope is 2^-this.
    pub p_log: u8,
    /// Idle time is looked up in cells of 2^this ticks.
    pub cell_log: u8,
    /// How much the average ages, by idle time.
    pub table: [u8; 256],
}

/// Computes them; an error says which of the inputs can't be met.
pub(super) fn sums(
    min: u32,
    max: u32,
    average_packet: u32,
    burst: u32,
    probability: f64,
    bytes_per_second: u64,
) -> Result<RedSums, String> {
    let w_log = weight(min, burst, average_packet)
        .ok_or("`burst` is too small for `min`: it must exceed min / avpkt")?;
    let p_log = slope(min, max, probability).ok_or("`max` must be above `min`")?;
    let (cell_log, table) = ageing(w_log, average_packet, bytes_per_second)
        .ok_or("the average can't be aged: `bandwidth` is too low for `avpkt`")?;
    Ok(RedSums { w_log, p_log, cell_log, table })
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
