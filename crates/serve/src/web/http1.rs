//! What one connection of HTTP/1.1 says and hears: heads, answers, in time.

use super::Web;
use super::route::WebAnswer;
use crate::hub::Accepted;
use crate::limits::{Throttle, WEB};
use nix::errno::Errno;
use quell_load::bulk::Gate;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, breaking, came, readable, wait, writable};
use quell_web::head;
use quell_web::page::policy;
use std::os::fd::AsFd;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionEnd {
    #[error("it went away")]
    Gone,
    #[error("it did not go on in time")]
    Late,
    #[error("the server was stopped")]
    Stopped,
    #[error("others came, and it did nothing")]
    Crowded,
    #[error("{0}")]
    Bad(String),
    #[error("{0}")]
    System(#[from] SysError),
}

/// A connection's own: what came of the next request, and the clock.
pub struct Http1Connection<'a, 'h> {
    pub guest: &'a Accepted,
    pub web: &'a Web<'h>,
    throttle: Throttle<'h>,
    alarm: Alarm,
    unread: Vec<u8>,
}

impl<'a, 'h> Http1Connection<'a, 'h> {
    pub fn new(web: &'a Web<'h>, guest: &'a Accepted, first: &[u8]) -> Result<Self, SysError> {
        let throttle = Throttle::new(&web.hub.rates, guest.peer.ip(), 1);
        Ok(Self { guest, web, throttle, alarm: Alarm::new()?, unread: first.to_vec() })
    }

    pub fn head(&mut self, is_first: bool) -> Result<(head::Request, usize), ConnectionEnd> {
        let limits = &self.web.hub.limits;
        let mut deadline = match is_first {
            true => self.guest.came_ns.saturating_add(limits.handshake_ns),
            false => monotonic_ns().saturating_add(WEB.idle_ns.min(limits.time_ns)),
        };
        let mut began = !self.unread.is_empty();
        if began && !is_first {
            deadline = monotonic_ns().saturating_add(limits.handshake_ns);
        }
        self.alarm.set(Some(deadline))?;
        loop {
            match head::request(&self.unread) {
                Ok(Some(read)) => return Ok(read),
                Ok(None) => {}
                Err(bad) => return Err(ConnectionEnd::Bad(bad.to_string())),
            }
            match self.more() {
                Ok(()) => {}
                // It was quiet, and has ended.
                Err(ConnectionEnd::Late) if !began && !is_first => return Err(ConnectionEnd::Gone),
                Err(end) => return Err(end),
            }
            if !began {
                began = true;
                self.alarm.set(Some(monotonic_ns().saturating_add(limits.handshake_ns)))?;
            }
        }
    }

    pub fn body(&mut self, length: usize) -> Result<Vec<u8>, ConnectionEnd> {
        while self.unread.len() < length {
            self.more()?;
        }
        Ok(self.unread.drain(..length).collect())
    }

    fn more(&mut self) -> Result<(), ConnectionEnd> {
        let mut piece = [0; WEB.piece];
        loop {
            match self.guest.stream.read_now(&mut piece) {
                Ok(0) => return Err(ConnectionEnd::Gone),
                Ok(got) => {
                    self.unread.extend_from_slice(&piece[..got]);
                    return Ok(());
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(false)?,
                Err(_) => return Err(ConnectionEnd::Gone),
            }
        }
    }

    /// Waits until there is something to read, or room to write.
    fn wait(&self, to_write: bool) -> Result<(), ConnectionEnd> {
        let stream = match to_write {
            true => writable(&self.guest.stream),
            false => readable(&self.guest.stream),
        };
        let mut fds = [stream, readable(self.web.hub.stop), readable(&self.alarm)];
        wait(&mut fds)?;
        match () {
            () if came(&fds[1]) => Err(ConnectionEnd::Stopped),
            () if came(&fds[0]) => Ok(()),
            () => Err(ConnectionEnd::Late),
        }
    }

    /// What was read of the next request already: at most so much.
    pub fn take_unread(&mut self, most: usize) -> usize {
        let taken = most.min(self.unread.len());
        self.unread.drain(..taken);
        taken
    }

    pub fn answer(&mut self, answer: &WebAnswer, head_only: bool) -> Result<(), ConnectionEnd> {
        let mut bytes =
            heading(answer.status, answer.kind, Some(answer.body.len() as u64), answer.last);
        if !head_only {
            bytes.extend_from_slice(&answer.body);
        }
        self.send(&bytes)
    }

    /// Sends all of these bytes as the rates let it, each piece within the time of one step.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), ConnectionEnd> {
        for piece in bytes.chunks(self.throttle.most().unwrap_or(bytes.len()).max(1)) {
            self.pass(piece.len())?;
            self.send_piece(piece)?;
        }
        Ok(())
    }

    /// Waits until the rates let an answer through. Who leaves meanwhile, or loses its place, is waited for no longer.
    fn pass(&mut self, bytes: usize) -> Result<(), ConnectionEnd> {
        let last_ns = monotonic_ns().saturating_add(WEB.idle_ns);
        while let Err(at) = self.throttle.pass_answer(bytes, monotonic_ns()) {
            if monotonic_ns() >= last_ns {
                return Err(ConnectionEnd::Late);
            }
            self.alarm.set(Some(at))?;
            let left = breaking(&self.guest.stream);
            let mut fds = [readable(&self.alarm), readable(self.web.hub.stop), left];
            wait(&mut fds)?;
            match () {
                () if came(&fds[1]) => return Err(ConnectionEnd::Stopped),
                () if came(&fds[2]) => return Err(ConnectionEnd::Gone),
                () => {}
            }
        }
        Ok(())
    }

    fn send_piece(&mut self, mut bytes: &[u8]) -> Result<(), ConnectionEnd> {
        self.alarm.set(Some(monotonic_ns().saturating_add(self.web.hub.limits.handshake_ns)))?;
        while !bytes.is_empty() {
            match self.guest.stream.write_now(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(true)?,
                Err(_) => return Err(ConnectionEnd::Gone),
            }
        }
        Ok(())
    }

    /// Ends in order: closed with something unread, it would be a reset, which takes our last word away. What comes is thrown away, for
    /// the time of one step and 256 kB at most.
    pub fn part(&mut self) {
        const MOST: usize = 256 << 10;
        self.guest.stream.finish();
        if self
            .alarm
            .set(Some(monotonic_ns().saturating_add(self.web.hub.limits.handshake_ns)))
            .is_err()
        {
            return;
        }
        let mut left = MOST;
        while left > 0 {
            match quell_sys::socket::bulk_stream::discard_some(self.guest.stream.as_fd(), left) {
                Ok(0) => return,
                Ok(got) => left = left.saturating_sub(got),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if self.wait(false).is_ok() => {}
                Err(_) => return,
            }
        }
    }
}

/// The head of an answer: of so many bytes, or in chunks.
pub fn heading(status: u16, kind: &str, length: Option<u64>, last: bool) -> Vec<u8> {
    let word = match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        410 => "Gone",
        411 => "Length Required",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    let framing = match length {
        Some(length) => format!("Content-Length: {length}"),
        None => "Transfer-Encoding: chunked".to_owned(),
    };
    let mut head = format!(
        "HTTP/1.1 {status} {word}\r\nContent-Type: {kind}\r\n{framing}\r\nCache-Control: no-store\r\n"
    );
    if status == 503 {
        head += "Retry-After: 5\r\n";
    }
    // What a page is told to keep to; for bare bytes it would only be more to send.
    if kind != "application/octet-stream" {
        head += &format!(
            "Content-Security-Policy: {}\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n\
             Permissions-Policy: geolocation=(), camera=(), microphone=()\r\n",
            policy()
        );
    } else {
        head += "X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n";
    }
    if last {
        head += "Connection: close\r\n";
    }
    head += "\r\n";
    head.into_bytes()
}
