//! Quell's datagrams in one direction: each says of which flow it is, so that the sink needs no other word of it.
//!
//! ```text
//!    0         4        5          6       8                16               24             24 + n
//!   ┌─────────┬────────┬──────────┬───────┬────────────────┬────────────────┬──────────────┬─────────
//!   │ "QUL1"  │ flags  │ n        │ zero  │ sequence       │ sent (ns, wall │ name of the  │ zeros …
//!   │         │        │          │       │ number, 64 bit │ clock, 64 bit) │ flow, n bytes│
//!   └─────────┴────────┴──────────┴───────┴────────────────┴────────────────┴──────────────┴─────────
//! ```

pub use crate::hello::LONGEST_NAME;
use crate::read::{at, be64};

/// Bytes before the name.
pub const HEADER: usize = 24;

const MAGIC: &[u8; 4] = b"QUL1";
/// The sink is to report each packet, not only counts.
const EACH: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneWay<'a> {
    pub name: &'a str,
    /// Its number in the flow, from 0.
    pub seq: u64,
    /// When it was sent: nanoseconds since 1970.
    pub sent_ns: u64,
    /// Whether the sink is to report each packet.
    pub each: bool,
}

pub fn least_size(name: &str) -> usize {
    HEADER + name.len()
}

impl<'a> OneWay<'a> {
    /// A datagram of `size` bytes, into which [`restamp`] writes number and time. None when name or size don't fit.
    pub fn template(name: &str, each: bool, size: usize) -> Option<Vec<u8>> {
        if name.len() > LONGEST_NAME || size < least_size(name) {
            return None;
        }
        let mut bytes = vec![0; size];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = if each { EACH } else { 0 };
        bytes[5] = name.len() as u8;
        bytes[HEADER..HEADER + name.len()].copy_from_slice(name.as_bytes());
        Some(bytes)
    }

    /// Reads a datagram; none when it is not one of ours.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        if at::<4>(bytes, 0)? != *MAGIC {
            return None;
        }
        let length = usize::from(*bytes.get(5)?);
        if length > LONGEST_NAME {
            return None;
        }
        Some(Self {
            name: std::str::from_utf8(bytes.get(HEADER..HEADER + length)?).ok()?,
            seq: be64(bytes, 8)?,
            sent_ns: be64(bytes, 16)?,
            each: bytes[4] & EACH != 0,
        })
    }
}

pub fn restamp(template: &mut [u8], seq: u64, sent_ns: u64) {
    if let Some(field) = template.get_mut(8..HEADER) {
        field[..8].copy_from_slice(&seq.to_be_bytes());
        field[8..].copy_from_slice(&sent_ns.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_datagram_says_flow_number_and_time() {
        let mut bytes = OneWay::template("flood", true, 1400).unwrap();
        restamp(&mut bytes, 1 << 40, 77);
        assert_eq!(bytes.len(), 1400);
        let wanted = OneWay { name: "flood", seq: 1 << 40, sent_ns: 77, each: true };
        assert_eq!(OneWay::read(&bytes), Some(wanted));
    }

    #[test]
    fn a_size_that_can_t_hold_the_name_is_refused() {
        assert!(OneWay::template("voice", false, 28).is_none());
        assert!(OneWay::template("voice", false, 29).is_some());
        assert!(OneWay::template(&"x".repeat(65), false, 1400).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            let _ = OneWay::read(&bytes);
            for (byte, magic) in bytes.iter_mut().zip(MAGIC) {
                *byte = *magic;
            }
            let _ = OneWay::read(&bytes);
        }
    }
}
