//! Bulk TCP: a client that connects, and a server. The client says first what it wants (`quell_wire::hello`), and one of the two
//! then sends as much as goes.
//!
//! ```text
//!   client task                                       server task
//!    ├── worker 1 ── connect, hello, send or receive ── worker ──┤
//!    ├── worker 2 ── …                                  worker ──┤
//!    └── reports at each tick, ends all at its time              └── reports at each tick, ends all at `stop`
//! ```
//!
//! The sender reports bytes that were *acknowledged* and the kernel's view (`TCP_INFO`); the receiver what it read. When the time is
//! over the client takes its last sample and breaks the connections off (reset), so that a long queue on the path holds nobody up;
//! with a number of bytes, both ends finish in order and the last sample is of the time when everything was there.
//!
//! A client whose connection gets no answer at all in its whole time is not a failure but a result: 0 bytes. It says so in a line of
//! output.

use crate::connection_sample::tcp_info;
use crate::flow::{Ending, Flow, Reporter, toiled};
use crate::tcp_worker::{receive, send};
use crate::{Emit, LoadError};
use nix::errno::Errno;
use quell_model::task::{Direction, TcpClient};
use quell_model::{Event, FlowSample, Side};
use quell_stats::Rng;
use quell_sys::SysError;
use quell_sys::clock::{monotonic_ns, sleep_until};
use quell_sys::pace::Window;
use quell_sys::socket::stream::{Connected, StreamOptions, TcpSocket, accept, listen_as};
use quell_sys::wait::{Alarm, Bell, came, readable, wait, wake_exactly};
use quell_units::{Bytes, Span};
use quell_wire::hello::{self, Hello};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

/// Most connections of one task: each has a thread at either end.
const MOST_CONNECTIONS: u32 = 1000;
/// Connections of one task start within this time, each at its own, so that they don't march in step.
const START_SPREAD_NS: u64 = 5_000_000;
const STACK: usize = 128 * 1024;

#[derive(Debug)]
pub struct Client {
    task: String,
    spec: TcpClient,
    seed: u64,
    streams: Vec<TcpSocket>,
}

enum Found {
    /// There was a connection, and it carried data: the flow tells the rest.
    Flow,
    NoAnswer,
    Stopped,
}

impl Client {
    /// Opens the sockets with all their options; `task` is for messages.
    ///
    /// Errors when a parameter can't be: a name that is too long, no connections, an unknown congestion control …
    pub fn prepare(task: &str, spec: &TcpClient, seed: u64) -> Result<Self, LoadError> {
        let wrong = |why: String| LoadError::Parameter { flow: spec.stream.clone(), why };
        if !(1..=MOST_CONNECTIONS).contains(&spec.connections) {
            let asked = spec.connections;
            return Err(wrong(format!("{asked} connections; take 1 to {MOST_CONNECTIONS}")));
        }
        if spec.report.is_zero() {
            return Err(wrong("the time between reports is zero; take at least 1ms".into()));
        }
        if spec.bytes.is_some_and(|b| b.get() == 0) {
            return Err(wrong("it is to end after 0 bytes".into()));
        }
        if spec.stream.len() + 5 > hello::LONGEST_NAME {
            let most = hello::LONGEST_NAME - 5;
            return Err(wrong(format!("the name is too long; at most {most} bytes")));
        }
        if spec.congestion.as_ref().is_some_and(|c| c.len() > hello::LONGEST_CONGESTION) {
            return Err(wrong("no congestion control has so long a name".into()));
        }
        let sends = spec.direction == Direction::Up;
        let options = StreamOptions {
            tos: spec.tos.byte(),
            congestion: spec.congestion.clone(),
            pacing: spec.pacing.map(|r| r.bytes_per_second()).filter(|_| sends),
            window: spec.window.filter(|_| !sends).map(buffer),
            mss: spec.mss,
        };
        let streams: Vec<TcpSocket> = (0..spec.connections)
            .map(|_| TcpSocket::new(spec.to.is_ipv6(), &options))
            .collect::<Result<_, SysError>>()?;
        for (stream, source) in streams.iter().zip(spec.sources()) {
            stream.come_from(source.into())?;
        }
        Ok(Self { task: task.into(), spec: spec.clone(), seed, streams })
    }

