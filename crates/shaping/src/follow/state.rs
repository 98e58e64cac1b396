//! What a follower tells of itself: a file beside the undo log, written a second apart, which `quell shape status` reads.

use super::STAMP;
use super::controller::RateReason;
use super::signal_test::{SignalTest, SignalVerdict};
use crate::process_lock;
use quell_act::Log;
use quell_model::task::Direction;
use quell_sys::input;
use quell_units::Rate;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// No state is longer.
const LONGEST: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FollowState {
    /// The process; none where it has ended.
    #[serde(default)]
    pub process: Option<u32>,
    pub directions: Vec<FollowedDirection>,
    pub signals: Vec<TestedSignal>,
    /// Of which policy this is.
    pub policy: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FollowedDirection {
    pub direction: Direction,
    pub floor_bps: u64,
    pub ceiling_bps: u64,
    pub rate_bps: u64,
    /// To which it goes where no signal is heard, if the policy says `last-good`.
    pub good_bps: u64,
    /// What went through our queue lately.
    pub load_bps: u64,
    /// How long packets wait in the line; unknown where no signal sees that.
    pub wait_ms: Option<f64>,
    /// The signal that is believed.
    pub signal: Option<String>,
    pub changes: u64,
    /// Why the rate was changed last, and when, in seconds since 1970.
    pub reason: RateReason,
    pub why: String,
    pub changed_at: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestedSignal {
    pub signal: String,
    pub direction: Direction,
    #[serde(flatten)]
    pub test: SignalTest,
    /// The same in words.
    pub says: String,
}

pub fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

/// The file that a follower keeps locked.
pub fn lock_file(log: &Path) -> PathBuf {
    log.with_extension("follow")
}

pub fn state_file(log: &Path) -> PathBuf {
    log.with_extension("follow-state")
}

impl FollowState {
    pub fn read(log: &Path) -> Option<Self> {
        serde_json::from_str(&input::text(&state_file(log), LONGEST).ok()?).ok()
    }

    /// Without it `status` knows less, signals are tested again after a restart, and a guard takes the floor.
    pub fn write(&self, log: &Path) {
        if let Ok(text) = serde_json::to_vec(self) {
            let _ = quell_store::write_output(&state_file(log), &text);
        }
    }

    /// How it stands, of a change whose policy is followed.
    pub fn of(log: &Log) -> Option<Self> {
        let process = process_lock::holder(&lock_file(log.path()));
        Some(FollowState { process, ..Self::read(log.path())? })
    }

    pub fn direction(&self, direction: Direction) -> Option<&FollowedDirection> {
        self.directions.iter().find(|one| one.direction == direction)
    }

    /// Why a direction is not followed: nobody does, or no signal sees its queue.
    pub fn trouble(&self) -> Option<String> {
        if self.process.is_none() {
            return Some("nobody follows the line: quell shape apply again".to_owned());
        }
        let unseen = self.directions.iter().filter(|one| one.signal.is_none()).find_map(|one| {
            let direction = one.direction;
            let (test, of) = self.signals.iter().find_map(|test| match test.test.verdict {
                _ if test.direction != direction => None,
                SignalVerdict::Blind => Some((test, format!("{} is", test.signal))),
                // What the user's own traffic tests may not be there yet.
                SignalVerdict::Unknown if test.signal.starts_with(STAMP) => {
                    Some((test, format!("of {} it is", test.signal)))
                }
                _ => None,
            })?;
            let rate = Rate::from_bps(one.rate_bps);
            Some(format!("{} it stays at {rate}, since {of} {}", word(direction), test.says))
        });
        unseen.map(|why| format!("not followed: {why}"))
    }
}
