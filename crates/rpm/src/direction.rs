//! One direction, an interval after the other, until goodput and then responsiveness are stable (the draft's "Final Algorithm").

use crate::arrived::{ArrivedBytes, Segments};
use crate::ask::{self, Probed};
use crate::http::{self, HttpTarget, RpmError, Secured};
use crate::limits::LIMITS;
use crate::plan::LoadDirection;
use crate::secure::{self, ResponsePart};
use crate::trail::{ProbeKind, Trail};
use nix::errno::Errno;
use quell_load::connection_sample::tcp_info;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::bulk_stream::{discard_some, send_some};
use quell_sys::socket::option::set;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::{Alarm, Bell, came, readable, wait, writable};
use quell_tls::socket::second;
use quell_web::head::Body;
use quell_web::rpm::{self, Confidence, DRAFT, ProbeTimes, Responsiveness};
use quell_web::url::Url;
use serde::Serialize;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Bits a second of payload: the moving average of the last interval.
    pub bits_per_second: f64,
    pub goodput_confidence: Confidence,
    #[serde(flatten)]
    pub responsiveness: Option<Responsiveness>,
    pub confidence: Confidence,
    pub connections: usize,
    /// Probes that came back: on connections of their own, and within loaded ones.
    pub foreign_probes: usize,
    pub self_probes: usize,
    /// Probes on connections of their own that the server closed without an answer: a line's queue may hold a request longer than a server waits.
    pub unanswered: usize,
    /// The longest until it did, in seconds.
    pub waited_s: Option<f64>,
    pub intervals: usize,
    pub broke: Option<String>,
}

struct DirectionState<'a> {
    way: LoadDirection,
    at: &'a HttpTarget,
    over: Bell,
    bytes: AtomicU64,
    arrivals: Mutex<ArrivedBytes>,
    times: Mutex<ProbeTimes>,
    seen: Mutex<Trail>,
    loads: Mutex<Vec<Arc<Loading>>>,
    under_way: AtomicUsize,
    /// Connections that were to make load and never did.
    unloaded: AtomicUsize,
    broke: Mutex<Option<RpmError>>,
}

struct Loading {
    stream: TcpSocket,
    /// Bytes that were said before what makes load: the first that is sent. None over TLS, whose handshake is over then.
    head: u64,
    /// Over TLS, a request can be put into it.
    within: Option<Within>,
}

