//! Queues and classes as attributes.

use quell_tc::qdisc::*;
use quell_tc::{ClassKind, Curve, HfscClass, HtbClass, Qdisc};
use quell_units::{Bytes, Rate, Ratio, Span};

use super::rates::{RateSpec, ticks, transmit_ticks};
use super::red;
use crate::core::AttrWriter;

const TCA_OPTIONS: u16 = 2;

/// Optional values, written only if given.
struct Options<'a>(&'a mut AttrWriter);

impl Options<'_> {
    fn u32(&mut self, kind: u16, value: Option<u32>) -> &mut Self {
        if let Some(value) = value {
            self.0.u32(kind, value);
        }
        self
    }

    fn on(&mut self, kind: u16, value: Option<bool>) -> &mut Self {
        self.u32(kind, value.map(u32::from))
    }

    fn us(&mut self, kind: u16, value: Option<Span>) -> &mut Self {
        self.u32(kind, value.map(|span| saturate(span.nanos() / 1000)))
    }

    fn bytes(&mut self, kind: u16, value: Option<Bytes>) -> &mut Self {
        self.u32(kind, value.map(size))
    }
}

fn saturate(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn size(bytes: Bytes) -> u32 {
    saturate(bytes.get())
}

fn byte_rate(rate: Rate) -> u64 {
    rate.bytes_per_second()
}

fn scaled(ratio: Option<Ratio>) -> u32 {
    ratio.map_or(0, |ratio| ratio.to_u32_scaled())
}

/// Fields of a C struct, one after the other.
fn fields(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Writes `TCA_OPTIONS` as `tc` does; nothing for kinds and calls without options. An error says which of the options
/// can't be met.
pub(super) fn qdisc(w: &mut AttrWriter, qdisc: &Qdisc) -> Result<(), String> {
    match qdisc {
        Qdisc::FqCodel(q) => nest(w, |mut o| {
            o.u32(2, q.limit).u32(5, q.flows).bytes(6, q.quantum).us(3, q.interval).us(1, q.target);
            o.on(4, q.ecn).us(7, q.ce_threshold).bytes(9, q.memory_limit).u32(8, q.drop_batch);
        }),
        Qdisc::Codel(q) => nest(w, |mut o| {
            o.u32(2, q.limit).us(3, q.interval).us(1, q.target).on(4, q.ecn).us(5, q.ce_threshold);
        }),
        Qdisc::Pie(q) => nest(w, |mut o| {
            o.u32(2, q.limit).us(3, q.tupdate).us(1, q.target).u32(4, q.alpha).u32(5, q.beta);
            o.on(6, q.ecn).on(7, q.bytemode).on(8, q.dq_rate_estimator);
        }),
        Qdisc::FqPie(q) => {
            w.nested(TCA_OPTIONS, |w| {
                let mut o = Options(w);
                o.u32(1, q.limit).u32(2, q.flows).us(3, q.target).us(4, q.tupdate).u32(5, q.alpha);
                o.u32(6, q.beta).bytes(7, q.quantum).bytes(8, q.memory_limit).u32(9, q.ecn_prob);
                o.on(10, q.ecn).on(11, q.bytemode).on(12, q.dq_rate_estimator);
            });
        }
        Qdisc::Fq(q) => nest(w, |o| fq(o, q)),
        Qdisc::Cake(q) => nest(w, |o| cake(o.0, q)),
        Qdisc::Htb(q) => nest(w, |mut o| {
            let default = q.default.map_or(0, |class| class.minor.into());
            // Version 3 of the interface; the last two are the kernel's to fill.
            o.0.bytes(2, &fields(&[3, q.r2q.unwrap_or(10), default, 0, 0]));
            o.u32(5, q.direct_qlen);
        }),
        Qdisc::Hfsc(q) => {
            let default: u16 = q.default.map_or(0, |class| class.minor);
            w.bytes(TCA_OPTIONS, &default.to_ne_bytes());
        }
        Qdisc::Tbf(q) => nest(w, |o| tbf(o, q)),
        Qdisc::Red(q) => return self::red(w, q),
        Qdisc::Sfq(q) => return sfq(w, q),
        Qdisc::Prio(q) => {
            let mut map = Prio::DEFAULT_PRIOMAP;
            map.iter_mut().zip(&q.priomap).for_each(|(slot, band)| *slot = *band);
            let mut bytes = u32::from(q.band_count()).to_ne_bytes().to_vec();
            bytes.extend(map);
            // Room for options in attributes behind the struct: one for multiqueue devices, never given.
            bytes.extend([4, 0, 2, 0]);
            w.bytes(TCA_OPTIONS, &bytes);
        }
        Qdisc::Ets(q) => {
            w.nested(TCA_OPTIONS, |w| {
                w.u8(1, q.band_count());
                q.strict.map(|strict| w.u8(2, strict));
                if !q.quanta.is_empty() {
                    w.nested(3, |w| {
                        q.quanta.iter().for_each(|quantum| {
                            w.u32(4, size(*quantum));
                        })
                    });
                }
                if !q.priomap.is_empty() {
                    w.nested(5, |w| {
                        q.priomap.iter().for_each(|band| {
                            w.u8(6, *band);
                        })
                    });
                }
            });
        }
        Qdisc::Netem(q) => {
            let inner = netem(q);
            w.bytes(TCA_OPTIONS, inner.as_bytes());
        }
        Qdisc::Pfifo(q) => {
            q.limit.map(|limit| w.u32(TCA_OPTIONS, limit));
        }
        Qdisc::Bfifo(q) => {
            q.limit.map(|limit| w.u32(TCA_OPTIONS, size(limit)));
        }
        Qdisc::Drr(_) | Qdisc::PfifoFast(_) | Qdisc::Noqueue(_) | Qdisc::Mq(_) => {}
    }
    Ok(())
}

fn nest(w: &mut AttrWriter, write: impl FnOnce(Options<'_>)) {
    w.nested_plain(TCA_OPTIONS, |w| write(Options(w)));
}

fn fq(mut o: Options<'_>, q: &Fq) {
    o.u32(8, q.buckets.map(u32::ilog2)).u32(1, q.limit).u32(2, q.flow_limit);
    o.bytes(3, q.quantum).bytes(4, q.initial_quantum).on(5, q.pacing);
    o.u32(7, q.maxrate.map(|rate| saturate(byte_rate(rate))));
    o.u32(11, q.low_rate_threshold.map(|rate| saturate(byte_rate(rate))));
    o.us(9, q.refill_delay).u32(10, q.orphan_mask).us(12, q.ce_threshold);
    o.u32(13, q.timer_slack.map(|span| saturate(span.nanos())));
    o.us(14, q.horizon);
    q.horizon_drop.map(|drop| o.0.u8(15, drop.into()));
}

fn cake(w: &mut AttrWriter, q: &Cake) {
    q.bandwidth.map(|rate| w.u64(2, byte_rate(rate)));
    let mut o = Options(w);
    o.u32(3, q.diffserv.map(|diffserv| diffserv as u32));
    o.u32(4, q.framing.map(|framing| framing as u32));
    o.u32(5, q.isolation.map(|isolation| isolation as u32));
    if let Some(overhead) = q.overhead {
        o.0.i32(6, overhead.into());
    }
    o.u32(14, q.mpu.map(u32::from));
    o.us(7, q.rtt);
    // CoDel's usual proportion; CAKE has no default of its own for another rtt.
    o.u32(8, q.rtt.map(|rtt| saturate(rtt.nanos() / 1000 / 20).max(1)));
    let autorate = q.autorate.or(q.bandwidth.map(|_| false));
    o.on(9, autorate).bytes(10, q.memlimit).u32(18, q.fwmark).on(11, q.nat).on(13, q.wash);
    o.on(17, q.split_gso).on(15, q.ingress).u32(16, q.ack_filter.map(|filter| filter as u32));
}

fn tbf(o: Options<'_>, q: &Tbf) {
    let w = o.0;
    let rate = q.rate.map_or(0, byte_rate);
    let burst = q.burst.map_or(0, Bytes::get);
    let mtu = q.mtu.map_or(0, size);
    let spec = |bytes_per_second| RateSpec {
        bytes_per_second,
        overhead: q.overhead.unwrap_or(0),
        mpu: q.mpu.unwrap_or(0),
        link_layer: q.linklayer.unwrap_or(LinkLayer::Ethernet),
        mtu,
    };
    let peak = q.peakrate.map(|rate| spec(byte_rate(rate)));
    let limit = q.limit.map_or_else(
        || {
            // What may wait at the rate, or at the peak rate if that is less.
            let latency = q.latency.map_or(0.0, |span| span.as_secs_f64());
            let at = |rate: u64, bucket: u64| rate as f64 * latency + bucket as f64;
            let by_rate = at(rate, burst);
            let by_peak = peak.map_or(f64::MAX, |p| at(p.bytes_per_second, mtu.into()));
            by_rate.min(by_peak) as u32
        },
        size,
    );
    let mut parms = spec(rate).to_bytes().to_vec();
    parms.extend(peak.map_or([0; 12], RateSpec::to_bytes));
    parms.extend(fields(&[
        limit,
        // At what 32 bits hold, as `tc`: the kernel goes by the attributes in bytes below.
        transmit_ticks(saturate(rate).into(), burst),
        peak.map_or(0, |peak| transmit_ticks(saturate(peak.bytes_per_second).into(), mtu.into())),
    ]));
    w.bytes(1, &parms);
    w.u32(6, saturate(burst));
    spec(rate).rate64().map(|rate| w.u64(4, rate));
    w.bytes(2, &spec(rate).table());
    if let Some(peak) = peak {
        peak.rate64().map(|rate| w.u64(5, rate));
        w.u32(7, mtu);
        w.bytes(3, &peak.table());
    }
}

fn red_flags(flags: [Option<bool>; 4]) -> u32 {
    flags.iter().enumerate().map(|(bit, on)| u32::from(*on == Some(true)) << bit).sum()
}

fn red(w: &mut AttrWriter, q: &Red) -> Result<(), String> {
    let limit = q.limit.map_or(0, size);
    let average = q.avpkt.map_or(0, size).max(1);
    let max = q.max.map_or(limit / 4, size);
    let min = q.min.map_or(max / 3, size);
    let usual = (2 * u64::from(min) + u64::from(max)) / (3 * u64::from(average));
    let burst = q.burst.unwrap_or(saturate(usual));
    let probability = q.probability.map_or(0.02, |ratio| ratio.as_f64());
    let rate = q.bandwidth.map_or(1_250_000, byte_rate);
    let sums = red::sums(min, max, average, burst, probability, rate)?;
    let flags = red_flags([q.ecn, q.harddrop, q.adaptive, q.nodrop]);
    let mut parms = fields(&[limit, min, max]);
    parms.extend([sums.w_log, sums.p_log, sums.cell_log, 0]);
    w.nested_plain(TCA_OPTIONS, |w| {
        w.bytes(1, &parms);
        w.bytes(2, &sums.table);
        w.u32(3, (probability * 2f64.powi(32)) as u32);
        // struct nla_bitfield32: value, and that it speaks of all four bits.
        w.bytes(4, &fields(&[flags, 15]));
    });
    Ok(())
}

fn sfq(w: &mut AttrWriter, q: &Sfq) -> Result<(), String> {
    let seconds = q.perturb.map_or(0, |span| saturate(span.nanos() / 1_000_000_000));
    let quantum = q.quantum.map_or(0, size);
    let flows = q.flows.unwrap_or(0);
    let mut bytes =
        fields(&[quantum, seconds, q.limit.unwrap_or(0), q.divisor.unwrap_or(0), flows]);
    let limit = q.redflowlimit.map_or(0, size);
    let (mut min, mut max, mut logs, mut max_p) = (0, 0, [0; 4], 0);
    if q.redflowlimit.is_some() {
        let average = q.avpkt.map_or(1000, size).max(1);
        max = q.max.map_or(limit / 4, size);
        min = q.min.map_or(max / 3, size);
        let usual = (2 * u64::from(min) + u64::from(max)) / (3 * u64::from(average));
        let burst = q.burst.unwrap_or(saturate(usual));
        let probability = q.probability.map_or(0.02, |ratio| ratio.as_f64());
        // Ageing while idle does not matter inside sfq: any rate will do, this is tc's.
        let sums = red::sums(min, max, average, burst, probability, 1_250_000)?;
        let flags = red_flags([q.ecn, q.harddrop, None, None]);
        logs = [sums.w_log, sums.p_log, 0, flags as u8];
        max_p = (probability * 2f64.powi(32)) as u32;
    }
    let headdrop = u32::from(q.headdrop == Some(true));
    bytes.extend(fields(&[q.depth.unwrap_or(0), headdrop, limit, min, max]));
    bytes.extend(logs);
    bytes.extend(fields(&[max_p]));
    // Room for the counters of tc_sfqred_stats, which only the kernel fills.
    bytes.extend([0; 24]);
    w.bytes(TCA_OPTIONS, &bytes);
    Ok(())
}

fn netem(q: &Netem) -> AttrWriter {
    let mut w = AttrWriter::new();
    let ticks_of = |span: Option<Span>| span.map_or(0, |span| ticks(span.nanos()));
    let gap = q.gap.unwrap_or(u32::from(q.reorder.is_some_and(|ratio| ratio.as_f64() > 0.0)));
    w.raw(&fields(&[
        ticks_of(q.delay),
        q.limit.unwrap_or(1000),
        scaled(q.loss),
        gap,
        scaled(q.duplicate),
        ticks_of(q.jitter),
    ]));
    let correlations = [q.delay_correlation, q.loss_correlation, q.duplicate_correlation];
    if correlations.iter().any(Option::is_some) {
        w.bytes(1, &fields(&correlations.map(scaled)));
    }
    if q.reorder.is_some() {
        w.bytes(3, &fields(&[scaled(q.reorder), scaled(q.reorder_correlation)]));
    }
    if q.ecn == Some(true) {
        w.u32(7, 1);
    }
    if q.corrupt.is_some() {
        w.bytes(4, &fields(&[scaled(q.corrupt), scaled(q.corrupt_correlation)]));
    }
    if let Some(slot) = &q.slot {
        let max = slot.max.unwrap_or(slot.min);
        let mut bytes = [slot.min.nanos().to_ne_bytes(), max.nanos().to_ne_bytes()].concat();
        bytes.extend(fields(&[slot.packets.unwrap_or(0), slot.bytes.map_or(0, size), 0, 0, 0, 0]));
        w.bytes(12, &bytes);
    }
    if let Some(model) = &q.gemodel {
        let lost_in_bad = model.loss_in_bad.map_or(1_000_000_000, |ratio| ratio.ppb());
        let kept_in_bad = scaled(Ratio::from_ppb(1_000_000_000u64.saturating_sub(lost_in_bad)));
        w.nested(5, |w| {
            w.bytes(
                2,
                &fields(&[
                    model.to_bad.to_u32_scaled(),
                    model.to_good.to_u32_scaled(),
                    kept_in_bad,
                    scaled(model.loss_in_good),
                ]),
            );
        });
    }
    if let Some(rate) = q.rate.map(byte_rate) {
        (rate >= 1 << 32).then(|| w.u64(8, rate));
        w.bytes(
            6,
            &fields(&[
                saturate(rate),
                q.packet_overhead.unwrap_or(0) as u32,
                q.cell_size.unwrap_or(0),
                q.cell_overhead.unwrap_or(0) as u32,
            ]),
        );
    }
    // Where ticks of 64 ns can't say it, the 64-bit attributes do; the kernel prefers them.
    let exact = |span: Option<Span>| {
        span.is_none_or(|span| span.nanos() % 64 == 0 && span.nanos() / 64 <= u32::MAX.into())
    };
    if let (Some(delay), false) = (q.delay, exact(q.delay)) {
        w.i64(10, i64::try_from(delay.nanos()).unwrap_or(i64::MAX));
    }
    if let (Some(jitter), false) = (q.jitter, exact(q.jitter)) {
        w.i64(11, i64::try_from(jitter.nanos()).unwrap_or(i64::MAX));
    }
    w
}

/// Writes a class's `TCA_OPTIONS`.
pub(super) fn class(w: &mut AttrWriter, kind: &ClassKind) {
    match kind {
        ClassKind::Htb(class) => nest(w, |o| htb_class(o.0, class)),
        ClassKind::Hfsc(class) => nest(w, |o| hfsc_class(o.0, class)),
        ClassKind::Drr(class) => nest(w, |mut o| {
            o.bytes(1, class.quantum);
        }),
        ClassKind::Band => {}
    }
}

fn htb_class(w: &mut AttrWriter, class: &HtbClass) {
    let rate = class.rate.map_or(0, byte_rate);
    let ceil = class.ceil.map_or(rate, byte_rate);
    let mtu = class.mtu.map_or(1600, size);
    let spec = |bytes_per_second| RateSpec {
        bytes_per_second,
        overhead: class.overhead.unwrap_or(0),
        mpu: class.mpu.unwrap_or(0),
        link_layer: class.linklayer.unwrap_or(LinkLayer::Ethernet),
        mtu,
    };
    // With high-resolution timers the kernel's HZ is 10^9 here: at usual rates the default is one packet.
    let bucket = |given: Option<Bytes>, rate: u64| {
        given.map_or(rate / 1_000_000_000 + u64::from(mtu), Bytes::get)
    };
    let (rate_spec, ceil_spec) = (spec(rate), spec(ceil));
    rate_spec.rate64().map(|rate| w.u64(6, rate));
    ceil_spec.rate64().map(|ceil| w.u64(7, ceil));
    let mut parms = rate_spec.to_bytes().to_vec();
    parms.extend(ceil_spec.to_bytes());
    parms.extend(fields(&[
        transmit_ticks(rate, bucket(class.burst, rate)),
        transmit_ticks(ceil, bucket(class.cburst, ceil)),
        class.quantum.map_or(0, size),
        0,
        class.prio.unwrap_or(0).into(),
    ]));
    w.bytes(1, &parms);
    w.bytes(4, &rate_spec.table());
    w.bytes(3, &ceil_spec.table());
}

fn hfsc_class(w: &mut AttrWriter, class: &HfscClass) {
    let curve = |curve: Curve| {
        let d = curve.d.map_or(0, |span| saturate(span.nanos() / 1000));
        let m1 = curve.m1.map_or(0, |rate| saturate(byte_rate(rate)));
        fields(&[m1, d, saturate(byte_rate(curve.m2))])
    };
    for (kind, given) in [(1, class.rt), (2, class.ls), (3, class.ul)] {
        if let Some(given) = given {
            w.bytes(kind, &curve(given));
        }
    }
}
