//! Options of queues and classes, as the kernel reports them.

use quell_tc::qdisc::*;
use quell_tc::{ClassKind, Curve, Handle, HfscClass, HtbClass, Qdisc, RoundRobinClass};
use quell_units::{Bytes, Rate, Ratio, Span};

use super::rates::{ReadRate, bytes_in, read_rate};
use crate::core::{Attr, AttrReader, DecodeError};

/// The attributes of one options block, by number, read as optional values.
struct Fields<'a>(AttrReader<'a>);

impl<'a> Fields<'a> {
    fn get(&self, kind: u16) -> Result<Option<Attr<'a>>, DecodeError> {
        self.0.find(kind)
    }

    fn u32(&self, kind: u16) -> Result<Option<u32>, DecodeError> {
        self.get(kind)?.map(|attr| attr.u32()).transpose()
    }

    fn u64(&self, kind: u16) -> Result<Option<u64>, DecodeError> {
        self.get(kind)?.map(|attr| attr.u64()).transpose()
    }

    fn on(&self, kind: u16) -> Result<Option<bool>, DecodeError> {
        Ok(self.u32(kind)?.map(|value| value != 0))
    }

    fn us(&self, kind: u16) -> Result<Option<Span>, DecodeError> {
        Ok(self.u32(kind)?.map(|us| Span::from_micros(us.into())))
    }

    fn bytes(&self, kind: u16) -> Result<Option<Bytes>, DecodeError> {
        Ok(self.u32(kind)?.map(|bytes| Bytes::new(bytes.into())))
    }
}

/// The `index`th 32-bit word of a C struct.
fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let at = index * 4;
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn cut(what: &'static str, wanted: usize, bytes: &[u8]) -> DecodeError {
    DecodeError::Truncated { what, wanted, got: bytes.len() }
}

fn ratio(scaled: u32) -> Ratio {
    let ppb = u128::from(scaled) * 1_000_000_000;
    let rounded = (ppb + u128::from(u32::MAX) / 2) / u128::from(u32::MAX);
    Ratio::from_ppb(rounded as u64).unwrap_or_default()
}

fn given(scaled: u32) -> Option<Ratio> {
    (scaled != 0).then(|| ratio(scaled))
}

fn rate(bytes_per_second: u64) -> Rate {
    Rate::from_bps(bytes_per_second.saturating_mul(8))
}

/// A byte count and its struct's default for "none".
fn limited(bytes: u32) -> Option<Bytes> {
    Some(Bytes::new(bytes.into()))
}

