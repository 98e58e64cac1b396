//! The control connection of one test.
//!
//! After the data its words wait behind what is queued on the path: each step has a minute then. When the longest time of a test and the grace are
//! over, all of that is, whatever still gets through: a place is never kept by what a client sends after its data. Who stands still meanwhile gives way
//! where the server is full.

use super::plan::{Break, Unfit};
use crate::limits::{Limits, TEST};
use nix::errno::Errno;
use quell_load::connection_sample::tcp_info;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::exchange::Exchange;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::Bell;
use quell_wire::iperf3::{
    self, LENGTH, LONGEST_PARAMETERS, LONGEST_RESULTS, Parameters, Results, State,
};

pub struct ControlConnection<'a> {
    stream: &'a TcpSocket,
    exchange: Exchange<'a>,
    step_ns: u64,
    longest_ns: u64,
    /// When it said that the test starts.
    starts_ns: u64,
    /// When every word after the data has to be said.
    drains_until_ns: Option<u64>,
}

impl<'a> ControlConnection<'a> {
    /// With one client; each step may take so long, and its data flow so long.
    pub fn new(stream: &'a TcpSocket, limits: &Limits, stop: &'a Bell) -> Result<Self, SysError> {
        let exchange = Exchange::new(stream, None, stop)?;
        let (step_ns, longest_ns) = (limits.handshake_ns, limits.time_ns);
        Ok(Self {
            stream,
            exchange,
            step_ns,
            longest_ns,
            starts_ns: monotonic_ns(),
            drains_until_ns: None,
        })
    }

    /// How long a step may take: on a long path its round trips do not count, of which it has two, and as many for what is sent again.
    pub fn patience_ns(&self) -> u64 {
        self.step_ns.saturating_add(self.round_trips_ns())
    }

    /// How long four round trips of the path take.
    pub fn round_trips_ns(&self) -> u64 {
        let round_trip_ns = tcp_info(self.stream).map_or(0, |info| u64::from(info.rtt) * 1000);
        round_trip_ns.saturating_mul(4).min(TEST.drain_ns)
    }

    /// The data is over: from here on words wait behind what of it is still on the path, and a round trip is as long as that.
    pub fn drains(&mut self) {
        let last_ns = self.starts_ns.saturating_add(self.longest_ns).saturating_add(TEST.grace_ns);
        self.drains_until_ns = Some(last_ns);
    }

    fn step(&mut self) -> Result<(), SysError> {
        let now = monotonic_ns();
        let end_ns = match self.drains_until_ns {
            Some(last_ns) => now.saturating_add(TEST.drain_ns).min(last_ns),
            None => now.saturating_add(self.patience_ns()),
        };
        self.exchange.until(Some(end_ns))
    }

    pub fn say(&mut self, state: State) -> Result<(), Break> {
        if state == State::TestStart {
            self.starts_ns = monotonic_ns();
        }
        self.step()?;
        Ok(self.exchange.write(&[state.byte()])?)
    }

    pub fn parameters(&mut self) -> Result<Parameters, Break> {
        self.step()?;
        let length = self.length(LONGEST_PARAMETERS, "parameters")?;
        // Memory grows with what came and not with what was announced; and that is bounded.
        let mut text = Vec::new();
        while text.len() < length {
            let start = text.len();
            text.resize(length.min(start + 4096), 0);
            self.exchange.read(&mut text[start..])?;
        }
        iperf3::read(&text).map_err(|error| {
            Unfit::new(Unfit::PARAMETERS, format!("its parameters can't be read: {error}")).into()
        })
    }

