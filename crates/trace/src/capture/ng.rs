//! pcapng: sections of blocks; interfaces are described, and packets name theirs.
//!
//! ```text
//!   section header | interface, interface … | enhanced, simple and old packet blocks; anything else is passed over
//! ```
//!
//! Source: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>. A new section forgets the interfaces of the
//! one before it and may have the other order of bytes.

use super::error::CaptureError;
use super::input::{ByteOrder, CaptureRecord, Input, LONGEST_PACKET};

use crate::time::Time;
use std::io::Read;

const SECTION: u32 = 0x0a0d_0d0a;

/// Longest block whose inside is read: a packet, and options of any kind.
const LONGEST_BLOCK: u32 = LONGEST_PACKET + (1 << 16);

/// More interfaces than any machine has; bounds what a file can make us keep.
const MOST_INTERFACES: usize = 65_536;

/// What the current section told.
#[derive(Debug)]
pub(super) struct Ng {
    order: ByteOrder,
    interfaces: Vec<Interface>,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: u32,
    /// Most that is captured of a packet; 0 for all of it.
    snap: u32,
    ticks: Ticks,
    /// Seconds to add to each time.
    offset: i64,
}

/// How long a unit of an interface's clock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ticks {
    /// 10 to minus this, in seconds.
    Decimal(u8),
    /// 2 to minus this, in seconds.
    Binary(u8),
}

impl Ticks {
    /// The option `if_tsresol`.
    fn from_option(byte: u8) -> Self {
        if byte & 0x80 == 0 { Ticks::Decimal(byte) } else { Ticks::Binary(byte & 0x7f) }
    }

    /// Whole nanoseconds in a number of ticks; none where 64 bits don't hold them, or nothing of them.
    fn nanos(self, ticks: u64) -> Option<i64> {
        let is_some = ticks > 0;
        let ticks = u128::from(ticks);
        let nanos = match self {
            Ticks::Decimal(power @ 0..=9) => ticks * 10_u128.pow(9 - u32::from(power)),
            // 10 to the 29th is above all that 64 bits of ticks can hold.
            Ticks::Decimal(power) => ticks / 10_u128.pow((u32::from(power) - 9).min(29)),
            Ticks::Binary(power) => (ticks * 1_000_000_000) >> power.min(127),
        };
        i64::try_from(nanos).ok().filter(|nanos| *nanos > 0 || !is_some)
    }
}

impl Ng {
    /// Reads the first section's header behind its first four bytes.
    pub(super) fn open<R: Read>(input: &mut Input<R>) -> Result<Self, CaptureError> {
        let mut ng = Ng { order: ByteOrder::Little, interfaces: Vec::new() };
        let length: [u8; 4] = input.rest(4, "the section header")?.try_into().unwrap_or_default();
        ng.section(input, 0, length)?;
        Ok(ng)
    }

    /// Reads blocks up to the next packet.
    pub(super) fn record<R: Read>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<Option<CaptureRecord>, CaptureError> {
        loop {
            let offset = input.offset();
            let Some(header) = input.record(8, "a block's header")? else {
                return Ok(None);
            };
            let header: [u8; 8] = header.try_into().unwrap_or_default();
            let [a, b, c, d, length @ ..] = header;
            let kind = self.order.u32([a, b, c, d]);
            if kind == SECTION {
                self.section(input, offset, length)?;
                continue;
            }
            let body = self.body_length(offset, length)?;
            match kind {
                // An interface; an old, a simple, an enhanced packet.
                1 | 2 | 3 | 6 => {
                    if body > LONGEST_BLOCK {
                        return Err(CaptureError::too_long(offset, "a block", body, LONGEST_BLOCK));
                    }
                    let block = input.rest(body as usize + 4, "a block")?;
                    let (body, again) = block.split_at(body as usize);
                    if again != length {
                        return Err(lengths_differ(offset));
                    }
                    let record = match kind {
                        1 => {
                            let interface = self.interface(offset, body)?;
                            self.interfaces.push(interface);
                            continue;
                        }
                        6 => self.enhanced(offset, body)?,
                        2 => self.old(offset, body)?,
                        _ => self.simple(offset, body)?,
                    };
                    return Ok(Some(record));
                }
                _ => {
                    input.skip(body.into(), "a block")?;
                    if input.rest(4, "a block's end")? != length {
                        return Err(lengths_differ(offset));
                    }
                }
            }
        }
    }

