//! The rate of a line over time, by when the packets of its floods came while each waited for another.
//!
//! ```text
//!   arrivals ──► bits until each (those that come at once are one) ──► mean of each 100 ms ──► steady │ changed once │ varies
//! ```

use crate::conclude::PING;
use crate::flood::{Flood, FloodPacket};
use crate::schedule::DirectionObservations;
use quell_units::fmt;

/// Seconds of a step: as fine as what packets of a slow line carry.
pub const STEP_S: f64 = 0.1;
/// By so much steps of a line that is steady differ: stamps. Others' packets beside come on top, of which one step has two more than another.
pub const SLACK: f64 = 0.03;
/// Fewest steps that differ, and of how many one may: in those a host was busy, or what both ends tell each other went before.
const SOME: usize = 2;
const ONE_OF: usize = 20;

/// What the line carried in a step in which it was full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateStep {
    /// Since the measurement began.
    pub at_s: f64,
    /// Packets a second.
    pub rate: f64,
    /// What chance and others may change of it, and the slack, as a part of it.
    slack: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Steadiness {
    Steady,
    /// From when on it was another: packets a second before and after.
    Changed {
        at_s: f64,
        rates: [f64; 2],
    },
    Varies {
        at_s: f64,
    },
}

/// The steps of a flood in which the line was full. `lost` is the share that is lost on the idle line, `beside` the packets a second of others.
pub fn steps(flood: &Flood, lost: f64, beside: f64) -> Vec<RateStep> {
    let packets = flood.packets();
    let Some(first) = packets.first() else { return Vec::new() };
    let gaps: Vec<f64> = packets.windows(2).map(|pair| pair[1].came_s - pair[0].came_s).collect();
    let usual_s = quell_stats::median(&gaps).unwrap_or(0.0);
    let curve = arrivals(&packets);
    let until = |at_s: f64| {
        let next = curve.partition_point(|(came_s, _)| *came_s < at_s);
        let (&(from_s, from), &(to_s, to)) = (curve.get(next.checked_sub(1)?)?, curve.get(next)?);
        Some(from + (to - from) * (at_s - from_s) / (to_s - from_s))
    };
    let mut found = Vec::new();
    for number in 0.. {
        let (from_s, to_s) = (f64::from(number) * STEP_S, f64::from(number + 1) * STEP_S);
        let (from_s, to_s) = (first.came_s + from_s, first.came_s + to_s);
        let at = |at_s: f64| packets.partition_point(|packet| packet.came_s < at_s);
        // The one that comes next tells whether the line was full until then.
        let Some(within) = packets.get(at(from_s)..=at(to_s)) else { break };
        let is_full = within.iter().all(|packet| packet.wait_s > usual_s / 2.0);
        let Some(count) = until(to_s).zip(until(from_s)).map(|(to, from)| to - from) else {
            continue;
        };
        // What comes as fast as it is sent waits for no rate: only the delay grew.
        let part = count / STEP_S * flood.apart_s;
        if is_full && !(0.98..1.02).contains(&part) {
            let others = 2.0 * PING / (count.max(1.0) * flood.wire());
            let slack = SLACK + others + 4.0 * (lost / count.max(1.0)).sqrt();
            let at_s = flood.at_s + from_s - first.came_s;
            found.push(RateStep { at_s, rate: count / STEP_S + beside, slack });
        }
    }
    found
}

/// How many had come when. What comes on a grid, or was handed over at once, came evenly since the time before.
fn arrivals(packets: &[FloodPacket]) -> Vec<(f64, f64)> {
    let mean_s = crate::flood::spacing(packets);
    let mut curve: Vec<(f64, f64)> = Vec::new();
    for (at, packet) in packets.iter().enumerate() {
        let count = at as f64 + 1.0;
        match curve.last_mut() {
            Some(last) if packet.came_s - last.0 < mean_s / 8.0 => last.1 = count,
            _ => curve.push((packet.came_s, count)),
        }
    }
    curve
}

/// The steps of all floods of large packets, and those of small ones.
pub fn of_direction(way: &DirectionObservations) -> [Vec<RateStep>; 2] {
    let light = way.light.as_ref().filter(|light| light.sent > 0);
    let lost = light.map_or(0.0, |light| light.lost() as f64 / light.sent as f64);
    let mut found = [Vec::new(), Vec::new()];
    let large = way.large.as_ref().map_or(0.0, |large| large.packet);
    for flood in [&way.gentle, &way.small, &way.large, &way.long].into_iter().flatten() {
        let pings = match &way.gentle {
            Some(gentle) if gentle.at_s == flood.at_s => way.pings.len() as f64,
            _ => 0.0,
        };
        let beside = pings * PING / flood.wire() / flood.seconds.max(STEP_S);
        let of_size = &mut found[usize::from(flood.packet != large)];
        of_size.extend(steps(flood, lost, beside));
    }
    found
}

/// Of steps in the order of time.
pub fn steadiness(steps: &[RateStep]) -> Steadiness {
    let Some(at) = first_off(steps) else { return Steadiness::Steady };
    let change = (SOME + 1..steps.len().saturating_sub(SOME)).filter_map(|at| {
        // The step in which it changes is neither.
        let (before, after) = (&steps[..at], &steps[at + 1..]);
        let both = first_off(before).is_none() && first_off(after).is_none();
        let rates = [median(before)?, median(after)?];
        let off = |steps: &[RateStep], rate: f64| -> f64 {
            steps.iter().map(|step| (step.rate / rate - 1.0).abs()).sum()
        };
        let at_s = before.last()?.at_s + STEP_S;
        let off = off(before, rates[0]) + off(after, rates[1]);
        let differ = (rates[1] / rates[0] - 1.0).abs() > SLACK;
        (both && differ).then_some((off, Steadiness::Changed { at_s, rates }))
    });
    let change = change.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, change)| change);
    change.unwrap_or(Steadiness::Varies { at_s: steps[at].at_s })
}

