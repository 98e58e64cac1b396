//! For how long a sender of TCP had nothing to send, by the kernel's own clock. Pure.
//!
//! ```text
//!   busy (TCP_INFO)    ▔▔▔▔▔▔▁▁▁▁▁▁▁▁▁▁▔▔▔▔▔▔▁▁▁▁▁▁▁▁▁▁    written, and not acknowledged yet
//!   the program        runs  │ stopped │ runs  │ stopped
//!   looks              │ │ │           │ │ │               there are none while it is stopped, and all of them see a busy flow
//! ```
//!
//! The kernel keeps that clock without the program. What of the time that passed is not busy, nothing was there to be sent, and no path, window or
//! buffer held anything up. Most of the time, that is the verdict. A tenth of it and more is too much to blame anything else for certain: behind
//! each pause a congestion window starts anew, and seems to be what holds the flow up.

use quell_wire::iperf3::Moment;

/// Microseconds between these looks in which all that was written had been acknowledged, of a stream that has to send so many bytes.
pub(crate) fn us(moments: &[Moment], amount: u64) -> f64 {
    let counts = moments.windows(2).filter(|pair| !all_is_written(&pair[1], amount));
    let idle = counts.map(|pair| {
        let passed = pair[1].t_ns.saturating_sub(pair[0].t_ns) as f64 / 1e3;
        passed - pair[1].busy_us.saturating_sub(pair[0].busy_us) as f64
    });
    // The clock counts ticks: of one look it may be late or early, of all of them it is not.
    idle.sum::<f64>().max(0.0)
}

/// Whether the last byte was written: behind that nothing can wait.
pub(crate) fn all_is_written(moment: &Moment, amount: u64) -> bool {
    moment.unsent == 0 && moment.acked + moment.in_flight >= amount
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::{Beside, Held, Limit};

    const MSS: u64 = 1448;

    /// A line of 100 Mbit/s and 10 ms in the lab, whose sender is stopped in turn: looks so often, each of which sees a full window, and
    /// what the kernel's clock then is.
    fn stopped(every_ms: u64, busy: f64, count: u64) -> Vec<Moment> {
        let at = |n: u64| Moment {
            t_ns: (n * every_ms * 1_000_000) as i64,
            acked: n * every_ms * 1000 * 2,
            busy_us: ((n * every_ms * 1000) as f64 * busy) as u64,
            cwnd: 172 * MSS,
            in_flight: 172 * MSS,
            window: 700_000,
            unsent: 2_000_000,
            srtt_us: 17_630,
            rttvar_us: 91,
            min_rtt_us: 10_012,
            segment: MSS,
            ..Moment::default()
        };
        (0..count).map(at).collect()
    }

    fn judged(moments: &[Moment], asked: Option<u64>) -> (Held, Limit) {
        let held = Held::of(&[moments], 0, asked, 12.6e6, None).expect("states");
        let added = Some(7.34);
        let beside = Beside {
            added,
            added_there: added,
            added_always: Some(6.0),
            added_mostly: Some(6.0),
            added_seldom: Some(9.0),
            idle: Some(10.0),
            ..Beside::default()
        };
        (held, held.by(Some(MSS as u32), beside))
    }

    #[test]
    fn a_sender_that_is_stopped_most_of_the_time_holds_its_flow_up_whatever_its_looks_see() {
        let (held, limit) = judged(&stopped(450, 0.149, 23), None);
        assert_eq!(limit, Limit::Sender);
        assert!((held.idle - 0.851).abs() < 0.001 && held.no_data >= held.idle, "{held:?}");
        assert!(held.cwnd < 0.15, "{held:?}");
    }

    #[test]
    fn a_sender_that_is_stopped_a_good_part_of_the_time_leaves_nothing_certain() {
        for (every_ms, busy) in [(104, 0.603), (130, 0.516)] {
            assert_eq!(judged(&stopped(every_ms, busy, 90), None).1, Limit::Unknown, "{busy}");
        }
        assert_eq!(judged(&stopped(100, 1.0, 90), None).1, Limit::Path);
        assert_eq!(judged(&stopped(100, 0.99, 90), None).1, Limit::Path, "a tick now and then");
        // Of a rate that was not reached the path may not be told either: its window was full while it was busy.
        assert_eq!(judged(&stopped(450, 0.149, 23), Some(50_000_000)).1, Limit::Unknown);
    }

    #[test]
    fn behind_the_last_write_nobody_is_idle() {
        let mut moments = stopped(100, 1.0, 20);
        let done = moments[10];
        for (moment, n) in moments.iter_mut().zip(0..).skip(10) {
            *moment = Moment { t_ns: n * 100_000_000, unsent: 0, in_flight: 0, ..done };
        }
        assert!((us(&moments, u64::MAX) - 900e3).abs() < 1.0);
        assert!(us(&moments, done.acked) < 1.0);
    }
}
