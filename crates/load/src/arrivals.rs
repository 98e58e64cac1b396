//! What a receiver of datagrams saw come, and for how long that took. Pure.

/// What a receiver of datagrams saw come up to a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// When the first and the newest came, in nanoseconds of the monotonic clock; 0 before any did.
    pub first_ns: u64,
    pub last_ns: u64,
    /// The number of the first that came, and the highest of all.
    pub first_number: u64,
    pub highest_number: u64,
    pub packets: u64,
    /// The longest time between two of the time that counts, in nanoseconds.
    pub longest_ns: u64,
}

impl Arrivals {
    /// How long it took those to come that came after an earlier look, in nanoseconds. At a constant rate `n` datagrams take `n` times what is
    /// between two of them: from the last one before to the last one, or where there is none before, one such time more than from the first to
    /// the last. None where there is no time between two: of fewer than two.
    pub fn lasted_ns(&self, before: &Self) -> Option<u64> {
        if self.packets <= before.packets {
            return None;
        }
        if before.packets > 0 {
            return Some(self.last_ns.saturating_sub(before.last_ns));
        }
        let steps = self.highest_number.saturating_sub(self.first_number);
        let span = self.last_ns.saturating_sub(self.first_ns);
        (steps > 0).then(|| span.saturating_add(span / steps))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const MS: u64 = 1_000_000;

    pub(crate) fn arrivals(
        first_ms: u64,
        last_ms: u64,
        numbers: (u64, u64),
        packets: u64,
    ) -> Arrivals {
        Arrivals {
            first_ns: first_ms * MS,
            last_ns: last_ms * MS,
            first_number: numbers.0,
            highest_number: numbers.1,
            packets,
            longest_ns: 0,
        }
    }

    #[test]
    fn n_datagrams_at_one_time_apart_take_n_times_of_it() {
        let none = Arrivals::default();
        // Five, one each 200 ms: 800 ms from the first to the last.
        assert_eq!(arrivals(100, 900, (1, 5), 5).lasted_ns(&none), Some(1000 * MS));
        // Two of them were lost on the way, which takes no time away.
        assert_eq!(arrivals(100, 900, (1, 5), 3).lasted_ns(&none), Some(1000 * MS));
        // One has no time, nor has none.
        assert_eq!(arrivals(100, 100, (1, 1), 1).lasted_ns(&none), None);
        assert_eq!(none.lasted_ns(&none), None);
        // Those of a second part begin where the first part's last came.
        let (before, all) = (arrivals(100, 500, (1, 3), 3), arrivals(100, 900, (1, 5), 5));
        assert_eq!(all.lasted_ns(&before), Some(400 * MS));
        assert_eq!(all.lasted_ns(&all), None);
    }
}
