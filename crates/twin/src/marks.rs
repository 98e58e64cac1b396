//! From which wait on a queue marks packets instead of dropping them (ECN), by a flood that may be marked.
//!
//! ```text
//!   every packet that waits longer      a step: DualPI2's 1 ms, ce_threshold
//!   the first 100 ms behind the target, each sooner behind the last     CoDel, CAKE
//! ```

use crate::bounded::Bounded;
use crate::flood::{Flood, spacing};

/// CoDel's, where nobody set another (RFC 8289).
const INTERVAL_S: f64 = 0.1;
/// What stamps and a kernel's count of 1.024 microseconds may differ by.
const CLOCK_S: f64 = 50e-6;
/// A queue that was so long and marked nothing marks nothing: beyond the targets of all queues that mark.
const LONG_S: f64 = 0.03;

/// None where nothing is marked.
pub fn marks_at(flood: &Flood) -> Result<Option<Bounded>, &'static str> {
    let packets = flood.packets();
    let marked: Vec<_> = packets.iter().filter(|packet| packet.marked).collect();
    let Some(first) = marked.first() else {
        let long = packets.iter().filter(|packet| packet.wait_s > LONG_S).count();
        return if long > packets.len() / 4 { Ok(None) } else { Err("its queue stayed short") };
    };
    let each_s = spacing(&packets);
    let least = marked.iter().map(|packet| packet.wait_s).fold(f64::MAX, f64::min);
    let longer = packets.iter().filter(|packet| packet.wait_s >= least).count();
    if marked.len() as f64 >= 0.95 * longer as f64 {
        let shorter = packets.iter().map(|packet| packet.wait_s).filter(|wait| *wait < least);
        let low = shorter.fold(0.0, f64::max);
        let bounds = (low - CLOCK_S, least + CLOCK_S);
        return Ok(Some(Bounded::new((low + least) / 2.0, bounds)));
    }
    let second = marked.iter().find(|packet| packet.came_s > first.came_s);
    let gap_s = second.map_or(0.0, |second| second.came_s - first.came_s);
    // As CoDel's first step, or CAKE's.
    let is_law = (0.65 * INTERVAL_S..1.1 * INTERVAL_S).contains(&gap_s);
    let wait = |at_s: f64| {
        let next = packets.partition_point(|packet| packet.came_s < at_s);
        packets.get(next).map_or(0.0, |packet| packet.wait_s)
    };
    let begun_s = first.came_s - INTERVAL_S;
    let slack_s = INTERVAL_S / 50.0 + each_s;
    match wait(begun_s) {
        // It also waits for two full packets in the queue.
        at if is_law && at > 2.0 * each_s => {
            Ok(Some(Bounded::new(at, (wait(begun_s - slack_s), wait(begun_s + slack_s)))))
        }
        _ if is_law => Err("it marks; packets take longer than the wait from which it does"),
        _ => Err("it marks, by no law known here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood::made_up::{line, marked};

    fn flood() -> Flood {
        line(1428.0, 1.3, 2.0, (1.25e6, 0.0), |_| true)
    }

    #[test]
    fn a_step_is_told_by_the_waits_on_both_sides_of_it() {
        let told = marks_at(&marked(flood(), |packet| packet.wait_s > 0.001));
        let told = told.expect("it marks").expect("from a wait on");
        assert!(told.low <= 0.001 && 0.001 <= told.high && told.high < 0.0025, "{told:?}");
    }

    #[test]
    fn codels_target_is_what_was_waited_an_interval_before_its_first_mark() {
        let mut due = (0.0, 0.0);
        let told = marks_at(&marked(flood(), |packet| {
            if packet.wait_s > 0.005 && due.1 == 0.0 {
                due = (packet.came_s + 0.1, 1.0);
            }
            let is_due = due.1 > 0.0 && packet.came_s >= due.0;
            if is_due {
                due = (due.0 + 0.1 / f64::sqrt(due.1), due.1 + 1.0);
            }
            is_due
        }));
        let told = told.expect("it marks").expect("from a wait on");
        assert!((told.value - 0.005).abs() < 0.0015, "{told:?}");
        assert!(told.low <= 0.005 && 0.005 <= told.high, "{told:?}");
    }

    #[test]
    fn a_long_queue_without_marks_never_marks_and_a_short_one_tells_nothing() {
        assert_eq!(marks_at(&flood()), Ok(None));
        let short = line(1428.0, 1.3, 2.0, (1.25e6, 0.0), |queue| queue.packets < 10);
        assert_eq!(marks_at(&short), Err("its queue stayed short"));
    }
}
