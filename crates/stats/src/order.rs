//! Reordered and duplicated packets, from sequence numbers as they arrive.

use std::collections::BTreeMap;

/// Counts by Type-P-Reordered of RFC 4737 section 3: a packet is reordered if its number is smaller
/// than NextExp, which is one above the largest number so far. A second copy of a packet is a duplicate
/// and not reordered, wherever it arrives.
///
/// Memory grows with the gaps that are open, not with the stream.
#[derive(Debug, Clone, Default)]
pub struct ArrivalOrder {
    /// One above the largest sequence number; wider than it, so that the largest has a successor.
    next_expected: u128,
    /// Numbers below `next_expected` that have not arrived: first -> one past the last.
    missing: BTreeMap<u128, u128>,
    arrived: u64,
    reordered: u64,
    duplicates: u64,
}

impl ArrivalOrder {
    /// Nothing has arrived.
    pub fn new() -> Self {
        Self::default()
    }

    /// The counts after all `sequence` numbers, in order of arrival.
    pub fn of(sequence: impl IntoIterator<Item = u64>) -> Self {
        let mut order = Self::new();
        sequence.into_iter().for_each(|seq| order.push(seq));
        order
    }

    /// Takes the sequence number of the next packet to arrive.
    pub fn push(&mut self, seq: u64) {
        let seq = u128::from(seq);
        if seq >= self.next_expected {
            if seq > self.next_expected {
                self.missing.insert(self.next_expected, seq);
            }
            self.next_expected = seq + 1;
            self.arrived += 1;
        } else if self.fill(seq) {
            self.reordered += 1;
            self.arrived += 1;
        } else {
            self.duplicates += 1;
        }
    }

    /// Takes `seq` out of the missing numbers; false if it had arrived before.
    fn fill(&mut self, seq: u128) -> bool {
        let gap = self.missing.range(..=seq).next_back().map(|(first, end)| (*first, *end));
        let Some((first, end)) = gap.filter(|(_, end)| seq < *end) else {
            return false;
        };
        self.missing.remove(&first);
        if first < seq {
            self.missing.insert(first, seq);
        }
        if seq + 1 < end {
            self.missing.insert(seq + 1, end);
        }
        true
    }

    /// Packets that arrived, each counted once.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Those of them that were reordered.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Further copies.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Reordered over arrived packets (RFC 4737 section 4.1); `None` if nothing arrived.
    pub fn reordered_ratio(&self) -> Option<f64> {
        (self.arrived > 0).then(|| self.reordered as f64 / self.arrived as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn counts(sequence: impl IntoIterator<Item = u64>) -> (u64, u64, u64) {
        let order = ArrivalOrder::of(sequence);
        (order.arrived(), order.reordered(), order.duplicates())
    }

    #[test]
    fn a_packet_behind_its_successors_is_reordered() {
        // By hand: NextExp is 9 when 4 arrives.
        let order = ArrivalOrder::of([1, 2, 3, 5, 6, 7, 8, 4, 9, 10]);
        assert_eq!((order.arrived(), order.reordered(), order.duplicates()), (10, 1, 0));
        assert_eq!(order.reordered_ratio(), Some(0.1));
    }

    #[test]
    fn a_packet_that_overtakes_makes_those_behind_it_reordered() {
        // By hand: 7 comes early and is in order; 5 and 6 then arrive below NextExp = 8.
        assert_eq!(counts([1, 2, 3, 4, 7, 5, 6, 8, 9, 10]), (10, 2, 0));
    }

    #[test]
    fn losses_alone_are_not_reordering() {
        assert_eq!(counts([3, 4, 9, 100]), (4, 0, 0));
    }

    #[test]
    fn copies_are_duplicates_also_of_a_reordered_packet() {
        assert_eq!(counts([0, 1, 1, 3, 2, 2, 0]), (4, 1, 3));
        assert_eq!(counts([5, 5, 4, 4]), (2, 1, 2));
    }

    #[test]
    fn the_whole_range_of_numbers_is_counted() {
        assert_eq!(counts([u64::MAX, u64::MAX, 0, u64::MAX - 1, 0]), (3, 2, 2));
        assert_eq!(ArrivalOrder::new().reordered_ratio(), None);
    }

    proptest! {
        #[test]
        fn gaps_remember_as_much_as_a_set_of_all_numbers(
            sequence in proptest::collection::vec(0u64..40, 0..120)
        ) {
            let (mut seen, mut reordered, mut duplicates) = (HashSet::new(), 0, 0);
            for seq in &sequence {
                let next = seen.iter().max().map_or(0, |largest| largest + 1);
                if !seen.insert(*seq) {
                    duplicates += 1;
                } else if *seq < next {
                    reordered += 1;
                }
            }
            prop_assert_eq!(counts(sequence), (seen.len() as u64, reordered, duplicates));
        }
    }
}
