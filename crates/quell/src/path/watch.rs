//! Watching a path: takes what the probe tells, shows it, keeps it, ends it when Ctrl-C says so.

use super::known::Known;
use super::session::Session;
use super::{live, reopen};
use crate::failure::Failure;
use crate::keep::{End, Keep};
use crate::screen;
use quell_model::Event;
use quell_probe::ProbeError;
use quell_probe::path::{News, PathProbe};
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_units::Span;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

/// How often the live view is drawn.
const DRAW_NS: u64 = 250_000_000;
/// From the last preparation to the first packet.
const HEAD_START_NS: u64 = 2_000_000;
/// Long enough for everybody, and far from where sums overflow.
const ENDLESS_NS: u64 = 100 * 365 * 86_400 * 1_000_000_000;
/// What is known of the path is kept so often at most.
const LEAST_SHAPE_NS: u64 = 5_000_000_000;
/// News that may wait for this thread.
const WAITING: usize = 256;

/// How it ended.
pub struct Ended {
    /// All that is known of the path.
    pub known: Known,
    /// Where the run was kept.
    pub run: Option<PathBuf>,
    /// Why it could not go on.
    pub failed: Option<String>,
}

enum Heard {
    News(News),
    Ended(Result<(), ProbeError>),
}

/// Runs the probe to its end, which comes when the bell rings at the latest.
pub fn watch(
    session: &Session,
    probe: PathProbe,
    duration: Option<Span>,
    live: bool,
    keep: Option<Keep>,
    stop: Arc<Bell>,
) -> Result<Ended, Failure> {
    let told = Bell::new().map_err(Failure::system)?;
    let (send, receive) = sync_channel(WAITING);
    let start_ns = monotonic_ns() + HEAD_START_NS;
    let duration_ns = duration.map_or(ENDLESS_NS, Span::nanos).min(ENDLESS_NS);
    let window = Window { origin_ns: start_ns, start_ns, duration_ns };
    let flows = u16::try_from(session.ports.len()).unwrap_or(u16::MAX);
    let mut view = LiveView {
        session,
        live,
        keep,
        known: Known::new(flows, session.interval_ns),
        screen: screen::Screen::new(),
        begun_ns: start_ns,
        is_new: false,
        shape_ns: 0,
        running: true,
        failed: None,
    };
    std::thread::scope(|scope| {
        let (stop, told, window) = (&stop, &told, &window);
        scope.spawn(move || {
            let emit = |news: News| {
                // Nobody reads any more only when the program is about to end.
                let _ = send.send(Heard::News(news));
                told.ring();
            };
            let result = probe.run(window, stop, &emit);
            let _ = send.send(Heard::Ended(result));
            told.ring();
        });
        let result = view.until_ended(&receive, stop, told);
        // A probe that waits for room among the news must not wait for ever.
        drop(receive);
        result
    })?;
    if live {
        screen::Screen::show(&view.screen.clear(screen::size().0));
    }
    let LiveView { keep, known, failed, .. } = view;
    let end = End::of(failed.as_deref(), stop.rings());
    let run = keep.map(|keep| keep.finish(end)).transpose()?;
    Ok(Ended { known, run, failed })
}

struct LiveView<'a> {
    session: &'a Session,
    live: bool,
    keep: Option<Keep>,
    known: Known,
    screen: screen::Screen,
    begun_ns: u64,
    /// Whether there is something to keep of the path's shape, and when that may be next.
    is_new: bool,
    shape_ns: u64,
    /// Whether the probe did not end yet.
    running: bool,
    failed: Option<String>,
}

impl LiveView<'_> {
    fn until_ended(
        &mut self,
        heard: &Receiver<Heard>,
        stop: &Bell,
        told: &Bell,
    ) -> Result<(), Failure> {
        let mut alarm = Alarm::new().map_err(Failure::system)?;
        let mut draw = self.begun_ns;
        while self.running {
            alarm.set(self.live.then_some(draw)).map_err(Failure::system)?;
            let mut fds = [readable(told), readable(&alarm)];
            wait(&mut fds).map_err(Failure::system)?;
            let due = came(&fds[1]);
            told.silence();
            for heard in heard.try_iter() {
                if let Err(error) = self.take(heard) {
                    // The disk is full, as a rule. What was kept so far stays readable.
                    self.failed.get_or_insert(error.to_string());
                    self.keep = None;
                }
            }
            if self.failed.is_some() {
                stop.ring();
            }
            if self.live && due {
                self.draw();
                draw = monotonic_ns() + DRAW_NS;
            }
        }
        Ok(())
    }

    fn take(&mut self, heard: Heard) -> Result<(), Failure> {
        let news = match heard {
            Heard::Ended(result) => {
                self.running = false;
                self.keep_shape()?;
                if let Err(error) = result {
                    self.failed.get_or_insert(error.to_string());
                }
                return Ok(());
            }
            Heard::News(news) => news,
        };
        self.is_new |= self.known.take(&news);
        let now_ns = monotonic_ns();
        if self.is_new && now_ns >= self.shape_ns {
            self.keep_shape()?;
            // Where answers change all the time, a run of a day must not be full of shapes.
            let passed_ns = now_ns.saturating_sub(self.begun_ns);
            self.shape_ns = now_ns + LEAST_SHAPE_NS.max(passed_ns / 16);
        }
        let Some(keep) = &mut self.keep else { return Ok(()) };
        if let News::Samples { flow, ttl, samples } = news {
            let stream = reopen::stream(self.session.ports.len(), flow, ttl);
            keep.event(&Event::Echo { stream, samples })?;
        }
        Ok(())
    }

    fn keep_shape(&mut self) -> Result<(), Failure> {
        self.is_new = false;
        match &mut self.keep {
            Some(keep) => keep.event(&reopen::shape_fact(&self.known)),
            None => Ok(()),
        }
    }

    fn draw(&mut self) {
        let (width, height) = screen::size();
        let elapsed_ns = monotonic_ns().saturating_sub(self.begun_ns);
        let lines = live::lines(self.session, &self.known, elapsed_ns, width, height);
        screen::Screen::show(&self.screen.frame(&lines, width));
    }
}
