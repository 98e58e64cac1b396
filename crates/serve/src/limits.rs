//! What clients may use, all of it on one page. Pure: whoever calls says what time it is.
//!
//! ```text
//!   half-open ── says what it wants ──► session ── its streams     three counts, each in total and of one client
//!   the oldest gives way                one idle for 5 s gives way where the server is full, else the newcomer is refused
//!
//!   a piece ──► line of its client's bucket ──► line of the server's bucket ──► goes      first come, first served
//!   a reflected packet, a short answer ──► at once, up to a tenth of the rate, half of that for one client
//!   datagrams that come ──► refused at the start where their rate does not fit; charged as they come
//! ```
//!
//! A client is an IPv4 address, or the /64 of an IPv6 address. Counted are bytes of payload, sent and taken.

use quell_load::bulk::Gate;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Datagrams that come can't be held back: all together have nine tenths of the rate at most.
const DATAGRAMS: (u64, u64) = (9, 10);

/// How rates are held.
pub struct RateLimits {
    /// How far what goes may be ahead of a rate.
    pub burst_ns: u64,
    /// The same of what does not stand in line.
    pub prompt_burst_ns: u64,
    /// What does not stand in line has this part of the rate, as a divisor, and one client half of it.
    pub prompt: u64,
    /// Most and least bytes in one piece, where anything is limited. Only a datagram may be larger.
    pub piece: usize,
    pub least_piece: usize,
    /// So many clients' buckets are kept without a look at which are full again.
    pub many: usize,
    /// Who was idle for so long may lose its place.
    pub idle_ns: u64,
}

pub const PACE: RateLimits = RateLimits {
    burst_ns: 20_000_000,
    prompt_burst_ns: 200_000_000,
    prompt: 10,
    piece: 16 << 10,
    least_piece: 512,
    many: 256,
    idle_ns: 5_000_000_000,
};

/// What clients may use. Rates are in bits a second of payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Tests and connections of calls at once, in all and of one client.
    pub sessions: usize,
    pub sessions_of_one: usize,
    /// Streams of one test, each way; of all tests, both ways; of one client's.
    pub streams: u32,
    pub streams_of_all: usize,
    pub streams_of_one: usize,
    /// Connections that did not say yet what they want, in all and of one client.
    pub half_open: usize,
    pub half_open_of_one: usize,
    /// What the server sends and takes, in all and of one client.
    pub rate: Option<u64>,
    pub rate_of_one: Option<u64>,
    /// Longest time of a test, from when its data begins to flow, and of a connection of calls.
    pub time_ns: u64,
    /// Longest time from connecting to being known, and of each step until a test runs.
    pub handshake_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 32,
            sessions_of_one: 8,
            streams: 128,
            streams_of_all: 1024,
            streams_of_one: 256,
            half_open: 512,
            // One test's streams may all come at once.
            half_open_of_one: 256,
            rate: None,
            rate_of_one: None,
            time_ns: 3_600_000_000_000,
            handshake_ns: 5_000_000_000,
        }
    }
}

impl Limits {
    /// What one client may have at most, in bits a second; none where nothing limits it.
    pub fn rate_of_client(&self) -> Option<u64> {
        [self.rate_of_one, self.rate].into_iter().flatten().min()
    }
}

/// What browsers and clients of the draft may use beside that.
#[derive(Debug, Clone, Copy)]
pub struct WebLimits {
    /// So many at least are more than nothing to the allocator.
    pub many: usize,
    pub piece: usize,
    pub payload: usize,
    /// Most bytes in one call.
    pub most_at_once: usize,
    /// Bytes that wait in a socket unsent: enough to send on, too few to wait long (the draft's "end systems").
    pub kernel_unsent: i32,
    pub answer: usize,
    /// How long a connection may say nothing between two requests.
    pub idle_ns: u64,
    /// Most requests of one connection: a page pings ten times a second, for two minutes.
    pub requests: usize,
    pub body: u64,
    /// What there is to download for a client that takes it all.
    pub large: u64,
    /// Between two lines of a test.
    pub look_ns: u64,
    /// Longest time of a test, from when it has its place.
    pub longest_ns: u64,
    /// Streams that a page's test may have at once.
    pub page_streams: usize,
    /// Those of a client of the draft, which goes up to sixteen each way.
    pub draft_streams: usize,
    /// Results that are kept of what command lines sent.
    pub results: usize,
    pub results_of_one: usize,
    /// Connections over TLS at once: ten clients of the draft with all that it lets them have.
    pub secure: usize,
    /// Those of one client: what the draft lets it have each way, and its probes.
    pub secure_of_one: usize,
    /// Most requests at once: probes at fifty a second, when the way there and back takes a second. An answer that nobody takes costs 2 kB.
    pub at_once: u32,
    /// What a client may send before it hears that it arrived: the longest way at the highest rate. It is read at once and kept nowhere.
    pub window: u32,
    /// Longest head of a request, as HTTP/2 counts it: 32 bytes for each line more than it has.
    pub head: u32,
    /// What small pieces of data that nobody looked at yet may cost more than their bytes.
    pub small_pieces: usize,
    /// Bytes of one stream that may wait in this process.
    pub unsent: usize,
}

