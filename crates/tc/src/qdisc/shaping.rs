//! Shapers: holding traffic to a rate.

use std::ops::RangeInclusive;

use quell_units::{Bytes, Rate, Span};

use super::{Kind, need, nonzero};
use crate::Handle;
use crate::rates::{RateSpec, ReadRate, bytes_in, read_rate, transmit_ticks};
use crate::table::{
    Encoded, OptionError, Reported, Table, attr, choice, options, wide, word, words,
};
use crate::value::{rate, saturate, size};

choice! {
    /// How the link below frames packets, for shapers that count its overhead.
    #[serde(rename_all = "lowercase")]
    LinkLayer {
        /// As long as the packet.
        Ethernet "ethernet",
        /// 53-byte cells that carry 48.
        Atm "atm",
        /// The same cells; what ADSL has.
        Adsl "adsl",
    }
}

options! {
    /// Hierarchical token buckets. All rates are in its classes.
    Htb "htb" {
        /// Class for packets that no filter matches; without it they pass **unshaped**.
        default: Option<Handle> = Name("default"), Part(2), Count;
        /// A class's rate divided by this is its quantum, unless it names one; default 10.
        r2q: Option<u32> = Name("r2q"), Part(2), Count;
        /// Packets that the unshaped queue may hold; default the device's transmit queue length.
        direct_qlen: Option<u32> = Name("direct_qlen"), Attr(5), Count;
    }
}

impl Kind for Htb {
    const CLASSFUL: bool = true;

    fn check(&self) -> Result<(), String> {
        need(self.r2q != Some(0), "`r2q` must be at least 1")
    }

    fn encode(&self) -> Result<Option<Encoded>, String> {
        let default = self.default.map_or(0, |class| class.minor.into());
        // Version 3 of the interface; the last two are the kernel's to fill.
        let mut attrs = vec![attr(2, &[3, self.r2q.unwrap_or(10), default, 0, 0])];
        attrs.extend(self.attrs());
        Ok(Some(Encoded { attrs, ..Encoded::default() }))
    }

    fn decode(from: &Reported<'_>) -> Result<Self, OptionError> {
        let init = from.find(2).ok_or(OptionError::Missing("TCA_HTB_INIT"))?;
        let minor = word(init, 2).ok_or(OptionError::Cut("TCA_HTB_INIT", 20, init.len()))? as u16;
        let default = (minor != 0).then_some(Handle { minor, ..from.handle });
        Ok(Htb { default, r2q: word(init, 1), ..Self::read(&[], from)? })
    }

    fn changeable(&self) -> Option<Self> {
        None
    }
}

options! {
    /// One token bucket with one queue (a FIFO unless it has a child).
    Tbf "tbf" {
        /// The rate; must be given.
        rate: Option<Rate> = Name("rate"), Part(1), Rate64;
        /// The bucket, at least rate / HZ; must be given.
        burst: Option<Bytes> = Name("burst"), Part(1), Count;
        /// Bytes that may wait. This or `latency` must be given.
        limit: Option<Bytes> = Name("limit"), Part(1), Count;
        /// The longest that a packet may wait: a limit by time.
        latency: Option<Span> = Name("latency"), Derived, Ticks;
        /// A second bucket's rate, for bursts; needs `mtu`.
        peakrate: Option<Rate> = Name("peakrate"), Part(1), Rate64;
        /// The second bucket's size; at least a packet.
        mtu: Option<Bytes> = Name("mtu"), Part(1), Count;
        /// Bytes added to each packet.
        overhead: Option<u16> = Name("overhead"), Part(1), Count;
        /// The least that a packet counts as.
        mpu: Option<u16> = Name("mpu"), Part(1), Count;
        /// Framing of the link.
        linklayer: Option<LinkLayer> = Name("linklayer"), Part(1), Count;
    }
}

impl Kind for Tbf {
    const CLASSFUL: bool = true;

    fn check(&self) -> Result<(), String> {
        need(self.rate.is_some(), "tbf needs `rate`")?;
        nonzero(self.rate, "rate")?;
        nonzero(self.peakrate, "peakrate")?;
        let bucket = self.burst.is_some_and(|burst| burst.get() > 0);
        need(bucket, "tbf needs `burst`, at least one packet")?;
        let one = self.limit.is_some() != self.latency.is_some();
        need(one, "tbf needs one of `limit` and `latency`")?;
        let whole = self.peakrate.is_none() || self.mtu.is_some();
        need(whole, "`peakrate` needs `mtu`, at least one packet")
    }

    fn classes(&self) -> Option<RangeInclusive<u16>> {
        Some(1..=1)
    }

