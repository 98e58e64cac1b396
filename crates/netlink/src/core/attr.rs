//! Attributes: a 4-byte header (length, kind; host byte order), a payload, padding to 4 bytes. They
//! nest.

use super::error::DecodeError;

const HEADER: usize = 4;
const NESTED: u16 = libc::NLA_F_NESTED as u16;

/// Writes attributes in exactly the order of the calls, so that what is sent can be compared byte
/// for byte.
///
/// Integers are in host byte order unless the method's name says `be`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct AttrWriter {
    bytes: Vec<u8>,
    oversized: Option<u16>,
}

impl AttrWriter {
    pub fn new() -> Self {
        Self::default()
    }

    /// What was written so far, padding included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The kind of the first attribute that was too long for its 16-bit length field, if any. Such
    /// an attribute is left out, and [`Socket`](super::Socket) refuses to send the message.
    pub fn oversized(&self) -> Option<u16> {
        self.oversized
    }

    /// Appends raw bytes, padded to 4: a family header (`ifinfomsg`, `tcmsg`), or a struct that is
    /// no attribute.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// An attribute with this payload. `kind` is written as given, with its flag bits if it has
    /// any.
    pub fn bytes(&mut self, kind: u16, payload: &[u8]) -> &mut Self {
        match u16::try_from(HEADER + payload.len()) {
            Ok(length) => {
                self.bytes.extend_from_slice(&length.to_ne_bytes());
                self.bytes.extend_from_slice(&kind.to_ne_bytes());
                self.raw(payload);
            }
            Err(_) => {
                self.oversized.get_or_insert(kind);
            }
        }
        self
    }

    /// An attribute whose presence is its meaning (`NLA_FLAG`).
    pub fn flag(&mut self, kind: u16) -> &mut Self {
        self.bytes(kind, &[])
    }

    pub fn u8(&mut self, kind: u16, value: u8) -> &mut Self {
        self.bytes(kind, &[value])
    }

    /// 16 bits.
    pub fn u16(&mut self, kind: u16, value: u16) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// 32 bits.
    pub fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// 64 bits.
    pub fn u64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// 32 bits, signed.
    pub fn i32(&mut self, kind: u16, value: i32) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// 16 bits in network byte order.
    pub fn be16(&mut self, kind: u16, value: u16) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// 32 bits in network byte order.
    pub fn be32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// A string with its terminating NUL (`NLA_NUL_STRING`, what most families want).
    pub fn str(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut payload = Vec::with_capacity(value.len() + 1);
        payload.extend_from_slice(value.as_bytes());
        payload.push(0);
        self.bytes(kind, &payload)
    }

    /// A string without NUL, as iproute2 sends some device kinds.
    pub fn str_unterminated(&mut self, kind: u16, value: &str) -> &mut Self {
        self.bytes(kind, value.as_bytes())
    }

    /// Attributes inside an attribute, with `NLA_F_NESTED` set: what current kernels ask for and
    /// nftables, ethtool and WireGuard insist on.
    pub fn nested(&mut self, kind: u16, write: impl FnOnce(&mut Self)) -> &mut Self {
        self.nested_plain(kind | NESTED, write)
    }

    /// Attributes inside an attribute without `NLA_F_NESTED`, as `tc` and `ip` send most of theirs.
    pub fn nested_plain(&mut self, kind: u16, write: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEADER]);
        write(self);
        match u16::try_from(self.bytes.len() - start) {
            Ok(length) => {
                self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
                self.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
            }
            Err(_) => {
                self.bytes.truncate(start);
                self.oversized.get_or_insert(kind & libc::NLA_TYPE_MASK as u16);
            }
        }
        self
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// One attribute of an answer: its kind without flag bits, and its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr<'a> {
    /// The attribute's number in its family.
    pub kind: u16,
    /// Whether `NLA_F_NESTED` says that there are attributes in it; older families don't say.
    pub marked: bool,
    pub payload: &'a [u8],
}

macro_rules! integer {
    ($($name:ident: $type:ty, $from:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[doc = " Errors when the payload has another length."]
        pub fn $name(&self) -> Result<$type, DecodeError> {
            Ok(<$type>::$from(self.array()?))
        }
    )*};
}

impl<'a> Attr<'a> {
    integer! {
        u8: u8, from_ne_bytes, "One byte.";
        u16: u16, from_ne_bytes, "16 bits, host byte order.";
        u32: u32, from_ne_bytes, "32 bits, host byte order.";
        u64: u64, from_ne_bytes, "64 bits, host byte order.";
        be16: u16, from_be_bytes, "16 bits, network byte order.";
        be32: u32, from_be_bytes, "32 bits, network byte order.";
    }

    /// The whole payload as an array. Errors when the payload has another length.
    pub fn array<const N: usize>(&self) -> Result<[u8; N], DecodeError> {
        self.payload.try_into().map_err(|_| DecodeError::AttributeLength {
            kind: self.kind,
            wanted: N,
            got: self.payload.len(),
        })
    }

    /// A string: the payload up to its first NUL. Errors when it is not UTF-8.
    pub fn str(&self) -> Result<&'a str, DecodeError> {
        let text = self.payload.split(|&byte| byte == 0).next().unwrap_or_default();
        std::str::from_utf8(text).map_err(|_| DecodeError::NotText { kind: self.kind })
    }

    /// The attributes inside this one.
    pub fn nested(&self) -> AttrReader<'a> {
        AttrReader::new(self.payload)
    }
}

