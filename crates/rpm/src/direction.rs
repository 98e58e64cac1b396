//! One direction, an interval after the other, until goodput and then responsiveness are stable (the draft's "Final Algorithm").

use crate::http::{self, RpmError, Target};
use nix::errno::Errno;
use quell_load::look::tcp_info;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::bulk_stream::{discard_some, send_some};
use quell_sys::socket::option::set;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::{Alarm, Bell, came, readable, wait, writable};
use quell_web::rpm::{
    self, Confidence, INTERVAL_NS, INTERVALS, MOST_CONNECTIONS, Responsiveness, Times,
};
use serde::Serialize;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The server.
    Down,
    /// This end.
    Up,
}

/// What one direction showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Bits a second of payload: the moving average of the last interval.
    pub bits_per_second: f64,
    /// How sure that is.
    pub goodput_confidence: Confidence,
    /// Round trips, and their parts.
    #[serde(flatten)]
    pub responsiveness: Option<Responsiveness>,
    /// How sure they are.
    pub confidence: Confidence,
    /// Connections that made load in the end.
    pub connections: usize,
    /// Probes that came back: on connections of their own, and within loaded ones.
    pub foreign_probes: usize,
    /// See above.
    pub self_probes: usize,
    /// Intervals of a second.
    pub intervals: usize,
    /// What broke off, where something did.
    pub broke: Option<String>,
}

/// Most probes that are under way at once.
const MOST_UNDER_WAY: usize = 64;
/// As if an endless file were posted.
const ENDLESS: u64 = 1 << 40;
/// Stack of a thread that does little.
const STACK: usize = 128 << 10;

/// What all threads of a direction share.
struct Shared<'a> {
    way: Way,
    at: &'a Target,
    /// Ends all of them.
    over: Bell,
    bytes: AtomicU64,
    times: Mutex<Times>,
    loads: Mutex<Vec<TcpSocket>>,
    under_way: AtomicUsize,
    broke: Mutex<Option<RpmError>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures one direction.
pub fn measure(
    way: Way,
    at: &Target,
    most: usize,
    stop: &Bell,
    tell: &mut dyn FnMut(Way, &Figures),
) -> Result<Figures, RpmError> {
    let shared = Shared {
        way,
        at,
        over: Bell::new()?,
        bytes: AtomicU64::new(0),
        times: Mutex::default(),
        loads: Mutex::default(),
        under_way: AtomicUsize::new(0),
        broke: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let result = intervals(&shared, scope, most, stop, tell);
        shared.over.ring();
        // Those that are blocked in the kernel hear it by their connection.
        lock(&shared.loads).iter().for_each(TcpSocket::abort);
        result
    })
}

fn intervals<'s>(
    shared: &'s Shared<'s>,
    scope: &'s Scope<'s, '_>,
    most: usize,
    stop: &Bell,
    tell: &mut dyn FnMut(Way, &Figures),
) -> Result<Figures, RpmError> {
    let mut alarm = Alarm::new()?;
    let (mut goodputs, mut averages, mut figures): (Vec<f64>, Vec<f64>, Vec<f64>) =
        Default::default();
    let mut times: Vec<Times> = Vec::new();
    let (mut connections, mut saturated, mut stable) = (0, false, false);
    let mut before = 0;
    let mut end = monotonic_ns();
    let mut rate = 0.0;
    while times.len() < most && !stable {
        for _ in 0..if connections == 0 { 2 } else { 1 } {
            if connections < MOST_CONNECTIONS {
                connections += 1;
                start(shared, scope, load);
            }
        }
        end += INTERVAL_NS;
        let gap_ns = (1e9 / rpm::pairs_a_second(rate)) as u64;
        let mut next = monotonic_ns() + gap_ns / 2;
        loop {
            alarm.set(Some(next.min(end)))?;
            let mut fds = [readable(&alarm), readable(stop)];
            wait(&mut fds)?;
            if came(&fds[1]) || lock(&shared.broke).is_some() {
                break;
            }
            let now = monotonic_ns();
            if now >= end {
                break;
            }
            next = next.saturating_add(gap_ns).max(now);
            within(shared, times.len() + next as usize);
            if shared.under_way.load(Ordering::Relaxed) < MOST_UNDER_WAY {
                shared.under_way.fetch_add(1, Ordering::Relaxed);
                start(shared, scope, foreign);
            }
        }
        let bytes = shared.goodput();
        goodputs.push(bytes.saturating_sub(before) as f64 * 8e9 / INTERVAL_NS as f64);
        before = bytes.max(before);
        let last = &goodputs[goodputs.len().saturating_sub(INTERVALS)..];
        rate = last.iter().sum::<f64>() / last.len() as f64;
        averages.push(rate);
        times.push(std::mem::take(&mut lock(&shared.times)));
        let joined = Times::join(&times[times.len().saturating_sub(INTERVALS)..]);
        let responsiveness = joined.responsiveness();
        if saturated && let Some(now) = responsiveness {
            figures.push(now.rpm);
            stable = rpm::is_stable(&figures);
        }
        saturated |= rpm::is_stable(&averages);
        let broke = lock(&shared.broke).clone();
        let (foreign_probes, self_probes) = Times::join(&times).probes();
        let now = Figures {
            bits_per_second: rate,
            goodput_confidence: rpm::confidence(&averages, saturated),
            responsiveness,
            confidence: rpm::confidence(&figures, stable),
            connections,
            foreign_probes,
            self_probes,
            intervals: times.len(),
            broke: broke.as_ref().map(ToString::to_string),
        };
        tell(shared.way, &now);
        if stop.rings() && responsiveness.is_none() {
            return Err(RpmError::Stopped);
        }
        match broke {
            // The draft: if a connection ends with an error, the test is over. What is known until then is told.
            Some(error) if responsiveness.is_none() => return Err(error),
            Some(_) => return Ok(now),
            None if stop.rings() || stable || times.len() >= most => return Ok(now),
            None => {}
        }
    }
    Err(RpmError::Stopped)
}