/// Reads `TCA_OPTIONS` of this kind; `None` for kinds that we do not know.
pub(super) fn qdisc(
    kind: &str,
    handle: Handle,
    options: Option<Attr<'_>>,
) -> Result<Option<Qdisc>, DecodeError> {
    let Some(empty) = Qdisc::from_kind(kind) else { return Ok(None) };
    let Some(options) = options else { return Ok(Some(empty)) };
    let payload = options.payload;
    let f = Fields(options.nested());
    Ok(Some(match empty {
        Qdisc::FqCodel(_) => FqCodel {
            limit: f.u32(2)?,
            flows: f.u32(5)?,
            target: f.us(1)?,
            interval: f.us(3)?,
            quantum: f.bytes(6)?,
            ecn: f.on(4)?,
            ce_threshold: f.us(7)?,
            memory_limit: f.bytes(9)?,
            drop_batch: f.u32(8)?,
        }
        .into(),
        Qdisc::Codel(_) => Codel {
            limit: f.u32(2)?,
            target: f.us(1)?,
            interval: f.us(3)?,
            ecn: f.on(4)?,
            ce_threshold: f.us(5)?,
        }
        .into(),
        Qdisc::Pie(_) => Pie {
            limit: f.u32(2)?,
            target: f.us(1)?,
            tupdate: f.us(3)?,
            alpha: f.u32(4)?,
            beta: f.u32(5)?,
            ecn: f.on(6)?,
            bytemode: f.on(7)?,
            dq_rate_estimator: f.on(8)?,
        }
        .into(),
        Qdisc::FqPie(_) => FqPie {
            limit: f.u32(1)?,
            flows: f.u32(2)?,
            target: f.us(3)?,
            tupdate: f.us(4)?,
            alpha: f.u32(5)?,
            beta: f.u32(6)?,
            quantum: f.bytes(7)?,
            memory_limit: f.bytes(8)?,
            ecn_prob: f.u32(9)?,
            ecn: f.on(10)?,
            bytemode: f.on(11)?,
            dq_rate_estimator: f.on(12)?,
        }
        .into(),
        Qdisc::Fq(_) => fq(&f)?.into(),
        Qdisc::Cake(_) => cake(&f)?.into(),
        Qdisc::Htb(_) => htb(&f, handle)?.into(),
        Qdisc::Hfsc(_) => {
            let bytes =
                payload.first_chunk::<2>().ok_or_else(|| cut("hfsc options", 2, payload))?;
            let minor = u16::from_ne_bytes(*bytes);
            let default = (minor != 0).then_some(Handle { minor, ..handle });
            Hfsc { default }.into()
        }
        Qdisc::Tbf(_) => tbf(&f)?.into(),
        Qdisc::Red(_) => red(&f)?.into(),
        Qdisc::Sfq(_) => sfq(payload)?.into(),
        Qdisc::Prio(_) => {
            let bytes =
                payload.first_chunk::<20>().ok_or_else(|| cut("prio options", 20, payload))?;
            let bands = word(bytes, 0).and_then(|bands| u8::try_from(bands).ok());
            Prio { bands, priomap: bytes[4..].to_vec() }.into()
        }
        Qdisc::Ets(_) => ets(&f)?.into(),
        Qdisc::Netem(_) => netem(payload)?.into(),
        Qdisc::Pfifo(_) => Pfifo { limit: word(payload, 0) }.into(),
        Qdisc::Bfifo(_) => Bfifo { limit: word(payload, 0).and_then(limited) }.into(),
        plain @ (Qdisc::Drr(_) | Qdisc::PfifoFast(_) | Qdisc::Noqueue(_) | Qdisc::Mq(_)) => plain,
    }))
}

fn fq(f: &Fields<'_>) -> Result<Fq, DecodeError> {
    // "No limit" is all bits set.
    let slow = |value: Option<u32>| value.filter(|v| *v != u32::MAX).map(|v| rate(v.into()));
    Ok(Fq {
        limit: f.u32(1)?,
        flow_limit: f.u32(2)?,
        quantum: f.bytes(3)?,
        initial_quantum: f.bytes(4)?,
        maxrate: slow(f.u32(7)?),
        low_rate_threshold: slow(f.u32(11)?),
        buckets: f.u32(8)?.and_then(|log| 1u32.checked_shl(log)),
        pacing: f.on(5)?,
        refill_delay: f.us(9)?,
        orphan_mask: f.u32(10)?,
        ce_threshold: f.us(12)?,
        timer_slack: f.u32(13)?.map(|nanos| Span::from_nanos(nanos.into())),
        horizon: f.us(14)?,
        horizon_drop: f.get(15)?.map(|attr| attr.u8()).transpose()?.map(|value| value != 0),
    })
}

