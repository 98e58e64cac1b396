//! What both ends tell each other of the path (see [`quell_wire::ends`]), as `--peer` asks for it.
//!
//! ```text
//!   connection 1   view ─ a UDP flow ─ sizes there ─ sizes back ─ 64 kB there ─ 64 kB back ─ view again
//!   connection 2   flows, idle for longer and longer (--idle)
//!   3 to 8         idle themselves
//! ```
//!
//! A way that swallows large packets ends the first connection; what is left goes over a new one.

use nix::errno::Errno;
use quell_doctor::peer::{Ends, Idle, Way};
use quell_host::end;
use quell_load::look::tcp_info;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::secret::nonce;
use quell_sys::socket::exchange::{Exchange, ExchangeError};
use quell_sys::socket::preface::prove;
use quell_sys::socket::stream::{Connected, StreamOptions, TcpSocket};
use quell_sys::socket::{Inbox, Udp, errors, hops, option};
use quell_sys::wait::{Alarm, Bell, readable, wait};
use quell_units::Span;
use quell_wire::auth::Secret;
use quell_wire::ends::{self, Answer, Ask, EndView, HELLO, LENGTH};
use quell_wire::iperf3::{Greeting, Hello, HelloToken, TOKEN};
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// How long a word of the other end may take.
const PATIENCE_NS: u64 = 4_000_000_000;
/// How long a word may take that has had time to come.
const WORD_NS: u64 = 500_000_000;
/// How long either end listens for datagrams of several sizes.
const LISTEN_MS: u32 = 1_000;
/// How often each size is sent.
const TIMES: usize = 3;
/// How often it is looked for datagrams that wait, eight each time.
const MOST_LOOKS: usize = 256;
/// Between two hellos of a UDP flow.
const AGAIN_NS: u64 = 300_000_000;
/// What is sent over TCP each way.
const BULK: u32 = 64 << 10;
/// How long the kernel at the other end may take to acknowledge what asks whether a connection lives: three times sent again.
const NUDGE_NS: u64 = 2_000_000_000;
/// The same in one small packet.
const SMALL: u32 = 400;
/// Flows of UDP that are left idle.
const FLOWS: u32 = 12;
/// Connections that are left idle. With the one that asks they are fewer than a server has for one client.
const CONNECTIONS: u32 = 6;
/// The last takes its way, and may stand in a queue.
const LATE_MS: u32 = 2_000;
/// The shortest of their times.
const LEAST_IDLE_MS: f64 = 2_000.0;
/// Of the other end's reason for a refusal so much is shown.
const LONGEST_REASON: usize = 200;
/// Sizes of IP packets that paths are known for, beside both ends' MTU: IPv6's least, tunnels, PPPoE, Ethernet, jumbo frames.
const SIZES: [u32; 14] =
    [576, 1000, 1280, 1360, 1400, 1420, 1440, 1460, 1480, 1492, 1500, 4000, 8972, 9000];

/// Asks. Errors with the reason why nothing could be asked.
pub(super) fn ask(
    to: SocketAddr,
    secret: Option<&Secret>,
    idle: Option<Span>,
) -> Result<Ends, String> {
    let stop = Bell::new().map_err(|e| e.to_string())?;
    let mut talk = Talk::open(to, secret, &stop)?;
    let there = talk.view()?;
    let here = talk.own_view();
    let mut ends = Ends { here, there, ..Ends::default() };
    let headers = ends.headers();
    sizes(&mut talk, to, &mut ends).map_err(|e| e.to_string())?;
    for (way, end) in
        [(&mut ends.to_there, ends.here.clone()), (&mut ends.to_here, ends.there.clone())]
    {
        way.segment = segment(&end, headers);
    }
    let took = talk.take();
    ends.to_there.bulk = took;
    let took = took == Some(true);
    if !took {
        talk = Talk::open(to, secret, &stop)?;
    }
    let mut gave = talk.give(BULK);
    if gave == Some(false) {
        // That it sent them is its word alone. Who gives nothing, be it small, lost nothing on the way.
        let small = Talk::open(to, secret, &stop).ok().and_then(|mut talk| talk.give(SMALL));
        gave = gave.filter(|_| small == Some(true));
    }
    ends.to_here.bulk = gave;
    let gave = gave == Some(true);
    if took && gave {
        // What either end has learned of the path by now binds its segments.
        ends.to_there.segment = segment(&talk.own_view(), headers);
        if let Ok(there) = talk.view() {
            ends.to_here.segment = segment(&there, headers);
        }
    }
    if let Some(idle) = idle {
        if !gave {
            talk = Talk::open(to, secret, &stop)?;
        }
        let resting = Resting::begin(to, secret, longest_ms(idle), &stop);
        ends.idle = talk.idle(to, longest_ms(idle)).map_err(|e| e.to_string())?;
        ends.idle_tcp = resting.end().map_err(|e| e.to_string())?;
    }
    Ok(ends)
}

