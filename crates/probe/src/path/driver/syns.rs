//! What SYNs need beside what all packets do: they are sent again by the kernel, one at a time from a port, and may meet the connection before them.

use super::under::PacketUnderWay;
use super::{Driver, LEAST_GATE_NS, MOST_GATE_NS};
use crate::ledger::EchoReply;
use crate::path::ProbeKind;
use crate::path::sockets::{BEFORE_AGAIN_NS, QUICK_NS, RepeatedSyn, SynCollision};
use crate::retry::{Connect, FirstSyn, SynProbe};

/// So often an answer of a hop is awaited in vain before it counts as one that keeps silent.
const IN_VAIN: u32 = 2;

impl Driver<'_> {
    pub(super) fn gate(&self, under: &PacketUnderWay) -> u64 {
        match self.spec.sent {
            // The next one from the same port can't leave before this one is given up, and then its answer would be nobody's.
            ProbeKind::Tcp if under.seq.is_some() && !self.is_silent(under.ttl) => {
                self.patience.wait_ns()
            }
            // One to a hop that keeps silent is given up before it is sent again.
            ProbeKind::Tcp => BEFORE_AGAIN_NS.min(self.patience.wait_ns()),
            _ => self.longest_ns.saturating_mul(4).clamp(LEAST_GATE_NS, MOST_GATE_NS),
        }
    }

    /// Whether a hop never answered a SYN, however long that was awaited.
    pub(super) fn is_silent(&self, ttl: u8) -> bool {
        let in_vain = self.in_vain.get(usize::from(ttl) - 1).copied().flatten();
        in_vain.is_some_and(|times| times >= IN_VAIN)
    }

    pub(super) fn give_up(&mut self, number: u64) {
        let Some(under) = self.under.get_mut(&number) else { return };
        under.is_open = false;
        let under = *under;
        let place = (under.flow, under.ttl);
        let met = self.flows[usize::from(under.flow)].give_up(number);
        if self.spec.sent != ProbeKind::Tcp {
            return;
        }
        let arrived = match met {
            SynCollision::Nothing => false,
            SynCollision::SentAgain => !self.connects.times(under.ttl).are_below(QUICK_NS),
            SynCollision::Any => true,
        };
        // It may have arrived, and the other end kept silent: it answers such a SYN twice a second at most (`tcp_oow_rate_limited`, net/ipv4/tcp_input.c).
        let was_left_over = self.left_over.contains(&place);
        if met != SynCollision::Nothing {
            self.left_over.insert(place);
        }
        if (arrived || was_left_over)
            && let Some(seq) = under.seq
            && let Some(ledger) = self.ledgers.get_mut(&place)
        {
            ledger.unsure(seq, None);
        }
        // Nothing will be heard of it any more.
        if self.is_silent(under.ttl)
            && let Some(seq) = under.seq
            && let Some(ledger) = self.ledgers.get_mut(&place)
        {
            ledger.abandoned(seq);
        }
        if let Some(Some(times)) = self.in_vain.get_mut(usize::from(under.ttl) - 1)
            && under.seq.is_some()
        {
            *times += 1;
        }
    }

    /// Tells what became of SYNs that were sent again, once no answer is waited for any more at this time, or at the end.
    pub(super) fn decide(&mut self, now: Option<i64>) {
        let ledgers = &self.ledgers;
        let is_due = |probe: &SynProbe| {
            let ledger = now.zip(ledgers.get(&(probe.flow, probe.ttl)));
            ledger.is_none_or(|(now, ledger)| ledger.expiring_before(now) > probe.seq)
        };
        for (probe, connect, first) in self.connects.decide(is_due) {
            let Some(ledger) = self.ledgers.get_mut(&(probe.flow, probe.ttl)) else { continue };
            match first {
                FirstSyn::Answered => {
                    let rtt_ns = connect.took_ns;
                    ledger.reply(probe.seq, EchoReply { rtt_ns, ..EchoReply::default() });
                }
                FirstSyn::Lost => ledger.lost(probe.seq),
                FirstSyn::Unsure => {
                    let took_ns = connect.may_be_to_first().then_some(connect.took_ns);
                    ledger.unsure(probe.seq, took_ns);
                }
            }
        }
    }

    /// A SYN was answered: that tells how long others are to be awaited, and what became of those that were sent again.
    pub(super) fn answered(
        &mut self,
        under: &PacketUnderWay,
        seq: u64,
        took_ns: u64,
        again: Option<RepeatedSyn>,
    ) {
        if self.spec.sent != ProbeKind::Tcp {
            return;
        }
        if let Some(in_vain) = self.in_vain.get_mut(usize::from(under.ttl) - 1) {
            *in_vain = None;
        }
        let is_to_first = again.map_or(Some(true), |again| again.is_to_first);
        let connect = Connect { begun_ns: under.sent_ns, took_ns, is_to_first };
        if connect.may_be_to_first() {
            self.patience.saw(took_ns);
        }
        let was_left_over = self.left_over.remove(&(under.flow, under.ttl));
        if again.is_some_and(|again| again.is_disturbed || was_left_over) {
            if let Some(ledger) = self.ledgers.get_mut(&(under.flow, under.ttl)) {
                ledger.unsure(seq, None);
            }
            return;
        }
        match again {
            None => self.connects.times(under.ttl).certain(under.sent_ns, took_ns),
            Some(_) => {
                let probe = SynProbe { flow: under.flow, ttl: under.ttl, seq };
                self.connects.undecided(probe, connect);
            }
        }
    }
}
