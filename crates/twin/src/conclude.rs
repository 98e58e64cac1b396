//! From what was seen of a line to its properties.

use crate::base_delay::base_delay;
use crate::bounded::Bounded;
use crate::buffer::{BufferSize, buffer};
use crate::fairness::apart;
use crate::flood::{ETHERNET, Flood};
use crate::grid::grid;
use crate::loss::loss;
use crate::marks::marks_at;
use crate::over_time::{RateStep, SLACK, STEP_S, Steadiness, of_direction, steadiness};
use crate::overhead::overhead;
use crate::policer::bucket;
use crate::queue_kind::{pattern, queue_kind};
use crate::rate::packet_rate;
use crate::schedule::{DirectionObservations, LineObservations, came_rate};
use crate::sharing::shared;
use quell_model::EchoSample;
use quell_series::measured_line::{
    Estimate, Fairness, LineOverTime, MarkingThreshold, MeasuredDirection, MeasuredTogether,
    Property, QueueKind, value,
};
use quell_series::{LineSeries, MeasuredLine, Steps};
use quell_stats::Interval;
use quell_units::{Buffer, Bytes, Rate, Ratio, Span, fmt};

/// Parts into which a rate that varies is cut for its mean's interval: each so long that it tells little of the next.
const PARTS: usize = 4;
/// Fewest steps that tell whether a rate stays.
const FEWEST: usize = 5;
/// Seconds between steps of two floods, and not of one.
const REST_S: f64 = 0.5;
/// What a packet costs at most beyond its frame: WireGuard's tunnel over IPv6.
const MOST_OVERHEAD: f64 = 80.0;
/// Bytes of a ping's IP packet and its Ethernet header.
pub const PING: f64 = 84.0 + ETHERNET;

pub fn conclude(seen: &LineObservations) -> LineOverTime {
    let (up, up_series) = direction(seen, &seen.up, true);
    let (down, down_series) = direction(seen, &seen.down, false);
    let both = MeasuredTogether { shared: Some(sharing(seen)), thinned_acks: None };
    let version = MeasuredLine::VERSION;
    let (measured, to) = (seen.measured.clone(), seen.to.clone());
    let line = MeasuredLine { version, measured, to, up, down, both };
    LineOverTime { line, up: up_series, down: down_series }
}

fn missing(seen: &LineObservations) -> String {
    let why = seen.broke.as_deref().unwrap_or("the measurement did not come so far");
    format!("not measured: {why}")
}

fn measured<T>(value: T, bounds: Option<(T, T)>, how: impl Into<String>, at_s: f64) -> Property<T> {
    let (low, high) = bounds.unzip();
    Property::Measured(Estimate { value, low, high, how: how.into(), when: format!("{at_s:.0} s") })
}

/// With its bounds, each rounded by `unit`.
pub fn bounded<T>(of: Bounded, unit: impl Fn(f64) -> T, how: &str, at_s: f64) -> Property<T> {
    measured(unit(of.value), Some((unit(of.low), unit(of.high))), how, at_s)
}

/// Five digits that count.
pub fn rate(bps: f64) -> Rate {
    let unit = 10_f64.powf(bps.max(1.0).log10().floor() - 4.0).max(1.0);
    Rate::from_bps(((bps / unit).round() * unit) as u64)
}

/// To 10 microseconds.
pub fn span(seconds: f64) -> Span {
    Span::from_micros((seconds.max(0.0) * 1e5).round() as u64 * 10)
}

/// To a thousandth of a per cent.
pub fn ratio(share: f64) -> Ratio {
    Ratio::from_ppb((share.clamp(0.0, 1.0) * 1e5).round() as u64 * 10_000).unwrap_or_default()
}

pub fn bytes(bytes: f64) -> Bytes {
    Bytes::new(bytes.max(0.0).round() as u64)
}