/// What may be asked for at most.
fn longest_ms(idle: Span) -> u32 {
    (idle.nanos() / 1_000_000).min(ends::LONGEST_IDLE_MS.into()) as u32
}

/// Connections that are left idle, each with how long, until the other end says a word.
struct Resting<'a> {
    talks: Vec<(u32, Talk<'a>)>,
    /// When all words have come that come.
    until_ns: u64,
}

impl<'a> Resting<'a> {
    /// A server that is older, or has no room for so many, leaves fewer.
    fn begin(to: SocketAddr, secret: Option<&Secret>, longest_ms: u32, stop: &'a Bell) -> Self {
        let one = |ms: u32| {
            let mut talk = Talk::open(to, secret, stop).ok()?;
            talk.say(&Ask::After { ms }).ok()?;
            talk.expect_ready().ok()?;
            Some((ms, talk))
        };
        let talks = times(longest_ms, CONNECTIONS).into_iter().map_while(one).collect();
        let until_ns = monotonic_ns() + u64::from(longest_ms + LATE_MS) * 1_000_000;
        Self { talks, until_ns }
    }

    /// Waits for what is left of the time; none where nobody rested.
    fn end(self) -> Result<Option<Idle>, SysError> {
        if self.talks.is_empty() {
            return Ok(None);
        }
        let mut alarm = Alarm::new()?;
        alarm.set(Some(self.until_ns))?;
        wait(&mut [readable(&alarm)])?;
        let rested: Vec<_> =
            self.talks.iter().map(|(ms, talk)| (*ms, talk, Rested::of(&talk.stream))).collect();
        // Who is silent is asked something: its kernel acknowledges that where the connection lives, and then no word was sent that could be lost.
        let silent = || rested.iter().filter(|(.., rested)| *rested == Rested::Silent);
        let nudge = ends::framed(&Ask::View);
        let mut asked = false;
        for (_, talk, _) in silent() {
            // What became of it is seen below.
            let _ = talk.stream.write_now(&nudge);
            asked = true;
        }
        if asked {
            alarm.set(Some(monotonic_ns() + NUDGE_NS))?;
            wait(&mut [readable(&alarm)])?;
        }
        let mut idle = Idle { told: true, ..Idle::default() };
        for (ms, talk, rested) in rested {
            let acknowledged = || is_acknowledged(&talk.stream);
            match rested {
                Rested::Heard => idle.lived.push(ms),
                Rested::Reset | Rested::Otherwise => idle.unknown.push(ms),
                Rested::Silent => match Rested::of(&talk.stream) {
                    // The word was on its way, or there is no such connection any more.
                    Rested::Heard | Rested::Reset => idle.died.push(ms),
                    _ if acknowledged() => idle.unknown.push(ms),
                    _ => idle.died.push(ms),
                },
            }
        }
        Ok(Some(idle))
    }
}

/// What came over a connection that was idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rested {
    Heard,
    Silent,
    /// Somebody says that it is no connection.
    Reset,
    /// The other end ended it, or said something else.
    Otherwise,
}

impl Rested {
    fn of(stream: &TcpSocket) -> Self {
        let mut bytes = [0; 64];
        match stream.read_now(&mut bytes) {
            Ok(got) if bytes[..got].starts_with(&ends::framed(&Answer::Ready)) => Self::Heard,
            Err(Errno::EAGAIN) => Self::Silent,
            Err(_) => Self::Reset,
            Ok(_) => Self::Otherwise,
        }
    }
}

/// Whether the other end's kernel has acknowledged all that was written.
fn is_acknowledged(stream: &TcpSocket) -> bool {
    tcp_info(stream).is_some_and(|info| info.unacked == 0 && info.notsent_bytes.unwrap_or(0) == 0)
}

