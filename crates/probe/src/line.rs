//! What differs between kinds of probes: how a packet leaves, and how it is known that something came of it.
//!
//! ```text
//!   Line         one stream's socket, whatever it is: send, and what came since
//!   Datagrams    a line whose packets are datagrams; the rest of it is the same for all of them
//! ```

use nix::errno::Errno;
use quell_sys::socket::errors::path_errors;
use quell_sys::socket::{Arrival, Inbox, PathError};
use std::os::fd::BorrowedFd;

/// What a reply says beside its times.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answer {
    pub seq: u64,
    /// The reflector's count.
    pub up_order: Option<u64>,
    /// The reflector's wall clock when it received and when it sent.
    pub reflected_ns: Option<(u64, u64)>,
}

/// When a reply came.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    /// When the kernel received it, by the wall clock; none where it did not say.
    Stamped(Option<u64>),
    /// The kernel measured the round-trip time itself, to a microsecond; `seen_ns` is when we saw the reply, by the monotonic clock.
    Measured { rtt_ns: Option<u64>, seen_ns: u64 },
}

/// What became of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seen {
    /// It was answered.
    Reply { answer: Answer, when: When },
    /// An error came back.
    Failed(u64),
}

/// One stream's socket.
pub(crate) trait Line {
    /// What is readable when something came.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Sends packet `seq`; `sent_ns` is the wall clock now.
    fn send(&mut self, seq: u64, sent_ns: u64) -> Result<(), Errno>;
    /// Takes what came; whether there may be more. `next` is the first number not sent yet.
    fn receive(&mut self, inbox: &mut Inbox, next: u64, seen: &mut Vec<Seen>) -> bool;
    /// Takes the errors that came back.
    fn errors(&mut self, next: u64, seen: &mut Vec<Seen>);
    /// All packets before `seq` are settled.
    fn settled(&mut self, _seq: u64) {}
    /// What is to be known of the stream beside its rows, as key and value.
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// A line whose packets are datagrams.
pub(crate) trait Datagrams {
    fn fd(&self) -> BorrowedFd<'_>;
    /// Sends packet `seq`; `sent_ns` is the wall clock now.
    fn send(&mut self, seq: u64, sent_ns: u64) -> Result<(), Errno>;
    /// Reads what came; none when it is not a reply of this stream.
    fn read(&mut self, arrival: &Arrival, bytes: &[u8], next: u64) -> Option<Answer>;
    /// Which packet an error is about.
    fn blamed(&self, error: &PathError, next: u64) -> Option<u64>;
}

impl<D: Datagrams> Line for D {
    fn fd(&self) -> BorrowedFd<'_> {
        Datagrams::fd(self)
    }

    fn send(&mut self, seq: u64, sent_ns: u64) -> Result<(), Errno> {
        Datagrams::send(self, seq, sent_ns)
    }

    fn receive(&mut self, inbox: &mut Inbox, next: u64, seen: &mut Vec<Seen>) -> bool {
        let Ok(got) = inbox.receive(Datagrams::fd(self)) else {
            // The error itself stands in the queue, with its packet; datagrams behind it make the socket readable again.
            self.errors(next, seen);
            return false;
        };
        for (arrival, bytes) in inbox.iter() {
            if let Some(answer) = self.read(arrival, bytes, next) {
                seen.push(Seen::Reply { answer, when: When::Stamped(arrival.stamp_ns) });
            }
        }
        got == inbox.capacity()
    }

    fn errors(&mut self, next: u64, seen: &mut Vec<Seen>) {
        for error in path_errors(Datagrams::fd(self)) {
            seen.extend(self.blamed(&error, next).map(Seen::Failed));
        }
    }
}