    /// The rest of a section header behind its type and length, whose order of bytes it tells itself.
    fn section<R: Read>(
        &mut self,
        input: &mut Input<R>,
        offset: u64,
        length: [u8; 4],
    ) -> Result<(), CaptureError> {
        self.order = match input.rest(4, "the section header")? {
            [0x4d, 0x3c, 0x2b, 0x1a] => ByteOrder::Little,
            [0x1a, 0x2b, 0x3c, 0x4d] => ByteOrder::Big,
            _ => {
                let what = "a section header without the number that tells the order of bytes";
                return Err(CaptureError::record(offset, what));
            }
        };
        let body = self.body_length(offset, length)?;
        let Some(rest) = body.checked_sub(8) else {
            let what = "a section header that is too short for its version";
            return Err(CaptureError::record(offset, what));
        };
        let version = input.rest(4, "the section header")?;
        let major = self.order.u16_at(version, 0).unwrap_or_default();
        let minor = self.order.u16_at(version, 2).unwrap_or_default();
        if major != 1 {
            return Err(CaptureError::version(offset + 12, major, minor));
        }
        input.skip(rest.into(), "the section header")?;
        if input.rest(4, "the section header")? != length {
            return Err(lengths_differ(offset));
        }
        self.interfaces.clear();
        Ok(())
    }

    /// The length of a block without type and lengths.
    fn body_length(&self, offset: u64, length: [u8; 4]) -> Result<u32, CaptureError> {
        let length = self.order.u32(length);
        if !length.is_multiple_of(4) {
            let what = "a block whose length is no multiple of 4";
            return Err(CaptureError::record(offset, what));
        }
        let short = || CaptureError::record(offset, "a block that is shorter than its own header");
        length.checked_sub(12).ok_or_else(short)
    }

    fn interface(&self, offset: u64, body: &[u8]) -> Result<Interface, CaptureError> {
        if self.interfaces.len() >= MOST_INTERFACES {
            let what = "more than 65536 interfaces in a section";
            return Err(CaptureError::record(offset, what));
        }
        let (Some(link), Some(snap)) = (self.order.u16_at(body, 0), self.order.u32_at(body, 4))
        else {
            return Err(CaptureError::record(offset, "an interface block that is too short"));
        };
        let mut interface =
            Interface { link: link.into(), snap, ticks: Ticks::Decimal(6), offset: 0 };
        let mut options = body.get(8..).unwrap_or_default();
        while let Some((code, value, rest)) = self.option(options) {
            match (code, value) {
                (0, _) => break,
                (9, &[resolution]) => interface.ticks = Ticks::from_option(resolution),
                (14, value) => {
                    if let Ok(bytes) = value.try_into() {
                        interface.offset = match self.order {
                            ByteOrder::Little => i64::from_le_bytes(bytes),
                            ByteOrder::Big => i64::from_be_bytes(bytes),
                        };
                    }
                }
                _ => {}
            }
            options = rest;
        }
        Ok(interface)
    }

