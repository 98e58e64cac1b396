//! TLS over a TCP connection, as the crate h2 reads and writes it.
//!
//! ```text
//!   h2 ◄──► TLS (rustls) ◄──► the kernel's socket, asked for what is there right now
//! ```
//!
//! It never waits and wakes nobody: what the kernel has not got yet is `Pending`, and [`crate::drive`] waits for it. What is written goes to
//! the kernel as far as that has room; at most one record of TLS waits here. So with a low `TCP_NOTSENT_LOWAT` a small answer is soon on its
//! way, whatever else is being sent.

use nix::errno::Errno;
use nix::poll::PollFlags;
use quell_sys::SysError;
use quell_sys::socket::option::set;
use quell_sys::socket::stream::TcpSocket;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use std::cell::Cell;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes of one record (RFC 8446, section 5.1).
pub const RECORD: usize = 16 << 10;
const TOO_LONG: &str = "its handshake is longer than any that there is";
/// While so many bytes wait unsent in the kernel it takes no more. With 1, on a slow line, one piece waits there; a packet or two more would
/// be a twentieth of a second each on such a line, and all of that would count as its delay.
const UNSENT: std::ops::RangeInclusive<u64> = 1..=262_144;

/// In bytes, where nothing else is said.
pub(crate) struct TlsLimits {
    /// Bytes that are read in one step at most, so that whoever sends fast can't fill our memory before anybody looks.
    pub at_once: usize,
    /// What is read from the kernel at once: a record and its frame.
    pub piece: usize,
    /// Most bytes of a client's handshake. One with keys that withstand quantum computers has 2 kB; TLS itself would keep 64.
    pub hello: usize,
    /// How often what may wait unsent is fitted to the rate.
    pub fit_ns: u64,
    /// What may before there is a rate.
    pub first_unsent: u64,
    /// Least bytes of a record of data: about a packet.
    pub least_piece: usize,
    /// So many polls in a row that move nothing are a mistake of the steps.
    pub spins: u32,
    /// Most bytes of a file in PEM. All authorities that a system believes have some 200 kB.
    pub pem: u64,
}

pub(crate) const LIMITS: TlsLimits = TlsLimits {
    at_once: 64 << 10,
    piece: 17 << 10,
    hello: 16 << 10,
    fit_ns: 100_000_000,
    first_unsent: 64 << 10,
    least_piece: 1400,
    spins: 100,
    pem: 4 << 20,
};

/// What a connection and its drive both look at.
#[derive(Debug)]
pub struct Beneath {
    pub tcp: TcpSocket,
    /// In this step a read found nothing, and a write no room: what the drive waits for.
    awaits_input: Cell<bool>,
    awaits_room: Cell<bool>,
    /// Bytes that the kernel gave and took, and the end of what comes.
    moves: Cell<u64>,
    at_once: Cell<usize>,
    left: Cell<usize>,
    fitted: Cell<Option<(u64, u64)>>,
    in_5_ms: Cell<u64>,
    plain: Cell<u64>,
    written: Cell<u64>,
    read: Cell<u64>,
}

impl Beneath {
    /// Whether what was written in this step waits for room in the kernel: more is of no use.
    pub fn awaits_room(&self) -> bool {
        self.awaits_room.get()
    }

    /// What this step waits for, as poll(2) has it: nothing where it neither read nor wrote, however much there is to read.
    pub(crate) fn awaited(&self) -> PollFlags {
        let mut events = PollFlags::empty();
        events.set(PollFlags::POLLIN, self.awaits_input.get());
        events.set(PollFlags::POLLOUT, self.awaits_room.get());
        events
    }

    pub(crate) fn moves(&self) -> u64 {
        self.moves.get()
    }

    fn moved(&self, bytes: usize) {
        self.moves.set(self.moves.get() + bytes as u64);
    }

    /// Bytes that were written through TLS, and bytes that this made for the kernel.
    pub fn written(&self) -> (u64, u64) {
        (self.plain.get(), self.written.get())
    }

    pub fn read(&self) -> u64 {
        self.read.get()
    }

    /// From now on no more is read in a step than a record of TLS, which can't be read but whole: for whoever has to account for all that is read
    /// before it reads on.
    pub fn reads_a_record(&self) {
        self.at_once.set(LIMITS.piece);
        self.left.set(LIMITS.piece);
    }