/// Bytes of the largest IP packet that an end sends over its connection.
fn segment(end: &EndView, headers: u32) -> u32 {
    const TIMESTAMPS: u8 = 1;
    let options = if end.options & TIMESTAMPS != 0 { 12 } else { 0 };
    if end.snd_mss == 0 { 0 } else { end.snd_mss + headers + options }
}

/// Which sizes of datagrams get through, both ways.
fn sizes(talk: &mut Talk<'_>, to: SocketAddr, ends: &mut Ends) -> Result<(), TalkError> {
    let mut flows = talk.flows(to, 1)?;
    let Some((socket, from)) = flows.pop() else { return Ok(()) };
    ends.udp = Some((socket.local()?, from));
    let least = [ends.here.device_mtu, ends.there.device_mtu].into_iter().flatten().min();
    let Some(most) = least else { return Ok(()) };
    let headers = ends.headers() - 12;
    let most = most.min(ends::LARGEST + headers);
    let mut sent: Vec<u32> = SIZES.into_iter().filter(|size| *size < most).collect();
    sent.push(most);
    let payloads: Vec<u32> =
        sent.iter().flat_map(|size| [size.saturating_sub(headers); TIMES]).collect();
    let asked: Vec<u32> = payloads.iter().map(|payload| payload + headers).collect();
    let packets = |payloads: Vec<u32>| -> Vec<u32> {
        payloads.into_iter().map(|payload| payload.saturating_add(headers)).collect()
    };
    let ipv6 = to.is_ipv6();
    option::observe(socket.as_fd(), ipv6)?;
    hops::trace(socket.as_fd(), ipv6)?;
    talk.say(&Ask::Hear { wait_ms: LISTEN_MS })?;
    talk.expect_ready()?;
    let bytes = vec![0; most as usize];
    for payload in &payloads {
        let bytes = &bytes[..*payload as usize];
        // What came back from the path is told once, and takes the place of a packet.
        let _ = socket.send(bytes).or_else(|_| socket.send(bytes));
    }
    if let Answer::Heard { sizes } = talk.hear()? {
        let told = errors::path_errors(socket.as_fd());
        let told = told.iter().filter(|error| error.errno == nix::errno::Errno::EMSGSIZE);
        let too_big = told.map(|error| error.report.mtu).collect();
        ends.to_there = Way { too_big, ..Way::to_there(&asked, &packets(sizes)) };
    }
    talk.say(&Ask::Say { sizes: payloads, wait_ms: LISTEN_MS })?;
    if let Answer::Said { too_big, sent } = talk.hear()? {
        let (said, came) = (sent.map(packets), packets(waiting(&socket).0));
        ends.to_here = Way { too_big, ..Way::to_here(&asked, said.as_deref(), came) };
    }
    // Who may not send echoes, or gets none back, knows nothing of that.
    ends.echo = super::echo::sizes(to.ip(), &sent).ok().filter(|way| !way.came.is_empty());
    Ok(())
}

/// What waits in a socket: the sizes of datagrams, and the numbers with which they begin.
fn waiting(socket: &Udp) -> (Vec<u32>, Vec<u32>) {
    drop(errors::path_errors(socket.as_fd()));
    let mut inbox = Inbox::new(8, ends::LARGEST as usize);
    let (mut sizes, mut numbers) = (Vec::new(), Vec::new());
    // More than any answer has is not looked at: there may be no end of it.
    for _ in 0..MOST_LOOKS {
        match inbox.receive(socket.as_fd()) {
            Ok(1..) => {}
            Ok(0) | Err(nix::errno::Errno::EAGAIN) => break,
            // An error takes the place of a datagram once.
            Err(_) => continue,
        }
        for (arrival, bytes) in inbox.iter() {
            sizes.push(u32::try_from(arrival.size).unwrap_or(u32::MAX));
            numbers.extend(bytes.first_chunk().map(|number| u32::from_be_bytes(*number)));
        }
    }
    (sizes, numbers)
}