pub const WEB: WebLimits = WebLimits {
    many: 16,
    piece: 4096,
    payload: 64 << 10,
    most_at_once: 1 << 20,
    kernel_unsent: 256 << 10,
    answer: 64,
    idle_ns: 15_000_000_000,
    requests: 20_000,
    body: 4096,
    large: 8 << 30,
    look_ns: 200_000_000,
    longest_ns: 120_000_000_000,
    page_streams: 8,
    draft_streams: 32,
    results: 64,
    results_of_one: 8,
    secure: 160,
    secure_of_one: 64,
    at_once: 50,
    window: 16 << 20,
    head: 4 << 10,
    small_pieces: 25_600,
    unsent: 32 << 10,
};

/// What one test of `quell flow` or iperf3 may use, and how long its steps may take.
#[derive(Debug, Clone, Copy)]
pub struct TestLimits {
    /// Largest payload of a datagram in bytes: 65535 without the headers of IPv4 and UDP.
    pub datagram: u64,
    /// Largest block of a TCP stream in bytes (`MAX_BLOCKSIZE` of iperf3).
    pub block: u64,
    /// Longest start that does not count, in seconds (`MAX_OMIT_TIME` of iperf3 is 60; later versions allow more).
    pub omit_s: u64,
    /// How much longer than agreed a test may run, for the way and for slow starts, before the client is taken for gone, in nanoseconds. While
    /// its data still comes, its last word may wait behind that, but never for longer than this behind the longest test there may be.
    pub grace_ns: u64,
    /// Longest name of a congestion control in bytes (`TCP_CA_NAME_MAX`, linux/tcp.h, with a zero at its end).
    pub congestion_name: usize,
    /// Most characters of a client's version that are told.
    pub version: usize,
    /// How often streams are looked at, where nothing else is asked for; and the least, in nanoseconds.
    pub look_ns: u64,
    pub least_look_ns: u64,
    /// Reports are no more frequent than this.
    pub least_report_ns: u64,
    /// Most datagrams of a burst (`MAX_BURST` of iperf3).
    pub burst: u32,
    /// How long a client that was told why its test ends has for closing its connections.
    pub last_word_ns: u64,
    /// Longest results of a client that are read: those of 128 streams each way have a tenth of that.
    pub results_read: usize,
    /// How long a full path may hold words up after the data: more than any queue that is of use.
    pub drain_ns: u64,
    /// For how much longer than its time, and four round trips, a test's data is sent over TCP: its client may have begun late.
    pub late_ns: u64,
    /// After that time, how often it is looked at whether data still comes.
    pub still_ns: u64,
    /// Datagrams that are still on their way when the client says that it is done are waited for so long at most: it waits for the results.
    pub rest_ns: u64,
    /// Datagrams can't be held back: a test that gets more of them than it may ends when they are so far ahead, …
    pub too_fast_ns: u64,
    /// … which is looked at so often.
    pub meter_ns: u64,
    /// How often it is looked at whether bytes move.
    pub motion_ns: u64,
    /// Most datagrams that a client is believed to have sent in one stream.
    pub datagrams: u64,
    /// Most states that are kept of one test, for 10 s of 8 streams at the finest …
    pub moments: usize,
    /// … and of all tests at once, of some 200 bytes each: 6 MB, and as text for their clients at the same moment twice that.
    pub moments_of_all: usize,
    /// A stream has so many whatever runs beside it; there are 1,024 streams at most.
    pub moments_of_stream: usize,
    /// A state as a client is told it at the end: some 140 bytes of text.
    pub moment_bits: u64,
    /// One part in so many of the rate may be states.
    pub of_rate: u64,
    /// Looks are no rarer than this.
    pub slowest_ns: u64,
    /// How often a stream's hello is answered again. `quell flow` says it ever more seldom, iperf3 once.
    pub greetings: u32,
    /// Sockets that have not come after so long don't come: what their hellos open is sent again by the client.
    pub gather_ns: u64,
}

