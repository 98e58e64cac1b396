//! Whether anything shows that the path held a flow up whose congestion window seemed to. Pure.
//!
//! ```text
//!   lost, marked, or a queue that stood  the path told the sender to be slower                             ──► the path
//!   none of these, the window grew       it was over before it could fill the path (slow start)           ─┐
//!   none of these                        paced by settings of its own, acknowledged late …                 ├─► unknown
//!   room in every window, and the        something between TCP and the line holds its segments back       ─┘
//!   kernel's pace is far above its rate
//! ```
//!
//! That is of cubic and reno, which nothing but loss and marks slows down. One that goes by a model of the path (bbr) or by delay shows less.

use crate::grown::RoundTrip;
use crate::held::{Beside, Held};
use quell_wire::iperf3::Moment;

/// A window that grew by this has not found what the path carries.
const GREW: f64 = 1.5;
/// A pace that is so far above the rate is not what holds it: cubic's is 1.2 times it, and 2 times in slow start (`tcp_pacing_ca_ratio`, `tcp_pacing_ss_ratio`).
const PACED: f64 = 4.0;
/// Fewer looks at a full window than these are none.
const SELDOM: f64 = 0.01;

/// Why nothing shows that the path held a flow up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unshown {
    /// Nothing was lost or marked, no queue stood, and the congestion window grew all the time: bytes of all streams.
    Growing([u64; 2]),
    /// Nothing was lost or marked, and no queue stood.
    Nothing,
    /// Data waited, there was room in every window, and the kernel's pace was so many times the rate.
    Withheld(f64),
}

/// What a verdict that blames the path lacks, of these streams' states from `from_ns` on, which reached so many bits a second together; none where it
/// lacks nothing.
pub(crate) fn lacks(
    streams: &[&[Moment]],
    from_ns: i64,
    (congestion, reached): (&[String], f64),
    held: &Held,
    beside: Beside<'_>,
) -> Option<Unshown> {
    let by_loss = |name: &String| matches!(name.as_str(), "cubic" | "reno");
    if congestion.is_empty() || !congestion.iter().all(by_loss) {
        return None;
    }
    if let Some(times) = pace(streams, from_ns).map(|pace| pace / reached)
        && held.cwnd < SELDOM
        && times >= PACED
        && times.is_finite()
    {
        return Some(Unshown::Withheld(times));
    }
    let told = |last: &Moment| last.retransmits > 0 || last.marked > 0;
    if streams.iter().filter_map(|moments| moments.last()).any(told) || waits(held, beside) {
        return None;
    }
    let windows = |of: fn(&[Moment]) -> Option<&Moment>| -> u64 {
        streams.iter().filter_map(|moments| Some(of(moments)?.cwnd)).sum()
    };
    let (first, last) = (windows(|all| all.get(all.len() / 4)), windows(<[Moment]>::last));
    Some(match () {
        () if last as f64 >= GREW * first as f64 => Unshown::Growing([first, last]),
        () => Unshown::Nothing,
    })
}

/// Whether a queue stood on the path: one ping in ten waited at least, and the median one or TCP's round trips for longer than a burst takes to pass. A
/// flow makes pings wait for a segment now and then on any line, and for its bursts as it begins.
fn waits(held: &Held, beside: Beside<'_>) -> bool {
    let segment_ms = held.segment_ms.unwrap_or(0.0);
    let burst_ms = 2.0 * segment_ms;
    let stands = |took: RoundTrip| took.median_ms - took.least_ms > burst_ms * held.streams as f64;
    match (beside.added_seldom.or(beside.added), held.round_trip) {
        (Some(seldom), took) => {
            let passes = beside.added.is_none_or(|added| added <= burst_ms + beside.varies);
            let stood = held.queue > Some(0.0) && took.is_some_and(stands);
            seldom > segment_ms / 20.0 + beside.varies && (!passes || stood)
        }
        (None, Some(took)) => stands(took),
        (None, None) => true,
    }
}

