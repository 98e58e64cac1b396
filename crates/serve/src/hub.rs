//! What the parts of a server share: who is there, which tests wait for their streams, what is told.

use crate::event::{Event, Quiet, Test, reason};
use crate::lock::lock;
use crate::places::{Full, Limits, PlaceTable, Silence, client};
use crate::rate::Governor;
use crate::waiting::{Stranger, Streams, Waiting};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::option::waiting;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::{Alarm, Bell, readable, wait};
use quell_wire::auth::Secret;
use quell_wire::iperf3::{Cookie, HelloToken};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Who has a place, with how to send each away.
type Places = PlaceTable<Handle>;

/// A second handle on a connection that may be sent away.
#[derive(Debug)]
pub struct Handle {
    stream: TcpSocket,
    /// Its thread listens, and tells it why. The others are broken off.
    hears: bool,
}

impl Handle {
    /// None where the system has no descriptor left for one: who can't be sent away would hold its own for as long as it likes.
    pub fn new(stream: &TcpSocket, hears: bool) -> Option<Self> {
        Some(Self { stream: second(stream)?, hears })
    }

    /// Sends it away.
    pub fn send_away(&self) {
        match self.hears {
            true => self.stream.close_ear(),
            false => self.stream.abort(),
        }
    }
}

impl Silence for Handle {
    fn is_silent(&self) -> bool {
        waiting(self.stream.as_fd()) == 0
    }
}

/// After so long without another connection of calls the client is through, where the server ends after the first test.
const LULL_NS: u64 = 1_000_000_000;
/// How often it looks then whether those that are under way only rest.
const LOOK_NS: u64 = 100_000_000;
/// Streams at once that receive whole trains of datagrams. Each has a megabyte of room for them, the others 1 KiB for heads.
const TRAINS: usize = 16;

/// Takes events, on the thread where they happen.
pub type Tell<'a> = &'a (dyn Fn(&Event) + Sync);

/// What all connections share.
pub struct Hub<'a> {
    /// What clients may use.
    pub limits: Limits,
    /// What clients must know.
    pub secret: Option<Secret>,
    /// Rings when the server ends.
    pub stop: &'a Bell,
    /// What all may send and be sent together.
    pub governor: Governor,
    tell: Tell<'a>,
    places: Mutex<Places>,
    /// Unknown connections that hold descriptors, with those that were sent away and have not seen it.
    unknown: AtomicUsize,
    quiet: Mutex<Quiets>,
    waiting: Mutex<HashMap<Cookie, Arc<Waiting>>>,
    /// Addresses that a test of is being given its UDP streams.
    turns: Mutex<Vec<IpAddr>>,
    turned: Condvar,
    sessions: AtomicU64,
    /// Whether it ends after the first session.
    one_off: bool,
    /// The first one is over: nothing new is taken.
    over: AtomicBool,
    /// Somebody's place is free again.
    left: Condvar,
    callers: Mutex<Callers>,
    numbers: AtomicU64,
    /// Streams that may still take whole trains of datagrams.
    trains: AtomicUsize,
    blocked: Mutex<HashMap<u64, TcpSocket>>,
}

/// How much is told of each kind.
struct Quiets {
    refused: Quiet,
    sessions: Quiet,
    /// Of what was held back, a line a second.
    held: Quiet,
}

impl Quiets {
    fn new(now: u64) -> Self {
        // Twenty refusals at once and one a second; of sessions, a hundred and five.
        Self {
            refused: Quiet::new(now, 20, 1),
            sessions: Quiet::new(now, 100, 5),
            held: Quiet::new(now, 1, 1),
        }
    }

    fn silent(&self) -> bool {
        self.refused.holds() || self.sessions.holds()
    }

    /// What was held back and not told of yet, as an event.
    fn rest(&mut self) -> Option<Event> {
        let (refused, sessions) = (self.refused.rest(), self.sessions.rest());
        (refused + sessions > 0).then_some(Event::Silenced { refused, sessions })
    }
}