pub const TEST: TestLimits = TestLimits {
    datagram: quell_wire::LARGEST_PAYLOAD as u64,
    block: 1 << 20,
    omit_s: 600,
    grace_ns: 10_000_000_000,
    congestion_name: 15,
    version: 24,
    look_ns: 1_000_000_000,
    least_look_ns: 10_000_000,
    least_report_ns: 50_000_000,
    burst: 1000,
    last_word_ns: 500_000_000,
    results_read: 1 << 20,
    drain_ns: 60_000_000_000,
    late_ns: 1_000_000_000,
    still_ns: 2_000_000_000,
    rest_ns: 10_000_000_000,
    too_fast_ns: 250_000_000,
    meter_ns: 50_000_000,
    motion_ns: 500_000_000,
    datagrams: 1 << 48,
    moments: 8_000,
    moments_of_all: 32_000,
    moments_of_stream: 32,
    moment_bits: 140 * 8,
    of_rate: 20,
    slowest_ns: 3_600_000_000_000,
    greetings: 8,
    gather_ns: 3_000_000_000,
};

/// What the server itself may use, and how long it waits.
pub struct ServerLimits {
    /// How long the server rests when the system has no descriptor for a new connection.
    pub rest_ns: u64,
    /// The same where somebody was sent away for it.
    pub soon_ns: u64,
    /// Connections that are let in before it is looked again whether the server is to end.
    pub at_once: usize,
    /// How often it is tried to find a port that is free for both TCP and UDP, where any will do.
    pub ports: u32,
    /// What the server itself opens, and one client with a test of a stream each way.
    pub files_of_one: usize,
    /// With so many descriptors nothing but unknown connections is limited for their sake.
    pub enough_files: u64,
    /// Most open descriptors: those of as many streams as the limits allow, and some.
    pub most_files: u64,
    /// After so long without another connection of calls the client is through, where the server ends after the first test.
    pub lull_ns: u64,
    /// How often it looks then whether those that are under way are idle.
    pub look_ns: u64,
    /// Streams at once that receive whole trains of datagrams. Each has a megabyte of room for them, the others 1 KiB for heads.
    pub trains: usize,
    /// Most characters of a reason: it may hold what a client said.
    pub reason: usize,
    pub log_lines: usize,
    pub batch: usize,
    pub datagram: usize,
}

pub const SERVER: ServerLimits = ServerLimits {
    rest_ns: 100_000_000,
    soon_ns: 2_000_000,
    at_once: 64,
    ports: 16,
    files_of_one: 24,
    enough_files: 1024,
    most_files: 16_384,
    lull_ns: 1_000_000_000,
    look_ns: 100_000_000,
    trains: 16,
    reason: 300,
    log_lines: 1000,
    batch: 8,
    datagram: 65_535,
};

/// Why one more may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Full {
    #[error("the server has as many sessions as it may")]
    Sessions,
    #[error("this client has as many sessions as it may")]
    SessionsOfOne,
    #[error("the server has as many streams as it may")]
    Streams,
    #[error("this client has as many streams as it may")]
    StreamsOfOne,
    #[error("other tests use the rate that the server may have for datagrams that come")]
    Rate,
    #[error("other tests of this client use the rate that it may have for datagrams that come")]
    RateOfOne,
    #[error("the server has no descriptor left")]
    Descriptors,
    #[error("it was idle, and its place was given to another")]
    SentAway,
    #[error("the server was to end after one test, and takes no other")]
    Over,
}

/// The client that an address belongs to.
pub fn client(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
        ip => ip,
    }
}

/// A lock that a panic of another thread does not take away: what is in it is whole between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who is connected. Each has a handle by which it can be sent away.
#[derive(Debug)]
pub struct Clients<H> {
    half_open: BTreeMap<u64, (IpAddr, H)>,
    sessions: BTreeMap<u64, ClientSession<H>>,
    next: u64,
}

#[derive(Debug)]
struct ClientSession<H> {
    client: IpAddr,
    active_ns: u64,
    streams: u64,
    datagrams: u64,
    handle: H,
}

impl<H> ClientSession<H> {
    fn is_idle(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.active_ns) >= PACE.idle_ns
    }
}

impl<H> Default for Clients<H> {
    fn default() -> Self {
        Self { half_open: BTreeMap::new(), sessions: BTreeMap::new(), next: 0 }
    }
}

impl<H> Clients<H> {
    /// One more connection that said nothing yet, with who gives way to it: the client's oldest where it has too many, else the oldest of all.
    pub fn half_open(&mut self, limits: &Limits, ip: IpAddr, handle: H) -> (u64, Option<H>) {
        let client = client(ip);
        let mut of_one = self.half_open.iter().filter(|(_, (other, _))| *other == client);
        let oldest_of_one = of_one.next().map(|(number, _)| *number);
        let is_too_many = 1 + of_one.count() >= limits.half_open_of_one.max(1);
        let goes = match oldest_of_one.filter(|_| is_too_many) {
            None if self.half_open.len() >= limits.half_open.max(1) => {
                self.half_open.first_key_value().map(|(number, _)| *number)
            }
            goes => goes,
        };
        self.next += 1;
        self.half_open.insert(self.next, (client, handle));
        (self.next, goes.and_then(|goes| self.leave(goes)))
    }