/// Why the other end can't be asked any more.
#[derive(Debug, thiserror::Error)]
enum TalkError {
    #[error("the other end did not say what it sees: {0}")]
    Exchange(#[from] ExchangeError),
    #[error("{0}")]
    System(#[from] SysError),
    #[error("the other end would not say: {0}")]
    Refused(String),
    #[error("the other end said what is no answer")]
    Strange,
}

/// A connection to the other end.
struct Talk<'a> {
    stream: TcpSocket,
    stop: &'a Bell,
}

impl<'a> Talk<'a> {
    fn open(to: SocketAddr, secret: Option<&Secret>, stop: &'a Bell) -> Result<Self, String> {
        let failed = |error: SysError| error.to_string();
        let stream = TcpSocket::new(to.is_ipv6(), &StreamOptions::default()).map_err(failed)?;
        match stream.connect(to, monotonic_ns() + PATIENCE_NS, stop).map_err(failed)? {
            Connected::Yes => {}
            _ => return Err(format!("TCP {to} does not answer")),
        }
        let talk = Self { stream, stop };
        let mut exchange = talk.exchange(PATIENCE_NS).map_err(failed)?;
        if let Some(secret) = secret {
            prove(&mut exchange, secret).map_err(|e| e.to_string())?;
        }
        exchange.write(HELLO).map_err(|e| e.to_string())?;
        drop(exchange);
        Ok(talk)
    }

    fn exchange(&self, patience_ns: u64) -> Result<Exchange<'_>, SysError> {
        Exchange::new(&self.stream, Some(monotonic_ns().saturating_add(patience_ns)), self.stop)
    }

    /// How this end sees the connection.
    fn own_view(&self) -> EndView {
        let (local, remote) = (self.stream.local(), self.stream.peer());
        end::view(tcp_info(&self.stream).as_ref(), local, remote)
    }

    fn say(&mut self, ask: &Ask) -> Result<(), TalkError> {
        Ok(self.exchange(PATIENCE_NS)?.write(&ends::framed(ask))?)
    }

    fn hear(&mut self) -> Result<Answer, TalkError> {
        self.hear_within(PATIENCE_NS)
    }

    fn hear_within(&mut self, patience_ns: u64) -> Result<Answer, TalkError> {
        let mut exchange = self.exchange(patience_ns)?;
        let mut head = [0; LENGTH];
        exchange.read(&mut head)?;
        let mut text = vec![0; ends::length(head).ok_or(TalkError::Strange)?];
        exchange.read(&mut text)?;
        match ends::read(&text).ok_or(TalkError::Strange)? {
            Answer::Refused { why } => {
                Err(TalkError::Refused(quell_wire::text::printable(&why, LONGEST_REASON)))
            }
            answer => Ok(answer),
        }
    }

    fn expect_ready(&mut self) -> Result<(), TalkError> {
        match self.hear()? {
            Answer::Ready => Ok(()),
            _ => Err(TalkError::Strange),
        }
    }

