//! TCP connects: how long until the other end answers a SYN. Each packet of the stream is one attempt to connect, given up with a
//! reset as soon as it is answered.
//!
//! ```text
//!   SYN ──► SYN+ACK      somebody listens: an answer
//!   SYN ──► RST          nobody does: an answer too, the host is there
//!   SYN ──► nothing      lost, also where only a SYN that the kernel sent again was answered, a second later
//! ```
//!
//! A SYN that was lost and an answer that was lost look alike from here: the kernel sends its SYN again after a second, and what answers then
//! may be no answer to the first exchange. [`ConnectTimes`] tells whether that was lost. If so the connect counts as lost, which way is unknown,
//! and its time, that of the kernel's timer, is told apart. Where nobody can know, it is unsure: neither its loss nor its time counts as
//! known. It is decided when no answer would be waited for any more, since later connects tell how long one takes. What was given up stays open for
//! a while: its answer shows that the path is slower, and makes it late or unsure, not lost.
//!
//! Where the connection came about the kernel measured the time itself, from SYN to answer, in whole microseconds (`tcpi_rtt`); a
//! refusal is timed by when we saw it.

use crate::options::check_interval;
use crate::prober::{Prober, StreamSpec};
use crate::retry::{Connect, ConnectTimes, FirstSyn};
use crate::stream_socket::{EchoAnswer, SocketEvent, StreamSocket, When};
use crate::{ProbeError, ProbeOptions};
use nix::errno::Errno;
use quell_model::Told;
use quell_model::task::TcpPingStream;
use quell_stats::Rng;
use quell_sys::socket::Inbox;
use quell_sys::socket::attempts::{AttemptEnd, Attempts, EndedAttempt};
use std::os::fd::{AsFd, BorrowedFd};

/// Attempts that may be open at once: file descriptors are few.
const MOST_OPEN: u64 = 500;
/// Of all streams, those that stay open after they were given up: an answer that comes then shows how slow the path is.
const MOST_LATE: u64 = 256;

#[derive(Debug)]
struct ConnectSocket {
    attempts: Attempts,
    ended: Vec<EndedAttempt>,
    oldest: u64,
    settled: u64,
    /// So many stay open after they were given up.
    most_late: u64,
    open: u64,
    refused: u64,
    times: ConnectTimes,
    retried: Retried,
    /// Those that were answered after their SYN was sent again, as they came, until it is decided what that means.
    undecided: Vec<Undecided>,
    arrived: u64,
}

/// A connect that was answered after its SYN was sent again.
#[derive(Debug)]
struct Undecided {
    ended: EndedAttempt,
    connect: Connect,
    order: u64,
}

/// Connects that came about after their SYN was sent again.
#[derive(Debug, Default)]
struct Retried {
    /// Those whose first exchange was lost, and the shortest and longest of them in nanoseconds.
    count: u64,
    least_ns: u64,
    most_ns: u64,
    /// Those of which nobody can know whether the first exchange was lost.
    unsure: u64,
}

impl Retried {
    fn push(&mut self, ns: u64) {
        self.least_ns = if self.count == 0 { ns } else { self.least_ns.min(ns) };
        self.most_ns = self.most_ns.max(ns);
        self.count += 1;
    }
}

/// Makes these streams ready. Errors when a parameter can't be.
pub fn open(streams: &[(TcpPingStream, ProbeOptions)], seed: u64) -> Result<Prober, ProbeError> {
    let rng = Rng::new(seed);
    let most_late = MOST_LATE / (streams.len() as u64).max(1);
    let streams = streams.iter().map(|(stream, options)| {
        check_interval(&stream.stream, stream.interval)?;
        let attempts = Attempts::new(stream.to, stream.tos.byte(), options.way.clone())?;
        let line: Box<dyn StreamSocket + Send> = Box::new(ConnectSocket {
            attempts,
            ended: Vec::new(),
            oldest: 0,
            settled: 0,
            most_late,
            open: 0,
            refused: 0,
            times: ConnectTimes::default(),
            retried: Retried::default(),
            undecided: Vec::new(),
            arrived: 0,
        });
        let spec = StreamSpec {
            name: stream.stream.clone(),
            interval_ns: stream.interval.nanos(),
            patience: options.patience(stream.linger, stream.interval),
            size: 0,
            seed: rng.derive(&stream.stream).derive("pace").u64(),
            count: options.count,
            delay: options.delay,
        };
        Ok((spec, line))
    });
    Ok(Prober::new(streams.collect::<Result<_, ProbeError>>()?, 1))
}

