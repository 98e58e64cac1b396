//! What kind of queue stands before a line, by when it drops while more comes than it carries.
//!
//! ```text
//!   drops only where the queue is as long as it ever was     tail drop
//!   no queue at all, and drops                               policer
//!   drops before that, each sooner behind the last           CoDel's law: codel, or with flows apart fq_codel
//!   the same, half a step ahead                              COBALT: CAKE
//!   drops before that at random, and the wait falls again    PIE (RFC 8033)
//! ```

use crate::bounded::Bounded;
use crate::buffer::most;
use crate::flood::{DropRun, Flood, drops, spacing};
use quell_policy::FRAME;
use quell_series::measured_line::QueueKind;

/// Drops of a law that are looked at: later ones may be those of a queue that is full.
const FIRST: usize = 12;
/// Fewest times between drops that show a law.
const FEWEST: usize = 4;
/// The interval of CoDel where nobody set another.
const INTERVAL_S: f64 = 0.1;
/// Losses by chance a second among which a law's are not seen.
const HIDING: f64 = 20.0;
/// By how much these may differ from it, in the mean: a drop is seen with the next packet.
const OFF: f64 = 0.1;
/// The same of the few drops before a queue is full: it is so early on a fast line, where the next packet comes at once.
const OFF_OF_FEW: f64 = 0.02;

/// By which each drop comes sooner behind the last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DropLaw {
    /// The interval over √count (RFC 8289, section 3.3), which the kernel brings nearer by one step of Newton's a drop
    /// (`codel_Newton_step`, include/net/codel_impl.h).
    Codel,
    /// It counts a drop before the next is due (`cobalt_should_drop`, net/sched/sch_cake.c).
    Cobalt,
}

/// What one flood shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DropPattern {
    /// Nothing was dropped, or no more than on the idle line.
    Nothing,
    /// Only where the queue was as long as it ever was.
    AtTheBrim,
    NoQueue,
    /// With how far it is off.
    Law(DropLaw, f64),
    /// While there was room.
    Early {
        /// The longest wait, and the median of the second half, in seconds.
        longest_s: f64,
        settled_s: f64,
        /// Of a full packet.
        each_s: f64,
    },
}

/// `loss` is that of the idle line.
pub fn pattern(flood: &Flood, loss: Bounded) -> DropPattern {
    let packets = flood.packets();
    let dropped = drops(&packets);
    let by_chance = flood.sent as f64 * loss.high;
    let most_by_chance = by_chance + 3.0 * by_chance.sqrt() + 3.0;
    let count: u64 = dropped.iter().map(|drop| drop.count).sum();
    if count as f64 <= most_by_chance {
        return DropPattern::Nothing;
    }
    let longest = most(&packets);
    if longest <= 2 {
        return DropPattern::NoQueue;
    }
    let each_s = spacing(&packets);
    let brim = longest.saturating_sub((longest / 10).max(2));
    let with_room = dropped.iter().take_while(|drop| drop.backlog < brim).count();
    let among = || law_among(&dropped, loss.high / flood.apart_s, each_s);
    let of_few = || law(&dropped[..with_room]).filter(|(_, off)| *off < OFF_OF_FEW);
    if let Some((law, off)) = law(&dropped).or_else(of_few).or_else(among) {
        return DropPattern::Law(law, off);
    }
    let early: u64 = dropped.iter().filter(|d| d.backlog < brim).map(|drop| drop.count).sum();
    // A line that loses nothing drops none early.
    let most_early = if loss.value > 0.0 { most_by_chance } else { 0.0 };
    if early as f64 <= most_early && count - early > early {
        return DropPattern::AtTheBrim;
    }
    let waits: Vec<f64> = packets.iter().map(|packet| packet.wait_s).collect();
    DropPattern::Early {
        longest_s: waits.iter().copied().fold(0.0, f64::max),
        settled_s: quell_stats::median(&waits[waits.len() / 2..]).unwrap_or(0.0),
        each_s: each_s * FRAME as f64 / flood.wire(),
    }
}

impl DropLaw {
    /// The time from the k-th drop to the next, of the interval; `k` from 1.
    fn step(self, k: usize) -> f64 {
        match self {
            DropLaw::Codel => {
                (2..=k).fold(1.0, |root, k| root * (3.0 - k as f64 * root * root) / 2.0)
            }
            DropLaw::Cobalt => (k as f64 + 1.0).sqrt().recip(),
        }
    }
}

/// The law that the first drops keep best, and how far they are off.
fn law(dropped: &[DropRun]) -> Option<(DropLaw, f64)> {
    let first = &dropped[..dropped.len().min(FIRST + 1)];
    let gaps: Vec<f64> = first.windows(2).map(|pair| pair[1].came_s - pair[0].came_s).collect();
    if gaps.len() < FEWEST {
        return None;
    }
    let off = |law: DropLaw| {
        let intervals = (1..).zip(&gaps).map(|(k, gap)| gap / law.step(k));
        let intervals: Vec<f64> = intervals.collect();
        let median = quell_stats::median(&intervals).filter(|m| (0.02..0.5).contains(m))?;
        let off: f64 = intervals.iter().map(|it| (it / median - 1.0).abs()).sum();
        Some((law, off / intervals.len() as f64))
    };
    let laws = [DropLaw::Codel, DropLaw::Cobalt].into_iter().filter_map(off);
    laws.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, off)| *off < OFF)
}