    /// Takes the client's results. This end counts for itself: of theirs only how many datagrams they sent is of use, and what can't be read says
    /// nothing.
    pub fn results(&mut self) -> Result<Results, Break> {
        self.step()?;
        let length = self.length(LONGEST_RESULTS, "results")?;
        let mut left = length;
        let mut text = Vec::new();
        let mut bytes = [0; 4096];
        while left > 0 {
            let part = left.min(bytes.len());
            self.exchange.read(&mut bytes[..part])?;
            if self.exchange.is_stopped() {
                return Err(Break::ServerStopped);
            }
            left -= part;
            // Of what nobody needs so much of, nothing is kept.
            if length <= TEST.results_read {
                text.extend_from_slice(&bytes[..part]);
            }
        }
        Ok(iperf3::read(&text).unwrap_or_default())
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Break> {
        self.step()?;
        Ok(self.exchange.write(bytes)?)
    }

    fn length(&mut self, longest: usize, what: &str) -> Result<usize, Break> {
        let mut bytes = [0; LENGTH];
        self.exchange.read(&mut bytes)?;
        iperf3::length(bytes, longest).ok_or_else(|| {
            let announced = u32::from_be_bytes(bytes);
            Break::Protocol(format!("{what} of {announced} bytes; at most {longest} are read"))
        })
    }

    pub fn hear(&mut self) -> Result<State, Break> {
        self.step()?;
        let mut byte = [0];
        self.exchange.read(&mut byte)?;
        word(byte[0])
    }

    pub fn heard(&self) -> Result<Option<State>, Break> {
        let mut byte = [0];
        match self.stream.read_now(&mut byte) {
            Ok(0) => Err(Break::Gone),
            Ok(_) => word(byte[0]).map(Some),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(Errno::ECONNRESET | Errno::ETIMEDOUT | Errno::EPIPE) => Err(Break::Gone),
            Err(errno) => Err(SysError::new("read from a TCP connection", errno).into()),
        }
    }

    /// Waits until the client has closed the connection, for half a second at most: also when the server ends.
    pub fn await_end(&self) {
        let end_ns = monotonic_ns().saturating_add(TEST.last_word_ns);
        let Ok(nobody) = Bell::new() else { return };
        let Ok(mut exchange) = Exchange::new(self.stream, Some(end_ns), &nobody) else { return };
        let mut byte = [0];
        // Whatever it still says: it ends with an error when the connection does, or the time, of which nothing tells while there is more.
        while monotonic_ns() < end_ns && exchange.read(&mut byte).is_ok() {}
    }

    /// Tells the client, in its words, why it is over; whether it hears it is its affair.
    pub fn part(&self, why: &Break) {
        let error = |code: u32, errno: u32| {
            let state = [State::ServerError.byte()];
            [&state[..], &code.to_be_bytes(), &errno.to_be_bytes()].concat()
        };
        let bytes = match why {
            Break::Unfit(unfit) => error(unfit.code, 0),
            Break::Busy(_) => vec![State::AccessDenied.byte()],
            Break::TimeUp | Break::Idle | Break::ServerStopped | Break::Late => {
                vec![State::ServerTerminate.byte()]
            }
            Break::System(e) => error(Unfit::SYSTEM, u32::try_from(e.errno as i32).unwrap_or(0)),
            Break::Protocol(_) => error(Unfit::MESSAGE, 0),
            Break::ClientStopped | Break::Gone => return,
        };
        // Nine bytes always find room in a socket that was hardly used.
        let _ = self.stream.write_now(&bytes);
        self.stream.finish();
    }
}

fn word(byte: u8) -> Result<State, Break> {
    match State::read(byte) {
        Some(State::ClientTerminate) => Err(Break::ClientStopped),
        Some(state) => Ok(state),
        None => Err(Break::Protocol(format!("no state is {byte}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    const LONG_NS: u64 = 120_000_000_000;

    #[test]
    fn a_client_that_goes_on_after_the_longest_time_and_the_grace_is_late_at_once() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (served, _) = listener.accept().unwrap();
        served.set_nonblocking(true).unwrap();
        let stream = TcpSocket::accepted(served.into());
        let stop = Bell::new().unwrap();
        let limits = Limits { time_ns: 1_000_000_000, handshake_ns: LONG_NS, ..Limits::default() };
        let mut talk = ControlConnection::new(&stream, &limits, &stop).unwrap();
        talk.say(State::TestStart).unwrap();
        // The same test, as it stands 11 s later.
        talk.starts_ns -= 11_000_000_000;
        talk.drains();
        let begun = Instant::now();
        assert!(matches!(talk.hear(), Err(Break::Late)), "it is over");
        assert!(begun.elapsed() < Duration::from_nanos(LONG_NS / 2), "{:?}", begun.elapsed());
        drop(client);
    }
}
