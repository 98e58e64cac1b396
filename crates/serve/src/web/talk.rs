//! One connection of HTTP/1.1 to its end: heads, answers, one after the other. While it moves no data it counts as one of which nothing is
//! known, and goes when others come.

use super::route::{Answer, LONGEST_BODY, Reply, route, wants_body};
use super::{Web, carry, control};
use crate::guest::Guest;
use crate::hub::HalfOpen;
use nix::errno::Errno;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, came, readable, wait, writable};
use quell_web::head::{self, Body, Method};
use quell_web::page::POLICY;
use std::os::fd::AsFd;

/// How long a connection may say nothing between two requests.
const IDLE_NS: u64 = 15_000_000_000;
/// Most requests of one connection: a page pings ten times a second, for two minutes.
const MOST_REQUESTS: usize = 20_000;
/// What is read at once.
const PIECE: usize = 4096;

/// Why a connection ends.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// As it should, or the client left: its own affair.
    #[error("it went away")]
    Gone,
    /// Nothing came, or not all of it.
    #[error("it did not go on in time")]
    Late,
    /// The server ends.
    #[error("the server was stopped")]
    Stopped,
    /// Others came.
    #[error("others came, and it did nothing")]
    Crowded,
    /// It is not what it should be.
    #[error("{0}")]
    Bad(String),
    /// The system would not let us.
    #[error("{0}")]
    System(#[from] SysError),
}

/// Whether these first bytes of a connection begin a request.
pub fn begins(first: &[u8]) -> bool {
    ["GET /", "HEAD /", "POST /", "PUT /", "OPTIONS "].iter().any(|word| {
        let some = word.len().min(first.len());
        first[..some] == word.as_bytes()[..some]
    })
}

/// A connection's own: what came of the next request, and the clock.
pub struct Talk<'a, 'h> {
    pub guest: &'a Guest,
    pub web: &'a Web<'h>,
    alarm: Alarm,
    unread: Vec<u8>,
}

/// Talks to its end. `first` is what was read already.
pub fn converse<'x, 'h: 'x>(
    web: &Web<'h>,
    guest: &Guest,
    first: &[u8],
    trusted: bool,
    half_open: HalfOpen<'x>,
) {
    let ended = requests(web, guest, first, trusted, half_open);
    if ended.is_err() {
        // After an end in order what was said still gets there, however full the way is.
        guest.stream.abort();
    }
    if let Err(end @ (End::Bad(_) | End::Late | End::Crowded | End::System(_))) = ended {
        web.hub.refuse(guest.peer, end);
    }
}

