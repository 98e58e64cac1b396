//! How a stream of a test comes to stand at this end, and how its lane then moves data as the plan says.

use crate::control::{ControlConnection, reach};
use crate::{FlowError, FlowPlan, Transport};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockaddrStorage, getsockname, recv};
use quell_load::bulk::{Copying, Gate, Limit, Open, Payload, UdpHeader, UdpReceiving};
use quell_load::connection_sample;
use quell_load::lane::{How, Lane, LaneCounts};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::bulk::prepare_receiving;
use quell_sys::socket::exchange::Exchange;
use quell_sys::socket::option::{get, largest_datagram, set};
use quell_sys::socket::preface::prove;
use quell_sys::socket::stream::{StreamOptions, TcpSocket};
use quell_sys::socket::{Udp, Way};
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_wire::auth::{OPENING, PROOF};
use quell_wire::iperf3::{Greeting, Hello, HelloToken, long_hello, stream_id};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// How long a UDP server's answer to greetings is waited for, and four round trips of the path: as a Quell waits for streams.
const PATIENCE_NS: u64 = 5_000_000_000;
/// And then for the server's word over TCP: it waits as long as we do, began half a round trip before us, and says then why it can't have the stream.
const WORD_NS: u64 = 3_000_000_000;
/// After how long it is greeted again at first; each time later by half.
const GREETING_NS: u64 = 500_000_000;

#[derive(Debug)]
pub(crate) struct OpenLane {
    pub id: u32,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// False where no datagram came back for as long as one was waited for, and the server spoke then.
    pub is_heard: bool,
    lane: Lane,
    /// What the kernel counted as acknowledged before the first byte of data.
    acked_before: u64,
    /// What the server's answers to hellos carry.
    token: Option<HelloToken>,
}

pub(crate) struct Move<'a> {
    pub block: u64,
    pub limit: Limit,
    /// Sees what a TCP receiver took.
    pub arrived: &'a dyn Gate,
    /// Rings when senders have to stop.
    pub halt: &'a Bell,
    pub over: &'a Bell,
}

impl OpenLane {
    /// Opens the stream with this place: connected and known to the server.
    pub fn open(
        place: usize,
        plan: &FlowPlan,
        talk: &ControlConnection,
        stop: &Bell,
    ) -> Result<Self, FlowError> {
        let (lane, acked_before, is_heard) = match plan.transport {
            Transport::Tcp => {
                let (lane, acked_before) = tcp(place, plan, talk, stop)?;
                (lane, acked_before, true)
            }
            Transport::Udp => {
                let (lane, is_heard) = udp(place, plan, talk, stop)?;
                (lane, 0, is_heard)
            }
        };
        let unknown = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let local = local(lane.as_fd()).unwrap_or(unknown);
        Ok(Self {
            id: stream_id(place),
            local,
            remote: plan.to,
            is_heard,
            lane,
            acked_before,
            token: talk.token,
        })
    }

    /// The descriptor's number, by which iperf3 names a stream.
    pub fn number(&self) -> i32 {
        self.as_fd().as_raw_fd()
    }

    /// Payload of the largest datagram that one packet carries to the other end, as far as the kernel has learned (ip(7), `IP_MTU`).
    pub fn largest_datagram(&self) -> Option<u64> {
        largest_datagram(self.as_fd(), self.remote.is_ipv6())
    }

    /// Moves data until its limit, or until a bell of `how` rings. Blocks.
    pub fn carry(&self, plan: &FlowPlan, how: &Move<'_>) {
        self.work(&How {
            block: how.block as usize,
            rate: plan.rate,
            pacing: plan.pacing,
            limit: how.limit,
            copying: if plan.zero_copy { Copying::None } else { Copying::Once },
            burst: plan.burst,
            payload: if plan.repeating { Payload::Digits } else { Payload::Random },
            header: header(plan),
            hello: self.token.and_then(|token| long_hello(Hello::Server, token)),
            buffer: plan.window.map_or(UdpReceiving::default().buffer, |w| w as usize),
            trains: !plan.log,
            log: plan.log,
            gate: if self.sends { &Open } else { how.arrived },
            stop: if self.sends { how.halt } else { how.over },
        });
    }

    /// What was counted up to now, of a TCP sender what the other end acknowledged; `t_ns` is now.
    pub fn counted(&self, t_ns: i64) -> LaneCounts {
        let mut mark = self.mark(t_ns);
        if self.sends && mark.moment.acked > 0 {
            // What waits in this host's buffer has gone nowhere yet.
            let acked = mark.moment.acked.saturating_sub(self.acked_before);
            mark.moment.bytes = mark.moment.bytes.min(acked);
        }
        mark
    }
}

impl Deref for OpenLane {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.lane
    }
}

