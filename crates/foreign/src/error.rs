//! What can be wrong with a file.

use crate::imported::Tool;
use crate::{MOST_SAMPLES, MOST_UNPACKED};

/// Why a file is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// The file is longer than is believed.
    #[error("the file has more than {most} bytes; longer ones are not read")]
    TooLong {
        /// As many are read.
        most: usize,
    },
    /// It unpacks to more than is believed.
    #[error("the file unpacks to more than {MOST_UNPACKED} bytes; larger ones are not read")]
    UnpacksTooLong,
    /// Damaged compression.
    #[error("the gzip data can't be unpacked: {why}; was it copied whole?")]
    Gzip {
        /// What the unpacker says.
        why: String,
    },
    /// Bytes that are no text.
    #[error("byte {at} is no text in UTF-8")]
    NoText {
        /// Where, in the unpacked file.
        at: usize,
    },
    /// It is the file of another of these programs.
    #[error("this is a file of {found}, not of {wanted}; `quell import {}` reads it", found.word())]
    OtherTool {
        /// Whose it should be.
        wanted: Tool,
        /// Whose it is.
        found: Tool,
    },
    /// Nobody's.
    #[error(
        "this looks like no file of Flent (.flent.gz), irtt (-o), iperf3 (-J) or fping (-D, -c, -C)"
    )]
    Unknown,
    /// No JSON, or not that of the program.
    #[error("line {line}, column {column}: {why}")]
    Json {
        /// Line from 1, in the unpacked file.
        line: usize,
        /// Column from 1.
        column: usize,
        /// What is wrong.
        why: String,
    },
    /// A value that can't be.
    #[error("{place}: {why}")]
    Value {
        /// Where in the JSON, as `round_trips[3].delay.rtt`.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// A version that is not known.
    #[error("it has version {found} of its format, where {known} is the newest that is known here")]
    Version {
        /// Its version.
        found: u64,
        /// Ours.
        known: u64,
    },
    /// A line that no version prints.
    #[error("line {line}: {why}")]
    Text {
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// More than is believed.
    #[error("it has more than {MOST_SAMPLES} packets or intervals; larger files are not read")]
    TooMany,
    /// Nothing that was measured.
    #[error("there is nothing in it that Quell can show{}", because(why))]
    Nothing {
        /// Whose file it is.
        tool: Tool,
        /// What the program said of itself; empty where it said nothing.
        why: String,
    },
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!("; it says: {why}") }
}

impl ForeignError {
    /// What serde says, in one line whatever the file holds.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        let whole = error.to_string();
        if whole.contains(TOO_MANY) {
            return ForeignError::TooMany;
        }
        // serde_json tells the place at the end; here it stands first.
        let why = whole.rsplit_once(" at line ").map_or(&*whole, |(why, _)| why);
        let mut why: String = why.escape_debug().take(300).collect();
        if error.is_eof() {
            why += "; was it copied whole?";
        }
        ForeignError::Json { line: error.line(), column: error.column(), why }
    }
}

/// How a list that is too long is refused from within serde.
pub(crate) const TOO_MANY: &str = "more samples than are read";
