//! The control connection: what the two ends say to each other around a test.

use crate::{FlowError, FlowPlan, Transport};
use quell_load::connection_sample::{again, tcp_info};
use quell_sys::clock::monotonic_ns;
use quell_sys::secret::nonce;
use quell_sys::socket::exchange::{Exchange, ExchangeError};
use quell_sys::socket::preface::prove;
use quell_sys::socket::stream::{Connected, StreamOptions, TcpSocket};
use quell_sys::wait::Bell;
use quell_wire::iperf3::{self, Cookie, HelloToken, Parameters, Report, Results, State};
use quell_wire::text::printable;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

/// How long the server may take for its next word before the data, in seconds.
pub(crate) const ANSWER_S: u64 = 15;
/// And for all of its words after it: they wait behind what is queued on the path, results for several of its round trips.
const DRAIN_S: u64 = 60;
pub(crate) const AFTER: &str = "after the data";
/// When it has said that its results come.
pub(crate) const RESULTS: &str = "with its results after the data";
/// When somebody waits for the test to end at once: what the server knows by then is welcome.
pub(crate) const STOPPED: &str = "when the test was stopped";
/// How long that may take, or four of the path's round trips.
const AT_ONCE_NS: u64 = 700_000_000;

/// Times that the kernel sent again what the server does not acknowledge, before it is said that it does not hear us.
const AGAIN: u64 = 3;

/// How long a server may take to believe where streams come from, in nanoseconds: a round trip, if it is a Quell.
const PROOF_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct ControlConnection {
    pub stream: TcpSocket,
    pub server: SocketAddr,
    pub cookie: Cookie,
    /// What hellos of UDP streams carry; none where the server knows of no such thing.
    pub token: Option<HelloToken>,
    heard: Mutex<Option<Report>>,
}

pub(crate) fn connect(
    plan: &FlowPlan,
    to: SocketAddr,
    options: &StreamOptions,
    stop: &Bell,
) -> Result<TcpSocket, FlowError> {
    let stream = TcpSocket::new(to.is_ipv6(), options)?;
    plan.way.apply(stream.as_fd(), to.is_ipv6())?;
    reach(plan, stream, to, stop)
}

pub(crate) fn reach(
    plan: &FlowPlan,
    stream: TcpSocket,
    to: SocketAddr,
    stop: &Bell,
) -> Result<TcpSocket, FlowError> {
    let within_ns = plan.connect_within.nanos();
    let deadline = monotonic_ns().saturating_add(within_ns);
    match stream.connect(to, deadline, stop) {
        Ok(Connected::Yes) => Ok(stream),
        Ok(Connected::NoAnswer) => Err(FlowError::Silent(to, plan.connect_within)),
        Ok(Connected::Stopped) => Err(FlowError::Stopped),
        Err(error) if error.errno == nix::errno::Errno::ECONNREFUSED => Err(FlowError::Refused(to)),
        Err(error) => Err(error.into()),
    }
}

fn trusted(plan: &FlowPlan, to: SocketAddr, stop: &Bell) -> Result<TcpSocket, FlowError> {
    // A path that swallows what is larger would swallow the server's results too.
    let options = StreamOptions { mss: plan.mss, ..StreamOptions::default() };
    let stream = connect(plan, to, &options, stop)?;
    if let Some(secret) = &plan.secret {
        let deadline = monotonic_ns() + ANSWER_S * 1_000_000_000;
        prove(&mut Exchange::new(&stream, Some(deadline), stop)?, secret)?;
    }
    Ok(stream)
}

impl ControlConnection {
    pub fn open(plan: &FlowPlan, stop: &Bell) -> Result<Self, FlowError> {
        let stream = trusted(plan, plan.control, stop)?;
        let (one, two) = (nonce()?, nonce()?);
        let mut random = [0; iperf3::COOKIE - 1];
        for (to, from) in random.iter_mut().zip(one.iter().chain(&two)) {
            *to = *from;
        }
        let token = match plan.transport == Transport::Udp && !plan.plain {
            true => nonce()?.first_chunk().copied().map(HelloToken::new),
            false => None,
        };
        let (server, cookie) = (plan.control, Cookie::from_random(&random));
        Ok(Self { stream, server, cookie, token, heard: Mutex::default() })
    }