    /// The next option: its code, its value, and what stands behind it.
    fn option<'a>(&self, bytes: &'a [u8]) -> Option<(u16, &'a [u8], &'a [u8])> {
        let code = self.order.u16_at(bytes, 0)?;
        let length = usize::from(self.order.u16_at(bytes, 2)?);
        let value = bytes.get(4..4 + length)?;
        Some((code, value, bytes.get(4 + length.next_multiple_of(4)..).unwrap_or_default()))
    }

    fn enhanced(&self, offset: u64, body: &[u8]) -> Result<CaptureRecord, CaptureError> {
        let number = self.order.u32_at(body, 0).ok_or_else(|| short_packet(offset))?;
        self.timed(offset, body, number)
    }

    /// The packet block of older files: a 16-bit interface, then drops, then as in an enhanced one.
    fn old(&self, offset: u64, body: &[u8]) -> Result<CaptureRecord, CaptureError> {
        let number = self.order.u16_at(body, 0).ok_or_else(|| short_packet(offset))?;
        self.timed(offset, body, number.into())
    }

    fn timed(&self, offset: u64, body: &[u8], number: u32) -> Result<CaptureRecord, CaptureError> {
        let at = |at| self.order.u32_at(body, at).ok_or_else(|| short_packet(offset));
        let (high, low, captured, length) = (at(4)?, at(8)?, at(12)?, at(16)?);
        let interface = self.known(offset, number)?;
        let nanos = interface.ticks.nanos(u64::from(high) << 32 | u64::from(low));
        let shift = interface.offset.checked_mul(1_000_000_000);
        let time = nanos.zip(shift).and_then(|(nanos, shift)| nanos.checked_add(shift));
        let place = within(offset, body, 20, captured)?;
        Ok(CaptureRecord { time: time.map(Time), link: interface.link, length, place })
    }

    fn simple(&self, offset: u64, body: &[u8]) -> Result<CaptureRecord, CaptureError> {
        let length = self.order.u32_at(body, 0).ok_or_else(|| short_packet(offset))?;
        let interface = self.known(offset, 0)?;
        let snap = if interface.snap == 0 { u32::MAX } else { interface.snap };
        let place = within(offset, body, 4, length.min(snap))?;
        Ok(CaptureRecord { time: None, link: interface.link, length, place })
    }

    fn known(&self, offset: u64, interface: u32) -> Result<Interface, CaptureError> {
        let known = self.interfaces.len();
        let found = usize::try_from(interface).ok().and_then(|i| self.interfaces.get(i));
        let unknown = || {
            format!("a packet of interface {interface}, but only {known} were described before it")
        };
        found.copied().ok_or_else(|| CaptureError::record(offset, unknown()))
    }
}

/// Where a packet lies in its block.
fn within(
    offset: u64,
    body: &[u8],
    start: usize,
    captured: u32,
) -> Result<std::ops::Range<usize>, CaptureError> {
    if captured > LONGEST_PACKET {
        return Err(CaptureError::too_long(offset, "a packet block", captured, LONGEST_PACKET));
    }
    let end = start + captured as usize;
    if end > body.len() {
        let what = "a packet that is longer than its block";
        return Err(CaptureError::record(offset, what));
    }
    Ok(start..end)
}

fn short_packet(offset: u64) -> CaptureError {
    CaptureError::record(offset, "a packet block that is too short")
}

fn lengths_differ(offset: u64) -> CaptureError {
    CaptureError::record(offset, "a block whose two lengths differ")
}

#[cfg(test)]
mod tests {
    use super::Ticks;

    #[test]
    fn ticks_of_any_length_become_nanoseconds() {
        assert_eq!(Ticks::from_option(6).nanos(1_500_000), Some(1_500_000_000));
        assert_eq!(Ticks::from_option(9).nanos(7), Some(7));
        assert_eq!(Ticks::from_option(0).nanos(2), Some(2_000_000_000));
        assert_eq!(Ticks::from_option(12).nanos(2_000), Some(2));
        assert_eq!(Ticks::from_option(0x80 | 10).nanos(1024), Some(1_000_000_000));
        assert_eq!(Ticks::from_option(0).nanos(0), Some(0));
        for (resolution, why) in [(127, "too short"), (255, "too short"), (0, "too long")] {
            assert_eq!(Ticks::from_option(resolution).nanos(u64::MAX), None, "{why}");
        }
    }
}
