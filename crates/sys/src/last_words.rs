//! What a child says on its standard error: taken as it comes, so that it never waits for us, and only the last of it is kept.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::io::{self, Read};
use std::process::ChildStderr;

/// Most bytes that are kept.
pub const KEPT: usize = 16 * 1024;

#[derive(Debug)]
pub struct LastWords {
    pipe: Option<ChildStderr>,
    kept: Vec<u8>,
}

impl LastWords {
    pub fn of(pipe: Option<ChildStderr>) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(LastWords { pipe, kept: Vec::new() })
    }

    /// Takes what came, without waiting.
    pub fn read(&mut self) {
        let mut buffer = [0; 16 * 1024];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(count @ 1..) => {
                    self.kept.extend_from_slice(&buffer[..count]);
                    let surplus = self.kept.len().saturating_sub(KEPT);
                    self.kept.drain(..surplus);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                _ => self.pipe = None,
            }
        }
    }

    /// What still comes, if anything.
    pub fn pipe(&self) -> Option<&ChildStderr> {
        self.pipe.as_ref()
    }

    pub fn last(&self) -> String {
        String::from_utf8_lossy(&self.kept).trim().to_owned()
    }
}
