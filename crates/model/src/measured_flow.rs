//! What the program that measured a flow found of the time that it measured: the fact `stream/NAME/measured`.
//!
//! A flow's rows tell its course at two ends, each in its own time. Where a program has measured a time of its own (what it leaves out at the start,
//! when the last bytes came, which datagrams count), this is the result and the rows are its course.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredFlow {
    /// Seconds in which its payload came; none where that is no time, as of one datagram.
    pub seconds: Option<f64>,
    /// Payload that arrived, in bytes; none where nobody knows.
    pub received_bytes: Option<u64>,
    /// TCP: segments sent again.
    pub retransmits: Option<u64>,
    /// UDP: what became of its datagrams.
    pub datagrams: Option<MeasuredDatagrams>,
}

/// What became of datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredDatagrams {
    pub sent: u64,
    /// Arrived, copies not counted.
    pub arrived: u64,
    /// Lost; what is neither was still under way.
    pub lost: u64,
    /// Jitter after the last one, in milliseconds: RFC 3550's J, its start from 0 left out where the program knows of it; none where
    /// nobody knows.
    pub jitter_ms: Option<f64>,
}

impl MeasuredFlow {
    pub fn believed(self) -> Option<Self> {
        let found = self;
        let is_time = |time: f64| time.is_finite() && time >= 0.0;
        let can_be = found.seconds.is_none_or(|seconds| is_time(seconds) && seconds < 1e9)
            && found.datagrams.is_none_or(|d| {
                d.jitter_ms.is_none_or(is_time)
                    && d.arrived.checked_add(d.lost).is_some_and(|n| n <= d.sent)
            });
        can_be.then_some(found)
    }
}

impl MeasuredDatagrams {
    /// The part that was lost, of those that did not stay under way; all where none arrived.
    pub fn loss(&self) -> Option<f64> {
        match (self.arrived, self.lost) {
            _ if self.sent == 0 => None,
            (0, _) => Some(1.0),
            (arrived, lost) => Some(lost as f64 / (arrived + lost) as f64),
        }
    }

    pub fn all_lost(&self) -> u64 {
        if self.arrived == 0 { self.sent } else { self.lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_is_not_believed() {
        let datagrams = MeasuredDatagrams { sent: 10, arrived: 7, lost: 2, jitter_ms: Some(0.5) };
        let with = |datagrams| MeasuredFlow {
            seconds: Some(3.0),
            received_bytes: Some(7000),
            retransmits: None,
            datagrams: Some(datagrams),
        };
        assert_eq!(with(datagrams).believed(), Some(with(datagrams)));
        for seconds in [-3.0, 1e300, f64::NAN] {
            let flow = MeasuredFlow { seconds: Some(seconds), ..with(datagrams) };
            assert_eq!(flow.believed(), None, "{seconds}");
        }
        for wrong in [
            MeasuredDatagrams { sent: 8, ..datagrams },
            MeasuredDatagrams { lost: u64::MAX, ..datagrams },
            MeasuredDatagrams { jitter_ms: Some(f64::INFINITY), ..datagrams },
        ] {
            assert_eq!(with(wrong).believed(), None, "{wrong:?}");
        }
        assert_eq!((datagrams.loss(), datagrams.all_lost()), (Some(2.0 / 9.0), 2));
        let none = MeasuredDatagrams { arrived: 0, lost: 0, ..datagrams };
        assert_eq!((none.loss(), none.all_lost()), (Some(1.0), 10), "no later one tells so");
    }
}