fn requests<'x, 'h: 'x>(
    web: &Web<'h>,
    guest: &Guest,
    first: &[u8],
    trusted: bool,
    half_open: HalfOpen<'x>,
) -> Result<(), End> {
    let _ = crate::rate::at_once(&guest.stream);
    let mut talk = Talk { guest, web, alarm: Alarm::new()?, unread: first.to_vec() };
    let mut half_open = Some(half_open);
    for number in 0..MOST_REQUESTS {
        let (request, length) = match talk.head(number == 0) {
            Ok(read) => read,
            Err(End::Bad(why)) => {
                let status = if why.contains("more than") { 431 } else { 400 };
                talk.answer(&Answer::text(status, &why).last(), false)?;
                talk.part();
                web.hub.refuse(guest.peer, why);
                return Ok(());
            }
            Err(end) => return Err(end),
        };
        if half_open.as_ref().is_some_and(HalfOpen::lost) {
            return Err(End::Crowded);
        }
        talk.unread.drain(..length);
        let mut body = Vec::new();
        if wants_body(&request) {
            match request.body {
                Body::Bytes(length) if length <= LONGEST_BODY => {
                    body = talk.body(length as usize)?
                }
                _ => {
                    talk.answer(&Answer::text(413, "more than is read here").last(), false)?;
                    talk.part();
                    return Ok(());
                }
            }
        }
        match route(web, guest, &request, &body, trusted)? {
            Reply::Now(mut answer) => {
                // What it may have sent behind its head is nobody's.
                let left = !wants_body(&request) && request.body != Body::Bytes(0);
                answer.last |= !request.stays || left;
                talk.answer(&answer, request.method == Method::Head)?;
                if answer.last {
                    talk.part();
                    return Ok(());
                }
            }
            Reply::Control => {
                return control::test(&mut talk, half_open.take());
            }
            Reply::Down(test, bytes) => {
                drop(half_open.take());
                carry::down(&mut talk, &test, bytes)?;
            }
            Reply::Up(test, bytes) => {
                drop(half_open.take());
                if request.waits {
                    talk.send(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                }
                carry::up(&mut talk, &test, bytes)?;
                drop(test);
                talk.answer(&Answer::text(200, "taken"), false)?;
                if !request.stays {
                    return Ok(());
                }
            }
        }
        if half_open.is_none() {
            half_open = web.hub.half_open(guest.peer.ip(), &guest.stream);
            if half_open.is_none() {
                return Err(End::Crowded);
            }
        }
    }
    Ok(())
}

impl Talk<'_, '_> {
    /// The next head, all of it in time.
    fn head(&mut self, is_first: bool) -> Result<(head::Request, usize), End> {
        let limits = &self.web.hub.limits;
        let mut deadline = match is_first {
            true => self.guest.came_ns.saturating_add(limits.handshake_ns),
            false => monotonic_ns().saturating_add(IDLE_NS.min(limits.time_ns)),
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
                Err(bad) => return Err(End::Bad(bad.to_string())),
            }
            match self.more() {
                Ok(()) => {}
                // It was quiet, and has ended.
                Err(End::Late) if !began && !is_first => return Err(End::Gone),
                Err(end) => return Err(end),
            }
            if !began {
                began = true;
                self.alarm.set(Some(monotonic_ns().saturating_add(limits.handshake_ns)))?;
            }
        }
    }

    fn body(&mut self, length: usize) -> Result<Vec<u8>, End> {
        while self.unread.len() < length {
            self.more()?;
        }
        Ok(self.unread.drain(..length).collect())
    }

    /// Takes what comes next, at least a byte.
    fn more(&mut self) -> Result<(), End> {
        let mut piece = [0; PIECE];
        loop {
            match self.guest.stream.read_now(&mut piece) {
                Ok(0) => return Err(End::Gone),
                Ok(got) => {
                    self.unread.extend_from_slice(&piece[..got]);
                    return Ok(());
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(false)?,
                Err(_) => return Err(End::Gone),
            }
        }
    }

    /// Waits until there is something to read, or room to write.
    fn wait(&self, to_write: bool) -> Result<(), End> {
        let stream = match to_write {
            true => writable(&self.guest.stream),
            false => readable(&self.guest.stream),
        };
        let mut fds = [stream, readable(self.web.hub.stop), readable(&self.alarm)];
        wait(&mut fds)?;
        match () {
            () if came(&fds[1]) => Err(End::Stopped),
            () if came(&fds[0]) => Ok(()),
            () => Err(End::Late),
        }
    }

    /// What was read of the next request already: at most so much.
    pub fn take_unread(&mut self, most: usize) -> usize {
        let taken = most.min(self.unread.len());
        self.unread.drain(..taken);
        taken
    }

    /// Sends a whole answer.
    pub fn answer(&mut self, answer: &Answer, head_only: bool) -> Result<(), End> {
        let mut bytes =
            heading(answer.status, answer.kind, Some(answer.body.len() as u64), answer.last);
        if !head_only {
            bytes.extend_from_slice(&answer.body);
        }
        self.send(&bytes)
    }

    /// Sends all of these bytes, within the time of one step.
    pub fn send(&mut self, mut bytes: &[u8]) -> Result<(), End> {
        self.alarm.set(Some(monotonic_ns().saturating_add(self.web.hub.limits.handshake_ns)))?;
        while !bytes.is_empty() {
            match self.guest.stream.write_now(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(true)?,
                Err(_) => return Err(End::Gone),
            }
        }
        Ok(())
    }

    /// Ends in order: closed with something unread, it would be a reset, which takes our last word away. What comes is thrown away, for
    /// the time of one step and 256 kB at most.
    fn part(&mut self) {
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
        head += "Retry-After: 10\r\n";
    }
    // What a page is told to keep to; for bare bytes it would only be more to send.
    if kind != "application/octet-stream" {
        head += &format!(
            "Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n\
             Permissions-Policy: geolocation=(), camera=(), microphone=()\r\n"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_a_request_from_all_else() {
        for first in [&b"GET / HT"[..], b"POST /we", b"HEAD /. ", b"OPTIONS ", b"PUT /abc"] {
            assert!(begins(first), "{first:?}");
        }
        for first in [
            &b"QUELAUT1"[..],
            b"QUELLRR1",
            b"getabcde",
            b"abcdefgh",
            b"GETABCDE",
            b"\x16\x03\x01\x02\0\x01\0\x01",
        ] {
            assert!(!begins(first), "{first:?}");
        }
    }
}
