//! Clients, good and bad, byte by byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest that is waited for what a server says or does before it counts as never: a busy machine has no CPU for either end for seconds.
pub const NEVER: Duration = Duration::from_secs(60);

/// So many UDP streams say hello at once.
const AT_ONCE: usize = 16;

/// What comes of it within a minute, each try with a number that no other test has: a server without a CPU sees late that others left, and has no place
/// until then. For those who attack; whoever is to be served tries once.
#[track_caller]
pub fn at_last<T>(what: &str, mut bring: impl FnMut(u64) -> Option<T>) -> T {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
    let begun = Instant::now();
    while begun.elapsed() < NEVER {
        if let Some(got) = bring(NEXT.fetch_add(1, Ordering::Relaxed)) {
            return got;
        }
    }
    panic!("{what}")
}

/// Whether this becomes so within a minute. It waits itself, as a read does.
pub fn is_soon(mut done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < NEVER {
        if done() {
            return true;
        }
    }
    false
}

/// An address of loopback from which a client comes.
pub fn from(network: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 77, network, host)
}

/// A TCP connection from this address.
#[track_caller]
pub fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    use nix::errno::Errno;
    let options = quell_sys::socket::stream::StreamOptions::default();
    let stream = quell_sys::socket::stream::TcpSocket::new(false, &options).expect("a socket");
    let bind = nix::sys::socket::SockaddrIn::from(std::net::SocketAddrV4::new(from, 0));
    nix::sys::socket::bind(stream.as_fd().as_raw_fd(), &bind).expect("all of 127/8 is ours");
    let soon = quell_sys::clock::monotonic_ns() + NEVER.as_nanos() as u64;
    let bell = quell_sys::wait::Bell::new().expect("a bell");
    match stream.connect(to, soon, &bell) {
        Ok(done) => assert_eq!(done, quell_sys::socket::stream::Connected::Yes),
        // It was connected, and the server took its place back before this thread got a CPU: by a reset, which tells EPIPE where an end
        // came before it (tcp_reset, net/ipv4/tcp_input.c).
        Err(error) if matches!(error.errno, Errno::ECONNRESET | Errno::EPIPE) => {}
        Err(error) => panic!("{error}"),
    }
    let stream = TcpStream::from(stream.as_fd().try_clone_to_owned().expect("a descriptor"));
    stream.set_read_timeout(Some(NEVER)).expect("a limit");
    stream.set_nodelay(true).expect("an option");
    stream
}

/// A cookie that only this number has.
pub fn cookie(number: u64) -> [u8; 37] {
    let text = format!("{number:036}\0");
    text.into_bytes().try_into().expect("37 bytes")
}

/// A text with its length before it.
pub fn frame(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).expect("short").to_be_bytes()[..], text.as_bytes()].concat()
}

/// What begins calls with requests and replies of this size: sizes, no wishes, and room for more (32 bytes in all).
pub fn calls(size: u32) -> Vec<u8> {
    [&b"QUELLRR1"[..], &size.to_be_bytes(), &size.to_be_bytes(), &[0; 16]].concat()
}

/// The next byte; none at the end.
pub fn byte(stream: &mut TcpStream) -> Option<u8> {
    let mut byte = [0];
    match stream.read(&mut byte) {
        Ok(0) => None,
        Ok(_) => Some(byte[0]),
        Err(e) if e.kind() == ErrorKind::ConnectionReset => None,
        Err(e) => panic!("the server neither answers nor ends the connection: {e}"),
    }
}

/// A test of a client, as far as it has come.
pub struct Test {
    pub control: TcpStream,
    pub streams: Vec<TcpStream>,
    pub sockets: Vec<UdpSocket>,
    cookie: [u8; 37],
    from: Ipv4Addr,
    to: SocketAddr,
}

impl Test {
    /// Connected, and nothing said.
    pub fn new(from: Ipv4Addr, to: SocketAddr, number: u64) -> Self {
        let control = connect(from, to);
        Self { control, streams: vec![], sockets: vec![], cookie: cookie(number), from, to }
    }

    /// Connected, with this said.
    pub fn says(from: Ipv4Addr, to: SocketAddr, bytes: &[u8]) -> Self {
        let mut test = Self::new(from, to, 0);
        // The server may have ended it before all of it was there.
        let _ = test.control.write_all(bytes);
        test
    }

    /// Of this connection.
    pub fn of(control: TcpStream) -> Self {
        let (from, to) = (Ipv4Addr::LOCALHOST, ([127, 0, 0, 1], 0).into());
        Self { control, streams: vec![], sockets: vec![], cookie: cookie(0), from, to }
    }

    /// Said which test it is, and was asked for its parameters. None when the server would not.
    pub fn introduced(mut self) -> Option<Self> {
        self.control.write_all(&self.cookie).ok()?;
        (byte(&mut self.control) == Some(9)).then_some(self)
    }

