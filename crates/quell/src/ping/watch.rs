//! Watching a session: takes what the prober tells, shows it, keeps it, ends it when Ctrl-C says so.
//!
//! ```text
//!   prober (its thread) ─news──► this thread ──► tallies ──► live view, four times a second
//!   SIGINT, SIGTERM, SIGHUP ──► stop bell       │      ├──► lines
//!        a second one ends the program          │      └──► keep
//!                                               └─ until the prober ended
//! ```

use super::session::{News, Prober, Session};
use super::shown::{JsonForm, Shown};
use super::tally::Tally;
use super::{json, live, text};
use crate::failure::Failure;
use crate::keep::{End, Keep};
use crate::screen;
use crate::text::say;
use quell_model::{EchoSample, Event, Fact, Subject, Told};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_sys::wall::realtime_ns;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

/// How often the live view is drawn.
const DRAW_NS: u64 = 250_000_000;
/// Events that may wait for this thread; a reader that stops reading then stops the prober, and memory stays bounded.
const WAITING: usize = 256;

/// How it ended.
pub struct Ended {
    /// The streams' figures.
    pub tallies: Vec<Tally>,
    /// Where the run was kept.
    pub run: Option<PathBuf>,
    /// Why it could not go on.
    pub failed: Option<String>,
}

/// Runs the prober to its end, which comes when the bell rings at the latest.
pub fn watch(
    session: &Session,
    prober: Prober,
    shown: Shown,
    keep: Option<Keep>,
    stop: Arc<Bell>,
) -> Result<Ended, Failure> {
    let told = Bell::new().map_err(Failure::system)?;
    let alarm = Alarm::new().map_err(Failure::system)?;
    let (send, receive) = sync_channel(WAITING);
    let window = session.window();
    let interval_ns = session.interval.nanos();
    let mut watch = LiveView {
        session,
        shown,
        keep,
        tallies: session.targets.iter().map(|_| Tally::new(interval_ns)).collect(),
        screen: screen::Screen::new(),
        unicode: screen::unicode(),
        width: session.targets.iter().map(|t| t.name.chars().count()).max().unwrap_or(0),
        period: session.targets.iter().map(|_| Tally::new(interval_ns)).collect(),
        begun_ns: window.start_ns,
        wall_ns: realtime_ns().saturating_add(window.start_ns).saturating_sub(monotonic_ns()),
        running: true,
        failed: None,
    };
    watch.open();
    std::thread::scope(|scope| {
        let (stop, told, window) = (&stop, &told, &window);
        scope.spawn(move || prober.run(window, stop, &send, told));
        let result = watch.until_ended(&receive, stop, told, alarm);
        // A prober that waits for room among the news must not wait for ever.
        drop(receive);
        result
    })?;
    if watch.shown == Shown::Live {
        screen::Screen::show(&watch.screen.clear(screen::size().0));
    }
    let LiveView { keep, tallies, failed, .. } = watch;
    let end = End::of(failed.as_deref(), stop.rings());
    let run = keep.map(|keep| keep.finish(end)).transpose()?;
    Ok(Ended { tallies, run, failed })
}

struct LiveView<'a> {
    session: &'a Session,
    shown: Shown,
    keep: Option<Keep>,
    tallies: Vec<Tally>,
    screen: screen::Screen,
    unicode: bool,
    /// Of the longest name.
    width: usize,
    /// Of the time since the last summaries.
    period: Vec<Tally>,
    begun_ns: u64,
    /// The same by the wall clock.
    wall_ns: u64,
    /// Whether the prober did not end yet.
    running: bool,
    failed: Option<String>,
}

