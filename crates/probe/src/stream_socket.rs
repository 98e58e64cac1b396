//! What differs between kinds of probes: how a packet leaves, and how it is known that something came of it.
//!
//! ```text
//!   StreamSocket         one stream's socket, whatever it is: send, and what came since
//!   Datagrams    what differs between lines whose packets are datagrams
//!   Observed     what is the same for all of them: when packets really leave and come
//! ```

use crate::send_stamps::Departures;
use nix::errno::Errno;
use quell_sys::clock::is_virtual;
use quell_sys::socket::errors::{Departure, ErrorQueueEntry, Stage};
use quell_sys::socket::option::observe_departures;
use quell_sys::socket::{Arrival, ErrorQueue, Inbox, PathError};
use std::os::fd::BorrowedFd;

/// What one reading of the wall clock may be off another, measured through the monotonic one.
pub(crate) const CLOCKS_APART_NS: u64 = 20_000;

/// What a reply says beside its times.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EchoAnswer {
    pub seq: u64,
    pub up_order: Option<u64>,
    /// The reflector's wall clock when it received and when it sent.
    pub reflected_ns: Option<(u64, u64)>,
    /// Whether that clock is another than ours.
    pub is_apart: bool,
    /// Its place in the order of arrival, where it is told later than it came.
    pub down_order: Option<u64>,
}

impl EchoAnswer {
    /// One-way delays of a packet that was sent and came back at these times of our wall clock. None where the reflector's times
    /// can't be: it sent before it received, took longer than all of it, or, by the clock that is ours too, was not in between.
    pub fn delays(&self, sent_ns: u64, back_ns: u64) -> Option<(i64, i64)> {
        self.held_within(back_ns.saturating_sub(sent_ns))?;
        let (there, from_there) = self.reflected_ns?;
        let delays = (there as i64 - sent_ns as i64, back_ns as i64 - from_there as i64);
        let least = -(CLOCKS_APART_NS as i64);
        (self.is_apart || delays.0.min(delays.1) >= least).then_some(delays)
    }