impl<'a> Hub<'a> {
    /// Nobody is there yet.
    pub fn new(
        limits: Limits,
        secret: Option<Secret>,
        one_off: bool,
        stop: &'a Bell,
        tell: Tell<'a>,
    ) -> Self {
        Self {
            governor: Governor::new(&limits),
            limits,
            secret,
            stop,
            tell,
            places: Mutex::default(),
            unknown: AtomicUsize::new(0),
            quiet: Mutex::new(Quiets::new(monotonic_ns())),
            waiting: Mutex::default(),
            turns: Mutex::default(),
            turned: Condvar::new(),
            sessions: AtomicU64::new(0),
            one_off,
            over: AtomicBool::new(false),
            left: Condvar::new(),
            callers: Mutex::default(),
            numbers: AtomicU64::new(0),
            trains: AtomicUsize::new(TRAINS),
            blocked: Mutex::default(),
        }
    }

    /// Tells of an event.
    pub fn tell(&self, event: &Event) {
        (self.tell)(event);
    }

    /// Tells of an event of this kind, unless too much of the kind was told lately; whether it did.
    fn tell_some(
        &self,
        kind: fn(&mut Quiets) -> &mut Quiet,
        event: impl FnOnce() -> Event,
    ) -> bool {
        let held = {
            let mut quiets = lock(&self.quiet);
            match kind(&mut quiets).ask(monotonic_ns()) {
                true if quiets.silent() && quiets.held.ask(monotonic_ns()) => quiets.rest(),
                true => None,
                false => return false,
            }
        };
        held.iter().for_each(|held| self.tell(held));
        self.tell(&event());
        true
    }

    /// Tells that somebody was turned away.
    pub fn refuse(&self, client: SocketAddr, why: impl ToString) {
        let event = || Event::Refused { client, why: reason(&why) };
        self.tell_some(|quiets| &mut quiets.refused, event);
    }

    /// Tells of what was held back.
    pub fn last_words(&self) {
        let held = lock(&self.quiet).rest();
        held.iter().for_each(|held| self.tell(held));
    }

