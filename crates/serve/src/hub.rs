//! What the parts of a server share: who is connected, which tests wait for their streams, what is told.

use crate::congestion::CongestionHelper;
use crate::counts::ServeCounts;
use crate::event::{Quiet, ServeEvent, reason};
use crate::home;
use crate::limits::{Clients, Full, Limits, Rates, SERVER, Throttle, client, lock};
use crate::waiting::{Stranger, Streams, Waiting};
use nix::errno::Errno;
use quell_load::bulk::Gate;
use quell_netlink::Prefix;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::option::set;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::{Alarm, Bell, came, ending, readable, wait};
use quell_wire::auth::Secret;
use quell_wire::iperf3::{Cookie, HelloToken};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Takes events, on the thread where they happen.
pub type Tell<'a> = &'a (dyn Fn(&ServeEvent) + Sync);

pub struct Accepted {
    pub stream: TcpSocket,
    pub peer: SocketAddr,
    /// How many came before it.
    pub number: u64,
    pub came_ns: u64,
}

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
        let second = stream.as_fd().try_clone_to_owned().ok()?;
        Some(Self { stream: TcpSocket::accepted(second), hears })
    }

    pub fn send_away(&self) {
        match self.hears {
            true => self.stream.close_ear(),
            false => self.stream.abort(),
        }
    }
}

pub struct Hub<'a> {
    pub limits: Limits,
    pub secret: Option<Secret>,
    /// Who gives a connection a congestion control that this process may not.
    pub congestion: Option<&'a CongestionHelper>,
    /// Where clients reach it beside its own addresses.
    pub reached_at: Vec<SocketAddr>,
    /// The networks whose hosts are served; all hosts where there are none.
    home: Option<Mutex<Vec<Prefix>>>,
    pub stop: &'a Bell,
    pub rates: Mutex<Rates>,
    tell: Tell<'a>,
    clients: Mutex<Clients<Handle>>,
    /// Half-open connections that hold descriptors, with those that were sent away and have not seen it.
    half_open: AtomicUsize,
    quiet: Mutex<Quiet>,
    waiting: Mutex<HashMap<Cookie, Arc<Waiting>>>,
    /// A test has its streams, or gave up.
    waited: Condvar,
    sessions: AtomicU64,
    pub reflected: AtomicU64,
    pub counts: Mutex<ServeCounts>,
    one_off: bool,
    /// The first one is over: nothing new is taken.
    over: AtomicBool,
    left: Condvar,
    /// With `one_off`, whose calls were over first.
    caller: Mutex<Option<IpAddr>>,
    /// Streams that may still take whole trains of datagrams.
    trains: AtomicUsize,
}

impl<'a> Hub<'a> {
    pub fn new(
        limits: Limits,
        secret: Option<Secret>,
        one_off: bool,
        stop: &'a Bell,
        tell: Tell<'a>,
    ) -> Self {
        Self {
            rates: Mutex::new(Rates::new(&limits)),
            limits,
            secret,
            congestion: None,
            reached_at: Vec::new(),
            home: None,
            stop,
            tell,
            clients: Mutex::default(),
            half_open: AtomicUsize::new(0),
            quiet: Mutex::new(Quiet::new(monotonic_ns())),
            waiting: Mutex::default(),
            waited: Condvar::new(),
            sessions: AtomicU64::new(0),
            reflected: AtomicU64::new(0),
            counts: Mutex::default(),
            one_off,
            over: AtomicBool::new(false),
            left: Condvar::new(),
            caller: Mutex::default(),
            trains: AtomicUsize::new(SERVER.trains),
        }
    }

    pub fn is_for(&mut self, networks: Vec<Prefix>) {
        self.home = Some(Mutex::new(networks));
    }

    /// Whether a host may be served. Addresses change: a stranger is looked for once more in those of now, where `looks` says so.
    pub fn serves(&self, host: IpAddr, looks: bool) -> bool {
        let Some(home) = &self.home else { return true };
        let mut networks = lock(home);
        if !home::is_of_home(&networks, host) && looks {
            *networks = home::networks();
        }
        home::is_of_home(&networks, host)
    }

