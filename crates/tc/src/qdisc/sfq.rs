//! Stochastic fairness queueing, with RED in each flow where that is wanted.

use std::ops::RangeInclusive;

use quell_units::{Bytes, Ratio, Span};

use super::red::{Red, flags};
use super::{Kind, need, up_to};
use crate::table::{Encoded, OptionError, Reported, Table, options, word, words};
use crate::value::ratio;

options! {
    /// Stochastic fairness queueing.
    Sfq "sfq" {
        /// Packets in all queues together; default 127.
        limit: Option<u32> = Name("limit"), Head(2), Count;
        /// Time after which the hash is changed, in whole seconds; default never.
        perturb: Option<Span> = Name("perturb"), Head(1), Seconds;
        /// Bytes that a flow may send in its turn; default the device's MTU with its header.
        quantum: Option<Bytes> = Name("quantum"), Head(0), Count;
        /// Packets a flow may have waiting; default 127.
        depth: Option<u32> = Name("depth"), Head(5), Count;
        /// Drop from the head of a queue instead of its tail; default off.
        headdrop: Option<bool> = Flag("headdrop", ""), Head(6), Count;
        /// Size of the hash table, a power of two up to 65536; default 1024.
        divisor: Option<u32> = Name("divisor"), Head(3), Count;
        /// Flows that may wait at once; default 127.
        flows: Option<u32> = Name("flows"), Head(4), Count;
        /// Turns RED on in each flow, with this many bytes at most. The other RED options need it.
        redflowlimit: Option<Bytes> = Name("redflowlimit"), Head(7), Count unreported;
        /// RED: average length at which dropping begins.
        min: Option<Bytes> = Name("min"), Head(8), Count;
        /// RED: average length at which the probability is reached.
        max: Option<Bytes> = Name("max"), Head(9), Count;
        /// RED: size of an average packet.
        avpkt: Option<Bytes> = Name("avpkt"), Derived, Count unreported;
        /// RED: packets that may come at once.
        burst: Option<u32> = Name("burst"), Derived, Count unreported;
        /// RED: probability at `max`; default 2 %.
        probability: Option<Ratio> = Name("probability"), Part(0), Fraction;
        /// RED: mark instead of dropping.
        ecn: Option<bool> = Flag("ecn", ""), Part(0), Count;
        /// RED: drop even ECN-capable packets above `max`.
        harddrop: Option<bool> = Flag("harddrop", ""), Part(0), Count;
    }
}

impl Kind for Sfq {
    const DROPS_UNMATCHED: bool = true;

    fn check(&self) -> Result<(), String> {
        let seconds = self.perturb.is_none_or(|span| span.nanos() % 1_000_000_000 == 0);
        need(seconds, "`perturb` is in whole seconds")?;
        let fits = self.divisor.is_none_or(|n| n.is_power_of_two() && n <= 65536);
        need(fits, "`divisor` must be a power of two up to 65536")?;
        let red = self.min.is_some()
            || self.max.is_some()
            || self.avpkt.is_some()
            || self.burst.is_some()
            || self.probability.is_some()
            || self.ecn.is_some()
            || self.harddrop.is_some();
        need(self.redflowlimit.is_some() || !red, "RED in sfq needs `redflowlimit`")
    }

    fn classes(&self) -> Option<RangeInclusive<u16>> {
        Some(up_to(self.divisor.unwrap_or(1024)))
    }

    fn encode(&self) -> Result<Option<Encoded>, String> {
        let mut all = self.head();
        all.resize(10, 0);
        let (mut logs, mut max_p) = ([0; 4], 0);
        if let Some(limit) = self.redflowlimit {
            let avpkt = self.avpkt.or(Some(Bytes::new(1000)));
            let Sfq { min, max, burst, probability, .. } = *self;
            let limit = Some(limit);
            let red = Red { limit, min, max, avpkt, burst, probability, ..Red::default() };
            // Ageing while idle does not matter inside sfq: any rate will do, this is tc's.
            let sums = red.sums(1_250_000)?;
            let flags = flags([self.ecn, self.harddrop, None, None]);
            (all[8], all[9]) = (sums.min, sums.max);
            logs = [sums.w_log, sums.p_log, 0, flags as u8];
            max_p = sums.max_p;
        }
        let mut head = words(&all);
        head.extend(logs);
        head.extend(words(&[max_p]));
        // Room for the counters of tc_sfqred_stats, which only the kernel fills.
        head.extend([0; 24]);
        Ok(Some(Encoded { head, ..Encoded::default() }))
    }

    fn decode(from: &Reported<'_>) -> Result<Self, OptionError> {
        from.behind("tc_sfq_qopt", 4)?;
        // The kernel does not report RED's limit; its thresholds say whether there is RED.
        let all = Sfq { redflowlimit: None, ..Self::read(from.payload, from)? };
        if all.min.is_none_or(|min| min.get() == 0) {
            return Ok(Sfq { min: None, max: None, ..all });
        }
        let flags = from.payload.get(43).copied().unwrap_or(0);
        Ok(Sfq {
            probability: word(from.payload, 11).map(ratio),
            ecn: Some(flags & 1 != 0),
            harddrop: Some(flags & 2 != 0),
            ..all
        })
    }

    fn changeable(&self) -> Option<Self> {
        None
    }
}
