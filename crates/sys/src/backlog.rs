//! Bytes on their way to somebody who may not take them yet: nobody waits for that, and none is lost.

use std::io::{ErrorKind, Result, Write};

#[derive(Debug, Default)]
pub struct Backlog {
    bytes: Vec<u8>,
    taken: usize,
}

impl Backlog {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// Hands on as much as `to` takes now. A descriptor that does not block is what makes this come back at once.
    pub fn pass_on(&mut self, mut to: impl Write) -> Result<()> {
        while !self.is_empty() {
            match to.write(&self.bytes[self.taken..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.taken += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.taken = 0;
        Ok(())
    }
}