fn direction(
    seen: &LineObservations,
    way: &DirectionObservations,
    up: bool,
) -> (MeasuredDirection, Option<LineSeries>) {
    let mut found = MeasuredDirection::default();
    let (Some(small), Some(large), Some(gentle)) = (&way.small, &way.large, &way.gentle) else {
        found.rate = Some(Property::unknown(missing(seen)));
        return (found, None);
    };
    let idle_loss = loss(&seen.idle, way.light.as_ref(), up);
    let at_s = way.light.as_ref().map_or(0.0, |light| light.at_s);
    let chance = idle_loss.as_ref().map_or(Bounded::new(0.0, (0.0, 0.0)), |(loss, _)| *loss);
    found.loss = Some(match &idle_loss {
        Ok((loss, run)) => {
            let run = if *run > 1.5 { format!(", {run:.1} in a row") } else { String::new() };
            bounded(*loss, ratio, &format!("pings and a stream at 30 % of the rate{run}"), at_s)
        }
        Err(why) => Property::unknown(*why),
    });
    let patterns = [gentle, small, large].map(|flood| pattern(flood, chance));
    let ways = |ping: &EchoSample| if up { ping.up_ns } else { ping.down_ns };
    let ways: Vec<f64> = seen.idle.iter().filter_map(ways).map(|ns| ns as f64 / 1e9).collect();
    let idle_s = quell_stats::median(&ways).unwrap_or(0.0);
    // A far end that is told to begin sends a round trip before it is known here.
    let rtts: Vec<f64> =
        seen.idle.iter().filter_map(|p| p.rtt_ns).map(|ns| ns as f64 / 1e9).collect();
    let late_s = quell_stats::median(&rtts).filter(|_| !up).unwrap_or(0.0);
    let is_apart = apart(gentle, &way.pings, up, (idle_s, late_s));
    let kind = queue_kind(&patterns, is_apart.ok(), chance.low / gentle.apart_s);
    let kind = match (&kind, bucket(large, small)) {
        (Ok(QueueKind::Policer), Err(why)) => Err(format!("no queue, and drops: {why}")),
        _ => kind,
    };
    let is_policed = kind == Ok(QueueKind::Policer);
    let change = if is_policed { None } else { change(seen, way, up) };
    let kind = match kind {
        // Where the rate rises, waits fall by themselves.
        Ok(QueueKind::Pie) if change.is_some() => Err("it drops early, and the rate varies".into()),
        kind => kind,
    };
    let extra = rates(&mut found, small, large, is_policed, change.is_none());
    let series = if is_policed { None } else { over_time(&mut found, way, change, extra) };
    let bits = ping_bits(&found.rate, series.as_ref(), extra);
    found.grid = grid_of(way);
    let grid_s = value(&found.grid).map_or(0.0, Span::as_secs_f64);
    found.delay = Some(delay_of(seen, up, (bits, grid_s)));
    found.buffer = buffer_of(&kind, small, large);
    found.queue = Some(match kind {
        Ok(kind) => measured(kind, None, "waits and drops of three floods", gentle.at_s),
        Err(why) => Property::unknown(why),
    });
    found.fair = Some(match is_apart {
        Ok(true) => measured(Fairness::Flow, None, "pings beside a flood", gentle.at_s),
        Ok(false) => measured(Fairness::None, None, "pings beside a flood", gentle.at_s),
        Err(why) => Property::unknown(why),
    });
    found.ecn_marks_at = Some(marks(way));
    (found, series)
}

/// Seconds of a ping's bits. The quickest of a line that varies passed while it was fastest.
fn ping_bits(told: &Option<Property<Rate>>, series: Option<&LineSeries>, extra: f64) -> Bounded {
    let seconds = |rate: Rate| (PING + extra) * 8.0 / rate.bps().max(1) as f64;
    let Some(rate) = told.as_ref().and_then(Property::estimate) else {
        return Bounded::new(0.0, (0.0, 0.0));
    };
    let steps = series.and_then(|series| series.rate.as_ref());
    match steps.and_then(|steps| steps.iter().map(|(_, _, rate)| rate).max()) {
        Some(fastest) => Bounded::new(seconds(fastest), (seconds(fastest), seconds(rate.value))),
        None => {
            let end = |end: Option<Rate>| seconds(end.unwrap_or(rate.value));
            Bounded::new(seconds(rate.value), (end(rate.low), end(rate.high)))
        }
    }
}