    /// Proves by a TCP connection from where UDP streams will come that this is us, so that the server sends there; until it knows. A plain
    /// iperf3 takes streams from anywhere, and does not answer this.
    pub fn prove_address(&self, plan: &FlowPlan, stop: &Bell) -> Result<TcpSocket, FlowError> {
        let stream = trusted(plan, plan.to, stop)?;
        let deadline = monotonic_ns() + PROOF_NS;
        let mut exchange = Exchange::new(&stream, Some(deadline), stop)?;
        let when = "when it heard where streams come from";
        let failed = |e| FlowError::from_exchange(e, plan.to, when, ANSWER_S);
        exchange.write(self.cookie.bytes()).map_err(failed)?;
        match exchange.read(&mut [0]) {
            Err(error @ (ExchangeError::Stopped | ExchangeError::System(_))) => Err(failed(error)),
            // It says what is wrong on the other connection.
            Ok(()) | Err(ExchangeError::Closed | ExchangeError::Late) => Ok(stream),
        }
    }

    fn exchange<'a>(&'a self, when: &str, stop: &'a Bell) -> Result<Exchange<'a>, FlowError> {
        let deadline = monotonic_ns() + self.patience_ns(when);
        Ok(Exchange::new(&self.stream, Some(deadline), stop)?)
    }

    fn patience_ns(&self, when: &str) -> u64 {
        let round_trip_us = || tcp_info(&self.stream).map_or(0, |info| u64::from(info.rtt));
        match when {
            AFTER | RESULTS => DRAIN_S * 1_000_000_000,
            STOPPED => AT_ONCE_NS.max(round_trip_us() * 4000),
            _ => ANSWER_S * 1_000_000_000,
        }
    }

    fn failed(&self, error: ExchangeError, when: &'static str) -> FlowError {
        let seconds = self.patience_ns(when).div_ceil(1_000_000_000);
        FlowError::from_exchange(error, self.server, when, seconds)
    }

    /// Says who we are. A server waits for seconds only for a client that said nothing yet (a Quell for 5), and the pings over a path that is long
    /// or loses much may have taken longer: where it has hung up meanwhile, on another connection.
    pub fn greet(self, plan: &FlowPlan, stop: &Bell) -> Result<Self, FlowError> {
        match self.say_cookie(stop) {
            Err(FlowError::Vanished(..)) if plan.latency => {
                let again = Self::open(plan, stop)?;
                again.say_cookie(stop)?;
                Ok(again)
            }
            said => said.map(|()| self),
        }
    }

    fn say_cookie(&self, stop: &Bell) -> Result<(), FlowError> {
        let when = "before the test";
        match self.exchange(when, stop)?.write(self.cookie.bytes()) {
            // A busy server hangs up at once; its word may still wait to be read.
            Ok(()) | Err(ExchangeError::Closed) => {}
            Err(error) => return Err(self.failed(error, when)),
        }
        self.expect(State::ParamExchange, when, stop)
    }

    /// Says what is to be measured, until the server wants the data connections. One that knows of no token asks for hellos without.
    pub fn introduce(&mut self, mut parameters: Parameters, stop: &Bell) -> Result<(), FlowError> {
        let when = "before the test";
        if let Some(wishes) = &mut parameters.quell {
            wishes.token = self.token;
        }
        let frame = iperf3::frame(&parameters)
            .map_err(|e| FlowError::Parameter(format!("the parameters can't be sent: {e}")))?;
        self.exchange(when, stop)?.write(&frame).map_err(|e| self.failed(e, when))?;
        let when = "when it heard what to measure";
        match self.next(when, stop)? {
            State::CreateTokenStreams if self.token.is_some() => Ok(()),
            State::CreateStreams => {
                self.token = None;
                Ok(())
            }
            next => Err(self.unexpected(next, State::CreateStreams, when)),
        }
    }

    pub fn expect(&self, state: State, when: &'static str, stop: &Bell) -> Result<(), FlowError> {
        self.expect_by(monotonic_ns() + self.patience_ns(when), state, when, stop)
    }

    fn expect_by(
        &self,
        deadline_ns: u64,
        state: State,
        when: &'static str,
        stop: &Bell,
    ) -> Result<(), FlowError> {
        loop {
            match self.next_by(deadline_ns, when, stop)? {
                next if next == state => return Ok(()),
                // Words that are not the due one make nobody wait longer, nor deaf.
                State::Report if stop.rings() => return Err(FlowError::Stopped),
                State::Report if monotonic_ns() >= deadline_ns => {
                    return Err(self.failed(ExchangeError::Late, when));
                }
                State::Report => {}
                next => return Err(self.unexpected(next, state, when)),
            }
        }
    }

