//! Why a test ends before its end.

use super::plan::Unfit;
use crate::places::Full;
use quell_sys::SysError;
use quell_sys::socket::exchange::ExchangeError;

/// Why a test ends before its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    /// It can't be.
    #[error("{0}")]
    Unfit(#[from] Unfit),
    /// It may not be now.
    #[error("{0}")]
    Busy(String),
    /// The client says that it stops.
    #[error("the client was stopped")]
    ClientStopped,
    /// The client is gone.
    #[error("the client went away")]
    Gone,
    /// The client does not go on.
    #[error("the client did not go on in time")]
    Late,
    /// The client says what it should not.
    #[error("the client does not keep to the protocol: {0}")]
    Protocol(String),
    /// It took longer than it may.
    #[error("its time was up")]
    TimeUp,
    /// It stood still, and another had its place.
    #[error("{}", Full::SentAway)]
    StoodStill,
    /// The server ends.
    #[error("the server was stopped")]
    ServerStopped,
    /// The system would not let us.
    #[error("{0}")]
    System(#[from] SysError),
}

impl From<ExchangeError> for Break {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Closed => Self::Gone,
            ExchangeError::Late => Self::Late,
            ExchangeError::Stopped => Self::ServerStopped,
            ExchangeError::System(error) => Self::System(error),
        }
    }
}
