//! STAMP test packets, unauthenticated (RFC 8762, section 4; session identifier and padding: RFC 8972).
//!
//! ```text
//!            sender's packet                          reflector's packet
//!    0  ┌─────────────────────────────┐       0  ┌─────────────────────────────┐
//!       │ sequence number          4  │          │ its own sequence number  4  │
//!    4  │ timestamp                8  │       4  │ timestamp of sending     8  │
//!   12  │ error estimate 2 │ SSID  2  │      12  │ error estimate 2 │ SSID  2  │
//!   16  │ zero                    28  │      16  │ timestamp of receiving   8  │
//!       │                             │      24  │ sender's sequence number 4  │
//!       │                             │      28  │ sender's timestamp       8  │
//!       │                             │      36  │ sender's estimate 2 │ zero 2 │
//!       │                             │      40  │ sender's TTL 1 │ zero    3  │
//!   44  ├─────────────────────────────┤      44  ├─────────────────────────────┤
//!       │ presence (a TLV of ours) 12 │          │ the same, filled in         │
//!    56  ├─────────────────────────────┤      56  ├─────────────────────────────┤
//!       │ extra padding (a TLV)       │          │ the same                    │
//!       └─────────────────────────────┘          └─────────────────────────────┘
//! ```
//!
//! Presence is a TLV for private use (RFC 8972, section 5.1): other reflectors send it back as it is, flagged as unrecognized. Ours writes a mark, which
//! the sender brings back in its next packets: so it has had an answer, and its address is not forged. Beside it stands how many packets of the session
//! the reflector has left unanswered.
//!
//! All numbers are big-endian. Timestamps are in the truncated PTPv2 format (32 bits of seconds, 32 of nanoseconds, RFC 8186), which
//! unlike NTP's fractions keeps every nanosecond; the Z bit of the error estimate says so.

use crate::read::{at, be16, be32};

/// The size of a packet without padding.
pub const BASE: usize = 44;
/// Header of a TLV (RFC 8972, section 4).
const TLV: usize = 4;
/// "Extra Padding" (RFC 8972, section 4.1).
const PADDING: u8 = 1;
/// "Presence", ours: for private use are 252 to 254 (RFC 8972, section 5.1).
const PRESENCE: u8 = 252;
/// Its value: the mark (4) and the count (4).
const PRESENCE_VALUE: [u8; 2] = [0, 8];
/// The size of a packet that has it, without padding.
pub const WITH_PRESENCE: usize = BASE + TLV + 8;
/// The flag "unrecognized", which the sender sets and a reflector that knows the type clears.
const UNRECOGNIZED: u8 = 0x80;

/// Z (PTPv2 format) set, S (synchronized to an outer source) not, scale 12, multiplier 1: 2^12 · 2^-32 s, a microsecond (RFC 4656,
/// section 4.1.2).
pub const ERROR_ESTIMATE: u16 = 0x4000 | (12 << 8) | 1;

const NANOS: u64 = 1_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderPacket {
    /// Its number; wraps.
    pub seq: u32,
    /// When it was sent: nanoseconds since 1970.
    pub sent_ns: u64,
    pub ssid: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReflectorPacket {
    /// The reflector's own number of the session: how many packets it had received before; wraps.
    pub seq: u32,
    /// When the reflector sent it: nanoseconds since 1970.
    pub sent_ns: u64,
    pub ssid: u16,
    /// When the reflector received the sender's packet: nanoseconds since 1970.
    pub received_ns: u64,
    pub sender_seq: u32,
    pub sender_sent_ns: u64,
    /// The TTL with which the sender's packet arrived.
    pub sender_ttl: u8,
}

/// What a reflector tells a sender beside the RFC's, and the sender brings back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Presence {
    /// What only who gets this answer knows; 0 while it is not known.
    pub mark: u32,
    /// Packets of the session that the reflector left unanswered so far; none where it did not count.
    pub unanswered: Option<u32>,
}

impl Presence {
    const UNKNOWN: u32 = u32::MAX;

    /// Where it stands: its flags, and its value.
    fn place(bytes: &mut [u8]) -> Option<(&mut u8, &mut [u8; 8])> {
        let (head, value) = bytes.get_mut(BASE..WITH_PRESENCE)?.split_first_chunk_mut::<TLV>()?;
        let [flags, kind, length @ ..] = head;
        (*kind == PRESENCE && *length == PRESENCE_VALUE).then_some(())?;
        Some((flags, value.first_chunk_mut()?))
    }