fn cake(f: &Fields<'_>) -> Result<Cake, DecodeError> {
    use {AckFilter as A, Diffserv as D, FlowIsolation as I, Framing as F};
    fn pick<T: Copy>(list: &[T], value: Option<u32>) -> Option<T> {
        value.and_then(|value| list.get(value as usize).copied())
    }
    let isolation = [
        I::Flowblind,
        I::Srchost,
        I::Dsthost,
        I::Hosts,
        I::Flows,
        I::DualSrchost,
        I::DualDsthost,
        I::TripleIsolate,
    ];
    let diffserv = [D::Diffserv3, D::Diffserv4, D::Diffserv8, D::BestEffort, D::Precedence];
    let overhead = f.get(6)?.map(|attr| attr.i32()).transpose()?;
    Ok(Cake {
        bandwidth: f.u64(2)?.filter(|value| *value > 0).map(rate),
        autorate: f.on(9)?,
        rtt: f.us(7)?,
        diffserv: pick(&diffserv, f.u32(3)?),
        // Bit 6 is "look through NAT", reported here as well as on its own.
        isolation: pick(&isolation, f.u32(5)?.map(|mode| mode & 7)),
        nat: f.on(11)?,
        wash: f.on(13)?,
        split_gso: f.on(17)?,
        ingress: f.on(15)?,
        ack_filter: pick(&[A::Off, A::On, A::Aggressive], f.u32(16)?),
        overhead: overhead.and_then(|value| i16::try_from(value).ok()),
        mpu: f.u32(14)?.and_then(|value| u16::try_from(value).ok()),
        framing: pick(&[F::NoAtm, F::Atm, F::Ptm], f.u32(4)?),
        memlimit: f.bytes(10)?,
        fwmark: f.u32(18)?,
    })
}

fn htb(f: &Fields<'_>, handle: Handle) -> Result<Htb, DecodeError> {
    let Some(attr) = f.get(2)? else { return Err(DecodeError::Missing { what: "TCA_HTB_INIT" }) };
    let minor = word(attr.payload, 2).ok_or_else(|| cut("tc_htb_glob", 20, attr.payload))? as u16;
    Ok(Htb {
        default: (minor != 0).then_some(Handle { minor, ..handle }),
        r2q: word(attr.payload, 1),
        direct_qlen: f.u32(5)?,
    })
}

fn tbf(f: &Fields<'_>) -> Result<Tbf, DecodeError> {
    let Some(attr) = f.get(1)? else { return Err(DecodeError::Missing { what: "TCA_TBF_PARMS" }) };
    let parms: [u8; 36] = attr.array()?;
    let (main, peak) = (spec(&parms, 0, f.u64(4)?)?, spec(&parms, 12, f.u64(5)?)?);
    let at = |index| word(&parms, index).unwrap_or(0);
    let peaked = peak.bytes_per_second > 0;
    Ok(Tbf {
        rate: Some(rate(main.bytes_per_second)),
        burst: Some(Bytes::new(unframed(bytes_in(main.bytes_per_second, at(7)), main))),
        limit: limited(at(6)),
        latency: None,
        peakrate: peaked.then(|| rate(peak.bytes_per_second)),
        mtu: peaked.then(|| Bytes::new(unframed(bytes_in(peak.bytes_per_second, at(8)), peak))),
        overhead: Some(main.overhead),
        mpu: Some(main.mpu),
        linklayer: main.link_layer,
    })
}

/// tbf reports its bucket as the time that one packet of that size takes, framing and all.
fn unframed(on_wire: u64, spec: ReadRate) -> u64 {
    let payload = match spec.link_layer {
        Some(LinkLayer::Atm | LinkLayer::Adsl) => on_wire / 53 * 48,
        _ => on_wire,
    };
    payload.saturating_sub(spec.overhead.into())
}

fn spec(bytes: &[u8], at: usize, rate64: Option<u64>) -> Result<ReadRate, DecodeError> {
    let part = bytes.get(at..).and_then(|rest| rest.first_chunk::<12>());
    part.map(|part| read_rate(part, rate64)).ok_or_else(|| cut("tc_ratespec", at + 12, bytes))
}

fn red(f: &Fields<'_>) -> Result<Red, DecodeError> {
    let Some(attr) = f.get(1)? else { return Err(DecodeError::Missing { what: "TCA_RED_PARMS" }) };
    let parms: [u8; 16] = attr.array()?;
    let at = |index| word(&parms, index).and_then(limited);
    // The attribute has the old flags too, where the kernel knows it.
    let wide = f.get(4)?.and_then(|attr| word(attr.payload, 0)).unwrap_or(0);
    let flags = u32::from(parms[15]) | wide;
    Ok(Red {
        limit: at(0),
        min: at(1),
        max: at(2),
        probability: f.u32(3)?.map(ratio),
        ecn: Some(flags & 1 != 0),
        harddrop: Some(flags & 2 != 0),
        adaptive: Some(flags & 4 != 0),
        nodrop: Some(flags & 8 != 0),
        ..Red::default()
    })
}

