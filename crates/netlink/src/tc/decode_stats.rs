//! Counters of queues and classes.

use quell_tc::observed::*;
use quell_units::{Bytes, Rate, Span};

use crate::core::{Attr, AttrReader, DecodeError};

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

/// Reads what every queue counts, and what only its kind does.
pub(super) fn of_qdisc(
    kind: &str,
    attrs: &AttrReader<'_>,
) -> Result<(Stats, Option<ExtraStats>), DecodeError> {
    let (stats, extra) = read(attrs)?;
    // HTB's own counters are those of its classes.
    let extra = extra.filter(|_| kind != "htb");
    let extra = extra.map(|attr| of_kind(kind, attr.payload)).transpose()?.flatten();
    Ok((stats, extra))
}

/// Reads what every class counts, and HTB's classes beside. What flows inside a queue count by themselves is left out.
pub(super) fn of_class(
    kind: &str,
    attrs: &AttrReader<'_>,
) -> Result<(Stats, Option<ExtraStats>), DecodeError> {
    let (stats, extra) = read(attrs)?;
    let extra = extra.filter(|_| kind == "htb");
    let extra = extra.map(|attr| of_kind(kind, attr.payload)).transpose()?.flatten();
    Ok((stats, extra))
}

fn read<'a>(attrs: &AttrReader<'a>) -> Result<(Stats, Option<Attr<'a>>), DecodeError> {
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
    Ok((stats, extra))
}

fn of_kind(kind: &str, payload: &[u8]) -> Result<Option<ExtraStats>, DecodeError> {
    let w = Words(payload);
    Ok(Some(match kind {
        "htb" => ExtraStats::Htb(HtbStats {
            lends: w.u32(0),
            borrows: w.u32(4),
            giants: w.u32(8),
            tokens: w.u32(12) as i32,
            ctokens: w.u32(16) as i32,
        }),
        // The first word says whether the queue or one of its flows is meant.
        "fq_codel" if w.u32(0) == 0 => ExtraStats::FqCodel(FqCodelStats {
            max_packet: w.u32(4),
            drop_overlimit: w.u32(8),
            ecn_marks: w.u32(12),
            new_flows: w.u32(16),
            new_flows_len: w.u32(20),
            old_flows_len: w.u32(24),
            ce_marks: w.u32(28),
            memory_usage: w.u32(32),
            drop_overmemory: w.u32(36),
        }),
        "codel" => ExtraStats::Codel(CodelStats {
            max_packet: w.u32(0),
            count: w.u32(4),
            last_count: w.u32(8),
            last_delay_us: w.u32(12),
            drop_next_us: w.u32(16) as i32,
            drop_overlimit: w.u32(20),
            ecn_marks: w.u32(24),
            dropping: w.u32(28) != 0,
            ce_marks: w.u32(32),
        }),
        "red" => ExtraStats::Red(RedStats {
            early: w.u32(0),
            full: w.u32(4),
            other: w.u32(8),
            marked: w.u32(12),
        }),
        "pie" => ExtraStats::Pie(PieStats {
            // The kernel scales by its own range to 64 bits.
            probability: w.u64(0) as f64 / u64::MAX as f64,
            delay_us: w.u32(8),
            dq_rate: w.u32(12),
            packets_in: w.u32(20),
            dropped: w.u32(24),
            overlimit: w.u32(28),
            max_queue: w.u32(32),
            ecn_marks: w.u32(36),
        }),
        "fq_pie" => ExtraStats::FqPie(FqPieStats {
            packets_in: w.u32(0),
            dropped: w.u32(4),
            overlimit: w.u32(8),
            overmemory: w.u32(12),
            ecn_marks: w.u32(16),
            new_flows: w.u32(20),
            memory_usage: w.u32(32),
        }),
        "fq" => ExtraStats::Fq(FqStats {
            gc_flows: w.u64(0),
            highprio_packets: w.u64(8),
            throttled: w.u64(24),
            flows_plimit: w.u64(32),
            packets_too_long: w.u64(40),
            flows: w.u32(64),
            inactive_flows: w.u32(68),
            throttled_flows: w.u32(72),
            ce_marks: w.u64(80),
            horizon_drops: w.u64(88),
            horizon_caps: w.u64(96),
        }),
        "cake" => ExtraStats::Cake(cake(payload)?),
        _ => return Ok(None),
    }))
}

fn cake(payload: &[u8]) -> Result<CakeStats, DecodeError> {
    let mut stats = CakeStats::default();
    for attr in AttrReader::new(payload) {
        let attr = attr?;
        let word = Words(attr.payload).u32(0);
        match attr.kind {
            2 => stats.capacity_estimate = byte_rate(Words(attr.payload).u64(0)),
            3 => stats.memory_limit = Bytes::new(word.into()),
            4 => stats.memory_used = Bytes::new(word.into()),
            5 => stats.average_network_offset = word,
            6 => stats.network_length.0 = word,
            7 => stats.network_length.1 = word,
            8 => stats.adjusted_length.0 = word,
            9 => stats.adjusted_length.1 = word,
            10 => {
                for one in attr.nested() {
                    stats.tins.push(tin(one?.nested())?);
                }
            }
            _ => {}
        }
    }
    Ok(stats)
}

fn byte_rate(bytes_per_second: u64) -> Option<Rate> {
    (bytes_per_second > 0).then(|| Rate::from_bps(bytes_per_second.saturating_mul(8)))
}

/// One tin; `TCA_CAKE_TIN_STATS_*` in the kernel's order.
fn tin(attrs: AttrReader<'_>) -> Result<CakeTin, DecodeError> {
    let mut tin = CakeTin::default();
    for attr in attrs {
        let attr = attr?;
        let word = Words(attr.payload).u32(0);
        let wide = Words(attr.payload).u64(0);
        let us = Span::from_micros(word.into());
        match attr.kind {
            2 => tin.sent_packets = word,
            3 => tin.sent_bytes = wide,
            4 => tin.dropped_packets = word,
            5 => tin.dropped_bytes = wide,
            6 => tin.acks_dropped = word,
            8 => tin.ecn_marks = word,
            9 => tin.ecn_marked_bytes = wide,
            10 => tin.backlog_packets = word,
            11 => tin.backlog_bytes = word,
            12 => tin.threshold = byte_rate(wide),
            13 => tin.target = us,
            14 => tin.interval = us,
            15 => tin.way_indirect_hits = word,
            16 => tin.way_misses = word,
            17 => tin.way_collisions = word,
            18 => tin.peak_delay = us,
            19 => tin.average_delay = us,
            20 => tin.base_delay = us,
            21 => tin.sparse_flows = word,
            22 => tin.bulk_flows = word,
            23 => tin.unresponsive_flows = word,
            24 => tin.max_packet = word,
            25 => tin.flow_quantum = word,
            _ => {}
        }
    }
    Ok(tin)
}