/// A connection that the server knows, and what the kernel counted as acknowledged by then.
fn tcp(
    place: usize,
    plan: &FlowPlan,
    talk: &ControlConnection,
    stop: &Bell,
) -> Result<(Lane, u64), FlowError> {
    let options = StreamOptions {
        tos: plan.tos,
        congestion: plan.congestion_of(place).cloned(),
        pacing: plan.pacing.map(|bits| (bits / 8).max(1)),
        window: plan.window.map(|w| u32::try_from(w).unwrap_or(u32::MAX)),
        mss: plan.mss,
    };
    let stream = TcpSocket::new(plan.to.is_ipv6(), &options)?;
    way(place, plan)?.apply(stream.as_fd(), plan.to.is_ipv6())?;
    if let Some(within) = plan.acknowledge_within {
        let ms = libc::c_int::try_from(within.nanos() / 1_000_000).unwrap_or(libc::c_int::MAX);
        set(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, ms.max(1), "--snd-timeout")?;
    }
    if let Some(window) = plan.window {
        send_buffer(stream.as_fd(), window)?;
    }
    if plan.nodelay {
        set(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "TCP_NODELAY")?;
    }
    let stream = reach(plan, stream, plan.to, stop)?;
    // The handshake counts as a byte on some kernels; then the cookie.
    let handshake =
        connection_sample::tcp_info(&stream).and_then(|info| info.bytes_acked).unwrap_or(0);
    let mut acked_before = handshake + talk.cookie.bytes().len() as u64;
    let deadline = monotonic_ns() + crate::control::ANSWER_S * 1_000_000_000;
    let mut exchange = Exchange::new(&stream, Some(deadline), stop)?;
    if let Some(secret) = &plan.secret {
        // Who saw the cookie on its way shall not be taken for us.
        prove(&mut exchange, secret)?;
        acked_before += (OPENING + PROOF) as u64;
    }
    exchange.write(talk.cookie.bytes()).map_err(|e| {
        FlowError::from_exchange(e, plan.to, "when a stream was opened", crate::control::ANSWER_S)
    })?;
    Ok((Lane::tcp(stream, plan.sends(place)), acked_before))
}

/// A socket that the server knows, and whether nothing speaks against datagrams getting through.
fn udp(
    place: usize,
    plan: &FlowPlan,
    talk: &ControlConnection,
    stop: &Bell,
) -> Result<(Lane, bool), FlowError> {
    let socket = Udp::connected_by(plan.to, plan.tos, &way(place, plan)?)?;
    let sends = plan.sends(place);
    if let Some(window) = plan.window {
        send_buffer(socket.as_fd(), window)?;
    }
    if !sends {
        prepare_receiving(socket.as_fd(), UdpReceiving::default().buffer, !plan.log);
    }
    let data = place + 1 == plan.all_streams();
    let sign = GreetingAnswer { token: talk.token, data, within_ns: PATIENCE_NS };
    let greeted = greet(&socket, plan.to, &talk.stream, sign, stop)?;
    Ok((Lane::udp(socket, sends), greeted != Greeted::ToldLate))
}

fn header(plan: &FlowPlan) -> UdpHeader {
    if plan.wide { UdpHeader::Bits64 } else { UdpHeader::Bits32 }
}

/// The way of the stream with this place: the plan's, from a port of its own where one was asked for.
fn way(place: usize, plan: &FlowPlan) -> Result<Way, FlowError> {
    let port = plan.own_port.map(|first| {
        let next = u16::try_from(place).ok().and_then(|place| first.checked_add(place));
        next.ok_or_else(|| {
            FlowError::Parameter(format!(
                "--cport {first}: the ports beyond it are too few for the streams"
            ))
        })
    });
    Ok(Way { port: port.transpose()?, ..plan.way.clone() })
}

