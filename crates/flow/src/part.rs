//! What a part of the time means for a verdict. Pure.

/// What takes less of the time than this leaves the rest certain.
pub(crate) const PARTLY: f64 = 0.1;

/// How much of the time something took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// So little that it does not matter.
    Hardly,
    /// Too much to be left out of account.
    Partly,
    /// Most of it.
    Mostly,
}

impl Part {
    /// Of a part from 0 to 1.
    pub(crate) fn of(share: f64) -> Self {
        match share {
            ..PARTLY => Self::Hardly,
            ..=0.5 => Self::Partly,
            _ => Self::Mostly,
        }
    }
}