    /// Agreed on this; the server waits for streams.
    pub fn agreed(self, parameters: &str) -> Option<Self> {
        let mut test = self.introduced()?;
        test.control.write_all(&frame(parameters)).ok()?;
        (byte(&mut test.control) == Some(10)).then_some(test)
    }

    /// One more TCP stream.
    pub fn stream(&mut self) {
        let mut stream = connect(self.from, self.to);
        // Where the server has sent the test away, its streams go too.
        let _ = stream.write_all(&self.cookie);
        self.streams.push(stream);
    }

    /// So many UDP streams more; whether the server greets them all. All say hello before one is listened to: one after another each would wait
    /// for a CPU, at both ends, while the server gives all of them the time of one step.
    pub fn greeted(&mut self, streams: usize) -> bool {
        let first = self.sockets.len();
        let limits = |socket: &UdpSocket, ms| {
            socket.set_read_timeout(Some(Duration::from_millis(ms))).expect("a limit");
        };
        for _ in 0..streams {
            let socket = UdpSocket::bind((self.from, 0)).expect("a port");
            socket.connect(self.to).expect("an address");
            self.sockets.push(socket);
        }
        let mut left: Vec<&UdpSocket> = self.sockets[first..].iter().collect();
        let mut answer = [0; 70_000];
        for _ in 0..5 {
            // Its own hello was answered: before that, or an answer was lost.
            left.iter().for_each(|socket| drop(socket.send(b"9876")));
            let mut patience_ms = 1000;
            left.retain(|socket| {
                limits(socket, patience_ms);
                let is_silent = socket.recv(&mut answer).is_err();
                if is_silent {
                    patience_ms = 1;
                }
                is_silent
            });
        }
        let all = left.is_empty();
        self.sockets[first..].iter().for_each(|socket| limits(socket, 100));
        all
    }

    /// Under way with so many streams.
    pub fn running(self, parameters: &str, streams: usize) -> Option<Self> {
        let mut test = self.agreed(parameters)?;
        let mut left = streams;
        while left > 0 {
            let some = left.min(AT_ONCE);
            if !parameters.contains("udp") {
                (0..some).for_each(|_| test.stream());
            } else if !test.greeted(some) {
                // It has given the test up.
                return None;
            }
            left -= some;
        }
        let begun = byte(&mut test.control) == Some(1) && byte(&mut test.control) == Some(2);
        begun.then_some(test)
    }

    /// Said that it is done, and was asked for its results.
    pub fn ended(self, parameters: &str) -> Option<Self> {
        let mut test = self.running(parameters, 1)?;
        test.control.write_all(&[4]).ok()?;
        (byte(&mut test.control) == Some(13)).then_some(test)
    }

    /// All connections of it.
    pub fn connections(&self) -> impl Iterator<Item = &TcpStream> {
        std::iter::once(&self.control).chain(&self.streams)
    }
}

/// How long a good client waits from connecting until its data may flow, and carries its test to the end; none where the server would not have it.
pub fn served(to: SocketAddr, number: u64) -> Option<Duration> {
    const ASKED: &str = r#"{"tcp":true,"time":1,"parallel":1,"len":1000}"#;
    let begun = Instant::now();
    let test = Test::new(from(200, 1), to, number);
    let mut test = test.running(ASKED, 1)?;
    let waited = begun.elapsed();
    test.streams[0].write_all(&[7; 1000]).ok()?;
    test.control.write_all(&[4]).ok()?;
    match byte(&mut test.control)? {
        13 => {}
        // `SERVER_TERMINATE`, `SERVER_ERROR`, `ACCESS_DENIED`.
        11 | 254 | 255 => return None,
        other => panic!("it says {other}, and not that it wants results"),
    }
    test.control.write_all(&frame("{}")).ok()?;
    let mut length = [0; 4];
    // Not four bytes, but one and the end: it was given up while it had no CPU for its own results.
    test.control.read_exact(&mut length).ok()?;
    let mut results = vec![0; u32::from_be_bytes(length) as usize];
    test.control.read_exact(&mut results).expect("results");
    assert_eq!(byte(&mut test.control), Some(14), "it shows results");
    // It may have been waited for no longer.
    let _ = test.control.write_all(&[16]);
    Some(waited)
}

/// Resets a connection when it closes.
pub fn reset(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let bytes = [linger.l_onoff.to_ne_bytes(), linger.l_linger.to_ne_bytes()].concat();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
    quell_sys::socket::option::set_bytes(stream.as_fd(), level, name, &bytes, "lingering")
        .expect("an option");
}

/// Ends its own sending.
pub fn half_close(stream: &TcpStream) {
    // The server may have ended it before.
    let _ = stream.shutdown(Shutdown::Write);
}
