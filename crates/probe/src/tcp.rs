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
//! may be no answer to the first exchange. [`Retries`] tells whether that was lost. If so the connect counts as lost, which way is unknown,
//! and its time, that of the kernel's timer, is told apart. Where nobody can know, it is no loss.
//!
//! Where the connection came about the kernel measured the time itself, from SYN to answer, in whole microseconds (`tcpi_rtt`); a
//! refusal is timed by when we saw it.

use crate::options::check_interval;
use crate::prober::{Driver, ProbeStream, StreamSpec};
use crate::retry::{First, Retries};
use crate::stream_socket::{Answer, Seen, StreamSocket, When};
use crate::{Emit, Options, ProbeError};
use nix::errno::Errno;
use quell_model::Told;
use quell_model::task::TcpPingStream;
use quell_stats::Rng;
use quell_sys::pace::Window;
use quell_sys::socket::Inbox;
use quell_sys::socket::attempts::{Attempts, End, Ended};
use quell_sys::wait::Bell;
use quell_units::Span;
use std::os::fd::{AsFd, BorrowedFd};

/// Attempts that may be open at once: file descriptors are few.
const MOST_OPEN: u64 = 500;

/// A task of TCP connects that is ready to start.
#[derive(Debug)]
pub struct TcpPing {
    streams: Vec<(TcpPingStream, Options, ConnectSocket)>,
    flush: Span,
    seed: u64,
}

#[derive(Debug)]
struct ConnectSocket {
    attempts: Attempts,
    /// Where the ends are put before they are read.
    ended: Vec<Ended>,
    oldest: u64,
    open: u64,
    refused: u64,
    retries: Retries,
    retried: Retried,
}

/// Connects that came about after their SYN was sent again.
#[derive(Debug, Default)]
struct Retried {
    /// Those whose first exchange was lost, and the shortest and longest of them in nanoseconds.
    count: u64,
    least_ns: u64,
    most_ns: u64,
    /// Those that count as answered although the first answer may have been lost.
    unsure: u64,
    /// Those that don't count.
    unknown: u64,
}

impl Retried {
    fn push(&mut self, ns: u64) {
        self.least_ns = if self.count == 0 { ns } else { self.least_ns.min(ns) };
        self.most_ns = self.most_ns.max(ns);
        self.count += 1;
    }
}

impl TcpPing {
    /// Makes ready. Errors when a parameter can't be.
    pub fn prepare(streams: &[TcpPingStream], seed: u64) -> Result<Self, ProbeError> {
        let plain: Vec<_> = streams.iter().map(|s| (s.clone(), Options::default())).collect();
        Self::open(&plain, seed)
    }

    /// The same, with wishes for each stream.
    pub fn open(streams: &[(TcpPingStream, Options)], seed: u64) -> Result<Self, ProbeError> {
        let streams = streams.iter().map(|(stream, options)| {
            check_interval(&stream.stream, stream.interval)?;
            let attempts = Attempts::new(stream.to, stream.tos.byte(), options.way.clone())?;
            let line = ConnectSocket {
                attempts,
                ended: Vec::new(),
                oldest: 0,
                open: 0,
                refused: 0,
                retries: Retries::default(),
                retried: Retried::default(),
            };
            Ok((stream.clone(), options.clone(), line))
        });
        let streams = streams.collect::<Result<_, ProbeError>>()?;
        Ok(Self { streams, flush: crate::options::FLUSH, seed })
    }

    /// Rows are handed on so often, instead of each second.
    pub fn flushing_every(self, flush: Span) -> Self {
        Self { flush, ..self }
    }

    /// Runs it: connects from the window's start on, ends by itself when every answer came or was waited for.
    pub fn run(self, window: &Window, stop: &Bell, emit: Emit<'_>) -> Result<(), ProbeError> {
        let rng = Rng::new(self.seed);
        let streams = self.streams.into_iter().map(|(stream, options, line)| {
            let spec = StreamSpec {
                interval_ns: stream.interval.nanos(),
                patience: options.patience(stream.linger, stream.interval),
                size: 0,
                seed: rng.derive(&stream.stream).derive("pace").u64(),
                count: options.count,
                name: stream.stream,
            };
            ProbeStream::new(spec, line, window)
        });
        let streams = streams.collect::<Result<_, _>>()?;
        Driver { streams, largest: 1, flush: self.flush }.run(window, stop, emit)
    }
}

impl ConnectSocket {
    fn read(&mut self, ended: Ended) -> Option<Seen> {
        match ended.end {
            End::Open | End::Refused if ended.repeated > 0 => {
                let took_ns = ended.seen_ns.saturating_sub(ended.begun_ns);
                match self.retries.judge(ended.begun_ns, took_ns, ended.is_answer_to_first()) {
                    First::Answered => {}
                    First::Unsure => self.retried.unsure += 1,
                    First::Lost => {
                        self.retried.push(took_ns);
                        return None;
                    }
                    First::Unknown => {
                        self.retried.unknown += 1;
                        return Some(Seen::Abandoned { seq: ended.id });
                    }
                }
                match ended.end {
                    End::Open => self.open += 1,
                    _ => self.refused += 1,
                }
            }
            End::Open => self.open += 1,
            End::Refused => self.refused += 1,
            // The kernel sent it again and again, and gave up.
            End::Failed(Errno::ETIMEDOUT) => return None,
            End::Failed(errno) => return Some(Seen::Failed { seq: ended.id, errno }),
        }
        if ended.repeated == 0 {
            let took_ns = ended.seen_ns.saturating_sub(ended.begun_ns);
            self.retries.certain(ended.begun_ns, ended.rtt_ns.unwrap_or(took_ns));
        }
        let answer = Answer { seq: ended.id, ..Answer::default() };
        let when = When::Measured { rtt_ns: ended.rtt_ns, seen_ns: ended.seen_ns };
        Some(Seen::Reply { answer, when })
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
        seen: &mut Vec<Seen>,
    ) -> Result<Option<u64>, Errno> {
        // Where nobody answers and they come fast, the oldest make room.
        let room = seq.saturating_sub(MOST_OPEN);
        if room > self.oldest {
            self.oldest = room;
            let abandoned = self.attempts.give_up_before(room);
            seen.extend(abandoned.into_iter().map(|seq| Seen::Abandoned { seq }));
        }
        self.attempts.begin(seq).map(|()| None)
    }

    fn receive(&mut self, _inbox: &mut Inbox, _next: u64, seen: &mut Vec<Seen>) -> bool {
        let mut ended = std::mem::take(&mut self.ended);
        let more = self.attempts.ended(&mut ended);
        seen.extend(ended.drain(..).filter_map(|ended| self.read(ended)));
        self.ended = ended;
        more
    }

    fn errors(&mut self, _next: u64, _seen: &mut Vec<Seen>) {}

    fn settled(&mut self, seq: u64) {
        if seq > self.oldest {
            self.oldest = seq;
            self.attempts.give_up_before(seq);
        }
    }

    fn facts(&self) -> Vec<(Told, String)> {
        let answers = format!("{{\"open\":{},\"refused\":{}}}", self.open, self.refused);
        let Retried { count, least_ns, most_ns, unsure, unknown } = self.retried;
        let retried = (count + unsure + unknown > 0).then(|| {
            let times = format!("\"least_ns\":{least_ns},\"most_ns\":{most_ns}");
            let others = format!("\"unsure\":{unsure},\"unknown\":{unknown}");
            (Told::Retried, format!("{{\"count\":{count},{times},{others}}}"))
        });
        [(Told::Answers, answers)].into_iter().chain(retried).collect()
    }
}