    pub fn fits(bytes: &[u8]) -> bool {
        at::<4>(bytes, BASE).is_some_and(|[_, kind, length @ ..]| {
            kind == PRESENCE && length == PRESENCE_VALUE && bytes.len() >= WITH_PRESENCE
        })
    }

    /// The mark that a sender brings back; none where it has none yet.
    pub fn mark(bytes: &[u8]) -> Option<u32> {
        let mark = be32(bytes, BASE + TLV)?;
        (Self::fits(bytes) && mark != 0).then_some(mark)
    }

    /// What a reflector tells; none where it does not know of it.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if !Self::fits(bytes) || bytes[BASE] & UNRECOGNIZED != 0 {
            return None;
        }
        let (mark, count) = (be32(bytes, BASE + TLV)?, be32(bytes, BASE + TLV + 4)?);
        Some(Self { mark, unanswered: Some(count).filter(|count| *count != Self::UNKNOWN) })
    }

    /// The sender brings the mark back; nothing where there is no room.
    pub fn bring(mark: u32, bytes: &mut [u8]) {
        if let Some((_, value)) = Self::place(bytes) {
            value[..4].copy_from_slice(&mark.to_be_bytes());
        }
    }

    pub fn tell(&self, bytes: &mut [u8]) {
        if let Some((flags, value)) = Self::place(bytes) {
            *flags &= !UNRECOGNIZED;
            let count = self.unanswered.map_or(Self::UNKNOWN, |n| n.min(Self::UNKNOWN - 1));
            value[..4].copy_from_slice(&self.mark.to_be_bytes());
            value[4..].copy_from_slice(&count.to_be_bytes());
        }
    }
}

impl SenderPacket {
    /// A packet of `size` bytes (at least [`BASE`]), without time: see [`SenderPacket::write`].
    pub fn template(size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size.max(BASE)];
        let mut from = BASE;
        if bytes.len() >= WITH_PRESENCE {
            bytes[from..from + 2].copy_from_slice(&[UNRECOGNIZED, PRESENCE]);
            bytes[from + 2..from + TLV].copy_from_slice(&PRESENCE_VALUE);
            from = WITH_PRESENCE;
        }
        let padding = bytes.len() - from;
        if let Some(value) = padding.checked_sub(TLV).and_then(|n| u16::try_from(n).ok()) {
            bytes[from..from + 2].copy_from_slice(&[UNRECOGNIZED, PADDING]);
            bytes[from + 2..from + TLV].copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    /// Writes it over the start of a template; nothing when that is too short.
    pub fn write(&self, bytes: &mut [u8]) {
        let Some(bytes) = bytes.get_mut(..BASE) else { return };
        bytes.fill(0);
        bytes[..4].copy_from_slice(&self.seq.to_be_bytes());
        bytes[4..12].copy_from_slice(&timestamp(self.sent_ns));
        bytes[12..14].copy_from_slice(&ERROR_ESTIMATE.to_be_bytes());
        bytes[14..16].copy_from_slice(&self.ssid.to_be_bytes());
    }

    /// Whether a reflector's packet brings back the timestamp of this one (RFC 8762, section 4.2.1: it is copied).
    pub fn is_timed_in(sent_ns: u64, reflected: &[u8]) -> bool {
        at(reflected, 28) == Some(timestamp(sent_ns))
    }

    /// Reads one. None when it is too short, or when what a sender leaves zero (RFC 8762, section 4.2.1) is not: there a reflector
    /// writes when it received. So no reflector's packet is read as a sender's, and two reflectors can't answer each other.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.get(16..BASE)?.iter().any(|byte| *byte != 0) {
            return None;
        }
        let estimate = be16(bytes, 12)?;
        Some(Self {
            seq: be32(bytes, 0)?,
            sent_ns: nanos(at(bytes, 4)?, estimate),
            ssid: be16(bytes, 14)?,
        })
    }
}

