//! Counters of queues and classes.

use quell_tc::observed::{CakeTin, ExtraStats, Stats};
use quell_units::Span;

use crate::core::{AttrReader, DecodeError};

/// A C struct's words; those that an older kernel does not send are zero.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn u32(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    }
}

/// Reads what every queue and class counts, and of a queue what only its kind does.
pub(super) fn of(
    kind: &str,
    attrs: &AttrReader<'_>,
) -> Result<(Stats, Option<ExtraStats>), DecodeError> {
    let mut stats = Stats::default();
    let mut extra = attrs.find(libc::TCA_XSTATS)?;
    if let Some(stats2) = attrs.find(libc::TCA_STATS2)? {
        for attr in stats2.nested() {
            let attr = attr?;
            let words = Words(attr.payload);
            // `TCA_STATS_*` of `include/uapi/linux/gen_stats.h`: BASIC, QUEUE, APP, PKT64.
            match attr.kind {
                // Hardware's share is inside it already.
                1 => {
                    stats.bytes = words.u64(0);
                    stats.packets = words.u32(8).into();
                }
                8 => stats.packets = words.u64(0),
                3 => {
                    stats.backlog_packets = words.u32(0);
                    stats.backlog_bytes = words.u32(4);
                    stats.drops = words.u32(8);
                    stats.requeues = words.u32(12);
                    stats.overlimits = words.u32(16);
                }
                4 => extra = extra.or(Some(attr)),
                _ => {}
            }
        }
    } else if let Some(attr) = attrs.find(libc::TCA_STATS)? {
        // struct tc_stats: bytes, packets, drops, overlimits, two rates, queue length, backlog.
        let words = Words(attr.payload);
        stats = Stats {
            bytes: words.u64(0),
            packets: words.u32(8).into(),
            drops: words.u32(12),
            overlimits: words.u32(16),
            requeues: 0,
            backlog_packets: words.u32(28),
            backlog_bytes: words.u32(32),
        };
    }
    // sfq counts in its options: `stats` of `struct tc_sfq_qopt_v1`, of which four words are marks.
    let sfq = attrs.find(libc::TCA_OPTIONS)?.filter(|_| kind == "sfq");
    let extra = sfq.or(extra).map(|attr| of_kind(kind, attr.payload)).transpose()?.flatten();
    Ok((stats, extra))
}

/// Marks by the structs `tc_*_xstats` of `include/uapi/linux/pkt_sched.h`.
fn of_kind(kind: &str, payload: &[u8]) -> Result<Option<ExtraStats>, DecodeError> {
    let w = Words(payload);
    let sum = |words: &[usize]| words.iter().map(|at| u64::from(w.u32(*at))).sum();
    let codel = |marks, limit: usize| {
        Ok(Some(ExtraStats::Codel { marks, limit_drops: w.u32(limit).into() }))
    };
    Ok(Some(ExtraStats::Marks(match kind {
        // The first word says whether the queue or one of its flows is meant.
        "fq_codel" if w.u32(0) == 0 => return codel(sum(&[12, 28]), 8),
        "codel" => return codel(sum(&[24, 32]), 20),
        "red" => sum(&[12]),
        "pie" => sum(&[36]),
        "fq_pie" => sum(&[16]),
        "fq" => w.u64(80),
        "sfb" => sum(&[20]),
        "dualpi2" => sum(&[24]),
        // It marks with RED and ECN alone: `flags`.
        "sfq" if payload.get(43).is_some_and(|flags| flags & 1 != 0) => sum(&[56, 60, 64, 68]),
        "cake" => return Ok(Some(ExtraStats::Cake(tins(payload)?))),
        _ => return Ok(None),
    })))
}

/// `TCA_CAKE_STATS_TIN_STATS`, of each tin `TCA_CAKE_TIN_STATS_*`.
fn tins(payload: &[u8]) -> Result<Vec<CakeTin>, DecodeError> {
    let Some(list) = AttrReader::new(payload).find(10)? else { return Ok(Vec::new()) };
    list.nested().map(|one| tin(one?.nested())).collect()
}

fn tin(attrs: AttrReader<'_>) -> Result<CakeTin, DecodeError> {
    let mut tin = CakeTin::default();
    for attr in attrs {
        let attr = attr?;
        let word = Words(attr.payload).u32(0);
        match attr.kind {
            2 => tin.sent_packets = word,
            3 => tin.sent_bytes = Words(attr.payload).u64(0),
            4 => tin.dropped_packets = word,
            8 => tin.ecn_marks = word,
            10 => tin.backlog_packets = word,
            11 => tin.backlog_bytes = word,
            19 => tin.average_delay = Span::from_micros(word.into()),
            _ => {}
        }
    }
    Ok(tin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::AttrWriter;

    #[test]
    fn marks_of_each_kind_lie_where_its_struct_has_them() {
        let marks = |kind: &str, attr: u16, words: &[u32]| {
            let payload: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let mut w = AttrWriter::new();
            w.bytes(attr, &payload);
            let (_, extra) = of(kind, &AttrReader::new(w.as_bytes())).unwrap();
            extra.map(|extra| extra.ecn_marks())
        };
        let (options, xstats) = (libc::TCA_OPTIONS, libc::TCA_XSTATS);
        assert_eq!(marks("sfb", xstats, &[1, 2, 3, 4, 5, 6, 7, 8, 9]), Some(6));
        assert_eq!(marks("dualpi2", xstats, &[0, 0, 0, 3, 2, 1, 4, 4, 0, 0, 0, 0]), Some(4));
        let mut w = AttrWriter::new();
        let words = [0, 1514, 7, 3, 9, 0, 0, 2, 0, 0_u32].map(u32::to_ne_bytes).concat();
        w.bytes(xstats, &words);
        let (_, extra) = of("fq_codel", &AttrReader::new(w.as_bytes())).unwrap();
        assert_eq!(extra, Some(ExtraStats::Codel { marks: 5, limit_drops: 7 }));
        // RED with ECN is a flag in the fourth byte of the eleventh word.
        let sfq = |flags: u8| {
            let red = u32::from_ne_bytes([0, 0, 0, flags]);
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, red, 0, 9, 9, 5, 1, 3, 2]
        };
        assert_eq!(marks("sfq", options, &sfq(1)), Some(11));
        assert_eq!(marks("sfq", options, &sfq(0)), None);
    }
}
