//! TCP connections that carry load.
//!
//! The options that shape a connection are set before the handshake where they belong there: a receive buffer decides the window
//! scale, a segment size what is announced.

use super::ends;
use super::option::{get, get_bytes, set, set_bytes, set_tos};
use crate::SysError;
use crate::wait::{Alarm, Bell, came, readable, wait, writable};
use nix::errno::Errno;
use nix::sys::socket::{self as kernel, Backlog, MsgFlags, Shutdown, SockFlag, SockType};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where the system lists its congestion controls.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// TOS byte; TCP keeps the ECN bits for itself.
    pub tos: u8,
    pub congestion: Option<String>,
    /// Most bytes per second that this end sends (`SO_MAX_PACING_RATE`).
    pub pacing: Option<u64>,
    /// Receive buffer in bytes. The kernel doubles it for its bookkeeping (socket(7)) and then offers half: the window becomes
    /// about this (`tcp_adv_win_scale` 1).
    pub window: Option<u32>,
    /// Maximum segment size in bytes.
    pub mss: Option<u32>,
}

#[derive(Debug)]
pub struct TcpSocket {
    fd: OwnedFd,
}

/// What a reader has discarded, counted where other threads can look while it reads.
///
/// The lab's kernel counts there too ([`TcpSocket::discard_on`]), so that the layout of the first two is fixed.
#[repr(C)]
#[derive(Debug)]
pub struct Discarded {
    most: u64,
    bytes: AtomicU64,
    /// The kernel does not know how; it is not asked again.
    one_by_one: AtomicBool,
}

impl Discarded {
    /// Nothing yet, of a reader that takes at most so many bytes at a time.
    pub const fn new(most: usize) -> Self {
        Self { most: most as u64, bytes: AtomicU64::new(0), one_by_one: AtomicBool::new(false) }
    }

    /// All bytes until now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// "Read on": the lab's kernel knows it (crates/kernel/edits/read-on.edit), any other answers `ENOTTY`.
const READ_ON: libc::Ioctl = 0xc010_5101_u32 as libc::Ioctl;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connected {
    Yes,
    /// The deadline came first: no answer at all.
    NoAnswer,
    Stopped,
}

impl TcpSocket {
    /// A socket for connecting to an address of this family, with all its options.
    ///
    /// Errors name the option; an unknown congestion control comes with those that there are.
    pub fn new(ipv6: bool, options: &StreamOptions) -> Result<Self, SysError> {
        let fd = ends::open(ipv6, SockType::Stream, SockFlag::SOCK_NONBLOCK, None)
            .map_err(|errno| SysError::new("open a TCP socket", errno))?;
        let stream = Self { fd };
        stream.apply(ipv6, options)?;
        Ok(stream)
    }

    pub fn accepted(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Sets options; those that belong to the handshake have no effect after it.
    pub fn apply(&self, ipv6: bool, options: &StreamOptions) -> Result<(), SysError> {
        let fd = self.as_fd();
        set_tos(fd, ipv6, options.tos)?;
        if let Some(window) = options.window {
            set_window(fd, window)?;
        }
        if let Some(mss) = options.mss {
            let mss = libc::c_int::try_from(mss).unwrap_or(libc::c_int::MAX);
            set(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, mss, "the maximum segment size")?;
        }
        if let Some(name) = &options.congestion {
            set_congestion(fd, name)?;
        }
        if let Some(rate) = options.pacing {
            // 64 bit since Linux 4.20 (sock_setsockopt).
            let what = format!("the pacing rate to {rate} bytes per second");
            let bytes = rate.to_ne_bytes();
            set_bytes(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes, &what)?;
        }
        Ok(())
    }

    /// Takes one of this machine's addresses as the one it comes from; the port is the kernel's choice.
    pub fn come_from(&self, address: IpAddr) -> Result<(), SysError> {
        ends::bind(self.as_fd(), SocketAddr::new(address, 0))
            .map_err(|errno| SysError::new(format!("come from {address}"), errno))
    }

    /// Connects until `deadline_ns` of the monotonic clock or until the bell rings.
    pub fn connect(
        &self,
        to: SocketAddr,
        deadline_ns: u64,
        stop: &Bell,
    ) -> Result<Connected, SysError> {
        let failed = |errno| connect_error(to, errno);
        match ends::connect(self.as_fd(), to) {
            Ok(()) => {}
            Err(Errno::EINPROGRESS) => {
                let mut alarm = Alarm::new()?;
                alarm.set(Some(deadline_ns))?;
                let mut fds = [writable(self), readable(stop), readable(&alarm)];
                wait(&mut fds)?;
                if !came(&fds[0]) {
                    return Ok(match came(&fds[1]) {
                        true => Connected::Stopped,
                        false => Connected::NoAnswer,
                    });
                }
                let error = get(self.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).map_err(failed)?;
                match error {
                    0 => {}
                    error => match Errno::from_raw(error) {
                        Errno::ETIMEDOUT => return Ok(Connected::NoAnswer),
                        errno => return Err(failed(errno)),
                    },
                }
            }
            Err(errno) => return Err(failed(errno)),
        }
        self.block()?;
        Ok(Connected::Yes)
    }

    /// Makes calls wait.
    fn block(&self) -> Result<(), SysError> {
        use nix::fcntl::{FcntlArg, OFlag, fcntl};
        fcntl(&self.fd, FcntlArg::F_SETFL(OFlag::empty()))
            .map(drop)
            .map_err(|errno| SysError::new("make a socket wait", errno))
    }

    /// Hands bytes to the kernel and blocks until it has taken all, or the connection ends; how many it took.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        kernel::send(self.fd.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL)
    }

