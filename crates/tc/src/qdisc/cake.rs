//! CAKE: shaper, isolation, DiffServ tins and AQM in one queue.

use std::ops::RangeInclusive;

use quell_units::{Bytes, Rate, Span};

use super::{Kind, need, nonzero};
use crate::table::{Encoded, Table, attr, choice, options};
use crate::value::saturate;

options! {
    /// Common Applications Kept Enhanced.
    Cake "cake" sent [2, 3, 4, 5, 6, 14, 7, 9, 10, 18, 11, 13, 17, 15, 16] {
        /// The shaper's rate; without it CAKE does not shape.
        bandwidth: Option<Rate> = Name("bandwidth"), Attr(2), Rate64;
        /// Estimate the rate from what arrives (ingress only).
        autorate: Option<bool> = Flag("autorate-ingress", ""), Attr(9), Count;
        /// Usual round-trip time to the far end; default 100 ms.
        rtt: Option<Span> = Name("rtt"), Attr(7), Micros;
        /// How DSCPs become tins; default `diffserv3`.
        diffserv: Option<Diffserv> = Bare, Attr(3), Count;
        /// Between what CAKE is fair; default `triple-isolate`.
        isolation: Option<FlowIsolation> = Bare, Attr(5), Count;
        /// Look through NAT for the inner addresses; default off.
        nat: Option<bool> = Flag("nat", "nonat"), Attr(11), Count;
        /// Clear the DSCP after use; default off.
        wash: Option<bool> = Flag("wash", "nowash"), Attr(13), Count;
        /// Split super-packets; default on.
        split_gso: Option<bool> = Flag("split-gso", "no-split-gso"), Attr(17), Count;
        /// Count what the AQM drops too, for shaping on the far side of the bottleneck; default off.
        ingress: Option<bool> = Flag("ingress", "egress"), Attr(15), Count;
        /// Drop redundant TCP ACKs; default off.
        ack_filter: Option<AckFilter> = Bare, Attr(16), Count;
        /// Cells of the link below.
        framing: Option<Framing> = Bare, Attr(4), Count;
        /// Bytes added to each packet, −64 to 256. Giving it makes CAKE count from the network header.
        overhead: Option<i16> = Name("overhead"), Attr(6), Count;
        /// The least that a packet counts as, up to 256.
        mpu: Option<u16> = Name("mpu"), Attr(14), Count;
        /// Memory for all packets together; default by bandwidth and rtt.
        memlimit: Option<Bytes> = Name("memlimit"), Attr(10), Count;
        /// Mask of the firewall mark that chooses the tin; default none.
        fwmark: Option<u32> = Name("fwmark"), Attr(18), Mask;
    }
}

impl Kind for Cake {
    fn check(&self) -> Result<(), String> {
        let fits = self.overhead.is_none_or(|n| (-64..=256).contains(&n));
        need(fits, "`overhead` must be from -64 to 256")?;
        need(self.mpu.is_none_or(|n| n <= 256), "`mpu` must be at most 256")?;
        nonzero(self.bandwidth, "bandwidth")
    }

    fn classes(&self) -> Option<RangeInclusive<u16>> {
        Some(1..=u16::MAX)
    }

    fn encode(&self) -> Result<Option<Encoded>, String> {
        let autorate = self.autorate.or(self.bandwidth.map(|_| false));
        let mut attrs = Cake { autorate, ..self.clone() }.attrs();
        if let Some(rtt) = self.rtt {
            // CoDel's usual proportion; CAKE has no default of its own for another rtt.
            let target = saturate(rtt.nanos() / 1000 / 20).max(1);
            let after = attrs.iter().position(|(attr, _)| *attr == 7).map_or(0, |at| at + 1);
            attrs.insert(after, attr(8, &[target]));
        }
        Ok(Some(Encoded { attrs, ..Encoded::default() }))
    }
}

choice! {
    /// How DSCPs become tins.
    #[serde(rename_all = "lowercase")]
    Diffserv {
        /// Bulk, best effort, voice.
        Diffserv3 "diffserv3",
        /// Bulk, best effort, video, voice.
        Diffserv4 "diffserv4",
        /// Eight tins.
        Diffserv8 "diffserv8",
        /// One tin.
        BestEffort "besteffort",
        /// By the old precedence bits.
        Precedence "precedence",
    }
}

choice! {
    /// Between what CAKE is fair. The kernel's number has a bit 6 too, "look through NAT", which it reports on its own as well.
    #[serde(rename_all = "kebab-case")]
    FlowIsolation & 7 {
        /// Nothing.
        Flowblind "flowblind",
        /// Source hosts only.
        Srchost "srchost",
        /// Destination hosts only.
        Dsthost "dsthost",
        /// Pairs of hosts.
        Hosts "hosts",
        /// Flows only.
        Flows "flows",
        /// Source hosts, then flows.
        DualSrchost "dual-srchost",
        /// Destination hosts, then flows.
        DualDsthost "dual-dsthost",
        /// Hosts on both sides, then flows.
        TripleIsolate "triple-isolate",
    }
}

choice! {
    /// Which redundant TCP ACKs CAKE drops.
    #[serde(rename_all = "lowercase")]
    AckFilter {
        /// None.
        Off "no-ack-filter",
        /// Those that the next ACK makes useless.
        On "ack-filter",
        /// More of them, at the cost of some clocking.
        Aggressive "ack-filter-aggressive",
    }
}

choice! {
    /// Cells of the link below.
    #[serde(rename_all = "lowercase")]
    Framing {
        /// No cells.
        NoAtm "noatm",
        /// 53-byte cells that carry 48 (ADSL).
        Atm "atm",
        /// 65-byte blocks that carry 64 (VDSL).
        Ptm "ptm",
    }
}
