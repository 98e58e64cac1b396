//! What both ends tell each other of the path (see [`quell_wire::ends`]).
//!
//! ```text
//!   connection 1   view ─ a UDP flow ─ sizes there ─ sizes back ─ echoes ─ 64 kB there ─ 64 kB back ─ view again
//! ```
//!
//! A way that swallows large packets ends the first connection; what is left goes over a new one.

use crate::peer::{BothEnds, PacketSizes};
use nix::errno::Errno;
use quell_host::end;
use quell_netlink::sock_diag::TcpInfo;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::secret::nonce;
use quell_sys::socket::echo::EchoSocket;
use quell_sys::socket::exchange::{Exchange, ExchangeError};
use quell_sys::socket::preface::prove;
use quell_sys::socket::stream::{Connected, StreamOptions, TcpSocket};
use quell_sys::socket::{Inbox, Udp, errors, hops, option};
use quell_sys::wait::{self, Alarm, Bell, readable, wait};
use quell_wire::auth::Secret;
use quell_wire::ends::{self, Answer, Ask, EndView, HELLO, LENGTH};
use quell_wire::icmp::{FULL, HEADER, reply, request};
use quell_wire::iperf3::{Greeting, Hello, HelloToken, TOKEN};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

/// How long a word of the other end may take.
const PATIENCE_NS: u64 = 4_000_000_000;
/// How long either end listens for datagrams of several sizes.
const LISTEN_MS: u32 = 1_000;
/// How often each size is sent.
const TIMES: usize = 3;
const ECHOES: u64 = 3;
/// How long the answers to echoes are waited for.
const ECHO_PATIENCE_NS: u64 = 1_000_000_000;
/// Bytes that are read of an answer: all that tells whose it is, behind a header of IP with all options.
const ECHO_BYTES: usize = 128;
/// How often it is looked for datagrams that wait, eight each time.
const MOST_LOOKS: usize = 256;
/// Between two hellos of a UDP flow.
const AGAIN_NS: u64 = 300_000_000;
/// What is sent over TCP each way.
const BULK: u32 = 64 << 10;
/// Of the other end's reason for a refusal so much is shown.
const LONGEST_REASON: usize = 200;
/// Sizes of IP packets that paths are known for, beside both ends' MTU: IPv6's least, tunnels, PPPoE, Ethernet, jumbo frames.
const SIZES: [u32; 14] =
    [576, 1000, 1280, 1360, 1400, 1420, 1440, 1460, 1480, 1492, 1500, 4000, 8972, 9000];

/// Asks. Errors with the reason why nothing could be asked.
pub(crate) fn ask(to: SocketAddr, secret: Option<&Secret>) -> Result<BothEnds, String> {
    let stop = Bell::new().map_err(|e| e.to_string())?;
    let mut talk = PeerConnection::open(to, secret, &stop)?;
    let there = talk.view()?;
    let here = talk.own_view();
    let mut ends = BothEnds { here, there, ..BothEnds::default() };
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
        talk = PeerConnection::open(to, secret, &stop)?;
    }
    let gave = talk.give();
    ends.to_here.bulk = gave;
    if took && gave == Some(true) {
        // What either end has learned of the path by now binds its segments.
        ends.to_there.segment = segment(&talk.own_view(), headers);
        if let Ok(there) = talk.view() {
            ends.to_here.segment = segment(&there, headers);
        }
    }
    Ok(ends)
}

/// Bytes of the largest IP packet that an end sends over its connection.
fn segment(end: &EndView, headers: u32) -> u32 {
    // TCPI_OPT_TIMESTAMPS.
    let options = if end.options & 1 != 0 { 12 } else { 0 };
    if end.snd_mss == 0 { 0 } else { end.snd_mss + headers + options }
}

