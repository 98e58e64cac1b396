//! Network emulation.
//!
//! Jitter is uniform: the tables for other distributions are not offered.

use std::ops::RangeInclusive;

use quell_units::{Bytes, Rate, Ratio, Span};
use serde::{Deserialize, Serialize};

use super::{Kind, need, nonzero};
use crate::table::{
    Attrs, Encoded, OptionError, Payload, Reported, Table, Unit, Value, array, attr, options, wide,
    word, words,
};
use crate::value::{rate, ratio, saturate, size, time};

options! {
    /// Delay, loss, duplication, corruption, reordering and a rate, in the order in which the kernel applies them.
    Netem "netem" {
        /// Packets that may wait; default 1000. It also bounds what is delayed: at least rate × delay is needed.
        limit: Option<u32> = Name("limit"), Head(1), Count;
        /// Time added to each packet.
        delay: Option<Span> = Name("delay"), Head(0), Ticks;
        /// Spread of the delay, ± uniform. It reorders packets unless `rate` is given too.
        jitter: Option<Span> = Bare, Head(5), Ticks;
        /// How much one packet's delay follows the last one's.
        delay_correlation: Option<Ratio> = Bare, Part(1), Share;
        /// Loss in bursts; not together with `loss`.
        gemodel: Option<GilbertElliott> = Name("loss gemodel"), Part(5), Share;
        /// Independent loss.
        loss: Option<Ratio> = Name("loss random"), Head(2), Share;
        /// How much one loss follows the last; the kernel's documents advise against it, see `gemodel`.
        loss_correlation: Option<Ratio> = Bare, Part(1), Share;
        /// Mark ECN-capable packets instead of losing them.
        ecn: Option<bool> = Flag("ecn", ""), Part(7), Count;
        /// Packets sent twice.
        duplicate: Option<Ratio> = Name("duplicate"), Head(4), Share;
        /// How much one duplicate follows the last.
        duplicate_correlation: Option<Ratio> = Bare, Part(1), Share;
        /// Packets with one bit wrong.
        corrupt: Option<Ratio> = Name("corrupt"), Part(4), Share;
        /// How much one corruption follows the last.
        corrupt_correlation: Option<Ratio> = Bare, Part(4), Share;
        /// Packets that skip the delay; needs `delay`.
        reorder: Option<Ratio> = Name("reorder"), Part(3), Share;
        /// How much one reordering follows the last.
        reorder_correlation: Option<Ratio> = Bare, Part(3), Share;
        /// Every how many packets one may skip the delay; default 1.
        gap: Option<u32> = Name("gap"), Head(3), Count;
        /// The link's rate; packets then leave in order.
        rate: Option<Rate> = Name("rate"), Part(6), Rate64;
        /// Bytes added to each packet (or taken, if negative) before the rate.
        packet_overhead: Option<i32> = Bare, Part(6), Count;
        /// Payload of a cell, 0 for none; 48 for ATM.
        cell_size: Option<u32> = Bare, Part(6), Count;
        /// Bytes added to each cell; 5 for ATM.
        cell_overhead: Option<i32> = Bare, Part(6), Count;
        /// Sends in bursts with pauses, as radio links do.
        slot: Option<Slot> = Name("slot"), Part(12), Nanos;
    }
}

/// The Gilbert-Elliott model: a good and a bad state, each with its own loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// From good to bad, at each packet.
    pub to_bad: Ratio,
    /// From bad to good, at each packet.
    pub to_good: Ratio,
    /// Loss in the bad state (`tc` writes 1-h); 100 % if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_in_bad: Option<Ratio>,
    /// Loss in the good state (`tc` writes 1-k); none if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_in_good: Option<Ratio>,
}

/// When netem lets packets go: at the start of a slot, at most so many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Shortest time to the next slot.
    pub min: Span,
    /// Longest time to the next slot; default `min`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Span>,
    /// Packets in a slot at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Bytes in a slot at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
}

impl Kind for Netem {
    const CLASSFUL: bool = true;