    /// Lets so many bytes wait in the kernel unsent as leave within 5 ms at the rate of the last tenth of a second, as
    /// draft-ietf-ippm-responsiveness asks of both ends ("Client-Side Influence"). When it is to be called again.
    pub fn fit(&self, now: u64) -> u64 {
        let Some((then, before)) = self.fitted.get() else {
            self.keep_unsent(LIMITS.first_unsent);
            self.fitted.set(Some((now, self.written.get())));
            return now + LIMITS.fit_ns;
        };
        if now < then + LIMITS.fit_ns {
            return then + LIMITS.fit_ns;
        }
        let written = self.written.get();
        let in_5_ms = u128::from(written - before) * 5_000_000 / u128::from(now - then);
        self.keep_unsent(u64::try_from(in_5_ms).unwrap_or(u64::MAX));
        self.fitted.set(Some((now, written)));
        now + LIMITS.fit_ns
    }

    fn keep_unsent(&self, bytes: u64) {
        self.in_5_ms.set(bytes);
        let bytes = bytes.clamp(*UNSENT.start(), *UNSENT.end());
        // Without it more waits in the socket, and no figure is wrong.
        let _ = set(
            self.tcp.as_fd(),
            nix::libc::IPPROTO_TCP,
            nix::libc::TCP_NOTSENT_LOWAT,
            bytes as nix::libc::c_int,
            "TCP_NOTSENT_LOWAT",
        );
    }

    /// How many bytes are given to TLS at once: what leaves within 5 ms, and no more than a record. A record is one piece to the other end as
    /// well: it can't be read before all of it is there.
    pub fn piece(&self) -> usize {
        piece(self.in_5_ms.get())
    }

    pub(crate) fn refresh(&self) {
        self.left.set(self.at_once.get());
        self.awaits_input.set(false);
        self.awaits_room.set(false);
    }
}

fn piece(in_5_ms: u64) -> usize {
    usize::try_from(in_5_ms).unwrap_or(RECORD).clamp(LIMITS.least_piece, RECORD)
}

#[derive(Debug)]
pub struct TlsSocket {
    line: Rc<Beneath>,
    tls: Connection,
    /// What came and was not looked at yet, from `at`.
    came: Vec<u8>,
    at: usize,
    ended: bool,
    /// Bytes that its handshake may have yet.
    hello: usize,
}

impl TlsSocket {
    /// The end that accepted it; `first` was read already.
    pub fn server(
        tcp: TcpSocket,
        config: &Arc<ServerConfig>,
        first: &[u8],
    ) -> std::result::Result<Self, rustls::Error> {
        let tls = ServerConnection::new(Arc::clone(config))?;
        Ok(Self::of(tcp, tls.into(), first, LIMITS.hello))
    }

