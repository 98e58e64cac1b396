//! Why something was not done.

use quell_act::ActError;
use std::fmt::Display;

#[derive(Debug, thiserror::Error)]
pub enum ShapingError {
    /// Something is not as it has to be for that.
    #[error("{0}")]
    Check(String),
    /// It was asked for wrongly.
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

impl ShapingError {
    pub fn check(why: impl Display) -> Self {
        ShapingError::Check(why.to_string())
    }

    pub fn usage(why: impl Display) -> Self {
        ShapingError::Usage(why.to_string())
    }

    pub fn unusable(why: impl Display) -> Self {
        ShapingError::Unusable(why.to_string())
    }

    pub fn system(why: impl Display) -> Self {
        ShapingError::System(why.to_string())
    }
}
