//! Why a capture can't be read, or not further.

/// Offsets are bytes from the start of the file.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error(
        "the capture is empty: it has not even a file header (was the capturing program killed before it wrote?)"
    )]
    Empty,
    #[error("this is no pcap or pcapng file: it begins with {found}{looks}")]
    Foreign {
        /// Its first bytes.
        found: String,
        /// What it may be instead, and what to do then.
        looks: String,
    },
    /// A record contradicts itself, or claims what is not believed.
    #[error("byte {offset}: {what}")]
    Record { offset: u64, what: String },
    #[error("byte {offset}: the file ends within {what}: {got} of its {wanted} bytes are there")]
    Truncated { offset: u64, what: &'static str, wanted: u64, got: u64 },
    #[error("byte {offset}: reading failed: {source}")]
    Io { offset: u64, source: std::io::Error },
}

impl CaptureError {
    pub(super) fn record(offset: u64, what: impl Into<String>) -> Self {
        Self::Record { offset, what: what.into() }
    }

    pub(super) fn version(offset: u64, major: u16, minor: u16) -> Self {
        let what = "the file says that it has version";
        Self::record(offset, format!("{what} {major}.{minor}; known are pcap 2.x and pcapng 1.x"))
    }

    pub(super) fn too_long(offset: u64, what: &str, claimed: u32, limit: u32) -> Self {
        let claims = format!("{what} says that it holds {claimed} bytes");
        Self::record(offset, format!("{claims}, and more than {limit} are not believed"))
    }

    /// Of a file that begins like no capture.
    pub(super) fn foreign(magic: [u8; 4]) -> Self {
        let packed = |by| format!(", as {by} writes; try `{by} -dc FILE | quell trace -`");
        let other = |of| format!(", which is {of}; convert it with `editcap -F pcap FILE NEW`");
        let looks = match magic {
            [0x1f, 0x8b, ..] => packed("gzip"),
            [0x28, 0xb5, 0x2f, 0xfd] => packed("zstd"),
            [0xfd, b'7', b'z', b'X'] => packed("xz"),
            [b'B', b'Z', b'h', _] => packed("bzip2"),
            [0x04, 0x22, 0x4d, 0x18] => packed("lz4"),
            [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => {
                other("pcap as Kuznetzov changed it")
            }
            [b's', b'n', b'o', b'o'] => other("snoop"),
            _ if magic.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) => {
                ", which is text; make a capture with `tcpdump -i IFACE -w FILE tcp`".into()
            }
            _ => String::new(),
        };
        let found = magic.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::Foreign { found, looks }
    }
}