    fn check(&self) -> Result<(), String> {
        need(
            self.gemodel.is_none() || (self.loss.is_none() && self.loss_correlation.is_none()),
            "`loss` and `gemodel` are two ways to lose packets: give one",
        )?;
        need(self.jitter.is_none() || self.delay.is_some(), "`jitter` needs `delay`")?;
        need(self.reorder.is_none() || self.delay.is_some(), "`reorder` needs `delay`")?;
        need(self.gap.is_none() || self.reorder.is_some(), "`gap` needs `reorder`")?;
        for (name, whole, part) in [
            ("delay_correlation", self.jitter.is_some(), self.delay_correlation),
            ("loss_correlation", self.loss.is_some(), self.loss_correlation),
            ("duplicate_correlation", self.duplicate.is_some(), self.duplicate_correlation),
            ("corrupt_correlation", self.corrupt.is_some(), self.corrupt_correlation),
            ("reorder_correlation", self.reorder.is_some(), self.reorder_correlation),
        ] {
            need(whole || part.is_none(), &format!("`{name}` has nothing to correlate"))?;
        }
        let framing = self.packet_overhead.is_some()
            || self.cell_size.is_some()
            || self.cell_overhead.is_some();
        need(self.rate.is_some() || !framing, "overhead and cells need `rate`")?;
        nonzero(self.rate, "rate")
    }

    fn classes(&self) -> Option<RangeInclusive<u16>> {
        Some(1..=1)
    }

    // What `tc` tells apart by its place alone must be there if something follows it.
    fn worded(&self) -> Self {
        let mut all = self.clone();
        if all.cell_overhead.is_some() {
            all.cell_size.get_or_insert(0);
        }
        if all.cell_size.is_some() {
            all.packet_overhead.get_or_insert(0);
        }
        all
    }

    fn encode(&self) -> Result<Option<Encoded>, String> {
        let some = self.reorder.is_some_and(|ratio| ratio.as_f64() > 0.0);
        let limit = self.limit.or(Some(1000));
        let mut head = Netem { limit, gap: self.gap.or(Some(some.into())), ..self.clone() }.head();
        head.resize(6, 0);
        Ok(Some(Encoded { head: words(&head), attrs: self.behind(), marked: false }))
    }

    fn decode(from: &Reported<'_>) -> Result<Self, OptionError> {
        let rest = from.behind("tc_netem_qopt", 24)?;
        let words = |attr| {
            let payload = rest.find(attr).unwrap_or_default();
            [0, 1, 2, 3].map(|index| word(payload, index).unwrap_or(0))
        };
        let given = |scaled: u32| (scaled != 0).then(|| ratio(scaled));
        let [delay_correlation, loss_correlation, duplicate_correlation, _] = words(1);
        let ([reorder, reorder_correlation, ..], [corrupt, corrupt_correlation, ..]) =
            (words(3), words(4));
        let [slow_rate, packet_overhead, cell_size, cell_overhead] = words(6);
        let byte_rate = rest.u64(8)?.unwrap_or(slow_rate.into());
        let rated = byte_rate > 0;
        let head = Self::read(&from.payload[..24], &rest)?;
        let exact = |attr, by_ticks: Option<Span>| {
            let nanos = rest.u64(attr)?.filter(|nanos| i64::try_from(*nanos).is_ok());
            Ok(nanos.map(Span::from_nanos).or(by_ticks).filter(|span| !span.is_zero()))
        };
        let model = rest.list(5).into_iter().find(|(number, _)| *number == 2);
        Ok(Netem {
            limit: head.limit,
            delay: exact(10, head.delay)?,
            jitter: exact(11, head.jitter)?,
            delay_correlation: given(delay_correlation),
            loss: head.loss.filter(|ratio| !ratio.is_zero()),
            loss_correlation: given(loss_correlation),
            gemodel: model.map(|(_, payload)| {
                let at = |index| ratio(word(payload, index).unwrap_or(0));
                GilbertElliott {
                    to_bad: at(0),
                    to_good: at(1),
                    loss_in_bad: Some(ratio(u32::MAX - word(payload, 2).unwrap_or(0))),
                    loss_in_good: Some(at(3)),
                }
            }),
            ecn: rest.u32(7)?.map(|on| on != 0),
            duplicate: head.duplicate.filter(|ratio| !ratio.is_zero()),
            duplicate_correlation: given(duplicate_correlation),
            corrupt: given(corrupt),
            corrupt_correlation: given(corrupt_correlation),
            reorder: given(reorder),
            reorder_correlation: given(reorder_correlation),
            gap: head.gap.filter(|gap| *gap != 0),
            rate: rated.then(|| rate(byte_rate)),
            packet_overhead: rated.then_some(packet_overhead as i32),
            cell_size: rated.then_some(cell_size),
            cell_overhead: rated.then_some(cell_overhead as i32),
            slot: rest.find(12).and_then(Slot::read),
        })
    }
}

