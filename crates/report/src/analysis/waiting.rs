//! How long a queue's bytes wait, from what the kernel counts of it: what waited at one look, and when as much had left.

use quell_store::QueuePoint;

/// Of each look in milliseconds; none where what waited had not left by the last look. Between looks bytes are taken to leave evenly.
///
/// Of a queue that sends in order this is what its last packet waited. Where flows take turns it is what a packet behind all of them would wait.
pub(crate) fn waits_ms(points: &[QueuePoint]) -> Vec<Option<f64>> {
    let mut next = 0;
    let wait = |(at, point): (usize, &QueuePoint)| {
        if point.backlog_bytes == 0 {
            return Some(0.0);
        }
        let gone = point.bytes.checked_add(point.backlog_bytes)?;
        // What waited later left later, unless packets were thrown away.
        next = next.max(at + 1);
        while next > at + 1 && points.get(next - 1).is_some_and(|p| p.bytes >= gone) {
            next -= 1;
        }
        while points.get(next)?.bytes < gone {
            next += 1;
        }
        let (before, after) = (&points[next - 1], &points[next]);
        let share = gone.saturating_sub(before.bytes) as f64
            / after.bytes.checked_sub(before.bytes).filter(|n| *n > 0)? as f64;
        let left_ns = before.t_ns as f64 + share * (after.t_ns - before.t_ns) as f64;
        Some((left_ns - point.t_ns as f64) / 1e6)
    };
    points.iter().enumerate().map(wait).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One look each 100 ms: bytes waiting, and bytes that left until then.
    fn looks(all: &[(u64, u64)]) -> Vec<QueuePoint> {
        let point = |(n, &(backlog_bytes, bytes)): (usize, &(u64, u64))| QueuePoint {
            t_ns: n as i64 * 100_000_000,
            backlog_bytes,
            backlog_packets: backlog_bytes / 1500,
            drops: 0,
            marks: 0,
            packets: 0,
            bytes,
        };
        all.iter().enumerate().map(point).collect()
    }

    #[test]
    fn a_full_buffer_of_a_line_waits_its_size_over_the_lines_rate() {
        // 30 kB leave each 100 ms; 120 kB wait.
        let points = looks(&(0..20).map(|n| (120_000, n * 30_000)).collect::<Vec<_>>());
        let waits = waits_ms(&points);
        assert!(
            waits[..16].iter().all(|w| w.is_some_and(|w| (w - 400.0).abs() < 1e-6)),
            "{waits:?}"
        );
        assert_eq!(waits[16..], [None; 4], "what left after the last look nobody saw");
    }

    #[test]
    fn an_empty_queue_waits_for_nothing_and_a_stopped_one_is_not_known() {
        let points = looks(&[(0, 0), (1500, 0), (0, 1500), (3000, 1500), (3000, 1500)]);
        assert_eq!(waits_ms(&points), [Some(0.0), Some(100.0), Some(0.0), None, None]);
    }

    /// What a queue throws away never leaves: later looks have less in front of them than earlier ones had.
    #[test]
    fn after_a_drop_the_wait_is_counted_anew() {
        let points = looks(&[(90_000, 0), (30_000, 30_000), (0, 60_000), (0, 90_000)]);
        assert_eq!(waits_ms(&points), [Some(300.0), Some(100.0), Some(0.0), Some(0.0)]);
    }
}