/// How a load over TLS is asked for probes, and what it says of what it sends.
struct Within {
    bell: Bell,
    probes: AtomicUsize,
    plain: AtomicU64,
    made: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn measure(
    way: LoadDirection,
    at: &HttpTarget,
    most: usize,
    stop: &Bell,
    tell: &mut dyn FnMut(LoadDirection, &Figures),
    trail: &mut Trail,
) -> Result<Figures, RpmError> {
    let shared = DirectionState {
        way,
        at,
        over: Bell::new()?,
        bytes: AtomicU64::new(0),
        arrivals: Mutex::new(ArrivedBytes::since(monotonic_ns())),
        times: Mutex::default(),
        seen: Mutex::new(trail.empty()),
        loads: Mutex::default(),
        under_way: AtomicUsize::new(0),
        unloaded: AtomicUsize::new(0),
        broke: Mutex::default(),
    };
    lock(&shared.seen).carried(way, 0);
    let result = std::thread::scope(|scope| {
        let result = intervals(&shared, scope, most, stop, tell);
        shared.over.ring();
        // Those that are blocked in the kernel hear it by their connection.
        lock(&shared.loads).iter().for_each(|load| load.stream.abort());
        result
    });
    trail.append(shared.seen.into_inner().unwrap_or_else(PoisonError::into_inner));
    result
}

fn intervals<'s>(
    shared: &'s DirectionState<'s>,
    scope: &'s Scope<'s, '_>,
    most: usize,
    stop: &Bell,
    tell: &mut dyn FnMut(LoadDirection, &Figures),
) -> Result<Figures, RpmError> {
    let mut alarm = Alarm::new()?;
    let (mut averages, mut figures): (Vec<f64>, Vec<f64>) = Default::default();
    let (mut moved, mut each) = (Vec::new(), Vec::new());
    let mut times: Vec<ProbeTimes> = Vec::new();
    let (mut connections, mut saturated, mut stable) = (0, false, false);
    let mut before = 0;
    let mut end = monotonic_ns();
    let mut rate = 0.0;
    while times.len() < most && !stable {
        for _ in 0..if connections == 0 { 2 } else { 1 } {
            if connections < DRAFT.connections {
                connections += 1;
                start(shared, scope, load);
            }
        }
        end += DRAFT.interval_ns;
        probe_until((shared, scope), end, rate, &mut alarm, stop)?;
        let bytes = shared.goodput();
        let bytes_now = bytes.saturating_sub(before);
        // What broke off within an interval says nothing of a second.
        if monotonic_ns() >= end || averages.is_empty() {
            rate = lock(&shared.arrivals).rate(DRAFT.intervals);
        }
        before = bytes.max(before);
        lock(&shared.seen).carried(shared.way, before);
        averages.push(rate);
        moved.push(shared.moved_on(&mut each, bytes_now) as f64 * 8e9 / DRAFT.interval_ns as f64);
        let carries = carries(&moved[moved.len().saturating_sub(DRAFT.intervals)..]);
        times.push(std::mem::take(&mut lock(&shared.times)));
        let joined = ProbeTimes::join(&times[times.len().saturating_sub(DRAFT.intervals)..]);
        // What a request takes on a line that carries nothing is that of an idle line.
        let responsiveness = joined.responsiveness().filter(|_| carries);
        if saturated && let Some(now) = responsiveness {
            figures.push(now.rpm);
            stable = rpm::is_stable(&figures);
        }
        saturated |= carries && rpm::is_stable(&averages);
        let over = stop.rings() || times.len() >= most;
        let broke = lock(&shared.broke).clone();
        let idle = || (over && !carries).then(|| nothing(shared.way, shared.at.to));
        let all = ProbeTimes::join(&times);
        let (foreign_probes, self_probes) = all.probes();
        let now = Figures {
            bits_per_second: rate,
            goodput_confidence: if carries {
                rpm::confidence(&averages, saturated)
            } else {
                Confidence::Low
            },
            responsiveness,
            confidence: if responsiveness.is_some() {
                rpm::confidence(&figures, stable)
            } else {
                Confidence::Low
            },
            connections: connections - shared.unloaded.load(Ordering::Relaxed),
            foreign_probes,
            self_probes,
            unanswered: all.unanswered.len(),
            waited_s: all.unanswered.iter().copied().reduce(f64::max).map(|ms| ms / 1e3),
            intervals: times.len(),
            broke: broke.as_ref().map(ToString::to_string).or_else(idle),
        };
        tell(shared.way, &now);
        if stop.rings() && responsiveness.is_none() {
            return Err(RpmError::Stopped);
        }
        match broke {
            // The draft: if a connection ends with an error, the test is over. What is known until then is told.
            Some(error) if responsiveness.is_none() => return Err(error),
            Some(_) => return Ok(now),
            None if over || stable => return Ok(now),
            None => {}
        }
    }
    Err(RpmError::Stopped)
}

