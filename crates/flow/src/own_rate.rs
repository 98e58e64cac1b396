//! Whether this host's own shaper may hold a flow up though its queue does not stand at most looks. Pure.
//!
//! ```text
//!   a sender that paces itself (BBR), or whose window falls    the queue of the shaper that holds it up is empty now and then
//!   a path that is a little narrower than the own shaper       bursts wait in the shaper now and then
//! ```
//!
//! Looks do not tell these apart, and the rate does only where it is much less than the shaper's. So the path is not certain where the flow was as fast as the
//! own shaper lets out, or packets waited in it at a good part of the looks and the flow had half of its rate and more.

use crate::part::{PARTLY, Part};

/// What leaves at this part of a shaper's rate and more is all that it lets out.
const FULL: f64 = 0.95;
/// What has less of it than this is held up elsewhere.
const HALF: f64 = 0.5;
/// The part of the looks that tells something of a shaper whose rate is not known.
const OFTEN: f64 = 1.0 / 3.0;

/// What was seen of the queue that a flow leaves by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shaped {
    /// What it lets out, in bits a second, if that is known.
    pub rate: Option<u64>,
    /// The part of the looks at which packets waited.
    pub stood: f64,
    /// Whether a rate held packets back at any of them.
    pub held_back: bool,
}

impl Shaped {
    /// Whether it may be what holds up a flow of so many bits a second, headers among them.
    pub fn may_hold(self, bits: f64) -> bool {
        let waits = self.held_back && Part::of(self.stood) != Part::Hardly;
        match self.rate.filter(|rate| *rate > 0).map(|rate| bits / rate as f64) {
            Some(share) if share >= FULL => true,
            Some(share) => waits && share >= HALF,
            None => waits && self.stood >= OFTEN.max(PARTLY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the lab had it: CAKE of 20 Mbit/s before a path of 80 that loses 0.2 %; BBR got 17.6, and 38 without CAKE.
    #[test]
    fn a_shaper_whose_queue_is_empty_now_and_then_may_hold_a_flow_up_that_has_most_of_its_rate() {
        let seen = |rate, stood, held_back| Shaped { rate, stood, held_back };
        let cake = |stood| seen(Some(20_000_000), stood, true);
        assert!(cake(19.0 / 40.0).may_hold(18.4e6) && cake(0.1).may_hold(11e6));
        assert!(cake(0.0).may_hold(19.2e6), "all that it lets out");
        assert!(!cake(0.05).may_hold(18.4e6), "hardly anything waited");
        assert!(!cake(0.4).may_hold(9e6), "it lets out twice as much");
        assert!(!seen(Some(20_000_000), 0.4, false).may_hold(15e6), "no rate held it back");
        assert!(seen(None, 0.4, true).may_hold(5e6) && !seen(None, 0.2, true).may_hold(5e6));
    }
}