/// `bits` are the seconds of a ping's. Where packets leave only every `grid_s`, even the quickest ping may have waited so long: pings that another
/// grid has ordered wait for the same part of it.
fn delay_of(seen: &LineObservations, up: bool, (bits, grid_s): (Bounded, f64)) -> Property<Span> {
    let how = match seen.one_clock {
        true => "the quickest pings, less the time of their bits",
        false => "half of the quickest round trips: each end has its own clock",
    };
    match base_delay(&seen.idle, up, bits, seen.one_clock) {
        Ok(Bounded { value, low, high }) => {
            bounded(Bounded::new(value, ((low - grid_s).max(0.0), high)), span, how, 0.0)
        }
        Err(why) => Property::unknown(why),
    }
}

fn buffer_of(
    kind: &Result<QueueKind, String>,
    small: &Flood,
    large: &Flood,
) -> Option<Property<Buffer>> {
    let how = "what stood before packets of 100 and 1200 bytes";
    match kind {
        Ok(QueueKind::TailDrop) => Some(match buffer(small, large) {
            Ok(BufferSize::Packets(size)) => {
                let packets = |size: f64| Buffer::Packets(size.round() as u32);
                bounded(size, packets, how, large.at_s)
            }
            Ok(BufferSize::Bytes(size)) => {
                let bytes = |size: f64| Buffer::Bytes(bytes(size));
                bounded(size, bytes, how, large.at_s)
            }
            Err(why) => Property::unknown(why),
        }),
        Ok(QueueKind::Policer) => None,
        Ok(_) => Some(Property::unknown("the queue is kept short: its end was not reached")),
        Err(_) => Some(Property::unknown("the kind of queue is unknown")),
    }
}

/// How the rate became another, and what tells it.
struct RateChange {
    told: Steadiness,
    steps: Vec<RateStep>,
    /// Bytes of a packet on the wire, without an overhead.
    wire: f64,
}

/// None where it did not, by the floods of this direction; nor by both at once, of which the other went on as before.
fn change(seen: &LineObservations, way: &DirectionObservations, up: bool) -> Option<RateChange> {
    let large = way.large.as_ref()?;
    let wires = [large.wire(), way.small.as_ref()?.wire()];
    for (steps, wire) in of_direction(way).into_iter().zip(wires) {
        let told = steadiness(&steps);
        if told != Steadiness::Steady {
            return Some(RateChange { told, steps, wire });
        }
    }
    let parts = together_parts(seen)?;
    let [own, other] = if up { parts } else { [parts[1], parts[0]] };
    let before = came_rate(large)?;
    let at_s = seen.together.as_ref()?[0].at_s;
    let told = Steadiness::Changed { at_s, rates: [before, before * own] };
    (own < 0.9 && other > 0.97).then(|| RateChange { told, steps: Vec::new(), wire: large.wire() })
}

