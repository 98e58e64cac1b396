//! Whether a flow that a window bounds has the path's queue for itself. Pure.
//!
//! ```text
//!   alone on a full path    the path's rate stays, the round trip is what of the window stands in the queue     rate │▔▔▔▔▔▔   RTT │ ╱▔▔
//!   beside others           their packets make the queue, and a window each round trip is less                  rate │▔╲▁▁    RTT │ ╱▔▔
//! ```
//!
//! The second is a path whose rate varies, too: nobody can tell these apart. A window that held the flow up is not made good by a queue that is others'.
//! The round trip that TCP tells is smoothed, and so late: behind a quick saw the rate does not seem to follow it. That it did not stay is told by itself, since what
//! comes out of a queue that stands all the time, and is nobody else's, is the path's rate.

use quell_wire::iperf3::Moment;

/// By how much the round trip of the longest quarter of the looks has to exceed that of the shortest, so that a rate can be seen to follow it.
const VARIES: f64 = 1.2;
/// So many round trips the smoothed one needs to follow a flow that begins.
const FOLLOWS: i64 = 4;
/// Fewer looks than these tell nothing: a window comes in bursts.
const FEW: usize = 20;

/// Whether the rate of these streams followed their round trip: what a window lets through falls as much as that grows, and what a path lets through does
/// not. Halfway between the two (as ratios) it is taken for the one that is nearer. What is in flight would tell the rate of a look by itself, but for a
/// round trip that is smoothed, and so late.
pub(crate) fn slows(streams: &[&[Moment]], from_ns: i64) -> bool {
    let (mut short, mut long) = (Quarter::default(), Quarter::default());
    for moments in streams {
        let begun_ns = moments.first().map_or(0, |look| look.t_ns);
        let counted = |pair: &&[Moment]| pair[0].t_ns >= from_ns && follows(&pair[1], begun_ns);
        let mut looks: Vec<&[Moment]> = moments.windows(2).filter(counted).collect();
        if looks.len() < FEW {
            continue;
        }
        looks.sort_by_key(|pair| pair[1].srtt_us);
        let quarter = looks.len() / 4;
        looks[..quarter].iter().for_each(|pair| short.add(pair));
        looks[looks.len() - quarter..].iter().for_each(|pair| long.add(pair));
    }
    let (Some((short_us, fast)), Some((long_us, slow))) = (short.means(), long.means()) else {
        return false;
    };
    let grew = long_us / short_us;
    grew >= VARIES && slow * grew.sqrt() <= fast
}

/// What a queue of the flow's own lets through in its slowest quarter of the time is nearly what it does in the fastest.
const STAYS: f64 = 0.9;
/// So many segments a part of the time has at least, so that one more is no other rate.
const SEGMENTS: f64 = 32.0;
/// Fewer parts than these tell nothing.
const PARTS: usize = 8;

/// Whether the rate of these streams together did not stay: what is in flight tells it of parts of the time that are longer than all that a window does in bursts.
pub(crate) fn varies(streams: &[&[Moment]], from_ns: i64) -> bool {
    let begun_ns = streams.iter().filter_map(|looks| looks.first()).map(|look| look.t_ns).min();
    let counted = |look: &&Moment| {
        look.t_ns >= from_ns && begun_ns.is_some_and(|begun_ns| follows(look, begun_ns))
    };
    let counted: Vec<Vec<&Moment>> =
        streams.iter().map(|looks| looks.iter().filter(counted).collect()).collect();
    // The time in which all of them are seen.
    let begin = counted.iter().map(|looks| looks.first().map(|look| look.t_ns)).max().flatten();
    let end = counted.iter().map(|looks| looks.last().map(|look| look.t_ns)).min().flatten();
    let (Some(begin), Some(end)) = (begin, end) else { return false };
    let acked = |ns: f64| counted.iter().map(|looks| acked_at(looks, ns)).sum::<f64>();
    let all = || counted.iter().flatten();
    let longest_us = all().map(|look| look.srtt_us).max().unwrap_or(0);
    let segment = all().map(|look| look.segment).max().unwrap_or(0).max(1);
    let (begin, time) = (begin as f64, (end - begin) as f64);
    let moved = acked(begin + time) - acked(begin);
    if time <= 0.0 || moved <= 0.0 {
        return false;
    }
    let enough = time * SEGMENTS * segment as f64 / moved;
    let part = enough.max(FOLLOWS as f64 * longest_us as f64 * 1e3);
    let parts = (time / part) as usize;
    if parts < PARTS {
        return false;
    }
    let edge = |n: usize| acked(begin + n as f64 * part);
    let mut rates: Vec<f64> = (0..parts).map(|n| edge(n + 1) - edge(n)).collect();
    rates.sort_by(f64::total_cmp);
    let quarter = parts / 4;
    let [slow, fast] =
        [&rates[..quarter], &rates[parts - quarter..]].map(|q| q.iter().sum::<f64>());
    slow < STAYS * fast
}