/// The kernel's pace of all streams in bits a second, the median of the looks at each.
fn pace(streams: &[&[Moment]], from_ns: i64) -> Option<f64> {
    let each = streams.iter().map(|moments| {
        let counts = moments.iter().filter(|look| look.t_ns >= from_ns && look.pacing_rate > 0);
        let all = quell_stats::Sample::new(counts.map(|look| look.pacing_rate as f64 * 8.0))?;
        Some(all.median())
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds of a stream: its congestion window in kB at the beginning and in the end, what was sent again, its pace in Mbit/s.
    fn stream(kilobytes: [u64; 2], retransmits: u64, pace_mbit: f64) -> Vec<Moment> {
        let [first, last] = kilobytes;
        let at = |n: u64| Moment {
            t_ns: (n * 100_000_000) as i64,
            cwnd: (first + (last - first) * n / 100) * 1000,
            retransmits,
            pacing_rate: (pace_mbit * 1e6 / 8.0) as u64,
            ..Moment::default()
        };
        (0..=100).map(at).collect()
    }

    /// What is lacking of cubic, at this rate, the congestion window being full for this part, and one ping in ten waiting for this.
    fn found(moments: &[Moment], mbit: f64, cwnd: f64, seldom: Option<f64>) -> Option<Unshown> {
        of("cubic", moments, mbit, cwnd, seldom)
    }

    fn of(
        name: &str,
        moments: &[Moment],
        mbit: f64,
        cwnd: f64,
        seldom: Option<f64>,
    ) -> Option<Unshown> {
        let held = Held {
            cwnd,
            segment_ms: Some(1448.0 * 8.0 / mbit / 1e3),
            round_trip: Some(RoundTrip { least_ms: 20.0, median_ms: 34.0 }),
            streams: 1,
            ..Held::default()
        };
        let beside = Beside { added: seldom, added_seldom: seldom, ..Beside::default() };
        lacks(&[moments], 0, (&[name.to_owned()], mbit * 1e6), &held, beside)
    }

    #[test]
    fn a_sender_that_paces_itself_is_not_told_as_the_path() {
        // tcp_pacing_ca_ratio = 10: 0.8 of 10 Mbit/s, nothing lost, and pings take 20.03 ms as without.
        let paced = stream([31, 31], 0, 0.73);
        assert_eq!(found(&paced, 0.8, 0.0, Some(0.0)), Some(Unshown::Nothing));
        // The path's own: it drops, or pings wait, or nobody knows whether they do and TCP's round trip grew.
        assert_eq!(found(&stream([31, 31], 1, 0.73), 0.8, 0.0, Some(0.0)), None);
        assert_eq!(found(&paced, 0.8, 1.0, Some(40.0)), None);
        // A segment of its own, on the line before a ping.
        assert_eq!(found(&paced, 0.8, 1.0, Some(9.0)), Some(Unshown::Nothing));
        assert_eq!(found(&stream([31, 31], 0, 6.0), 5.0, 1.0, None), None);
        // A model of the path keeps its queue empty.
        assert_eq!(of("bbr", &paced, 0.8, 0.0, Some(0.0)), None);
    }

    #[test]
    fn what_is_over_in_slow_start_has_not_met_the_path() {
        let grows = stream([14, 527], 0, 36.0);
        let Some(Unshown::Growing([first, last])) = found(&grows, 3.4, 1.0, Some(0.0)) else {
            panic!("it grows")
        };
        assert!(first < 150_000 && last == 527_000);
    }

    #[test]
    fn a_host_that_holds_segments_back_is_not_told_as_the_path_whatever_was_lost_at_first() {
        // tcp_limit_output_bytes = 1: 5.9 of 10 Mbit/s, 9 segments sent again in slow start, the pace 103 Mbit/s.
        let withheld = stream([170, 222], 9, 103.0);
        let Some(Unshown::Withheld(times)) = found(&withheld, 5.9, 0.0, Some(0.4)) else {
            panic!("it is withheld")
        };
        assert!((17.0..18.0).contains(&times), "{times}");
        assert_eq!(found(&withheld, 5.9, 0.3, Some(0.4)), None, "the window was full");
        assert_eq!(found(&stream([170, 222], 9, 11.0), 9.5, 0.0, Some(0.4)), None);
    }
}
