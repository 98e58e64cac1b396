//! Answers that quote too little of the packet that they are about: what of it can be believed.
//!
//! ```text
//!   IP header, UDP header │ payload
//!              checksum   │ secret, number           a raw socket sees all of it, the error queue of a UDP socket the payload alone
//!   ──────────────────────┘
//!   quoted: 28 bytes       raw: known by the checksum, which nobody can foresee
//!                          else: taken for that of the only packet under way, and anybody may make one up
//! ```

use super::quoted::QuotedMark;
use super::{Driver, MOST_GATE_NS};
use quell_sys::clock::monotonic_ns;

impl Driver<'_> {
    /// The packet that an answer of which the error queue shows too little is taken to be about.
    pub(super) fn take_short(&mut self, index: usize) -> Option<u64> {
        // A raw socket sees its checksum, which is told with the marks.
        if self.raw.is_some() {
            return None;
        }
        let is_sure = monotonic_ns() >= self.trusts_from_ns;
        let only = self.only_one(index).filter(|_| is_sure);
        match only {
            Some(_) => self.unmatched.trusted = true,
            // What is asked about sizes is one at a time anyway.
            None if index < self.ends.len() => self.lose_track(index),
            None => {}
        }
        only
    }

    /// An answer came of which nobody can know to which packet of this flow it belongs: what became of each of them is unknown, and from now on there is
    /// only one that it can be of.
    fn lose_track(&mut self, index: usize) {
        let was_one_at_a_time = std::mem::replace(&mut self.one_at_a_time, true);
        if !was_one_at_a_time {
            // What is under way already may still be answered.
            self.trusts_from_ns = monotonic_ns() + MOST_GATE_NS;
        }
        self.rounds.go_one_at_a_time();
        self.unmatched.short += 1;
        for under in self.under.values_mut().filter(|under| usize::from(under.flow) == index) {
            if let Some(seq) = under.seq.filter(|_| under.is_open)
                && let Some(ledger) = self.ledgers.get_mut(&(under.flow, under.ttl))
            {
                // Its own answer is yet to come, and must not meet the next one.
                under.is_open = was_one_at_a_time;
                ledger.abandoned(seq);
            }
        }
    }

    /// The only packet of that flow that is under way.
    pub(super) fn only_one(&self, index: usize) -> Option<u64> {
        let mut open = self
            .under
            .iter()
            .rev()
            .filter(|(_, under)| under.is_open && usize::from(under.flow) == index);
        let (number, _) = open.next()?;
        open.next().is_none().then_some(*number)
    }

    /// The packet under way that a UDP header of this length and checksum is of.
    pub(super) fn of_sum(&self, index: usize, header: (usize, u16), now_ns: u64) -> Option<u64> {
        let flow = &self.flows[index];
        self.under
            .iter()
            .rev()
            .take_while(|(_, under)| now_ns.saturating_sub(under.sent_ns) <= MOST_GATE_NS)
            .filter(|(_, under)| under.is_open && usize::from(under.flow) == index)
            .find(|(number, under)| flow.is_quoted_by(**number, under.size, header))
            .map(|(number, _)| *number)
    }

    /// An answer that is known by the checksum alone is told by no error queue.
    pub(super) fn came_short(&mut self, number: u64, mark: &QuotedMark) {
        if let Some(came) = &mark.short
            && let Some(under) = self.under.get(&number)
        {
            self.understand(usize::from(under.flow), came.clone());
        }
    }
}
