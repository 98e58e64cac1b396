//! Room in a queue, counted as the device counts it.

use crate::Bytes;
use crate::bytes;
use crate::error::{Reason, UnitError};
use crate::number;
use crate::text_serde::serde_as_text;
use std::fmt;
use std::str::FromStr;

const ALLOWED: &str = "packets such as 100p, or bytes with their unit such as 256kB";
const MAX_PACKETS: &str = "4294967295 packets";

/// The size of a queue: in packets, as most modems count, or in bytes.
///
/// The unit matters: small packets slip into a queue counted in bytes where large ones find no room.
/// So a number alone is refused. Written "100p", "100 packets" or "256kB".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    Packets(u32),
    Bytes(Bytes),
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(count) => f.pad(&format!("{count}p")),
            Self::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

impl FromStr for Buffer {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text).map_err(|reason| UnitError::new(text, "a buffer size", reason, ALLOWED))
    }
}

fn parse(text: &str) -> Result<Buffer, Reason> {
    let (number, unit) = number::split(text)?;
    match unit {
        "" => Err(Reason::MissingUnit),
        "p" | "pkt" | "pkts" | "packet" | "packets" => {
            let count = number.times(1, "packets", u64::from(u32::MAX), MAX_PACKETS)?;
            u32::try_from(count).map(Buffer::Packets).map_err(|_| Reason::TooLarge(MAX_PACKETS))
        }
        unit => bytes::with_unit(number, unit).map(Buffer::Bytes),
    }
}

serde_as_text!(Buffer, "a buffer size such as \"100p\" or \"256kB\"");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> Reason {
        text.parse::<Buffer>().expect_err(text).reason
    }

    #[test]
    fn a_buffer_counts_packets_or_bytes() {
        for text in ["100p", "100 packets", "100packets", "100 p"] {
            assert_eq!(text.parse(), Ok(Buffer::Packets(100)), "{text}");
        }
        assert_eq!("256kB".parse(), Ok(Buffer::Bytes(Bytes::new(256_000))));
        assert_eq!("1500B".parse(), Ok(Buffer::Bytes(Bytes::new(1500))));
        assert_eq!(Buffer::Packets(100).to_string(), "100p");
        assert_eq!(Buffer::Bytes(Bytes::new(65_536)).to_string(), "64KiB");
    }

    #[test]
    fn what_is_no_buffer_is_refused() {
        assert_eq!(refusal("100"), Reason::MissingUnit);
        assert_eq!(refusal("-1p"), Reason::Negative);
        assert_eq!(refusal("NaNp"), Reason::NotANumber);
        assert_eq!(refusal("1.5p"), Reason::TooFine("packets"));
        assert_eq!(refusal("4294967296p"), Reason::TooLarge(MAX_PACKETS));
        assert_eq!(refusal("20ms"), Reason::UnknownUnit("ms".into()));
        let error = "100".parse::<Buffer>().expect_err("packets or bytes?").to_string();
        assert!(error.contains("\"100\"") && error.contains("such as 100p"), "{error}");
    }

    #[test]
    fn serde_carries_the_text() {
        let text = serde_json::to_string(&Buffer::Packets(100)).expect("a string");
        assert_eq!(text, "\"100p\"");
        assert_eq!(serde_json::from_str::<Buffer>(&text).expect("ok"), Buffer::Packets(100));
        assert!(serde_json::from_str::<Buffer>("100").is_err(), "packets or bytes?");
    }

    proptest! {
        #[test]
        fn every_buffer_reads_back(packets: u32, bytes: u64) {
            for buffer in [Buffer::Packets(packets), Buffer::Bytes(Bytes::new(bytes))] {
                prop_assert_eq!(buffer.to_string().parse(), Ok(buffer));
            }
        }
    }
}
