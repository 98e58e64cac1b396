//! Classic pcap: a file header of 24 bytes, then packets, each behind a header of 16.
//!
//! Source: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-04.html>. Nanoseconds and both orders of bytes are told
//! by the file's first four bytes.

use super::error::CaptureError;
use super::input::{ByteOrder, CaptureRecord, Input, LONGEST_PACKET};

use crate::time::Time;
use std::io::Read;

/// Nanoseconds in a second.
const SECOND_NS: i64 = 1_000_000_000;

/// What the file header told.
#[derive(Debug)]
pub(super) struct Classic {
    order: ByteOrder,
    /// Nanoseconds in a unit of the packets' fractions.
    unit: i64,
    link: u32,
}

impl Classic {
    /// Reads the file header behind its first four bytes.
    pub(super) fn open<R: Read>(
        input: &mut Input<R>,
        order: ByteOrder,
        unit: i64,
    ) -> Result<Self, CaptureError> {
        let header = input.rest(20, "the file header")?;
        let at16 = |at| order.u16_at(header, at).unwrap_or_default();
        let (major, minor) = (at16(0), at16(2));
        // The upper bits tell of checksums at the ends of frames; lengths inside the packets tell the same.
        let link = order.u32_at(header, 16).unwrap_or_default() & 0x03ff_ffff;
        if major != 2 {
            return Err(CaptureError::version(4, major, minor));
        }
        Ok(Classic { order, unit, link })
    }

    pub(super) fn name(&self) -> &'static str {
        if self.unit == 1 { "pcap, nanoseconds" } else { "pcap, microseconds" }
    }

    pub(super) fn record<R: Read>(
        &self,
        input: &mut Input<R>,
    ) -> Result<Option<CaptureRecord>, CaptureError> {
        let offset = input.offset();
        let Some(header) = input.record(16, "a packet's header")? else {
            return Ok(None);
        };
        let at = |at| self.order.u32_at(header, at).unwrap_or_default();
        let (seconds, fraction, captured, length) = (at(0), at(4), at(8), at(12));
        if captured > LONGEST_PACKET {
            let what = "a packet's header";
            return Err(CaptureError::too_long(offset, what, captured, LONGEST_PACKET));
        }
        input.rest(captured as usize, "a packet")?;
        // A second and more beside the seconds is no time.
        let fraction = Some(i64::from(fraction) * self.unit).filter(|nanos| *nanos < SECOND_NS);
        let time = fraction.map(|nanos| Time(i64::from(seconds) * SECOND_NS + nanos));
        Ok(Some(CaptureRecord { time, link: self.link, length, place: 0..captured as usize }))
    }
}