/// Looks at the connections and sends probes until then, or until it is over: as many as the draft lets a second have at this rate.
fn probe_until<'s>(
    (shared, scope): (&'s DirectionState<'s>, &'s Scope<'s, '_>),
    end: u64,
    rate: f64,
    alarm: &mut Alarm,
    stop: &Bell,
) -> Result<(), RpmError> {
    let gap_ns = (1e9 / rpm::pairs_a_second(rate)) as u64;
    let mut next = monotonic_ns() + gap_ns / 2;
    loop {
        let look = monotonic_ns() + LIMITS.look_ns;
        alarm.set(Some(look.min(next).min(end)))?;
        let mut fds = [readable(&*alarm), readable(stop)];
        wait(&mut fds)?;
        let now = monotonic_ns();
        if came(&fds[1]) || lock(&shared.broke).is_some() || now >= end {
            return Ok(());
        }
        shared.look();
        if now < next {
            continue;
        }
        next = next.saturating_add(gap_ns).max(now);
        within(shared, next);
        if shared.under_way.load(Ordering::Relaxed) < LIMITS.under_way {
            shared.under_way.fetch_add(1, Ordering::Relaxed);
            start(shared, scope, foreign);
        }
    }
}

/// Whether something moved in at least half of the last intervals, of which this is the goodput in bits a second.
fn carries(last: &[f64]) -> bool {
    let moved = last
        .iter()
        .filter(|bits| **bits >= LIMITS.least_bytes * 8e9 / DRAFT.interval_ns as f64)
        .count();
    moved > 0 && 2 * moved >= last.len()
}

/// What connections that stood before moved since; none where none did.
fn grown(before: &[u64], now: &[u64]) -> Option<u64> {
    let more = before.iter().zip(now).map(|(before, now)| now.saturating_sub(*before));
    (!before.is_empty()).then(|| more.sum())
}

fn nothing(way: LoadDirection, to: SocketAddr) -> String {
    let (what, did) = match way {
        LoadDirection::Down => ("download", "sent"),
        LoadDirection::Up => ("upload", "took"),
    };
    format!("the {what} carried nothing in the end: {to} {did} no data, so no line was full")
}

fn start<'s>(
    shared: &'s DirectionState<'s>,
    scope: &'s Scope<'s, '_>,
    work: fn(&DirectionState<'_>) -> Result<(), RpmError>,
) {
    let run = move || {
        if let Err(error) = work(shared)
            && !shared.over.rings()
        {
            // It answered before: on the idle line at least.
            let error = match error {
                RpmError::Closed(to) => RpmError::ClosedOne(to),
                error => error,
            };
            lock(&shared.broke).get_or_insert(error);
        }
    };
    // Without a thread there is one less.
    let _ = Builder::new().name("rpm".into()).stack_size(LIMITS.stack).spawn_scoped(scope, run);
}

