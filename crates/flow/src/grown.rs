//! Whether a round trip grew so much that a queue of the flow's own may be what of its window stands on the path. Pure.
//!
//! ```text
//!   a path that shares fairly   least RTT │ queue of the flow's own │     pings pass that queue by
//!   a window alone              least RTT │ its burst │ idle …          the burst is a part of the window: two segments, where each ACK is for two
//! ```
//!
//! A sender whose window is full moves a window each round trip. Where that is far below a window each **least** round trip, it was not the window
//! alone that made it slow: had it been larger, the round trip might have grown with it, and the rate stayed.
//!
//! A token bucket is full without a queue that stands: what it saved up lets pings and the begin of each burst pass. The window of which but a little is
//! beyond what it carries waits for as little, and pings meet that now and then.

/// Of what a window each least round trip is, a flow that reaches no more than 1 less this may have waited in its own queue.
const MUCH: f64 = 0.45;
/// So it may with less, where the round trip grew by more than a burst of two segments.
const SOME: f64 = 0.25;
/// By this part of the least round trip one grew that a larger window might only have made longer still: less could be won by it at most.
const LITTLE: f64 = 0.05;
/// Bursts of a window made it longer by no more than this part of what a pair takes, in the lab, where pings met a queue now and then.
const OF_A_PAIR: f64 = 0.6;

/// TCP's round trips in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundTrip {
    /// The least one.
    pub least_ms: f64,
    /// The median of the smoothed one.
    pub median_ms: f64,
}

impl RoundTrip {
    /// Whether it may have grown by a queue of the flow's own: a stream's pair of segments takes `pair_ms` at the rate that was reached, and pings
    /// took `idle_ms` before the flow: what they took without it, it did not make.
    pub fn may_have_queued(self, pair_ms: f64, idle_ms: Option<f64>) -> bool {
        let Self { least_ms, median_ms } = self;
        let grew = median_ms - least_ms;
        let part = grew / median_ms;
        !self.is_the_paths(idle_ms) && (part >= MUCH || (part >= SOME && grew >= pair_ms))
    }

    /// Whether something waited that may have been the flow's, at a token bucket which it kept empty; for paths on which pings meet a queue now and then.
    pub fn may_have_waited(self, pair_ms: f64, idle_ms: Option<f64>) -> bool {
        let grew = self.median_ms - self.least_ms;
        let matters = grew >= LITTLE * self.least_ms && grew >= OF_A_PAIR * pair_ms;
        matters && !self.is_the_paths(idle_ms)
    }

    /// Whether most of what it grew by was there before the flow.
    fn is_the_paths(self, idle_ms: Option<f64>) -> bool {
        let Self { least_ms, median_ms } = self;
        idle_ms.is_some_and(|idle| median_ms - idle < (median_ms - least_ms) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lab's figures beside another flow in a fair queue: what a pair takes at the rate reached, least and median.
    fn queued([mbit, least_ms, median_ms]: [f64; 3]) -> bool {
        let pair_ms = 2.0 * 1448.0 * 8.0 / mbit / 1e3;
        RoundTrip { least_ms, median_ms }.may_have_queued(pair_ms, None)
    }

    #[test]
    fn a_window_beyond_the_fair_share_stands_in_a_queue_of_its_own() {
        for full in [
            [2.385, 4.974, 18.115],
            [2.381, 4.95, 14.717],
            [2.407, 7.373, 14.521],
            [2.538, 12.241, 23.485],
            [0.943, 12.435, 26.732],
            [0.892, 12.436, 27.423],
            [4.776, 10.966, 16.6],
        ] {
            assert!(queued(full), "{full:?}");
        }
    }

    #[test]
    fn a_window_below_the_fair_share_makes_bursts_and_no_queue() {
        for bound in [
            [1.270, 12.241, 20.328],
            [0.597, 24.547, 41.340],
            [2.449, 41.080, 49.439],
            [1.554, 10.965, 16.613],
            [0.779, 21.931, 32.943],
            [2.123, 41.310, 51.468],
            [0.754, 43.980, 63.418],
            [4.086, 10.966, 12.697],
        ] {
            assert!(!queued(bound), "{bound:?}");
        }
    }

    /// The lab's figures at token buckets, full and half empty.
    #[test]
    fn a_window_beyond_what_a_token_bucket_carries_waits_for_little() {
        let waited = |[mbit, least_ms, median_ms]: [f64; 3]| {
            let pair_ms = 2.0 * 1448.0 * 8.0 / mbit / 1e3;
            RoundTrip { least_ms, median_ms }.may_have_waited(pair_ms, Some(least_ms))
        };
        for full in [
            [19.131, 10.0, 11.078],
            [19.129, 10.0, 11.051],
            [95.643, 4.0, 4.266],
            [4.769, 20.0, 23.14],
            [1.902, 15.0, 22.774],
        ] {
            assert!(waited(full), "{full:?}");
        }
        for bound in [
            [18.532, 10.0, 10.001],
            [75.242, 4.0, 4.001],
            [3.471, 20.0, 22.441],
            [1.3, 15.0, 19.971],
            // Lines, which need not have bursts as these.
            [5.852, 20.012, 21.757],
            [2.875, 40.06, 43.45],
        ] {
            assert!(!waited(bound), "{bound:?}");
        }
    }

    #[test]
    fn what_a_path_takes_without_the_flow_is_no_queue_of_the_flow() {
        let varies = RoundTrip { least_ms: 2.0, median_ms: 5.0 };
        assert!(varies.may_have_queued(0.2, None) && varies.may_have_queued(0.2, Some(2.3)));
        assert!(!varies.may_have_queued(0.2, Some(4.5)));
    }
}
