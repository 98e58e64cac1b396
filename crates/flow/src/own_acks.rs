//! Whether this host's own queue holds a TCP flow up by what acknowledges it: the sender may send no more until that came. Pure.
//!
//! ```text
//!   the data   ──►  path  ──►              at most looks packets waited, and TCP's round trip grew to twice itself
//!   its ACKs   ◄──  path  ◄──  own queue   by about what they waited, and the way of the data did not; what left was   ──► own queue
//!                                          no more than the ACKs, hardly any segment sent again
//!                                          it waited less than a tenth of what that grew by, or the data's way grew   ──► not that
//!                                          packets stood or were dropped there otherwise                              ──► unknown
//! ```

use crate::held::Limit;
use quell_load::own_queue::Standing;

/// Fewer drops than these happen to anybody.
pub(crate) const FEW: u64 = 3;
/// Headers of a segment, as a queue of Ethernet counts them: IPv4, TCP with timestamps.
pub(crate) const HEADERS: f64 = 14.0 + 20.0 + 32.0;

/// What is known of a flow whose acknowledgements wait, perhaps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acks {
    /// For how many seconds it was looked at.
    pub seconds: f64,
    /// TCP's least round trip and the median of its smoothed one, in milliseconds.
    pub rtt_ms: Option<[f64; 2]>,
    /// What pings found that the load added to the way of the data.
    pub data_added_ms: Option<f64>,
    /// Whether it is the congestion window that held the sender up, and no window or buffer of an end.
    pub by_congestion: bool,
    /// Whether data went the other way too.
    pub both: bool,
    /// Full segments that the receiver got would be so many.
    pub segments: f64,
    /// Segments sent again.
    pub again: u64,
}

impl Acks {
    /// What a device by which the acknowledgements go leaves of a verdict that blames the path.
    pub fn limit(&self, device: &Standing) -> Option<(Limit, Standing)> {
        let (stands, drops) = (device.waited * 2 > device.looks, device.dropped >= FEW);
        if !stands && !drops {
            return None;
        }
        let seen = Standing {
            acknowledgements: true,
            stood: device.waited,
            held_back: device.waited_held_back,
            ..device.clone()
        };
        let Some([least, median]) = self.rtt_ms else { return Some((Limit::Unknown, seen)) };
        let (grew, waited) = (median - least, self.waited_ms(device));
        let explains = grew >= least && waited >= grew / 2.0 && waited <= 2.0 * grew;
        let data_is_free = self.data_added_ms.is_some_and(|added| added <= grew / 10.0);
        let data_waits = self.data_added_ms.is_some_and(|added| added >= grew / 2.0);
        let forced = stands && explains && data_is_free && self.by_congestion;
        match () {
            () if forced && !self.both && self.is_theirs(device) && self.hardly_lost() => {
                Some((Limit::OwnQueue, seen))
            }
            () if !drops && (grew <= least / 10.0 || waited <= grew / 10.0 || data_waits) => None,
            () => Some((Limit::Unknown, seen)),
        }
    }

    /// Whether no more left the device than what acknowledges each segment by itself, and as much again in options and pings.
    fn is_theirs(&self, device: &Standing) -> bool {
        device.left as f64 <= 2.0 * HEADERS * self.segments
    }

    /// One segment in 200 at most: a path that loses more holds a flow up as well.
    fn hardly_lost(&self) -> bool {
        self.again as f64 * 200.0 <= self.segments
    }

    /// How long it took, in the mean, until all that stood there had left.
    fn waited_ms(&self, device: &Standing) -> f64 {
        let stood = device.waiting as f64 / device.looks.max(1) as f64;
        let each_ms = device.left as f64 / (self.seconds * 1000.0);
        if each_ms > 0.0 { stood / each_ms } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the lab has it: 3.84 Mbit/s of 20 came for 8 s, the acknowledgements through 100 kbit/s.
    const SEEN: Acks = Acks {
        seconds: 8.0,
        rtt_ms: Some([20.1, 323.0]),
        data_added_ms: Some(0.0),
        by_congestion: true,
        both: false,
        segments: 2652.0,
        again: 0,
    };

    fn device() -> Standing {
        Standing {
            looks: 80,
            waited: 79,
            waiting: 80 * 4_000,
            left: 100_000,
            ..Standing::default()
        }
    }

    fn limit(acks: Acks, device: &Standing) -> Option<Limit> {
        acks.limit(device).map(|(limit, _)| limit)
    }

    #[test]
    fn a_flow_whose_acknowledgements_make_its_round_trip_is_held_by_where_they_wait() {
        assert_eq!(limit(SEEN, &device()), Some(Limit::OwnQueue));
        let dropping = Standing { dropped: 644, ..device() };
        assert_eq!(limit(SEEN, &dropping), Some(Limit::OwnQueue));
        assert_eq!(limit(SEEN, &Standing { waited: 0, ..dropping }), Some(Limit::Unknown));
        assert_eq!(limit(SEEN, &Standing { waited: 30, ..device() }), None);
    }

    #[test]
    fn what_does_not_leave_the_acknowledgements_alone_to_blame_is_unknown() {
        let unknown = Some(Limit::Unknown);
        assert_eq!(limit(Acks { data_added_ms: None, ..SEEN }, &device()), unknown);
        assert_eq!(limit(Acks { data_added_ms: Some(90.0), ..SEEN }, &device()), unknown);
        assert_eq!(limit(Acks { rtt_ms: None, ..SEEN }, &device()), unknown);
        assert_eq!(limit(Acks { rtt_ms: Some([200.0, 300.0]), ..SEEN }, &device()), unknown);
        assert_eq!(limit(Acks { by_congestion: false, ..SEEN }, &device()), unknown);
        let others = Standing { waiting: 80 * 40_000, left: 1_000_000, ..device() };
        assert_eq!(limit(SEEN, &others), unknown, "others' packets wait there too");
        assert_eq!(limit(Acks { again: 21, ..SEEN }, &device()), unknown, "a path that loses");
        assert_eq!(limit(Acks { both: true, ..SEEN }, &device()), unknown);
    }

    #[test]
    fn a_queue_of_others_that_does_not_make_the_round_trip_leaves_the_path_to_blame() {
        let full = Acks { rtt_ms: Some([20.0, 68.0]), data_added_ms: Some(47.0), ..SEEN };
        assert_eq!(limit(full, &device()), None, "the data waits");
        assert_eq!(limit(full, &Standing { dropped: 5, ..device() }), Some(Limit::Unknown));
        let short = Standing { waiting: 80 * 100, ..device() };
        assert_eq!(limit(SEEN, &short), None, "8 of 303 ms");
        assert_eq!(limit(Acks { rtt_ms: Some([20.0, 20.4]), ..SEEN }, &device()), None);
    }
}
