//! How many bits a line has carried by when: the integral of its rate, exact to the bit and nanosecond.

use crate::Steps;
use quell_units::{Rate, Span};

/// Bits are counted in parts of which a second of 1 bit/s has so many.
const PER_BIT: u128 = 1_000_000_000;

impl Steps<Rate> {
    /// The bits that pass from the beginning until a time, rounded down.
    pub fn bits_until(&self, time: Span) -> u128 {
        self.bits_at([time]).next().unwrap_or(0)
    }

    /// The same for times that rise, each step looked at once a round.
    pub fn bits_at(&self, times: impl IntoIterator<Item = Span>) -> impl Iterator<Item = u128> {
        let (end, in_a_round) = (self.end().nanos(), self.parts_of_a_round());
        let (mut round, mut index, mut before) = (0, 0, 0_u128);
        times.into_iter().map(move |time| {
            let (now, within) = (time.nanos() / end, time.nanos() % end);
            if now != round {
                (round, index, before) = (now, 0, 0);
            }
            while self.end_of(index) <= within {
                before += self.parts_of(index, self.end_of(index));
                index += 1;
            }
            let parts = before + self.parts_of(index, within);
            (u128::from(now) * in_a_round + parts) / PER_BIT
        })
    }

    /// The mean of a round.
    pub fn mean(&self) -> Rate {
        let mean = self.parts_of_a_round() / u128::from(self.end().nanos());
        Rate::from_bps(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    fn parts_of_a_round(&self) -> u128 {
        (0..self.count()).map(|index| self.parts_of(index, self.end_of(index))).sum()
    }

    /// Of one step, until a time in it or its end.
    fn parts_of(&self, index: usize, time: u64) -> u128 {
        let (begin, rate) = self.step(index);
        u128::from(time - begin) * u128::from(rate.bps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_carries_what_its_steps_say_round_after_round() {
        // 12 Mbit/s for 1 ms, nothing for 1 ms, 6 Mbit/s for 2 ms.
        let steps = [(0, 12_000_000), (1, 0), (2, 6_000_000)];
        let steps = steps.map(|(ms, bps)| (Span::from_millis(ms), Rate::from_bps(bps)));
        let line = Steps::new(steps, Span::from_millis(4)).expect("the times rise");
        let bits = [500, 1000, 2000, 3500, 8000].map(|us| line.bits_until(Span::from_micros(us)));
        assert_eq!(bits, [6000, 12_000, 12_000, 21_000, 48_000]);
        assert_eq!(line.mean(), Rate::from_bps(6_000_000));
    }
}