/// A connection that makes load, until all is over. One whose request was in the queue for longer than the server waits makes none; others do.
fn load(shared: &DirectionState<'_>) -> Result<(), RpmError> {
    let (began_ns, mut begun) = (monotonic_ns(), false);
    let loaded = match &shared.at.secured {
        Some(secured) => load_secured(shared, secured, &mut begun),
        None => load_plain(shared, &mut begun),
    };
    let waited = || (monotonic_ns() - began_ns) as f64 / 1e6 >= LIMITS.waited_ms;
    let ended = |error: &RpmError| {
        matches!(
            error,
            RpmError::Closed(_)
                | RpmError::Left(_)
                | RpmError::NoTls { .. }
                | RpmError::Broke { .. }
        )
    };
    match loaded {
        Err(error) if ended(&error) && !begun && waited() && shared.is_loaded() => {
            shared.unloaded.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        done => done,
    }
}

fn load_plain(shared: &DirectionState<'_>, begun: &mut bool) -> Result<(), RpmError> {
    let (stream, _) = http::connect(shared.at.to, shared.at.secret.as_ref(), &shared.over)?;
    match shared.way {
        LoadDirection::Down => plain_down(shared, &stream, begun),
        LoadDirection::Up => plain_up(shared, &stream, begun),
    }
}

fn plain_down(
    shared: &DirectionState<'_>,
    stream: &TcpSocket,
    begun: &mut bool,
) -> Result<(), RpmError> {
    let (to, url, over) = (shared.at.to, shared.url(), &shared.over);
    http::say(stream, to, &http::get(url, true), over)?;
    let (said, first) = http::answer(stream, to, over)?;
    is_fine(to, &said, &url.path, &first)?;
    shared.loads(second(stream)?, 0);
    *begun = true;
    let whole = match said.body {
        Some(Body::Bytes(length)) => length,
        _ => u64::MAX,
    };
    let mut bytes = 0;
    let mut got = first.len();
    loop {
        bytes += got as u64;
        shared.bytes.fetch_add(got as u64, Ordering::Relaxed);
        let ended = RpmError::Ended { to, path: url.path.clone(), bytes };
        if bytes >= whole {
            return Err(ended);
        }
        got = match discard_some(stream.as_fd(), 1 << 20) {
            Ok(0) => return Err(ended),
            Ok(got) => got,
            Err(Errno::EINTR) => 0,
            Err(Errno::EAGAIN) => {
                let mut fds = [readable(stream), readable(over)];
                wait(&mut fds)?;
                if came(&fds[1]) {
                    return Ok(());
                }
                0
            }
            Err(_) => return Err(ended),
        }
    }
}

fn plain_up(
    shared: &DirectionState<'_>,
    stream: &TcpSocket,
    begun: &mut bool,
) -> Result<(), RpmError> {
    let (to, url, over) = (shared.at.to, shared.url(), &shared.over);
    let (tcp, unsent) = (nix::libc::IPPROTO_TCP, nix::libc::TCP_NOTSENT_LOWAT);
    // As the draft asks of the ends: little waits in the socket itself.
    let _ = set(stream.as_fd(), tcp, unsent, 128 << 10, "TCP_NOTSENT_LOWAT");
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
        url.path,
        url.authority(),
        LIMITS.endless,
    );
    http::say(stream, to, &head, over)?;
    shared.loads(second(stream)?, head.len() as u64);
    let payload = http::payload(64 << 10);
    let mut broke = || {
        let acked = tcp_info(stream).and_then(|info| info.bytes_acked);
        // Whether the server ever had the head.
        *begun = acked.is_none_or(|acked| acked > head.len() as u64);
        RpmError::Broke { to, path: url.path.clone() }
    };
    loop {
        match send_some(stream.as_fd(), &payload, 256 << 10) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let mut fds = [writable(stream), readable(stream), readable(over)];
                wait(&mut fds)?;
                if came(&fds[2]) {
                    return Ok(());
                }
                if came(&fds[1]) {
                    // It answers before the end: it will not have it.
                    let (said, words) = match http::answer(stream, to, over) {
                        Err(RpmError::Closed(_)) => return Err(broke()),
                        said => said?,
                    };
                    is_fine(to, &said, &url.path, &words)?;
                    return Err(RpmError::Early { to, path: url.path.clone() });
                }
            }
            Err(_) => return Err(broke()),
        }
    }
}

/// The same over TLS and HTTP/2, where probes go within it.
fn load_secured(
    shared: &DirectionState<'_>,
    secured: &Secured,
    begun: &mut bool,
) -> Result<(), RpmError> {
    let (at, over) = (shared.at, &shared.over);
    let session = secure::connect(at.to, secured, at.secret.as_ref(), over)?;
    let second = session.second()?;
    let within = Within {
        bell: Bell::new()?,
        probes: AtomicUsize::new(0),
        plain: AtomicU64::new(0),
        made: AtomicU64::new(0),
    };
    let load = Arc::new(Loading { stream: second, head: 0, within: Some(within) });
    let within = load.within.as_ref().expect("it was put there");
    let mut bulk = session.bulk(shared.way, at)?;
    let mut begins = || {
        if !std::mem::replace(begun, true) {
            lock(&shared.loads).push(Arc::clone(&load));
        }
    };
    loop {
        let rang = bulk.go_on(&[over, &within.bell], &mut |heard| match heard {
            ResponsePart::Begun => begins(),
            ResponsePart::Bytes(got) => {
                shared.bytes.fetch_add(got as u64, Ordering::Relaxed);
            }
            ResponsePart::Probe(ms) => shared.within(ms),
            ResponsePart::Written(plain, made) => {
                within.plain.store(plain, Ordering::Relaxed);
                within.made.store(made, Ordering::Relaxed);
                begins();
            }
        })?;
        if rang == 0 {
            return Ok(());
        }
        within.bell.silence();
        bulk.ask(within.probes.swap(0, Ordering::Relaxed));
    }
}

