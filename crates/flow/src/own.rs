//! Whether this host's own device holds a TCP flow up: packets wait there, fq lets a flow out no faster, or what it lacks was dropped there. Pure.
//!
//! ```text
//!   stands    at most looks packets of this flow waited                             ─┐
//!   paces     each stream is as fast as fq's maxrate lets it be                      ├─► own queue
//!   drops     about as many as TCP had to send again; or, going out, the congestion ─┘
//!             window fell though nothing was sent again (the kernel tells TCP of such a drop at once)
//!   drops otherwise: whose they were nobody knows                                    ──► unknown
//! ```

use crate::held::Limit;
use quell_load::own_queue::Standing;
use quell_wire::iperf3::Moment;

/// Fewer drops than these happen to anybody.
const FEW: u64 = 3;
/// Who has this part of a rate is held by it.
const REACHED: f64 = 0.9;
/// Headers of a segment, as a queue of Ethernet counts them: IPv4, TCP with timestamps.
const HEADERS: f64 = 14.0 + 20.0 + 32.0;

/// One direction of a flow, as far as the own device may matter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Through<'a> {
    /// Whether its data leaves by the device; else it comes in.
    pub up: bool,
    /// Whether data went the other way too.
    pub both: bool,
    /// Bits a second of each stream.
    pub each: f64,
    /// Bytes of a full segment.
    pub mss: Option<u32>,
    /// Segments sent again.
    pub again: u64,
    /// The sender's states over time.
    pub moments: &'a [&'a [Moment]],
}

impl Through<'_> {
    /// What the device leaves of a verdict that blames what is behind it.
    pub fn limit(&self, device: &Standing) -> Option<Limit> {
        if self.up && (device.stands() || self.is_paced(device)) {
            return Some(Limit::OwnQueue);
        }
        let dropped = if self.up { device.dropped + device.filtered } else { device.filtered };
        // Filters before the queues count both ways together.
        let is_known = !self.both || device.filtered == 0;
        let like = dropped.saturating_mul(2) >= self.again && self.again * 2 >= dropped;
        let locally = self.up && self.again == 0 && self.fell_alone();
        match dropped {
            FEW.. if is_known && (like || locally) => Some(Limit::OwnQueue),
            1.. if dropped.saturating_mul(10) >= self.again => Some(Limit::Unknown),
            _ => None,
        }
    }

    /// Whether fq lets each stream out no faster.
    pub fn is_paced(&self, device: &Standing) -> bool {
        let mss = f64::from(self.mss.unwrap_or(536).max(1));
        let on_device = self.each * (mss + HEADERS) / mss;
        self.up && device.flow_rate.is_some_and(|rate| on_device >= REACHED * rate as f64)
    }

    /// Whether the congestion window fell between two looks at which data waited, and nothing had been sent again or marked.
    fn fell_alone(&self) -> bool {
        let pairs = self.moments.iter().flat_map(|moments| moments.windows(2));
        pairs.into_iter().any(|pair| {
            let (before, now) = (&pair[0], &pair[1]);
            now.cwnd < before.cwnd
                && before.unsent > 0
                && (now.retransmits, now.marked) == (before.retransmits, before.marked)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(cwnd: u64) -> Moment {
        Moment { cwnd, unsent: 100_000, ..Moment::default() }
    }

    fn device() -> Standing {
        Standing { device: "eth0".into(), looks: 50, ..Standing::default() }
    }

    #[test]
    fn what_the_own_device_dropped_is_not_the_paths_where_tcp_lacks_as_much() {
        let through = |again| Through {
            up: true,
            both: false,
            each: 1.9e6,
            mss: Some(1448),
            again,
            moments: &[],
        };
        let dropping = |dropped, filtered| Standing { dropped, filtered, ..device() };
        let limit = |again, dropped, filtered| through(again).limit(&dropping(dropped, filtered));
        assert_eq!(limit(107, 108, 0), Some(Limit::OwnQueue), "a policer in the queue");
        assert_eq!(limit(107, 0, 108), Some(Limit::OwnQueue), "a policer before it");
        assert_eq!(limit(107, 30, 0), Some(Limit::Unknown), "a part of them, or others' packets");
        assert_eq!(limit(107, 2, 0), None);
        assert_eq!(limit(0, 100, 0), Some(Limit::Unknown), "others' packets, perhaps");
        assert_eq!(limit(0, 0, 0), None);
        let down = |both| Through { up: false, both, ..through(112) };
        assert_eq!(down(false).limit(&dropping(0, 129)), Some(Limit::OwnQueue));
        assert_eq!(down(false).limit(&dropping(129, 0)), None, "going out");
        assert_eq!(down(true).limit(&dropping(0, 129)), Some(Limit::Unknown), "which way?");
    }

    #[test]
    fn a_drop_of_which_tcp_was_told_at_once_is_not_sent_again_and_the_window_falls() {
        let fell = [moment(60_000), moment(42_000)];
        let rose = [moment(42_000), moment(60_000)];
        let again = [moment(60_000), Moment { retransmits: 1, ..moment(42_000) }];
        let limit = |moments: &[Moment]| {
            let of = [moments];
            let through =
                Through { up: true, both: false, each: 1.9e6, mss: None, again: 0, moments: &of };
            through.limit(&Standing { filtered: 97, ..device() })
        };
        assert_eq!(limit(&fell), Some(Limit::OwnQueue));
        assert_eq!((limit(&rose), limit(&again)), (Some(Limit::Unknown), Some(Limit::Unknown)));
    }

    #[test]
    fn a_stream_as_fast_as_fq_lets_it_be_is_held_by_that_and_a_slower_one_is_not() {
        let paced = |each| {
            let through =
                Through { up: true, both: true, each, mss: Some(1448), again: 0, moments: &[] };
            through.limit(&Standing { flow_rate: Some(2_000_000), ..device() })
        };
        assert_eq!(paced(1.913e6), Some(Limit::OwnQueue), "2 Mbit/s with its headers");
        assert_eq!((paced(1.5e6), paced(0.0)), (None, None));
    }
}
