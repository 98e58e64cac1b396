//! Losses, reordering and copies of a fast flow, from sequence numbers as they arrive: bounded memory, and almost no time.
//!
//! ```text
//!   … │ forgotten │ 1 1 0 1 1 1 0 0 1 1 … 1 │ not seen yet
//!                   └── the last WINDOW ──┘ ▲ next
//! ```
//!
//! Without a window its memory would grow with the open gaps, which for a flow of a million packets a second, half of them lost, is a
//! gigabyte a minute.

/// How many numbers behind the newest one are told apart. What arrives later than that is counted as reordered though it may be a copy.
pub const WINDOW: u64 = 1 << 16;

/// Larger jumps ahead than this are nonsense and not counted as losses.
const LARGEST_JUMP: u64 = 1 << 32;

/// Counts by Type-P-Reordered of RFC 4737 section 3, over a window: a packet is reordered if its number is smaller than NextExp, which is one
/// above the largest number so far. A second copy of a packet is a duplicate and not reordered, wherever it arrives.
#[derive(Debug, Clone)]
pub struct RecentOrder {
    first: u64,
    next: u64,
    seen: Box<[u64]>,
    arrived: u64,
    reordered: u64,
    duplicates: u64,
    nonsense: u64,
}

impl RecentOrder {
    pub fn new(first: u64) -> Self {
        Self::within(first, WINDOW)
    }

    /// The same with a window of so many numbers, up to a whole word of them: for one of many flows that share what one would have.
    pub fn within(first: u64, window: u64) -> Self {
        let seen = vec![0; window.div_ceil(64).max(1) as usize].into_boxed_slice();
        Self { first, next: first, seen, arrived: 0, reordered: 0, duplicates: 0, nonsense: 0 }
    }

    /// Takes the number of the next packet to arrive; whether it is the first of this number.
    pub fn push(&mut self, seq: u64) -> bool {
        if seq >= self.next {
            if seq - self.next > LARGEST_JUMP {
                self.nonsense += 1;
                return false;
            }
            self.advance(seq);
        } else if seq < self.first {
            self.nonsense += 1;
            return false;
        } else if self.next - seq <= self.words() * 64 {
            if self.has(seq) {
                self.duplicates += 1;
                return false;
            }
            self.reordered += 1;
        } else {
            self.reordered += 1;
            self.arrived += 1;
            return true;
        }
        self.mark(seq);
        self.arrived += 1;
        true
    }

    /// Makes `seq` the newest: numbers between were not seen.
    fn advance(&mut self, seq: u64) {
        // Words that come to stand for newer numbers are cleared when the first of these is entered.
        let (last, now) = (self.next.wrapping_sub(1) / 64, seq / 64);
        let from = if self.next == 0 { 0 } else { last.saturating_add(1) };
        if now >= from {
            if now - from >= self.words() {
                self.seen.fill(0);
            } else {
                for word in from..=now {
                    let place = (word % self.words()) as usize;
                    self.seen[place] = 0;
                }
            }
        }
        self.next = seq.saturating_add(1);
    }

    fn words(&self) -> u64 {
        self.seen.len() as u64
    }

    fn place(&self, seq: u64) -> (usize, u64) {
        ((seq / 64 % self.words()) as usize, 1 << (seq % 64))
    }

    fn has(&self, seq: u64) -> bool {
        // The oldest word of the window is shared with the newest numbers.
        if self.next.saturating_sub(1) / 64 - seq / 64 >= self.words() {
            return false;
        }
        let (word, bit) = self.place(seq);
        self.seen[word] & bit != 0
    }

    fn mark(&mut self, seq: u64) {
        if self.next.saturating_sub(1) / 64 - seq / 64 < self.words() {
            let (word, bit) = self.place(seq);
            self.seen[word] |= bit;
        }
    }

    /// The whole number of a packet that carries only the lower 32 bits of it: the one nearest to the newest.
    pub fn widen(&self, low: u32) -> u64 {
        let ahead = low.wrapping_sub(self.next as u32) as i32;
        self.next.checked_add_signed(ahead.into()).unwrap_or(low.into())
    }

    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// How many packets the sender had sent when it sent the newest one that arrived.
    pub fn sent(&self) -> u64 {
        self.next - self.first
    }