fn is_fine(
    to: SocketAddr,
    said: &quell_web::head::ResponseHead,
    path: &str,
    words: &[u8],
) -> Result<(), RpmError> {
    if said.status == 200 {
        return Ok(());
    }
    Err(http::refused(to, said.status, path, words))
}

fn foreign(shared: &DirectionState<'_>) -> Result<(), RpmError> {
    let began_ns = monotonic_ns();
    let probed = ask::probe(shared.at, &shared.over);
    shared.under_way.fetch_sub(1, Ordering::Relaxed);
    let probed = match probed? {
        Probed::Answered(times) => times,
        Probed::Unanswered { at_least, .. } => {
            let mut times = lock(&shared.times);
            times.tcp_f.push(at_least.tcp_ms);
            times.tls_f.extend(at_least.tls_ms);
            times.unanswered.push(at_least.http_ms);
            return Ok(());
        }
    };
    lock(&shared.seen).foreign(Some(shared.way), began_ns, &probed);
    let mut times = lock(&shared.times);
    times.tcp_f.push(probed.tcp_ms);
    times.tls_f.extend(probed.tls_ms);
    times.http_f.push(probed.http_ms);
    Ok(())
}

/// A look within one of the loaded connections.
fn within(shared: &DirectionState<'_>, at_ns: u64) {
    let loads = lock(&shared.loads);
    let Some(load) = loads.get(pick(at_ns, loads.len())) else { return };
    if let Some(within) = &load.within {
        within.probes.fetch_add(1, Ordering::Relaxed);
        within.bell.ring();
        return;
    }
    let Some(info) = tcp_info(&load.stream) else { return };
    let us = match shared.way {
        LoadDirection::Up => info.rtt,
        // Of what comes, a receiver's estimate.
        LoadDirection::Down => info.rcv_rtt,
    };
    drop(loads);
    if us > 0 {
        shared.within(f64::from(us) / 1000.0);
    }
}

/// Which of so many: as if by chance, also where times are even steps apart.
fn pick(at_ns: u64, of: usize) -> usize {
    let mixed = at_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    mixed as usize % of.max(1)
}

impl DirectionState<'_> {
    /// Whether something makes load that had an answer, or what it sent acknowledged.
    fn is_loaded(&self) -> bool {
        lock(&self.loads).iter().any(|load| match self.way {
            LoadDirection::Down => true,
            LoadDirection::Up => load.acknowledged().is_some_and(|acked| acked > load.head + 1),
        })
    }

    fn url(&self) -> &Url {
        match self.way {
            LoadDirection::Down => &self.at.large,
            LoadDirection::Up => &self.at.upload,
        }
    }

    /// Bytes that got there: what came, or what the other end told that it has, be it behind a gap.
    fn goodput(&self) -> u64 {
        let in_order = match self.way {
            LoadDirection::Down => self.bytes.load(Ordering::Relaxed),
            LoadDirection::Up => {
                lock(&self.loads).iter().filter_map(|load| load.acknowledged()).sum()
            }
        };
        lock(&self.arrivals).now(self.segments().as_deref(), in_order, monotonic_ns())
    }

    fn look(&self) {
        if let Some(each) = self.segments() {
            lock(&self.arrivals).look(&each, monotonic_ns());
        }
    }

    /// What the kernel counts of each loaded connection; none where it does not.
    fn segments(&self) -> Option<Vec<Segments>> {
        let count = |load: &Arc<Loading>| {
            let info = tcp_info(&load.stream)?;
            match self.way {
                LoadDirection::Down => Segments::received(&info),
                LoadDirection::Up => Segments::delivered(&info, load.head),
            }
        };
        lock(&self.loads).iter().map(count).collect()
    }

    /// Bytes of an interval in which so many got there, that are no sign of room in new connections' buffers alone: up, those of connections which stood
    /// before it, or all in the first. `each` has what each had then.
    fn moved_on(&self, each: &mut Vec<u64>, bytes: u64) -> u64 {
        if self.way == LoadDirection::Down {
            return bytes;
        }
        let loads = lock(&self.loads);
        let now: Vec<u64> = loads.iter().map(|l| l.acknowledged().unwrap_or(0)).collect();
        let before = std::mem::replace(each, now);
        grown(&before, each).unwrap_or(bytes)
    }

    fn within(&self, ms: f64) {
        lock(&self.times).http_l.push(ms);
        lock(&self.seen).back(Some(self.way), ProbeKind::Within, ms);
    }

    /// Another one makes load, behind a head of so many bytes.
    fn loads(&self, stream: TcpSocket, head: u64) {
        lock(&self.loads).push(Arc::new(Loading { stream, head, within: None }));
    }
}