    /// Runs it from the window's start to its end, or until every connection sent its bytes, or the bell rings.
    ///
    /// Errors when a connection was refused, or broke before its time; the others go on to their end.
    pub fn run(self, window: &Window, stop: &Bell, emit: Emit<'_>) -> Result<(), LoadError> {
        let Self { task, spec, seed, streams } = self;
        let mut alarm = Alarm::new()?;
        alarm.set(Some(window.start_ns))?;
        let mut fds = [readable(stop), readable(&alarm)];
        wait(&mut fds)?;
        if came(&fds[0]) {
            return Ok(());
        }
        let begun = window.start_ns.max(monotonic_ns());
        let names: Vec<String> = (1..=streams.len())
            .map(|n| match streams.len() {
                1 => spec.stream.clone(),
                _ => format!("{}-{n}", spec.stream),
            })
            .collect();
        // That nothing has arrived yet is true whether or not the two will ever hear of each other; the flow's time begins here.
        for name in &names {
            let samples = vec![zero(window, begun, Side::Receiver)];
            emit(Event::Flow { stream: name.clone(), samples });
        }
        let connections = Connections::new()?;
        // Rings when this task's time is over, also for workers that still connect.
        let over = Bell::new()?;
        let rng = Rng::new(seed);
        std::thread::scope(|scope| {
            let mut workers = Vec::new();
            for (name, stream) in names.iter().zip(streams) {
                let (connections, spec, over) = (&connections, &spec, &over);
                let start = begun + rng.derive(name).below(START_SPREAD_NS);
                let work = move || {
                    let found = client_worker(name, stream, start, spec, window, over, connections);
                    if matches!(found, Ok(Found::Flow)) {
                        toiled(name, own_side(spec.direction), emit);
                    }
                    connections.rang(name, found);
                };
                let builder = std::thread::Builder::new().stack_size(STACK).name(name.clone());
                workers.push(
                    builder
                        .spawn_scoped(scope, work)
                        .map_err(|e| SysError::io(format!("start a thread for flow `{name}`"), &e)),
                );
            }
            let workers: Result<Vec<_>, SysError> = workers.into_iter().collect();
            let result = workers.map_err(LoadError::from).and_then(|workers| {
                oversee(workers.len(), &connections, window, stop, emit, &mut alarm)
            });
            over.ring();
            connections.abort_all();
            result
        })?;
        connections.verdict(&task, &spec, window, begun, emit)
    }
}

/// Waits for ticks, ends and new flows until all workers are done or the time is over.
fn oversee(
    workers: usize,
    connections: &Connections,
    window: &Window,
    stop: &Bell,
    emit: Emit<'_>,
    alarm: &mut Alarm,
) -> Result<(), LoadError> {
    wake_exactly();
    let mut reporter = Reporter::new(*window, emit);
    let end = window.end_ns();
    let mut stopped = false;
    loop {
        // Before the flows are looked at: what a worker did before it was done is then seen.
        let done = connections.done() == workers;
        for flow in connections.new_flows() {
            reporter.adopt(flow);
        }
        let now = monotonic_ns();
        let over = done || stopped || now >= end;
        for (flow, ending) in if over { reporter.finish(now) } else { reporter.ended() } {
            connections.note_ending(&flow, ending);
        }
        if over {
            return Ok(());
        }
        reporter.tick(now);
        alarm.set(Some(reporter.due().map_or(end, |due| due.min(end))))?;
        let mut fds = [readable(stop), readable(&*alarm), readable(&connections.bell)];
        wait(&mut fds)?;
        stopped = came(&fds[0]);
        connections.bell.silence();
    }
}