fn sfq(payload: &[u8]) -> Result<Sfq, DecodeError> {
    let at = |index| word(payload, index);
    let quantum = at(0).ok_or_else(|| cut("tc_sfq_qopt", 20, payload))?;
    // The kernel does not report RED's limit; its thresholds say whether there is RED.
    let red = at(8).filter(|min| *min > 0);
    let in_red = |value: Option<u32>| red.and(value).and_then(limited);
    let flags = payload.get(43).copied().unwrap_or(0);
    Ok(Sfq {
        limit: at(2),
        perturb: at(1).map(|seconds| Span::from_secs(seconds.into())),
        quantum: limited(quantum),
        depth: at(5),
        headdrop: at(6).map(|on| on != 0),
        divisor: at(3),
        flows: at(4),
        min: in_red(at(8)),
        max: in_red(at(9)),
        probability: red.and(at(11)).map(ratio),
        ecn: red.map(|_| flags & 1 != 0),
        harddrop: red.map(|_| flags & 2 != 0),
        ..Sfq::default()
    })
}

fn ets(f: &Fields<'_>) -> Result<Ets, DecodeError> {
    let byte = |kind| f.get(kind)?.map(|attr| attr.u8()).transpose();
    let mut ets = Ets { bands: byte(1)?, strict: byte(2)?, ..Ets::default() };
    for quantum in f.get(3)?.map(|attr| attr.nested()).into_iter().flatten() {
        ets.quanta.push(Bytes::new(quantum?.u32()?.into()));
    }
    for band in f.get(5)?.map(|attr| attr.nested()).into_iter().flatten() {
        ets.priomap.push(band?.u8()?);
    }
    Ok(ets)
}

fn netem(payload: &[u8]) -> Result<Netem, DecodeError> {
    const STRUCT: usize = 24;
    let (Some(head), Some(rest)) = (payload.get(..STRUCT), payload.get(STRUCT..)) else {
        return Err(cut("tc_netem_qopt", STRUCT, payload));
    };
    let f = Fields(AttrReader::new(rest));
    let at = |index| word(head, index).unwrap_or(0);
    let words = |kind| -> Result<[u32; 4], DecodeError> {
        let attr = f.get(kind)?;
        let read = |index| attr.and_then(|attr| word(attr.payload, index)).unwrap_or(0);
        Ok([0, 1, 2, 3].map(read))
    };
    let exact = |kind, ticks: u32| -> Result<Option<Span>, DecodeError> {
        let nanos = f.get(kind)?.map(|attr| attr.i64()).transpose()?;
        let nanos = nanos.and_then(|nanos| u64::try_from(nanos).ok());
        let nanos = nanos.unwrap_or(u64::from(ticks) * 64);
        Ok((nanos != 0).then(|| Span::from_nanos(nanos)))
    };
    let [delay_correlation, loss_correlation, duplicate_correlation, _] = words(1)?;
    let ([reorder, reorder_correlation, ..], [corrupt, corrupt_correlation, ..]) =
        (words(3)?, words(4)?);
    let [slow_rate, packet_overhead, cell_size, cell_overhead] = words(6)?;
    let byte_rate = f.u64(8)?.unwrap_or(slow_rate.into());
    let rated = byte_rate > 0;
    let model = f.get(5)?.map(|attr| attr.nested().find(2)).transpose()?.flatten();
    Ok(Netem {
        limit: Some(at(1)),
        delay: exact(10, at(0))?,
        jitter: exact(11, at(5))?,
        delay_correlation: given(delay_correlation),
        loss: given(at(2)),
        loss_correlation: given(loss_correlation),
        gemodel: model.map(|attr| {
            let at = |index| word(attr.payload, index).unwrap_or(0);
            GilbertElliott {
                to_bad: ratio(at(0)),
                to_good: ratio(at(1)),
                loss_in_bad: Some(ratio(u32::MAX - at(2))),
                loss_in_good: Some(ratio(at(3))),
            }
        }),
        ecn: f.on(7)?,
        duplicate: given(at(4)),
        duplicate_correlation: given(duplicate_correlation),
        corrupt: given(corrupt),
        corrupt_correlation: given(corrupt_correlation),
        reorder: given(reorder),
        reorder_correlation: given(reorder_correlation),
        gap: (at(3) != 0).then(|| at(3)),
        rate: rated.then(|| rate(byte_rate)),
        packet_overhead: rated.then_some(packet_overhead as i32),
        cell_size: rated.then_some(cell_size),
        cell_overhead: rated.then_some(cell_overhead as i32),
        slot: f.get(12)?.and_then(|attr| slot(attr.payload)),
    })
}