    /// One more session, with who gives way to it.
    pub fn begin(
        &mut self,
        limits: &Limits,
        ip: IpAddr,
        now_ns: u64,
        handle: H,
    ) -> Result<(u64, Vec<H>), Full> {
        let (client, number) = (client(ip), self.next + 1);
        let most = (limits.sessions_of_one as u64, limits.sessions as u64);
        let full = (Full::SessionsOfOne, Full::Sessions);
        let gone = self.make_room((client, number, now_ns), 1, most, full, |_| 1)?;
        self.next = number;
        let session = ClientSession { client, active_ns: now_ns, streams: 0, datagrams: 0, handle };
        self.sessions.insert(number, session);
        Ok((number, gone))
    }

    /// A session wants so many streams; who gives way for them.
    pub fn streams(
        &mut self,
        limits: &Limits,
        number: u64,
        now_ns: u64,
        streams: usize,
    ) -> Result<Vec<H>, Full> {
        let who = (self.client_of(number)?, number, now_ns);
        let most = (limits.streams_of_one as u64, limits.streams_of_all as u64);
        let full = (Full::StreamsOfOne, Full::Streams);
        let gone = self.make_room(who, streams as u64, most, full, |s| s.streams)?;
        self.sessions.entry(number).and_modify(|session| session.streams = streams as u64);
        Ok(gone)
    }

    /// A session is to be sent datagrams at this rate, or at whatever is left; at which it may, none where nothing is limited, and who gives
    /// way for it.
    pub fn datagrams(
        &mut self,
        limits: &Limits,
        number: u64,
        now_ns: u64,
        asked: Option<u64>,
    ) -> Result<(Option<u64>, Vec<H>), Full> {
        let client = self.client_of(number)?;
        let Some(least) = limits.rate_of_client() else { return Ok((None, Vec::new())) };
        let all = limits.rate.map_or(u64::MAX, |rate| rate / DATAGRAMS.1 * DATAGRAMS.0);
        let most = (limits.rate_of_one.unwrap_or(u64::MAX), all);
        let used = |only: Option<IpAddr>| -> u64 {
            let others = self.sessions.iter().filter(|(other, _)| **other != number);
            let others = others.filter(|(_, s)| only.is_none_or(|client| client == s.client));
            others.map(|(_, session)| session.datagrams).fold(0, u64::saturating_add)
        };
        let left = most.0.saturating_sub(used(Some(client))).min(most.1.saturating_sub(used(None)));
        // A test that takes whatever there is shall not be told that a trickle is what the network carries.
        let rate = asked.unwrap_or(left.max(least / 10).max(1));
        let full = (Full::RateOfOne, Full::Rate);
        let gone = self.make_room((client, number, now_ns), rate, most, full, |s| s.datagrams)?;
        self.sessions.entry(number).and_modify(|session| session.datagrams = rate);
        Ok((Some(rate), gone))
    }

    /// A session was active. Errors when it gave way to another meanwhile.
    pub fn active(&mut self, number: u64, now_ns: u64) -> Result<(), Full> {
        let session = self.sessions.get_mut(&number).ok_or(Full::SentAway)?;
        session.active_ns = session.active_ns.max(now_ns);
        Ok(())
    }

    /// Who gives way where the system has nothing left for one more: the oldest that said nothing, else who was idle for the longest.
    pub fn relieve(&mut self, now_ns: u64) -> Option<H> {
        let idle = || self.longest_idle(now_ns, |_, _| true);
        let goes = self.half_open.keys().next().copied().or_else(idle)?;
        self.leave(goes)
    }

    pub fn count(&self, only: Option<IpAddr>) -> usize {
        self.sessions.values().filter(|s| only.is_none_or(|client| client == s.client)).count()
    }

    /// How many clients have sessions.
    pub fn different(&self) -> usize {
        self.sessions.values().map(|session| session.client).collect::<BTreeSet<_>>().len()
    }

    /// Whether there is a session that is not idle.
    pub fn is_under_way(&self, now_ns: u64) -> bool {
        self.sessions.values().any(|session| !session.is_idle(now_ns))
    }

    pub fn has(&self, number: u64) -> bool {
        self.sessions.contains_key(&number) || self.half_open.contains_key(&number)
    }

    pub fn leave(&mut self, number: u64) -> Option<H> {
        let half_open = self.half_open.remove(&number).map(|(_, handle)| handle);
        half_open.or_else(|| self.sessions.remove(&number).map(|session| session.handle))
    }

    pub fn handles(&self) -> impl Iterator<Item = &H> {
        self.sessions.values().map(|session| &session.handle)
    }

    fn client_of(&self, number: u64) -> Result<IpAddr, Full> {
        self.sessions.get(&number).map(|session| session.client).ok_or(Full::SentAway)
    }