    pub fn tell(&self, event: &ServeEvent) {
        (self.tell)(event);
    }

    /// Tells of an event, unless too much was told lately; whether it did.
    pub fn tell_some(&self, event: &ServeEvent) -> bool {
        let (may, held) = lock(&self.quiet).ask(event, monotonic_ns());
        lock(&self.counts).note(event);
        held.iter().for_each(|held| self.tell(held));
        if may {
            self.tell(event);
        }
        may
    }

    pub fn refuse(&self, client: SocketAddr, why: impl ToString) {
        self.tell_some(&ServeEvent::Refused { client, why: reason(&why) });
    }

    pub fn last_words(&self) {
        let held = lock(&self.quiet).rest();
        held.iter().for_each(|held| self.tell(held));
    }

    /// Lets a connection in that said nothing yet, until the pass is dropped; another may have to go for it.
    pub fn half_open(&self, ip: IpAddr, stream: &TcpSocket) -> Option<HalfOpen<'_>> {
        let handle = Handle::new(stream, false)?;
        let (number, gone) = lock(&self.clients).half_open(&self.limits, ip, handle);
        // Without the lock from here on: a HalfOpen that is dropped takes it.
        gone.iter().for_each(Handle::send_away);
        self.half_open.fetch_add(1, Ordering::Relaxed);
        Some(HalfOpen { hub: self, number })
    }

    /// Whether more half-open connections hold descriptors than may be there: some were sent away, and are about to end.
    pub fn is_crowded(&self) -> bool {
        let most = self.limits.half_open.max(1) + self.limits.half_open / 8;
        self.half_open.load(Ordering::Relaxed) > most
    }

    /// Begins a session; it ends when the pass is dropped. While it is idle it may lose its place: then the connection is broken off, or ends for
    /// one that `hears`.
    pub fn begin(&self, ip: IpAddr, stream: &TcpSocket, hears: bool) -> Result<Pass<'_>, Full> {
        let handle = Handle::new(stream, hears).ok_or(Full::Descriptors)?;
        let (place, gone) = {
            let mut clients = lock(&self.clients);
            // Who comes behind `abort_all` would be ended by nobody.
            if self.over.load(Ordering::Relaxed) || self.stop.rings() {
                return Err(Full::Over);
            }
            clients.begin(&self.limits, ip, monotonic_ns(), handle)?
        };
        gone.iter().for_each(Handle::send_away);
        let number = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Pass { hub: self, place, number })
    }

    pub fn tests(&self) -> usize {
        lock(&self.clients).count(None)
    }

    /// Clients that have a session now.
    pub fn served(&self) -> usize {
        lock(&self.clients).different()
    }

    /// Sends somebody away, for the system has no descriptor left; whether there was one.
    pub fn relieve(&self) -> bool {
        let gone = lock(&self.clients).relieve(monotonic_ns());
        gone.iter().for_each(Handle::send_away);
        gone.is_some()
    }

    pub fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// With `one_off`: a connection of calls, of which some were answered, is about to end. Noted before its client can know, so that who was first
    /// does not depend on which thread runs first.
    pub fn calls_end(&self, ip: IpAddr) {
        if self.one_off {
            lock(&self.caller).get_or_insert(client(ip));
        }
    }

    /// It has ended. A client has a connection for each size, or each call: the server ends when the first caller has opened none for a while.
    pub fn calls_ended(&self, ip: IpAddr) -> Result<(), SysError> {
        let of_client = || lock(&self.clients).count(Some(client(ip)));
        if *lock(&self.caller) != Some(client(ip)) || of_client() > 0 {
            return Ok(());
        }
        let mut alarm = Alarm::new()?;
        alarm.set(Some(monotonic_ns().saturating_add(SERVER.lull_ns)))?;
        wait(&mut [readable(self.stop), readable(&alarm)])?;
        if of_client() == 0 {
            self.completed();
        }
        Ok(())
    }

    /// A session is over, and has given back all that it had. A server of one ends by it, when those are over that others have under way.
    pub fn completed(&self) {
        if !self.one_off {
            return;
        }
        let mut clients = lock(&self.clients);
        if self.over.swap(true, Ordering::Relaxed) {
            // Whoever came first waits.
            return;
        }
        while clients.is_under_way(monotonic_ns()) && !self.stop.rings() {
            let waited = self.left.wait_timeout(clients, Duration::from_nanos(SERVER.look_ns));
            clients = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.stop.ring();
    }

    /// Room for whole trains of datagrams, until it is dropped; none when others have it.
    pub fn room(&self) -> Option<Room<'_>> {
        let less = |left: usize| left.checked_sub(1);
        self.trains.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some(Room { trains: &self.trains })
    }

    /// Ends what threads are blocked in: connections that don't hear the bell, and waiting for another's streams.
    pub fn abort_all(&self) {
        // Under the lock, so that nobody is between looking at the bell and waiting.
        drop(lock(&self.waiting));
        self.waited.notify_all();
        let clients = lock(&self.clients);
        self.left.notify_all();
        clients.handles().filter(|handle| !handle.hears).for_each(Handle::send_away);
    }

    /// Waits until so many bytes of a connection may move. `ECANCELED`: the server ended before that; `EPIPE`: its client went, and takes no turn
    /// from others; `ETIMEDOUT`: that time came.
    pub fn pause(
        &self,
        stream: &TcpSocket,
        throttle: &Throttle<'_>,
        bytes: usize,
        end_ns: u64,
    ) -> Result<(), Errno> {
        let mut alarm = None;
        loop {
            let now = monotonic_ns();
            let Err(at) = throttle.pass(bytes, now) else { return Ok(()) };
            if now >= end_ns {
                return Err(Errno::ETIMEDOUT);
            }
            let alarm = match &mut alarm {
                Some(alarm) => alarm,
                none => none.insert(Alarm::new().map_err(|e| e.errno)?),
            };
            alarm.set(Some(at.min(end_ns))).map_err(|e| e.errno)?;
            // A client that closed is heard of by this alone while what it sent before lies unread.
            let mut fds = [readable(self.stop), ending(stream), readable(alarm)];
            wait(&mut fds).map_err(|e| e.errno)?;
            if came(&fds[0]) {
                return Err(Errno::ECANCELED);
            }
            if came(&fds[1]) {
                return Err(Errno::EPIPE);
            }
        }
    }

    /// Enters a test that waits for so many streams, until the entry is dropped. None when another test has this cookie. Of one address one iperf3
    /// at a time is given its UDP streams, and others wait for it: a hello without a token does not say of which test it is.
    pub fn expect(
        &self,
        cookie: Cookie,
        ip: IpAddr,
        streams: Streams,
        wanted: usize,
    ) -> Result<Option<Entry<'_>>, SysError> {
        let waiting = Arc::new(Waiting::new(ip, streams, wanted)?);
        let mut all = lock(&self.waiting);
        let is_same = |w: &Arc<Waiting>| (w.ip, w.streams) == (ip, Streams::Udp(None));
        let deadline_ns = monotonic_ns().saturating_add(self.limits.handshake_ns);
        while !all.contains_key(&cookie)
            && streams == Streams::Udp(None)
            && all.values().any(is_same)
        {
            let left = deadline_ns.saturating_sub(monotonic_ns());
            if left == 0 || self.stop.rings() {
                return Ok(None);
            }
            let waited = self.waited.wait_timeout(all, Duration::from_nanos(left));
            all = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if all.contains_key(&cookie) {
            return Ok(None);
        }
        all.insert(cookie, Arc::clone(&waiting));
        Ok(Some(Entry { all: &self.waiting, waited: &self.waited, cookie, waiting }))
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

    /// The test that waits for a UDP stream from this address, whose hello has this token or none. There is at most one.
    pub fn waiting_at(&self, ip: IpAddr, token: Option<HelloToken>) -> Option<Arc<Waiting>> {
        let streams = Streams::Udp(token);
        let all = lock(&self.waiting);
        all.values().find(|w| w.ip == ip && w.streams == streams && w.wants()).cloned()
    }
}