    /// The end that connected, to a host of this name.
    pub fn client(
        tcp: TcpSocket,
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> std::result::Result<Self, rustls::Error> {
        let tls = ClientConnection::new(Arc::clone(config), name)?;
        // Certificates may be long.
        Ok(Self::of(tcp, tls.into(), &[], usize::MAX))
    }

    fn of(tcp: TcpSocket, mut tls: Connection, first: &[u8], hello: usize) -> Self {
        tls.set_buffer_limit(Some(RECORD));
        let line = Beneath {
            tcp,
            awaits_input: Cell::new(false),
            awaits_room: Cell::new(false),
            moves: Cell::new(0),
            at_once: Cell::new(LIMITS.at_once),
            left: Cell::new(LIMITS.at_once),
            fitted: Cell::new(None),
            in_5_ms: Cell::new(LIMITS.first_unsent),
            plain: Cell::new(0),
            written: Cell::new(0),
            read: Cell::new(0),
        };
        Self { line: Rc::new(line), tls, came: first.to_vec(), at: 0, ended: false, hello }
    }

    pub fn line(&self) -> &Rc<Beneath> {
        &self.line
    }

    /// What both agreed to speak (ALPN, RFC 7301).
    pub fn speaks(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    pub fn round_trips(&self) -> u32 {
        match self.tls.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => 2,
            _ => 1,
        }
    }

    /// Goes on with the handshake. Done, its last flight is with the kernel.
    pub fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            if !self.flush()? {
                return Poll::Pending;
            }
            if !self.tls.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            match self.take(context)? {
                Taken::Nothing => return Poll::Pending,
                Taken::End => return Poll::Ready(Err(ErrorKind::UnexpectedEof.into())),
                Taken::Some => {}
            }
        }
    }

    /// Hands the kernel what TLS has for it; whether that was all.
    fn flush(&mut self) -> Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Now(&self.line)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.line.awaits_room.set(true);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn take(&mut self, context: &mut Context<'_>) -> Result<Taken> {
        if self.at == self.came.len() {
            if self.ended {
                return Ok(Taken::End);
            }
            if self.line.left.get() == 0 {
                // There may be more, and it is looked at in the next step.
                context.waker().wake_by_ref();
                return Ok(Taken::Nothing);
            }
            self.came.resize(LIMITS.piece.min(self.line.left.get()), 0);
            self.at = 0;
            let got = loop {
                match self.line.tcp.read_now(&mut self.came) {
                    Err(Errno::EINTR) => {}
                    got => break got,
                }
            };
            match got {
                Ok(got) if got > 0 => self.came.truncate(got),
                // Nothing is kept for what is not there: many may wait for a long time.
                _ => self.came = Vec::new(),
            }
            match got {
                Ok(0) => {
                    self.ended = true;
                    self.line.moved(1);
                    self.tls.read_tls(&mut std::io::empty())?;
                    return Ok(Taken::End);
                }
                Ok(got) => {
                    self.line.moved(got);
                    self.line.left.set(self.line.left.get().saturating_sub(got));
                }
                Err(Errno::EAGAIN) => {
                    self.line.awaits_input.set(true);
                    return Ok(Taken::Nothing);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        let mut rest = &self.came[self.at..];
        if self.tls.is_handshaking() {
            rest = &rest[..rest.len().min(self.hello)];
            if rest.is_empty() {
                return Err(Error::new(ErrorKind::InvalidData, TOO_LONG));
            }
        }
        let read = self.tls.read_tls(&mut rest)?;
        self.at += read;
        self.hello = self.hello.saturating_sub(read);
        if let Err(error) = self.tls.process_new_packets() {
            // It hears why, if it still listens.
            let _ = self.flush();
            return Err(Error::new(ErrorKind::InvalidData, error));
        }
        Ok(Taken::Some)
    }
}

enum Taken {
    Some,
    Nothing,
    End,
}

struct Now<'l>(&'l Beneath);

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        loop {
            match self.0.tcp.write_now(bytes) {
                Err(Errno::EINTR) => {}
                Ok(sent) => {
                    self.0.moved(sent);
                    self.0.written.set(self.0.written.get() + sent as u64);
                    return Ok(sent);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl AsyncRead for TlsSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        loop {
            match self.tls.reader().read(buffer.initialize_unfilled()) {
                Ok(got) => {
                    buffer.advance(got);
                    self.line.read.set(self.line.read.get() + got as u64);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            match self.take(context)? {
                Taken::Some => {
                    self.flush()?;
                }
                Taken::Nothing => return Poll::Pending,
                // The reader says how it ended.
                Taken::End => {}
            }
        }
    }
}

impl AsyncWrite for TlsSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        if !self.flush()? {
            return Poll::Pending;
        }
        let taken = self.tls.writer().write(&bytes[..bytes.len().min(RECORD)])?;
        self.line.plain.set(self.line.plain.get() + taken as u64);
        self.flush()?;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        if self.flush()? { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        self.tls.send_close_notify();
        if !self.flush()? {
            return Poll::Pending;
        }
        self.line.tcp.finish();
        Poll::Ready(Ok(()))
    }
}

/// A second handle on a connection, for who reads and writes it through TLS.
pub fn second(stream: &TcpSocket) -> std::result::Result<TcpSocket, SysError> {
    let fd = stream.as_fd().try_clone_to_owned();
    fd.map(TcpSocket::accepted)
        .map_err(|e| SysError::io("open a second handle on a connection", &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_connection_is_given_a_packet_at_a_time_and_a_fast_one_a_record() {
        // 1 Mbit/s, 10 Mbit/s, 1 Gbit/s.
        assert_eq!([125 * 5, 1250 * 5, 125_000 * 5].map(piece), [1400, 6250, 16_384]);
    }
}
