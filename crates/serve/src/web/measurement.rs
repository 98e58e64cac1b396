//! Who measures: tests of pages and of the draft's clients, each with a session's place, its rates and its time.
//!
//! ```text
//!   by number    page's tests        number, 128 random bits: it is the page's alone
//!   by client    the draft's         found again by the address
//! ```

use crate::event::{ServeEvent, Test as TestEvent, TestResult, reason};
use crate::hub::{Hub, Pass};
use crate::limits::{Full, Rates, Throttle, WEB, client, lock};
use quell_load::connection_sample::tcp_info;
use quell_netlink::sock_diag::TcpInfo;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::Bell;
use quell_web::keys::hex;
use quell_web::sent::SentResult;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

pub struct Tests<'h> {
    hub: &'h Hub<'h>,
    by_number: Mutex<HashMap<String, Weak<WebTest<'h>>>>,
    by_client: Mutex<HashMap<IpAddr, Weak<WebTest<'h>>>>,
}

pub struct WebTest<'h> {
    hub: &'h Hub<'h>,
    pass: Pass<'h>,
    peer: SocketAddr,
    rates: &'h Mutex<Rates>,
    pub end_ns: u64,
    began_ns: u64,
    pub gone: Bell,
    most: usize,
    lines: Mutex<BTreeMap<u64, Arc<DataConnection>>>,
    done: Mutex<Sums>,
    number: AtomicU64,
    told: bool,
    /// What its page told that it measured.
    measured: Mutex<Option<SentResult>>,
}

pub struct DataConnection {
    stream: TcpSocket,
    pub down: bool,
    moved: AtomicU64,
    sent_again_before: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    pub down: u64,
    pub up: u64,
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
    pub lines: usize,
}

impl<'h> Tests<'h> {
    pub fn new(hub: &'h Hub<'h>) -> Self {
        Self { hub, by_number: Mutex::default(), by_client: Mutex::default() }
    }

    /// A page's test and its number. Errors where there is no place for it.
    pub fn of_page(
        &self,
        peer: SocketAddr,
        stream: &TcpSocket,
    ) -> Result<(Arc<WebTest<'h>>, String), Full> {
        let random = quell_sys::secret::nonce().map_err(|_| Full::Descriptors)?;
        let number = hex(&random[..16]);
        let test = Arc::new(self.begin(peer, stream, WEB.page_streams, "a browser")?);
        let mut all = lock(&self.by_number);
        all.retain(|_, test| test.strong_count() > 0);
        all.insert(number.clone(), Arc::downgrade(&test));
        Ok((test, number))
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
        let test = TestEvent {
            protocol: "tcp",
            direction: "both",
            streams: 0,
            seconds: None,
            program: who.to_owned(),
        };
        let (session, client) = (pass.number, peer);
        let told = hub.tell_some(&ServeEvent::Began { session, client, test });
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
        })
    }
}

/// A test that ends when this is dropped, whatever still moves in it: its connections see it then.
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
        let result = TestResult {
            seconds,
            received_bytes: sums.up,
            sent_bytes: sums.down,
            received_bits_per_second: bits(sums.up),
            sent_bits_per_second: bits(sums.down),
            retransmits: Some(sums.again),
            ..TestResult::default()
        };
        lock(&self.hub.counts).moved(&result);
        let why = self.pass.lost().then(|| reason(&Full::SentAway));
        if !self.told {
            return;
        }
        let (session, client) = (self.pass.number, self.peer);
        if let Some(result) = lock(&self.measured).take() {
            self.hub.tell_some(&ServeEvent::Measured { session, client, result });
            return;
        }
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

pub struct Carrying<'h> {
    pub test: Arc<WebTest<'h>>,
    pub throttle: Throttle<'h>,
    line: Arc<DataConnection>,
    number: u64,
}

impl Carrying<'_> {
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