fn client_worker(
    name: &str,
    stream: TcpSocket,
    start_ns: u64,
    spec: &TcpClient,
    window: &Window,
    over: &Bell,
    connections: &Connections,
) -> Result<Found, LoadError> {
    wake_exactly();
    sleep_until(start_ns)?;
    match stream.connect(spec.to, window.end_ns(), over)? {
        Connected::Yes => {}
        Connected::NoAnswer => return Ok(Found::NoAnswer),
        Connected::Stopped => return Ok(Found::Stopped),
    }
    let stream = Arc::new(stream);
    let sends = spec.direction == Direction::Up;
    let hello = Hello {
        name: name.into(),
        down: !sends,
        tos: spec.tos.byte(),
        bytes: spec.bytes.map(Bytes::get),
        pacing: spec.pacing.map(|r| r.bytes_per_second()),
        report_ns: spec.report.nanos(),
        congestion: spec.congestion.clone(),
    };
    let hello = hello.write().ok_or_else(|| LoadError::Parameter {
        flow: name.into(),
        why: "its name or its congestion control's is too long".into(),
    })?;
    let side = own_side(spec.direction);
    let counted = tcp_info(&stream).and_then(|i| i.bytes_acked).unwrap_or(0);
    let mut flow =
        Flow::new(name.into(), side, Arc::clone(&stream), spec.report.nanos(), monotonic_ns());
    flow.before = counted + hello.len() as u64;
    flow.limit = spec.bytes.map(Bytes::get);
    let flow = Arc::new(flow);
    connections.begin(Arc::clone(&flow));
    let ending = match stream.write(&hello) {
        Ok(_) if sends => send(&flow),
        Ok(_) => receive(&flow),
        Err(errno) => Ending::Broken(errno),
    };
    flow.end(monotonic_ns(), ending);
    Ok(Found::Flow)
}

struct Connections {
    bell: Bell,
    inner: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    fresh: Vec<Arc<Flow>>,
    all: Vec<Arc<TcpSocket>>,
    done: usize,
    closed: bool,
    silent: Vec<String>,
    errors: Vec<LoadError>,
    endings: Vec<(String, Side, u64, Ending, bool)>,
}

impl Connections {
    fn new() -> Result<Self, SysError> {
        Ok(Self { bell: Bell::new()?, inner: Mutex::default() })
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, flow: Arc<Flow>) {
        let mut shared = self.shared();
        self.keep(&mut shared, &flow.stream);
        shared.fresh.push(flow);
        self.bell.ring();
    }

    /// Notes a connection, so that it can be broken off; at once if the end has come already.
    fn keep(&self, shared: &mut Shared, stream: &Arc<TcpSocket>) {
        if shared.closed {
            stream.abort();
        }
        shared.all.push(Arc::clone(stream));
    }

    /// A connection is over: it is closed when its last report was taken.
    fn forget(&self, stream: &Arc<TcpSocket>) {
        self.shared().all.retain(|kept| !Arc::ptr_eq(kept, stream));
        self.bell.ring();
    }

    fn rang(&self, name: &str, found: Result<Found, LoadError>) {
        let mut shared = self.shared();
        shared.done += 1;
        match found {
            Ok(Found::Flow | Found::Stopped) => {}
            Ok(Found::NoAnswer) => shared.silent.push(name.into()),
            Err(error) => shared.errors.push(error),
        }
        self.bell.ring();
    }

    fn new_flows(&self) -> Vec<Arc<Flow>> {
        std::mem::take(&mut self.shared().fresh)
    }

    fn done(&self) -> usize {
        self.shared().done
    }

    fn note_ending(&self, flow: &Flow, ending: Ending) {
        let limited = flow.limit.is_some();
        let ended = (flow.name.clone(), flow.side, monotonic_ns(), ending, limited);
        self.shared().endings.push(ended);
    }

