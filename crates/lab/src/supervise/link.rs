//! The link to an agent, and the one that is used: a child of ours, where commands go into its standard input and messages come from its
//! standard output.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use quell_model::frame::{self, Decoder, FrameError};
use quell_model::{Command, Said};
use quell_sys::SysError;
use quell_sys::backlog::Backlog;
use quell_sys::wait::{Alarm, came, readable, wait as sys_wait, writable};
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
}

impl Process {
    /// Its input and output are pipes.
    pub fn new(mut child: Child) -> Result<Self, SysError> {
        let (input, output) = (child.stdin.take(), child.stdout.take());
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
        // It has ended, and then this changes nothing; or it only closed its output, and nobody hears it any more.
        let _ = self.child.kill();
        let status = self.child.wait();
        Some(why.unwrap_or_else(|| match &status {
            Ok(status) if status.success() => "its agent ended before it".to_string(),
            Ok(status) => format!("its agent died: {status}"),
            Err(error) => format!("its agent is lost: {error}"),
        }))
    }
}

impl Link for Process {
    fn send(&mut self, command: &Command) -> Result<(), FrameError> {
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
        let mut came = Came::default();
        let Some(output) = self.output.as_mut() else { return came };
        // What waits for room to write may be all that there is.
        let mut fds = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
        if ppoll(&mut fds, Some(TimeSpec::new(0, 0)), None) == Ok(0) {
            return came;
        }
        let mut buffer = vec![0; 64 * 1024];
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
                Ok(Some(said)) => came.said.push(said),
                Ok(None) => return came,
                Err(error) => {
                    came.over = self.over(Some(format!("its agent can't be understood: {error}")));
                    return came;
                }
            }
        }
    }

    fn offset_ns(&self) -> i64 {
        0
    }
}

/// Waits until something came over a link, one that was full has room, or the time is there; which links are to be attended to. Changes of the
/// network are due at such times, so that they are kept to the nanosecond.
pub(super) fn wait(
    links: &[Process],
    alarm: &mut Alarm,
    until: u64,
) -> Result<Vec<usize>, SysError> {
    // Zero is the past, as any other.
    alarm.set(Some(until))?;
    let mut fds = vec![readable(&*alarm)];
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
    }
    sys_wait(&mut fds)?;
    let mut ready: Vec<usize> =
        of.iter().zip(&fds[1..]).filter(|(_, fd)| came(fd)).map(|(index, _)| *index).collect();
    ready.dedup();
    Ok(ready)
}