impl LiveView<'_> {
    fn open(&mut self) {
        match self.shown {
            Shown::Lines | Shown::Summaries(_) => say(&text::opening(self.session)),
            Shown::Json(JsonForm::Lines) => println!("{}", json::start(self.session)),
            Shown::Live | Shown::Quiet | Shown::Json(JsonForm::Document) => {}
        }
    }

    /// The summaries of the time since the last ones.
    fn sum_up(&mut self) {
        let interval_ns = self.session.interval.nanos();
        for (target, tally) in self.session.targets.iter().zip(&mut self.period) {
            let past = std::mem::replace(tally, Tally::new(interval_ns));
            say(&(text::period(self.session, &target.name, self.width, &past) + "\n"));
        }
    }

    fn until_ended(
        &mut self,
        news: &Receiver<News>,
        stop: &Bell,
        told: &Bell,
        mut alarm: Alarm,
    ) -> Result<(), Failure> {
        let every = match self.shown {
            Shown::Live => Some(DRAW_NS),
            Shown::Summaries(every) => Some(every.nanos()),
            _ => None,
        };
        let mut draw = match self.shown {
            Shown::Live => self.begun_ns,
            _ => self.begun_ns.saturating_add(every.unwrap_or(0)),
        };
        while self.running {
            let live = self.shown == Shown::Live;
            alarm.set(every.map(|_| draw)).map_err(Failure::system)?;
            let mut fds = [readable(told), readable(&alarm)];
            wait(&mut fds).map_err(Failure::system)?;
            let due = came(&fds[1]);
            told.silence();
            for news in news.try_iter() {
                if let Err(error) = self.take(news) {
                    // The disk is full, as a rule. What was kept so far stays readable.
                    self.failed.get_or_insert(error.to_string());
                    self.keep = None;
                    stop.ring();
                }
            }
            if self.failed.is_some() {
                stop.ring();
            }
            // A reader of lines wants them now, not when a block is full.
            let _ = quell_sys::reader::print(std::io::stdout(), b"");
            if live && due {
                self.draw();
                draw = monotonic_ns() + DRAW_NS;
            } else if let Some(every) = every.filter(|_| due) {
                self.sum_up();
                let now = monotonic_ns();
                while draw <= now {
                    draw = draw.saturating_add(every);
                }
            }
        }
        if matches!(self.shown, Shown::Summaries(_))
            && self.period.iter().any(|tally| tally.fold.counts().sent > 0)
        {
            self.sum_up();
        }
        Ok(())
    }

    fn take(&mut self, news: News) -> Result<(), Failure> {
        let event = match news {
            News::Ended(result) => {
                self.running = false;
                if let Err(error) = result {
                    self.failed.get_or_insert(error.to_string());
                }
                return Ok(());
            }
            News::Event(event) => event,
        };
        // A ping has no planned end: all that it saw counts, whenever it is stopped, and what is kept says the same.
        let waits =
            matches!(&event, Event::Fact(Fact { subject: Subject::Stream(_, Told::Waits), .. }));
        if let Some(keep) = self.keep.as_mut().filter(|_| !waits) {
            keep.event(&event)?;
        }
        if let Event::Fact(Fact { subject: Subject::Stream(stream, what), value, .. }) = &event
            && let Some(index) = self.session.targets.iter().position(|t| t.name == *stream)
        {
            self.tallies[index].fact(what, value);
        }
        if let Event::Echo { stream, samples } = event {
            let Some(index) = self.session.targets.iter().position(|t| t.name == stream) else {
                return Ok(());
            };
            for sample in &samples {
                self.tallies[index].take(sample);
                if matches!(self.shown, Shown::Summaries(_)) {
                    self.period[index].take(sample);
                }
                self.line(&stream, sample);
            }
        }
        Ok(())
    }

    fn line(&self, stream: &str, sample: &EchoSample) {
        match self.shown {
            Shown::Lines => {
                let one_clock = self.session.one_clock;
                let stamp = match self.session.wall_clock {
                    true => text::stamp(self.wall_ns.saturating_add_signed(sample.t_ns)),
                    false => String::new(),
                };
                let line = text::packet(stream, self.width, one_clock, sample);
                say(&format!("{stamp}{line}\n"));
            }
            Shown::Json(JsonForm::Lines) => println!("{}", json::packet(stream, sample)),
            Shown::Live | Shown::Quiet | Shown::Summaries(_) | Shown::Json(JsonForm::Document) => {}
        }
    }

    fn draw(&mut self) {
        let (width, height) = screen::size();
        let place = live::Place { width, height, unicode: self.unicode };
        let elapsed = monotonic_ns().saturating_sub(self.begun_ns);
        let lines = live::lines(self.session, &self.tallies, elapsed, place);
        screen::Screen::show(&self.screen.frame(&lines, width));
    }
}