fn slot(payload: &[u8]) -> Option<Slot> {
    let wide = |at: usize| {
        payload
            .get(at..at + 8)?
            .try_into()
            .ok()
            .map(|bytes| Span::from_nanos(u64::from_ne_bytes(bytes)))
    };
    // The kernel reports "no bound" as the largest number.
    let bound =
        |index| word(payload, index).filter(|value| *value != i32::MAX as u32 && *value != 0);
    Some(Slot { min: wide(0)?, max: wide(8), packets: bound(4), bytes: bound(5).and_then(limited) })
}

/// Reads a class's `TCA_OPTIONS`; `None` for kinds whose classes we do not know.
pub(super) fn class(
    kind: &str,
    options: Option<Attr<'_>>,
) -> Result<Option<ClassKind>, DecodeError> {
    let known = Qdisc::from_kind(kind).as_ref().and_then(ClassKind::under);
    let (Some(known), Some(options)) = (known, options) else { return Ok(None) };
    let f = Fields(options.nested());
    Ok(match known {
        ClassKind::Htb(_) => htb_class(&f)?.map(ClassKind::Htb),
        ClassKind::Hfsc(_) => Some(ClassKind::Hfsc(HfscClass {
            rt: curve(f.get(1)?),
            ls: curve(f.get(2)?),
            ul: curve(f.get(3)?),
        })),
        ClassKind::Drr(_) => Some(ClassKind::Drr(RoundRobinClass { quantum: f.bytes(1)? })),
        ClassKind::Band => Some(ClassKind::Band),
    })
}

fn htb_class(f: &Fields<'_>) -> Result<Option<HtbClass>, DecodeError> {
    let Some(attr) = f.get(1)? else { return Ok(None) };
    let parms: [u8; 44] = attr.array()?;
    let (main, ceil) = (spec(&parms, 0, f.u64(6)?)?, spec(&parms, 12, f.u64(7)?)?);
    let at = |index| word(&parms, index).unwrap_or(0);
    Ok(Some(HtbClass {
        rate: Some(rate(main.bytes_per_second)),
        ceil: Some(rate(ceil.bytes_per_second)),
        burst: Some(Bytes::new(bytes_in(main.bytes_per_second, at(6)))),
        cburst: Some(Bytes::new(bytes_in(ceil.bytes_per_second, at(7)))),
        quantum: limited(at(8)),
        prio: u8::try_from(at(10)).ok(),
        overhead: Some(main.overhead),
        mpu: Some(main.mpu),
        mtu: None,
        linklayer: main.link_layer,
    }))
}

fn curve(attr: Option<Attr<'_>>) -> Option<Curve> {
    let payload = attr?.payload;
    let (m1, d, m2) = (word(payload, 0)?, word(payload, 1)?, word(payload, 2)?);
    Some(Curve {
        m1: (m1 != 0).then(|| rate(m1.into())),
        d: (d != 0).then(|| Span::from_micros(d.into())),
        m2: rate(m2.into()),
    })
}
