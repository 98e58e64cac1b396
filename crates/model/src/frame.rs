//! Frames: how commands and events travel over a byte stream and lie in a journal.
//!
//! ```text
//!   ┌────────────┬────────────┬─────────────────────┐
//!   │ length u32 │ CRC-32 u32 │ postcard of a value │   little endian; the length counts the value alone
//!   └────────────┴────────────┴─────────────────────┘
//! ```
//!
//! A stream that was cut off (a killed run, a full disk) yields every whole frame before the cut.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes before the value.
const HEADER: usize = 8;

/// Longest value: far above what an agent batches, and small enough that a damaged length can't exhaust memory.
pub const LONGEST: usize = 16 << 20;

/// Why bytes are not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length field is beyond [`LONGEST`].
    #[error("a frame of {0} bytes can't be; the stream is damaged or not Quell's")]
    TooLong(usize),
    #[error("a frame's checksum does not fit; the stream is damaged")]
    Checksum,
    #[error("a frame's value can't be read: {0}; it is from another version of Quell, or damaged")]
    Value(String),
    /// The value can't be written.
    #[error("a value can't be put into a frame: {0}")]
    Encode(String),
}

pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, FrameError> {
    let buffer = vec![0; HEADER];
    let mut bytes =
        postcard::to_extend(value, buffer).map_err(|e| FrameError::Encode(e.to_string()))?;
    let length = bytes.len() - HEADER;
    if length > LONGEST {
        return Err(FrameError::TooLong(length));
    }
    let crc = crc32fast::hash(&bytes[HEADER..]);
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    bytes[4..HEADER].copy_from_slice(&crc.to_le_bytes());
    Ok(bytes)
}

/// How many of these bytes, which begin with a frame, are of whole frames. What is in them is not looked at.
pub fn whole(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = bytes.get(at..at + 4).and_then(|b| b.try_into().ok()) {
        let end = at.saturating_add(HEADER + u32::from_le_bytes(length) as usize);
        if end > bytes.len() {
            break;
        }
        at = end;
    }
    at
}

/// Takes bytes as they come and gives values.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes that came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start >= self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole value; `None` until more bytes come. After an error nothing more can be read.
    pub fn next_value<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some((length, crc)) = self.header() else { return Ok(None) };
        if length > LONGEST {
            return Err(FrameError::TooLong(length));
        }
        let from = self.start + HEADER;
        let Some(value) = self.buffer.get(from..from + length) else { return Ok(None) };
        if crc32fast::hash(value) != crc {
            return Err(FrameError::Checksum);
        }
        let value = postcard::from_bytes(value).map_err(|e| FrameError::Value(e.to_string()))?;
        self.start = from + length;
        Ok(Some(value))
    }

    /// Bytes that came and are not yet part of a value given out.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }

    fn header(&self) -> Option<(usize, u32)> {
        let header = self.buffer.get(self.start..self.start + HEADER)?;
        let word = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        Some((word(0) as usize, word(4)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    fn events() -> Vec<Event> {
        (0..5).map(|n| Event::Tick { t_ns: n * 1_000_000_000 - 2_000_000_000 }).collect()
    }

    fn stream() -> Vec<u8> {
        events().iter().flat_map(|e| encode(e).expect("a tick fits in a frame")).collect()
    }

    #[test]
    fn events_come_out_as_they_went_in_whatever_the_pieces() {
        for piece in [1, 3, 7, 1000] {
            let mut decoder = Decoder::new();
            let mut got = Vec::new();
            for bytes in stream().chunks(piece) {
                decoder.push(bytes);
                while let Some(event) = decoder.next_value::<Event>().expect("whole frames") {
                    got.push(event);
                }
            }
            assert_eq!(got, events());
            assert_eq!(decoder.pending(), 0);
        }
    }

    #[test]
    fn it_is_known_how_much_of_a_cut_stream_is_whole_without_reading_it() {
        let first = encode(&events()[0]).expect("a tick fits").len();
        for cut in 0..stream().len() {
            let got = whole(&stream()[..cut]);
            assert!(got <= cut && (got >= first) == (cut >= first), "{got} of {cut}");
        }
        assert_eq!(whole(&stream()), stream().len());
        assert_eq!(whole(&[0xff; 20]), 0, "no frame is as long");
    }

    #[test]
    fn a_stream_cut_anywhere_yields_every_whole_event_before_the_cut() {
        let whole = stream();
        let frame = encode(&events()[0]).expect("a tick fits").len();
        for cut in 0..whole.len() {
            let mut decoder = Decoder::new();
            decoder.push(&whole[..cut]);
            let mut count = 0;
            while decoder.next_value::<Event>().expect("no damage, only a cut").is_some() {
                count += 1;
            }
            assert!(count >= cut / (frame + 4), "{count} events of {cut} bytes");
            assert!(count <= 5);
        }
    }

    #[test]
    fn a_flipped_bit_is_an_error_not_a_wrong_value() {
        let mut bytes = stream();
        bytes[HEADER] ^= 1;
        let mut decoder = Decoder::new();
        decoder.push(&bytes);
        assert_eq!(decoder.next_value::<Event>(), Err(FrameError::Checksum));
    }

    #[test]
    fn an_absurd_length_is_refused_before_memory_is_taken() {
        let mut decoder = Decoder::new();
        decoder.push(&[0xff; 16]);
        assert_eq!(decoder.next_value::<Event>(), Err(FrameError::TooLong(0xffff_ffff)));
    }
}
