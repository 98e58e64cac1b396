//! What a stream may be asked for beyond its task.

use crate::ProbeError;
use crate::patience::{self, Patience};
use quell_sys::clock::is_virtual;
use quell_sys::socket::Way;
use quell_units::Span;

/// Wishes for one stream. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeOptions {
    /// It ends after this many packets, if that is before the task's duration.
    pub count: Option<u64>,
    /// How long after the window's start its own first packet is due: streams that begin together meet each other.
    pub delay: Span,
    /// From which own address, and by which device.
    pub way: Way,
    /// How long replies are waited for, instead of the task's linger.
    pub patience: Option<Patience>,
}

impl ProbeOptions {
    /// How long replies are waited for: in virtual time, where waiting costs nothing, the task's linger; else that is the most, and
    /// what the round trips ask for is waited for.
    pub(crate) fn patience(&self, linger: Span, interval: Span) -> Patience {
        let patience = self.patience.unwrap_or_else(|| match is_virtual() {
            true => Patience::exactly(linger),
            false => Patience::between(linger.min(patience::LEAST), linger),
        });
        patience.for_packets_every(interval)
    }
}

pub fn plain<T: Clone>(streams: &[T]) -> Vec<(T, ProbeOptions)> {
    streams.iter().map(|stream| (stream.clone(), ProbeOptions::default())).collect()
}

pub(crate) fn check_interval(stream: &str, interval: Span) -> Result<(), ProbeError> {
    if interval.is_zero() {
        let why = "the interval is zero; take at least 1us".into();
        return Err(ProbeError::Parameter { stream: stream.into(), why });
    }
    Ok(())
}
