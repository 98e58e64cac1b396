//! What can be wrong with a file.

use crate::imported::Tool;
use crate::{MOST_SAMPLES, MOST_UNPACKED};

/// Why a file is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    #[error("the file has more than {most} bytes; longer ones are not read")]
    TooLong { most: usize },
    #[error("the file unpacks to more than {MOST_UNPACKED} bytes; larger ones are not read")]
    UnpacksTooLong,
    #[error("the gzip data can't be unpacked: {why}; was it copied whole?")]
    Gzip { why: String },
    /// It is the file of another of these programs.
    #[error("this is a file of {found}, not of {wanted}; `quell data import {}` reads it", found.word())]
    OtherTool { wanted: Tool, found: Tool },
    /// Nobody's.
    #[error(
        "it has nothing of Flent (.flent.gz), irtt (-o), iperf3 (-J), ping, mtr (-r) or ping-exp (-w)"
    )]
    Unknown,
    /// What a person can't import, but could have had in another form.
    #[error("it holds {what}: take {form}")]
    OtherForm { what: &'static str, form: &'static str },
    #[error("line {line}, column {column}: {why}")]
    Json {
        /// Line from 1, in the unpacked file.
        line: usize,
        /// Column from 1.
        column: usize,
        why: String,
    },
    #[error("{place}: {why}")]
    Value {
        /// Where in the JSON, as `round_trips[3].delay.rtt`.
        place: String,
        why: String,
    },
    #[error("it has version {found} of its format, where {known} is the newest that is known here")]
    Version { found: u64, known: u64 },
    /// A pickle that is damaged, or no plain data.
    #[error("it is no file of ping-exp: {why}. Nothing in it was executed")]
    Pickle { why: String },
    #[error("it has more than {MOST_SAMPLES} packets or intervals; larger files are not read")]
    TooMany,
    #[error("there is nothing in it that Quell can show{}", because(why))]
    Nothing {
        tool: Tool,
        /// What the program said of itself; empty where it said nothing.
        why: String,
    },
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!("; it says: {why}") }
}

impl ForeignError {
    /// Of a part of a file that begins so many lines below its first.
    pub(crate) fn on(mut self, lines: usize) -> Self {
        if let ForeignError::Json { line, .. } = &mut self {
            *line += lines;
        }
        self
    }

    /// What serde says, in one line whatever the file holds.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        let whole = error.to_string();
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