    fn longest_idle(
        &self,
        now_ns: u64,
        of: impl Fn(u64, &ClientSession<H>) -> bool,
    ) -> Option<u64> {
        let idle = self.sessions.iter().filter(|(number, s)| s.is_idle(now_ns) && of(**number, s));
        idle.min_by_key(|(number, session)| (session.active_ns, **number)).map(|(n, _)| *n)
    }

    /// Room for so much more of what `amount` counts, where a client and all may have so much; who goes for it. Nobody goes where that is not
    /// enough.
    fn make_room(
        &mut self,
        (client, number, now_ns): (IpAddr, u64, u64),
        more: u64,
        most: (u64, u64),
        full: (Full, Full),
        amount: impl Fn(&ClientSession<H>) -> u64,
    ) -> Result<Vec<H>, Full> {
        let mut gone = Vec::new();
        for (most, only, full) in [(most.0, Some(client), full.0), (most.1, None, full.1)] {
            loop {
                let counts = |other: u64, session: &ClientSession<H>| {
                    let is_other = other != number && !gone.contains(&other);
                    is_other && amount(session) > 0 && only.is_none_or(|of| of == session.client)
                };
                let others = self.sessions.iter().filter(|(other, s)| counts(**other, s));
                let used = others.map(|(_, s)| amount(s)).fold(0, u64::saturating_add);
                if used.saturating_add(more) <= most {
                    break;
                }
                let goes = self.longest_idle(now_ns, counts).ok_or(full)?;
                gone.push(goes);
            }
        }
        Ok(gone.into_iter().filter_map(|goes| self.leave(goes)).collect())
    }
}

/// A token bucket with a line before it.
#[derive(Debug, Clone)]
struct Bucket {
    rate: u64,
    burst_ns: u64,
    paid_ns: u64,
    /// When the last piece in the line has its turn, and is over.
    line_ns: u64,
}

impl Bucket {
    fn new(rate: u64, burst_ns: u64) -> Self {
        Self { rate: rate.max(1), burst_ns, paid_ns: 0, line_ns: 0 }
    }

    fn cost_ns(&self, bytes: usize) -> u64 {
        let cost = bytes as u128 * 8_000_000_000 / u128::from(self.rate);
        u64::try_from(cost).unwrap_or(u64::MAX)
    }

    fn opens_ns(&self) -> u64 {
        self.paid_ns.saturating_sub(self.burst_ns)
    }

    /// Whether it is the turn of a piece, else when. Its turn is noted when it asks for the first time: behind those that asked before.
    fn turn(&mut self, turn: &mut Option<u64>, bytes: usize, now_ns: u64) -> Result<(), u64> {
        let opens_ns = self.opens_ns();
        let at = turn.unwrap_or_else(|| {
            let at = opens_ns.max(self.line_ns);
            if at > now_ns {
                self.line_ns = at.saturating_add(self.cost_ns(bytes));
            }
            at
        });
        *turn = Some(at);
        let at = at.max(opens_ns);
        if at <= now_ns { Ok(()) } else { Err(at) }
    }

    fn charge(&mut self, bytes: usize, now_ns: u64) {
        self.paid_ns = self.paid_ns.max(now_ns).saturating_add(self.cost_ns(bytes));
    }
}

/// The buckets of the server and of its clients.
#[derive(Debug)]
pub struct Rates {
    all: Option<Bucket>,
    of_one: Option<u64>,
    /// For what does not stand in line, in all.
    prompt: Option<Bucket>,
    prompt_of_one: Option<u64>,
    clients: HashMap<IpAddr, ClientBuckets>,
    /// Where there are so many clients, those whose buckets are full again are taken out.
    many: usize,
}

#[derive(Debug)]
struct ClientBuckets {
    all: Option<Bucket>,
    prompt: Option<Bucket>,
}

impl Rates {
    pub fn new(limits: &Limits) -> Self {
        let prompt_of_one = [
            limits.rate.map(|rate| rate / PACE.prompt / 2),
            limits.rate_of_one.map(|r| r / PACE.prompt),
        ];
        Self {
            all: limits.rate.map(|rate| Bucket::new(rate, PACE.burst_ns)),
            of_one: limits.rate_of_one,
            prompt: limits.rate.map(|rate| Bucket::new(rate / PACE.prompt, PACE.prompt_burst_ns)),
            prompt_of_one: prompt_of_one.into_iter().flatten().min(),
            clients: HashMap::new(),
            many: PACE.many,
        }
    }

    pub fn is_limited(&self) -> bool {
        self.all.is_some() || self.of_one.is_some()
    }