    fn encode(&self) -> Result<Option<Encoded>, String> {
        let rate = self.rate.map_or(0, Rate::bytes_per_second);
        let burst = self.burst.map_or(0, Bytes::get);
        let mtu = size(self.mtu);
        let spec = |bytes_per_second| RateSpec {
            bytes_per_second,
            overhead: self.overhead.unwrap_or(0),
            mpu: self.mpu.unwrap_or(0),
            link_layer: self.linklayer.unwrap_or(LinkLayer::Ethernet),
            mtu,
        };
        let main = spec(rate);
        let peak = self.peakrate.map(|rate| spec(rate.bytes_per_second()));
        let limit = self.limit.map_or_else(
            || {
                // What may wait at the rate, or at the peak rate if that is less.
                let latency = self.latency.map_or(0.0, |span| span.as_secs_f64());
                let at = |rate: u64, bucket: u64| rate as f64 * latency + bucket as f64;
                let by_rate = at(rate, burst);
                let by_peak = peak.map_or(f64::MAX, |p| at(p.bytes_per_second, mtu.into()));
                by_rate.min(by_peak) as u32
            },
            |limit| size(Some(limit)),
        );
        // At what 32 bits hold, as `tc`: the kernel goes by the attributes in bytes below.
        let bucket = |rate: u64, bytes| transmit_ticks(saturate(rate).into(), bytes);
        let mut parms = main.to_bytes().to_vec();
        parms.extend(peak.map_or([0; 12], RateSpec::to_bytes));
        parms.extend(words(&[
            limit,
            bucket(rate, burst),
            peak.map_or(0, |peak| bucket(peak.bytes_per_second, mtu.into())),
        ]));
        let mut attrs = vec![(1, parms.into()), attr(6, &[saturate(burst)])];
        attrs.extend(main.rate64().map(|rate| wide(4, rate)));
        attrs.push((2, main.table().into()));
        if let Some(peak) = peak {
            attrs.extend(peak.rate64().map(|rate| wide(5, rate)));
            attrs.extend([attr(7, &[mtu]), (3, peak.table().into())]);
        }
        Ok(Some(Encoded { attrs, ..Encoded::default() }))
    }

    fn decode(from: &Reported<'_>) -> Result<Self, OptionError> {
        let parms: [u8; 36] = from.parms(1, "TCA_TBF_PARMS")?;
        let (main, peak) = (rate_at(&parms, 0, from.u64(4)?), rate_at(&parms, 12, from.u64(5)?));
        let at = |index| word(&parms, index).unwrap_or(0);
        let peaked = peak.bytes_per_second > 0;
        Ok(Tbf {
            rate: Some(rate(main.bytes_per_second)),
            burst: Some(unframed(bytes_in(main.bytes_per_second, at(7)), main)),
            limit: Some(Bytes::new(at(6).into())),
            latency: None,
            peakrate: peaked.then(|| rate(peak.bytes_per_second)),
            mtu: peaked.then(|| unframed(bytes_in(peak.bytes_per_second, at(8)), peak)),
            overhead: Some(main.overhead),
            mpu: Some(main.mpu),
            linklayer: main.link_layer,
        })
    }

    // The latency is only another way to say the limit: what waits that long, and the bucket.
    fn expected(&self) -> Self {
        let (Some(latency), Some(rate)) = (self.latency, self.rate) else { return self.clone() };
        let waiting = (rate.bytes_per_second() as f64 * latency.as_secs_f64()) as u64;
        let by_rate = Bytes::new(waiting + self.burst.map_or(0, Bytes::get));
        // With a peak rate the lower of two limits holds; only the rate's is computed here.
        let limit = if self.peakrate.is_none() { Some(by_rate) } else { self.limit };
        Tbf { limit, latency: None, ..self.clone() }
    }
}

/// tbf reports its bucket as the time that one packet of that size takes, framing and all.
fn unframed(on_wire: u64, spec: ReadRate) -> Bytes {
    let payload = match spec.link_layer {
        Some(LinkLayer::Atm | LinkLayer::Adsl) => on_wire / 53 * 48,
        _ => on_wire,
    };
    Bytes::new(payload.saturating_sub(spec.overhead.into()))
}

/// The `struct tc_ratespec` at this byte of a struct.
pub(crate) fn rate_at<const N: usize>(parms: &[u8; N], at: usize, rate64: Option<u64>) -> ReadRate {
    let mut bytes = [0; 12];
    bytes.copy_from_slice(&parms[at..at + 12]);
    read_rate(&bytes, rate64)
}

options! {
    /// Hierarchical fair service curves. All curves are in its classes.
    Hfsc "hfsc" {
        /// Class for packets that no filter matches; without it they are **dropped**.
        default: Option<Handle> = Name("default"), Part(0), Count;
    }
}

impl Kind for Hfsc {
    const CLASSFUL: bool = true;

    fn encode(&self) -> Result<Option<Encoded>, String> {
        let default: u16 = self.default.map_or(0, |class| class.minor);
        Ok(Some(Encoded { head: default.to_ne_bytes().to_vec(), ..Encoded::default() }))
    }

    fn decode(from: &Reported<'_>) -> Result<Self, OptionError> {
        from.behind("hfsc options", 2)?;
        let minor = u16::from_ne_bytes([from.payload[0], from.payload[1]]);
        Ok(Hfsc { default: (minor != 0).then_some(Handle { minor, ..from.handle }) })
    }
}