/// Whether the rate stayed; of one that did not what it is since then, or its mean and its series where the line was full.
fn over_time(
    found: &mut MeasuredDirection,
    way: &DirectionObservations,
    change: Option<RateChange>,
    extra: f64,
) -> Option<LineSeries> {
    let Some(RateChange { told, steps, wire }) = change else {
        let count: usize = of_direction(way).iter().map(Vec::len).sum();
        found.stationary = Some(match count {
            0..FEWEST => Property::unknown("it was full for less than half a second"),
            _ => measured(true, None, "packets of each 100 ms", 0.0),
        });
        return None;
    };
    let bits = (wire + extra) * 8.0;
    let (words, at_s) = told.told(&steps, bits)?;
    found.stationary = Some(measured(false, None, words, at_s));
    if let Steadiness::Changed { rates: [_, after], .. } = told {
        let of = Bounded::new(after, (after * (1.0 - SLACK), after * (1.0 + SLACK)));
        found.rate = Some(bounded(of.map(|after| after * bits), rate, "since it changed", at_s));
        return None;
    }
    // The flood that saw most; where the line was not full for a moment, it is as before.
    let follows = |a: &RateStep, b: &RateStep| b.at_s - a.at_s < REST_S;
    let steps = steps.chunk_by(follows).max_by_key(|steps| steps.len())?;
    let rates: Vec<f64> = steps.iter().map(|step| step.rate * bits).collect();
    let from = |at_s: f64| span(at_s - steps[0].at_s);
    let series = steps.iter().zip(&rates).map(|(step, bps)| (from(step.at_s), rate(*bps)));
    let series = Steps::new(series, from(steps.last()?.at_s + STEP_S))?;
    let mean = series.mean().bps() as f64;
    let spread = bounds_of_mean(&rates, mean);
    let how = "the mean of a rate that varies";
    found.rate = Some(bounded(Bounded::new(mean, spread), rate, how, at_s));
    Some(LineSeries { rate: Some(series), ..LineSeries::default() })
}

/// Not down to nothing: a line that carried something has a rate.
fn bounds_of_mean(rates: &[f64], mean: f64) -> (f64, f64) {
    let parts = rates.chunks(rates.len().div_ceil(PARTS)).filter_map(quell_stats::mean);
    let spread = Interval::of_mean(&parts.collect::<Vec<_>>());
    let (low, high) = spread.map_or((0.0, 2.0 * mean), |spread| (spread.low, spread.high));
    (low.max(1e3).min(mean), high)
}

fn marks(way: &DirectionObservations) -> Property<MarkingThreshold> {
    let [zero, one] = &way.ecn[..] else { return Property::unknown("not measured") };
    let text = |told: &Option<Bounded>| match told {
        None => "never".to_owned(),
        Some(at) => format!("from {} ms on", fmt::three_digits(at.value * 1e3)),
    };
    match (marks_at(zero), marks_at(one)) {
        (Ok(zero_at), Ok(one_at)) => {
            let how = match (&zero_at, &one_at) {
                (None, None) | (Some(_), Some(_)) => "ECT(0) and ECT(1) alike".to_owned(),
                _ => format!("ECT(0) {}, ECT(1) {}", text(&zero_at), text(&one_at)),
            };
            let both = [zero_at, one_at].into_iter().flatten();
            let at = |seconds: f64| MarkingThreshold::At(span(seconds));
            match both.min_by(|a, b| a.value.total_cmp(&b.value)) {
                None => measured(MarkingThreshold::Never, None, how, zero.at_s),
                Some(of) => bounded(of, at, &how, zero.at_s),
            }
        }
        (Err(why), _) | (_, Err(why)) => Property::unknown(why),
    }
}