    /// Lets a packet or a short answer through at once, or not.
    pub fn prompt(&mut self, ip: IpAddr, bytes: usize, now_ns: u64) -> bool {
        if !self.is_limited() {
            return true;
        }
        let of_one = self.client(client(ip), now_ns).prompt.as_ref().map(Bucket::opens_ns);
        let opens_ns = of_one.max(self.prompt.as_ref().map(Bucket::opens_ns));
        if opens_ns.is_some_and(|at| at > now_ns) {
            return false;
        }
        if let Some(prompt) = &mut self.prompt {
            prompt.charge(bytes, now_ns);
        }
        if let Some(prompt) = &mut self.client(client(ip), now_ns).prompt {
            prompt.charge(bytes, now_ns);
        }
        self.charge(ip, bytes, now_ns);
        true
    }

    /// So many bytes went, or came.
    pub fn charge(&mut self, ip: IpAddr, bytes: usize, now_ns: u64) {
        if let Some(all) = &mut self.all {
            all.charge(bytes, now_ns);
        }
        if let Some(of_one) = &mut self.client(client(ip), now_ns).all {
            of_one.charge(bytes, now_ns);
        }
    }

    fn pass(
        &mut self,
        ip: IpAddr,
        turns: &mut [Option<u64>; 2],
        bytes: usize,
        now_ns: u64,
    ) -> Result<(), u64> {
        let [of_one, of_all] = turns;
        if let Some(bucket) = &mut self.client(client(ip), now_ns).all {
            bucket.turn(of_one, bytes, now_ns)?;
        }
        if let Some(bucket) = &mut self.all {
            bucket.turn(of_all, bytes, now_ns)?;
        }
        *turns = [None; 2];
        self.charge(ip, bytes, now_ns);
        Ok(())
    }

    fn client(&mut self, client: IpAddr, now_ns: u64) -> &mut ClientBuckets {
        if self.clients.len() >= self.many && !self.clients.contains_key(&client) {
            let owes = |bucket: &Option<Bucket>| {
                bucket.as_ref().is_some_and(|bucket| bucket.paid_ns.max(bucket.line_ns) > now_ns)
            };
            self.clients.retain(|_, of| owes(&of.all) || owes(&of.prompt));
            self.many = (2 * self.clients.len()).max(PACE.many);
        }
        let bucket = |rate: Option<u64>, burst_ns| rate.map(|rate| Bucket::new(rate, burst_ns));
        let (of_one, prompt) = (self.of_one, self.prompt_of_one);
        self.clients.entry(client).or_insert_with(|| ClientBuckets {
            all: bucket(of_one, PACE.burst_ns),
            prompt: bucket(prompt, PACE.prompt_burst_ns),
        })
    }
}

/// What holds one stream, or one connection, to the rates.
#[derive(Debug)]
pub struct Throttle<'a> {
    rates: &'a Mutex<Rates>,
    ip: IpAddr,
    /// None where nothing is limited.
    piece: Option<usize>,
    /// Its turns in the lines of its client and of the server.
    turns: Mutex<[Option<u64>; 2]>,
}

impl<'a> Throttle<'a> {
    /// Of one of so many streams. The pieces of all of them are a burst at most.
    pub fn new(rates: &'a Mutex<Rates>, ip: IpAddr, streams: usize) -> Self {
        let rate = {
            let rates = lock(rates);
            [rates.all.as_ref().map(|all| all.rate), rates.of_one].into_iter().flatten().min()
        };
        let piece = rate.map(|rate| {
            let burst = u128::from(rate) * u128::from(PACE.burst_ns) / 8_000_000_000;
            let part = usize::try_from(burst / streams.max(1) as u128).unwrap_or(PACE.piece);
            part.clamp(PACE.least_piece, PACE.piece)
        });
        Self { rates, ip, piece, turns: Mutex::default() }
    }

    /// Lets an answer through: at once, where its client has few of them; else in its turn.
    pub fn pass_answer(&self, bytes: usize, now_ns: u64) -> Result<(), u64> {
        if self.piece.is_none() || lock(self.rates).prompt(self.ip, bytes, now_ns) {
            return Ok(());
        }
        self.pass(bytes, now_ns)
    }

    /// So many bytes of datagrams came.
    pub fn came(&self, bytes: u64, now_ns: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        lock(self.rates).charge(self.ip, bytes, now_ns);
    }
}

