//! What iperf3 tells of a stream, in one line of its JSON.

use crate::error::ForeignError;
use crate::imported::{from_ms, from_s};
use serde::Deserialize;

/// Most datagrams and the like that are believed.
const MOST: i64 = 1 << 40;

/// What iperf3 writes where the kernel does not tell a round trip or a window.
const NOT_KNOWN: i64 = -1;

#[derive(Default, Deserialize)]
pub(super) struct IntervalPart {
    pub socket: Option<i64>,
    pub start: f64,
    pub end: f64,
    #[serde(default)]
    seconds: Option<f64>,
    pub bytes: f64,
    #[serde(default)]
    pub retransmits: Option<i64>,
    #[serde(default)]
    snd_cwnd: Option<i64>,
    #[serde(default)]
    rtt: Option<i64>,
    #[serde(default)]
    pub packets: Option<i64>,
    #[serde(default)]
    pub lost_packets: Option<i64>,
    #[serde(default)]
    pub jitter_ms: Option<f64>,
    #[serde(default)]
    pub out_of_order: Option<i64>,
    #[serde(default)]
    pub omitted: bool,
    #[serde(default)]
    pub sender: Option<bool>,
}

impl IntervalPart {
    /// Refuses times and counts that can't be. `omits`: the test has an omitted time (-O), at whose end iperf3 counts anew: an interval may then
    /// begin behind its end, and what came late of that time is taken back.
    pub fn check(&self, omits: bool, place: impl Fn(&str) -> String) -> Result<(), ForeignError> {
        let wrong = |what: &str, why: String| Err(ForeignError::Value { place: place(what), why });
        for (what, at) in [("start", self.start), ("end", self.end)] {
            if from_s(at).is_none_or(|ns| ns < 0) {
                return wrong(what, format!("{at:?} s is no time of a test"));
            }
        }
        if !omits && self.end < self.start {
            return wrong("end", format!("{} s is before its start, {} s", self.end, self.start));
        }
        // Its clock counts microseconds. 3.12 has the sender's seconds at the receiver, so that they need not be those from start to end.
        let least = if !omits && self.end > self.start { 5e-7 } else { 0.0 };
        if let Some(s) = self.seconds.filter(|s| *s < least || from_s(*s).is_none()) {
            return wrong("seconds", format!("{s:?} s is no time of a test"));
        }
        if !(0.0..=9e15).contains(&self.bytes) {
            return wrong("bytes", format!("{:?} is no number of bytes", self.bytes));
        }
        let counts = [
            ("packets", self.packets, 0),
            // In an interval, lost ones that came late are taken back.
            ("lost_packets", self.lost_packets, -MOST),
            ("out_of_order", self.out_of_order, 0),
            ("retransmits", self.retransmits, 0),
            // Not known to a kernel that does not tell them.
            ("rtt", self.rtt, NOT_KNOWN),
            ("snd_cwnd", self.snd_cwnd, NOT_KNOWN),
        ];
        for (what, count, least) in counts {
            let most = if what == "rtt" { i64::from(u32::MAX) } else { MOST };
            if let Some(count) = count.filter(|n| !(least..=most).contains(n)) {
                return wrong(what, format!("{count} is no such count"));
            }
        }
        if let Some(ms) = self.jitter_ms.filter(|ms| from_ms(*ms).is_none()) {
            return wrong("jitter_ms", format!("{ms:?} is no jitter"));
        }
        Ok(())
    }

    /// Refuses more datagrams lost than sent, or less than none: of a whole test iperf3 counts neither.
    pub fn check_sum(&self, place: impl Fn(&str) -> String) -> Result<(), ForeignError> {
        let (Some(sent), Some(lost)) = (self.packets, self.lost_packets) else { return Ok(()) };
        if (0..=sent).contains(&lost) {
            return Ok(());
        }
        let why = format!("{lost} of {sent} datagrams can't be lost");
        Err(ForeignError::Value { place: place("lost_packets"), why })
    }

    /// Datagrams sent and lost; none where the file does not tell them, or tells what can't be.
    pub fn datagrams(&self) -> Option<(i64, i64)> {
        let (sent, lost) = (self.packets?, self.lost_packets?);
        (0..=sent).contains(&lost).then_some((sent, lost))
    }

    /// The congestion window in segments of this size, where both are known.
    pub fn window(&self, mss: Option<u32>) -> Option<u32> {
        u32::try_from(self.snd_cwnd? / i64::from(mss?)).ok()
    }

    /// The round trip in microseconds, where it is known.
    pub fn rtt_us(&self) -> Option<u32> {
        u32::try_from(self.rtt?).ok()
    }
}