impl ReflectorPacket {
    /// Turns a sender's packet into the reflector's, in place: padding and size stay. False when it is no sender's packet.
    pub fn reflect(bytes: &mut [u8], seq: u32, received_ns: u64, sent_ns: u64, ttl: u8) -> bool {
        let Some((head, rest)) = bytes.split_at_mut_checked(BASE) else { return false };
        let mut sender = [0; 14];
        sender.copy_from_slice(&head[..14]);
        let ssid = [head[14], head[15]];
        head.fill(0);
        head[..4].copy_from_slice(&seq.to_be_bytes());
        head[4..12].copy_from_slice(&timestamp(sent_ns));
        head[12..14].copy_from_slice(&ERROR_ESTIMATE.to_be_bytes());
        head[14..16].copy_from_slice(&ssid);
        head[16..24].copy_from_slice(&timestamp(received_ns));
        head[24..38].copy_from_slice(&sender);
        head[40] = ttl;
        let behind = if rest.get(1) == Some(&PRESENCE) { WITH_PRESENCE - BASE } else { 0 };
        if let Some([flags, PADDING, _, _, ..]) = rest.get_mut(behind..) {
            *flags &= !UNRECOGNIZED;
        }
        true
    }

    /// Reads one; none when it is too short.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytes.get(..BASE)?;
        let estimate = be16(bytes, 12)?;
        Some(Self {
            seq: be32(bytes, 0)?,
            sent_ns: nanos(at(bytes, 4)?, estimate),
            ssid: be16(bytes, 14)?,
            received_ns: nanos(at(bytes, 16)?, estimate),
            sender_seq: be32(bytes, 24)?,
            sender_sent_ns: nanos(at(bytes, 28)?, be16(bytes, 36)?),
            sender_ttl: bytes[40],
        })
    }
}

/// Truncated PTPv2: seconds and nanoseconds.
fn timestamp(ns: u64) -> [u8; 8] {
    let word = ((ns / NANOS) & 0xffff_ffff) << 32 | (ns % NANOS);
    word.to_be_bytes()
}

/// Either format, as the error estimate's Z bit says. NTP counts from 1900 and in 2^-32 s (RFC 5905).
fn nanos(bytes: [u8; 8], estimate: u16) -> u64 {
    const NTP_TO_UNIX_S: u64 = 2_208_988_800;
    let word = u64::from_be_bytes(bytes);
    let (seconds, fraction) = (word >> 32, word & 0xffff_ffff);
    if estimate & 0x4000 != 0 {
        seconds * NANOS + fraction
    } else {
        seconds.saturating_sub(NTP_TO_UNIX_S) * NANOS + ((fraction * NANOS) >> 32)
    }
}

