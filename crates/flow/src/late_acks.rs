//! Whether a flow may have been held up by a receiver that acknowledged late, and not by the path. Pure.
//!
//! ```text
//!   the receiver reads     its kernel acknowledges every second segment
//!   it does not run        the window does not move, and ACKs come by a timer, 40 ms late or more: one for many segments
//!   its sender             sees a round trip that grows and a congestion window that is full, as on a path that is full
//! ```
//!
//! Quell at both ends: the receiver tells for which part of the time it did not run (`quell_load::pauses`). A tenth of it and more leaves neither the
//! path nor the window certain, unless a queue stood on the path all the time and the flow was no slower as the round trip grew.
//!
//! A receiver that tells nothing: TCP's round trip grew by more than twice what pings beside it did, and the flow was the slower the longer it took. A
//! path that is full makes pings wait as well, or shares with others fairly; which of these it is nobody knows.
//!
//! It matters where it made the round trip longer by a tenth, and where windows were full, which late ACKs leave closed. One that sends by a model of the
//! path (bbr) waits for no window most of the time; as it probes, its rate and a smoothed round trip go now together, now against each other.

use crate::grown::RoundTrip;
use crate::part::{PARTLY, Part};

/// So often a window is full where ACKs that come late hold a flow up. In the lab it was so at 14 % of the looks at most at bbr in queues of its own (fq_codel,
/// cake), at 45 % at least at receivers that stood still.
const FULL: f64 = 0.25;
/// So many milliseconds a host may take longer to answer.
const WAKES_MS: f64 = 1.0;

/// Whether acknowledgements came late, as far as TCP's round trips and what pings took longer tell, of a receiver that does not tell for how long it
/// did not run (`paused`); `slows`: the flow was the slower the longer they were; `full`: for which part of the looks a window was full.
pub(crate) fn seen(
    took: Option<RoundTrip>,
    added_ms: Option<f64>,
    (paused, slows, full): (Option<f64>, bool, f64),
) -> bool {
    let Some((took, added)) = took.zip(added_ms) else { return false };
    let grew = took.median_ms - took.least_ms;
    let matters = grew > WAKES_MS && grew >= PARTLY * took.median_ms && full >= FULL;
    paused.is_none() && slows && matters && added < grew / 2.0
}

/// Whether a receiver did not run for so long that this matters.
pub(crate) fn is_paused(share: Option<f64>) -> bool {
    share.is_some_and(|share| Part::of(share) != Part::Hardly)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::{Beside, Held, Limit};

    /// The lab's 100 Mbit/s and 10 ms: least and median of TCP's round trip, and what pings took longer.
    fn held(median_ms: f64, slows: bool, paused: Option<f64>, added: f64) -> Held {
        let round_trip = Some(RoundTrip { least_ms: 10.0, median_ms });
        let held = Held {
            round_trip,
            slows,
            receiver_paused: paused,
            cwnd: 1.0,
            seen: true,
            queue: Some(0.0),
            ..Held::default()
        };
        Held { late_acks: seen(round_trip, Some(added), (paused, slows, 1.0)), ..held }
    }

    fn by(held: Held) -> Limit {
        held.by(Some(1448), Beside { added: Some(0.0), idle: Some(10.0), ..Beside::default() })
    }

    #[test]
    fn a_receiver_that_tells_that_it_did_not_run_leaves_the_path_uncertain() {
        for (median_ms, slows, paused) in
            [(25.19, true, 0.8), (12.36, false, 0.45), (12.96, true, 0.44), (17.0, true, 0.47)]
        {
            assert_eq!(by(held(median_ms, slows, Some(paused), 0.0)), Limit::Unknown, "{paused}");
        }
        assert_eq!(by(held(19.1, false, Some(0.0), 9.0)), Limit::Path);
        assert_eq!(by(held(19.1, false, Some(0.02), 9.0)), Limit::Path);
        let window = Held { window: 0.8, ..held(17.0, true, Some(0.9), 1.4) };
        assert_eq!(by(window), Limit::Unknown, "a larger one is no help to who does not read");
        // A queue that stands all the time is full of what was acknowledged in time.
        let added = Some(280.0);
        let waits = Beside {
            added,
            added_there: added,
            added_always: added,
            added_mostly: added,
            added_seldom: added,
            ..Beside::default()
        };
        let full = Held { queue: Some(250.0), ..held(300.0, false, Some(0.8), 280.0) };
        assert_eq!(full.by(Some(1448), waits), Limit::Path);
        assert_eq!(Held { slows: true, ..full }.by(Some(1448), waits), Limit::Unknown);
        let shut = Held { window: 0.32, ..full };
        assert_eq!(shut.by(Some(1448), waits), Limit::Unknown, "pings went while it ran");
        let busy = Held { sender_cpu: Some(0.99), ..held(12.0, false, Some(0.8), 0.0) };
        assert_eq!(by(busy), Limit::SenderCpu);
    }

    /// The lab's figures: least and median of the round trip, and the windows' share.
    #[test]
    fn windows_that_are_hardly_ever_full_wait_for_no_acks() {
        let late = |[least_ms, median_ms, full]: [f64; 3]| {
            seen(Some(RoundTrip { least_ms, median_ms }), Some(0.1), (None, true, full))
        };
        for bbr in [[40.592, 63.335, 0.111], [100.237, 107.071, 0.128], [150.118, 153.593, 0.131]] {
            assert!(!late(bbr), "in a queue of its own: {bbr:?}");
        }
        for stopped in [[10.0, 14.544, 0.477], [60.012, 78.174, 0.621], [10.0, 21.038, 1.0]] {
            assert!(late(stopped), "a receiver that stands still: {stopped:?}");
        }
    }

    #[test]
    fn a_round_trip_of_the_data_alone_by_which_the_flow_is_slower_is_not_told_as_the_path() {
        assert_eq!(by(held(25.17, true, None, 0.0)), Limit::Unknown);
        assert_eq!(by(held(17.5, true, None, 0.05)), Limit::Unknown);
        // Quell's receiver says that it ran all the time: a fair queue with others, say.
        assert_eq!(by(held(25.17, true, Some(0.0), 0.0)), Limit::Path);
        // Pings wait as well, or the rate stays as it is while the round trip grows: the path.
        assert_eq!(by(held(19.1, true, None, 9.0)), Limit::Path);
        assert_eq!(by(held(25.17, false, None, 0.0)), Limit::Path);
        assert_eq!(by(held(10.4, true, None, 0.0)), Limit::Path, "a path that loses");
    }
}
