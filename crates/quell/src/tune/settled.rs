//! What is wanted here beside what is there, and the one way to carry it out.

use super::asked::Places;
use super::files::{self, CHANGE, Files};
use super::look::{self, Settings};
use crate::failure::Failure;
use crate::shape::{failure, watchdog};
use quell_act::{Applied, Asked, Goal, Kernel, Log};
use quell_sys::wall::realtime_ns;
use quell_tune::{Host, Record, Tuning, Wish};
use quell_units::Span;

/// What is wanted here, and what was applied before.
pub struct Settled {
    pub files: Files,
    pub host: Host,
    pub plan: Tuning,
    pub now: Settings,
    pub earlier: Option<Record>,
}

impl Settled {
    /// Looks at this host and at what was applied to it.
    pub fn of(wish: Wish, places: &Places) -> Result<Self, Failure> {
        let host = look::host()?;
        let now = host.now.clone();
        let files = Files::of(places);
        let log = files::log(places)?;
        let earlier = match files.recorded()? {
            Some(record) => Some(record),
            None => log.as_ref().and_then(files::of_log),
        };
        let host = look::before(host, earlier.as_ref());
        let plan = Tuning::of(wish, &host).map_err(Failure::usage)?;
        Ok(Settled { files, host, plan, now, earlier })
    }

    /// What will be recorded; `keep` for the next boot too.
    pub fn record(&self, keep: bool) -> Record {
        let at = realtime_ns() / 1_000_000_000;
        files::record(&self.plan, self.earlier.as_ref(), &self.now, at, keep)
    }
}

/// Carries a goal out.
pub fn act(
    kernel: &mut Kernel,
    places: &Places,
    goal: Goal,
    record: &Record,
    within: Option<Span>,
) -> Result<Applied, Failure> {
    let asked = Asked {
        folder: &places.state,
        device: CHANGE.to_owned(),
        goal,
        wanted: record.wanted.clone(),
        recipe: record.text(),
        annex: None,
        command: "quell tune apply".to_owned(),
        replace: false,
        no_way_back: false,
        confirm_within: within.map(Span::nanos),
        trial: true,
        watchdog: &watchdog,
    };
    quell_act::apply(kernel, &asked).map_err(failure)
}

/// Whether a log needs somebody's hand, and how it stands.
pub fn standing(log: &Log) -> (String, bool) {
    crate::shape::standing(log, quell_sys::clock::monotonic_ns(), "quell tune")
}
