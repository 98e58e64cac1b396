//! What a stream showed in a minute, as a [`Sketch`]: what is left of a day when its packets go.
//!
//! A line of JSON for each minute and stream. Sketches add up: so minutes make hours, and hours a week.

use quell_model::{EchoSample, EchoStatus, Sketch};
use quell_store::{Run, StoreError, write_output};
use quell_units::time::unix_seconds;
use quell_wire::text::printable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

const MINUTE_NS: i64 = 60_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinuteSketch {
    pub stream: String,
    #[serde(flatten)]
    pub sketch: Sketch,
}

/// Those of a run.
#[derive(Debug, Default)]
pub struct Minutes {
    /// By minute and stream.
    sketches: BTreeMap<(i64, String), Sketch>,
    /// Packets that count as lost, by stream and number: they may be answered yet.
    given_up: BTreeMap<(String, u64), EchoStatus>,
}

impl Minutes {
    /// Takes what became of a packet that was sent at this second since 1970.
    pub fn take(&mut self, stream: &str, sent_s: u64, sample: &EchoSample) {
        use EchoStatus::{Late, Unfinished, Unsure};
        let from_ns = (sent_s / 60) as i64 * MINUTE_NS;
        let key = (from_ns, stream.to_owned());
        let fresh = || Sketch::new(from_ns, MINUTE_NS as u64);
        let minute = self.sketches.entry(key).or_insert_with(fresh);
        if matches!(sample.status, Late | Unsure | Unfinished)
            && let Some(before) = self.given_up.remove(&(stream.to_owned(), sample.seq))
        {
            minute.forget_lost(before);
        }
        minute.record(sample);
        if sample.status.is_lost() {
            self.given_up.insert((stream.to_owned(), sample.seq), sample.status);
            if self.given_up.len() > 1 << 16 {
                self.given_up.pop_first();
            }
        }
    }

    /// Those of a run that was kept, also of one that was killed.
    pub fn of_run(run: &Run) -> Self {
        let mut minutes = Self::default();
        let started_s = unix_seconds(&run.manifest.started).unwrap_or(0.0);
        for series in run.cells.iter().flat_map(|cell| &cell.echoes) {
            for sample in &series.samples {
                let sent_s = (started_s + sample.t_ns as f64 / 1e9) as u64;
                minutes.take(&printable(&series.stream, 100), sent_s, sample);
            }
        }
        minutes
    }

    pub fn sketches(&self) -> Vec<MinuteSketch> {
        let all = self.sketches.iter().filter(|(_, sketch)| sketch.sent > 0);
        let minute = |((_, stream), sketch): (&(i64, String), &Sketch)| MinuteSketch {
            stream: stream.clone(),
            sketch: sketch.clone(),
        };
        all.map(minute).collect()
    }

    /// Writes them, whole or not at all.
    pub fn write(&self, file: &Path) -> Result<(), StoreError> {
        let line = |minute: &MinuteSketch| serde_json::to_string(minute).unwrap_or_default() + "\n";
        let text: String = self.sketches().iter().map(line).collect();
        write_output(file, text.as_bytes()).map_err(StoreError::io("write", file))
    }
}

/// Those of a file.
pub fn read(file: &Path) -> Result<Vec<MinuteSketch>, StoreError> {
    let text = quell_sys::input::text(file, 1 << 30).map_err(StoreError::io("read", file))?;
    let line = |line: &str| serde_json::from_str(line);
    let damaged = |e: serde_json::Error| StoreError::damaged(file, e.to_string());
    text.lines().map(line).collect::<Result<_, _>>().map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use EchoStatus::{Duplicate, Error, Late, Lost, LostUp, Ok, Unfinished};

    #[test]
    fn a_minute_counts_each_packet_once_whatever_is_said_of_it_later() {
        let mut minutes = Minutes::default();
        let mut take = |at, seq, status, rtt_ns| {
            let sample = EchoSample { rtt_ns, ..EchoSample::new(0, seq, 56, status) };
            minutes.take("a", at, &sample);
        };
        take(600, 0, Ok, Some(20_000_000));
        take(659, 1, LostUp, None);
        take(659, 1, Late, Some(9_000_000_000));
        take(630, 2, Lost, None);
        take(630, 0, Duplicate, Some(21_000_000));
        take(640, 3, Error, None);
        take(660, 4, LostUp, None);
        take(661, 5, Lost, None);
        take(661, 5, Unfinished, None);
        let got = minutes.sketches();
        let of = |m: &MinuteSketch| {
            let Sketch { from_ns, sent, lost_up, lost_down, .. } = m.sketch;
            let answered = m.sketch.buckets.iter().map(|(_, count)| u64::from(*count)).sum();
            [from_ns as u64 / 1_000_000_000, sent, answered, lost_up, lost_down]
        };
        assert_eq!(got.iter().map(of).collect::<Vec<_>>(), [[600, 4, 2, 0, 0], [660, 1, 0, 1, 0]]);
    }
}