    /// Lets an unknown connection in, until the pass is dropped; another may have to go for it.
    pub fn half_open(&self, ip: IpAddr, stream: &TcpSocket) -> Option<HalfOpen<'_>> {
        let handle = Handle::new(stream, false)?;
        let (number, gone) = lock(&self.places).half_open(&self.limits, ip, handle);
        // Without the lock from here on: a HalfOpen that is dropped takes it.
        gone.iter().for_each(Handle::send_away);
        self.unknown.fetch_add(1, Ordering::Relaxed);
        Some(HalfOpen { places: &self.places, unknown: &self.unknown, number })
    }

    /// Whether more unknown connections hold descriptors than may be there: some were sent away, and are about to end.
    pub fn is_crowded(&self) -> bool {
        self.unknown.load(Ordering::Relaxed) > self.limits.crowd()
    }

    /// Begins a session; it ends when the pass is dropped. While nothing of it moves it may lose its place again: then the connection is
    /// broken off, or ends for one that `hears`.
    pub fn begin(&self, ip: IpAddr, stream: &TcpSocket, hears: bool) -> Result<Pass<'_>, Full> {
        let handle = Handle::new(stream, hears).ok_or(Full::Descriptors)?;
        let (place, gone) = {
            let mut places = lock(&self.places);
            if self.over.load(Ordering::Relaxed) {
                return Err(Full::Over);
            }
            places.begin(&self.limits, ip, monotonic_ns(), handle)?
        };
        self.send_away(&gone);
        let number = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        let (places, left) = (&self.places, &self.left);
        Ok(Pass { places, left, place, number, longest_ns: self.limits.time_ns })
    }

    /// A session wants so many streams; others may have to go for it.
    pub fn streams(&self, pass: &Pass<'_>, streams: usize) -> Result<(), Full> {
        let now = monotonic_ns();
        let gone = lock(&self.places).streams(&self.limits, pass.place, now, streams);
        self.send_away(&gone?);
        Ok(())
    }

    /// How many sessions have a place.
    pub fn tests(&self) -> usize {
        lock(&self.places).begun()
    }

    /// Sends somebody away who does nothing, for the system has no descriptor left; whether there was one.
    pub fn relieve(&self) -> bool {
        let gone = lock(&self.places).relieve(monotonic_ns());
        self.send_away(gone.as_slice());
        gone.is_some()
    }

    fn send_away(&self, gone: &[Handle]) {
        if gone.is_empty() {
            return;
        }
        gone.iter().for_each(Handle::send_away);
        // Some may wait for a turn.
        drop(lock(&self.turns));
        self.turned.notify_all();
    }

    /// Sessions since the start.
    pub fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Tells that a test runs; whether its end shall be told too.
    pub fn began(&self, client: SocketAddr, pass: &Pass<'_>, test: Test) -> bool {
        let event = || Event::Began { session: pass.number, client, test };
        self.tell_some(|quiets| &mut quiets.sessions, event)
    }

    /// Tells that a test is over, if that it ran was told.
    pub fn ended(&self, ended: Option<Event>) {
        ended.iter().for_each(|event| self.tell(event));
    }

    /// Tells that a connection of calls is over.
    pub fn called(&self, client: SocketAddr, pass: &Pass<'_>, calls: u64, why: Option<String>) {
        let why = why.as_ref().map(reason);
        let event = || Event::Called { session: pass.number, client, calls, why };
        self.tell_some(|quiets| &mut quiets.sessions, event);
    }

    /// Tells that somebody was told of the path.
    pub fn told(&self, client: SocketAddr, pass: &Pass<'_>, why: Option<String>) {
        let why = why.as_ref().map(reason);
        let event = || Event::Told { session: pass.number, client, why };
        self.tell_some(|quiets| &mut quiets.sessions, event);
    }

    /// A client's connection of calls, from now on.
    pub fn calls(&self, ip: IpAddr) -> Calls<'_> {
        let mut callers = lock(&self.callers);
        let of = callers.of.entry(client(ip)).or_default();
        of.open += 1;
        of.came += 1;
        Calls { hub: self, client: client(ip) }
    }

    /// A session is over, and has given back all that it had. A server of one ends by it, when those are over that others have under way: who
    /// only rests is not waited for.
    pub fn completed(&self) {
        if !self.one_off {
            return;
        }
        let mut places = lock(&self.places);
        if self.over.swap(true, Ordering::Relaxed) {
            // Whoever came first waits.
            return;
        }
        while places.is_under_way(monotonic_ns(), self.limits.handshake_ns) && !self.stop.rings() {
            let waited = self.left.wait_timeout(places, Duration::from_nanos(LOOK_NS));
            places = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.stop.ring();
    }

    /// Room for whole trains of datagrams, until it is dropped; none when others have it.
    pub fn room(&self) -> Option<Room<'_>> {
        let less = |left: usize| left.checked_sub(1);
        self.trains.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some(Room { trains: &self.trains })
    }

    /// Does work that may block in a connection, which is ended when the server ends.
    pub fn aborting<T>(&self, stream: &TcpSocket, work: impl FnOnce() -> T) -> T {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        if let Some(second) = second(stream) {
            lock(&self.blocked).insert(number, second);
        }
        if self.stop.rings() {
            stream.abort();
        }
        let done = work();
        lock(&self.blocked).remove(&number);
        done
    }

    /// Ends what threads are blocked in: connections, and waiting for a turn.
    pub fn abort_all(&self) {
        // Under the lock, so that nobody is between looking at the bell and waiting.
        drop(lock(&self.turns));
        self.turned.notify_all();
        drop(lock(&self.places));
        self.left.notify_all();
        lock(&self.blocked).values().for_each(TcpSocket::abort);
    }

    /// Enters a test that waits for so many streams, until the entry is dropped. None when another test has this cookie.
    pub fn expect(
        &self,
        cookie: Cookie,
        ip: IpAddr,
        streams: Streams,
        wanted: usize,
    ) -> Result<Option<Entry<'_>>, quell_sys::SysError> {
        let waiting = Arc::new(Waiting::new(ip, streams, wanted)?);
        let mut all = lock(&self.waiting);
        if all.contains_key(&cookie) {
            return Ok(None);
        }
        all.insert(cookie, Arc::clone(&waiting));
        Ok(Some(Entry { all: &self.waiting, cookie, waiting }))
    }

    /// The test of this cookie that waits for connections. Errors where it waits for none from this address.
    pub fn waiting_for(
        &self,
        cookie: &Cookie,
        ip: IpAddr,
    ) -> Result<Option<Arc<Waiting>>, Stranger> {
        let all = lock(&self.waiting);
        let Some(waiting) = all.get(cookie) else { return Ok(None) };
        match waiting.streams {
            Streams::Tcp { elsewhere: false } if waiting.ip != ip => Err(Stranger),
            Streams::Tcp { .. } => Ok(Some(Arc::clone(waiting))),
            Streams::Udp(_) => Ok(None),
        }
    }

    /// The test that waits for a UDP stream from this address, whose hello has this token or none. There is at most one: see [`Hub::turn`].
    pub fn waiting_at(&self, ip: IpAddr, token: Option<HelloToken>) -> Option<Arc<Waiting>> {
        let streams = Streams::Udp(token);
        let all = lock(&self.waiting);
        all.values().find(|w| w.ip == ip && w.streams == streams && w.wants()).cloned()
    }

    /// Waits until no other test of this address is being given its UDP streams, at most until `deadline_ns`. A hello without a token does not
    /// say of which test it is, so that two at once could be taken for each other's.
    pub fn turn(&self, ip: IpAddr, deadline_ns: u64, pass: &Pass<'_>) -> Option<Turn<'_>> {
        let mut turns = lock(&self.turns);
        while turns.contains(&ip) {
            let left = deadline_ns.saturating_sub(monotonic_ns());
            if left == 0 || self.stop.rings() || pass.lost() {
                return None;
            }
            let waited = self.turned.wait_timeout(turns, Duration::from_nanos(left));
            turns = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        turns.push(ip);
        Some(Turn { turns: &self.turns, turned: &self.turned, ip })
    }
}

/// Who calls, by client, and whose calls were over first.
#[derive(Debug, Default)]
struct Callers {
    of: HashMap<IpAddr, CallsOf>,
    first: Option<IpAddr>,
}

/// A client's connections of calls: how many there are, and how many there were.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct CallsOf {
    open: usize,
    came: u64,
}