/// What is sent in small pieces is not to wait in a connection's socket for more.
pub fn at_once(stream: &TcpSocket) -> Result<(), SysError> {
    set(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "TCP_NODELAY")
}

/// A connection that said nothing yet.
pub struct HalfOpen<'a> {
    hub: &'a Hub<'a>,
    number: u64,
}

impl HalfOpen<'_> {
    pub fn lost(&self) -> bool {
        !lock(&self.hub.clients).has(self.number)
    }
}

impl Drop for HalfOpen<'_> {
    fn drop(&mut self) {
        drop(lock(&self.hub.clients).leave(self.number));
        self.hub.half_open.fetch_sub(1, Ordering::Relaxed);
    }
}

pub struct Pass<'a> {
    hub: &'a Hub<'a>,
    place: u64,
    pub number: u64,
}

impl Pass<'_> {
    pub fn lost(&self) -> bool {
        !lock(&self.hub.clients).has(self.place)
    }

    /// It did something. Errors when another has its place.
    pub fn active(&self) -> Result<(), Full> {
        lock(&self.hub.clients).active(self.place, monotonic_ns())
    }

    /// It wants so many streams; others may have to go for it.
    pub fn streams(&self, streams: usize) -> Result<(), Full> {
        let hub = self.hub;
        let gone = lock(&hub.clients).streams(&hub.limits, self.place, monotonic_ns(), streams);
        gone?.iter().for_each(Handle::send_away);
        Ok(())
    }

    /// It is to be sent datagrams at this rate, or at whatever is left: at which it may.
    pub fn datagrams(&self, asked: Option<u64>) -> Result<Option<u64>, Full> {
        let (hub, now) = (self.hub, monotonic_ns());
        let (rate, gone) = lock(&hub.clients).datagrams(&hub.limits, self.place, now, asked)?;
        gone.iter().for_each(Handle::send_away);
        Ok(rate)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        drop(lock(&self.hub.clients).leave(self.place));
        self.hub.left.notify_all();
    }
}

