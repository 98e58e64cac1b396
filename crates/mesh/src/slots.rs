//! Which planned slots have an end. Pure.
//!
//! ```text
//!   slots of a probe, by the wall clock:   offset, offset + interval, offset + 2·interval …
//!   planned until now  −  those that have an end  =  those that somebody must say something of
//! ```
//!
//! So a slot that nobody began, because the agent was gone, had no lease or no time, gets its end when the agent looks next.

use crate::plan::{AgentPlan, PlannedProbe};
use crate::record::{Record, RecordKind, SlotEnd};
use quell_model::rows::EchoStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Account {
    /// The first slot, and from one to the next; wall time.
    from_ns: i64,
    interval_ns: i64,
    /// Those that have an end.
    ended: u64,
}

impl Account {
    fn new(probe: &PlannedProbe, now_ns: i64) -> Self {
        Self { from_ns: next_slot(probe, now_ns), interval_ns: interval_ns(probe), ended: 0 }
    }

    fn planned(&self, now_ns: i64) -> u64 {
        let passed = now_ns.saturating_sub(self.from_ns);
        if passed < 0 { 0 } else { (passed / self.interval_ns) as u64 + 1 }
    }
}

pub fn interval_ns(probe: &PlannedProbe) -> i64 {
    probe.interval.nanos().clamp(1, i64::MAX as u64) as i64
}

/// The first slot of a probe at this time or after it.
pub fn next_slot(probe: &PlannedProbe, now_ns: i64) -> i64 {
    let interval_ns = interval_ns(probe);
    let offset_ns = (probe.offset.nanos() % interval_ns as u64) as i64;
    now_ns.saturating_add((offset_ns.saturating_sub(now_ns)).rem_euclid(interval_ns))
}

/// Of each peer and class of a plan, how many slots have an end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotAccounts(BTreeMap<(String, String), Account>);

impl SlotAccounts {
    /// Counts the ends that a record tells of.
    pub fn count(&mut self, record: &Record) {
        let ended = ends(&record.kind);
        if ended == 0 {
            return;
        }
        if let Some(account) = self.0.get_mut(&(record.peer.clone(), record.class.clone())) {
            account.ended += ended;
        }
    }

    /// Slots until now that have no end, with the time of the first of them, as far as that is known.
    fn missing(&self, now_ns: i64) -> Vec<(String, String, i64, u64)> {
        let missing = self.0.iter().filter_map(|((peer, class), account)| {
            let count = account.planned(now_ns).checked_sub(account.ended).filter(|n| *n > 0)?;
            let before = i64::try_from(account.ended).unwrap_or(i64::MAX);
            let wall_ns =
                account.from_ns.saturating_add(account.interval_ns.saturating_mul(before));
            Some((peer.clone(), class.clone(), wall_ns, count))
        });
        missing.collect()
    }

    /// The same as what is to be recorded of them, with the end that is told for a peer and class; none where it is left open.
    pub fn settled(
        &self,
        now_ns: i64,
        end: &dyn Fn(&str, &str) -> Option<SlotEnd>,
    ) -> Vec<(String, String, RecordKind)> {
        let record = |(peer, class, wall_ns, count): (String, String, i64, u64)| {
            let end = end(&peer, &class)?;
            Some((peer, class, RecordKind::Slots { wall_ns, count, end }))
        };
        self.missing(now_ns).into_iter().filter_map(record).collect()
    }

    /// Their clock was set back so far: those that passed since they began stay as many.
    pub fn set_back(&mut self, ns: u64) {
        self.0
            .values_mut()
            .for_each(|account| account.from_ns = account.from_ns.saturating_sub_unsigned(ns));
    }

    /// From now on a plan's slots are those that count, beginning anew.
    pub fn follow(&mut self, plan: &AgentPlan, now_ns: i64) {
        let accounts = plan
            .probes
            .iter()
            .map(|probe| ((probe.peer.clone(), probe.class.clone()), Account::new(probe, now_ns)));
        self.0 = accounts.collect();
    }
}

/// How many slots a record gives an end.
fn ends(kind: &RecordKind) -> u64 {
    match kind {
        RecordKind::Packets(samples) => {
            samples.iter().filter(|s| s.status != EchoStatus::Duplicate).count() as u64
        }
        RecordKind::Slots { count, .. } => *count,
        RecordKind::Thinned(_) | RecordKind::Dropped { .. } => 0,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ProbeKind;
    use quell_units::Span;

    #[test]
    fn a_clock_that_is_set_back_leaves_as_many_slots_open_as_there_were() {
        let probe = PlannedProbe {
            class: "voice".into(),
            peer: "ams".into(),
            to: "192.0.2.1".into(),
            kind: ProbeKind::Tcp,
            interval: Span::from_secs(1),
            offset: Span::ZERO,
        };
        let (agent, lease) = ("fra".into(), Span::from_secs(60));
        let plan = AgentPlan { format: 1, agent, revision: 1, lease, probes: vec![probe] };
        let (second, hour) = (1_000_000_000, 3_600_000_000_000);
        let mut slots = SlotAccounts::default();
        slots.follow(&plan, 2 * hour);
        let open = |slots: &SlotAccounts, at| slots.missing(at).first().map(|open| open.3);
        assert_eq!(open(&slots, 2 * hour + 10 * second), Some(11));
        slots.set_back(hour as u64);
        assert_eq!(open(&slots, hour + 10 * second), Some(11));
    }
}
