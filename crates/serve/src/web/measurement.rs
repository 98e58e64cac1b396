//! Who measures: tests of pages and of the draft's clients, each with a session's place, its rates and its time.
//!
//! ```text
//!   queue  p1 ◄ p2 ◄ p3 …      who came first is next; of one client two may wait
//!            │ turn
//!            ▼
//!   by number    page's tests        number, 128 random bits: it is the page's alone
//!   by client    the draft's         found again by the address
//! ```

use crate::event::{ServeEvent, Test as TestEvent, TestResult, reason};
use crate::hub::{Hub, Pass};
use crate::limits::{Full, Rates, Throttle, WEB, client, lock};
use quell_load::look::tcp_info;
use quell_netlink::sock_diag::TcpInfo;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::Bell;
use quell_web::keys::hex;
use quell_web::sent::SentResult;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

pub struct Tests<'h> {
    hub: &'h Hub<'h>,
    most: usize,
    by_number: Mutex<HashMap<String, Weak<WebTest<'h>>>>,
    by_client: Mutex<HashMap<IpAddr, Weak<WebTest<'h>>>>,
    next: AtomicU64,
    turns: Arc<Turns>,
}

#[derive(Default)]
struct Turns {
    queue: Mutex<BTreeMap<u64, (IpAddr, Arc<Bell>)>>,
    measuring: Mutex<Vec<IpAddr>>,
}

impl Turns {
    fn others(&self) {
        // The first of them looks; the others see that fewer are before them.
        lock(&self.queue).values().for_each(|(_, bell)| bell.ring());
    }
}

/// One turn, until this is dropped: then the next in the queue hears of it.
struct Turn {
    turns: Arc<Turns>,
    ip: IpAddr,
}

impl Turn {
    fn new(turns: &Arc<Turns>, ip: IpAddr) -> Self {
        lock(&turns.measuring).push(ip);
        Self { turns: Arc::clone(turns), ip }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut measuring = lock(&self.turns.measuring);
        if let Some(at) = measuring.iter().position(|ip| *ip == self.ip) {
            measuring.swap_remove(at);
        }
        drop(measuring);
        self.turns.others();
    }
}

pub struct WebTest<'h> {
    hub: &'h Hub<'h>,
    pass: Pass<'h>,
    peer: SocketAddr,
    rates: &'h Mutex<Rates>,
    /// When it is over at the latest.
    pub end_ns: u64,
    began_ns: u64,
    /// Rings when it is over before that.
    pub gone: Bell,
    most: usize,
    lines: Mutex<BTreeMap<u64, Arc<DataConnection>>>,
    done: Mutex<Sums>,
    number: AtomicU64,
    told: bool,
    /// What its page told that it measured.
    measured: Mutex<Option<SentResult>>,
    /// The last: who comes next finds the place and the streams free.
    _turn: Turn,
}

pub struct DataConnection {
    stream: TcpSocket,
    /// Whether this end sends.
    pub down: bool,
    moved: AtomicU64,
    sent_again_before: u64,
}

/// What the connections of a test moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Bytes that left this end.
    pub down: u64,
    pub up: u64,
    /// Segments that this end's kernel sent again.
    pub again: u64,
    /// Segments that came out of order: something before them was lost, or came late.
    pub out_of_order: u64,
}

/// What this end's kernel says of a test's connections.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KernelView {
    pub sums: Sums,
    /// Round-trip times of the connections that send, as TCP has them, in microseconds.
    pub rtts_us: Vec<u32>,
    /// The least round-trip time that TCP ever saw.
    pub least_us: Option<u32>,
    /// Connections that move data now.
    pub lines: usize,
}

impl<'h> Tests<'h> {
    pub fn new(hub: &'h Hub<'h>) -> Self {
        Self {
            hub,
            // A quarter of the places, so that the others stay for iperf3 and quell flow.
            most: (hub.limits.sessions / 4).clamp(1, 4),
            by_number: Mutex::default(),
            by_client: Mutex::default(),
            next: AtomicU64::new(0),
            turns: Arc::default(),
        }
    }

