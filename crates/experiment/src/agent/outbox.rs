//! What tasks have to say, until the main thread hands it on: one buffer, one writer, few system calls.

use quell_model::{Event, frame};
use quell_sys::SysError;
use quell_sys::wait::Bell;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

/// With more than this waiting, it is handed on at once.
const PLENTY: usize = 1 << 20;

/// Collects events as frames. Readable when they should be handed on at once.
#[derive(Debug)]
pub(super) struct Outbox {
    frames: Mutex<Vec<u8>>,
    bell: Bell,
}

impl Outbox {
    pub fn new() -> Result<Self, SysError> {
        Ok(Self { frames: Mutex::default(), bell: Bell::new()? })
    }

    /// Adds an event.
    pub fn put(&self, event: &Event) {
        let frame = frame::encode(event).unwrap_or_else(|error| {
            // Only one larger than 16 MiB can't be: say so in its place.
            let line = format!("an event was lost: {error}");
            let event = Event::Output { task: "agent".into(), stderr: true, line };
            frame::encode(&event).unwrap_or_default()
        });
        let urgent = matches!(event, Event::Ready { .. } | Event::Ended { .. });
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.extend(frame);
        if urgent || frames.len() > PLENTY {
            self.bell.ring();
        }
    }

    /// Hands on all that waits.
    pub fn flush(&self, mut output: &File) -> std::io::Result<()> {
        self.bell.silence();
        let frames =
            std::mem::take(&mut *self.frames.lock().unwrap_or_else(PoisonError::into_inner));
        if frames.is_empty() { Ok(()) } else { output.write_all(&frames) }
    }
}

impl AsFd for Outbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
