//! When the streams of a test are looked at, and what is kept of it.
//!
//! ```text
//!   the finest ── full ──► every second state goes, and looks are half as frequent ── full ──► …
//!                  └ by how many tests the room is shared: a server's memory is bounded, whoever asks for what
//! ```

use super::lane::ServedLane;
use super::measured::Measured;
use super::plan::ServePlan;
use quell_load::lane::LaneCounts;

/// Most states that are kept of one test, for 10 s of 8 streams at the finest …
const MOST_MOMENTS: usize = 8_000;
/// … and of all tests at once, of some 200 bytes each: 6 MB, and as text for their clients at the same moment twice that.
const MOST_OF_ALL: usize = 32_000;
/// A stream has so many whatever runs beside it; there are 1,024 streams at most.
const FEWEST: usize = 32;
/// A state as a client is told it at the end: some 140 bytes of text.
const TOLD_BITS: u64 = 140 * 8;
/// One part in so many of the rate may be states.
const OF_RATE: u64 = 20;
/// Looks are no rarer than this.
const SLOWEST_NS: u64 = 3_600_000_000_000;

/// When streams are looked at, and what is kept of it.
#[derive(Debug)]
pub struct Looks {
    every_ns: u64,
    /// When the next one is due.
    pub next_ns: u64,
    last_second_ns: u64,
    /// States that there is room for, of each stream.
    most: usize,
    moments: bool,
    seconds: bool,
}

/// Most states over time that are kept of one stream where so many tests share the room, of a test of so many streams.
fn most(tests: usize, streams: usize) -> usize {
    let of_test = MOST_MOMENTS.min(MOST_OF_ALL / tests.max(1));
    (of_test / streams.max(1)).max(FEWEST)
}

/// How often streams are looked at, where that is asked for so often.
fn every_ns(asked_ns: u64, streams: usize, limit: Option<u64>) -> u64 {
    let told_bits = TOLD_BITS.saturating_mul(streams as u64);
    let carried = |rate: u64| {
        let share = (rate / OF_RATE).max(1);
        told_bits.saturating_mul(1_000_000_000) / share
    };
    limit.map_or(asked_ns, |rate| asked_ns.max(carried(rate)).min(SLOWEST_NS))
}

impl Looks {
    /// For a test that begins now, of a client that may have so many bits a second.
    pub fn new(plan: &ServePlan, start_ns: u64, limit: Option<u64>) -> Self {
        let every_ns = every_ns(plan.look_ns, plan.streams(), limit);
        Self {
            every_ns,
            next_ns: start_ns.saturating_add(every_ns),
            last_second_ns: start_ns,
            most: FEWEST,
            moments: plan.quell,
            seconds: plan.output,
        }
    }

    /// Looks at the streams, while so many tests share the room.
    pub fn look(&mut self, now: u64, tests: usize, lanes: &[ServedLane], measured: &mut Measured) {
        let most = most(tests, lanes.len());
        self.most = most;
        let t_ns = measured.t_ns(now);
        let marks: Vec<LaneCounts> = lanes.iter().map(|lane| lane.counted(t_ns)).collect();
        self.keep(&marks, measured);
        if self.moments {
            while measured.moments.iter().any(|moments| moments.len() >= most) {
                // A long test is seen more coarsely, all of it alike; so is one beside many others.
                for moments in &mut measured.moments {
                    let mut odd = false;
                    moments.retain(|_| {
                        odd = !odd;
                        !odd
                    });
                    moments.shrink_to(most);
                }
                self.every_ns = self.every_ns.saturating_mul(2).min(SLOWEST_NS);
            }
        }
        // Half of the interval early is still this second's.
        let second = now.saturating_sub(self.last_second_ns) >= 990_000_000;
        if self.seconds && second && measured.seconds.len() < most {
            measured.seconds.push((now, marks));
            self.last_second_ns = now;
        }
        while self.next_ns <= now {
            self.next_ns = self.next_ns.saturating_add(self.every_ns);
        }
    }

    /// Keeps where the streams stand. Also at the borders of what counts, so that what counts is known from these states as well.
    pub fn keep(&self, marks: &[LaneCounts], measured: &mut Measured) {
        if !self.moments {
            return;
        }
        for (mark, moments) in marks.iter().zip(&mut measured.moments) {
            if moments.last().is_none_or(|last| last.t_ns < mark.moment.t_ns) {
                make_room(moments, self.most);
                moments.push(mark.moment);
            }
        }
    }
}

/// Makes room for one more, and for no more than there may be: all streams of all tests grow at once, and twice what they need is the most that
/// the server ever holds.
fn make_room<T>(moments: &mut Vec<T>, most: usize) {
    let len = moments.len();
    if len == moments.capacity() {
        moments.reserve_exact(len.max(FEWEST).min(most.saturating_sub(len)).max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_many_streams_take_a_twentieth_of_the_rate_and_no_more() {
        for (rate, streams) in [(1_000_000, 128), (1_000_000, 1), (20_000_000, 64), (1, 256)] {
            let every_ns = every_ns(10_000_000, streams, Some(rate));
            let bits_per_s = TOLD_BITS as f64 * streams as f64 * 1e9 / every_ns as f64;
            assert!(
                bits_per_s <= rate as f64 / 20.0 || every_ns == SLOWEST_NS,
                "{bits_per_s} of {rate}"
            );
        }
        // Where the rate has room for what is asked for, that is done, as it is without a rate.
        assert_eq!(every_ns(100_000_000, 1, Some(10_000_000)), 100_000_000);
        assert_eq!(every_ns(10_000_000, 256, None), 10_000_000);
    }

    #[test]
    fn no_stream_has_room_for_more_states_than_are_kept() {
        for most in [FEWEST, FEWEST + 1, 100, MOST_MOMENTS] {
            let mut moments = Vec::new();
            for n in 0..most {
                make_room(&mut moments, most);
                moments.push(n);
            }
            assert_eq!(moments.capacity(), most);
        }
    }

    #[test]
    fn all_tests_together_keep_no_more_than_there_is_room_for() {
        assert_eq!((most(1, 1), most(1, 8), most(4, 8)), (8_000, 1_000, 1_000), "few have theirs");
        for tests in 1..=32 {
            for streams in 1..=1024 / tests {
                let all = most(tests, streams) * tests * streams;
                assert!(all <= MOST_OF_ALL.max(1024 * FEWEST), "{tests} of {streams}: {all}");
            }
        }
    }
}
