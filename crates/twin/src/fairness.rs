//! Whether a thin flow beside a bulk one waits in its queue: where it does not, a ping is blind to the queue.

use crate::flood::{Flood, spacing};
use quell_model::EchoSample;

/// A queue shorter than this, or than so many packets, is none that anybody could be kept from: the one on the line is waited for in any case.
const LEAST_S: f64 = 0.004;
const LEAST_PACKETS: f64 = 6.0;

/// Whether pings of another flow are kept out of the flood's queue. `idle_s` is a ping's time one way over the idle line, `late_s` how much later
/// than the flood the pings began.
pub fn apart(
    flood: &Flood,
    pings: &[EchoSample],
    up: bool,
    (idle_s, late_s): (f64, f64),
) -> Result<bool, &'static str> {
    let mut packets = flood.packets();
    packets.sort_by(|a, b| a.sent_s.total_cmp(&b.sent_s));
    let least_s = LEAST_S.max(LEAST_PACKETS * spacing(&flood.packets()));
    let way = |ping: &EchoSample| if up { ping.up_ns } else { ping.down_ns };
    let parts: Vec<f64> = pings
        .iter()
        .filter(|ping| ping.status.is_answered())
        .filter_map(|ping| {
            // What the flood's packets waited that were sent about then.
            let at =
                packets.partition_point(|packet| packet.sent_s < ping.t_ns as f64 / 1e9 + late_s);
            let bulk_s = packets.get(at)?.wait_s;
            let thin_s = way(ping)? as f64 / 1e9 - idle_s;
            (bulk_s >= least_s).then_some(thin_s / bulk_s)
        })
        .collect();
    if parts.len() < 5 {
        return Err("fewer than 5 pings beside the flood came back while it had a queue");
    }
    match quell_stats::median(&parts).unwrap_or(f64::NAN) {
        part if part < 0.35 => Ok(true),
        part if part > 0.65 => Ok(false),
        _ => Err("a ping waits about half of what the flood does"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood::made_up::line;
    use quell_model::EchoStatus;

    #[test]
    fn a_ping_that_does_not_wait_is_kept_apart() {
        let flood = line(1428.0, 1.3, 4.0, (1.25e6, 0.0), |queue| queue.packets < 50);
        let pings = |ms: i64| -> Vec<EchoSample> {
            (0..20)
                .map(|n| EchoSample {
                    up_ns: Some(ms * 1_000_000),
                    ..EchoSample::new(1_000_000_000 + 50_000_000 * n as i64, n, 56, EchoStatus::Ok)
                })
                .collect()
        };
        let told = |ms| apart(&flood, &pings(ms), true, (0.01, 0.0));
        assert_eq!([told(11), told(65)], [Ok(true), Ok(false)]);
        assert!(told(40).is_err() && apart(&flood, &[], true, (0.01, 0.0)).is_err());
    }
}