/// One connection of calls.
pub struct Calls<'a> {
    hub: &'a Hub<'a>,
    client: IpAddr,
}

impl Calls<'_> {
    /// Its calls are over, and one was answered: a stranger who only says hello ends nothing. Said before its client can know that it is over, so that who
    /// was first does not depend on which thread runs first.
    pub fn over(&self) {
        if self.hub.one_off {
            lock(&self.hub.callers).first.get_or_insert(self.client);
        }
    }

    /// It is gone. A client has a connection for each size, or each call: the first test is over where none of its client has come for a while,
    /// whoever else calls.
    pub fn end(self) -> Result<(), SysError> {
        let (left, is_first) = {
            let mut callers = lock(&self.hub.callers);
            let Some(of) = callers.of.get_mut(&self.client) else { return Ok(()) };
            of.open -= 1;
            let left = *of;
            let is_first = callers.first == Some(self.client);
            if left.open == 0 && !is_first {
                callers.of.remove(&self.client);
            }
            (left, is_first)
        };
        if !is_first || left.open > 0 {
            return Ok(());
        }
        let mut alarm = Alarm::new()?;
        alarm.set(Some(monotonic_ns().saturating_add(LULL_NS)))?;
        wait(&mut [readable(self.hub.stop), readable(&alarm)])?;
        let now = lock(&self.hub.callers).of.get(&self.client).copied();
        if now == Some(left) {
            self.hub.completed();
        }
        Ok(())
    }
}

/// An unknown connection.
#[derive(Debug)]
pub struct HalfOpen<'a> {
    places: &'a Mutex<Places>,
    unknown: &'a AtomicUsize,
    number: u64,
}

impl HalfOpen<'_> {
    /// Whether another got its place.
    pub fn lost(&self) -> bool {
        !lock(self.places).has(self.number)
    }
}

impl Drop for HalfOpen<'_> {
    fn drop(&mut self) {
        drop(lock(self.places).leave(self.number));
        self.unknown.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A session.
#[derive(Debug)]
pub struct Pass<'a> {
    places: &'a Mutex<Places>,
    left: &'a Condvar,
    place: u64,
    /// Its number since the start, from 1.
    pub number: u64,
    /// How long its data may flow, in nanoseconds.
    pub longest_ns: u64,
}

