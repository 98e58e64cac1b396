//! The counters of one end of a flow, as its reports come, and what they were at any time between.

use quell_model::{FlowSample, TcpState};

/// One end of a flow so far. Reports may come in any order; of each it keeps the four figures that are asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counters {
    reports: Vec<CounterReading>,
    /// What TCP said in the last report.
    tcp: Option<TcpState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CounterReading {
    pub t_ns: i64,
    pub bytes: u64,
    pub packets: u64,
    pub retransmits: u64,
}

impl Counters {
    pub fn of(samples: &[FlowSample]) -> Self {
        let mut counters = Self::default();
        samples.iter().for_each(|s| counters.take(s));
        counters
    }

    pub fn take(&mut self, sample: &FlowSample) {
        let counted = CounterReading {
            t_ns: sample.t_ns,
            bytes: sample.bytes,
            packets: sample.packets,
            retransmits: sample.tcp.and_then(|tcp| tcp.retransmits).unwrap_or(0),
        };
        let order = |c: &CounterReading| (c.t_ns, c.bytes, c.packets);
        // Nearly all come in their order.
        let is_last = self.last().is_none_or(|last| order(last) <= order(&counted));
        let at = match is_last {
            true => self.reports.len(),
            false => self.reports.partition_point(|c| order(c) <= order(&counted)),
        };
        self.reports.insert(at, counted);
        if is_last {
            self.tcp = sample.tcp;
        }
    }

    pub fn first(&self) -> Option<&CounterReading> {
        self.reports.first()
    }

    pub fn last(&self) -> Option<&CounterReading> {
        self.reports.last()
    }

    /// When the first report came that has all bytes of the last.
    pub fn had_all_ns(&self) -> Option<i64> {
        let bytes = self.last()?.bytes;
        let first = self.reports.partition_point(|c| c.bytes < bytes);
        self.reports.get(first).map(|c| c.t_ns)
    }

    /// What TCP said in the last report; none for UDP and for receivers.
    pub fn tcp(&self) -> Option<&TcpState> {
        self.tcp.as_ref()
    }

    /// The value of a cumulative counter at a time: straight between the reports around it, nothing before the first, and the last after
    /// the last. A report that is due at a time comes some microseconds after it: one that is as near as the thousandth part of the time since
    /// the report before is taken for it, so that nothing seems to have come after a border that came before.
    pub fn at(&self, t_ns: i64, of: fn(&CounterReading) -> u64) -> f64 {
        let after = self.reports.partition_point(|c| c.t_ns <= t_ns);
        let Some(before) = after.checked_sub(1).map(|i| &self.reports[i]) else { return 0.0 };
        let Some(next) = self.reports.get(after) else { return of(before) as f64 };
        let since = |later: i64, earlier: i64| (i128::from(later) - i128::from(earlier)) as f64;
        let part = since(t_ns, before.t_ns) / since(next.t_ns, before.t_ns);
        if part > 0.999 {
            return of(next) as f64;
        }
        let (low, high) = (of(before) as f64, of(next) as f64);
        low + (high - low) * part
    }

    pub fn within(&self, from_ns: i64, to_ns: i64, of: fn(&CounterReading) -> u64) -> f64 {
        self.at(to_ns, of) - self.at(from_ns, of)
    }

    pub fn rate_mbps(&self, from_ns: i64, to_ns: i64) -> f64 {
        self.within(from_ns, to_ns, |c| c.bytes) * 8e3 / (to_ns - from_ns) as f64
    }
}
