//! Whether this host's own device holds a TCP flow up: packets wait there, fq lets a flow out no faster, or what it lacks was dropped there. Pure.
//!
//! ```text
//!   stands    at most looks packets of this flow waited, and next to none of others ─┐
//!   paces     each stream is as fast as fq's maxrate lets it be                      ├─► own queue
//!   drops     about as many as TCP had to send again; or, going out, the congestion ─┘
//!             window fell though nothing was sent again (the kernel tells TCP of such a drop at once)
//!   drops otherwise: whose they were nobody knows                                   ─┐
//!   stands, and a good part of what left is others'                                  ├─► unknown
//!   a shaper in which packets waited at fewer looks, about as fast (own_rate.rs)    ─┘
//! ```
//!
//! Where others fill a queue that all share, this flow's packets wait there as well, however little the path carries of it. A queue in which each flow
//! has its turn (fq_codel, CAKE) is empty of a flow that the path holds up; so is a class of its own.
//!
//! What comes in may wait on a device to which it is redirected (an IFB). No socket tells whose packets wait there. Where it has classes, the flow's is the
//! one that let as much through as came of the flow; where none did, or several, the flow may be in any of these:
//!
//! ```text
//!   next to all that left there is this flow's, and at most looks packets waited    ─┐
//!   this flow's pass there, and about as many drops as segments were sent again     ─┴─► own queue
//!   packets wait or are dropped there otherwise                                      ──► unknown
//!   most of this flow did not pass there                                             ──► not that device, or not that class
//! ```
//!
//! The other way go the acknowledgements, and where these wait the flow is held up as well (own_acks.rs).

use crate::held::Limit;
use crate::own_acks::{Acks, FEW, HEADERS};
use crate::own_rate::Shaped;
use quell_load::own_queue::{Part, Standing};
use quell_wire::iperf3::Moment;

/// Who has this part of a rate is held by it.
const REACHED: f64 = 0.9;
/// The part of what left a device from which on a queue there is the flow's own.
const NEXT_TO_ALL: f64 = 0.9;

/// One direction of a flow, as far as the own device may matter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Through<'a> {
    /// Whether its data leaves by the device; else it comes in.
    pub up: bool,
    /// Whether data went the other way too.
    pub both: bool,
    /// Bits a second of each stream.
    pub each: f64,
    /// Bits a second of all of them.
    pub all: f64,
    /// Bytes that the receiver got, of all streams.
    pub received: u64,
    /// Bytes that the device may have let out for this flow's sake, headers left out, those sent again and under way among them; none where that is not known.
    pub sent: Option<u64>,
    /// What its pings took of the device, with their headers.
    pub pings: u64,
    /// Bytes of a full segment.
    pub mss: Option<u32>,
    /// Segments sent again.
    pub again: u64,
    /// The sender's states over time.
    pub moments: &'a [&'a [Moment]],
    /// What acknowledges it; none over UDP.
    pub acks: Option<Acks>,
}

/// What the own devices leave of a verdict that blames what is behind them, and which of them it is: `device`, by which data leaves or comes in, or one
/// of those to which what comes in is redirected.
pub(crate) fn blamed(
    through: &Through<'_>,
    device: Option<&Standing>,
    incoming: &[Standing],
) -> (Option<Limit>, Option<Standing>) {
    let at_device = || {
        let seen = device?;
        let limit = through.limit(seen)?;
        let shared = limit == Limit::Unknown && seen.stands() && through.is_among_others(seen);
        let perhaps = limit == Limit::Unknown && !shared && through.may_be_held(seen);
        Some((limit, Standing { shared, perhaps, ..seen.clone() }))
    };
    let data: Vec<_> = match through.up {
        true => at_device().into_iter().collect(),
        // What a redirecting filter could not hand on, it counts as dropped: the other device comes first.
        false => {
            let there = incoming.iter().filter_map(|seen| through.limit_behind(seen));
            there.chain(at_device()).collect()
        }
    };
    let acknowledging: Vec<&Standing> = match through.up {
        true => incoming.iter().collect(),
        false => device.into_iter().collect(),
    };
    let acks = acknowledging.into_iter().filter_map(|seen| through.acks?.limit(seen));
    let mut all = if data.is_empty() { acks.collect() } else { data };
    match all.iter().position(|(limit, _)| *limit == Limit::OwnQueue) {
        Some(own) => (Some(Limit::OwnQueue), Some(all.swap_remove(own).1)),
        None => {
            let limit = all.first().map(|(limit, _)| *limit);
            (limit, all.into_iter().map(|(_, seen)| seen).find(|seen| seen.shared || seen.perhaps))
        }
    }
}

