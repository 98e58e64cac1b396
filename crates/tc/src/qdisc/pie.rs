//! Proportional integral controller, enhanced: one queue (`pie`), or one for each flow (`fq_pie`).

use std::ops::RangeInclusive;

use quell_units::{Bytes, Span};

use super::fq_codel::check_flows;
use super::{Kind, up_to};
use crate::table::{Encoded, Table, options};

options! {
    /// Proportional integral controller, enhanced (RFC 8033).
    Pie "pie" sent [2, 3, 1, 4, 5, 6, 7, 8] {
        /// Packets; default 1000.
        limit: Option<u32> = Name("limit"), Attr(2), Count;
        /// Wanted delay; default 15 ms.
        target: Option<Span> = Name("target"), Attr(1), Micros;
        /// Time between updates of the drop probability; default 15 ms. The kernel rounds it to its jiffies.
        tupdate: Option<Span> = Name("tupdate"), Attr(3), Micros;
        /// Weight of the delay's distance from the target, 0 to 32; default 2.
        alpha: Option<u32> = Name("alpha"), Attr(4), Count;
        /// Weight of the delay's trend, 0 to 32; default 20.
        beta: Option<u32> = Name("beta"), Attr(5), Count;
        /// Mark instead of dropping while the probability is low; default off.
        ecn: Option<bool> = Flag("ecn", "noecn"), Attr(6), Count;
        /// Scale the probability by the packet's size; default off.
        bytemode: Option<bool> = Flag("bytemode", "nobytemode"), Attr(7), Count;
        /// Estimate the delay from the departure rate instead of timestamps; default off.
        dq_rate_estimator: Option<bool> = Flag("dq_rate_estimator", "no_dq_rate_estimator"), Attr(8), Count;
    }
}

impl Kind for Pie {}

options! {
    /// Flow queues, each under PIE.
    FqPie "fq_pie" {
        /// Packets in all queues together; default 10240.
        limit: Option<u32> = Name("limit"), Attr(1), Count;
        /// Hash buckets, 1 to 65536; default 1024.
        flows: Option<u32> = Name("flows"), Attr(2), Count;
        /// Wanted delay; default 15 ms.
        target: Option<Span> = Name("target"), Attr(3), Micros;
        /// Time between updates of the drop probability; default 15 ms. The kernel rounds it to its jiffies.
        tupdate: Option<Span> = Name("tupdate"), Attr(4), Micros;
        /// Weight of the delay's distance from the target, 0 to 32; default 2.
        alpha: Option<u32> = Name("alpha"), Attr(5), Count;
        /// Weight of the delay's trend, 0 to 32; default 20.
        beta: Option<u32> = Name("beta"), Attr(6), Count;
        /// Bytes that a flow may send in its turn; default the device's MTU with its header.
        quantum: Option<Bytes> = Name("quantum"), Attr(7), Count;
        /// Memory for all packets together; default 32 MB.
        memory_limit: Option<Bytes> = Name("memory_limit"), Attr(8), Count;
        /// Drop probability in percent up to which packets are marked instead; default 10.
        ecn_prob: Option<u32> = Name("ecn_prob"), Attr(9), Count;
        /// Mark instead of dropping while the probability is low; default off.
        ecn: Option<bool> = Flag("ecn", "noecn"), Attr(10), Count;
        /// Scale the probability by the packet's size; default off.
        bytemode: Option<bool> = Flag("bytemode", "nobytemode"), Attr(11), Count;
        /// Estimate the delay from the departure rate instead of timestamps; default off.
        dq_rate_estimator: Option<bool> = Flag("dq_rate_estimator", "no_dq_rate_estimator"), Attr(12), Count;
    }
}

impl Kind for FqPie {
    const DROPS_UNMATCHED: bool = true;

    fn check(&self) -> Result<(), String> {
        check_flows(self.flows)
    }

    fn classes(&self) -> Option<RangeInclusive<u16>> {
        Some(up_to(self.flows.unwrap_or(1024)))
    }

    fn encode(&self) -> Result<Option<Encoded>, String> {
        Ok(Some(Encoded { attrs: self.attrs(), marked: true, ..Encoded::default() }))
    }

    // As for fq_codel.
    fn changeable(&self) -> Option<Self> {
        Some(FqPie { flows: None, ..self.clone() })
    }
}