    /// Stands in the queue; none where too many do.
    pub fn stand(&self, ip: IpAddr) -> Result<Option<QueuedPage<'_, 'h>>, SysError> {
        let bell = Arc::new(Bell::new()?);
        let mut queue = lock(&self.turns.queue);
        let of_one = queue.values().filter(|(other, _)| client(*other) == client(ip)).count();
        if queue.len() >= WEB.waiting || of_one >= WEB.waiting_of_one {
            return Ok(None);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        queue.insert(number, (ip, Arc::clone(&bell)));
        Ok(Some(QueuedPage { tests: self, number: Cell::new(number), bell }))
    }

    /// Whether somebody waits for a turn.
    pub fn is_awaited(&self) -> bool {
        !lock(&self.turns.queue).is_empty()
    }

    /// The page's test of this number, of this address.
    pub fn of_number(&self, number: &str, ip: IpAddr) -> Option<Arc<WebTest<'h>>> {
        let test = lock(&self.by_number).get(number).and_then(Weak::upgrade)?;
        (client(test.peer.ip()) == client(ip) && !test.gone.rings()).then_some(test)
    }

    /// The test of a client of the draft: the one that runs, or a new one.
    pub fn of_client(
        &self,
        peer: SocketAddr,
        stream: &TcpSocket,
    ) -> Result<Arc<WebTest<'h>>, Full> {
        let of = client(peer.ip());
        let mut all = lock(&self.by_client);
        if let Some(test) = all.get(&of).and_then(Weak::upgrade) {
            return Ok(test);
        }
        all.retain(|_, test| test.strong_count() > 0);
        let test = self.begin(
            peer,
            stream,
            WEB.draft_streams,
            "a client of draft-ietf-ippm-responsiveness",
        )?;
        let test = Arc::new(test);
        all.insert(of, Arc::downgrade(&test));
        Ok(test)
    }

    fn begin(
        &self,
        peer: SocketAddr,
        stream: &TcpSocket,
        most: usize,
        who: &str,
    ) -> Result<WebTest<'h>, Full> {
        let hub = self.hub;
        let gone = Bell::new().map_err(|_| Full::Descriptors)?;
        let pass = hub.begin(peer.ip(), stream, false)?;
        pass.streams(most)?;
        let told = hub.began(
            peer,
            &pass,
            TestEvent {
                protocol: "tcp",
                direction: "both",
                streams: 0,
                seconds: None,
                program: who.to_owned(),
            },
        );
        let now = monotonic_ns();
        Ok(WebTest {
            hub,
            pass,
            peer,
            rates: &hub.rates,
            end_ns: now.saturating_add(WEB.longest_ns.min(hub.limits.time_ns)),
            began_ns: now,
            gone,
            most,
            lines: Mutex::default(),
            done: Mutex::default(),
            number: AtomicU64::new(0),
            told,
            measured: Mutex::default(),
            _turn: Turn::new(&self.turns, peer.ip()),
        })
    }
}

pub struct QueuedPage<'t, 'h> {
    tests: &'t Tests<'h>,
    number: Cell<u64>,
    /// Rings when it may have come nearer.
    pub bell: Arc<Bell>,
}

impl<'h> QueuedPage<'_, 'h> {
    /// How many are before it.
    pub fn before(&self) -> usize {
        lock(&self.tests.turns.queue).range(..self.number.get()).count()
    }

    /// Its client has all that it may have elsewhere: that holds up nobody else.
    fn goes_last(&self) {
        let mut queue = lock(&self.tests.turns.queue);
        if let Some(one) = queue.remove(&self.number.get()) {
            self.number.set(self.tests.next.fetch_add(1, Ordering::Relaxed));
            queue.insert(self.number.get(), one);
        }
    }

    /// Its test and the test's number, if it is its turn.
    pub fn turn(
        &self,
        peer: SocketAddr,
        stream: &TcpSocket,
    ) -> Result<Option<(Arc<WebTest<'h>>, String)>, SysError> {
        let tests = self.tests;
        if lock(&tests.turns.measuring).len() >= tests.most || self.before() > 0 {
            return Ok(None);
        }
        let number = hex(&quell_sys::secret::nonce()?[..16]);
        let Ok(test) = tests.begin(peer, stream, WEB.page_streams, "a browser") else {
            self.goes_last();
            return Ok(None);
        };
        let test = Arc::new(test);
        let mut all = lock(&tests.by_number);
        all.retain(|_, test| test.strong_count() > 0);
        all.insert(number.clone(), Arc::downgrade(&test));
        Ok(Some((test, number)))
    }
}

