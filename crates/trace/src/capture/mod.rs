//! Files of captured packets, read from any stream, one packet at a time.
//!
//! ```text
//!   bytes ──input── records ──classic (pcap) | ng (pcapng)── Frame: number, time, link type, bytes
//! ```
//!
//! One record is held at a time, in a buffer that grows only with bytes that really came: a length in a file
//! that lies costs nothing. Every error tells the byte at which it was found.

mod classic;
mod error;
mod input;
mod ng;

pub use error::CaptureError;
pub use input::LONGEST_PACKET;

use crate::time::Time;
use classic::Classic;
use input::{ByteOrder, CaptureRecord, Input};
use ng::Ng;
use std::io::Read;

#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Its number in the file, from 1, as `tcpdump --number` counts.
    pub number: u64,
    /// When it passed, if the file tells (a simple packet block of pcapng does not, nor a clock that no 64 bits hold).
    pub time: Option<Time>,
    /// The kind of its first header, as in <https://www.tcpdump.org/linktypes.html>.
    pub link: u32,
    /// How long it was on the wire, in bytes; never less than was captured.
    pub length: u32,
    /// What was captured of it.
    pub bytes: &'a [u8],
}

#[derive(Debug)]
pub struct Capture<R> {
    input: Input<R>,
    format: CaptureFormat,
    read: u64,
}

#[derive(Debug)]
enum CaptureFormat {
    Classic(Classic),
    Ng(Ng),
}

impl<R: Read> Capture<R> {
    /// Reads as far as is needed to know the format.
    ///
    /// # Errors
    ///
    /// If this is no capture, or one of a kind that can't be read; the error says which.
    pub fn open(reader: R) -> Result<Self, CaptureError> {
        let mut input = Input::new(reader);
        let Some(magic) = input.record(4, "the file's first bytes")? else {
            return Err(CaptureError::Empty);
        };
        let magic: [u8; 4] = magic.try_into().unwrap_or_default();
        let (order, unit) = match magic {
            [0xd4, 0xc3, 0xb2, 0xa1] => (ByteOrder::Little, 1000),
            [0xa1, 0xb2, 0xc3, 0xd4] => (ByteOrder::Big, 1000),
            [0x4d, 0x3c, 0xb2, 0xa1] => (ByteOrder::Little, 1),
            [0xa1, 0xb2, 0x3c, 0x4d] => (ByteOrder::Big, 1),
            [0x0a, 0x0d, 0x0d, 0x0a] => {
                let format = CaptureFormat::Ng(Ng::open(&mut input)?);
                return Ok(Capture { input, format, read: 0 });
            }
            _ => return Err(CaptureError::foreign(magic)),
        };
        let format = CaptureFormat::Classic(Classic::open(&mut input, order, unit)?);
        Ok(Capture { input, format, read: 0 })
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the file ends within a record, or a record can't be what it says. What came before it stands; nothing after
    /// it can be found, so that no further packet should be asked for.
    pub fn packet(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        let record = match &mut self.format {
            CaptureFormat::Classic(classic) => classic.record(&mut self.input),
            CaptureFormat::Ng(ng) => ng.record(&mut self.input),
        }?;
        let Some(CaptureRecord { time, link, length, place }) = record else {
            return Ok(None);
        };
        self.read += 1;
        let bytes = self.input.held().get(place).unwrap_or_default();
        let captured = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Ok(Some(Frame { number: self.read, time, link, length: length.max(captured), bytes }))
    }

    /// Which format this is, in words.
    pub fn format(&self) -> &'static str {
        match &self.format {
            CaptureFormat::Classic(classic) => classic.name(),
            CaptureFormat::Ng(_) => "pcapng",
        }
    }
}