impl Pass<'_> {
    /// Whether another got its place.
    pub fn lost(&self) -> bool {
        !lock(self.places).has(self.place)
    }

    /// Its client has done its part of what comes before it runs.
    pub fn heard(&self) {
        lock(self.places).heard(self.place, monotonic_ns());
    }

    /// Its bytes moved: nobody gets its place until none have for so long. Errors when somebody has it already.
    pub fn moved(&self, patience_ns: u64) -> Result<(), Full> {
        lock(self.places).moved(self.place, monotonic_ns(), patience_ns)
    }

    /// It has nothing to do at the moment.
    pub fn rests(&self) {
        lock(self.places).rests(self.place, monotonic_ns());
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        drop(lock(self.places).leave(self.place));
        self.left.notify_all();
    }
}

/// Room for whole trains of datagrams.
#[derive(Debug)]
pub struct Room<'a> {
    trains: &'a AtomicUsize,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.trains.fetch_add(1, Ordering::Relaxed);
    }
}

/// A second handle on a connection.
fn second(stream: &TcpSocket) -> Option<TcpSocket> {
    stream.as_fd().try_clone_to_owned().ok().map(TcpSocket::accepted)
}

/// A test that is entered as waiting.
#[derive(Debug)]
pub struct Entry<'a> {
    all: &'a Mutex<HashMap<Cookie, Arc<Waiting>>>,
    cookie: Cookie,
    /// What it waits for.
    pub waiting: Arc<Waiting>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        lock(self.all).remove(&self.cookie);
    }
}