impl Drop for QueuedPage<'_, '_> {
    fn drop(&mut self) {
        lock(&self.tests.turns.queue).remove(&self.number.get());
        self.tests.turns.others();
    }
}

/// A test that ends when this is dropped, whatever still moves in it: its connections see it then, and the last of them gives its turn to the next.
pub struct RunningTest<'h> {
    pub test: Arc<WebTest<'h>>,
}

impl Drop for RunningTest<'_> {
    fn drop(&mut self) {
        self.test.end();
    }
}

impl<'h> WebTest<'h> {
    pub fn end(&self) {
        self.gone.ring();
        lock(&self.lines).values().for_each(|line| line.stream.abort());
    }

    /// Its page tells what it measured; the log has it when the test is over.
    pub fn tells(&self, result: SentResult) {
        *lock(&self.measured) = Some(result);
    }

    /// Whether somebody else has its place.
    pub fn lost(&self) -> bool {
        self.pass.lost()
    }

    /// Bytes moved: it keeps its place. Errors when somebody else has it.
    pub fn moved(&self) -> Result<(), Full> {
        self.pass.active()
    }

    /// Another connection that carries its data; none where it has as many as it may, or is over.
    pub fn line(self: &Arc<Self>, stream: &TcpSocket, down: bool) -> Option<Carrying<'h>> {
        let second = TcpSocket::accepted(stream.as_fd().try_clone_to_owned().ok()?);
        let sent_again_before = tcp_info(&second).map_or(0, |info| info.total_retrans.into());
        let line =
            DataConnection { stream: second, down, moved: AtomicU64::new(0), sent_again_before };
        let line = Arc::new(line);
        let mut lines = lock(&self.lines);
        if lines.len() >= self.most || self.gone.rings() {
            return None;
        }
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        lines.insert(number, Arc::clone(&line));
        let throttle = Throttle::new(self.rates, self.peer.ip(), self.most);
        Some(Carrying { test: Arc::clone(self), throttle, line, number })
    }

    /// What this end's kernel says of its connections.
    pub fn look(&self) -> KernelView {
        let lines: Vec<_> = lock(&self.lines).values().cloned().collect();
        let mut look =
            KernelView { sums: *lock(&self.done), lines: lines.len(), ..KernelView::default() };
        for line in &lines {
            let info = tcp_info(&line.stream);
            look.sums = look.sums.with(&line.sums(info.as_ref()));
            if let Some(info) = info {
                if line.down && info.rtt > 0 {
                    look.rtts_us.push(info.rtt);
                }
                let least = info.min_rtt.filter(|us| *us > 0 && *us < u32::MAX);
                look.least_us = [look.least_us, least].into_iter().flatten().min();
            }
        }
        look
    }
}

impl Drop for WebTest<'_> {
    fn drop(&mut self) {
        let sums = *lock(&self.done);
        let seconds = monotonic_ns().saturating_sub(self.began_ns) as f64 / 1e9;
        let bits = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let why = self.pass.lost().then(|| reason(&Full::SentAway));
        if !self.told {
            return;
        }
        if let Some(result) = lock(&self.measured).take() {
            self.hub.measured(self.peer, self.pass.number, result);
            return;
        }
        let result = TestResult {
            seconds,
            received_bytes: sums.up,
            sent_bytes: sums.down,
            received_bits_per_second: bits(sums.up),
            sent_bits_per_second: bits(sums.down),
            retransmits: Some(sums.again),
            ..TestResult::default()
        };
        let (session, client) = (self.pass.number, self.peer);
        self.hub.tell(&ServeEvent::Ended { session, client, why, result });
    }
}

