//! What a Quell TCP client tells its server first, so that the server knows its part: 128 bytes, once a connection.
//!
//! ```text
//!    0          8            9     10       11      12     16        24        32         40          104           120   128
//!   ┌──────────┬────────────┬─────┬────────┬───────┬──────┬─────────┬─────────┬──────────┬───────────┬─────────────┬─────┐
//!   │ QUELTCP1 │ direction  │ TOS │ n name │ n cc  │ zero │ bytes   │ pacing  │ report   │ name      │ congestion  │zero │
//!   │          │ 0 up 1 down│     │        │       │      │ 0: none │ 0: none │ ns       │           │ control     │     │
//!   └──────────┴────────────┴─────┴────────┴───────┴──────┴─────────┴─────────┴──────────┴───────────┴─────────────┴─────┘
//! ```

use crate::read::{at, be64};

pub const SIZE: usize = 128;
/// Longest name of a flow in bytes.
pub const LONGEST_NAME: usize = 64;
/// Longest name of a congestion control in bytes (`TCP_CA_NAME_MAX`, linux/tcp.h).
pub const LONGEST_CONGESTION: usize = 16;

const MAGIC: &[u8; 8] = b"QUELTCP1";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub name: String,
    pub down: bool,
    pub tos: u8,
    /// How many bytes the sender sends; none: until it is told to stop.
    pub bytes: Option<u64>,
    /// Most bytes per second of a server that sends.
    pub pacing: Option<u64>,
    /// How often a server that sends reports, in nanoseconds.
    pub report_ns: u64,
    pub congestion: Option<String>,
}

impl Hello {
    /// As bytes; none when a name is too long.
    pub fn write(&self) -> Option<[u8; SIZE]> {
        let congestion = self.congestion.as_deref().unwrap_or("");
        if self.name.len() > LONGEST_NAME || congestion.len() > LONGEST_CONGESTION {
            return None;
        }
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8] = u8::from(self.down);
        bytes[9] = self.tos;
        bytes[10] = self.name.len() as u8;
        bytes[11] = congestion.len() as u8;
        bytes[16..24].copy_from_slice(&self.bytes.unwrap_or(0).to_be_bytes());
        bytes[24..32].copy_from_slice(&self.pacing.unwrap_or(0).to_be_bytes());
        bytes[32..40].copy_from_slice(&self.report_ns.to_be_bytes());
        bytes[40..40 + self.name.len()].copy_from_slice(self.name.as_bytes());
        bytes[104..104 + congestion.len()].copy_from_slice(congestion.as_bytes());
        Some(bytes)
    }

    /// Reads one; none when it is not from a Quell of this version.
    pub fn read(bytes: &[u8; SIZE]) -> Option<Self> {
        if at::<8>(bytes, 0)? != *MAGIC || bytes[8] > 1 {
            return None;
        }
        let text = |from: usize, length: u8, longest: usize| {
            let length = usize::from(length);
            let text = (length <= longest).then(|| bytes.get(from..from + length)).flatten()?;
            std::str::from_utf8(text).ok().map(str::to_owned)
        };
        let some = |value: u64| (value > 0).then_some(value);
        Some(Self {
            name: text(40, bytes[10], LONGEST_NAME)?,
            down: bytes[8] == 1,
            tos: bytes[9],
            bytes: some(be64(bytes, 16)?),
            pacing: some(be64(bytes, 24)?),
            report_ns: be64(bytes, 32)?,
            congestion: Some(text(104, bytes[11], LONGEST_CONGESTION)?).filter(|t| !t.is_empty()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello {
            name: "bulk-2".into(),
            down: true,
            tos: 0x20,
            bytes: Some(1 << 40),
            pacing: None,
            report_ns: 100_000_000,
            congestion: Some("bbr".into()),
        }
    }

    #[test]
    fn a_server_reads_what_the_client_wrote() {
        let plain = Hello { congestion: None, down: false, bytes: None, ..hello() };
        for hello in [hello(), plain] {
            assert_eq!(Hello::read(&hello.write().unwrap()), Some(hello));
        }
    }

    #[test]
    fn a_stranger_is_not_taken_for_a_client() {
        let mut bytes = hello().write().unwrap();
        bytes[7] = b'2';
        assert_eq!(Hello::read(&bytes), None);
        assert_eq!(Hello::read(&[0; SIZE]), None);
    }

    #[test]
    fn names_that_are_too_long_are_refused() {
        assert!(Hello { name: "x".repeat(65), ..hello() }.write().is_none());
        assert!(Hello { congestion: Some("x".repeat(17)), ..hello() }.write().is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), SIZE)) {
            let mut bytes: [u8; SIZE] = bytes.try_into().unwrap();
            bytes[..8].copy_from_slice(MAGIC);
            let _ = Hello::read(&bytes);
        }
    }
}