/// An address' turn to be given UDP streams.
#[derive(Debug)]
pub struct Turn<'a> {
    turns: &'a Mutex<Vec<IpAddr>>,
    turned: &'a Condvar,
    ip: IpAddr,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut turns = lock(self.turns);
        if let Some(at) = turns.iter().position(|ip| *ip == self.ip) {
            turns.swap_remove(at);
        }
        self.turned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::Opened;
    use nix::errno::Errno;
    use quell_sys::socket::Udp;
    use quell_sys::socket::stream::StreamOptions;

    const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn stream() -> TcpSocket {
        TcpSocket::new(false, &StreamOptions::default()).unwrap()
    }

    #[test]
    fn what_ends_gives_back_what_it_had() {
        let stop = Bell::new().unwrap();
        let limits = Limits { sessions: 1, ..Limits::default() };
        let hub = Hub::new(limits, None, false, &stop, &|_| {});
        let first = hub.begin(IP, &stream(), true).unwrap();
        first.moved(u64::MAX).unwrap();
        assert_eq!(hub.begin(IP, &stream(), true).map(drop), Err(Full::Sessions));
        drop(first);
        let second = hub.begin(IP, &stream(), true).unwrap();
        assert_eq!(second.number, 2);
    }

    #[test]
    fn one_knock_too_many_sends_the_oldest_away_and_holds_nobody_up() {
        let stop = Bell::new().unwrap();
        let limits = Limits { half_open: 2, half_open_of_one: 2, ..Limits::default() };
        let hub = Hub::new(limits, None, false, &stop, &|_| {});
        let knocks = [0; 3].map(|_| hub.half_open(IP, &stream()).unwrap());
        assert_eq!(knocks.each_ref().map(HalfOpen::lost), [true, false, false]);
        assert!(hub.is_crowded(), "who was sent away holds its descriptors until it has seen that");
        let [first, others @ ..] = knocks;
        drop(first);
        assert!(!hub.is_crowded());
        drop(others);
        assert!(!hub.half_open(IP, &stream()).unwrap().lost());
    }

    #[test]
    fn a_test_gets_as_many_streams_as_it_wants_and_no_more() {
        let stop = Bell::new().unwrap();
        let hub = Hub::new(Limits::default(), None, false, &stop, &|_| {});
        let cookie = Cookie::from_random(&[7; 36]);
        let bare = Streams::Udp(None);
        let entry = hub.expect(cookie, IP, bare, 1).unwrap().unwrap();
        assert!(hub.expect(cookie, IP, bare, 1).unwrap().is_none(), "a cookie is used once");
        assert!(hub.waiting_for(&cookie, IP).unwrap().is_none(), "it waits for no connections");
        let udp = || Opened::Udp(Udp::connected("127.0.0.1:9".parse().unwrap(), 0).unwrap());
        let waiting = hub.waiting_at(IP, None).unwrap();
        assert!(waiting.take().is_ok_and(|new| new.is_empty()));
        assert!(waiting.add(udp()).is_ok() && waiting.add(udp()).is_err());
        assert!(hub.waiting_at(IP, None).is_none());
        assert_eq!(entry.waiting.take().map(|new| new.len()), Ok(1));
        drop(entry);
        assert!(hub.expect(cookie, IP, bare, 1).unwrap().is_some());
    }

    #[test]
    fn what_can_not_be_opened_ends_the_waiting_where_it_is_surely_the_clients() {
        let stop = Bell::new().unwrap();
        let hub = Hub::new(Limits::default(), None, false, &stop, &|_| {});
        let [bare, token] = [None, Some(HelloToken::new([1; 16]))].map(|token| {
            let cookie = Cookie::from_random(&[u8::from(token.is_some()); 36]);
            let entry = hub.expect(cookie, IP, Streams::Udp(token), 1).unwrap().unwrap();
            entry.waiting.fail(SysError::new("listen on UDP", Errno::EINVAL));
            entry
        });
        let why = |error: SysError| error.errno;
        assert_eq!(token.waiting.take().map(drop).map_err(why), Err(Errno::EINVAL));
        assert_eq!(bare.waiting.take().map(|new| new.len()).map_err(why), Ok(0));
        assert_eq!(bare.waiting.failed().map(why), Some(Errno::EINVAL), "told when it is late");
    }

    #[test]
    fn a_test_with_a_token_gets_the_streams_that_have_it_and_nobody_elses() {
        let stop = Bell::new().unwrap();
        let hub = Hub::new(Limits::default(), None, false, &stop, &|_| {});
        let (ours, theirs) = (HelloToken::new([1; 16]), HelloToken::new([2; 16]));
        let elsewhere = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));
        let expect = |n: u8, streams| {
            hub.expect(Cookie::from_random(&[n; 36]), IP, streams, 1).unwrap().unwrap()
        };
        let first = expect(1, Streams::Udp(Some(ours)));
        for (ip, token) in [(IP, None), (IP, Some(theirs)), (elsewhere, Some(ours))] {
            assert!(hub.waiting_at(ip, token).is_none(), "{ip} {token:?}");
        }
        // Of one address at once, and each its own.
        let second = expect(2, Streams::Udp(Some(theirs)));
        let third = expect(3, Streams::Udp(None));
        for (entry, token) in [(&first, Some(ours)), (&second, Some(theirs)), (&third, None)] {
            assert!(Arc::ptr_eq(&hub.waiting_at(IP, token).unwrap(), &entry.waiting));
        }
    }

    #[test]
    fn connections_are_a_tests_by_its_cookie_and_its_address_unless_it_has_others() {
        let stop = Bell::new().unwrap();
        let hub = Hub::new(Limits::default(), None, false, &stop, &|_| {});
        let other = IpAddr::from([127, 0, 0, 2]);
        for elsewhere in [false, true] {
            let cookie = Cookie::from_random(&[7; 36]);
            let _entry = hub.expect(cookie, IP, Streams::Tcp { elsewhere }, 1).unwrap().unwrap();
            let theirs = |ip| hub.waiting_for(&cookie, ip).map(|waiting| waiting.is_some());
            let of_other = if elsewhere { Ok(true) } else { Err(Stranger) };
            assert_eq!((theirs(IP), theirs(other)), (Ok(true), of_other));
            assert!(hub.waiting_for(&Cookie::from_random(&[8; 36]), other).unwrap().is_none());
        }
    }

    #[test]
    fn an_address_has_one_turn_at_a_time() {
        let stop = Bell::new().unwrap();
        let hub = Hub::new(Limits::default(), None, false, &stop, &|_| {});
        let pass = hub.begin(IP, &stream(), true).unwrap();
        let turn = hub.turn(IP, 0, &pass).unwrap();
        assert!(hub.turn(IP, monotonic_ns(), &pass).is_none());
        std::thread::scope(|scope| {
            let next = scope.spawn(|| hub.turn(IP, u64::MAX, &pass).is_some());
            drop(turn);
            assert!(next.join().unwrap());
        });
    }
}
