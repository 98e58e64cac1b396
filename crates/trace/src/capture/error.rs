//! Why a capture can't be read, or not further.

use std::fmt;

/// Why a capture can't be read, or not further. Offsets are bytes from the start of the file.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Not a single byte came.
    #[error(
        "the capture is empty: it has not even a file header (was the capturing program killed before it wrote?)"
    )]
    Empty,
    /// It begins like no capture.
    #[error("this is no pcap or pcapng file: it begins with {}{looks}", Hex(found))]
    Foreign {
        /// Its first bytes.
        found: [u8; 4],
        /// What it may be instead.
        looks: Foreign,
    },
    /// A version that nobody has specified yet.
    #[error(
        "byte {offset}: the file says that it has version {major}.{minor}; known are pcap 2.x and pcapng 1.x"
    )]
    Version {
        /// Where it says so.
        offset: u64,
        /// Before the dot.
        major: u16,
        /// After the dot.
        minor: u16,
    },
    /// The file ends within something.
    #[error("byte {offset}: the file ends within {what}: {got} of its {wanted} bytes are there")]
    Truncated {
        /// Where what was cut begins.
        offset: u64,
        /// What was cut.
        what: &'static str,
        /// Its length.
        wanted: u64,
        /// What of it is there.
        got: u64,
    },
    /// A packet that is longer than any.
    #[error(
        "byte {offset}: {what} says that it holds {claimed} bytes, and more than {limit} are not believed"
    )]
    TooLong {
        /// Where the record begins.
        offset: u64,
        /// Which record.
        what: &'static str,
        /// The length that it claims.
        claimed: u64,
        /// The most that is believed.
        limit: u64,
    },
    /// A block of pcapng that contradicts itself.
    #[error("byte {offset}: {what}")]
    Block {
        /// Where the block begins.
        offset: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A packet of an interface that was never described.
    #[error(
        "byte {offset}: a packet of interface {interface}, but only {known} were described before it"
    )]
    Interface {
        /// Where the block begins.
        offset: u64,
        /// The interface's number, from 0.
        interface: u32,
        /// How many are known.
        known: usize,
    },
    /// The stream could not be read.
    #[error("byte {offset}: reading failed: {source}")]
    Io {
        /// How far it was read.
        offset: u64,
        /// What the system answered.
        source: std::io::Error,
    },
}

/// What a file that is no capture may be instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    /// Compressed; with the program that undoes it.
    Compressed(&'static str),
    /// A capture of another program, which can be converted.
    OtherCapture(&'static str),
    /// Text.
    Text,
    /// No idea.
    Unknown,
}

impl Foreign {
    /// Guesses from the first bytes.
    pub(super) fn of(magic: [u8; 4]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Foreign::Compressed("gzip"),
            [0x28, 0xb5, 0x2f, 0xfd] => Foreign::Compressed("zstd"),
            [0xfd, b'7', b'z', b'X'] => Foreign::Compressed("xz"),
            [b'B', b'Z', b'h', _] => Foreign::Compressed("bzip2"),
            [0x04, 0x22, 0x4d, 0x18] => Foreign::Compressed("lz4"),
            [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => {
                Foreign::OtherCapture("pcap as Kuznetzov changed it")
            }
            [b's', b'n', b'o', b'o'] => Foreign::OtherCapture("snoop"),
            _ if magic.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) => {
                Foreign::Text
            }
            _ => Foreign::Unknown,
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Foreign::Compressed(program) => {
                write!(f, ", as {program} writes; try `{program} -dc FILE | quell trace -`")
            }
            Foreign::OtherCapture(name) => {
                write!(f, ", which is {name}; convert it with `editcap -F pcap FILE NEW`")
            }
            Foreign::Text => {
                f.write_str(", which is text; make a capture with `tcpdump -i IFACE -w FILE tcp`")
            }
            Foreign::Unknown => Ok(()),
        }
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