/// Bytes that were acknowledged by a time, between two looks as if evenly.
fn acked_at(looks: &[&Moment], ns: f64) -> f64 {
    let behind = looks.partition_point(|look| (look.t_ns as f64) < ns);
    let [before, after] = [looks.get(behind.wrapping_sub(1)), looks.get(behind)];
    match (before.or(after), after.or(before)) {
        (Some(before), Some(after)) if after.t_ns > before.t_ns => {
            let part = (ns - before.t_ns as f64) / (after.t_ns - before.t_ns) as f64;
            before.acked as f64 + part * after.acked.saturating_sub(before.acked) as f64
        }
        (Some(look), _) => look.acked as f64,
        _ => 0.0,
    }
}

/// Whether the round trip at a look at a stream that began then is that of its queue.
fn follows(look: &Moment, begun_ns: i64) -> bool {
    let follows_us = i64::try_from(look.srtt_us).map_or(i64::MAX, |us| us.saturating_mul(FOLLOWS));
    look.srtt_us > 0 && look.t_ns.saturating_sub(begun_ns) / 1000 >= follows_us
}

/// Looks with the shortest round trips, or the longest.
#[derive(Debug, Default)]
struct Quarter {
    looks: f64,
    rtt_us: f64,
    acked: f64,
    ns: f64,
}

impl Quarter {
    /// A look, and the one before it.
    fn add(&mut self, pair: &[Moment]) {
        let [before, now] = pair else { return };
        self.looks += 1.0;
        self.rtt_us += now.srtt_us as f64;
        self.acked += now.acked.saturating_sub(before.acked) as f64;
        self.ns += now.t_ns.saturating_sub(before.t_ns) as f64;
    }

    /// Their round trip, and rate.
    fn means(&self) -> Option<(f64, f64)> {
        (self.ns > 0.0).then(|| (self.rtt_us / self.looks, self.acked / self.ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds of a stream: the round trip at each look in milliseconds, and the rate then in bits a second.
    fn stream(at: impl Fn(i64) -> (f64, f64)) -> Vec<Moment> {
        let mut acked = 0.0;
        let look = |n: i64| {
            let (rtt_ms, bits) = at(n);
            acked += bits / 80.0;
            let (srtt_us, acked) = ((rtt_ms * 1e3) as u64, acked as u64);
            Moment { t_ns: n * 100_000_000, srtt_us, acked, segment: 1448, ..Moment::default() }
        };
        (0..100).map(look).collect()
    }

    #[test]
    fn a_window_beside_others_is_slower_as_their_queue_grows_and_one_alone_is_not() {
        // Another's saw: from 60 to 120 ms and back.
        let saw = |n: i64| 60.0 + (n % 20) as f64 * 3.0;
        let window = stream(|n| (saw(n), 64_000.0 * 1e3 / saw(n)));
        assert!(slows(&[&window[..]], 0));
        assert!(slows(&[&window[..], &window[..]], 0), "two of them");
        // Its own window grows, and with it the queue: the path's rate stays.
        let grows = stream(|n| (40.0 + n as f64, 10e6));
        assert!(!slows(&[&grows[..]], 0));
        let steady = stream(|n| (100.0 + (n % 3) as f64, 10e6 - (n % 3) as f64 * 3e6));
        assert!(!slows(&[&steady[..]], 0), "a round trip that hardly varies tells nothing");
        let loses = stream(|n| if n < 50 { (100.0, 10e6) } else { (60.0, 7e6) });
        assert!(!slows(&[&loses[..]], 0), "what is slower as its queue gets empty");
        // A bucket lets more through at first, until a queue of 160 ms stands.
        let begins = stream(|n| (40.0 + (n.min(5) * 32) as f64, if n < 5 { 30e6 } else { 10e6 }));
        assert!(!slows(&[&begins[..40]], 0), "a queue that begins");
        assert!(slows(&[&window[..]], 5_000_000_000) && !slows(&[&window[..]], 9_500_000_000));
        assert!(!slows(&[&window[..5]], 0) && !slows(&[], 0), "too few looks");
    }

    /// `-w 32K` on 10 Mbit/s beside one other flow, 40 ms: the smoothed round trip is half a saw behind, and the rate does not seem to follow it.
    #[test]
    fn a_rate_that_does_not_stay_is_not_that_of_a_queue_of_ones_own() {
        let saw = |n: i64| 70.0 + (n % 24 - 12).abs() as f64 * 6.0;
        let late = stream(|n| (saw(n - 6), 160_000.0 * 1e3 / saw(n)));
        assert!(!slows(&[&late[..]], 0) && varies(&[&late[..]], 0));
        assert!(varies(&[&late[..], &late[..]], 0), "two of them");
        // A window, or several in turn, in a queue that is theirs: what one lacks the other has.
        let alone = stream(|n| (100.0 + (n % 7) as f64, 10e6 + (n % 2) as f64 * 2e5));
        assert!(!varies(&[&alone[..]], 0));
        let turns =
            |first: i64| stream(move |n| (100.0, if n / 10 % 2 == first { 7e6 } else { 3e6 }));
        let (one, other) = (turns(0), turns(1));
        assert!(varies(&[&one[..]], 0) && !varies(&[&one[..], &other[..]], 0));
        // Of few segments, and of a short time, nothing is told.
        let little = stream(|n| (100.0, if n / 10 % 2 == 0 { 100e3 } else { 60e3 }));
        assert!(!varies(&[&little[..]], 0));
        assert!(!varies(&[&late[..20]], 0) && !varies(&[], 0));
    }
}
