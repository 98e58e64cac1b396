//! What a stream may be asked for beyond its task.

use crate::ProbeError;
use crate::patience::{self, Patience};
use quell_sys::clock::is_virtual;
use quell_sys::socket::Way;
use quell_units::Span;

/// How often rows are handed on, if nobody says otherwise.
pub const FLUSH: Span = Span::from_secs(1);

/// Who times the sending of datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimedBy {
    /// The kernel, but this program in virtual time: nothing passes there between its look at the clock and the kernel's, and a stamp of
    /// the kernel takes two more calls for each packet, which made a lab run 1.6 times as long.
    #[default]
    WhoIsExact,
    /// The kernel, before this host's queue.
    Kernel,
    /// This program, right before it calls the kernel.
    Program,
}

impl TimedBy {
    pub(crate) fn is_kernel(self) -> bool {
        match self {
            TimedBy::WhoIsExact => !is_virtual(),
            TimedBy::Kernel => true,
            TimedBy::Program => false,
        }
    }
}

/// Wishes for one stream. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeOptions {
    /// It ends after this many packets, if that is before the task's duration.
    pub count: Option<u64>,
    /// From which own address, and by which device.
    pub way: Way,
    /// Whether the other end may have a clock of its own, which is then told as the fact `stream/NAME/clocks` = `apart`, unless the
    /// destination is this host's own address.
    pub other_clock: bool,
    pub timed_by: TimedBy,
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

pub(crate) fn check_interval(stream: &str, interval: Span) -> Result<(), ProbeError> {
    if interval.is_zero() {
        let why = "the interval is zero; take at least 1us".into();
        return Err(ProbeError::Parameter { stream: stream.into(), why });
    }
    Ok(())
}