/// Walks over attributes and checks each length against the bytes that are really there.
///
/// After an error the walk ends: behind a wrong length nothing can be trusted.
#[derive(Debug, Clone)]
pub struct AttrReader<'a> {
    rest: &'a [u8],
}

impl<'a> AttrReader<'a> {
    /// Reads attributes from `bytes`, which begin with an attribute's header.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The first attribute of this kind, if there is one before the end or before an error.
    pub fn find(&self, kind: u16) -> Result<Option<Attr<'a>>, DecodeError> {
        for attr in self.clone() {
            let attr = attr?;
            if attr.kind == kind {
                return Ok(Some(attr));
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for AttrReader<'a> {
    type Item = Result<Attr<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The kernel's own parser ignores up to three trailing bytes in the same way (nla_ok).
        if self.rest.len() < HEADER {
            let left = self.rest.len();
            let zero = self.rest.iter().all(|&byte| byte == 0);
            self.rest = &[];
            return (left > 0 && !zero).then_some(Err(DecodeError::Truncated {
                what: "attribute header",
                wanted: HEADER,
                got: left,
            }));
        }
        let length = usize::from(u16::from_ne_bytes([self.rest[0], self.rest[1]]));
        let kind = u16::from_ne_bytes([self.rest[2], self.rest[3]]);
        let (kind, marked) = (kind & libc::NLA_TYPE_MASK as u16, kind & NESTED != 0);
        if length < HEADER || length > self.rest.len() {
            let got = self.rest.len();
            self.rest = &[];
            return Some(Err(DecodeError::LyingLength { kind, claimed: length, available: got }));
        }
        let payload = &self.rest[HEADER..length];
        // The last attribute's padding may be missing.
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(Attr { kind, marked, payload }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn writes_the_bytes_that_the_kernel_header_describes() {
        let mut writer = AttrWriter::new();
        writer.u32(4, 1500).str(3, "lo").nested(18, |inner| {
            inner.str_unterminated(1, "veth").u8(9, 7).flag(2);
        });
        let expected: &[u8] = &[
            8, 0, 4, 0, 0xdc, 5, 0, 0, // u32
            7, 0, 3, 0, b'l', b'o', 0, 0, // string, NUL counted, padding not
            24, 0, 18, 0x80, // nested, flag bit
            8, 0, 1, 0, b'v', b'e', b't', b'h', //
            5, 0, 9, 0, 7, 0, 0, 0, //
            4, 0, 2, 0,
        ];
        assert_eq!(writer.as_bytes(), expected);
    }

    #[test]
    fn a_payload_too_long_for_its_length_field_is_remembered_not_truncated() {
        let mut writer = AttrWriter::new();
        writer.bytes(5, &vec![0; 65_531]);
        assert_eq!(writer.oversized(), None);
        writer.bytes(6, &vec![0; 65_532]);
        assert_eq!(writer.oversized(), Some(6));

        let mut nest = AttrWriter::new();
        nest.nested(7, |inner| {
            inner.bytes(1, &vec![0; 40_000]).bytes(2, &vec![0; 40_000]);
        });
        assert_eq!(nest.oversized(), Some(7));
        assert!(nest.as_bytes().is_empty());
    }

    #[test]
    fn a_length_beyond_the_end_is_an_error_and_ends_the_walk() {
        let bytes = [200u8, 0, 1, 0, 1, 2, 3, 4];
        let mut reader = AttrReader::new(&bytes);
        assert_eq!(
            reader.next(),
            Some(Err(DecodeError::LyingLength { kind: 1, claimed: 200, available: 8 }))
        );
        assert_eq!(reader.next(), None);
    }

    #[test]
    fn a_length_shorter_than_its_own_header_does_not_loop_for_ever() {
        let bytes = [0u8, 0, 1, 0, 0, 0, 0, 0];
        assert_eq!(AttrReader::new(&bytes).count(), 1);
        assert!(AttrReader::new(&bytes).next().is_some_and(|attr| attr.is_err()));
    }

    #[test]
    fn an_integer_of_another_length_is_refused() {
        let attr = Attr { kind: 4, marked: false, payload: &[1, 2, 3] };
        assert_eq!(attr.u32(), Err(DecodeError::AttributeLength { kind: 4, wanted: 4, got: 3 }));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            attrs in prop::collection::vec(
                (0u16..0x3fff, prop::collection::vec(any::<u8>(), 0..50)), 0..20)
        ) {
            let mut writer = AttrWriter::new();
            for (kind, payload) in &attrs {
                writer.bytes(*kind, payload);
            }
            let read: Result<Vec<_>, _> = AttrReader::new(writer.as_bytes())
                .map(|attr| attr.map(|attr| (attr.kind, attr.payload.to_vec())))
                .collect();
            prop_assert_eq!(read.unwrap(), attrs);
        }

        #[test]
        fn any_bytes_at_all_are_walked_without_panic_and_with_an_end(
            bytes in prop::collection::vec(any::<u8>(), 0..300)
        ) {
            let steps = AttrReader::new(&bytes).map(|attr| {
                if let Ok(attr) = attr {
                    let _ = attr.str();
                    let _ = attr.nested().count();
                }
            }).count();
            prop_assert!(steps <= bytes.len() / 4 + 1);
        }
    }
}