    /// Those of them that have not arrived, or not yet.
    pub fn missing(&self) -> u64 {
        self.sent().saturating_sub(self.arrived)
    }

    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Numbers that this flow can't have.
    pub fn nonsense(&self) -> u64 {
        self.nonsense
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn of(first: u64, sequence: impl IntoIterator<Item = u64>) -> RecentOrder {
        let mut order = RecentOrder::new(first);
        sequence.into_iter().for_each(|seq| {
            order.push(seq);
        });
        order
    }

    #[test]
    fn in_a_small_window_a_copy_is_known_as_long_as_its_number_is_in_it() {
        let mut order = RecentOrder::within(1, 128);
        (1..=1000).for_each(|seq| assert!(order.push(seq)));
        assert!(!order.push(1000 - 60), "a copy");
        assert!(order.push(1000 - 128), "late, or a copy: nobody knows any more");
        assert_eq!((order.duplicates(), order.reordered(), order.sent()), (1, 1, 1000));
    }

    #[test]
    fn a_lost_a_late_and_a_doubled_packet_are_told_apart() {
        let order = of(1, [1, 2, 4, 5, 3, 5, 8]);
        assert_eq!((order.arrived(), order.sent(), order.missing()), (6, 8, 2));
        assert_eq!((order.reordered(), order.duplicates()), (1, 1));
    }

    #[test]
    fn a_packet_behind_its_successors_is_reordered_and_losses_and_copies_are_not() {
        // By hand, NextExp in brackets.
        for (sequence, counts) in [
            (&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10][..], (10, 1, 0)), // 4 (9)
            (&[1, 2, 3, 4, 7, 5, 6, 8, 9, 10], (10, 2, 0)),     // 7 overtakes 5 and 6 (8)
            (&[3, 4, 9, 100], (4, 0, 0)),
            (&[0, 1, 1, 3, 2, 2, 0], (4, 1, 3)),
            (&[5, 5, 4, 4], (2, 1, 2)),
        ] {
            let order = of(0, sequence.iter().copied());
            assert_eq!((order.arrived(), order.reordered(), order.duplicates()), counts);
        }
    }

    #[test]
    fn a_loss_longer_than_the_window_leaves_no_ghosts() {
        let far = 1000 * WINDOW + 3;
        let order = of(0, [0, 1, 2, far, far - 1, far - 1, far - WINDOW - 70]);
        assert_eq!((order.arrived(), order.reordered(), order.duplicates()), (6, 2, 1));
        assert_eq!(order.missing(), far + 1 - 6);
    }

    #[test]
    fn numbers_that_can_not_be_are_not_believed() {
        let order = of(1, [1, u64::MAX, 0, 2]);
        assert_eq!((order.arrived(), order.missing(), order.nonsense()), (2, 0, 2));
    }

    #[test]
    fn counters_of_32_bits_go_on_behind_their_end() {
        let mut order = of(1, [1, u64::from(u32::MAX) - 1]);
        for low in [u32::MAX, 1, 0, 2] {
            let seq = order.widen(low);
            assert!(order.push(seq), "{low} became {seq}");
        }
        assert_eq!((order.sent(), order.reordered(), order.nonsense()), ((1 << 32) + 2, 1, 0));
    }

    proptest! {
        #[test]
        fn within_the_window_it_remembers_as_much_as_a_set_of_all_numbers(
            steps in proptest::collection::vec(-300i64..400, 0..400), first in 0u64..3
        ) {
            let mut at = first as i64;
            let sequence: Vec<u64> = steps.iter().map(|step| {
                at = (at + step).max(first as i64);
                at as u64
            }).collect();
            let (mut seen, mut next, mut reordered, mut duplicates) = (HashSet::new(), first, 0, 0);
            for seq in &sequence {
                if !seen.insert(*seq) {
                    duplicates += 1;
                } else if *seq < next {
                    reordered += 1;
                }
                next = next.max(seq + 1);
            }
            let order = of(first, sequence);
            prop_assert_eq!(order.arrived(), seen.len() as u64);
            prop_assert_eq!((order.reordered(), order.duplicates()), (reordered, duplicates));
        }
    }
}
