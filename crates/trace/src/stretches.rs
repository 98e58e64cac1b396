//! Stretches of time of which some overlap: how long they are together.

use crate::time::Time;
use quell_units::Span;
use std::collections::VecDeque;

/// Stretches that are kept apart; of more, the oldest are counted and can't be joined any more.
const MOST: usize = 64;

/// Stretches, each told when it is over: what comes later ends later, or not much earlier.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stretches {
    /// Those that don't touch, in order.
    apart: VecDeque<(Time, Time)>,
    /// What those took that are no longer kept.
    earlier: Span,
}

impl Stretches {
    pub(crate) fn add(&mut self, begin: Time, end: Time) {
        let (mut begin, mut end) = (begin, end.max(begin));
        self.apart.retain(|(from, to)| {
            let apart = *to < begin || end < *from;
            if !apart {
                (begin, end) = (begin.min(*from), end.max(*to));
            }
            apart
        });
        let place = self.apart.partition_point(|(from, _)| *from < begin);
        self.apart.insert(place, (begin, end));
        if self.apart.len() > MOST
            && let Some((from, to)) = self.apart.pop_front()
        {
            self.earlier += to.since(from);
        }
    }

    /// Takes another's.
    pub(crate) fn join(&mut self, other: &Self) {
        self.earlier += other.earlier;
        other.apart.iter().for_each(|(begin, end)| self.add(*begin, *end));
    }

    /// How long somebody waited, whoever else did.
    pub(crate) fn total(&self) -> Span {
        self.apart.iter().fold(self.earlier, |sum, (from, to)| sum + to.since(*from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_counts_once() {
        let total = |stretches: &[(i64, i64)]| {
            let mut all = Stretches::default();
            stretches.iter().for_each(|(from, to)| all.add(Time(*from), Time(*to)));
            all.total().nanos()
        };
        assert_eq!(total(&[]), 0);
        assert_eq!(total(&[(0, 10), (20, 30)]), 20);
        assert_eq!(total(&[(0, 10), (5, 12), (3, 13)]), 13);
        assert_eq!(total(&[(0, 10), (20, 30), (5, 40)]), 40);
        assert_eq!(total(&[(20, 30), (0, 10), (9, 21)]), 30);
        let many: Vec<_> = (0..1000).map(|i| (i * 10, i * 10 + 3)).collect();
        assert_eq!(total(&many), 3000);
        let all = |many: &[(i64, i64)]| {
            let mut all = Stretches::default();
            many.iter().for_each(|(from, to)| all.add(Time(*from), Time(*to)));
            all
        };
        let mut joined = all(&[(0, 10), (20, 30)]);
        joined.join(&all(&[(5, 12), (40, 50)]));
        assert_eq!(joined.total().nanos(), 32);
        joined.join(&all(&many.iter().map(|(a, b)| (a + 1000, b + 1000)).collect::<Vec<_>>()));
        assert_eq!(joined.total().nanos(), 3032, "those that are no longer kept too");
    }
}
