//! What a stream may be asked for beyond its task.

use crate::ProbeError;
use quell_sys::socket::Way;
use quell_units::Span;

/// How often rows are handed on, if nobody says otherwise.
pub const FLUSH: Span = Span::from_secs(1);

/// Wishes for one stream. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// It ends after this many packets, if that is before the task's duration.
    pub count: Option<u64>,
    /// From which own address, and by which device.
    pub way: Way,
}

/// Refuses an interval of nothing.
pub(crate) fn check_interval(stream: &str, interval: Span) -> Result<(), ProbeError> {
    if interval.is_zero() {
        let why = "the interval is zero; take at least 1us".into();
        return Err(ProbeError::Parameter { stream: stream.into(), why });
    }
    Ok(())
}
