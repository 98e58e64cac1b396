//! What each kind of probe or load tells of itself, once: all that reads, checks, plans and carries out experiments asks it here.

use super::maker::Maker;
use crate::plan::PlanError;
use quell_model::{Event, Metric, Task};
use quell_sys::pace::Window;
use quell_sys::wait::Bell;
use quell_units::{Bytes, Rate, Span, Tos};
use std::fmt::Display;

/// A probe or load as a person wrote it.
pub trait Kind {
    fn name(&self) -> &str;

    fn hosts(&self) -> Vec<&str>;

    /// When it starts, from the start of the measurement, and how long it lasts, where the file says so.
    fn times(&self) -> (Option<Span>, Option<Span>) {
        (None, None)
    }

    fn connections(&self) -> u32 {
        1
    }

    /// Whether its hosts are to use ECN (RFC 3168); none leaves that to them.
    fn ecn(&self) -> Option<bool> {
        None
    }

    fn metrics(&self) -> &'static [Metric];

    fn lacks(&self) -> Option<String> {
        None
    }

    /// Tells what can't be, beyond what each field can say by itself: which key, and why.
    fn check(&self, bad: Bad<'_>);

    fn plan(&self, maker: &mut Maker<'_>) -> Result<(), PlanError>;

    /// The streams of it: one of its own name, or `name-1`, `name-2` … with several connections.
    fn streams(&self) -> Box<dyn Iterator<Item = String> + '_> {
        match self.connections() {
            0 | 1 => Box::new(std::iter::once(self.name().to_owned())),
            // A file may ask for any number; more are refused.
            several => Box::new(
                (1..=several.min(MOST_CONNECTIONS)).map(|n| format!("{}-{n}", self.name())),
            ),
        }
    }

    fn has_stream(&self, stream: &str) -> bool {
        let number = || stream.strip_prefix(self.name())?.strip_prefix('-')?.parse::<u32>().ok();
        stream == self.name()
            || self.connections() > 1
                && number().is_some_and(|n| (1..=self.connections()).contains(&n))
    }
}

/// The name and hosts of what has the fields `name`, `from` and `to`.
macro_rules! from_to {
    () => {
        fn name(&self) -> &str {
            &self.name
        }

        fn hosts(&self) -> Vec<&str> {
            vec![&self.from, &self.to]
        }
    };
}
pub(super) use from_to;

/// Takes the key that is wrong, and why.
pub type Bad<'a> = &'a mut dyn FnMut(&'static str, String);

pub trait Works: Kind {
    fn work(task: &Task) -> Option<Opening<'_>>;
}

/// Opens what a task needs. Reasons are for people.
pub type Opening<'a> = Box<dyn FnOnce() -> Result<Work, String> + 'a>;

/// Carries a task out: a client to its end, a server until the bell rings.
pub type Work = Box<dyn FnOnce(&Window, &Bell, Emit<'_>) -> Result<(), String> + Send>;

pub type Emit<'a> = &'a (dyn Fn(Event) + Sync);

pub fn opens<'a, T, E>(
    open: impl FnOnce() -> Result<T, E> + 'a,
    run: impl FnOnce(T, &Window, &Bell, Emit<'_>) -> Result<(), E> + Send + 'static,
) -> Option<Opening<'a>>
where
    T: Send + 'static,
    E: Display,
{
    Some(Box::new(move || {
        let opened = open().map_err(|e| e.to_string())?;
        Ok(Box::new(move |window, stop, emit| {
            run(opened, window, stop, emit).map_err(|e| e.to_string())
        }))
    }))
}

pub const PINGS: &[Metric] = &[
    Metric::Loss,
    Metric::Jitter,
    Metric::JitterRtt,
    Metric::RttMin,
    Metric::RttMean,
    Metric::RttP50,
    Metric::RttP90,
    Metric::RttP99,
    Metric::RttMax,
    Metric::Sent,
    Metric::Received,
    Metric::Duplicates,
    Metric::Reordered,
];

pub const MOST_CONNECTIONS: u32 = 1000;

/// Largest payload that fits in an IP packet.
pub const LARGEST_PAYLOAD: u64 = 65_507;

/// Least time between the packets of a stream. A kernel carries fewer; no time at all would never end.
const LEAST_GAP: Span = Span::from_micros(1);

/// Tells where packets of this size at this rate follow each other too closely.
pub fn check_gap(rate: Rate, size: Bytes, bad: Bad<'_>) {
    let size = size.get();
    if rate.time_for(size) < LEAST_GAP {
        let why = format!(
            "{rate} in packets of {size} bytes is more than a million packets a second; give a lower rate or a larger size"
        );
        bad("rate", why);
    }
}

pub fn check_interval(interval: Span, least: Span, bad: Bad<'_>) {
    if interval < least {
        bad("interval", format!("an interval of {interval} is a flood; give at least {least}"));
    }
}

pub fn payload(size: Bytes) -> u32 {
    u32::try_from(size.get()).unwrap_or(u32::MAX)
}

pub(super) fn fifth() -> Span {
    Span::from_millis(200)
}

pub(super) fn no_tos() -> Tos {
    Tos::from_byte(0)
}