fn median(steps: &[RateStep]) -> Option<f64> {
    quell_stats::median(&steps.iter().map(|step| step.rate).collect::<Vec<_>>())
}

/// The first step that is not as the others, where some are not.
fn first_off(steps: &[RateStep]) -> Option<usize> {
    let median = median(steps)?;
    let is_off = |step: &RateStep| (step.rate / median - 1.0).abs() > step.slack;
    let mut off = (0..steps.len()).filter(|at| is_off(&steps[*at]));
    let first = off.next();
    first.filter(|_| off.count() + 1 >= SOME.max(steps.len() / ONE_OF))
}

impl Steadiness {
    /// In words, and since when; none of what is steady. `bits` are those of a packet.
    pub fn told(&self, steps: &[RateStep], bits: f64) -> Option<(String, f64)> {
        let rate = |packets: f64| fmt::rate(packets * bits);
        match self {
            Steadiness::Steady => None,
            Steadiness::Changed { at_s, rates: [before, after] } => {
                Some((format!("{}, then {}", rate(*before), rate(*after)), *at_s))
            }
            Steadiness::Varies { at_s } => {
                let rates: Vec<f64> = steps.iter().map(|step| step.rate).collect();
                let (low, high) =
                    quell_stats::quantile(&rates, 0.0).zip(quell_stats::quantile(&rates, 1.0))?;
                Some((format!("{} to {} in steps of 100 ms", rate(low), rate(high)), *at_s))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_wire::iperf3::LoggedDatagram;

    /// A flood of `load` packets a second through a line that carries `rate(t)` of them, with a queue of 100, on a grid if that is not 0.
    fn flood(load: f64, seconds: f64, grid_s: f64, rate: impl Fn(f64) -> f64) -> Flood {
        let mut flood = Flood { packet: 1428.0, apart_s: 1.0 / load, seconds, ..Flood::default() };
        let mut ends: Vec<f64> = Vec::new();
        for number in 0..(seconds * load) as u64 {
            let sent_s = number as f64 / load;
            let waiting = ends.len() - ends.partition_point(|end| *end <= sent_s);
            flood.sent += 1;
            if waiting > 100 {
                continue;
            }
            // A thousandth of a packet after the other.
            let mut end_s = ends.last().map_or(sent_s, |last: &f64| last.max(sent_s));
            (0..1000).for_each(|_| end_s += 1e-3 / rate(end_s));
            ends.push(end_s);
            let left_s = if grid_s > 0.0 { (end_s / grid_s).ceil() * grid_s } else { end_s } + 0.01;
            let (sent_ns, came_ns) = ((sent_s * 1e6) as i64 * 1000, (left_s * 1e9) as i64);
            flood.log.push(LoggedDatagram { number: number + 1, sent_ns, came_ns, marked: false });
        }
        flood
    }

    #[test]
    fn a_steady_line_is_steady_slow_or_fast_on_a_grid_or_not() {
        for (rate, grid_s) in [(40.0, 0.0), (860.0, 0.0), (860.0, 0.01), (4300.0, 0.005)] {
            let found = steps(&flood(2.0 * rate, 4.0, grid_s, |_| rate), 0.0, 0.0);
            assert!(found.len() > 30, "{rate} {grid_s}: {}", found.len());
            assert_eq!(steadiness(&found), Steadiness::Steady, "{rate} {grid_s}");
            let most = found.iter().map(|step| (step.rate / rate - 1.0).abs());
            assert!(most.fold(0.0, f64::max) < 0.02, "{rate} {grid_s}");
        }
    }

    #[test]
    fn a_ping_more_in_one_step_than_in_another_is_no_other_rate_of_a_slow_line() {
        for (rate, is_steady) in [(44.0, true), (860.0, false)] {
            let less =
                |at: f64| if ((at * 10.0) as u64).is_multiple_of(8) { 0.96 * rate } else { rate };
            let found = steps(&flood(2.0 * rate, 8.0, 0.0, less), 0.0, 0.0);
            assert_eq!(steadiness(&found) == Steadiness::Steady, is_steady, "{rate}");
        }
    }

    #[test]
    fn a_change_is_told_with_its_moment_and_both_rates() {
        let rate = |at: f64| if at < 2.33 { 800.0 } else { 500.0 };
        let Steadiness::Changed { at_s, rates } =
            steadiness(&steps(&flood(1600.0, 5.0, 0.0, rate), 0.0, 0.0))
        else {
            panic!("it changed once")
        };
        assert!((at_s - 2.33).abs() < 0.11, "{at_s}");
        assert!((rates[0] - 800.0).abs() < 8.0 && (rates[1] - 500.0).abs() < 5.0, "{rates:?}");
    }

    #[test]
    fn a_rate_that_varies_is_told_step_by_step() {
        let rate = |at: f64| 800.0 + 400.0 * (at * 2.0).sin();
        let found = steps(&flood(2000.0, 8.0, 0.0, rate), 0.0, 0.0);
        assert!(matches!(steadiness(&found), Steadiness::Varies { .. }));
        assert!(found.len() > 70);
        for step in &found {
            // Packets come 10 ms after they left; the first of all did so after its own bits.
            let truth = rate(step.at_s + STEP_S / 2.0);
            assert!((step.rate / truth - 1.0).abs() < 0.03, "{step:?} {truth}");
        }
    }
}