    fn abort_all(&self) {
        let mut shared = self.shared();
        shared.closed = true;
        for stream in shared.all.drain(..) {
            stream.abort();
        }
    }

    fn verdict(
        &self,
        task: &str,
        spec: &TcpClient,
        window: &Window,
        begun: u64,
        emit: Emit<'_>,
    ) -> Result<(), LoadError> {
        let mut shared = self.shared();
        let now = monotonic_ns();
        for name in &shared.silent {
            let side = own_side(spec.direction);
            let samples =
                vec![zero(window, begun, side), zero(window, now.min(window.end_ns()), side)];
            emit(Event::Flow { stream: name.clone(), samples });
            let line = format!("{name}: no connection to {} came about in its whole time", spec.to);
            emit(Event::Output { task: task.into(), stderr: true, line });
        }
        if let Some(error) = shared.errors.pop() {
            return Err(error);
        }
        for (name, side, at, ending, limited) in &shared.endings {
            let why = match ending {
                Ending::Complete if *limited => continue,
                Ending::Complete => {
                    "the other end finished it before its time; what it says tells why".to_owned()
                }
                Ending::Broken(Errno::ETIMEDOUT) => "the other end was silent for too long".into(),
                Ending::Broken(errno) => {
                    format!("the connection to {} broke: {errno:?}, {}", spec.to, errno.desc())
                }
            };
            let after = at.saturating_sub(begun) as f64 / 1e9;
            let what = if *side == Side::Sender { "sending" } else { "receiving" };
            let why = format!("{why} (after {after:.3} s of {what})");
            return Err(LoadError::Broken { flow: name.clone(), why });
        }
        Ok(())
    }
}

fn zero(window: &Window, at_ns: u64, side: Side) -> FlowSample {
    FlowSample { t_ns: window.t(at_ns), side, bytes: 0, packets: 0, tcp: None }
}

fn buffer(window: Bytes) -> u32 {
    u32::try_from(window.get()).unwrap_or(u32::MAX)
}

/// Which side of a flow the one is who connects.
fn own_side(direction: Direction) -> Side {
    match direction {
        Direction::Up => Side::Sender,
        Direction::Down => Side::Receiver,
    }
}

struct NoFlow {
    why: String,
    /// The flow's name, where it was one of ours that can't have what it asks for.
    refused: Option<String>,
}

impl From<String> for NoFlow {
    fn from(why: String) -> Self {
        Self { why, refused: None }
    }
}

#[derive(Debug)]
pub struct Server {
    task: String,
    listener: TcpListener,
    report: Span,
}

impl Server {
    /// Listens; `task` is for messages. Errors when the port is in use.
    pub fn prepare(
        task: &str,
        bind: SocketAddr,
        report: Span,
        window: Option<Bytes>,
        congestion: Option<String>,
    ) -> Result<Self, LoadError> {
        if report.is_zero() {
            let why = "the time between reports is zero; take at least 1ms".into();
            return Err(LoadError::Parameter { flow: task.into(), why });
        }
        let window = window.map(buffer);
        let listener =
            listen_as(bind, &StreamOptions { window, congestion, ..Default::default() })?;
        Ok(Self { task: task.into(), listener, report })
    }

    pub fn local(&self) -> Result<SocketAddr, LoadError> {
        Ok(self.listener.local_addr().map_err(|e| SysError::io("read the own address", &e))?)
    }

    pub fn run(self, window: &Window, stop: &Bell, emit: Emit<'_>) -> Result<(), LoadError> {
        wake_exactly();
        let connections = Connections::new()?;
        std::thread::scope(|scope| {
            let result = self.serve(scope, &connections, window, stop, emit);
            connections.abort_all();
            result
        })
    }