    /// Hands the kernel what it has room for right now; `EAGAIN` when that is nothing.
    pub fn write_now(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        kernel::send(self.fd.as_raw_fd(), bytes, flags)
    }

    /// Reads what is there right now; `EAGAIN` when that is nothing, 0 at the end.
    pub fn read_now(&self, bytes: &mut [u8]) -> Result<usize, Errno> {
        kernel::recv(self.fd.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT)
    }

    /// Reads what is there, blocking until something is; 0 at the end.
    pub fn read(&self, bytes: &mut [u8]) -> Result<usize, Errno> {
        kernel::recv(self.fd.as_raw_fd(), bytes, MsgFlags::empty())
    }

    /// Takes at most `most` bytes off the receive queue without copying them (`MSG_TRUNC`, tcp(7)), blocking until there are
    /// some; 0 at the end.
    pub fn discard(&self, most: usize) -> Result<usize, Errno> {
        // SAFETY: with MSG_TRUNC the kernel does not write to the buffer of a TCP socket (tcp_recvmsg_locked), so that it
        // need not exist.
        let got =
            unsafe { libc::recv(self.fd.as_raw_fd(), std::ptr::null_mut(), most, libc::MSG_TRUNC) };
        Errno::result(got).map(|got| got as usize)
    }

    /// Discards and counts again and again. 0 at the end, otherwise the last count: then it is to be called again.
    ///
    /// The lab's kernel does that within one call, exactly as a program would that calls [`discard`](Self::discard) in a loop; with any
    /// other kernel, each call is one [`discard`](Self::discard), and only the first asks.
    pub fn discard_on(&self, discarded: &Discarded) -> Result<usize, Errno> {
        if !discarded.one_by_one.load(Ordering::Relaxed) {
            // SAFETY: the kernel reads and writes the first 16 bytes of a live `Discarded`; what it writes is the atomic part.
            let got =
                unsafe { libc::ioctl(self.fd.as_raw_fd(), READ_ON, std::ptr::from_ref(discarded)) };
            match Errno::result(got) {
                Err(Errno::ENOTTY | Errno::EINVAL) => {
                    discarded.one_by_one.store(true, Ordering::Relaxed);
                }
                got => return got.map(|got| got as usize),
            }
        }
        let got = self.discard(discarded.most as usize)?;
        discarded.bytes.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
    }

    /// Reads `TCP_INFO` into `bytes` (`struct tcp_info`, linux/tcp.h); how much of it the kernel has.
    pub fn info(&self, bytes: &mut [u8]) -> Result<usize, Errno> {
        get_bytes(self.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, bytes)
    }

    /// Ends sending: the other end sees the end after all data.
    pub fn finish(&self) {
        self.shutdown(Shutdown::Write);
    }

    /// Reads no more: one who waits for a word finds the end. What this end says still gets there.
    pub fn close_ear(&self) {
        self.shutdown(Shutdown::Read);
    }

