//! From the first packet to the last: takes what the prober tells, sums it up, keeps it, hands it to who watches.
//!
//! ```text
//!   prober (its thread) ─news──► this thread ──► tallies ──► PingSink: packet, tick
//!   SIGINT, SIGTERM, SIGHUP ──► stop bell       │      ├──► Keep
//!                                               │      └──► counters ◄── GET /metrics, its thread
//!                                               └─ until the prober ended
//! ```

use crate::metrics::{self, StreamCounters};
use crate::session::{self, News};
use crate::{DayRuns, Method, PingError, PingSession, Tally};
use quell_metrics::MetricsEndpoint;
use quell_model::{EchoSample, Event, Fact, Subject, Told};
use quell_probe::Prober;
use quell_store::{End, Keep};
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::resolve;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_units::Span;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Events that may wait for this thread; a reader that stops reading then stops the prober, and memory stays bounded.
const WAITING: usize = 256;

pub trait PingSink {
    /// How often [`PingSink::tick`] is called, if at all.
    fn every(&self) -> Option<Span>;
    fn begin(&mut self, window: &Window);
    /// What became of a packet of the stream with this place.
    fn packet(&mut self, stream: usize, sample: &EchoSample);
    fn flush(&mut self);
    fn tick(&mut self, tallies: &[Tally], elapsed_ns: u64);
}

/// What keeps what was measured.
pub enum PingKeeper<'a> {
    Run(Box<Keep>),
    Days(Box<DayRuns<'a>>),
}

impl PingKeeper<'_> {
    fn event(&mut self, event: &Event) -> Result<(), PingError> {
        match self {
            PingKeeper::Run(keep) => Ok(keep.event(event)?),
            PingKeeper::Days(days) => days.event(event),
        }
    }

    fn finish(self, end: End) -> Result<PathBuf, PingError> {
        match self {
            PingKeeper::Run(keep) => Ok(keep.finish(end)?),
            PingKeeper::Days(days) => days.finish(end),
        }
    }
}

pub struct PingRun {
    pub tallies: Vec<Tally>,
    pub run: Option<PathBuf>,
    pub failed: Option<String>,
}

/// Runs the prober to its end, which comes when the bell rings at the latest.
pub fn run(
    session: &PingSession,
    prober: Prober,
    stop: &Bell,
    keep: Option<PingKeeper<'_>>,
    sink: &mut dyn PingSink,
    metrics: Option<&MetricsEndpoint>,
) -> Result<PingRun, PingError> {
    let (told, over) = (Bell::new()?, Bell::new()?);
    let counters = Mutex::new(vec![StreamCounters::new(); session.targets.len()]);
    let (send, receive) = sync_channel(WAITING);
    let window = session.window();
    let interval_ns = session.interval.nanos();
    let mut keep = keep;
    if let Some(PingKeeper::Days(days)) = &mut keep {
        days.starts(window.start_ns);
    }
    sink.begin(&window);
    let mut watch = Watch {
        session,
        keep,
        sink,
        tallies: session.targets.iter().map(|_| Tally::new(interval_ns)).collect(),
        running: true,
        counters: metrics.map(|_| &counters),
        failed: None,
    };
    std::thread::scope(|scope| {
        let (told, window, over, counters) = (&told, &window, &over, &counters);
        if let Some(endpoint) = metrics {
            let page = move || metrics::page(session, &lock(counters));
            scope.spawn(move || endpoint.serve(over, &page));
        }
        scope.spawn(move || session::send(prober, window, stop, &send, told));
        let result = watch.until_ended(&receive, stop, told, window.start_ns);
        over.ring();
        // A prober that waits for room among the news must not wait for ever.
        drop(receive);
        result
    })?;
    let Watch { keep, tallies, failed, .. } = watch;
    let end = End::of(failed.as_deref(), stop.rings());
    let run = keep.map(|keep| keep.finish(end)).transpose()?;
    Ok(PingRun { tallies, run, failed })
}

