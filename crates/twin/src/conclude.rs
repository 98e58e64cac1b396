//! From what was seen of a line to its properties.

use crate::base_delay::base_delay;
use crate::bounded::Bounded;
use crate::buffer::{BufferSize, buffer};
use crate::fairness::apart;
use crate::flood::{ETHERNET, Flood};
use crate::grid::grid;
use crate::loss::loss;
use crate::overhead::overhead;
use crate::policer::bucket;
use crate::queue_kind::{pattern, queue_kind};
use crate::rate::{PacketRate, packet_rate};
use crate::schedule::{DirectionObservations, LineObservations, came_rate};
use crate::sharing::shared;
use quell_model::EchoSample;
use quell_series::MeasuredLine;
use quell_series::measured_line::{
    Estimate, Fairness, MeasuredDirection, MeasuredTogether, Property, QueueKind, value,
};
use quell_units::{Buffer, Bytes, Rate, Ratio, Span};

/// Bytes of a ping's IP packet and its Ethernet header.
const PING: f64 = 84.0 + ETHERNET;

pub fn conclude(seen: &LineObservations) -> MeasuredLine {
    let up = direction(seen, &seen.up, true);
    let down = direction(seen, &seen.down, false);
    let both = MeasuredTogether { shared: Some(sharing(seen)), thinned_acks: None };
    let version = MeasuredLine::VERSION;
    let (measured, to) = (seen.measured.clone(), seen.to.clone());
    MeasuredLine { version, measured, to, up, down, both }
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
fn bounded<T>(of: Bounded, unit: impl Fn(f64) -> T, how: &str, at_s: f64) -> Property<T> {
    measured(unit(of.value), Some((unit(of.low), unit(of.high))), how, at_s)
}

/// Five digits that count.
fn rate(bps: f64) -> Rate {
    let unit = 10_f64.powf(bps.max(1.0).log10().floor() - 4.0).max(1.0);
    Rate::from_bps(((bps / unit).round() * unit) as u64)
}

/// To 10 microseconds.
fn span(seconds: f64) -> Span {
    Span::from_micros((seconds.max(0.0) * 1e5).round() as u64 * 10)
}

/// To a thousandth of a per cent.
fn ratio(share: f64) -> Ratio {
    Ratio::from_ppb((share.clamp(0.0, 1.0) * 1e5).round() as u64 * 10_000).unwrap_or_default()
}

fn bytes(bytes: f64) -> Bytes {
    Bytes::new(bytes.max(0.0).round() as u64)
}

fn direction(seen: &LineObservations, way: &DirectionObservations, up: bool) -> MeasuredDirection {
    let mut found = MeasuredDirection::default();
    let (Some(small), Some(large), Some(gentle)) = (&way.small, &way.large, &way.gentle) else {
        found.rate = Some(Property::unknown(missing(seen)));
        return found;
    };
    let idle_loss = loss(&seen.idle, way.light.as_ref(), up);
    let at_s = way.light.as_ref().map_or(0.0, |light| light.at_s);
    let (least, chance) = idle_loss.as_ref().map_or((0.0, 0.0), |(loss, _)| (loss.low, loss.high));
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
    let is_apart = apart(gentle, &way.pings, up, idle_s);
    let kind = queue_kind(&patterns, is_apart.ok(), least / gentle.apart_s);
    let kind = match (&kind, bucket(large, small.seconds)) {
        (Ok(QueueKind::Policer), Err(why)) => Err(format!("no queue, and drops: {why}")),
        _ => kind,
    };
    let extra = rates(&mut found, small, large, kind == Ok(QueueKind::Policer));
    let each_s = value(&found.rate).map_or(0.0, |rate| (PING + extra) * 8.0 / rate.bps() as f64);
    found.delay = Some(match base_delay(&seen.idle, up, each_s) {
        Ok(delay) => bounded(delay, span, "the quickest pings, less the time of their bits", 0.0),
        Err(why) => Property::unknown(why),
    });
    found.buffer = match &kind {
        Ok(QueueKind::TailDrop) => Some(match buffer(small, large) {
            Ok(BufferSize::Packets(size)) => {
                let packets = |size: f64| Buffer::Packets(size.round() as u32);
                bounded(
                    size,
                    packets,
                    "what stood before packets of 100 and 1400 bytes",
                    large.at_s,
                )
            }
            Ok(BufferSize::Bytes(size)) => {
                let bytes = |size: f64| Buffer::Bytes(bytes(size));
                bounded(size, bytes, "what stood before packets of 100 and 1400 bytes", large.at_s)
            }
            Err(why) => Property::unknown(why),
        }),
        Ok(QueueKind::Policer) => None,
        Ok(_) => Some(Property::unknown("the queue is kept short: its end was not reached")),
        Err(_) => Some(Property::unknown("the kind of queue is unknown")),
    };
    found.queue = Some(match kind {
        Ok(kind) => measured(kind, None, "waits and drops of three floods", gentle.at_s),
        Err(why) => Property::unknown(why),
    });
    found.fair = Some(match is_apart {
        Ok(true) => measured(Fairness::Flow, None, "pings beside a flood", gentle.at_s),
        Ok(false) => measured(Fairness::None, None, "pings beside a flood", gentle.at_s),
        Err(why) => Property::unknown(why),
    });
    found.grid = grid_of(way);
    found
}

/// Rate, overhead, and of a policer its rate and burst; what each packet costs beyond its Ethernet frame, about.
fn rates(found: &mut MeasuredDirection, small: &Flood, large: &Flood, policed: bool) -> f64 {
    if policed && let Ok(bucket) = bucket(large, small.seconds) {
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
            None => Property::unknown("the bucket may not have been full"),
        });
        found.rate = Some(Property::unknown("the policer lets through less than the line carries"));
        return 0.0;
    }
    let of_large = packet_rate(large);
    let of_small = packet_rate(small);
    let overhead = match (&of_small, &of_large) {
        (Ok(s), Ok(l)) => overhead((small.packet, s), (large.packet, l)),
        (Err(why), _) | (_, Err(why)) => Err((*why).to_owned()),
    };
    let exact = |of: &Bounded| of.high - of.low <= 2.0;
    let extra = overhead.clone().unwrap_or(Bounded::new(0.0, (0.0, 0.0)));
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
        Ok(of) => bounded(of, bytes, "packets a second of 100 and of 1400 bytes", small.at_s),
        Err(why) => Property::unknown(why),
    });
    found.rate = Some(match of_large {
        Ok(PacketRate { rate: packets, varies }) => {
            let of = |packets: f64, extra: f64| packets * (large.wire() + extra) * 8.0;
            let bounds = (of(packets.low, extra.low), of(packets.high, extra.high));
            let how = match varies {
                false => "packets of 1400 bytes, more than it carries",
                true => "the mean of a rate that varies",
            };
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

fn sharing(seen: &LineObservations) -> Property<bool> {
    let Some(together) = &seen.together else { return Property::unknown(missing(seen)) };
    let alone = [&seen.up, &seen.down].map(|way| came_rate(way.large.as_ref()?));
    let together_rates = together.each_ref().map(came_rate);
    let ([Some(up), Some(down)], [Some(up_then), Some(down_then)]) = (alone, together_rates) else {
        return Property::unknown("too little came with both directions full");
    };
    match shared([up, down], [up_then.value, down_then.value]) {
        Ok(is) => measured(is, None, "both directions full at once", together[0].at_s),
        Err(why) => Property::unknown(why),
    }
}
