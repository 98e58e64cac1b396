//! The DevTools protocol over a pair of pipes: each message is a JSON text that ends with a zero byte.
//!
//! ```text
//!   call ──► {"id":1,"sessionId":…,"method":…,"params":…}\0 ──►  browser
//!   answer ◄── {"id":1,"result":…}\0    event ◄── {"method":…,"params":…}\0
//! ```
//!
//! That is all there is to a message, so no crate speaks it for us (docs/adr/0024). What the browser says is bounded, and each
//! waiting has an end: a time, the bell, or the pipe's own end.

use crate::PageError;
use crate::limits::LIMITS;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, Bell, came, readable, wait, writable};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;

#[derive(Debug, Clone, PartialEq)]
pub struct DevtoolsEvent {
    /// Its name, as `Network.loadingFinished`.
    pub method: String,
    /// The session that it is of; empty for the browser as a whole.
    pub session: String,
    pub params: Value,
}

#[derive(Debug, Clone, Copy)]
pub struct Until<'a> {
    /// Time of the monotonic clock, in nanoseconds.
    pub deadline_ns: u64,
    pub stop: &'a Bell,
}

#[derive(Debug)]
pub struct DevTools {
    to: File,
    from: File,
    /// Readable when the browser has ended. What it started may keep the pipes open.
    ended: OwnedFd,
    alarm: Alarm,
    unread: Vec<u8>,
    /// Up to where `unread` has no end of a message.
    looked: usize,
    told: VecDeque<DevtoolsEvent>,
    next: u64,
}

impl DevTools {
    /// Speaks over these pipes with a process whose end can be waited for.
    pub fn new(to: OwnedFd, from: OwnedFd, ended: OwnedFd) -> Result<Self, PageError> {
        for fd in [&to, &from] {
            let flags = fcntl(fd, FcntlArg::F_GETFL).map(OFlag::from_bits_retain);
            flags
                .and_then(|flags| fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)))
                .map_err(|errno| quell_sys::SysError::new("set up a pipe to a browser", errno))?;
        }
        Ok(Self {
            to: to.into(),
            from: from.into(),
            ended,
            alarm: Alarm::new()?,
            unread: Vec::new(),
            looked: 0,
            told: VecDeque::new(),
            next: 1,
        })
    }

    /// Asks, and waits for the answer; what is told meanwhile is kept.
    pub fn call(
        &mut self,
        session: &str,
        method: &str,
        params: Value,
        until: Until<'_>,
    ) -> Result<Value, PageError> {
        let id = self.post(session, method, params, until)?;
        loop {
            let Some(mut message) = self.message(until)? else {
                return Err(PageError::Silent { method: method.to_owned() });
            };
            if message.get("id").and_then(Value::as_u64) != Some(id) {
                self.keep(message, until)?;
                continue;
            }
            return match message.get_mut("error") {
                Some(error) => {
                    let why = error.get("message").and_then(Value::as_str);
                    let why = why.map_or_else(|| error.to_string(), str::to_owned);
                    Err(PageError::Refused { method: method.to_owned(), why })
                }
                None => Ok(message.get_mut("result").map(Value::take).unwrap_or_default()),
            };
        }
    }

    /// The next thing that the browser tells; none when time is over or the bell rings.
    pub fn next_told(&mut self, until: Until<'_>) -> Result<Option<DevtoolsEvent>, PageError> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Ok(Some(told));
            }
            match self.message(until)? {
                Some(message) => self.keep(message, until)?,
                None => return Ok(None),
            }
        }
    }

    pub fn forget(&mut self) {
        self.told.clear();
    }

    /// Sends a question; the number that its answer will have.
    fn post(
        &mut self,
        session: &str,
        method: &str,
        params: Value,
        until: Until<'_>,
    ) -> Result<u64, PageError> {
        let id = self.next;
        self.next += 1;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !session.is_empty() {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.send(&bytes, method, until)?;
        Ok(id)
    }

    fn keep(&mut self, mut message: Value, until: Until<'_>) -> Result<(), PageError> {
        // An answer that nobody waits for any more is no event.
        let Some(method) = message.get("method").and_then(Value::as_str).map(str::to_owned) else {
            return Ok(());
        };
        let session = message.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        let session = session.to_owned();
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        // Whatever is waited for: until a page has its answer it stands still, and can't be closed.
        if method == "Page.javascriptDialogOpening" {
            return self.refuse(&session, &params, until);
        }
        if self.told.len() >= LIMITS.events {
            return Err(PageError::Nonsense(format!("more than {} events at once", LIMITS.events)));
        }
        self.told.push_back(DevtoolsEvent { method, session, params });
        Ok(())
    }

    /// Answers a question of a page, since nobody is there to do it: no. Whether it may be left is no question without a person either.
    fn refuse(&mut self, session: &str, params: &Value, until: Until<'_>) -> Result<(), PageError> {
        let leaves = params.get("type").and_then(Value::as_str) == Some("beforeunload");
        let params = json!({ "accept": leaves });
        self.post(session, "Page.handleJavaScriptDialog", params, until).map(|_| ())
    }

    fn send(&mut self, mut bytes: &[u8], method: &str, until: Until<'_>) -> Result<(), PageError> {
        while !bytes.is_empty() {
            match self.to.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.alarm.set(Some(until.deadline_ns))?;
                    let mut fds = [writable(&self.to), readable(&self.alarm), readable(until.stop)];
                    wait(&mut fds)?;
                    if !came(&fds[0]) {
                        return Err(PageError::Silent { method: method.to_owned() });
                    }
                }
                Err(_) => return Err(PageError::Gone(String::new())),
            }
        }
        Ok(())
    }

    /// The next message; none when time is over or the bell rings.
    fn message(&mut self, until: Until<'_>) -> Result<Option<Value>, PageError> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if let Some(end) = self.unread[self.looked..].iter().position(|b| *b == 0) {
                let end = self.looked + end;
                let rest = self.unread.split_off(end + 1);
                let text = std::mem::replace(&mut self.unread, rest);
                self.looked = 0;
                let message = serde_json::from_slice::<Value>(&text[..end]);
                return match message {
                    Ok(message) if message.is_object() => Ok(Some(message)),
                    _ => Err(PageError::Nonsense(shown(&text[..end]))),
                };
            }
            self.looked = self.unread.len();
            if self.looked > LIMITS.message {
                return Err(PageError::Nonsense(format!(
                    "a message of more than {} bytes",
                    LIMITS.message
                )));
            }
            if until.stop.rings() || monotonic_ns() >= until.deadline_ns {
                return Ok(None);
            }
            match self.from.read(&mut buffer) {
                Ok(0) => return Err(PageError::Gone(String::new())),
                Ok(got) => self.unread.extend_from_slice(&buffer[..got]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.alarm.set(Some(until.deadline_ns))?;
                    let mut fds = [
                        readable(&self.from),
                        readable(&self.ended),
                        readable(&self.alarm),
                        readable(until.stop),
                    ];
                    wait(&mut fds)?;
                    // What it said before its end is heard first.
                    if came(&fds[1]) && !came(&fds[0]) {
                        return Err(PageError::Gone(String::new()));
                    }
                }
                Err(_) => return Err(PageError::Gone(String::new())),
            }
        }
    }
}

/// The beginning of what is no message.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(80)]);
    format!("{:?}", &*text)
}
