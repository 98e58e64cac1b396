//! What tasks have to say, until the main thread hands it on: one buffer, one writer, few system calls.

use quell_model::said::AGENT_VERSION;
use quell_model::{Event, Said, frame};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use std::fs::File;
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
    /// Number of the next event.
    sequence: u64,
}

impl Outbox {
    /// Says who it is first.
    pub fn new() -> Result<Self, SysError> {
        let hello = Said::<Event>::Hello { version: AGENT_VERSION, monotonic_ns: monotonic_ns() };
        let frames = frame::encode(&hello).unwrap_or_default();
        Ok(Self { waiting: Mutex::new(Waiting { frames, sequence: 0 }), bell: Bell::new()? })
    }

    /// Adds an event.
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

    /// Hands on all that waits.
    pub fn flush(&self, mut output: &File) -> std::io::Result<()> {
        self.bell.silence();
        let frames = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut waiting.frames)
        };
        if frames.is_empty() { Ok(()) } else { output.write_all(&frames) }
    }
}

impl AsFd for Outbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