/// The same where others are lost by chance, so many a second: whether drops are there at the times of the law, for the usual interval, and few besides.
fn law_among(dropped: &[DropRun], by_chance: f64, each_s: f64) -> Option<(DropLaw, f64)> {
    let near = |at: f64| {
        let offs = dropped.iter().map(|drop| (drop.came_s - at).abs());
        offs.fold(f64::MAX, f64::min) <= INTERVAL_S / 50.0 + 1.5 * each_s
    };
    let holds = |law: DropLaw, begun_s: f64| {
        let times = (1..=FIRST).scan(begun_s, |at, k| {
            *at += law.step(k) * INTERVAL_S;
            Some(*at)
        });
        let times: Vec<f64> = times.collect();
        let end_s = times[FIRST - 1] + each_s;
        let all = dropped.iter().filter(|drop| (begun_s..end_s).contains(&drop.came_s)).count();
        let chance = by_chance * (end_s - begun_s);
        times.iter().all(|at| near(*at))
            && all as f64 <= FIRST as f64 + chance + 3.0 * chance.sqrt() + 3.0
    };
    let laws = [DropLaw::Codel, DropLaw::Cobalt].into_iter();
    let mut kept =
        laws.filter(|law| dropped.iter().take(4 * FIRST).any(|drop| holds(*law, drop.came_s)));
    // Where both would do, neither is known.
    kept.next().filter(|_| kept.next().is_none()).map(|law| (law, OFF))
}