    /// How the other end sees this connection: the first question, which an older server does not take.
    fn view(&mut self) -> Result<EndView, String> {
        let older = "the server there does not tell what it sees: it is older than this program, or wants a secret (--secret-file)";
        let answer = self.say(&Ask::View).and_then(|()| self.hear());
        match answer {
            Ok(Answer::View(view)) => Ok(view),
            Err(TalkError::Exchange(ExchangeError::Closed)) => Err(older.to_owned()),
            Ok(_) => Err(TalkError::Strange.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Whether 64 kB get there. Where the other end does not say so, its kernel's acknowledgement does; none where it ended the connection.
    fn take(&mut self) -> Option<bool> {
        let all = self.say(&Ask::Take { bytes: BULK }).and_then(|()| {
            self.exchange(PATIENCE_NS)?.write(&vec![0; BULK as usize])?;
            self.expect_ready()
        });
        let is_there = || is_acknowledged(&self.stream);
        match all {
            Ok(()) => Some(true),
            Err(TalkError::Exchange(ExchangeError::Late)) => Some(is_there()),
            Err(_) => None,
        }
    }

    /// Whether so many bytes get here; none where the other end ended the connection instead of sending them, or did not say that it would.
    fn give(&mut self, bytes: u32) -> Option<bool> {
        let mut promised = false;
        let all = self.say(&Ask::Give { bytes }).and_then(|()| {
            self.expect_ready()?;
            promised = true;
            Ok(self.exchange(PATIENCE_NS)?.read(&mut vec![0; bytes as usize])?)
        });
        match all {
            Ok(()) => Some(true),
            Err(TalkError::Exchange(ExchangeError::Late)) if promised => Some(false),
            Err(_) => None,
        }
    }

    /// Opens UDP flows; each with the address from which the other end says that one came. With one flow that is its own.
    fn flows(&mut self, to: SocketAddr, count: u32) -> Result<Vec<(Udp, SocketAddr)>, TalkError> {
        let random = nonce()?;
        let token: [u8; TOKEN] = std::array::from_fn(|at| random[at]);
        let token = HelloToken::new(token);
        let hello = Greeting { hello: Hello::Client, token: Some(token) }.bytes();
        let sockets = (0..count).map(|_| Udp::connected(to, 0)).collect::<Result<Vec<_>, _>>()?;
        self.say(&Ask::Flows { token, count })?;
        let mut alarm = Alarm::new()?;
        let begun = monotonic_ns();
        let mut greeted = vec![false; sockets.len()];
        for time in 1.. {
            for (socket, _) in sockets.iter().zip(&greeted).filter(|(_, greeted)| !**greeted) {
                let _ = socket.send(&hello).or_else(|_| socket.send(&hello));
            }
            alarm.set(Some(begun + time * AGAIN_NS))?;
            let mut fds = [readable(&self.stream), readable(&alarm)];
            wait(&mut fds)?;
            for (socket, greeted) in sockets.iter().zip(&mut greeted) {
                *greeted |= waiting(socket).0.contains(&(hello.len() as u32));
            }
            if quell_sys::wait::came(&fds[0]) || monotonic_ns() > begun + PATIENCE_NS {
                break;
            }
        }
        match self.hear()? {
            Answer::Flows { from } => Ok(sockets.into_iter().zip(from).collect()),
            _ => Err(TalkError::Strange),
        }
    }

    /// Leaves flows idle, the longest for as long as is asked for.
    fn idle(&mut self, to: SocketAddr, longest_ms: u32) -> Result<Option<Idle>, TalkError> {
        let flows = self.flows(to, FLOWS)?;
        if flows.len() < FLOWS as usize {
            return Ok(None);
        }
        let after_ms = times(longest_ms, FLOWS);
        self.say(&Ask::Later { after_ms: after_ms.clone() })?;
        self.expect_ready()?;
        let mut alarm = Alarm::new()?;
        alarm.set(Some(monotonic_ns() + u64::from(longest_ms + LATE_MS) * 1_000_000))?;
        wait(&mut [readable(&alarm)])?;
        let came: Vec<u32> = flows.iter().flat_map(|(socket, _)| waiting(socket).1).collect();
        // Of an older server, and where this connection was forgotten as well, no word comes.
        let said = match self.hear_within(WORD_NS) {
            Ok(Answer::Said { sent, .. }) => sent,
            _ => None,
        };
        Ok(Some(Idle::of(&after_ms, said.as_deref(), &came)))
    }
}

/// Times from two seconds (or the longest) to the longest, each longer than the one before by the same factor.
fn times(longest_ms: u32, count: u32) -> Vec<u32> {
    let least = LEAST_IDLE_MS.min(f64::from(longest_ms));
    let factor = f64::from(longest_ms) / least.max(1.0);
    let part = |at: u32| f64::from(at) / f64::from(count - 1);
    (0..count).map(|at| (least * factor.powf(part(at))).round() as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_other_end_gives_as_its_reason_is_cut() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let stop = Bell::new().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                use std::io::{Read, Write};
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 8]).unwrap();
                let why = "no ".repeat(1000);
                stream.write_all(&ends::framed(&Answer::Refused { why })).unwrap();
                let _ = stream.read(&mut [0; 100]);
            });
            let why = Talk::open(to, None, &stop).unwrap().view().unwrap_err();
            assert!(why.contains("would not say: no no") && why.len() < 300, "{why}");
        });
    }

    /// What is made of a server that sends no datagram, and says of them what this gives for the sizes it was asked for.
    fn against(said: impl Fn(Vec<u32>) -> Option<Vec<u32>> + Sync) -> Ends {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, peer) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 8]).unwrap();
                let mut head = [0; LENGTH];
                while stream.read_exact(&mut head).is_ok() {
                    let mut text = vec![0; ends::length(head).unwrap()];
                    stream.read_exact(&mut text).unwrap();
                    let mut say = |answer: Answer| stream.write_all(&ends::framed(&answer));
                    match ends::read::<Ask>(&text).unwrap() {
                        Ask::View => say(Answer::View(EndView {
                            device_mtu: Some(1500),
                            ..EndView::default()
                        })),
                        Ask::Flows { .. } => say(Answer::Flows { from: vec![peer] }),
                        Ask::Hear { .. } => {
                            let heard = Answer::Heard { sizes: vec![548, 31_000] };
                            say(Answer::Ready).and_then(|()| say(heard))
                        }
                        Ask::Say { sizes, .. } => {
                            say(Answer::Said { too_big: Vec::new(), sent: said(sizes) })
                        }
                        Ask::Take { bytes } => {
                            stream.read_exact(&mut vec![0; bytes as usize]).unwrap();
                            stream.write_all(&ends::framed(&Answer::Ready))
                        }
                        Ask::Give { bytes } => say(Answer::Ready)
                            .and_then(|()| stream.write_all(&vec![0; bytes as usize])),
                        ask => panic!("{ask:?}"),
                    }
                    .unwrap();
                }
            });
            ask(to, None, None).unwrap()
        })
    }

    #[test]
    fn only_what_the_other_end_says_that_it_sent_can_be_lost() {
        let sizes = |ends: &Ends| (ends.to_here.sent.clone(), ends.to_here.came.clone());
        let all = against(Some);
        assert_eq!((all.to_here.sent.last(), &all.to_here.doubt), (Some(&1500), &None));
        let none = against(|_| Some(Vec::new()));
        assert_eq!((sizes(&none), none.to_here.doubt), ((vec![], vec![]), None));
        // An older one, and one that says more than it was asked for.
        let doubt = |ends: &Ends| ends.to_here.doubt.clone().unwrap_or_default();
        assert!(doubt(&against(|_| None)).contains("older"));
        assert!(doubt(&against(|asked| Some([asked, vec![100]].concat()))).contains("can't be"));
        // What it heard was never sent.
        assert!(all.to_there.doubt.is_some_and(|why| why.contains("never sent")));
    }

    /// A server that answers all that is asked at once, and of `Give` and `After` no more than the promise; the last thing that it does with connections
    /// of `After` is to end them, where it is one that breaks off.
    fn promises(breaks_off: bool) -> (SocketAddr, impl Fn() + Send) {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let serve = move || {
            std::thread::scope(|scope| {
                for stream in listener.incoming().take(2) {
                    scope.spawn(move || {
                        let mut stream = stream.unwrap();
                        stream.read_exact(&mut [0; 8]).unwrap();
                        let mut head = [0; LENGTH];
                        while stream.read_exact(&mut head).is_ok() {
                            let mut text = vec![0; ends::length(head).unwrap()];
                            stream.read_exact(&mut text).unwrap();
                            // What asks whether the connection lives is acknowledged by the kernel, and by nobody else.
                            if ends::read::<Ask>(&text).unwrap() != Ask::View {
                                stream.write_all(&ends::framed(&Answer::Ready)).unwrap();
                            }
                            if breaks_off {
                                return;
                            }
                        }
                    });
                }
            });
        };
        (to, serve)
    }

    #[test]
    fn what_the_other_end_only_promises_is_not_lost_on_the_way() {
        let stop = Bell::new().unwrap();
        // It says `Ready` and no more, or ends the connection behind that.
        for over in [false, true] {
            let (to, serve) = promises(over);
            std::thread::scope(|scope| {
                scope.spawn(serve);
                let mut gives = Talk::open(to, None, &stop).unwrap();
                if over {
                    assert_eq!(gives.give(BULK), None, "it ended it");
                } else {
                    // It would be a path without large packets, if it gave small ones.
                    assert_eq!(gives.give(SMALL), Some(false));
                }
                drop(gives);
                let mut talk = Talk::open(to, None, &stop).unwrap();
                talk.say(&Ask::After { ms: 1 }).unwrap();
                talk.expect_ready().unwrap();
                if over {
                    // Its end has come before anybody looks.
                    wait(&mut [readable(&talk.stream)]).unwrap();
                }
                let rests = Resting { talks: vec![(1, talk)], until_ns: monotonic_ns() };
                let idle = rests.end().unwrap().unwrap();
                assert_eq!((idle.lived, idle.died, idle.unknown), (vec![], vec![], vec![1]));
            });
        }
    }

    #[test]
    fn idle_times_grow_to_the_longest() {
        let times = times(120_000, 12);
        assert_eq!((times[0], times[11], times.len()), (2_000, 120_000, 12));
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
        assert_eq!(super::times(1_000, 6), [1_000; 6]);
    }
}
