//! Whether a connect that was answered after its SYN had been sent again lost its first exchange. Pure.
//!
//! ```text
//!   k    SYN ───────────────────── SYN again ────── answer      to the first, which took long? to the second, since the first is lost?
//!   j          SYN ── answer                                    sent after it, answered before it
//! ```
//!
//! The kernel sends a SYN again after a second, and a server its answer too, so that time alone tells nothing (Karn). What tells:
//! - an answer sooner than a second and the least round trip after the first SYN can only be that to the first;
//! - the timestamp that the answer brings back is that of the first SYN which arrived there;
//! - a path that lets nothing overtake has lost what a later connect was answered before. One that lets packets overtake may have held the
//!   first exchange back instead; how far it does so is seen in connects that are certain. No exchange is taken to be held back by more than
//!   twice as much.

use std::collections::VecDeque;

/// The kernel sends a SYN again after so long (`TCP_TIMEOUT_INIT`, include/net/tcp.h), and a server its answer.
const REPEAT_NS: u64 = 1_000_000_000;
/// Connects that are remembered: more are never open at once.
const REMEMBERED: usize = 512;

/// What became of the first exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// It was answered; its time is the round trip.
    Answered,
    /// It was answered, or its answer was lost and came again: the round trip is at most its time.
    Unsure,
    /// Its SYN or the answer was lost.
    Lost,
    /// A SYN that was sent later was there before it: it is lost, or on its way for longer than anybody can know.
    Unknown,
}

/// A connect that was answered.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    begun_ns: u64,
    rtt_ns: u64,
}

impl Exchange {
    fn ended_ns(&self) -> u64 {
        self.begun_ns.saturating_add(self.rtt_ns)
    }
}

/// What the connects of one stream tell about each other.
#[derive(Debug, Default)]
pub struct Retries {
    least_ns: Option<u64>,
    /// By how much an exchange that was certain took longer than one that overtook it.
    held_back_ns: u64,
    certain: VecDeque<Exchange>,
}

impl Retries {
    /// A connect was answered after `rtt_ns`, and that is certain.
    pub fn certain(&mut self, begun_ns: u64, rtt_ns: u64) {
        let exchange = Exchange { begun_ns, rtt_ns };
        if let Some(by) = self.overtaken_by(exchange) {
            self.held_back_ns = self.held_back_ns.max(by);
        }
        self.least_ns = Some(self.least_ns.map_or(rtt_ns, |least| least.min(rtt_ns)));
        if self.certain.len() == REMEMBERED {
            self.certain.pop_front();
        }
        self.certain.push_back(exchange);
    }

    /// How much longer it took than the quickest that began later and was answered before it.
    fn overtaken_by(&self, slow: Exchange) -> Option<u64> {
        let overtook = |quick: &&Exchange| {
            quick.begun_ns > slow.begun_ns && quick.ended_ns() < slow.ended_ns()
        };
        let quickest = self.certain.iter().filter(overtook).map(|quick| quick.rtt_ns).min()?;
        Some(slow.rtt_ns - quickest)
    }

    /// A connect whose SYN was sent again was answered so long after the first one. `is_to_first` is what the answer's timestamp says; none
    /// where it has none.
    pub fn judge(&mut self, begun_ns: u64, took_ns: u64, is_to_first: Option<bool>) -> First {
        let exchange = Exchange { begun_ns, rtt_ns: took_ns };
        let came_first = is_to_first != Some(false);
        if came_first && self.least_ns.is_some_and(|least| took_ns < least + REPEAT_NS) {
            self.certain(begun_ns, took_ns);
            return First::Answered;
        }
        let behind = (!came_first).then_some(REPEAT_NS);
        let held_back = self.overtaken_by(exchange);
        match held_back.max(behind) {
            Some(by) if by > self.held_back_ns.saturating_mul(2) => First::Lost,
            _ if !came_first => First::Unknown,
            _ => {
                // What counts as answered counts here too.
                self.held_back_ns = self.held_back_ns.max(held_back.unwrap_or(0));
                self.least_ns = self.least_ns.or(is_to_first.and(Some(took_ns)));
                First::Unsure
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A connect each 100 ms that take so many milliseconds; those of more than a second were sent again.
    fn path(times: &[u64]) -> Vec<Option<First>> {
        let mut retries = Retries::default();
        let mut ends: Vec<(u64, u64, usize)> =
            (0..).zip(times).map(|(n, took)| (n * 100 + took, n * 100, n as usize)).collect();
        ends.sort_unstable();
        let mut fates = vec![None; times.len()];
        for (ended, begun, place) in ends {
            let took = (ended - begun) * MS;
            if took < REPEAT_NS {
                retries.certain(begun * MS, took);
            } else {
                fates[place] = Some(retries.judge(begun * MS, took, Some(true)));
            }
        }
        fates
    }

    #[test]
    fn a_queue_that_fills_and_lets_nothing_overtake_loses_nothing() {
        let fates = path(&(0..60).map(|n| 20 + n * 90).collect::<Vec<_>>());
        let told: Vec<First> = fates.into_iter().flatten().collect();
        assert!(told.len() > 40 && told[0] == First::Answered, "{told:?}");
        assert!(told.iter().all(|f| matches!(f, First::Answered | First::Unsure)), "{told:?}");
    }

    #[test]
    fn what_later_connects_were_answered_before_is_lost_where_nothing_overtakes() {
        let mut times = [40; 30];
        times[7] = 1040;
        assert_eq!(path(&times)[7], Some(First::Lost));
        // As where the times vary by some milliseconds, and one overtakes another.
        times[3] = 145;
        assert_eq!(path(&times)[7], Some(First::Lost));
        // The last has none behind it.
        times[29] = 1041;
        assert_eq!(path(&times)[29], Some(First::Unsure));
    }

    #[test]
    fn where_connects_overtake_each_other_by_much_one_that_took_long_may_have_done_so() {
        let times: Vec<u64> = (0..200).map(|n| 600 + n * 7919 % 1800).collect();
        let lost = path(&times[..]).iter().filter(|f| **f == Some(First::Lost)).count();
        assert!(lost <= 2, "before it is seen how far they overtake: {lost}");
    }

    #[test]
    fn a_later_syn_that_was_there_first_means_a_loss_unless_the_path_may_have_held_the_first_back()
    {
        let mut retries = Retries::default();
        assert_eq!(retries.judge(0, 3000 * MS, Some(true)), First::Unsure, "nothing is known yet");
        assert_eq!(retries.judge(100 * MS, 3000 * MS, Some(true)), First::Answered);
        assert_eq!(retries.judge(200 * MS, 4000 * MS, Some(false)), First::Lost);
        // One is overtaken by 0.8 s.
        retries.certain(1000 * MS, 3000 * MS);
        retries.certain(900 * MS, 3800 * MS);
        assert_eq!(retries.judge(8000 * MS, 4000 * MS, Some(false)), First::Unknown);
    }
}