impl Through<'_> {
    /// What the device leaves of a verdict that blames what is behind it.
    pub fn limit(&self, device: &Standing) -> Option<Limit> {
        if self.is_paced(device) {
            return Some(Limit::OwnQueue);
        }
        let among_others = self.is_among_others(device);
        match self.up && device.stands() {
            true if among_others => return Some(Limit::Unknown),
            true => return Some(Limit::OwnQueue),
            false => {}
        }
        let dropped = if self.up { device.dropped + device.filtered } else { device.filtered };
        // Filters before the queues count both ways together.
        let is_known = !self.both || device.filtered == 0;
        let locally = self.up && self.again == 0 && self.fell_alone();
        match dropped {
            FEW.. if is_known && locally => Some(Limit::OwnQueue),
            FEW.. if is_known && self.is_like(dropped) && !among_others => Some(Limit::OwnQueue),
            1.. if dropped.saturating_mul(10) >= self.again => Some(Limit::Unknown),
            _ => (self.up && self.may_be_held(device)).then_some(Limit::Unknown),
        }
    }

    /// Whether a shaper in which packets waited at fewer than most looks may hold it up all the same.
    fn may_be_held(&self, device: &Standing) -> bool {
        let acked = self.received as f64 * self.with_headers();
        let parts = parts(device);
        let fitting: Vec<&Part> =
            parts.iter().filter(|part| part.left as f64 >= NEXT_TO_ALL * acked).collect();
        let stood = |stood: u64| stood as f64 / device.looks.max(1) as f64;
        let may_hold = |rate, stood| {
            let shaped = Shaped { rate, stood, held_back: device.held_back > 0 };
            shaped.may_hold(self.all * self.with_headers())
        };
        match (device.rate, fitting.is_empty()) {
            (rate @ Some(_), _) | (rate, true) => may_hold(rate, stood(device.stood)),
            (None, false) => fitting.iter().any(|part| may_hold(part.rate, stood(part.stood))),
        }
    }

    /// The same of a device to which what comes in is redirected, and what was seen there of the class that is the flow's.
    fn limit_behind(&self, device: &Standing) -> Option<(Limit, Standing)> {
        let on_device = self.received as f64 * self.with_headers();
        if on_device > 2.0 * device.left as f64 {
            return None;
        }
        let stands = |part: &Part| part.stood * 2 > device.looks;
        let parts = parts(device);
        let holds_it = |part: &&Part| part.left as f64 >= NEXT_TO_ALL * on_device;
        let fitting: Vec<&Part> = parts.iter().filter(holds_it).collect();
        let chosen = if fitting.is_empty() { parts.iter().collect() } else { fitting };
        let left = chosen.iter().map(|part| part.left).sum::<u64>() as f64;
        let elsewhere = on_device > 2.0 * left;
        let is_own = on_device >= NEXT_TO_ALL * left && !elsewhere;
        let mut weighty = chosen.iter().filter(|part| part.left as f64 * 10.0 >= on_device);
        let all_stand = chosen.iter().any(|part| stands(part)) && weighty.all(|part| stands(part));
        let any_stands = chosen.iter().any(|part| stands(part)) || (elsewhere && device.stands());
        // What was dropped before it came into a class may be anybody's.
        let classified = parts.iter().map(|part| part.dropped).sum();
        let before = device.dropped.saturating_sub(classified);
        let dropped = before + chosen.iter().map(|part| part.dropped).sum::<u64>();
        let limit = match dropped {
            _ if all_stand && is_own => Limit::OwnQueue,
            FEW.. if self.is_like(dropped) && (is_own || chosen.len() == 1) => Limit::OwnQueue,
            1.. if dropped.saturating_mul(10) >= self.again => Limit::Unknown,
            _ if any_stands || self.may_be_held(device) => Limit::Unknown,
            _ => return None,
        };
        let seen = match chosen[..] {
            [part] if parts.len() > 1 => Standing {
                class: Some(part.class.clone()),
                stood: part.stood,
                most: part.most,
                left: part.left,
                dropped,
                ..device.clone()
            },
            _ => device.clone(),
        };
        Some((limit, seen))
    }

    /// Whether what leaves waits with others' packets, of which a good part of all that left is, in one queue that lets no flow have its turn.
    fn is_among_others(&self, device: &Standing) -> bool {
        let Some(sent) = self.sent.filter(|_| self.up) else { return false };
        let own = sent as f64 * self.with_headers() + self.pings as f64;
        let is_own = |left: u64| own >= NEXT_TO_ALL * left as f64;
        if is_own(device.left) {
            return false;
        }
        let parts = parts(device);
        // What was under way may have left before counting ended, or not.
        let acked = self.received as f64 * self.with_headers();
        let fitting: Vec<&Part> =
            parts.iter().filter(|part| part.left as f64 >= NEXT_TO_ALL * acked).collect();
        match fitting[..] {
            [part] => !part.fair && !is_own(part.left),
            // Its streams are spread over several, or nobody knows in which of them it is.
            [] => !parts.iter().filter(|part| part.left > 0).all(|part| part.fair),
            _ => !fitting.iter().all(|part| part.fair),
        }
    }

    /// Whether about as many packets were dropped as segments were sent again.
    fn is_like(&self, dropped: u64) -> bool {
        dropped.saturating_mul(2) >= self.again && self.again.saturating_mul(2) >= dropped
    }

    /// How much more than payload a device carries of full segments.
    fn with_headers(&self) -> f64 {
        let mss = f64::from(self.mss.unwrap_or(536).max(1));
        (mss + HEADERS) / mss
    }

    /// Whether fq lets each stream out no faster.
    pub fn is_paced(&self, device: &Standing) -> bool {
        let on_device = self.each * self.with_headers();
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

/// A device's classes; where it has no two, itself.
fn parts(device: &Standing) -> Vec<Part> {
    match device.parts.len() {
        0 | 1 => vec![Part {
            class: String::new(),
            left: device.left,
            dropped: device.dropped,
            stood: device.stood,
            most: device.most,
            fair: device.fair,
            // The one class that there is, if it has any.
            rate: device.rate.or(device.parts.first().and_then(|part| part.rate)),
        }],
        _ => device.parts.clone(),
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

    /// A download of which so many bytes came, and so many segments were sent again.
    fn coming(received: u64, again: u64) -> Through<'static> {
        let (up, both, each, all, mss) = (false, false, 1.9e6, 1.9e6, Some(1448));
        let (sent, pings, moments, acks) = (Some(received), 0, &[], None);
        Through { up, both, each, all, received, sent, pings, mss, again, moments, acks }
    }

    #[test]
    fn a_download_is_held_by_the_shaper_of_what_comes_in_where_what_waits_there_is_its_own() {
        let ifb = |left, stood, dropped| Standing {
            redirected_from: Some("eth0".into()),
            left,
            stood,
            dropped,
            ..device()
        };
        let verdict = |received, again, seen| {
            let (limit, told) = blamed(&coming(received, again), Some(&device()), &[seen]);
            assert_eq!(told.is_some(), limit == Some(Limit::OwnQueue));
            limit
        };
        let own = Some(Limit::OwnQueue);
        assert_eq!(verdict(1_000_000, 0, ifb(1_050_000, 40, 0)), own, "with headers all of it");
        assert_eq!(verdict(1_000_000, 20, ifb(3_000_000, 0, 21)), own, "its drops");
        let unknown = Some(Limit::Unknown);
        assert_eq!(verdict(1_000_000, 0, ifb(3_000_000, 40, 0)), unknown, "others' may wait");
        assert_eq!(verdict(1_000_000, 90, ifb(3_000_000, 0, 21)), unknown, "a part of them");
        assert_eq!(verdict(1_000_000, 90, ifb(3_000_000, 0, 2)), None);
        assert_eq!(verdict(1_000_000, 20, ifb(300_000, 40, 21)), None, "it went by");
        let going_out = Through { up: true, ..coming(1_000_000, 0) };
        assert_eq!(blamed(&going_out, None, &[ifb(1_050_000, 40, 0)]), (None, None));
    }

    /// Of 18 Mbit/s that came, all left by one class; what waits is another's.
    #[test]
    fn what_stands_in_a_class_that_the_flow_is_not_in_does_not_hold_it_up() {
        let part = |class: &str, left, stood, dropped| Part {
            class: class.into(),
            left,
            stood,
            dropped,
            most: 60_000,
            ..Part::default()
        };
        let verdict = |again, parts: &[Part]| {
            let ifb = Standing {
                redirected_from: Some("eth0".into()),
                left: parts.iter().map(|part| part.left).sum(),
                stood: 48,
                dropped: parts.iter().map(|part| part.dropped).sum(),
                parts: parts.to_vec(),
                ..device()
            };
            let (limit, told) = blamed(&coming(18_000_000, again), None, &[ifb]);
            (limit, told.map(|seen| (seen.class, seen.stood)))
        };
        let (all, other) = (19_000_000, 1_000_000);
        let apart = [part("1:1", all, 0, 0), part("1:2", other, 48, 30)];
        assert_eq!(verdict(30, &apart), (None, None), "another's, and its drops");
        let own = [part("1:1", all, 46, 0), part("1:2", other, 48, 30)];
        let told = Some((Some("1:1".into()), 46));
        assert_eq!(verdict(0, &own), (Some(Limit::OwnQueue), told));
        let either = [part("1:1", all, 0, 0), part("1:2", all, 48, 0)];
        assert_eq!(verdict(0, &either), (Some(Limit::Unknown), None), "whose is whose?");
        let streams = [part("1:1", all / 2, 48, 0), part("1:2", all / 2, 47, 0)];
        assert_eq!(verdict(0, &streams), (Some(Limit::OwnQueue), Some((None, 48))), "in both");
        let unclassified = [part("1:1", all / 9, 0, 0), part("1:2", other, 48, 0)];
        let ifb = Standing { left: all, stood: 48, parts: unclassified.to_vec(), ..device() };
        let limit = blamed(&coming(18_000_000, 0), None, &[ifb]).0;
        assert_eq!(limit, Some(Limit::Unknown), "it went by all classes");
    }

    /// A filter that redirects counts what the other device refuses as dropped by itself.
    #[test]
    fn the_shaper_of_what_comes_in_is_named_and_not_the_filter_before_it() {
        let ifb =
            Standing { device: "ifb0".into(), left: 1_050_000, stood: 40, dropped: 30, ..device() };
        let filter = Standing { filtered: 30, ..device() };
        let (limit, told) = blamed(&coming(1_000_000, 30), Some(&filter), &[ifb]);
        assert_eq!(limit, Some(Limit::OwnQueue));
        assert_eq!(told.map(|seen| seen.device), Some("ifb0".into()));
    }

    #[test]
    fn what_the_own_device_dropped_is_not_the_paths_where_tcp_lacks_as_much() {
        let through = |again| Through { up: true, ..coming(0, again) };
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

    /// As the lab has it: 5 MB of 19 that left a shaper were this flow's, which a line behind it held up.
    #[test]
    fn a_queue_that_others_fill_is_not_what_holds_a_flow_up_for_certain() {
        let flow = Through { up: true, ..coming(5_000_000, 40) };
        let seen = |left, fair| Standing { left, fair, stood: 40, ..device() };
        let verdict = |flow: &Through<'_>, seen: &Standing| {
            let (limit, told) = blamed(flow, Some(seen), &[]);
            (limit, told.is_some_and(|told| told.shared))
        };
        let (own, unknown) = ((Some(Limit::OwnQueue), false), (Some(Limit::Unknown), true));
        assert_eq!(verdict(&flow, &seen(19_000_000, false)), unknown);
        assert_eq!(verdict(&flow, &seen(5_300_000, false)), own, "headers, and some pings");
        assert_eq!(verdict(&flow, &seen(19_000_000, true)), own, "each flow has its turn");
        let dropping = Standing { stood: 10, dropped: 40, ..seen(19_000_000, false) };
        assert_eq!(verdict(&flow, &dropping), (Some(Limit::Unknown), false), "whose drops?");
        let of_both = Through { sent: None, ..flow };
        assert_eq!(verdict(&of_both, &seen(19_000_000, false)), own, "nobody counted");
        // What left was sent again, is still under way, or answers for pings.
        let again = Through { sent: Some(5_600_000), pings: 20_000, ..flow };
        assert_eq!(verdict(&again, &seen(6_400_000, false)), own);
        let part = |class: &str, left, fair| Part {
            class: class.into(),
            left,
            fair,
            stood: 40,
            ..Part::default()
        };
        let classes = |parts| Standing { parts, ..seen(19_000_000, false) };
        let of = |parts| verdict(&flow, &classes(parts));
        assert_eq!(of(vec![part("1:1", 5_300_000, false), part("1:2", 1_000_000, false)]), own);
        assert_eq!(of(vec![part("1:1", 18_000_000, false), part("1:2", 1_000_000, true)]), unknown);
        assert_eq!(of(vec![part("1:1", 18_000_000, true), part("1:2", 1_000_000, false)]), own);
        let halves = |fair| vec![part(":1", 3_000_000, fair), part(":2", 3_000_000, fair)];
        assert_eq!((of(halves(true)), of(halves(false))), (own, unknown), "each stream in another");
    }

    /// As the lab had it: CAKE of 20 Mbit/s on the sender's device, a path of 80 that loses a few, and BBR, which got 17.6.
    #[test]
    fn the_path_is_not_certain_where_the_own_shaper_held_packets_back_and_is_hardly_faster() {
        let flow = |all| Through { up: true, all, ..coming(8_800_000, 40) };
        let cake = |stood| Standing {
            left: 9_300_000,
            rate: Some(20_000_000),
            stood,
            held_back: stood,
            ..device()
        };
        let verdict = |all, stood| {
            let (limit, told) = blamed(&flow(all), Some(&cake(stood)), &[]);
            (limit, told.is_some_and(|told| told.perhaps))
        };
        assert_eq!(verdict(17.6e6, 20), (Some(Limit::Unknown), true));
        assert_eq!(verdict(17.6e6, 30), (Some(Limit::OwnQueue), false), "at most looks");
        assert_eq!(verdict(17.6e6, 2), (None, false), "hardly ever");
        assert_eq!(verdict(8.0e6, 20), (None, false), "it lets out twice as much");
        // In its class, which is narrower than the device.
        let class = Part { class: "1:1".into(), left: 9_300_000, stood: 20, ..Part::default() };
        let class = Part { rate: Some(20_000_000), ..class };
        let other = Part { class: "1:2".into(), left: 50_000_000, ..Part::default() };
        let htb = Standing { rate: None, left: 59_300_000, parts: vec![class, other], ..cake(20) };
        assert_eq!(flow(17.6e6).limit(&htb), Some(Limit::Unknown));
        assert_eq!(flow(8.0e6).limit(&htb), None);
        // What comes in, on the device to which it is redirected.
        let down = Through { up: false, ..flow(17.6e6) };
        assert_eq!(blamed(&down, None, &[cake(20)]).0, Some(Limit::Unknown));
        assert_eq!(blamed(&down, None, &[cake(2)]).0, None);
    }

    #[test]
    fn a_drop_of_which_tcp_was_told_at_once_is_not_sent_again_and_the_window_falls() {
        let fell = [moment(60_000), moment(42_000)];
        let rose = [moment(42_000), moment(60_000)];
        let again = [moment(60_000), Moment { retransmits: 1, ..moment(42_000) }];
        let limit = |moments: &[Moment]| {
            let of = [moments];
            let through = Through { up: true, mss: None, moments: &of, ..coming(0, 0) };
            through.limit(&Standing { filtered: 97, ..device() })
        };
        assert_eq!(limit(&fell), Some(Limit::OwnQueue));
        assert_eq!((limit(&rose), limit(&again)), (Some(Limit::Unknown), Some(Limit::Unknown)));
    }

    #[test]
    fn a_stream_as_fast_as_fq_lets_it_be_is_held_by_that_and_a_slower_one_is_not() {
        let paced = |each| {
            let through = Through { up: true, both: true, each, ..coming(0, 0) };
            through.limit(&Standing { flow_rate: Some(2_000_000), ..device() })
        };
        assert_eq!(paced(1.913e6), Some(Limit::OwnQueue), "2 Mbit/s with its headers");
        assert_eq!((paced(1.5e6), paced(0.0)), (None, None));
    }
}