    /// What the server said last of what it sees; none where it knows of no such thing.
    pub fn heard(&self) -> Option<Report> {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_report(
        &self,
        exchange: &mut Exchange<'_>,
        when: &'static str,
    ) -> Result<(), FlowError> {
        let mut length = [0; iperf3::LENGTH];
        exchange.read(&mut length).map_err(|e| self.failed(e, when))?;
        let foreign = |what: String| FlowError::Foreign(self.server, when, what);
        let length = iperf3::length(length, iperf3::LONGEST_REPORT).ok_or_else(|| {
            let most = iperf3::LONGEST_REPORT;
            foreign(format!("it announces a report of more than {most} bytes"))
        })?;
        let mut text = vec![0; length];
        exchange.read(&mut text).map_err(|e| self.failed(e, when))?;
        let report = iperf3::read(&text)
            .map_err(|e| foreign(format!("its report: {}", printable(&e.to_string(), 200))))?;
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        Ok(())
    }

    fn unexpected(&self, next: State, due: State, when: &'static str) -> FlowError {
        FlowError::Foreign(self.server, when, format!("it said {next:?} where {due:?} was due"))
    }

    /// The server's next state; those that end a test are errors. A report is taken and kept, see [`ControlConnection::heard`].
    pub fn next(&self, when: &'static str, stop: &Bell) -> Result<State, FlowError> {
        self.next_by(monotonic_ns() + self.patience_ns(when), when, stop)
    }

    fn next_by(
        &self,
        deadline_ns: u64,
        when: &'static str,
        stop: &Bell,
    ) -> Result<State, FlowError> {
        let mut exchange = Exchange::new(&self.stream, Some(deadline_ns), stop)?;
        let mut byte = [0];
        exchange.read(&mut byte).map_err(|e| self.failed(e, when))?;
        match State::read(byte[0]) {
            Some(State::AccessDenied) => Err(FlowError::Busy(self.server)),
            Some(State::ServerTerminate) => Err(FlowError::Ended(self.server, when)),
            Some(State::ServerError) => {
                let mut words = [0; 8];
                // A server that says no more has failed all the same.
                let _ = exchange.read(&mut words);
                let word = |at: usize| {
                    i32::from_be_bytes(words[at..at + 4].try_into().unwrap_or_default())
                };
                Err(FlowError::Server { server: self.server, code: word(0), errno: word(4) })
            }
            Some(State::Report) => {
                self.take_report(&mut exchange, when)?;
                Ok(State::Report)
            }
            Some(state) => Ok(state),
            None => {
                let what = format!("its byte {} means nothing", byte[0]);
                Err(FlowError::Foreign(self.server, when, what))
            }
        }
    }

    /// Ends the test: both tell what they saw. `ours` is asked when the server wants to know, [`AFTER`] the data or since somebody
    /// [`STOPPED`] it. A server that says a byte now and then has no longer than one that says nothing.
    pub fn trade(
        &self,
        ours: &mut dyn FnMut() -> Results,
        when: &'static str,
        stop: &Bell,
    ) -> Result<Results, FlowError> {
        let deadline_ns = monotonic_ns() + self.patience_ns(when);
        let mut exchange = Exchange::new(&self.stream, Some(deadline_ns), stop)?;
        let failed = |e| self.failed(e, when);
        exchange.write(&[State::TestEnd.byte()]).map_err(failed)?;
        self.expect_by(deadline_ns, State::ExchangeResults, when, stop)?;
        let when = if when == AFTER { RESULTS } else { when };
        let failed = |e| match e {
            ExchangeError::Closed | ExchangeError::Late if again(&self.stream) >= AGAIN => {
                FlowError::Unheard(self.server)
            }
            e => self.failed(e, when),
        };
        let frame = iperf3::frame(&ours())
            .map_err(|e| FlowError::Parameter(format!("the results can't be sent: {e}")))?;
        exchange.write(&frame).map_err(failed)?;
        let mut length = [0; iperf3::LENGTH];
        exchange.read(&mut length).map_err(failed)?;
        let foreign = |what: String| FlowError::Foreign(self.server, when, what);
        let length = iperf3::length(length, iperf3::LONGEST_RESULTS).ok_or_else(|| {
            foreign(format!("it announces results of more than {} bytes", iperf3::LONGEST_RESULTS))
        })?;
        let mut text = vec![0; length];
        exchange.read(&mut text).map_err(failed)?;
        let theirs = iperf3::read(&text).map_err(|e| {
            // The error quotes what it can't read.
            foreign(format!("its results: {}", printable(&e.to_string(), 200)))
        })?;
        // What is left is courtesy.
        if self.expect_by(deadline_ns, State::DisplayResults, when, stop).is_ok() {
            let _ = exchange.write(&[State::IperfDone.byte()]);
        }
        Ok(theirs)
    }
}