impl Loading {
    /// Bytes of its data that were acknowledged. Over TLS that is the same part of what was acknowledged as of what was written.
    fn acknowledged(&self) -> Option<u64> {
        let acked = tcp_info(&self.stream)?.bytes_acked?;
        let Some(within) = &self.within else { return Some(acked) };
        let plain = within.plain.load(Ordering::Relaxed);
        let made = within.made.load(Ordering::Relaxed).max(1);
        u64::try_from(u128::from(acked) * u128::from(plain.min(made)) / u128::from(made)).ok()
    }
}

/// Waits until a request takes about as long as on the idle line again, at most ten times over.
pub fn drain(at: &HttpTarget, idle_ms: f64, stop: &Bell) -> Result<(), RpmError> {
    for _ in 0..10 {
        match ask::probe(at, stop)? {
            Probed::Answered(times) if times.http_ms < 1.5 * idle_ms + 5.0 => break,
            Probed::Answered(_) | Probed::Unanswered { .. } => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_carries_where_something_moved_in_half_of_its_last_seconds() {
        let (full, drip) = (20e6, 8.0);
        for moves in [&[full][..], &[full; 4], &[full, 0.0], &[0.0, full, full, 0.0]] {
            assert!(carries(moves), "{moves:?}");
        }
        // Nothing, empty bodies, a byte a second, and what a peer that reads nothing has room for.
        for idle in [&[0.0][..], &[0.0; 4], &[drip; 4], &[full, 0.0, 0.0, 0.0]] {
            assert!(!carries(idle), "{idle:?}");
        }
    }

    #[test]
    fn room_in_the_buffers_of_new_connections_is_nothing_that_moved_on() {
        assert_eq!(grown(&[], &[2_000_000, 2_000_000]), None, "nobody knows yet");
        assert_eq!(grown(&[2_000_000; 2], &[2_000_000; 3]), Some(0));
        assert_eq!(grown(&[2_000_000, 5], &[2_500_000, 5, 1_000_000]), Some(500_000));
    }

    #[test]
    fn each_connection_is_looked_into_as_often_as_others_at_even_steps() {
        for (step, of) in [20_000_000, 106_666_666, 1 << 20]
            .into_iter()
            .flat_map(|s| (1..=16).map(move |of| (s, of)))
        {
            let mut hits = vec![0; of];
            (0..1000).for_each(|n| hits[pick(123_456_789 + n * step, of)] += 1);
            let fair = 1000 / of;
            assert!(
                hits.iter().all(|hit| (fair / 2..=fair * 2).contains(hit)),
                "{step}, {of}: {hits:?}"
            );
        }
    }
}