    /// Ends the connection at once, also for threads that are blocked in it: closing it later throws away what was not sent yet
    /// and resets the other end (`SO_LINGER` of 0), so that a full queue on the path holds nobody up.
    pub fn abort(&self) {
        self.dont_linger();
        self.shutdown(Shutdown::Both);
    }

    /// Closes the connection with a reset and nothing else: neither end waits for anything any more.
    pub fn reset(self) {
        self.dont_linger();
    }

    fn dont_linger(&self) {
        let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
        // It can't fail on a TCP socket but when it is not connected, and then there is nothing to throw away.
        let _ = set_bytes(self.as_fd(), libc::SOL_SOCKET, libc::SO_LINGER, &linger, "lingering");
    }

    fn shutdown(&self, how: Shutdown) {
        // It fails only when the connection is gone already.
        let _ = kernel::shutdown(self.fd.as_raw_fd(), how);
    }

    pub fn local(&self) -> Option<SocketAddr> {
        ends::own(self.as_fd()).ok().flatten()
    }

    pub fn peer(&self) -> Option<SocketAddr> {
        ends::other(self.as_fd()).ok().flatten()
    }
}

impl AsFd for TcpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn connect_error(to: SocketAddr, errno: Errno) -> SysError {
    let error = SysError::new(format!("connect to TCP {to}"), errno);
    match errno {
        Errno::ECONNREFUSED => error.advise("nobody listens there: is the server's task running?"),
        Errno::EHOSTUNREACH | Errno::ENETUNREACH => error.advise(
            "there is no way there: see `ip route get`, and whether the host answers a ping",
        ),
        _ => error,
    }
}

fn set_window(fd: BorrowedFd<'_>, window: u32) -> Result<(), SysError> {
    let bytes = libc::c_int::try_from(window).unwrap_or(libc::c_int::MAX);
    let force = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes, "the receive buffer");
    if force.is_ok() {
        return Ok(());
    }
    set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes, "the receive buffer")?;
    let got = get(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
    if got / 2 < bytes {
        let tried =
            format!("set the receive buffer to {bytes} bytes; the system allows {}", got / 2);
        return Err(SysError::new(tried, Errno::EPERM)
            .advise("raise sysctl net.core.rmem_max, or run with CAP_NET_ADMIN"));
    }
    Ok(())
}

fn set_congestion(fd: BorrowedFd<'_>, name: &str) -> Result<(), SysError> {
    let what = format!("the congestion control to `{name}`");
    set_bytes(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes(), &what).map_err(
        |error| {
            if error.errno != Errno::ENOENT {
                return error;
            }
            let there = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
            let there = there.split_whitespace().collect::<Vec<_>>().join(", ");
            SysError::new(format!("set {what}; this kernel has: {there}"), error.errno)
                .advise("take one of those, or load its module (tcp_NAME)")
        },
    )
}

/// A socket that listens. A window is set before it does, so that every connection's handshake has it.
///
/// Errors with `EADDRINUSE` when another program has the port.
pub fn listen(bind: SocketAddr) -> Result<TcpListener, SysError> {
    listen_as(bind, &StreamOptions::default())
}

/// The same with options, which its connections inherit.
pub fn listen_as(bind: SocketAddr, options: &StreamOptions) -> Result<TcpListener, SysError> {
    let stream = TcpSocket::new(bind.is_ipv6(), options)?;
    let failed = |errno| {
        let error = SysError::new(format!("listen on TCP {bind}"), errno);
        match errno {
            Errno::EADDRINUSE => error.advise("another program has this port: see `ss -tlnp`"),
            Errno::EADDRNOTAVAIL => error.advise("the address is not one of this host's"),
            _ => error,
        }
    };
    // Connections of an earlier run in TIME-WAIT must not hold the port.
    set(stream.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1, "reuse of the port")?;
    ends::bind(stream.as_fd(), bind).map_err(failed)?;
    // As many may wait as net.core.somaxconn allows. A number would be held against the C library's idea of that, which is 128 in musl.
    kernel::listen(&stream, Backlog::MAXALLOWABLE).map_err(failed)?;
    // Non-blocking, so that a connection that is gone again between waiting and accepting holds nobody up.
    Ok(TcpListener::from(stream.fd))
}