impl Netem {
    /// The attributes behind the struct, in `tc`'s order.
    fn behind(&self) -> Attrs {
        let mut attrs = Attrs::new();
        let correlations =
            [self.delay_correlation, self.loss_correlation, self.duplicate_correlation];
        if correlations.iter().any(Option::is_some) {
            attrs.push(attr(1, &correlations.map(scaled)));
        }
        if self.reorder.is_some() {
            attrs.push(attr(3, &[scaled(self.reorder), scaled(self.reorder_correlation)]));
        }
        if self.ecn == Some(true) {
            attrs.push(attr(7, &[1]));
        }
        if self.corrupt.is_some() {
            attrs.push(attr(4, &[scaled(self.corrupt), scaled(self.corrupt_correlation)]));
        }
        attrs.extend(self.slot.as_ref().map(|slot| (12, slot.to_bytes().into())));
        attrs.extend(self.gemodel.as_ref().map(|model| (5, model.encode())));
        if let Some(rate) = self.rate.map(Rate::bytes_per_second) {
            attrs.extend((rate >= 1 << 32).then(|| wide(8, rate)));
            let framing = [self.packet_overhead, self.cell_overhead].map(|n| n.unwrap_or(0) as u32);
            let cells = self.cell_size.unwrap_or(0);
            attrs.push(attr(6, &[saturate(rate), framing[0], cells, framing[1]]));
        }
        // Where ticks of 64 ns can't say it, the 64-bit attributes do; the kernel prefers them.
        for (number, span) in [(10, self.delay), (11, self.jitter)] {
            let nanos = span.map_or(0, Span::nanos);
            if nanos % 64 != 0 || nanos / 64 > u32::MAX.into() {
                attrs.push(wide(number, nanos.min(i64::MAX as u64)));
            }
        }
        attrs
    }
}

fn scaled(ratio: Option<Ratio>) -> u32 {
    ratio.map_or(0, Ratio::to_u32_scaled)
}

impl GilbertElliott {
    fn encode(&self) -> Payload {
        let lost_in_bad = self.loss_in_bad.map_or(1_000_000_000, Ratio::ppb);
        let kept_in_bad = Ratio::from_ppb(1_000_000_000u64.saturating_sub(lost_in_bad));
        let rest = [kept_in_bad, self.loss_in_good].map(scaled);
        let moves = [self.to_bad, self.to_good].map(Ratio::to_u32_scaled);
        Payload::List(vec![attr(2, &[moves, rest].concat())])
    }
}

impl Value for GilbertElliott {
    fn text(&self, _: Unit) -> String {
        let mut text = format!("{} {}", self.to_bad, self.to_good);
        if self.loss_in_bad.is_some() || self.loss_in_good.is_some() {
            text += &format!(" {}", self.loss_in_bad.unwrap_or(Ratio::ONE));
        }
        text + &self.loss_in_good.map(|loss| format!(" {loss}")).unwrap_or_default()
    }
}

impl Slot {
    fn to_bytes(&self) -> Vec<u8> {
        let max = self.max.unwrap_or(self.min);
        let mut bytes = [self.min.nanos().to_ne_bytes(), max.nanos().to_ne_bytes()].concat();
        bytes.extend(words(&[self.packets.unwrap_or(0), size(self.bytes), 0, 0, 0, 0]));
        bytes
    }

    fn read(payload: &[u8]) -> Option<Slot> {
        let wide = |at: usize| {
            let bytes = array(0, payload.get(at..at + 8)?).ok()?;
            Some(Span::from_nanos(u64::from_ne_bytes(bytes)))
        };
        // The kernel reports "no bound" as the largest number.
        let bound =
            |index| word(payload, index).filter(|value| *value != i32::MAX as u32 && *value != 0);
        let bytes = bound(5).map(|bytes| Bytes::new(bytes.into()));
        Some(Slot { min: wide(0)?, max: wide(8), packets: bound(4), bytes })
    }
}

impl Value for Slot {
    fn text(&self, unit: Unit) -> String {
        let mut text = format!("{} {}", time(self.min), time(self.max.unwrap_or(self.min)));
        if let Some(packets) = self.packets {
            text += &format!(" packets {packets}");
        }
        if let Some(bytes) = self.bytes {
            text += &format!(" bytes {}", bytes.text(unit));
        }
        text
    }
}
