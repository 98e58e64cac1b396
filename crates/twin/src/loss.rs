//! The share of packets that are lost though nothing is full, and how many in a row.

use crate::bounded::Bounded;
use crate::flood::{Flood, drops};
use quell_model::{EchoSample, EchoStatus};
use quell_stats::{Batch, Interval};

/// Packets in a batch, by which it is seen whether losses come in clumps.
const BATCH: u64 = 50;

/// Packets of a stream that the line carries with ease stand in its queue up to here; beyond, the line has become slower, and drops them itself.
const FULL: usize = 10;

/// Of pings over the idle line and of a stream that the line carries with ease; and how many are lost in a row, in the mean.
pub fn loss(
    idle: &[EchoSample],
    light: Option<&Flood>,
    up: bool,
) -> Result<(Bounded, f64), &'static str> {
    let own = if up { EchoStatus::LostUp } else { EchoStatus::LostDown };
    let lost = idle.iter().filter(|ping| ping.status == own).count() as f64;
    let sent = idle.iter().filter(|p| p.status.is_answered() || p.status == own).count() as f64;
    let mut batches = vec![Batch { sent, lost }];
    let mut runs = Vec::new();
    if let Some(flood) = light {
        let mut of_flood = vec![Batch::default(); (flood.sent / BATCH + 1) as usize];
        (0..flood.sent).for_each(|number| of_flood[(number / BATCH) as usize].sent += 1.0);
        for drop in drops(&flood.packets()).into_iter().filter(|drop| drop.backlog <= FULL) {
            runs.push(drop.count as f64);
            for number in drop.number..drop.number + drop.count {
                if let Some(batch) = of_flood.get_mut((number.saturating_sub(1) / BATCH) as usize) {
                    batch.lost += 1.0;
                }
            }
        }
        batches.extend(of_flood);
    }
    let total = batches.iter().fold(Batch::default(), |sum, batch| Batch {
        sent: sum.sent + batch.sent,
        lost: sum.lost + batch.lost,
    });
    if total.sent < 100.0 {
        return Err("fewer than 100 packets were sent over the idle line");
    }
    let interval = Interval::of_loss(&[batches]).ok_or("nothing was sent")?;
    let run = quell_stats::mean(&runs).unwrap_or(1.0);
    Ok((Bounded::new(total.lost / total.sent, (interval.low, interval.high)), run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood::made_up::line;

    #[test]
    fn what_finds_no_room_while_the_line_is_slower_is_no_loss_by_chance() {
        let slow = line(128.0, 1.2, 4.0, (1.25e5, 0.0), |queue| queue.packets < 50);
        assert!(slow.lost() > 100);
        let (told, _) = loss(&[], Some(&slow), true).expect("enough were sent");
        assert_eq!(told.value, 0.0);
    }

    #[test]
    fn what_is_lost_at_random_is_within_the_bounds() {
        for truth in [0.0, 0.01, 0.3] {
            let mut rng = quell_stats::Rng::new(7);
            let light = line(128.0, 0.3, 4.0, (1.25e6, 0.0), |_| rng.f64() >= truth);
            let (told, _) = loss(&[], Some(&light), true).expect("enough were sent");
            assert!(told.low <= truth && truth <= told.high, "{told:?} {truth}");
            assert!(told.high - told.low < 0.05, "{told:?}");
        }
    }
}