    fn serve<'scope, 'env>(
        &'env self,
        scope: &'scope std::thread::Scope<'scope, 'env>,
        connections: &'env Connections,
        window: &Window,
        stop: &Bell,
        emit: Emit<'env>,
    ) -> Result<(), LoadError> {
        let mut reporter = Reporter::new(*window, emit);
        let mut alarm = Alarm::new()?;
        loop {
            alarm.set(reporter.due())?;
            let mut fds = [
                readable(stop),
                readable(&alarm),
                readable(&connections.bell),
                readable(&self.listener),
            ];
            wait(&mut fds)?;
            let (stopped, called) = (came(&fds[0]), came(&fds[3]));
            connections.bell.silence();
            for flow in connections.new_flows() {
                reporter.adopt(flow);
            }
            // Who ended does not matter here: the client knows whether that was in time.
            reporter.ended();
            if stopped {
                reporter.finish(monotonic_ns());
                // Whoever asked saw only that the connection ended; the reason is known here.
                return connections.shared().errors.drain(..).next().map_or(Ok(()), Err);
            }
            reporter.tick(monotonic_ns());
            if called && let Some((stream, from)) = accept(&self.listener)? {
                let stream = Arc::new(stream);
                {
                    let mut shared = connections.shared();
                    connections.keep(&mut shared, &stream);
                }
                let work = move || {
                    if let Err(NoFlow { why, refused }) =
                        self.attend(&stream, from, connections, emit)
                    {
                        if let Some(flow) = refused {
                            let why = format!("its sending end refused it: {why}");
                            connections.shared().errors.push(LoadError::Parameter { flow, why });
                        }
                        // Not before the reason is there: whoever sees the connection end may stop us at once.
                        stream.abort();
                        let line = format!("{from}: {why}");
                        emit(Event::Output { task: self.task.clone(), stderr: true, line });
                    }
                    connections.forget(&stream);
                };
                let builder = std::thread::Builder::new().stack_size(STACK).name("tcp".into());
                builder
                    .spawn_scoped(scope, work)
                    .map_err(|e| SysError::io("start a thread for a connection", &e))?;
            }
        }
    }

    /// One connection to its end; the reason why there was no flow.
    fn attend(
        &self,
        stream: &Arc<TcpSocket>,
        from: SocketAddr,
        connections: &Connections,
        emit: Emit<'_>,
    ) -> Result<(), NoFlow> {
        let mut bytes = [0; hello::SIZE];
        let mut have = 0;
        while have < bytes.len() {
            match stream.read(&mut bytes[have..]) {
                // Broken off before it said anything: the client's affair.
                Ok(0) | Err(_) if have == 0 => return Ok(()),
                Ok(0) => return Err(NoFlow::from("it ended within its first words".to_owned())),
                Ok(got) => have += got,
                Err(Errno::EINTR) => {}
                Err(errno) => {
                    return Err(format!("it broke within its first words: {errno:?}").into());
                }
            }
        }
        let hello = Hello::read(&bytes).ok_or_else(|| {
            "it does not speak as a Quell of this version; the connection was closed".to_owned()
        })?;
        let options = StreamOptions {
            tos: hello.tos,
            congestion: hello.congestion.clone().filter(|_| hello.down),
            pacing: hello.pacing.filter(|_| hello.down),
            window: None,
            mss: None,
        };
        stream
            .apply(from.is_ipv6(), &options)
            .map_err(|e| NoFlow { why: e.to_string(), refused: Some(hello.name.clone()) })?;
        let (side, report_ns) = match hello.down {
            true => (Side::Sender, hello.report_ns.max(1_000_000)),
            false => (Side::Receiver, self.report.nanos()),
        };
        let mut flow =
            Flow::new(hello.name.clone(), side, Arc::clone(stream), report_ns, monotonic_ns());
        flow.before = tcp_info(stream).and_then(|i| i.bytes_acked).unwrap_or(0);
        flow.limit = hello.bytes;
        let flow = Arc::new(flow);
        connections.begin(Arc::clone(&flow));
        let ending = if hello.down { send(&flow) } else { receive(&flow) };
        flow.end(monotonic_ns(), ending);
        toiled(&flow.name, side, emit);
        Ok(())
    }
}
