//! What tasks have to say, until the main thread hands it on: one buffer, one writer, few system calls.

use quell_model::agent_message::AGENT_VERSION;
use quell_model::{Event, Said, frame};
use quell_sys::SysError;
use quell_sys::backlog::Backlog;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

/// With more than this waiting, it is handed on at once.
const PLENTY: usize = 1 << 20;

/// Collects messages as frames. Readable when they should be handed on at once.
#[derive(Debug)]
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    bell: Bell,
}

#[derive(Debug)]
struct Waiting {
    frames: Vec<u8>,
    sequence: u64,
}

impl Outbox {
    pub fn new() -> Result<Self, SysError> {
        let hello = Said::<Event>::Hello { version: AGENT_VERSION, monotonic_ns: monotonic_ns() };
        let frames = frame::encode(&hello).unwrap_or_default();
        Ok(Self { waiting: Mutex::new(Waiting { frames, sequence: 0 }), bell: Bell::new()? })
    }

    /// Says something beside the events, at once.
    pub fn say(&self, said: &Said<Event>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.frames.extend(frame::encode(said).unwrap_or_default());
        self.bell.ring();
    }

    pub fn put(&self, event: &Event) {
        let urgent = matches!(event, Event::Ready { .. } | Event::Ended { .. });
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = waiting.sequence;
        waiting.sequence += 1;
        let frame = frame::encode(&Said::Event { sequence, event }).unwrap_or_else(|error| {
            // Only one larger than 16 MiB can't be: say so in its place.
            let line = format!("an event was lost: {error}");
            let event = Event::Output { task: "agent".into(), stderr: true, line };
            frame::encode(&Said::Event { sequence, event }).unwrap_or_default()
        });
        waiting.frames.extend(frame);
        if urgent || waiting.frames.len() > PLENTY {
            self.bell.ring();
        }
    }

    /// Hands on all that waits, or as much as is taken now: the rest waits in `backlog`, and nothing overtakes it.
    ///
    /// # Errors
    /// That nobody will take it.
    pub fn flush(&self, backlog: &mut Backlog, output: impl Write) -> std::io::Result<()> {
        self.bell.silence();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let frames = std::mem::take(&mut waiting.frames);
        // Whoever puts something must not wait for a pipe.
        drop(waiting);
        backlog.push(&frames);
        backlog.pass_on(output)
    }
}

impl AsFd for Outbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::frame::Decoder;
    use quell_stats::Rng;
    use std::io::{Error, ErrorKind, Result};

    /// A pipe that is read now and then; signals come between.
    struct Pipe {
        rng: Rng,
        room: usize,
        /// How many bytes it takes before its reader is gone.
        life: usize,
        holds: Vec<u8>,
        took: Vec<u8>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            if self.rng.below(5) == 0 {
                return Err(ErrorKind::Interrupted.into());
            }
            let room = (self.room - self.holds.len()).min(self.life - self.took.len());
            if self.life == self.took.len() {
                return Err(Error::from(ErrorKind::BrokenPipe));
            }
            if room == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = (1 + self.rng.below(room as u64) as usize).min(bytes.len());
            self.holds.extend(&bytes[..count]);
            self.took.extend(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn event(n: u64, rng: &mut Rng) -> Event {
        let line = format!("{n} {}", "x".repeat(rng.below(300) as usize));
        Event::Output { task: "load".into(), stderr: false, line }
    }

    #[test]
    fn whatever_the_pipe_does_each_event_comes_once_and_in_order_up_to_where_its_reader_went() {
        let (mut gone, mut waited) = (0, 0);
        for seed in 0..2_000 {
            let mut rng = Rng::new(seed);
            let outbox = Outbox::new().unwrap();
            let mut backlog = Backlog::default();
            let life = if rng.below(4) == 0 { rng.below(20_000) as usize } else { usize::MAX };
            let (holds, took) = (Vec::new(), Vec::new());
            let room = 1 + rng.below(4096) as usize;
            let mut pipe = Pipe { rng: rng.derive("pipe"), room, life, holds, took };
            let mut put: Vec<Event> = Vec::new();
            let mut broken = false;
            for _ in 0..rng.below(100) {
                for _ in 0..rng.below(4) {
                    put.push(event(put.len() as u64, &mut rng));
                    outbox.put(put.last().unwrap());
                }
                // It comes back whatever the pipe does, and says so only where nobody reads any more.
                broken |= outbox.flush(&mut backlog, &mut pipe).is_err();
                waited += u64::from(!backlog.is_empty());
                assert!(broken || backlog.is_empty() || pipe.holds.len() == pipe.room);
                let read = rng.below(pipe.holds.len() as u64 + 1) as usize;
                pipe.holds.drain(..read);
            }
            while !broken && !backlog.is_empty() {
                pipe.holds.clear();
                broken = outbox.flush(&mut backlog, &mut pipe).is_err();
            }
            let mut decoder = Decoder::new();
            decoder.push(&pipe.took);
            assert!(matches!(
                decoder.next_value(),
                Ok(Some(Said::<Event>::Hello { .. })) | Ok(None)
            ));
            let mut heard = Vec::new();
            while let Some(said) = decoder.next_value::<Said<Event>>().unwrap() {
                let Said::Event { sequence, event } = said else { panic!("seed {seed}: {said:?}") };
                assert_eq!(sequence, heard.len() as u64, "seed {seed}");
                heard.push(event);
            }
            assert_eq!(heard, put[..heard.len()], "seed {seed}");
            assert!(
                broken || heard.len() == put.len(),
                "seed {seed}: {} of {}",
                heard.len(),
                put.len()
            );
            assert!(broken || decoder.pending() == 0, "seed {seed}");
            gone += u64::from(broken);
        }
        assert!(gone > 100 && waited > 1000, "both happened: {gone}, {waited}");
    }
}