impl ConnectSocket {
    fn read(&mut self, ended: EndedAttempt) -> Option<SocketEvent> {
        match ended.end {
            AttemptEnd::Open | AttemptEnd::Refused => {}
            // The kernel sent it again and again, and gave up.
            AttemptEnd::Failed(Errno::ETIMEDOUT) => return None,
            AttemptEnd::Failed(errno) => {
                return Some(SocketEvent::Failed { seq: ended.id, errno, from_path: false });
            }
        }
        let order = self.arrived;
        self.arrived += 1;
        if ended.repeated == 0 {
            let took_ns = ended.seen_ns.saturating_sub(ended.begun_ns);
            self.times.certain(ended.begun_ns, ended.rtt_ns.unwrap_or(took_ns));
            return Some(self.reply(&ended, order));
        }
        let took_ns = ended.seen_ns.saturating_sub(ended.begun_ns);
        let is_to_first = ended.is_answer_to_first();
        let connect = Connect { begun_ns: ended.begun_ns, took_ns, is_to_first };
        self.times.again(&connect);
        self.undecided.push(Undecided { ended, connect, order });
        // An answer to a later SYN tells nothing of how long one takes.
        connect.may_be_to_first().then_some(SocketEvent::Undecided { took_ns })
    }

    fn reply(&mut self, ended: &EndedAttempt, order: u64) -> SocketEvent {
        match ended.end {
            AttemptEnd::Open => self.open += 1,
            _ => self.refused += 1,
        }
        let answer = EchoAnswer { seq: ended.id, down_order: Some(order), ..EchoAnswer::default() };
        let when = When::Measured { rtt_ns: ended.rtt_ns, seen_ns: ended.seen_ns };
        SocketEvent::Reply { answer, when }
    }

    fn decided(&mut self, undecided: &Undecided) -> SocketEvent {
        let (seq, took_ns) = (undecided.ended.id, undecided.connect.took_ns);
        match self.times.judge(&undecided.connect) {
            FirstSyn::Answered => self.reply(&undecided.ended, undecided.order),
            FirstSyn::Lost => {
                self.retried.push(took_ns);
                SocketEvent::Lost { seq }
            }
            FirstSyn::Unsure => {
                self.retried.unsure += 1;
                let took_ns = undecided.connect.may_be_to_first().then_some(took_ns);
                SocketEvent::Unsure { seq, took_ns }
            }
        }
    }
}

impl StreamSocket for ConnectSocket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.attempts.as_fd()
    }

    fn send(
        &mut self,
        seq: u64,
        _sent_ns: u64,
        seen: &mut Vec<SocketEvent>,
    ) -> Result<Option<u64>, Errno> {
        // Where nobody answers and they come fast, the oldest make room.
        let room = seq.saturating_sub(MOST_OPEN);
        if room > self.oldest {
            self.oldest = room;
            let abandoned = self.attempts.give_up_before(room);
            seen.extend(abandoned.into_iter().map(|seq| SocketEvent::Abandoned { seq }));
        }
        self.attempts.begin(seq).map(|()| None)
    }

    fn receive(&mut self, _inbox: &mut Inbox, _next: u64, seen: &mut Vec<SocketEvent>) -> bool {
        let mut ended = std::mem::take(&mut self.ended);
        let more = self.attempts.ended(&mut ended);
        seen.extend(ended.drain(..).filter_map(|ended| self.read(ended)));
        self.ended = ended;
        more
    }

    fn errors(&mut self, _next: u64, _seen: &mut Vec<SocketEvent>) {}

    fn decide(&mut self, seq: u64, now_ns: u64, seen: &mut Vec<SocketEvent>) {
        let settled = self.settled;
        let is_due = |u: &Undecided| {
            // What was answered after it had been given up is waited with as long again: by then those behind it that tell of it are answered.
            let is_told_of = u.ended.id >= settled || u.ended.seen_ns + u.connect.took_ns <= now_ns;
            u.ended.id < seq && is_told_of || seq == u64::MAX
        };
        if !self.undecided.iter().any(is_due) {
            return;
        }
        let all = std::mem::take(&mut self.undecided);
        let (due, open) = all.into_iter().partition(is_due);
        self.undecided = open;
        let due: Vec<Undecided> = due;
        seen.extend(due.iter().map(|undecided| self.decided(undecided)));
    }

    fn undecided(&self) -> usize {
        self.undecided.iter().filter(|u| u.ended.id >= self.settled).count()
    }

    fn settled(&mut self, seq: u64) {
        self.settled = seq;
        let oldest = seq.saturating_sub(self.most_late);
        if oldest > self.oldest {
            self.oldest = oldest;
            self.attempts.give_up_before(oldest);
        }
    }

    fn facts(&self) -> Vec<(Told, String)> {
        let answers = format!("{{\"open\":{},\"refused\":{}}}", self.open, self.refused);
        let Retried { count, least_ns, most_ns, unsure } = self.retried;
        let retried = (count + unsure > 0).then(|| {
            let times = format!("\"least_ns\":{least_ns},\"most_ns\":{most_ns}");
            (Told::Retried, format!("{{\"count\":{count},{times},\"unsure\":{unsure}}}"))
        });
        [(Told::Answers, answers)].into_iter().chain(retried).collect()
    }
}