struct Watch<'a> {
    session: &'a PingSession,
    keep: Option<PingKeeper<'a>>,
    sink: &'a mut dyn PingSink,
    tallies: Vec<Tally>,
    /// What a scraper sees.
    counters: Option<&'a Mutex<Vec<StreamCounters>>>,
    running: bool,
    failed: Option<String>,
}

impl Watch<'_> {
    fn until_ended(
        &mut self,
        news: &Receiver<News>,
        stop: &Bell,
        told: &Bell,
        begun_ns: u64,
    ) -> Result<(), PingError> {
        let mut alarm = Alarm::new()?;
        let every_ns = self.sink.every().map(Span::nanos);
        let mut due_ns = begun_ns.saturating_add(every_ns.unwrap_or(0));
        while self.running {
            alarm.set(every_ns.map(|_| due_ns))?;
            let mut fds = [readable(told), readable(&alarm)];
            wait(&mut fds)?;
            let due = came(&fds[1]);
            told.silence();
            for news in news.try_iter() {
                if let Err(error) = self.take(news) {
                    // The disk is full, as a rule. What was kept so far stays readable.
                    self.failed.get_or_insert(error.to_string());
                    self.keep = None;
                }
            }
            if self.failed.is_some() {
                stop.ring();
            }
            if let Some(counters) = self.counters {
                let now = self.tallies.iter().map(|tally| tally.counters.clone());
                *lock(counters) = now.collect();
            }
            self.sink.flush();
            if let Some(every_ns) = every_ns.filter(|_| due) {
                let now = monotonic_ns();
                self.sink.tick(&self.tallies, now.saturating_sub(begun_ns));
                while due_ns <= now {
                    due_ns = due_ns.saturating_add(every_ns);
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, news: News) -> Result<(), PingError> {
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
        let of = |stream: &str| self.session.targets.iter().position(|t| t.name == stream);
        match &event {
            Event::Fact(Fact { subject: Subject::Stream(stream, what), value, .. }) => {
                if let Some(index) = of(stream) {
                    self.tallies[index].fact(what, value);
                }
            }
            Event::Echo { stream, samples } => {
                let Some(index) = of(stream) else { return Ok(()) };
                for sample in samples {
                    self.tallies[index].take(sample);
                    self.sink.packet(index, sample);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn lock(counters: &Mutex<Vec<StreamCounters>>) -> MutexGuard<'_, Vec<StreamCounters>> {
    counters.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PingRun {
    pub fn verdict(&self, session: &PingSession) -> Result<(), PingError> {
        let all = session.targets.iter().zip(&self.tallies);
        let silent = all.filter(|(_, tally)| {
            let counts = tally.fold.counts();
            counts.answered() + counts.unsure == 0 && counts.sent > 0
        });
        let silent: Vec<_> = silent.map(|(target, _)| target).collect();
        if silent.is_empty() {
            return Ok(());
        }
        let mut counts = self.tallies.iter().map(|tally| tally.fold.counts());
        let refused = counts.all(|counts| counts.answered() == 0 && counts.errors > 0);
        let too_large =
            |tally: &Tally| tally.kinds.first().is_some_and(|(kind, _)| kind == "EMSGSIZE");
        let hint = match session.method {
            _ if refused && self.tallies.iter().all(too_large) => match session.largest(&silent) {
                Some(most) => format!(
                    "; packets of that size may not leave uncut: no more than -s {most} fits, as far as this host knows the path; or leave out -M"
                ),
                None => {
                    "; packets of that size may not leave uncut: take a smaller -s, or leave out -M"
                        .into()
                }
            },
            Method::Udp if refused => {
                "; is `quell serve` running there, bound to that address?".into()
            }
            _ => String::new(),
        };
        let names: Vec<&str> = silent.iter().map(|t| t.name.as_str()).collect();
        let others: String = silent.iter().map(|t| resolve::hint(&t.to, &t.others)).collect();
        Err(PingError::Silent(format!("no reply from {}{hint}{others}", names.join(", "))))
    }
}
