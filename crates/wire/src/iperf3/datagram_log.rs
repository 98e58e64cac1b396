//! Each datagram of a stream that came: its number, and when it was sent and came. What a line did to a stream shows in it.

use serde::{Deserialize, Serialize};

/// Most datagrams that are logged of a stream.
pub const MOST_LOGGED: usize = 1 << 17;

/// In the order in which they came. On the wire the steps from one to the next: of the number, negative where it was marked, of its coming in
/// nanoseconds, of its sending in microseconds, each from 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<i64>", into = "Vec<i64>")]
pub struct DatagramLog(Vec<LoggedDatagram>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoggedDatagram {
    pub number: u64,
    /// By the sender's wall clock; whole microseconds.
    pub sent_ns: i64,
    /// By the receiver's wall clock.
    pub came_ns: i64,
    /// A queue on the way marked it (CE of ECN).
    pub marked: bool,
}

impl DatagramLog {
    /// One that came; what is beyond [`MOST_LOGGED`] is left out.
    pub fn push(&mut self, datagram: LoggedDatagram) {
        if self.0.len() < MOST_LOGGED {
            self.0.push(datagram);
        }
    }

    pub fn datagrams(&self) -> &[LoggedDatagram] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<DatagramLog> for Vec<i64> {
    fn from(log: DatagramLog) -> Self {
        let mut last = [0; 3];
        let numbers = log.0.iter().flat_map(|datagram| {
            let number = datagram.number.cast_signed();
            let number = if datagram.marked { number.wrapping_neg() } else { number };
            let now = [number, datagram.came_ns, datagram.sent_ns / 1000];
            let steps = [0, 1, 2].map(|at| now[at].wrapping_sub(last[at]));
            last = now;
            steps
        });
        numbers.collect()
    }
}

impl From<Vec<i64>> for DatagramLog {
    fn from(steps: Vec<i64>) -> Self {
        let mut last = [0_i64; 3];
        let datagrams = steps.as_chunks::<3>().0.iter().take(MOST_LOGGED).map(|step| {
            for (last, step) in last.iter_mut().zip(step) {
                *last = last.wrapping_add(*step);
            }
            let [number, came_ns, sent_us] = last;
            let sent_ns = sent_us.wrapping_mul(1000);
            LoggedDatagram { number: number.unsigned_abs(), sent_ns, came_ns, marked: number < 0 }
        });
        Self(datagrams.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_comes_out_as_it_went_in_in_few_digits() {
        let mut log = DatagramLog::default();
        for (number, sent_us, came_ns, marked) in [
            (1, 5_000, 7_000_123, false),
            (3, 6_000, 9_000_000, true),
            (2, 5_500, 9_000_001, false),
        ] {
            log.push(LoggedDatagram { number, sent_ns: sent_us * 1000, came_ns, marked });
        }
        let text = serde_json::to_string(&log).expect("JSON");
        assert_eq!(text, "[1,7000123,5000,-4,1999877,1000,5,1,-500]");
        assert_eq!(serde_json::from_str::<DatagramLog>(&text).expect("the same"), log);
        let cut: DatagramLog = serde_json::from_str("[1,2,3,4]").expect("a log that broke off");
        assert_eq!(cut.datagrams().len(), 1);
    }
}
