//! TCP's header and options (RFC 9293, RFC 7323, RFC 2018).

use super::ip::{u8_at, u16_at, u32_at};
use super::skip::Skip;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    pub fn fin(self) -> bool {
        self.0 & 0x01 != 0
    }

    pub fn syn(self) -> bool {
        self.0 & 0x02 != 0
    }

    pub fn rst(self) -> bool {
        self.0 & 0x04 != 0
    }

    pub fn ack(self) -> bool {
        self.0 & 0x10 != 0
    }
}

/// What options told. Options that were cut off, or are malformed, are as if they were not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Largest segment that the sender of this takes, in bytes.
    pub mss: Option<u16>,
    /// Shift of the windows that follow, 0 to 14.
    pub scale: Option<u8>,
    pub sack_permitted: bool,
    /// Value, and echo of the other's.
    pub timestamps: Option<(u32, u32)>,
    sack: [(u32, u32); 4],
    sacks: u8,
}

impl TcpOptions {
    /// What selective acknowledgements cover: pairs of first and one past the last.
    pub fn sack(&self) -> &[(u32, u32)] {
        self.sack.get(..usize::from(self.sacks)).unwrap_or_default()
    }

    pub fn read(bytes: &[u8]) -> Self {
        let mut found = TcpOptions::default();
        let mut rest = bytes;
        while let Some(&kind) = rest.first() {
            let length = match kind {
                0 => break,
                1 => 1,
                _ => match u8_at(rest, 1) {
                    Some(length @ 2..) => usize::from(length),
                    _ => break,
                },
            };
            let Some(option) = rest.get(..length) else { break };
            match (kind, length) {
                (2, 4) => found.mss = u16_at(option, 2),
                // RFC 7323, 2.3: more than 14 is taken as 14.
                (3, 3) => found.scale = u8_at(option, 2).map(|s| s.min(14)),
                (4, 2) => found.sack_permitted = true,
                (5, 10..) => found.read_sack(option),
                (8, 10) => found.timestamps = u32_at(option, 2).zip(u32_at(option, 6)),
                _ => {}
            }
            rest = rest.get(length..).unwrap_or_default();
        }
        found
    }

    fn read_sack(&mut self, option: &[u8]) {
        let blocks = option.get(2..).unwrap_or_default().chunks_exact(8);
        self.sacks = 0;
        for (place, block) in self.sack.iter_mut().zip(blocks) {
            *place = (u32_at(block, 0).unwrap_or_default(), u32_at(block, 4).unwrap_or_default());
            self.sacks += 1;
        }
    }
}

/// A TCP segment without its payload's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The number of its first byte (or of SYN).
    pub seq: u32,
    /// The number of the byte that is waited for, if it acknowledges.
    pub ack: Option<u32>,
    pub flags: Flags,
    /// The window, not scaled.
    pub window: u16,
    /// Length of its payload on the wire, in bytes.
    pub length: u32,
    pub options: TcpOptions,
}

impl Segment {
    /// Source port, destination port and meaning; `length` is header and payload on the wire, in bytes.
    ///
    /// # Errors
    ///
    /// If too little was captured, or the header is longer than the segment.
    pub fn read(bytes: &[u8], length: u64) -> Result<(u16, u16, Self), Skip> {
        // All but checksum and urgent pointer are needed.
        let cut = if length < 16 { Skip::Malformed } else { Skip::CutShort };
        let view: &[u8; 16] = bytes.first_chunk().ok_or(cut)?;
        let word = |at: usize| u32_at(view, at).unwrap_or_default();
        let header = usize::from(view[12] >> 4) * 4;
        if header < 20 {
            return Err(Skip::Malformed);
        }
        let payload = length.checked_sub(header as u64).ok_or(Skip::Malformed)?;
        let flags = Flags(view[13]);
        let options = bytes.get(20..header.min(bytes.len())).unwrap_or_default();
        let segment = Segment {
            seq: word(4),
            ack: flags.ack().then(|| word(8)),
            flags,
            window: u16::from_be_bytes([view[14], view[15]]),
            length: u32::try_from(payload).map_err(|_| Skip::Malformed)?,
            options: TcpOptions::read(options),
        };
        let [a, b, c, d, ..] = *view;
        Ok((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]), segment))
    }

    /// How many sequence numbers it takes: its payload, and one each for SYN and FIN.
    pub fn extent(&self) -> u32 {
        let ends = u32::from(self.flags.syn()) + u32::from(self.flags.fin());
        self.length.saturating_add(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_told_apart() {
        let bytes = [
            2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 1, 3, 3, 15, 1, 5, 10, 0, 0, 0,
            1, 0, 0, 0, 2, 0, 99,
        ];
        let options = TcpOptions::read(&bytes);
        assert_eq!(options.mss, Some(1460));
        assert_eq!(options.scale, Some(14));
        assert!(options.sack_permitted);
        assert_eq!(options.timestamps, Some((7, 9)));
        assert_eq!(options.sack(), &[(1, 2)]);
    }

    #[test]
    fn options_that_lie_about_their_length_end_the_reading() {
        assert_eq!(TcpOptions::read(&[8, 0, 1, 2]), TcpOptions::default());
        assert_eq!(TcpOptions::read(&[8, 10, 1]), TcpOptions::default());
        assert_eq!(TcpOptions::read(&[2, 4, 5, 0xb4, 8, 200]).mss, Some(1460));
        assert_eq!(TcpOptions::read(&[5, 11, 0, 0, 0, 1, 0, 0, 0, 2, 0]).sack(), &[(1, 2)]);
    }

    #[test]
    fn a_segment_that_was_cut_behind_its_window_is_read() {
        let bytes = [0, 80, 1, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0x80, 0x18, 0x10, 0];
        let (from, to, segment) = Segment::read(&bytes, 1032).expect("16 bytes are enough");
        assert_eq!((from, to, segment.length), (80, 256, 1000));
        assert_eq!((segment.seq, segment.ack, segment.window), (5, Some(6), 4096));
        assert_eq!(Segment::read(&bytes[..15], 1032), Err(Skip::CutShort));
        assert_eq!(Segment::read(&bytes, 31), Err(Skip::Malformed));
    }
}