/// Which sizes of datagrams get through, both ways.
fn sizes(
    talk: &mut PeerConnection<'_>,
    to: SocketAddr,
    ends: &mut BothEnds,
) -> Result<(), PeerError> {
    let Some((socket, from)) = talk.udp_flow(to)? else { return Ok(()) };
    ends.udp = Some((socket.local()?, from));
    let (ours, theirs) = (ends.here.device_mtu, ends.there.device_mtu);
    let (Some(ours), Some(theirs)) = (ours.or(theirs), theirs.or(ours)) else { return Ok(()) };
    let headers = ends.headers() - 12;
    let up_to = |mtu: u32| {
        let most = mtu.min(ends::MOST.datagram + headers);
        SIZES.into_iter().filter(move |size| *size < most).chain([most])
    };
    let payloads = |mtu: u32| -> Vec<u32> {
        up_to(mtu).flat_map(|size| [size.saturating_sub(headers); TIMES]).collect()
    };
    let asked = |payloads: &[u32]| -> Vec<u32> {
        payloads.iter().map(|payload| payload + headers).collect()
    };
    let (to_there, to_here) = (payloads(ours), payloads(theirs));
    let packets = |payloads: Vec<u32>| -> Vec<u32> {
        payloads.into_iter().map(|payload| payload.saturating_add(headers)).collect()
    };
    let ipv6 = to.is_ipv6();
    option::observe(socket.as_fd(), ipv6)?;
    hops::trace(socket.as_fd(), ipv6)?;
    talk.say(&Ask::Hear { wait_ms: LISTEN_MS })?;
    talk.expect_ready()?;
    let bytes = vec![0; ends::MOST.datagram as usize];
    for payload in &to_there {
        let bytes = &bytes[..*payload as usize];
        // What came back from the path is told once, and takes the place of a packet.
        let _ = socket.send(bytes).or_else(|_| socket.send(bytes));
    }
    if let Answer::Heard { sizes } = talk.hear()? {
        let told = errors::path_errors(socket.as_fd());
        let told = told.iter().filter(|error| error.errno == Errno::EMSGSIZE);
        let too_big = told.map(|error| error.report.mtu).collect();
        ends.to_there =
            PacketSizes { too_big, ..PacketSizes::of(&asked(&to_there), &packets(sizes)) };
    }
    let wanted = asked(&to_here);
    talk.say(&Ask::Say { sizes: to_here, wait_ms: LISTEN_MS })?;
    if let Answer::Said { too_big, sent } = talk.hear()? {
        // Of what it was asked for, what it handed to its kernel each time.
        let said = packets(sent);
        let times = |all: &[u32], size| all.iter().filter(|one| **one == size).count();
        let sent = wanted.into_iter().filter(|size| times(&said, *size) >= TIMES);
        let sent: Vec<u32> = sent.collect();
        let came = packets(waiting(&socket));
        ends.to_here = PacketSizes { too_big, ..PacketSizes::of(&sent, &came) };
    }
    // Who may not send echoes, or gets none back, knows nothing of that.
    let sizes: Vec<u32> = up_to(ours.min(theirs)).collect();
    ends.echo = echoes(to.ip(), &sizes).ok().filter(|way| !way.came.is_empty());
    Ok(())
}

/// The sizes of the datagrams that wait in a socket.
fn waiting(socket: &Udp) -> Vec<u32> {
    drop(errors::path_errors(socket.as_fd()));
    let mut inbox = Inbox::new(8, ends::MOST.datagram as usize);
    let mut sizes = Vec::new();
    // More than any answer has is not looked at: there may be no end of it.
    for _ in 0..MOST_LOOKS {
        match inbox.receive(socket.as_fd()) {
            Ok(1..) => {}
            Ok(0) | Err(Errno::EAGAIN) => break,
            // An error takes the place of a datagram once.
            Err(_) => continue,
        }
        let size = |arrival: usize| u32::try_from(arrival).unwrap_or(u32::MAX);
        sizes.extend(inbox.iter().map(|(arrival, _)| size(arrival.size)));
    }
    sizes
}

/// Which of these sizes of ICMP echo, unfragmented, get there and back: the host at the other end answers, and not `quell serve`. Errors where this user may not send any.
fn echoes(to: IpAddr, sent: &[u32]) -> Result<PacketSizes, SysError> {
    let to = to.to_canonical();
    let random = nonce()?;
    let identifier = u16::from_be_bytes([random[0], random[1]]);
    let stream = u64::from_be_bytes(std::array::from_fn(|at| random[8 + at]));
    let socket = EchoSocket::open(to, 0, identifier)?;
    let ipv6 = socket.is_ipv6();
    hops::trace(socket.as_fd(), ipv6)?;
    let headers = if ipv6 { 40 } else { 20 } + HEADER as u32;
    for (number, size) in (0..).zip(sent) {
        let payload = size.saturating_sub(headers) as usize;
        for again in 0..ECHOES {
            let seq = number * ECHOES + again;
            let message = request(ipv6, socket.identifier(), stream, seq, payload);
            // What came back from the path is told once, and takes the place of a packet.
            let _ = socket.send(&message).or_else(|_| socket.send(&message));
        }
    }
    let mut came = vec![false; sent.len()];
    let mut too_big = Vec::new();
    let mut alarm = Alarm::new()?;
    alarm.set(Some(monotonic_ns() + ECHO_PATIENCE_NS))?;
    let mut inbox = Inbox::new(8, ECHO_BYTES);
    loop {
        let told = errors::path_errors(socket.as_fd());
        let told = told.iter().filter(|error| error.errno == Errno::EMSGSIZE);
        too_big.extend(told.map(|error| error.report.mtu));
        // An error takes the place of an answer once.
        while inbox.receive(socket.as_fd()).is_ok_and(|count| count > 0) {
            let ours = inbox.iter().filter_map(|(_, bytes)| {
                let answer = reply(ipv6, socket.message(bytes)?)?;
                let seq = answer.whole_number()?;
                let start = request(ipv6, socket.identifier(), stream, seq, FULL);
                answer.answers(&start).then_some(seq / ECHOES)
            });
            for number in ours {
                if let Some(came) = usize::try_from(number).ok().and_then(|at| came.get_mut(at)) {
                    *came = true;
                }
            }
        }
        let mut fds = [readable(&alarm), readable(&socket)];
        if came.iter().all(|came| *came) {
            break;
        }
        wait(&mut fds)?;
        if wait::came(&fds[0]) {
            break;
        }
    }
    let came = sent.iter().zip(&came).filter(|(_, came)| **came).map(|(size, _)| *size);
    let came: Vec<u32> = came.collect();
    Ok(PacketSizes { too_big, ..PacketSizes::of(sent, &came) })
}

