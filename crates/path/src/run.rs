//! Runs the probe of a path: takes what it tells, hands on what is to be kept and shown, ends it when somebody rings.

use crate::PathSession;
use crate::hops::PathHops;
use crate::kept;
use quell_model::Event;
use quell_probe::ProbeError;
use quell_probe::path::{News, PathProbe};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_units::Span;
use std::sync::mpsc::{Receiver, sync_channel};

const DRAW_NS: u64 = 250_000_000;
/// What is known of the path is kept so often at most.
const LEAST_SHAPE_NS: u64 = 5_000_000_000;
const WAITING: usize = 256;

/// Takes what is to be kept and shown while it goes on.
pub trait PathSink {
    /// What a run keeps. Errors with the reason why it can't, which ends the probe.
    fn keep(&mut self, event: Event) -> Result<(), String>;
    fn is_live(&self) -> bool;
    fn draw(&mut self, hops: &PathHops, elapsed_ns: u64);
}

pub struct PathRun {
    pub hops: PathHops,
    pub failed: Option<String>,
}

enum Message {
    News(News),
    Ended(Result<(), ProbeError>),
}

/// Runs the probe to its end, which comes when the bell rings at the latest.
pub fn run(
    session: &PathSession,
    probe: PathProbe,
    duration: Option<Span>,
    stop: &Bell,
    sink: &mut dyn PathSink,
) -> Result<PathRun, SysError> {
    let bell = Bell::new()?;
    let (send, receive) = sync_channel(WAITING);
    let window = Window::from_now(duration.map(Span::nanos));
    let mut watch = Watch {
        session,
        sink,
        run: PathRun { hops: PathHops::new(session.flows()), failed: None },
        begun_ns: window.start_ns,
        is_new: false,
        shape_ns: 0,
        is_running: true,
    };
    std::thread::scope(|scope| {
        let (bell, window) = (&bell, &window);
        scope.spawn(move || {
            let emit = |news: News| {
                // Nobody reads any more only when the program is about to end.
                let _ = send.send(Message::News(news));
                bell.ring();
            };
            let result = probe.run(window, stop, &emit);
            let _ = send.send(Message::Ended(result));
            bell.ring();
        });
        let result = watch.until_ended(&receive, stop, bell);
        // A probe that waits for room among the news must not wait for ever.
        drop(receive);
        result
    })?;
    Ok(watch.run)
}

struct Watch<'a> {
    session: &'a PathSession,
    sink: &'a mut dyn PathSink,
    run: PathRun,
    begun_ns: u64,
    /// Whether there is something to keep of the path's shape, and when that may be next.
    is_new: bool,
    shape_ns: u64,
    is_running: bool,
}

impl Watch<'_> {
    fn until_ended(
        &mut self,
        messages: &Receiver<Message>,
        stop: &Bell,
        bell: &Bell,
    ) -> Result<(), SysError> {
        let mut alarm = Alarm::new()?;
        let mut draw = self.begun_ns;
        let is_live = self.sink.is_live();
        while self.is_running {
            alarm.set(is_live.then_some(draw))?;
            let mut fds = [readable(bell), readable(&alarm)];
            wait(&mut fds)?;
            let due = came(&fds[1]);
            bell.silence();
            messages.try_iter().for_each(|message| self.take(message));
            if self.run.failed.is_some() {
                stop.ring();
            }
            if due {
                self.sink.draw(&self.run.hops, monotonic_ns().saturating_sub(self.begun_ns));
                draw = monotonic_ns() + DRAW_NS;
            }
        }
        Ok(())
    }

    fn take(&mut self, message: Message) {
        let news = match message {
            Message::Ended(result) => {
                self.is_running = false;
                self.keep_shape();
                if let Err(error) = result {
                    self.run.failed.get_or_insert(error.to_string());
                }
                return;
            }
            Message::News(news) => news,
        };
        self.is_new |= self.run.hops.take(&news);
        let now_ns = monotonic_ns();
        if self.is_new && now_ns >= self.shape_ns {
            self.keep_shape();
            // Where answers change all the time, a run of a day must not be full of shapes.
            let passed_ns = now_ns.saturating_sub(self.begun_ns);
            self.shape_ns = now_ns + LEAST_SHAPE_NS.max(passed_ns / 16);
        }
        if let News::Samples { flow, ttl, samples } = news {
            let stream = kept::stream(self.session.ports.len(), flow, ttl);
            self.keep(Event::Echo { stream, samples });
        }
    }

    fn keep_shape(&mut self) {
        self.is_new = false;
        self.keep(kept::shape_fact(&self.run.hops));
    }

    /// The disk is full, as a rule, where that fails. What was kept so far stays readable.
    fn keep(&mut self, event: Event) {
        if self.run.failed.is_none() {
            self.run.failed = self.sink.keep(event).err();
        }
    }
}
