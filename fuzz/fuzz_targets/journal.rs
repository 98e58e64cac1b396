//! Any bytes as frames of a journal or of an agent's pipe: no panic, no memory that the bytes do not justify, the same values however
//! the bytes are cut.
//!
//! ```text
//!   bytes ──► as they are ─────────────────────────► Decoder     the envelope: lengths, checksums
//!        └──► in an envelope with a right checksum ─► Decoder     what lies in it: events, commands
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_model::frame::{Decoder, FrameError, encode};
use quell_model::{Command, Event};
use serde::de::DeserializeOwned;

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let cut = usize::from(which >> 1) % (bytes.len() + 1);
    if which & 1 == 0 {
        same_however_cut::<Event>(bytes, cut);
        same_however_cut::<Command>(bytes, cut);
    } else {
        let length = (bytes.len() as u32).to_le_bytes();
        let frame = [&length, &crc32fast::hash(bytes).to_le_bytes(), bytes].concat();
        round::<Event>(&frame);
        round::<Command>(&frame);
    }
});

fn all<T: DeserializeOwned>(parts: &[&[u8]]) -> (Vec<T>, Option<FrameError>) {
    let (mut decoder, mut values) = (Decoder::new(), Vec::new());
    for part in parts {
        decoder.push(part);
        loop {
            match decoder.next_value() {
                Ok(Some(value)) => values.push(value),
                Ok(None) => break,
                Err(error) => return (values, Some(error)),
            }
        }
    }
    (values, None)
}

fn same_however_cut<T: DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8], cut: usize) {
    let (front, back) = bytes.split_at(cut);
    // Compared as text, since a number that is none (NaN) is unlike itself.
    assert_eq!(format!("{:?}", all::<T>(&[bytes])), format!("{:?}", all::<T>(&[front, back])));
}

fn round<T: DeserializeOwned + serde::Serialize + std::fmt::Debug>(frame: &[u8]) {
    for value in all::<T>(&[frame]).0 {
        let bytes = encode(&value).expect("what was read can be written");
        let again = all::<T>(&[&bytes]).0;
        assert_eq!(format!("{:?}", [value]), format!("{again:?}"));
    }
}