impl Gate for Throttle<'_> {
    fn most(&self) -> Option<usize> {
        self.piece
    }

    fn pass(&self, bytes: usize, now_ns: u64) -> Result<(), u64> {
        if self.piece.is_none() {
            return Ok(());
        }
        lock(self.rates).pass(self.ip, &mut lock(&self.turns), bytes, now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;
    const RATE: u64 = 10_000_000;

    fn ip(n: u8) -> IpAddr {
        [192, 0, 2, n].into()
    }

    fn small() -> Limits {
        Limits {
            sessions: 4,
            sessions_of_one: 2,
            streams_of_all: 12,
            streams_of_one: 8,
            half_open: 4,
            half_open_of_one: 2,
            ..Limits::default()
        }
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_a_64() {
        let of = |text: &str| client(text.parse().unwrap()).to_string();
        for (ip, wanted) in [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2::9", "2001:db8:1:2::"),
            ("2001:db8:1:3::9", "2001:db8:1:3::"),
        ] {
            assert_eq!(of(ip), wanted);
        }
    }

    #[test]
    fn the_oldest_half_open_gives_way_of_ones_own_first() {
        let mut clients = Clients::default();
        let mut knock = |n, name| clients.half_open(&small(), ip(n), name).1;
        assert_eq!([knock(1, "a"), knock(1, "b"), knock(1, "c")], [None, None, Some("a")]);
        assert_eq!([knock(2, "d"), knock(3, "e")], [None, None], "four are there");
        assert_eq!(knock(4, "f"), Some("b"), "the oldest of all");
        assert_eq!(knock(2, "g"), Some("c"));
        assert_eq!(clients.relieve(0), Some("d"));
    }

    #[test]
    fn where_it_is_full_who_is_idle_for_5_s_gives_way_and_nobody_else() {
        let mut clients = Clients::default();
        let limits = small();
        let mut numbers = Vec::new();
        for (n, name) in [(1, "a"), (1, "b"), (2, "c"), (3, "d")] {
            let (number, gone) = clients.begin(&limits, ip(n), 0, name).unwrap();
            assert!(gone.is_empty());
            numbers.push(number);
        }
        let full =
            |clients: &mut Clients<&str>, n, now| clients.begin(&limits, ip(n), now, "x").map(drop);
        assert_eq!(full(&mut clients, 1, PACE.idle_ns - 1), Err(Full::SessionsOfOne));
        assert_eq!(full(&mut clients, 4, PACE.idle_ns - 1), Err(Full::Sessions));
        for number in &numbers[..3] {
            clients.active(*number, PACE.idle_ns).unwrap();
        }
        assert_eq!(
            full(&mut clients, 1, PACE.idle_ns),
            Err(Full::SessionsOfOne),
            "both are at work"
        );
        let (_, gone) = clients.begin(&limits, ip(4), PACE.idle_ns, "e").unwrap();
        assert_eq!(gone, ["d"]);
        assert_eq!(clients.active(numbers[3], PACE.idle_ns), Err(Full::SentAway));
        assert!(!clients.has(numbers[3]) && clients.has(numbers[0]));
        clients.active(numbers[1], PACE.idle_ns + 1).unwrap();
        let (_, gone) = clients.begin(&limits, ip(1), 2 * PACE.idle_ns, "f").unwrap();
        assert_eq!(gone, ["a"], "of its own the one that is idle for the longest");
    }

    #[test]
    fn streams_are_counted_of_all_and_of_one_and_idle_ones_are_given_on() {
        let mut clients = Clients::default();
        let limits = small();
        let mut begin = |n| clients.begin(&limits, ip(n), 0, n).unwrap().0;
        let [a, b, c] = [begin(1), begin(1), begin(2)];
        let mut streams = |number, now, n| clients.streams(&limits, number, now, n);
        assert_eq!(streams(a, 0, 6), Ok(vec![]));
        assert_eq!(streams(b, 0, 3), Err(Full::StreamsOfOne));
        assert_eq!(streams(b, 0, 2), Ok(vec![]));
        assert_eq!(streams(c, 0, 5), Err(Full::Streams));
        assert_eq!(streams(c, 0, 4), Ok(vec![]));
        assert_eq!(streams(c, 0, 3), Ok(vec![]), "instead of those that it had");
        assert_eq!(streams(c, PACE.idle_ns, 8), Ok(vec![1]), "nobody goes beyond what is enough");
    }

    #[test]
    fn datagrams_that_come_begin_only_where_their_rate_fits() {
        let limits = Limits { rate: Some(RATE), rate_of_one: Some(RATE / 2), ..small() };
        let mut clients = Clients::default();
        let mut begin = |n| clients.begin(&limits, ip(n), 0, n).unwrap().0;
        let [a, b, c, d] = [begin(1), begin(1), begin(2), begin(3)];
        let mut ask = |number, now, asked| clients.datagrams(&limits, number, now, asked);
        assert_eq!(ask(a, 0, Some(RATE / 5)), Ok((Some(RATE / 5), vec![])));
        assert_eq!(ask(b, 0, Some(RATE / 2)), Err(Full::RateOfOne));
        assert_eq!(ask(b, 0, None), Ok((Some(RATE / 10 * 3), vec![])), "what its client has left");
        assert_eq!(ask(c, 0, Some(RATE / 2)), Err(Full::Rate), "a tenth is for those that wait");
        assert_eq!(ask(c, 0, None), Ok((Some(RATE / 10 * 4), vec![])));
        assert_eq!(ask(d, 0, None), Err(Full::Rate), "no trickle");
        assert_eq!(ask(d, PACE.idle_ns, Some(RATE / 5)), Ok((Some(RATE / 5), vec![1])));
        let free = Limits::default();
        assert_eq!(clients.datagrams(&free, d, 0, None), Ok((None, vec![])));
    }

    /// What each gets in a second when all ask for a piece whenever they may, in bytes.
    fn greedy(throttles: &[Throttle<'_>], from: u64, piece: usize) -> Vec<u64> {
        let mut got = vec![0; throttles.len()];
        for now in (0..10_000).map(|n| from + n * MS / 10) {
            for (throttle, got) in throttles.iter().zip(&mut got) {
                while throttle.pass(piece, now).is_ok() {
                    *got += piece as u64;
                }
            }
        }
        got
    }

    fn rates(rate: Option<u64>, rate_of_one: Option<u64>) -> Mutex<Rates> {
        Mutex::new(Rates::new(&Limits { rate, rate_of_one, ..Limits::default() }))
    }

    #[test]
    fn all_together_hold_the_rate_use_it_and_share_it() {
        let most = RATE * (S + PACE.burst_ns) / 8 / S;
        for (streams, piece) in [(1, 64), (1, PACE.piece), (8, PACE.piece), (8, 65_507), (128, 512)]
        {
            let rates = rates(Some(RATE), None);
            let throttles: Vec<_> = (0..streams).map(|n| Throttle::new(&rates, ip(n), 1)).collect();
            for second in [S, 2 * S] {
                let got = greedy(&throttles, second, piece);
                let all: u64 = got.iter().sum();
                assert!(all <= most + piece as u64, "{all} of {most}");
                assert!(all >= RATE / 8 * 93 / 100, "and it is used: {all} of {most}");
                let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
                assert!(most - least <= 3 * piece as u64 + all / 50, "{got:?}");
            }
        }
    }

    #[test]
    fn each_client_holds_its_own_rate_and_many_streams_of_one_leave_the_rest_to_others() {
        let rates = rates(Some(RATE), Some(RATE / 4));
        let mut throttles: Vec<_> = (0..16).map(|_| Throttle::new(&rates, ip(1), 16)).collect();
        throttles.push(Throttle::new(&rates, ip(2), 1));
        throttles.push(Throttle::new(&rates, "2001:db8::1".parse().unwrap(), 1));
        throttles.push(Throttle::new(&rates, "2001:db8::2".parse().unwrap(), 1));
        let got = greedy(&throttles, S, 3000);
        for of in [&got[..16], &got[16..17], &got[17..]] {
            let sum = of.iter().sum::<u64>();
            let wanted = RATE / 4 / 8;
            assert!(sum.abs_diff(wanted) < wanted / 20, "{sum} of {wanted}");
        }
    }

    #[test]
    fn answers_do_not_stand_behind_a_load_and_a_flood_of_them_is_a_tenth() {
        let rates = rates(Some(RATE), None);
        let loads: Vec<_> = (0..64).map(|_| Throttle::new(&rates, ip(1), 64)).collect();
        let (mut answers, mut carried, mut flooded) = (0, 0, 0);
        for ms in 1000..2000 {
            for load in &loads {
                while load.pass(512, ms * MS).is_ok() {
                    carried += 512;
                }
            }
            // One asks for far more than its part, the other for twenty answers a second.
            flooded += (0..20).filter(|_| lock(&rates).prompt(ip(2), 500, ms * MS)).count();
            if ms % 50 == 0 {
                answers += u32::from(lock(&rates).prompt(ip(3), 300, ms * MS));
            }
        }
        assert_eq!(answers, 20);
        let all = RATE / 8;
        assert!((all * 9 / 10..all).contains(&carried), "the load has the rest: {carried}");
        assert!(flooded as u64 * 500 <= all / 20 * 13 / 10, "half of a tenth, and a burst");
    }

    #[test]
    fn where_nothing_is_limited_nobody_waits() {
        let rates = rates(None, None);
        let throttle = Throttle::new(&rates, ip(1), 1);
        assert_eq!(throttle.most(), None);
        assert!((0..1000).all(|_| throttle.pass(usize::MAX, 0).is_ok()));
        assert!((0..1000).all(|_| lock(&rates).prompt(ip(1), 65_000, 0)), "no limit, no loss");
    }

    #[test]
    fn clients_that_owe_nothing_are_forgotten() {
        let rates = rates(None, Some(RATE));
        for n in 0..10_000u32 {
            lock(&rates).charge(IpAddr::V4(n.into()), 1000, u64::from(n) * MS);
        }
        assert!(lock(&rates).clients.len() <= PACE.many);
    }
}
