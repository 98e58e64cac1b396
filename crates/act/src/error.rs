//! Why something was not done, and how things stand then.

use std::fmt;

/// Why a step was refused, in the words of who refused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Refusal(error.to_string())
    }
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActError {
    /// What is there could not be read; nothing was touched.
    #[error("{0}; nothing was changed")]
    Unread(String),
    /// Somebody else is at it.
    #[error("{holder} is changing this network; wait until that is over")]
    Busy { holder: String },
    /// Others' queues are in the way.
    #[error(
        "somebody else's queues are there:\n{0}\nwith --replace they are replaced, and come back with `quell shape off`"
    )]
    Foreign(String),
    /// What is there has the names of ours, and is not as we left it.
    #[error(
        "{0}\nso it may be somebody else's; nothing was changed: `quell shape off --replace` takes it off, and \
         `--keep` leaves it there and takes off all else"
    )]
    NotAsLeft(String),
    /// There would be no way back.
    #[error(
        "what is there could not be brought back:\n{0}\n--no-way-back replaces it all the same"
    )]
    OneWay(String),
    /// The kernel would refuse what is wanted, as a trial in a namespace of its own showed.
    #[error("this kernel does not take what is wanted: {0}; nothing was changed")]
    Trial(String),
    /// Somebody changed something since it was read.
    #[error("somebody else has just changed the same; nothing was changed by us: look again")]
    Changed,
    /// The undo log could not be written.
    #[error("{0}; without a log there is no way back, so nothing was changed")]
    NoLog(String),
    /// There is nobody to bring things back.
    #[error("{0}; without a watchdog nothing was changed")]
    NoWatchdog(String),
    /// A step was refused, and all is as it was.
    #[error("step {number} of {of}, {step}: {why}; everything is as it was before")]
    Refused {
        /// Which, from 1.
        number: usize,
        of: usize,
        step: String,
        why: String,
    },
    /// What was done is not what was wanted, and all is as it was.
    #[error(
        "all steps were taken, but then there was still to do: {0}; everything is as it was before"
    )]
    NotInForce(String),
    /// The way back was refused too.
    #[error("{why}\nand the way back: {left}; `{tool} recover` tries again")]
    Stuck {
        /// What was wrong first.
        why: String,
        /// What could not be brought back, and why.
        left: String,
        /// What was called, as `quell shape`.
        tool: String,
    },
    /// There is an unfinished change.
    #[error("an earlier change was not finished ({who}); `{tool} recover` brings things back")]
    Unfinished {
        who: String,
        /// What was called, as `quell shape`.
        tool: String,
    },
    /// There is nothing to confirm, bring back or take off.
    #[error("{0}")]
    Nothing(String),
    /// The system would not let us.
    #[error("{0}")]
    System(String),
}
