//! A person's file at this end of a connection: what is sent comes out of it, or what comes goes into it.
//!
//! ```text
//!   file ──pread──► a buffer ──► socket        each stream from the start of the file, at an offset of its own
//!   file ─────sendfile─────────► socket        not copied
//!   socket ──► a buffer ──write──► file
//! ```
//!
//! How long the file took and how long the connection did is counted: what the disk held up is no affair of the path.

use super::tcp::{Copying, Failed, TcpReceiving, TcpSending, pacer_of, receive_all, send_all};
use super::{Ended, Gate, Tally};
use nix::errno::Errno;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::bulk_stream::{send_file, send_some, take_some, waits};
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::Bell;
use std::fs::File;
use std::io::{Error, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// What is read or written at once: it stays in a CPU's cache.
const PIECE: usize = 256 << 10;

/// The file.
#[derive(Debug)]
pub struct Disk {
    file: File,
    name: String,
    length: u64,
    failed: OnceLock<SysError>,
}

impl Disk {
    /// An open file, under the name by which a person knows it, and how many bytes of it are to be sent.
    pub fn new(file: File, name: impl Into<String>, length: u64) -> Self {
        Self { file, name: name.into(), length, failed: OnceLock::new() }
    }

    /// By which a person knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many bytes of it are to be sent.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Why it could not be read or written, if that is so.
    pub fn failed(&self) -> Option<&SysError> {
        self.failed.get()
    }

    fn refused(&self, what: &str, error: &Error) -> Failed {
        let error = SysError::io(format!("{what} {}", self.name), error);
        let error = match error.errno {
            Errno::ENOSPC => error.advise("the disk is full"),
            Errno::EDQUOT => error.advise("the quota is used up"),
            _ => error,
        };
        Failed::File(self.failed.get_or_init(|| error).clone())
    }

    fn shorter(&self, at: u64) -> Failed {
        let tried = format!(
            "read {}: it became shorter while it was sent, {at} of {} bytes",
            self.name, self.length
        );
        Failed::File(self.failed.get_or_init(|| SysError::new(tried, Errno::ENODATA)).clone())
    }

    /// Fills the buffer from an offset as far as the file goes; how many bytes, at least one.
    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<usize, Failed> {
        loop {
            match self.file.read_at(buffer, at) {
                Ok(0) => return Err(self.shorter(at)),
                Ok(got) => return Ok(got),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.refused("read", &error)),
            }
        }
    }
}

/// Does something with the file, and counts how long that took.
fn timed<T>(tally: &Tally, work: impl FnOnce() -> T) -> T {
    let since_ns = monotonic_ns();
    let done = work();
    tally.disk_ns.add(monotonic_ns().saturating_sub(since_ns));
    done
}

/// As [`super::tcp_send_through`], from a file, of which the limit is a part.
pub fn tcp_send_file(
    gate: &dyn Gate,
    stream: &TcpSocket,
    what: &TcpSending,
    disk: &Disk,
    (tally, stop): (&Tally, &Bell),
) -> Result<Ended, SysError> {
    let fd = stream.as_fd();
    let pacer = pacer_of(gate, fd, what)?;
    let mut at = 0;
    let ended = match what.copying {
        Copying::Once => {
            let mut buffer = vec![0; PIECE];
            let (mut from, mut to) = (0, 0);
            send_all((gate, pacer), fd, what, (tally, stop), |most| {
                if from == to {
                    (from, to) = (0, timed(tally, || disk.read(at, &mut buffer))?);
                    at += to as u64;
                }
                let piece = &buffer[from..to];
                let sent = send_some(fd, piece, most.min(piece.len()))?;
                from += sent;
                Ok(sent)
            })
        }
        Copying::None => {
            waits(fd, false)?;
            let ended = send_all((gate, pacer), fd, what, (tally, stop), |most| {
                let sent = timed(tally, || send_file(fd, disk.file.as_fd(), at, most));
                match sent {
                    Ok(0) => Err(disk.shorter(at)),
                    // Nothing of a socket's.
                    Err(errno @ (Errno::EIO | Errno::EINVAL | Errno::ESTALE)) => {
                        Err(disk.refused("read", &errno.into()))
                    }
                    sent => {
                        let sent = sent?;
                        at += sent as u64;
                        Ok(sent)
                    }
                }
            });
            waits(fd, true)?;
            ended
        }
    };
    tally.ended_ns.set(monotonic_ns());
    ended
}

/// As [`super::tcp_receive_through`]; what comes is written to a file.
pub fn tcp_receive_file(
    gate: &dyn Gate,
    stream: &TcpSocket,
    what: &TcpReceiving,
    disk: &Disk,
    (tally, stop): (&Tally, &Bell),
) -> Result<Ended, SysError> {
    let fd = stream.as_fd();
    let mut buffer = vec![0; PIECE];
    let ended = receive_all(gate, fd, what, (tally, stop), |most| {
        let room = most.min(buffer.len());
        let got = take_some(fd, &mut buffer[..room])?;
        timed(tally, || (&disk.file).write_all(&buffer[..got]))
            .map_err(|error| disk.refused("write", &error))?;
        Ok(got)
    });
    tally.ended_ns.set(monotonic_ns());
    ended
}
