//! Moments, as captures write them.

use quell_units::Span;
use serde::Serialize;

/// A moment: nanoseconds since 1970, or since whatever the capturing machine counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// The time from `earlier` to this, zero if `earlier` is later: a clock may have been set back.
    pub fn since(self, earlier: Self) -> Span {
        let nanos = i128::from(self.0) - i128::from(earlier.0);
        Span::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// The moment that much later.
    pub(crate) fn after(self, span: Span) -> Self {
        Time(self.0.saturating_add(i64::try_from(span.nanos()).unwrap_or(i64::MAX)))
    }

    /// The moment that long ago.
    pub(crate) fn before(self, span: Span) -> Self {
        Time(self.0.saturating_sub(i64::try_from(span.nanos()).unwrap_or(i64::MAX)))
    }
}

/// A span as milliseconds, for JSON.
pub(crate) fn millis<S: serde::Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(span.as_millis_f64())
}

/// A span that may be missing as milliseconds or null, for JSON.
pub(crate) fn millis_or_null<S: serde::Serializer>(
    span: &Option<Span>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => to.serialize_f64(span.as_millis_f64()),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_gives_no_time_at_all() {
        assert_eq!(Time(5).since(Time(3)), Span::from_nanos(2));
        assert_eq!(Time(3).since(Time(5)), Span::ZERO);
        assert_eq!(Time(i64::MAX).since(Time(i64::MIN)), Span::MAX);
    }
}
