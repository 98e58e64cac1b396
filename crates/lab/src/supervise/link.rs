//! The link to an agent, and the one that is used: a child of ours, where commands go into its standard input and messages come from its
//! standard output.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use quell_model::frame::{self, Decoder, FrameError};
use quell_model::{Command, Said};
use quell_sys::SysError;
use quell_sys::backlog::Backlog;
use quell_sys::clock::monotonic_ns;
use quell_sys::last_words::LastWords;
use quell_sys::wait::{Alarm, Bell, came, readable, wait as sys_wait, writable};
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout};

/// What came over a link since it was last attended to.
#[derive(Debug, Default)]
pub(super) struct Came {
    /// Messages, in the order in which they came.
    pub said: Vec<Said>,
    /// Why nothing will come any more, once that is so.
    pub over: Option<String>,
}

/// A link to one agent. Nothing here waits: who waits for whom is the caller's.
pub(super) trait Link {
    /// Sends a command, now or as soon as there is room. That the agent is gone is told by [`Link::attend`].
    fn send(&mut self, command: &Command) -> Result<(), FrameError>;
    fn finish(&mut self);
    /// Passes on what waits to be sent, and takes what came.
    fn attend(&mut self) -> Came;
    /// The agent's monotonic clock less ours, in nanoseconds.
    fn offset_ns(&self) -> i64;
}

/// How far an agent's clock is ahead of ours, from one question and its answer: the clock was read somewhere between both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    pub offset_ns: i64,
    /// It is no more wrong than this.
    pub bound_ns: u64,
}

impl ClockReading {
    fn of(asked_ns: u64, theirs_ns: u64, heard_ns: u64) -> Self {
        let bound_ns = heard_ns.saturating_sub(asked_ns).div_ceil(2);
        let ours = asked_ns.saturating_add(bound_ns);
        Self { offset_ns: theirs_ns.wrapping_sub(ours) as i64, bound_ns }
    }
}

/// The pipes to and from one agent.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    /// What the agent did not read yet. It is told three things, so this is bounded.
    waiting: Backlog,
    finished: bool,
    output: Option<ChildStdout>,
    decoder: Decoder,
    words: LastWords,
    /// Its clock, of the exchange that took least, before the start and after it.
    pub clock: [Option<ClockReading>; 2],
    started: bool,
}

impl Process {
    /// Its input and output are pipes.
    pub fn new(mut child: Child) -> Result<Self, SysError> {
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let words = LastWords::of(child.stderr.take())
            .map_err(|e| SysError::io("not wait for what an agent says of errors", &e))?;
        if let Some(input) = &input {
            // An agent that reads nothing holds nobody up.
            fcntl(input, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|errno| {
                SysError::new("not wait for an agent that reads nothing", errno)
            })?;
        }
        Ok(Self {
            child,
            input,
            waiting: Backlog::default(),
            finished: false,
            output,
            decoder: Decoder::new(),
            words,
            clock: [None; 2],
            started: false,
        })
    }

    /// Ends it, if it did not end by itself.
    pub fn dismiss(&mut self) {
        self.input = None;
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // It may have gone in between; then there is nothing to end.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn pass_on(&mut self) {
        if let Some(input) = &mut self.input
            && self.waiting.pass_on(input).is_err()
        {
            // It is gone. What it said last is still in its output, and then the output's end.
            self.input = None;
        }
        if self.finished && self.waiting.is_empty() {
            self.input = None;
        }
    }

    /// Nothing comes any more, for this reason if its end does not tell a better one.
    fn over(&mut self, why: Option<String>) -> Option<String> {
        self.input = None;
        self.output = None;
        self.words.read();
        if self.words.pipe().is_some() {
            // ssh closes its output a moment before it tells how the program at the other end ended.
            let ended = quell_sys::pidfd::open(self.child.id());
            let soon = TimeSpec::new(1, 0);
            let _ = ended.map(|fd| ppoll(&mut [readable(&fd)], Some(soon), None));
        }
        // It has ended, and then this changes nothing; or it only closed its output, and nobody hears it any more.
        let _ = self.child.kill();
        let status = self.child.wait();
        self.words.read();
        let words = self.words.last().lines().collect::<Vec<_>>().join("; ");
        let said = if words.is_empty() { words } else { format!(": {words}") };
        let why = why.unwrap_or_else(|| match &status {
            Ok(status) if status.success() => "its agent ended before it".to_string(),
            Ok(status) => format!("its agent died: {status}"),
            Err(error) => format!("its agent is lost: {error}"),
        });
        Some(why + &said)
    }
}

impl Link for Process {
    fn send(&mut self, command: &Command) -> Result<(), FrameError> {
        self.started |= matches!(command, Command::Start { .. });
        self.waiting.push(&frame::encode(command)?);
        self.pass_on();
        Ok(())
    }

    fn finish(&mut self) {
        self.finished = true;
        self.pass_on();
    }

    fn attend(&mut self) -> Came {
        self.pass_on();
        self.words.read();
        let mut came = Came::default();
        let Some(output) = self.output.as_mut() else { return came };
        // What waits for room to write may be all that there is.
        let mut fds = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
        if ppoll(&mut fds, Some(TimeSpec::new(0, 0)), None) == Ok(0) {
            return came;
        }
        let mut buffer = vec![0; 64 * 1024];
        let heard_ns = monotonic_ns();
        let count = match output.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return came,
            read => read.unwrap_or(0),
        };
        if count == 0 {
            came.over = self.over(None);
            return came;
        }
        self.decoder.push(&buffer[..count]);
        loop {
            match self.decoder.next_value() {
                Ok(Some(said)) => {
                    if let Said::Clock { asked_ns, monotonic_ns } = said {
                        let clock = &mut self.clock[usize::from(self.started)];
                        let reading = ClockReading::of(asked_ns, monotonic_ns, heard_ns);
                        let better = |known: ClockReading| reading.bound_ns < known.bound_ns;
                        if clock.is_none_or(better) {
                            *clock = Some(reading);
                        }
                    }
                    came.said.push(said);
                }
                Ok(None) => return came,
                Err(error) => {
                    came.over = self.over(Some(format!("its agent can't be understood: {error}")));
                    return came;
                }
            }
        }
    }

    fn offset_ns(&self) -> i64 {
        self.clock[0].map_or(0, |clock| clock.offset_ns)
    }
}

/// Waits until something came over a link, one that was full has room, the time is there, or it is to stop; which links are to be attended to.
/// Changes of the network are due at such times, so that they are kept to the nanosecond.
pub(super) fn wait(
    links: &[Process],
    alarm: &mut Alarm,
    stop: Option<&Bell>,
    until: u64,
) -> Result<Vec<usize>, SysError> {
    // Zero is the past, as any other.
    alarm.set(Some(until))?;
    let mut fds = vec![readable(&*alarm)];
    fds.extend(stop.map(readable));
    let first = fds.len();
    let mut of = Vec::new();
    for (index, link) in links.iter().enumerate() {
        if let Some(output) = &link.output {
            fds.push(readable(output));
            of.push(index);
        }
        if let Some(input) = link.input.as_ref().filter(|_| !link.waiting.is_empty()) {
            fds.push(writable(input));
            of.push(index);
        }
        if let Some(words) = link.words.pipe() {
            fds.push(readable(words));
            of.push(index);
        }
    }
    sys_wait(&mut fds)?;
    let mut ready: Vec<usize> =
        of.iter().zip(&fds[first..]).filter(|(_, fd)| came(fd)).map(|(index, _)| *index).collect();
    ready.dedup();
    Ok(ready)
}