impl DataConnection {
    fn sums(&self, info: Option<&TcpInfo>) -> Sums {
        let moved = self.moved.load(Ordering::Relaxed);
        let again = info.map_or(0, |info| info.total_retrans.into());
        let unsent = info.and_then(|info| info.notsent_bytes).unwrap_or(0);
        Sums {
            down: if self.down { moved.saturating_sub(unsent.into()) } else { 0 },
            up: if self.down { 0 } else { moved },
            again: u64::saturating_sub(again, self.sent_again_before),
            out_of_order: info.and_then(|info| info.rcv_ooopack).unwrap_or(0).into(),
        }
    }
}

impl Sums {
    fn with(&self, other: &Self) -> Self {
        Self {
            down: self.down + other.down,
            up: self.up + other.up,
            again: self.again + other.again,
            out_of_order: self.out_of_order + other.out_of_order,
        }
    }
}

/// A connection while it carries data of a test.
pub struct Carrying<'h> {
    pub test: Arc<WebTest<'h>>,
    pub throttle: Throttle<'h>,
    line: Arc<DataConnection>,
    number: u64,
}

impl Carrying<'_> {
    /// So many bytes more.
    pub fn add(&self, bytes: usize) {
        self.line.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Carrying<'_> {
    fn drop(&mut self) {
        let sums = self.line.sums(tcp_info(&self.line.stream).as_ref());
        let mut lines = lock(&self.test.lines);
        if lines.remove(&self.number).is_some() {
            let mut done = lock(&self.test.done);
            *done = done.with(&sums);
        }
    }
}

#[cfg(test)]
mod stories {
    use super::*;
    use crate::limits::Limits;
    use quell_sys::socket::stream::StreamOptions;

    #[test]
    fn who_came_first_is_next_and_of_one_client_two_wait() {
        let stop = Bell::new().unwrap();
        let hub = Hub::new(Limits::default(), None, false, &stop, &|_| {});
        let tests = Tests::new(&hub);
        let stream = TcpSocket::new(false, &StreamOptions::default()).unwrap();
        let [greedy, good] = [1, 2].map(|n| SocketAddr::from(([10, 0, 0, n], 1)));
        let stand = |peer: SocketAddr| tests.stand(peer.ip()).unwrap();
        let mut held = Vec::new();
        for _ in 0..4 {
            let standing = stand(greedy).expect("there is room");
            let (test, _) = standing.turn(greedy, &stream).unwrap().expect("its turn");
            held.push(RunningTest { test });
        }
        let waiting = [greedy, greedy, good].map(|peer| stand(peer).expect("there is room"));
        assert!(stand(greedy).is_none(), "a third of its client");
        assert_eq!(waiting.each_ref().map(|one| one.before()), [0, 1, 2]);
        held.pop();
        assert!(waiting[2].turn(good, &stream).unwrap().is_none(), "it came later");
        assert!(waiting[0].turn(greedy, &stream).unwrap().is_some());
    }

    #[test]
    fn the_next_hears_of_its_turn_when_the_last_connection_of_a_test_has_let_go() {
        let stop = Bell::new().unwrap();
        let limits = Limits { sessions: 1, ..Limits::default() };
        let hub = Hub::new(limits, None, false, &stop, &|_| {});
        let tests = Tests::new(&hub);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let stream = TcpSocket::new(false, &StreamOptions::default()).unwrap();
        let stand = || tests.stand(peer.ip()).unwrap().expect("there is room");
        let first = stand();
        let (test, _) = first.turn(peer, &stream).unwrap().expect("nobody is before it");
        drop(first);
        let connection = test.line(&stream, true).expect("one of eight");
        let next = stand();
        drop(RunningTest { test });
        next.bell.silence();
        assert!(next.turn(peer, &stream).unwrap().is_none(), "data of the first is under way");
        drop(connection);
        assert!(next.bell.rings(), "it need not look for itself");
        assert!(next.turn(peer, &stream).unwrap().is_some(), "the place is free then");
    }
}