fn send_buffer(fd: BorrowedFd<'_>, bytes: u64) -> Result<(), SysError> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    if set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes, "the send buffer").is_ok() {
        return Ok(());
    }
    set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes, "the send buffer")?;
    let got = get(fd, libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0);
    if got / 2 < bytes {
        let tried = format!("set the send buffer to {bytes} bytes; the system allows {}", got / 2);
        return Err(SysError::new(tried, Errno::EPERM)
            .advise("raise sysctl net.core.wmem_max, or run with CAP_NET_ADMIN"));
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Greeted {
    Answered,
    /// The server spoke over TCP: it knows all streams, or says what is wrong.
    Told,
    /// It did so after a time in which an answer would have come.
    ToldLate,
}

#[derive(Debug, Clone, Copy)]
struct GreetingAnswer {
    /// Its answer carries this, as our hello does: nobody else's is believed.
    token: Option<HelloToken>,
    /// So does data, the answer being lost: none flows before all streams are known, so that any that comes earlier is a stranger's.
    data: bool,
    /// How long it is waited for, and four round trips of the path.
    within_ns: u64,
}

/// Says hello until the server answers, or says over TCP (`talk`) how the test goes on: it does when it knows all streams, though its answer be lost.
fn greet(
    socket: &Udp,
    to: SocketAddr,
    talk: &TcpSocket,
    sign: GreetingAnswer,
    stop: &Bell,
) -> Result<Greeted, FlowError> {
    let mut alarm = Alarm::new()?;
    let round_trip_ns =
        connection_sample::tcp_info(talk).map_or(0, |info| u64::from(info.rtt) * 1000);
    let begun = monotonic_ns();
    let end = begun.saturating_add(sign.within_ns).saturating_add(round_trip_ns.saturating_mul(4));
    let (mut next, mut every) = (begun, GREETING_NS);
    let hello = Greeting { hello: Hello::Client, token: sign.token }.bytes();
    while next < end {
        // An error here is one of an earlier packet's; whether the server is there shows in its answer.
        let _ = socket.send(&hello);
        next = next.saturating_add(every);
        every += every / 2;
        alarm.set(Some(next.min(end)))?;
        let mut refused = false;
        loop {
            let mut fds = vec![readable(stop), readable(&alarm), readable(talk), readable(socket)];
            // Nobody listens yet; the next greeting tells.
            fds.truncate(if refused { 3 } else { 4 });
            wait(&mut fds)?;
            if came(&fds[0]) {
                return Err(FlowError::Stopped);
            }
            if fds.get(3).is_some_and(came) {
                match answer(socket, sign) {
                    Ok(true) => return Ok(Greeted::Answered),
                    Ok(false) => continue,
                    Err(_) => refused = true,
                }
            }
            if came(&fds[2]) {
                let late = monotonic_ns().saturating_sub(begun) >= sign.within_ns;
                return Ok(if late { Greeted::ToldLate } else { Greeted::Told });
            }
            if came(&fds[1]) {
                break;
            }
        }
    }
    alarm.set(Some(end.saturating_add(WORD_NS)))?;
    let mut fds = [readable(stop), readable(&alarm), readable(talk)];
    wait(&mut fds)?;
    match fds.each_ref().map(came) {
        [true, ..] => Err(FlowError::Stopped),
        [_, _, true] => Ok(Greeted::ToldLate),
        _ => Err(FlowError::NoUdp(to)),
    }
}

/// Takes what waits, unless it is data of the test: whether the server knows us. It does when data comes already; that stays where it is, and will be
/// counted.
fn answer(socket: &Udp, sign: GreetingAnswer) -> Result<bool, Errno> {
    let mut bytes = [0; 64];
    let mut get = |flags| {
        let flags = flags | MsgFlags::MSG_DONTWAIT;
        match recv(socket.as_fd().as_raw_fd(), &mut bytes, flags) {
            Ok(got) => {
                let greeting = Greeting::read(&bytes[..got]);
                Ok(Some((got, greeting.is_some_and(|greeting| greeting.token == sign.token))))
            }
            Err(Errno::EINTR | Errno::EAGAIN) => Ok(None),
            Err(errno) => Err(errno),
        }
    };
    match get(MsgFlags::MSG_PEEK)? {
        Some((got, false)) if sign.data && got >= UdpHeader::Bits32.size() => Ok(true),
        Some(_) => Ok(get(MsgFlags::empty())?.is_some_and(|(_, is_answer)| is_answer)),
        None => Ok(false),
    }
}

fn local(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
    let name: SockaddrStorage = getsockname(fd.as_raw_fd()).ok()?;
    if let Some(v4) = name.as_sockaddr_in() {
        return Some(SocketAddr::V4((*v4).into()));
    }
    name.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_sys::socket::stream::{Connected, accept, listen};
    use std::net::UdpSocket;

    /// The two ends of a control connection, and a server's UDP socket with a client's.
    fn ends() -> (TcpSocket, TcpSocket, UdpSocket, Udp) {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = listen(any).unwrap();
        let talk = TcpSocket::new(false, &StreamOptions::default()).unwrap();
        let soon = monotonic_ns() + 60_000_000_000;
        let to = listener.local_addr().unwrap();
        assert_eq!(talk.connect(to, soon, &Bell::new().unwrap()), Ok(Connected::Yes));
        wait(&mut [readable(&listener)]).unwrap();
        let (there, _) = accept(&listener).unwrap().unwrap();
        let server = UdpSocket::bind(any).unwrap();
        let client = Udp::connected(server.local_addr().unwrap(), 0).unwrap();
        (talk, there, server, client)
    }

    const TOKEN: Option<HelloToken> = Some(HelloToken::new([7; 16]));
    const ANY: GreetingAnswer = GreetingAnswer { token: None, data: true, within_ns: PATIENCE_NS };

    fn answer_with(token: Option<HelloToken>) -> Vec<u8> {
        Greeting { hello: Hello::Server, token }.bytes()
    }

    /// Waits for a hello with this token; who said it.
    fn greeted_with(server: &UdpSocket, token: Option<HelloToken>) -> SocketAddr {
        let mut bytes = [0; 64];
        let (got, from) = server.recv_from(&mut bytes).unwrap();
        assert_eq!(Greeting::read(&bytes[..got]).map(|hello| hello.token), Some(token));
        from
    }

    fn greeted(server: &UdpSocket) -> SocketAddr {
        greeted_with(server, None)
    }

    #[test]
    fn data_that_comes_in_place_of_a_lost_answer_is_left_to_be_counted() {
        let (talk, _there, server, client) = ends();
        let to = server.local_addr().unwrap();
        let bell = Bell::new().unwrap();
        std::thread::scope(|scope| {
            let greeting = scope.spawn(|| greet(&client, to, &talk, ANY, &bell));
            server.send_to(&[7; 100], greeted(&server)).unwrap();
            assert_eq!(greeting.join().unwrap(), Ok(Greeted::Answered));
        });
        let mut bytes = [0; 200];
        let flags = MsgFlags::MSG_DONTWAIT;
        assert_eq!(recv(client.as_fd().as_raw_fd(), &mut bytes, flags), Ok(100));
    }

    #[test]
    fn an_answer_is_taken_and_a_server_that_speaks_over_tcp_knows_all_streams() {
        let (talk, there, server, client) = ends();
        let to = server.local_addr().unwrap();
        let bell = Bell::new().unwrap();
        std::thread::scope(|scope| {
            let greeting = scope.spawn(|| greet(&client, to, &talk, ANY, &bell));
            server.send_to(&Hello::Server.bytes(), greeted(&server)).unwrap();
            assert_eq!(greeting.join().unwrap(), Ok(Greeted::Answered));
            let rest = recv(client.as_fd().as_raw_fd(), &mut [0; 64], MsgFlags::MSG_DONTWAIT);
            assert_eq!(rest, Err(Errno::EAGAIN));
            // The answer to the second is lost.
            let begun = monotonic_ns();
            let greeting = scope.spawn(|| greet(&client, to, &talk, ANY, &bell));
            greeted(&server);
            there.write_now(&[1]).unwrap();
            let told = greeting.join().unwrap();
            let late = monotonic_ns() - begun >= PATIENCE_NS && told == Ok(Greeted::ToldLate);
            assert!(late || told == Ok(Greeted::Told), "{told:?}");
        });
    }

    #[test]
    fn a_server_that_waits_as_long_as_its_client_still_says_what_is_wrong() {
        let (talk, there, server, client) = ends();
        let to = server.local_addr().unwrap();
        let bell = Bell::new().unwrap();
        let sign = GreetingAnswer { within_ns: 100_000_000, ..ANY };
        std::thread::scope(|scope| {
            let greeting = scope.spawn(|| greet(&client, to, &talk, sign, &bell));
            greeted(&server);
            let mut alarm = Alarm::new().unwrap();
            alarm.set(Some(monotonic_ns() + 2 * sign.within_ns)).unwrap();
            wait(&mut [readable(&alarm)]).unwrap();
            there.write_now(&[1]).unwrap();
            assert_eq!(greeting.join().unwrap(), Ok(Greeted::ToldLate));
        });
    }

    #[test]
    fn where_the_test_has_a_token_no_strangers_answer_is_believed() {
        let (talk, _there, server, client) = ends();
        let to = server.local_addr().unwrap();
        let bell = Bell::new().unwrap();
        let sign = GreetingAnswer { token: TOKEN, data: false, within_ns: PATIENCE_NS };
        std::thread::scope(|scope| {
            let greeting = scope.spawn(|| greet(&client, to, &talk, sign, &bell));
            let from = greeted_with(&server, TOKEN);
            // As forged under the server's address: a bare answer, another token's, data of a test that can't have begun.
            let other = Some(HelloToken::new([8; 16]));
            for forged in [answer_with(None), answer_with(other), vec![7; 1000]] {
                server.send_to(&forged, from).unwrap();
            }
            // It takes none of them for the answer: it says hello again.
            assert_eq!(greeted_with(&server, TOKEN), from);
            server.send_to(&answer_with(TOKEN), from).unwrap();
            assert_eq!(greeting.join().unwrap(), Ok(Greeted::Answered));
        });
        let rest = recv(client.as_fd().as_raw_fd(), &mut [0; 64], MsgFlags::MSG_DONTWAIT);
        assert_eq!(rest, Err(Errno::EAGAIN), "nothing of it is left to be counted");
    }
}