/// Why the other end can't be asked any more.
#[derive(Debug, thiserror::Error)]
enum PeerError {
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
struct PeerConnection<'a> {
    stream: TcpSocket,
    stop: &'a Bell,
}

impl<'a> PeerConnection<'a> {
    fn open(to: SocketAddr, secret: Option<&Secret>, stop: &'a Bell) -> Result<Self, String> {
        let failed = |error: SysError| error.to_string();
        let stream = TcpSocket::new(to.is_ipv6(), &StreamOptions::default()).map_err(failed)?;
        match stream.connect(to, monotonic_ns() + PATIENCE_NS, stop).map_err(failed)? {
            Connected::Yes => {}
            _ => return Err(format!("TCP {to} does not answer")),
        }
        let talk = Self { stream, stop };
        let mut exchange = talk.exchange().map_err(failed)?;
        if let Some(secret) = secret {
            prove(&mut exchange, secret).map_err(|e| e.to_string())?;
        }
        exchange.write(HELLO).map_err(|e| e.to_string())?;
        drop(exchange);
        Ok(talk)
    }

    fn exchange(&self) -> Result<Exchange<'_>, SysError> {
        Exchange::new(&self.stream, Some(monotonic_ns() + PATIENCE_NS), self.stop)
    }

    fn info(&self) -> Option<TcpInfo> {
        let mut bytes = [0; 512];
        let length = self.stream.info(&mut bytes).ok()?;
        TcpInfo::from_bytes(bytes.get(..length)?).ok()
    }

    /// How this end sees the connection.
    fn own_view(&self) -> EndView {
        let (local, remote) = (self.stream.local(), self.stream.peer());
        end::view(self.info().as_ref(), local, remote)
    }

    fn say(&mut self, ask: &Ask) -> Result<(), PeerError> {
        Ok(self.exchange()?.write(&ends::framed(ask))?)
    }

    fn hear(&mut self) -> Result<Answer, PeerError> {
        let mut exchange = self.exchange()?;
        let mut head = [0; LENGTH];
        exchange.read(&mut head)?;
        let mut text = vec![0; ends::length(head).ok_or(PeerError::Strange)?];
        exchange.read(&mut text)?;
        match ends::read(&text).ok_or(PeerError::Strange)? {
            Answer::Refused { why } => {
                Err(PeerError::Refused(quell_wire::text::printable(&why, LONGEST_REASON)))
            }
            answer => Ok(answer),
        }
    }

    fn expect_ready(&mut self) -> Result<(), PeerError> {
        match self.hear()? {
            Answer::Ready => Ok(()),
            _ => Err(PeerError::Strange),
        }
    }

    /// How the other end sees this connection: the first question.
    fn view(&mut self) -> Result<EndView, String> {
        let closed = "the server there ended the connection: it wants a secret (--secret-file), or is no `quell serve`";
        let answer = self.say(&Ask::View).and_then(|()| self.hear());
        match answer {
            Ok(Answer::View(view)) => Ok(view),
            Err(PeerError::Exchange(ExchangeError::Closed)) => Err(closed.to_owned()),
            Ok(_) => Err(PeerError::Strange.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Whether 64 kB get there. Where the other end does not say so, its kernel's acknowledgement does; none where it ended the connection.
    fn take(&mut self) -> Option<bool> {
        let all = self.say(&Ask::Take { bytes: BULK }).and_then(|()| {
            self.exchange()?.write(&vec![0; BULK as usize])?;
            self.expect_ready()
        });
        // What its kernel acknowledged got there, whatever it says.
        let is_there = || {
            let left = |info: TcpInfo| info.unacked > 0 || info.notsent_bytes.unwrap_or(0) > 0;
            !self.info().is_none_or(left)
        };
        match all {
            Ok(()) => Some(true),
            Err(PeerError::Exchange(ExchangeError::Late)) => Some(is_there()),
            Err(_) => None,
        }
    }

    /// Whether 64 kB get here; none where the other end ended the connection instead of sending them, or did not say that it would.
    fn give(&mut self) -> Option<bool> {
        let mut promised = false;
        let all = self.say(&Ask::Give { bytes: BULK }).and_then(|()| {
            self.expect_ready()?;
            promised = true;
            Ok(self.exchange()?.read(&mut vec![0; BULK as usize])?)
        });
        match all {
            Ok(()) => Some(true),
            Err(PeerError::Exchange(ExchangeError::Late)) if promised => Some(false),
            Err(_) => None,
        }
    }

    /// Opens a UDP flow, with the address from which the other end says that it came; none where it did not come.
    fn udp_flow(&mut self, to: SocketAddr) -> Result<Option<(Udp, SocketAddr)>, PeerError> {
        let random = nonce()?;
        let token = HelloToken::new(std::array::from_fn::<u8, TOKEN, _>(|at| random[at]));
        let hello = Greeting { hello: Hello::Client, token: Some(token) }.bytes();
        let socket = Udp::connected(to, 0)?;
        self.say(&Ask::Flows { token, count: 1 })?;
        let mut alarm = Alarm::new()?;
        let begun = monotonic_ns();
        let mut is_greeted = false;
        for time in 1.. {
            if !is_greeted {
                let _ = socket.send(&hello).or_else(|_| socket.send(&hello));
            }
            alarm.set(Some(begun + time * AGAIN_NS))?;
            let mut fds = [readable(&self.stream), readable(&alarm)];
            wait(&mut fds)?;
            is_greeted |= waiting(&socket).contains(&(hello.len() as u32));
            if wait::came(&fds[0]) || monotonic_ns() > begun + PATIENCE_NS {
                break;
            }
        }
        match self.hear()? {
            Answer::Flows { from } => Ok(from.first().map(|from| (socket, *from))),
            _ => Err(PeerError::Strange),
        }
    }
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
            let why = PeerConnection::open(to, None, &stop).unwrap().view().unwrap_err();
            assert!(why.contains("would not say: no no") && why.len() < 300, "{why}");
        });
    }

    /// A server that sends no datagram, says of them what this gives for the sizes that it was asked for, and heard of one that was never sent.
    fn against(said: impl Fn(Vec<u32>) -> Vec<u32> + Sync) -> BothEnds {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let answer = |stream: &mut std::net::TcpStream, peer, ask| {
            let mut say = |answer: Answer| stream.write_all(&ends::framed(&answer));
            match ask {
                Ask::View => {
                    say(Answer::View(EndView { device_mtu: Some(1500), ..EndView::default() }))
                }
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
                Ask::Give { bytes } => {
                    say(Answer::Ready).and_then(|()| stream.write_all(&vec![0; bytes as usize]))
                }
            }
            .unwrap();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, peer) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 8]).unwrap();
                let mut head = [0; LENGTH];
                while stream.read_exact(&mut head).is_ok() {
                    let mut text = vec![0; ends::length(head).unwrap()];
                    stream.read_exact(&mut text).unwrap();
                    answer(&mut stream, peer, ends::read::<Ask>(&text).unwrap());
                }
            });
            ask(to, None).unwrap()
        })
    }

    #[test]
    fn only_what_the_other_end_says_that_it_sent_can_be_lost() {
        let all = against(|sizes| sizes);
        assert_eq!((all.to_here.sent.last(), &all.to_here.came), (Some(&1500), &vec![]));
        assert_eq!((all.to_there.came, all.to_there.sent.len()), (vec![576], 15));
        assert_eq!(against(|_| Vec::new()).to_here.sent, [0; 0]);
    }

    #[test]
    fn over_loopback_every_size_of_echo_comes_back() {
        let sent = [576, 1500, 9000];
        // Where this user may open neither kind of socket, that is said.
        match echoes("127.0.0.1".parse().expect("an address"), &sent) {
            Ok(sizes) => assert_eq!((sizes.came.as_slice(), sizes.too_big.len()), (&sent[..], 0)),
            Err(error) => assert!(error.to_string().contains("ping_group_range"), "{error}"),
        }
    }
}