#[derive(Debug)]
pub struct Room<'a> {
    trains: &'a AtomicUsize,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.trains.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub struct Entry<'a> {
    all: &'a Mutex<HashMap<Cookie, Arc<Waiting>>>,
    waited: &'a Condvar,
    cookie: Cookie,
    pub waiting: Arc<Waiting>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        lock(self.all).remove(&self.cookie);
        self.waited.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::Opened;
    use quell_sys::socket::Udp;

    const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

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
        assert!(waiting.add(udp(), None).is_ok() && waiting.add(udp(), None).is_err());
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
    fn an_iperf3_waits_until_another_of_its_address_has_its_streams() {
        let stop = Bell::new().unwrap();
        let hub = Hub::new(Limits::default(), None, false, &stop, &|_| {});
        let expect = |n: u8| hub.expect(Cookie::from_random(&[n; 36]), IP, Streams::Udp(None), 1);
        let first = expect(1).unwrap().unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| expect(2).unwrap().is_some());
            drop(first);
            assert!(second.join().unwrap());
        });
    }

    #[test]
    fn a_test_with_a_token_gets_the_streams_that_have_it_and_nobody_elses() {
        let stop = Bell::new().unwrap();
        // Nobody waits for another's streams here.
        let limits = Limits { handshake_ns: 0, ..Limits::default() };
        let hub = Hub::new(limits, None, false, &stop, &|_| {});
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
        let fourth = Cookie::from_random(&[4; 36]);
        assert!(hub.expect(fourth, IP, Streams::Udp(None), 1).unwrap().is_none(), "one at a time");
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
}
