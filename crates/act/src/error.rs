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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActError {
    /// What is there could not be read; nothing was touched.
    #[error("{0}; nothing was changed")]
    Unread(String),
    #[error("{holder} is changing this network; wait until that is over")]
    Busy { holder: String },
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
    #[error(
        "what is there could not be brought back:\n{0}\n--no-way-back replaces it all the same"
    )]
    OneWay(String),
    /// The kernel would refuse what is wanted, as a trial in a namespace of its own showed.
    #[error("this kernel does not take what is wanted: {0}; nothing was changed")]
    Trial(String),
    #[error("somebody else has just changed the same; nothing was changed by us: look again")]
    Changed,
    #[error("{0}; without a log there is no way back, so nothing was changed")]
    NoLog(String),
    #[error("{0}; without a watchdog nothing was changed")]
    NoWatchdog(String),
    #[error("step {number} of {of}, {step}: {why}; everything is as it was before")]
    Refused { number: usize, of: usize, step: String, why: String },
    #[error(
        "all steps were taken, but then there was still to do: {0}; everything is as it was before"
    )]
    NotInForce(String),
    #[error("{why}\nand the way back: {left}; `{tool} recover` tries again")]
    Stuck { why: String, left: String, tool: String },
    #[error("an earlier change was not finished ({who}); `{tool} recover` brings things back")]
    Unfinished { who: String, tool: String },
    #[error("{0}")]
    Nothing(String),
    #[error("{0}")]
    System(String),
}

/// Why a command that changes a machine did not do it; each kind has an exit code of its own.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Something is not as it has to be for that.
    #[error("{0}")]
    Check(String),
    #[error("{0}")]
    Usage(String),
    /// A file or a policy is wrong. It may have any text in it, however long.
    #[error("{0}")]
    Unusable(String),
    #[error("{0}")]
    System(String),
    #[error(transparent)]
    Act(#[from] ActError),
}

impl CommandError {
    pub fn check(why: impl fmt::Display) -> Self {
        CommandError::Check(why.to_string())
    }

    pub fn usage(why: impl fmt::Display) -> Self {
        CommandError::Usage(why.to_string())
    }

    pub fn unusable(why: impl fmt::Display) -> Self {
        CommandError::Unusable(why.to_string())
    }

    pub fn system(why: impl fmt::Display) -> Self {
        CommandError::System(why.to_string())
    }
}