fn start<'s>(
    shared: &'s Shared<'s>,
    scope: &'s Scope<'s, '_>,
    work: fn(&Shared<'_>) -> Result<(), RpmError>,
) {
    let run = move || {
        if let Err(error) = work(shared)
            && !shared.over.rings()
        {
            lock(&shared.broke).get_or_insert(error);
        }
    };
    // Without a thread there is one less.
    let _ = Builder::new().name("rpm".into()).stack_size(STACK).spawn_scoped(scope, run);
}

/// A connection that makes load, until all is over.
fn load(shared: &Shared<'_>) -> Result<(), RpmError> {
    let (at, over) = (shared.at, &shared.over);
    let (stream, _) = http::connect(at.to, at.secret.as_ref(), over)?;
    let closed = || RpmError::Closed(at.to);
    let second = stream.as_fd().try_clone_to_owned().map_err(|_| closed())?;
    match shared.way {
        Way::Down => {
            http::say(&stream, at.to, &http::get(&at.large, true), over)?;
            let (said, first) = http::answer(&stream, at.to, over)?;
            is_fine(at, &said, &at.large.path, &first)?;
            lock(&shared.loads).push(TcpSocket::accepted(second));
            shared.bytes.fetch_add(first.len() as u64, Ordering::Relaxed);
            loop {
                match discard_some(stream.as_fd(), 1 << 20) {
                    Ok(0) => return Err(closed()),
                    Ok(got) => {
                        shared.bytes.fetch_add(got as u64, Ordering::Relaxed);
                    }
                    Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => {
                        let mut fds = [readable(&stream), readable(over)];
                        wait(&mut fds)?;
                        if came(&fds[1]) {
                            return Ok(());
                        }
                    }
                    Err(_) => return Err(closed()),
                }
            }
        }
        Way::Up => {
            // As the draft asks of the ends: little waits in the socket itself.
            let _ = set(
                stream.as_fd(),
                nix::libc::IPPROTO_TCP,
                nix::libc::TCP_NOTSENT_LOWAT,
                128 << 10,
                "TCP_NOTSENT_LOWAT",
            );
            let head = format!(
                "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/octet-stream\r\nContent-Length: {ENDLESS}\r\n\r\n",
                at.upload.path,
                at.upload.authority(),
            );
            http::say(&stream, at.to, &head, over)?;
            lock(&shared.loads).push(TcpSocket::accepted(second));
            let payload: Vec<u8> =
                (0..65_536_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            loop {
                match send_some(stream.as_fd(), &payload, 256 << 10) {
                    Ok(_) => {}
                    Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => {
                        let mut fds = [writable(&stream), readable(&stream), readable(over)];
                        wait(&mut fds)?;
                        if came(&fds[2]) {
                            return Ok(());
                        }
                        if came(&fds[1]) {
                            // It answers before the end: it will not have it.
                            let (said, words) = http::answer(&stream, at.to, over)?;
                            is_fine(at, &said, &at.upload.path, &words)?;
                            return Err(closed());
                        }
                    }
                    Err(_) => return Err(closed()),
                }
            }
        }
    }
}

fn is_fine(
    at: &Target,
    said: &quell_web::head::Answer,
    path: &str,
    words: &[u8],
) -> Result<(), RpmError> {
    if said.status == 200 {
        return Ok(());
    }
    Err(http::refused(at.to, said.status, path, words))
}

/// A request on a connection of its own.
fn foreign(shared: &Shared<'_>) -> Result<(), RpmError> {
    let probed = http::probe(shared.at, &shared.over);
    shared.under_way.fetch_sub(1, Ordering::Relaxed);
    let probed = probed?;
    let mut times = lock(&shared.times);
    times.tcp_f.push(probed.tcp_ms);
    times.http_f.push(probed.http_ms);
    Ok(())
}

/// A look within a loaded connection, each in turn as the draws fall.
fn within(shared: &Shared<'_>, draw: usize) {
    let loads = lock(&shared.loads);
    let Some(load) = loads.get(draw.wrapping_mul(0x9e37_79b9) % loads.len().max(1)) else { return };
    let Some(info) = tcp_info(load) else { return };
    let us = match shared.way {
        Way::Up => info.rtt,
        // Of what comes, a receiver's estimate.
        Way::Down => info.rcv_rtt,
    };
    drop(loads);
    if us > 0 {
        lock(&shared.times).http_l.push(f64::from(us) / 1000.0);
    }
}

impl Shared<'_> {
    /// Bytes that got there: what came, or what was acknowledged.
    fn goodput(&self) -> u64 {
        match self.way {
            Way::Down => self.bytes.load(Ordering::Relaxed),
            Way::Up => {
                let acked = |load: &TcpSocket| tcp_info(load).and_then(|info| info.bytes_acked);
                lock(&self.loads).iter().filter_map(acked).sum()
            }
        }
    }
}

/// Waits until a request takes about as long as on the idle line again, at most ten times over.
pub fn drain(at: &Target, idle_ms: f64, stop: &Bell) -> Result<(), RpmError> {
    for _ in 0..10 {
        if http::probe(at, stop)?.http_ms < 1.5 * idle_ms + 5.0 {
            break;
        }
    }
    Ok(())
}
