//! How pings are shown while they go on.

use super::live;
use super::text;
use crate::live_view::TerminalSize;
use crate::screen::{self, Screen};
use crate::text::say;
use clap::ValueEnum;
use quell_model::EchoSample;
use quell_ping::{PacketLine, PingSession, PingSink, PingStart, Tally};
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wall::realtime_ns;
use quell_units::Span;
use quell_wire::text::json as printed;

/// How often the live view is drawn.
const DRAWN: Span = Span::from_millis(250);

/// How JSON is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum JsonForm {
    /// One document at the end
    Document,
    /// An object a line
    Lines,
}

/// What is shown while it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PingDisplay {
    /// Drawn in place.
    Live,
    Lines,
    Summaries(Span),
    Quiet,
    Json(JsonForm),
}

pub struct PingView<'a> {
    session: &'a PingSession,
    display: PingDisplay,
    wall_clock: bool,
    screen: Screen,
    width: usize,
    /// Of the time since the last summaries.
    period: Vec<Tally>,
    /// When the first packet left, by the wall clock.
    begun_ns: u64,
}

impl<'a> PingView<'a> {
    pub fn new(session: &'a PingSession, display: PingDisplay, wall_clock: bool) -> Self {
        let fresh = |_| Tally::new(session.interval.nanos());
        Self {
            session,
            display,
            wall_clock,
            screen: Screen::new(),
            width: session.targets.iter().map(|t| t.name.chars().count()).max().unwrap_or(0),
            period: session.targets.iter().map(fresh).collect(),
            begun_ns: 0,
        }
    }

    pub fn end(&mut self) {
        match self.display {
            PingDisplay::Live => Screen::show(&self.screen.clear(screen::size().0)),
            PingDisplay::Summaries(_)
                if self.period.iter().any(|tally| tally.fold.counts().sent > 0) =>
            {
                self.sum_up();
            }
            _ => {}
        }
        if matches!(self.display, PingDisplay::Lines | PingDisplay::Summaries(_)) {
            println!();
        }
    }

    /// The summaries of the time since the last ones.
    fn sum_up(&mut self) {
        let interval_ns = self.session.interval.nanos();
        for (target, tally) in self.session.targets.iter().zip(&mut self.period) {
            let past = std::mem::replace(tally, Tally::new(interval_ns));
            let stamp = if self.wall_clock { text::stamp(realtime_ns()) } else { String::new() };
            say(&format!("{stamp}{}\n", text::period(&target.name, self.width, &past)));
        }
    }
}

impl PingSink for PingView<'_> {
    fn every(&self) -> Option<Span> {
        match self.display {
            PingDisplay::Live => Some(DRAWN),
            PingDisplay::Summaries(every) => Some(every),
            _ => None,
        }
    }

    fn begin(&mut self, window: &Window) {
        self.begun_ns =
            realtime_ns().saturating_add(window.start_ns).saturating_sub(monotonic_ns());
        match self.display {
            PingDisplay::Lines | PingDisplay::Summaries(_) => say(&text::opening(self.session)),
            PingDisplay::Json(JsonForm::Lines) => line(&PingStart::of(self.session)),
            PingDisplay::Live => self.tick(&self.period.clone(), 0),
            PingDisplay::Quiet | PingDisplay::Json(JsonForm::Document) => {}
        }
    }

    fn packet(&mut self, stream: usize, sample: &EchoSample) {
        let Some(target) = self.session.targets.get(stream) else { return };
        match self.display {
            PingDisplay::Lines => {
                let stamp = match self.wall_clock {
                    true => text::stamp(self.begun_ns.saturating_add_signed(sample.t_ns)),
                    false => String::new(),
                };
                let one_clock = self.session.one_clock;
                let line = text::packet(&target.name, self.width, one_clock, sample);
                say(&format!("{stamp}{line}\n"));
            }
            PingDisplay::Json(JsonForm::Lines) => line(&PacketLine::of(&target.name, sample)),
            PingDisplay::Summaries(_) => self.period[stream].take(sample),
            PingDisplay::Live | PingDisplay::Quiet | PingDisplay::Json(JsonForm::Document) => {}
        }
    }

    fn flush(&mut self) {
        // A reader of lines wants them now, not when a block is full.
        let _ = quell_sys::reader::print(std::io::stdout(), b"");
    }

    fn tick(&mut self, tallies: &[Tally], elapsed_ns: u64) {
        if let PingDisplay::Summaries(_) = self.display {
            return self.sum_up();
        }
        let place = TerminalSize::now();
        let mut lines = live::lines(self.session, tallies, elapsed_ns, place);
        lines.extend(live::chart(tallies, elapsed_ns, place, lines.len()));
        Screen::show(&self.screen.frame(&lines, place.width));
    }
}

pub fn line(of: &impl serde::Serialize) {
    // Names and numbers are always JSON.
    println!("{}", printed(&serde_json::to_string(of).unwrap_or_default()));
}