/// Takes the next connection; none when there is none right now.
pub fn accept(listener: &TcpListener) -> Result<Option<(TcpSocket, SocketAddr)>, SysError> {
    match listener.accept() {
        Ok((stream, from)) => {
            let stream = TcpSocket::accepted(stream.into());
            stream.block()?;
            Ok(Some((stream, from)))
        }
        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
        // The other end was gone before we took it (accept(2)): that is its affair.
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionAborted => Ok(None),
        Err(e) => Err(SysError::io("accept a TCP connection", &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;
    use std::sync::Arc;

    fn soon() -> u64 {
        monotonic_ns() + 60_000_000_000
    }

    fn pair(options: &StreamOptions) -> (TcpSocket, TcpSocket) {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = TcpSocket::new(false, options).unwrap();
        let to = listener.local_addr().unwrap();
        assert_eq!(client.connect(to, soon(), &Bell::new().unwrap()), Ok(Connected::Yes));
        wait(&mut [readable(&listener)]).unwrap();
        let (server, _) = accept(&listener).unwrap().unwrap();
        (client, server)
    }

    #[test]
    fn bytes_are_discarded_and_counted_without_a_buffer() {
        let (client, server) = pair(&StreamOptions::default());
        assert_eq!(client.write(&[7; 5000]), Ok(5000));
        client.finish();
        let mut total = 0;
        while let Ok(got @ 1..) = server.discard(1 << 20) {
            total += got;
        }
        assert_eq!(total, 5000);
    }

    #[test]
    fn an_abort_frees_a_thread_that_is_blocked_in_writing_and_resets_the_other_end() {
        let (client, server) = pair(&StreamOptions::default());
        let client = Arc::new(client);
        let writer = Arc::clone(&client);
        let thread = std::thread::spawn(move || {
            let chunk = vec![0; 1 << 20];
            loop {
                if let Err(errno) = writer.write(&chunk) {
                    return errno;
                }
            }
        });
        // Something came, so that the writer is at it.
        server.discard(1).unwrap();
        client.abort();
        assert_eq!(thread.join().unwrap(), Errno::EPIPE);
        drop(client);
        let end = loop {
            match server.discard(1 << 20) {
                Ok(0) => break None,
                Ok(_) => {}
                Err(errno) => break Some(errno),
            }
        };
        assert_eq!(end, Some(Errno::ECONNRESET));
    }

    #[test]
    fn an_unknown_congestion_control_is_refused_with_those_that_there_are() {
        let options =
            StreamOptions { congestion: Some("vegetable".into()), ..StreamOptions::default() };
        let error = TcpSocket::new(false, &options).unwrap_err().to_string();
        assert!(error.contains("vegetable") && error.contains("cubic"), "{error}");
    }

    #[test]
    fn a_port_where_nobody_listens_refuses_at_once() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let to = listener.local_addr().unwrap();
        let taken = listen(to).unwrap_err().to_string();
        assert!(taken.contains("EADDRINUSE"), "{taken}");
        // A port that was free a moment ago may be another test's by now; port 1 is nobody's.
        let nobody = "127.0.0.1:1".parse().unwrap();
        let client = TcpSocket::new(false, &StreamOptions::default()).unwrap();
        let error = client.connect(nobody, soon(), &Bell::new().unwrap()).unwrap_err();
        assert_eq!(error.errno, Errno::ECONNREFUSED);
    }

    #[test]
    fn options_reach_the_kernel() {
        let options = StreamOptions {
            tos: 0x20,
            congestion: Some("reno".into()),
            pacing: Some(5_000_000_000),
            window: Some(100_000),
            mss: Some(1000),
        };
        let stream = TcpSocket::new(false, &options).unwrap();
        let fd = stream.as_fd();
        assert_eq!(get(fd, libc::IPPROTO_IP, libc::IP_TOS), Ok(0x20));
        assert_eq!(get(fd, libc::SOL_SOCKET, libc::SO_RCVBUF), Ok(200_000));
        let mut name = [0; 16];
        get_bytes(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name).unwrap();
        assert!(name.starts_with(b"reno\0"));
        let mut rate = [0; 8];
        get_bytes(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut rate).unwrap();
        assert_eq!(u64::from_ne_bytes(rate), 5_000_000_000);
    }
}