/// The whole number of which the low 32 bits came back: the newest with these bits among those sent, `next` being the first not
/// sent yet. None when none of them was sent.
pub fn widen32(short: u32, next: u64) -> Option<u64> {
    let behind = (next as u32).wrapping_sub(short);
    let behind = if behind == 0 { 1 << 32 } else { u64::from(behind) };
    next.checked_sub(behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SENT: u64 = 1_763_719_200_123_456_789;

    fn sent(size: usize) -> Vec<u8> {
        let mut bytes = SenderPacket::template(size);
        SenderPacket { seq: 5, sent_ns: SENT, ssid: 0xbeef }.write(&mut bytes);
        bytes
    }

    #[test]
    fn a_senders_packet_has_the_bytes_of_the_rfc() {
        let bytes = sent(72);
        assert_eq!(bytes[..4], [0, 0, 0, 5]);
        // By hand: 1763719200 = 0x69203820, 123456789 = 0x075bcd15.
        assert_eq!(bytes[4..12], [0x69, 0x20, 0x38, 0x20, 0x07, 0x5b, 0xcd, 0x15]);
        assert_eq!(bytes[12..16], [0x4c, 1, 0xbe, 0xef]);
        assert!(bytes[16..44].iter().all(|b| *b == 0), "must be zero");
        assert_eq!(bytes[44..48], [0x80, 252, 0, 8], "presence, of private use");
        assert_eq!(bytes[48..56], [0; 8], "nothing is known yet");
        assert_eq!(bytes[56..60], [0x80, 1, 0, 12], "12 bytes of extra padding");
        assert_eq!(sent(55)[44..48], [0x80, 1, 0, 7], "no room for more than padding");
        assert_eq!(SenderPacket::read(&bytes).unwrap().sent_ns, SENT);
    }

    #[test]
    fn the_size_is_kept_also_where_no_tlv_fits() {
        for size in [44, 45, 47, 48, 500, 1472] {
            assert_eq!(sent(size).len(), size);
        }
        assert_eq!(sent(47)[44..], [0, 0, 0]);
    }

    #[test]
    fn a_reflected_packet_says_everything_and_keeps_size_and_padding() {
        let mut bytes = sent(500);
        assert!(ReflectorPacket::reflect(&mut bytes, 3, SENT + 1000, SENT + 2500, 63));
        assert_eq!(bytes.len(), 500);
        assert_eq!(bytes[44..48], [0x80, 252, 0, 8], "of presence this one knows nothing");
        assert_eq!(bytes[56..60], [0, 1, 1, 184], "444 - 4 bytes of padding, recognized");
        let packet = ReflectorPacket::read(&bytes).unwrap();
        let wanted = ReflectorPacket {
            seq: 3,
            sent_ns: SENT + 2500,
            ssid: 0xbeef,
            received_ns: SENT + 1000,
            sender_seq: 5,
            sender_sent_ns: SENT,
            sender_ttl: 63,
        };
        assert_eq!(packet, wanted);
    }

    #[test]
    fn an_answer_is_not_taken_for_a_question() {
        let mut bytes = sent(60);
        assert!(SenderPacket::read(&bytes).is_some());
        ReflectorPacket::reflect(&mut bytes, 0, SENT, SENT, 64);
        assert_eq!(SenderPacket::read(&bytes), None);
        // Padding is the sender's own.
        let mut padded = sent(60);
        padded[48..].fill(0xa5);
        assert!(SenderPacket::read(&padded).is_some());
    }

    #[test]
    fn what_a_reflector_knows_of_a_sender_is_told_and_brought_back() {
        let mut bytes = sent(56);
        assert_eq!((Presence::mark(&bytes), Presence::read(&bytes)), (None, None));
        ReflectorPacket::reflect(&mut bytes, 0, SENT, SENT, 64);
        assert_eq!(Presence::read(&bytes), None, "a reflector that does not know of it");
        for unanswered in [None, Some(7)] {
            let told = Presence { mark: 0xfeed, unanswered };
            told.tell(&mut bytes);
            assert_eq!(Presence::read(&bytes), Some(told));
        }
        let mut next = sent(56);
        Presence::bring(0xfeed, &mut next);
        assert_eq!((Presence::mark(&next), Presence::read(&next)), (Some(0xfeed), None));
        assert_eq!(SenderPacket::read(&next).map(|packet| packet.seq), Some(5));
        let mut small = sent(55);
        Presence::bring(0xfeed, &mut small);
        Presence { mark: 1, unanswered: None }.tell(&mut small);
        assert_eq!((small.clone(), Presence::fits(&small)), (sent(55), false), "no room");
    }

    #[test]
    fn ntp_timestamps_of_other_reflectors_are_read_too() {
        // 2036 is far; 0x80000000 is half a second.
        let seconds: u32 = 2_208_988_800 + 10;
        let bytes = [seconds.to_be_bytes(), 0x8000_0000u32.to_be_bytes()].concat();
        assert_eq!(nanos(bytes.try_into().unwrap(), 1), 10_500_000_000);
    }

    #[test]
    fn what_is_too_short_is_nothing() {
        assert_eq!(SenderPacket::read(&[0; 43]), None);
        assert_eq!(ReflectorPacket::read(&[0; 43]), None);
        assert!(!ReflectorPacket::reflect(&mut [0; 43], 0, 0, 0, 0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (SenderPacket::read(&bytes), ReflectorPacket::read(&bytes));
            let mut bytes = bytes;
            ReflectorPacket::reflect(&mut bytes, 1, 2, 3, 4);
            Presence { mark: 5, unanswered: None }.tell(&mut bytes);
            let _ = (Presence::mark(&bytes), Presence::read(&bytes));
        }

        #[test]
        fn times_survive_to_the_nanosecond(ns in 0u64..(1 << 32) * NANOS) {
            prop_assert_eq!(nanos(timestamp(ns), ERROR_ESTIMATE), ns);
        }
    }
}
