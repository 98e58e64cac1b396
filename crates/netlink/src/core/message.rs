//! One netlink message: what we send, and one piece of what comes back.

use super::attr::{AttrReader, AttrWriter};
use super::error::DecodeError;

/// Length of `struct nlmsghdr`: length 4, kind 2, flags 2, sequence 4, port 4.
pub(super) const HEADER: usize = 16;

/// Flags of `struct nlmsghdr` (`include/uapi/linux/netlink.h`).
pub mod flags {
    /// This is a request.
    pub const REQUEST: u16 = libc::NLM_F_REQUEST as u16;
    /// Answer with an acknowledgement, also when it worked.
    pub const ACK: u16 = libc::NLM_F_ACK as u16;
    /// Send back what the request made.
    pub const ECHO: u16 = libc::NLM_F_ECHO as u16;
    /// Get: the whole table.
    pub const DUMP: u16 = libc::NLM_F_DUMP as u16;
    /// New: replace what is there.
    pub const REPLACE: u16 = libc::NLM_F_REPLACE as u16;
    /// New: fail if it is there.
    pub const EXCL: u16 = libc::NLM_F_EXCL as u16;
    /// New: make it if it is not there.
    pub const CREATE: u16 = libc::NLM_F_CREATE as u16;
    /// New: add at the end of the list.
    pub const APPEND: u16 = libc::NLM_F_APPEND as u16;
    /// Answer: the table changed while it was read.
    pub const DUMP_INTERRUPTED: u16 = libc::NLM_F_DUMP_INTR as u16;
    /// Refusal: the request is not echoed.
    pub const ACK_CAPPED: u16 = libc::NLM_F_CAPPED as u16;
    /// Refusal: attributes follow.
    pub const ACK_ATTRIBUTES: u16 = libc::NLM_F_ACK_TLVS as u16;
}

/// A request: kind, flags, family header and attributes, and in words what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    kind: u16,
    flags: u16,
    tried: String,
    payload: AttrWriter,
}

impl Message {
    /// A request of this kind. `tried` completes the sentence "could not …" should it fail.
    /// `NLM_F_REQUEST` is always set; the socket adds ACK or DUMP.
    pub fn new(tried: impl Into<String>, kind: u16, flags: u16) -> Self {
        Self {
            kind,
            flags: flags | flags::REQUEST,
            tried: tried.into(),
            payload: AttrWriter::new(),
        }
    }

    /// The same with a family header (`ifinfomsg`, `tcmsg`, `genlmsghdr`) at its front.
    pub fn with_header(tried: impl Into<String>, kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut message = Self::new(tried, kind, flags);
        message.payload.raw(header);
        message
    }

    /// The writer for what follows the family header.
    pub fn attrs(&mut self) -> &mut AttrWriter {
        &mut self.payload
    }

    pub fn kind(&self) -> u16 {
        self.kind
    }

    pub fn flags(&self) -> u16 {
        self.flags
    }

    pub fn tried(&self) -> &str {
        &self.tried
    }

    /// Everything behind the netlink header: family header and attributes.
    pub fn payload(&self) -> &[u8] {
        self.payload.as_bytes()
    }

    /// The kind of an attribute that did not fit, see [`AttrWriter::oversized`].
    pub fn oversized(&self) -> Option<u16> {
        self.payload.oversized()
    }

    /// The whole message as it goes to the kernel, with this sequence number and port 0 ("whoever
    /// sends this").
    pub fn to_bytes(&self, sequence: u32) -> Vec<u8> {
        self.to_bytes_with(self.flags, sequence)
    }

    pub(super) fn to_bytes_with(&self, flags: u16, sequence: u32) -> Vec<u8> {
        let payload = self.payload.as_bytes();
        // A message is bounded by the send buffer, far below 4 GiB; the kernel refuses one that is
        // cut.
        let length = u32::try_from(HEADER + payload.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.extend_from_slice(&length.to_ne_bytes());
        bytes.extend_from_slice(&self.kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&0u32.to_ne_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }
}

/// One message of the kernel's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The message's kind, for example `RTM_NEWLINK`.
    pub kind: u16,
    /// The netlink header's flags.
    pub flags: u16,
    pub payload: Vec<u8>,
}

impl Reply {
    /// Splits the payload into its family header of `N` bytes and the attributes behind it.
    pub fn split<const N: usize>(&self) -> Result<(&[u8; N], AttrReader<'_>), DecodeError> {
        let (header, _) = self.payload.split_first_chunk::<N>().ok_or(DecodeError::Truncated {
            what: "family header",
            wanted: N,
            got: self.payload.len(),
        })?;
        let attrs = self.payload.get(N.next_multiple_of(4)..).unwrap_or_default();
        Ok((header, AttrReader::new(attrs)))
    }
}

/// A message inside a received datagram.
pub(super) struct RawReply<'a> {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    pub payload: &'a [u8],
}

/// Splits a received datagram into its messages.
pub(super) fn split_datagram<'a>(
    mut rest: &'a [u8],
) -> impl Iterator<Item = Result<RawReply<'a>, DecodeError>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some((header, _)) = rest.split_first_chunk::<HEADER>() else {
            let got = rest.len();
            rest = &[];
            return Some(Err(DecodeError::Truncated {
                what: "message header",
                wanted: HEADER,
                got,
            }));
        };
        let word = |at: usize| {
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let length = usize::try_from(word(0)).unwrap_or(usize::MAX);
        if length < HEADER || length > rest.len() {
            let got = rest.len();
            rest = &[];
            return Some(Err(DecodeError::Truncated { what: "message", wanted: length, got }));
        }
        let reply = RawReply {
            kind: half(4),
            flags: half(6),
            sequence: word(8),
            payload: &rest[HEADER..length],
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(reply))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_is_header_family_header_attributes() {
        let mut message = Message::with_header("set mtu", 16, flags::ACK, &[0u8; 16]);
        message.attrs().u32(4, 1400);
        let bytes = message.to_bytes(7);
        assert_eq!(&bytes[..16], &[40, 0, 0, 0, 16, 0, 5, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&bytes[32..], &[8, 0, 4, 0, 0x78, 5, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_datagram_is_split_without_panic_and_with_an_end(
            bytes in prop::collection::vec(any::<u8>(), 0..400)
        ) {
            prop_assert!(split_datagram(&bytes).count() <= bytes.len() / 16 + 1);
        }
    }
}
