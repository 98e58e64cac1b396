//! Sharing between flows or classes.

use std::ops::RangeInclusive;

use quell_units::{Bytes, Rate, Span};

use super::{Kind, check_priomap, need};
use crate::table::{Encoded, OptionError, Payload, Reported, Table, array, attr, options};
use crate::value::size;

options! {
    /// Deficit round robin; everything is in its classes, and filters must put every packet into one.
    Drr "drr" {}
}

impl Kind for Drr {
    const CLASSFUL: bool = true;
    const DROPS_UNMATCHED: bool = true;
}

options! {
    /// Enhanced transmission selection: strict bands first, the rest share by quanta.
    Ets "ets" {
        /// Bands, 1 to 16; default as many as `strict` and `quanta` name.
        bands: Option<u8> = Name("bands"), Attr(1), Byte;
        /// How many of them are served strictly first; default 0.
        strict: Option<u8> = Name("strict"), Attr(2), Byte;
        /// Bytes in a turn for each sharing band.
        quanta: Vec<Bytes> = Name("quanta"), Part(3), Count;
        /// Band of each of the 16 packet priorities; default the last band for all.
        priomap: Vec<u8> = Name("priomap"), Part(5), Count;
    }
}

impl Ets {
    /// Bands after defaults.
    pub fn band_count(&self) -> u8 {
        let named = usize::from(self.strict.unwrap_or(0)) + self.quanta.len();
        self.bands.unwrap_or(u8::try_from(named).unwrap_or(u8::MAX))
    }
}

impl Kind for Ets {
    const CLASSFUL: bool = true;

    fn check(&self) -> Result<(), String> {
        let bands = self.band_count();
        need(
            (1..=16).contains(&bands),
            "ets has 1 to 16 bands: give `bands`, `strict` or `quanta`",
        )?;
        let named = usize::from(self.strict.unwrap_or(0)) + self.quanta.len();
        need(named <= usize::from(bands), "`strict` and `quanta` name more bands than there are")?;
        need(self.quanta.iter().all(|quantum| quantum.get() > 0), "a quantum of zero")?;
        check_priomap(&self.priomap, bands)
    }

    fn classes(&self) -> Option<RangeInclusive<u16>> {
        Some(1..=self.band_count().into())
    }

    fn encode(&self) -> Result<Option<Encoded>, String> {
        let mut attrs = Ets { bands: Some(self.band_count()), ..self.clone() }.attrs();
        let quanta: Vec<_> = self.quanta.iter().map(|one| attr(4, &[size(Some(*one))])).collect();
        let bands: Vec<_> = self.priomap.iter().map(|one| (6, vec![*one].into())).collect();
        let lists = [(3, quanta), (5, bands)].into_iter().filter(|(_, list)| !list.is_empty());
        attrs.extend(lists.map(|(attr, list)| (attr, Payload::List(list))));
        Ok(Some(Encoded { attrs, marked: true, ..Encoded::default() }))
    }

    fn decode(from: &Reported<'_>) -> Result<Self, OptionError> {
        let mut ets = Self::read(&[], from)?;
        for (attr, quantum) in from.list(3) {
            ets.quanta.push(Bytes::new(u32::from_ne_bytes(array(attr, quantum)?).into()));
        }
        for (attr, band) in from.list(5) {
            ets.priomap.extend(array::<1>(attr, band)?);
        }
        Ok(ets)
    }
}

options! {
    /// Flow queues with pacing, made for the host where the flows begin.
    Fq "fq" sent [8, 1, 2, 3, 4, 5, 7, 11, 9, 10, 12, 13, 14, 15] {
        /// Packets in all queues together; default 10000.
        limit: Option<u32> = Name("limit"), Attr(1), Count;
        /// Packets a flow may have waiting; default 100.
        flow_limit: Option<u32> = Name("flow_limit"), Attr(2), Count;
        /// Hash buckets, a power of two; default 1024.
        buckets: Option<u32> = Name("buckets"), Attr(8), Log2;
        /// Bytes that a flow may send in its turn; default two MTUs.
        quantum: Option<Bytes> = Name("quantum"), Attr(3), Count;
        /// Bytes that a new flow may send at first; default ten MTUs.
        initial_quantum: Option<Bytes> = Name("initial_quantum"), Attr(4), Count;
        /// A ceiling for each flow's pacing.
        maxrate: Option<Rate> = Name("maxrate"), Attr(7), Rate32;
        /// Under this rate each packet waits by itself; default 550 kbit/s.
        low_rate_threshold: Option<Rate> = Name("low_rate_threshold"), Attr(11), Rate32;
        /// Idle time after which a flow gets its initial quantum again; default 40 ms.
        refill_delay: Option<Span> = Name("refill_delay"), Attr(9), Micros;
        /// Mask for the hash of packets without a socket; default 1023.
        orphan_mask: Option<u32> = Name("orphan_mask"), Attr(10), Count;
        /// Obey the sockets' pacing rates; default on.
        pacing: Option<bool> = Flag("pacing", "nopacing"), Attr(5), Count;
        /// Mark every ECN-capable packet that waited longer than this.
        ce_threshold: Option<Span> = Name("ce_threshold"), Attr(12), Micros;
        /// Slack that the timer may take; default 10 µs.
        timer_slack: Option<Span> = Name("timer_slack"), Attr(13), Nanos;
        /// How far in the future a packet's departure may lie; default 10 s.
        horizon: Option<Span> = Name("horizon"), Attr(14), Micros;
        /// Drop packets beyond the horizon (default) or send them at it.
        horizon_drop: Option<bool> = Flag("horizon_drop", "horizon_cap"), Attr(15), Byte;
    }
}

impl Kind for Fq {
    fn check(&self) -> Result<(), String> {
        need(
            self.buckets.is_none_or(|n| n.is_power_of_two() && n <= 1 << 18),
            "`buckets` must be a power of two up to 262144",
        )
    }
}
