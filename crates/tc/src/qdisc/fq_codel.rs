//! Controlled delay: one queue (`codel`), or one for each flow (`fq_codel`).

use std::ops::RangeInclusive;

use quell_units::{Bytes, Span};

use super::{Kind, need, up_to};
use crate::table::options;

options! {
    /// Flow queues, each under CoDel (RFC 8290).
    FqCodel "fq_codel" sent [2, 5, 6, 3, 1, 4, 7, 9, 8] {
        /// Packets in all queues together; the kernel's default is 10240.
        limit: Option<u32> = Name("limit"), Attr(2), Count;
        /// Hash buckets, 1 to 65536; default 1024. Can't be changed in place.
        flows: Option<u32> = Name("flows"), Attr(5), Count;
        /// Bytes that a flow may send in its turn; default the device's MTU with its header.
        quantum: Option<Bytes> = Name("quantum"), Attr(6), Count;
        /// Acceptable standing delay; default 5 ms.
        target: Option<Span> = Name("target"), Attr(1), Micros;
        /// Window in which the minimum is taken, about the worst round-trip time; default 100 ms.
        interval: Option<Span> = Name("interval"), Attr(3), Micros;
        /// Mark every ECN-capable packet that waited longer than this.
        ce_threshold: Option<Span> = Name("ce_threshold"), Attr(7), Micros;
        /// Memory for all packets together; default 32 MB.
        memory_limit: Option<Bytes> = Name("memory_limit"), Attr(9), Count;
        /// Packets dropped at once when the limits are passed; default 64.
        drop_batch: Option<u32> = Name("drop_batch"), Attr(8), Count;
        /// Mark ECN-capable packets instead of dropping them; default on.
        ecn: Option<bool> = Flag("ecn", "noecn"), Attr(4), Count;
    }
}

impl Kind for FqCodel {
    const DROPS_UNMATCHED: bool = true;

    fn check(&self) -> Result<(), String> {
        check_flows(self.flows)
    }

    fn classes(&self) -> Option<RangeInclusive<u16>> {
        Some(up_to(self.flows.unwrap_or(1024)))
    }

    // The number of queues is fixed when they are made, and the kernel refuses to hear it again.
    fn changeable(&self) -> Option<Self> {
        Some(FqCodel { flows: None, ..self.clone() })
    }
}

options! {
    /// Controlled delay on one queue (RFC 8289).
    Codel "codel" sent [2, 3, 1, 4, 5] {
        /// Packets; default 1000.
        limit: Option<u32> = Name("limit"), Attr(2), Count;
        /// Acceptable standing delay; default 5 ms.
        target: Option<Span> = Name("target"), Attr(1), Micros;
        /// Window in which the minimum is taken; default 100 ms.
        interval: Option<Span> = Name("interval"), Attr(3), Micros;
        /// Mark every ECN-capable packet that waited longer than this.
        ce_threshold: Option<Span> = Name("ce_threshold"), Attr(5), Micros;
        /// Mark instead of dropping; default off.
        ecn: Option<bool> = Flag("ecn", "noecn"), Attr(4), Count;
    }
}

impl Kind for Codel {}

pub(super) fn check_flows(flows: Option<u32>) -> Result<(), String> {
    need(flows.is_none_or(|n| (1..=65536).contains(&n)), "`flows` must be from 1 to 65536")
}
