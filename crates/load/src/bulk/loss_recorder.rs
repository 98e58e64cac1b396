//! When the first datagram of a stream was lost, and what came behind losses. Pure.

use quell_wire::iperf3::LossRecord;

#[derive(Debug, Default)]
pub(super) struct LossRecorder {
    record: LossRecord,
    first_ns: u64,
    /// The least time on the way of those before the first loss, and of the first behind one, by clocks that may differ.
    least_ns: [Option<i64>; 2],
}

impl LossRecorder {
    /// The one with the highest number so far came, as the `count`th; `skipped`: the one before it did not.
    pub fn arrive(&mut self, now_ns: u64, count: u64, transit_ns: i64, skipped: bool) {
        if count <= 1 {
            self.first_ns = now_ns;
        }
        let at_ns = now_ns.saturating_sub(self.first_ns);
        let LossRecord { before, before_ns, behind, longer_ns } = &mut self.record;
        let [least_before, least_behind] = &mut self.least_ns;
        let less = |least: &mut Option<i64>| {
            *least = Some(least.map_or(transit_ns, |ns| ns.min(transit_ns)))
        };
        if !skipped {
            if behind.is_empty() {
                (*before, *before_ns) = (count, at_ns);
                less(least_before);
            }
            return;
        }
        // Later, two clocks have drifted apart.
        if behind.is_empty() || at_ns < before_ns.saturating_mul(2) {
            less(least_behind);
            *longer_ns = (*least_behind)
                .zip(*least_before)
                .map(|(behind, before)| behind.saturating_sub(before));
        }
        match &mut behind[..] {
            [.., kept, last] if at_ns - kept.0 < kept.0 / 16 => *last = (at_ns, count),
            _ => behind.push((at_ns, count)),
        }
    }

    /// Times on the way can't be compared with those from before.
    pub fn clock_set(&mut self) {
        self.least_ns = [None; 2];
    }

    pub fn record(&self) -> &LossRecord {
        &self.record
    }
}