/// Rate, overhead, and of a policer its rate and burst; what each packet costs beyond its Ethernet frame, about.
fn rates(
    found: &mut MeasuredDirection,
    small: &Flood,
    large: &Flood,
    policed: bool,
    is_steady: bool,
) -> f64 {
    if policed && let Ok(bucket) = bucket(large, small) {
        let (low, high) = (bucket.low_bits_per_second, bucket.high_bits_per_second);
        let how = "what came behind losses";
        let of = Bounded::new((low + high) / 2.0, (low, high));
        found.police_rate = Some(bounded(of, rate, how, large.at_s));
        found.police_burst = Some(match bucket.high_burst_bytes {
            Some(high) => {
                let of = Bounded::new(
                    (bucket.low_burst_bytes + high) / 2.0,
                    (bucket.low_burst_bytes, high),
                );
                bounded(of, bytes, "what came before the first loss", large.at_s)
            }
            None => Property::unknown(format!(
                "it is {} or more: the bucket may still have been filling",
                fmt::bytes(bucket.low_burst_bytes as u64)
            )),
        });
        found.rate = Some(Property::unknown("the policer lets through less than the line carries"));
        return 0.0;
    }
    let of_large = packet_rate(large);
    let of_small = packet_rate(small);
    let overhead = match (&of_small, &of_large) {
        (Ok(_), Ok(_)) if !is_steady => Err("the rate varies".to_owned()),
        (Ok(s), Ok(l)) => overhead((small.packet, *s), (large.packet, *l)),
        (Err(why), _) | (_, Err(why)) => Err((*why).to_owned()),
    };
    // One whole number is between its bounds.
    let exact = |of: &Bounded| of.low.ceil() >= of.high.floor();
    let extra = overhead.clone().unwrap_or(Bounded::new(0.0, (0.0, MOST_OVERHEAD)));
    let extra = if exact(&extra) { extra.map(|extra| extra.round().max(0.0)) } else { extra };
    found.overhead = Some(match overhead {
        Ok(of) if !exact(&of) => Property::unknown(format!(
            "it is {:.0} to {:.0} bytes: at this rate a byte takes no time that can be seen",
            of.low, of.high
        )),
        Ok(of) if of.high < -0.5 => Property::unknown(format!(
            "a packet takes {:.0} bytes less than its Ethernet frame",
            -of.value
        )),
        Ok(of) => bounded(of, bytes, "packets a second of 100 and of 1200 bytes", small.at_s),
        Err(why) => Property::unknown(why),
    });
    found.rate = Some(match of_large {
        Ok(packets) => {
            let of = |packets: f64, extra: f64| packets * (large.wire() + extra) * 8.0;
            let bounds = (of(packets.low, extra.low), of(packets.high, extra.high));
            let how = "packets of 1200 bytes, more than it carries";
            bounded(Bounded::new(of(packets.value, extra.value), bounds), rate, how, large.at_s)
        }
        Err(why) => Property::unknown(why),
    });
    extra.value
}

fn grid_of(way: &DirectionObservations) -> Option<Property<Span>> {
    let light = way.light.as_ref()?;
    match grid(light) {
        Ok(Some(of)) => Some(bounded(of, span, "when packets of a stream came", light.at_s)),
        Ok(None) => None,
        Err(why) => Some(Property::unknown(why)),
    }
}

/// What each direction carried with both full at once, as a part of what it carries alone.
fn together_parts(seen: &LineObservations) -> Option<[f64; 2]> {
    let [up_then, down_then] = seen.together.as_ref()?.each_ref().map(came_rate);
    let [up, down] = [&seen.up, &seen.down].map(|way| came_rate(way.large.as_ref()?));
    Some([up_then? / up?, down_then? / down?])
}

fn sharing(seen: &LineObservations) -> Property<bool> {
    let Some(together) = &seen.together else { return Property::unknown(missing(seen)) };
    let Some(parts) = together_parts(seen) else {
        return Property::unknown("too little came with both directions full");
    };
    match shared(parts) {
        Ok(is) => measured(is, None, "both directions full at once", together[0].at_s),
        Err(why) => Property::unknown(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_that_hardly_anything_tells_can_be_written_and_read() {
        let rates = [40e6, 40e6, 1e3, 1e3, 30e6, 30e6, 1e3, 1e3];
        let (low, high) = bounds_of_mean(&rates, 17.5e6);
        assert!(high > 40e6, "{high}");
        let told = bounded(Bounded::new(17.5e6, (low, high)), rate, "", 0.0);
        let up = MeasuredDirection { rate: Some(told), ..MeasuredDirection::default() };
        let line = MeasuredLine { version: 1, up, ..MeasuredLine::default() };
        assert_eq!(MeasuredLine::parse(&line.to_string()).expect("it is read"), line);
    }
}