    /// How long the reflector had it, of all the time that it was away. None where it does not say, or that can't be.
    pub fn held_within(&self, away_ns: u64) -> Option<u64> {
        let (there, from_there) = self.reflected_ns?;
        from_there.checked_sub(there).filter(|held| *held <= away_ns)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    /// When the kernel received it, by the wall clock, and how long the device's clock counted between departure and arrival; none
    /// where they did not say.
    Stamped { stamp_ns: Option<u64>, wire_ns: Option<u64> },
    /// The kernel measured the round-trip time itself, to a microsecond; `seen_ns` is when we saw the reply, by the monotonic clock.
    Measured { rtt_ns: Option<u64>, seen_ns: u64 },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum SocketEvent {
    Reply {
        answer: EchoAnswer,
        when: When,
    },
    /// An error came back; from the path, which anybody may have sent, or else for good.
    Failed {
        seq: u64,
        errno: Errno,
        from_path: bool,
    },
    /// It left this host, after so long in its own queue.
    Left {
        seq: u64,
        queued_ns: u64,
    },
    /// There was no room to wait any longer for what becomes of it.
    Abandoned {
        seq: u64,
    },
    /// An answer came after so long; to what will be decided later.
    Undecided {
        took_ns: u64,
    },
    /// It is lost, although an answer came.
    Lost {
        seq: u64,
    },
    /// It was answered, and nobody can know whether it was lost before; after so long, where the answer may be to what was sent first.
    Unsure {
        seq: u64,
        took_ns: Option<u64>,
    },
}

pub(crate) trait StreamSocket {
    /// What is readable when something came.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Sends packet `seq`; `sent_ns` is the wall clock now. When the kernel had it before its queue, by the wall clock, where it says
    /// so at once.
    fn send(
        &mut self,
        seq: u64,
        sent_ns: u64,
        seen: &mut Vec<SocketEvent>,
    ) -> Result<Option<u64>, Errno>;
    /// Takes what came; whether there may be more. `next` is the first number not sent yet.
    fn receive(&mut self, inbox: &mut Inbox, next: u64, seen: &mut Vec<SocketEvent>) -> bool;
    /// Takes the errors that came back.
    fn errors(&mut self, next: u64, seen: &mut Vec<SocketEvent>);
    /// Decides what became of packets before `seq` that were answered by now, and of which it was not clear.
    fn decide(&mut self, _seq: u64, _now_ns: u64, _seen: &mut Vec<SocketEvent>) {}
    /// Packets that are not settled of which that is not decided.
    fn undecided(&self) -> usize {
        0
    }
    /// All packets before `seq` are settled.
    fn settled(&mut self, _seq: u64) {}
    /// What is to be known of the stream beside its rows, as key and value.
    fn facts(&self) -> Vec<(quell_model::Told, String)> {
        Vec::new()
    }
}

/// Times that a socket is read before it is looked at the clock and at what is to be sent: it may never be empty.
pub(crate) const MOST_BATCHES: usize = 256;

/// A line whose packets are datagrams.
pub(crate) trait Datagrams {
    fn fd(&self) -> BorrowedFd<'_>;
    /// Sends packet `seq`; `sent_ns` is the wall clock now.
    fn send(&mut self, seq: u64, sent_ns: u64) -> Result<(), Errno>;
    /// Reads what came; none when it is not a reply of this stream.
    fn read(&mut self, arrival: &Arrival, bytes: &[u8], next: u64) -> Option<EchoAnswer>;
    /// What is to be known of the stream beside its rows, as key and value.
    fn facts(&self) -> Vec<(quell_model::Told, String)> {
        Vec::new()
    }
    /// Which packet an error is about.
    fn blamed(&self, error: &PathError, next: u64) -> Option<u64>;
}

/// A datagram socket whose departures are observed.
pub(crate) struct Observed<D> {
    line: D,
    queue: ErrorQueue,
    departures: Departures,
    is_stamped: bool,
}

impl<D: Datagrams + Send + 'static> Observed<D> {
    /// Where the kernel has no such stamps, sending is timed by the caller.
    pub fn boxed(line: D) -> Box<dyn StreamSocket + Send> {
        // In virtual time nothing passes between this program's look at the clock and the kernel's, and stamps cost two calls a packet.
        let is_stamped = !is_virtual() && observe_departures(line.fd()).is_ok();
        let (queue, departures) = (ErrorQueue::default(), Departures::default());
        Box::new(Self { line, queue, departures, is_stamped })
    }
}

impl<D: Datagrams> Observed<D> {
    /// Takes what the kernel tells: what is seen of it, and the last time that a packet came to the queue, with its number there.
    fn told(
        &mut self,
        next: u64,
        seen: &mut Vec<SocketEvent>,
        sending: Option<(u64, u64)>,
    ) -> Option<u64> {
        let mut at_queue = None;
        let Self { line, queue, departures, .. } = self;
        queue.take(line.fd(), |told| match told {
            ErrorQueueEntry::Error(error) => {
                let (errno, from_path) = (error.errno, error.from_path);
                let seq = line.blamed(&error, next);
                seen.extend(seq.map(|seq| SocketEvent::Failed { seq, errno, from_path }));
            }
            ErrorQueueEntry::Sent(Departure { id, stage: Stage::Queue, stamp_ns }) => {
                // What was held up on its way to the queue, until an address was resolved, comes later: we timed it.
                if let Some((seq, _)) = sending.filter(|(_, from_ns)| stamp_ns >= *from_ns) {
                    departures.at_queue(id, seq, stamp_ns);
                    at_queue = Some(stamp_ns);
                }
            }
            ErrorQueueEntry::Sent(Departure { id, stage: Stage::Driver, stamp_ns }) => {
                let left = departures.at_driver(id, stamp_ns);
                seen.extend(left.map(|(seq, queued_ns)| SocketEvent::Left { seq, queued_ns }));
            }
            ErrorQueueEntry::Sent(Departure { id, stage: Stage::Hardware, stamp_ns }) => {
                departures.on_wire(id, stamp_ns);
            }
        });
        at_queue
    }
}

impl<D: Datagrams> StreamSocket for Observed<D> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.line.fd()
    }

    fn send(
        &mut self,
        seq: u64,
        sent_ns: u64,
        seen: &mut Vec<SocketEvent>,
    ) -> Result<Option<u64>, Errno> {
        self.line.send(seq, sent_ns)?;
        if !self.is_stamped {
            return Ok(None);
        }
        Ok(self.told(seq + 1, seen, Some((seq, sent_ns.saturating_sub(CLOCKS_APART_NS)))))
    }

    fn receive(&mut self, inbox: &mut Inbox, next: u64, seen: &mut Vec<SocketEvent>) -> bool {
        let Ok(got) = inbox.receive(self.line.fd()) else {
            // The error itself stands in the queue, with its packet; datagrams behind it make the socket readable again.
            self.errors(next, seen);
            return false;
        };
        for (arrival, bytes) in inbox.iter() {
            let Some(answer) = self.line.read(arrival, bytes, next) else { continue };
            let left = || self.departures.wire_ns(answer.seq);
            let wire_ns = arrival.hardware_ns.and_then(|came| came.checked_sub(left()?));
            let when = When::Stamped { stamp_ns: arrival.stamp_ns, wire_ns };
            seen.push(SocketEvent::Reply { answer, when });
        }
        got == inbox.capacity()
    }

    fn errors(&mut self, next: u64, seen: &mut Vec<SocketEvent>) {
        self.told(next, seen, None);
    }

    fn facts(&self) -> Vec<(quell_model::Told, String)> {
        self.line.facts()
    }
}
