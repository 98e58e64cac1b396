//! One thread that drives what is polled: connections of HTTP/2, its streams, the handshake before them.
//!
//! ```text
//!   step ──► Done
//!     ▲ ├──► woken meanwhile: once more
//!     │ ├──► Until ──► ppoll(2): what the step found missing (input, room), the time, bells ──┐
//!     │ └──► Rest ───► the time, bells ───────────────────────────────────────────────────────┤
//!     └───────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! What is polled says by its waker that it can go on; what only the kernel knows is waited for there. So nothing is registered anywhere,
//! and nothing is polled that nobody moved: input is waited for only where the step read until there was none, so that whoever sends, and takes no
//! answer, wakes nobody.

use crate::socket::Beneath;
use crate::socket::LIMITS;
use nix::poll::PollFd;
use quell_sys::SysError;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

#[derive(Debug)]
pub enum DriveStep<T> {
    Done(T),
    /// It goes on when the socket has what the step found missing, at this time of the monotonic clock (in nanoseconds) at the latest.
    Until(u64),
    /// It goes on at this time and not before: what comes until then stays where it is.
    Rest(u64),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    #[error("it was called off")]
    Rang(usize),
    #[error("{0}")]
    System(#[from] SysError),
}

#[derive(Debug)]
pub struct Drive {
    line: Rc<Beneath>,
    alarm: Alarm,
    woken: Arc<Woken>,
    waker: Waker,
    idle_polls: u32,
}

#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drive {
    pub fn new(line: Rc<Beneath>) -> Result<Self, SysError> {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        Ok(Self { line, alarm: Alarm::new()?, woken, waker, idle_polls: 0 })
    }

    /// How often in a row the socket ended a wait, and the step after it moved nothing.
    pub fn idle_polls(&self) -> u32 {
        self.idle_polls
    }

    /// Steps until it is done. Bells are looked at between any two steps, and while it waits.
    pub fn run<T>(
        &mut self,
        bells: &[&Bell],
        mut step: impl FnMut(&mut Context<'_>) -> DriveStep<T>,
    ) -> Result<T, Halt> {
        let mut context = Context::from_waker(&self.waker);
        let mut polled = None;
        loop {
            self.woken.0.store(false, Ordering::Relaxed);
            self.line.refresh();
            let (until, rests) = match step(&mut context) {
                DriveStep::Done(result) => return Ok(result),
                DriveStep::Until(ns) => (ns, false),
                DriveStep::Rest(ns) => (ns, true),
            };
            if !rests && self.woken.0.load(Ordering::Relaxed) {
                if let Some(rings) = bells.iter().position(|bell| bell.rings()) {
                    return Err(Halt::Rang(rings));
                }
                continue;
            }
            let idle = !rests && polled.take() == Some(self.line.moves());
            self.idle_polls = if idle { self.idle_polls + 1 } else { 0 };
            debug_assert!(self.idle_polls < LIMITS.spins, "it spins: {:?}", self.line.awaited());
            self.alarm.set(Some(until))?;
            let mut fds: Vec<PollFd<'_>> = bells.iter().map(|bell| readable(*bell)).collect();
            fds.push(readable(&self.alarm));
            let awaited = self.line.awaited();
            // Of a socket of which nothing is wanted poll(2) would tell errors, again and again.
            if !rests && !awaited.is_empty() {
                fds.push(PollFd::new(self.line.tcp.as_fd(), awaited));
            }
            wait(&mut fds)?;
            polled = fds.get(bells.len() + 1).is_some_and(came).then(|| self.line.moves());
            if let Some(rings) = fds[..bells.len()].iter().position(came) {
                return Err(Halt::Rang(rings));
            }
        }
    }
}

#[cfg(test)]
mod stories {
    use super::*;
    use crate::identity::{Identity, Name};
    use crate::socket::TlsSocket;
    use crate::trust::{self, Trust};
    use quell_sys::socket::stream::TcpSocket;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConnection, StreamOwned};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::pin::Pin;
    use std::task::Poll;
    use std::time::Duration;
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    /// Answers as much as comes, as HTTP/2 answers a PING: what finds no room is awaited before more is read.
    fn echo(socket: &mut TlsSocket, left: &mut Vec<u8>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            while !left.is_empty() {
                match Pin::new(&mut *socket).poll_write(context, left) {
                    Poll::Ready(Ok(sent)) => drop(left.drain(..sent)),
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *socket).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    left.extend_from_slice(buffer.filled());
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    #[test]
    fn who_sends_and_takes_no_answer_wakes_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let shown = Identity::new("a test", &[Name::Dns("localhost".into())], &[7; 32]).shown();
        let server = trust::server(&shown).unwrap();
        let mut socket =
            TlsSocket::server(TcpSocket::accepted(accepted.into()), &server, &[]).unwrap();
        let line = Rc::clone(socket.line());
        let over = Bell::new().unwrap();
        std::thread::scope(|scope| {
            let over = &over;
            scope.spawn(move || {
                let client = trust::client(&Trust::Anyone).unwrap();
                let name = ServerName::try_from("localhost").unwrap();
                let tls = ClientConnection::new(client, name).unwrap();
                let mut stream = StreamOwned::new(tls, tcp);
                stream.flush().unwrap();
                // Until nobody takes it any more.
                stream.sock.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
                while stream.write_all(&[7; 4096]).is_ok() {}
                over.ring();
            });
            let mut drive = Drive::new(line).unwrap();
            let mut left = Vec::new();
            let ended = drive.run(&[over], |context| {
                match socket.poll_handshake(context) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) => panic!("{error}"),
                    Poll::Pending => return DriveStep::Until(u64::MAX),
                }
                match echo(&mut socket, &mut left, context) {
                    Poll::Ready(()) => DriveStep::Done(()),
                    Poll::Pending => DriveStep::Until(u64::MAX),
                }
            });
            assert_eq!(ended, Err(Halt::Rang(0)), "it waited until it was called off");
            assert_eq!(drive.idle_polls(), 0);
        });
    }
}