/// What a gentle overload and harder ones of one direction show together. `apart`: a thin flow beside the bulk does not see its queue; `by_chance`:
/// how many of the gentle one are lost a second as on the idle line, at least.
pub fn queue_kind(
    patterns: &[DropPattern],
    apart: Option<bool>,
    by_chance: f64,
) -> Result<QueueKind, String> {
    use DropPattern::{AtTheBrim, Early, Law, NoQueue, Nothing};
    let laws =
        patterns.iter().filter_map(|p| if let Law(law, off) = p { Some((law, off)) } else { None });
    if let Some((law, _)) = laws.min_by(|a, b| a.1.total_cmp(b.1)) {
        return match (law, apart) {
            (DropLaw::Cobalt, Some(false)) => {
                Err("it drops as CAKE does, and flows are not apart".into())
            }
            (DropLaw::Cobalt, _) => Ok(QueueKind::Cake),
            (DropLaw::Codel, Some(true)) => Ok(QueueKind::FqCodel),
            (DropLaw::Codel, Some(false)) => Ok(QueueKind::Codel),
            (DropLaw::Codel, None) => Err("CoDel drops; whether flows are apart is unknown".into()),
        };
    }
    if patterns.iter().all(|pattern| *pattern == Nothing) {
        return Err("nothing was dropped: the queue was not full".into());
    }
    if patterns.iter().all(|pattern| matches!(pattern, NoQueue | Nothing)) {
        return Ok(QueueKind::Policer);
    }
    let is_early = |pattern: &DropPattern| matches!(pattern, Early { .. });
    if !patterns.iter().any(is_early) && patterns.contains(&AtTheBrim) {
        return match apart {
            Some(true) => Err("flows are apart, and each drops at its own end".into()),
            _ if by_chance > HIDING => {
                Err("losses by chance hide whether it drops before it is full".into())
            }
            _ => Ok(QueueKind::TailDrop),
        };
    }
    if by_chance > HIDING {
        return Err("it drops before it is full; losses by chance hide by what law".into());
    }
    match patterns.iter().find(|pattern| is_early(pattern)) {
        Some(Early { longest_s, settled_s, each_s })
            if apart == Some(false)
                && *settled_s < (0.03_f64).max(2.6 * each_s)
                && *settled_s < longest_s / 4.0 =>
        {
            Ok(QueueKind::Pie)
        }
        _ => Err("it drops before it is full, by no law known here".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood::made_up::line;

    #[test]
    fn a_full_buffer_a_policer_and_losses_by_chance_are_told_apart() {
        let wire = (1.25e6, 0.0);
        let brim = line(1428.0, 1.3, 4.0, wire, |queue| queue.packets < 50);
        let lossless = Bounded::new(0.0, (0.0, 0.001));
        assert_eq!(pattern(&brim, lossless), DropPattern::AtTheBrim);
        let early = line(1428.0, 1.3, 4.0, wire, |queue| {
            queue.packets < 50 && (queue.packets != 30 || queue.now_s > 0.2)
        });
        assert!(matches!(pattern(&early, lossless), DropPattern::Early { .. }));
        let mut tokens = (20_000.0, 0.0);
        let policer = line(1428.0, 0.5, 4.0, wire, |queue| {
            tokens.0 = (tokens.0 + (queue.now_s - tokens.1) * 3e5_f64).min(20_000.0);
            tokens.1 = queue.now_s;
            let passes = tokens.0 >= 1442.0;
            tokens.0 -= if passes { 1442.0 } else { 0.0 };
            passes
        });
        assert_eq!(pattern(&policer, lossless), DropPattern::NoQueue);
        let mut rng = quell_stats::Rng::new(3);
        let chance = line(1428.0, 0.9, 8.0, wire, |_| rng.f64() > 0.02);
        assert_eq!(pattern(&chance, Bounded::new(0.02, (0.018, 0.022))), DropPattern::Nothing);
        assert_eq!(queue_kind(&[DropPattern::NoQueue], None, 0.0), Ok(QueueKind::Policer));
        assert_eq!(
            queue_kind(&[DropPattern::AtTheBrim], Some(false), 0.0),
            Ok(QueueKind::TailDrop)
        );
    }

    #[test]
    fn codel_is_known_by_few_drops_before_a_fast_line_is_full_and_drops_about_so_are_not() {
        for (off_s, is_codel) in [(0.0, true), (0.008, false)] {
            let mut due = (1..).scan(0.1, |at, k| {
                let this = *at + if k % 2 == 0 { off_s } else { 0.0 };
                *at += 0.1 * DropLaw::Codel.step(k);
                Some(this)
            });
            let mut next_s = due.next().expect("a drop");
            let flood = line(1200.0, 1.08, 1.0, (1.25e7, 0.0), |queue| {
                if queue.now_s < next_s {
                    return queue.packets < 500;
                }
                next_s = due.next().expect("a drop");
                false
            });
            let told = pattern(&flood, Bounded::new(0.0, (0.0, 0.0)));
            let law = matches!(told, DropPattern::Law(DropLaw::Codel, _));
            assert_eq!(law, is_codel, "{told:?}");
        }
    }

    #[test]
    fn drops_that_come_ever_sooner_are_codels_or_cakes() {
        let dropped = |steps: &[f64]| -> Vec<DropRun> {
            let ends = steps.iter().scan(1.0, |at, step| {
                *at += step;
                Some(*at)
            });
            std::iter::once(1.0)
                .chain(ends)
                .map(|came_s| DropRun { count: 1, came_s, backlog: 50, number: 7 })
                .collect()
        };
        // As fq_codel and CAKE of Linux 6.1 did it at 10 Mbit/s, in seconds; by chance; at a full buffer.
        let codel = [0.1005, 0.0497, 0.0566, 0.0486, 0.0439, 0.0404, 0.0381, 0.0347];
        let cake = [0.0706, 0.0577, 0.0496, 0.0450, 0.0404, 0.0381, 0.0358, 0.0334];
        let chance = [0.1664, 0.104, 0.0301, 0.0266, 0.0336, 0.0532, 0.0208, 0.0208];
        assert_eq!(law(&dropped(&codel)).map(|it| it.0), Some(DropLaw::Codel));
        assert_eq!(law(&dropped(&cake)).map(|it| it.0), Some(DropLaw::Cobalt));
        assert_eq!([law(&dropped(&chance)), law(&dropped(&[0.01; 12]))], [None; 2]);
        // With others by chance between them.
        let among = |law: DropLaw| {
            let steps: Vec<f64> = (1..20).map(|k| law.step(k) * 0.1).collect();
            let mut all = dropped(&steps);
            all.extend(dropped(&[0.03, 0.4, 0.33]));
            all.sort_by(|a, b| a.came_s.total_cmp(&b.came_s));
            law_among(&all, 4.0, 0.001).map(|it| it.0)
        };
        for law in [DropLaw::Codel, DropLaw::Cobalt] {
            assert_eq!(among(law), Some(law));
        }
        assert_eq!(law_among(&dropped(&[0.005; 300]), 4.0, 0.001), None);
        assert_eq!(law_among(&dropped(&[0.11; 30]), 9.0, 0.001), None);
        let kind = |law, apart| queue_kind(&[DropPattern::Law(law, 0.02)], apart, 0.0);
        assert_eq!(kind(DropLaw::Codel, Some(false)), Ok(QueueKind::Codel));
        assert_eq!(kind(DropLaw::Codel, Some(true)), Ok(QueueKind::FqCodel));
        assert_eq!(kind(DropLaw::Cobalt, Some(true)), Ok(QueueKind::Cake));
        assert!(kind(DropLaw::Codel, None).is_err());
        // PIE at 4 Mbit/s and CoDel at 20 Mbit/s, whose law chance may hide: both beside losses.
        let early = |longest_s, settled_s, each_s| {
            queue_kind(&[DropPattern::Early { longest_s, settled_s, each_s }], Some(false), 5.0)
        };
        assert_eq!(early(0.2835, 0.006, 0.003), Ok(QueueKind::Pie));
        assert!(early(0.0805, 0.0296, 0.0006).is_err());
    }
}
