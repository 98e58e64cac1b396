//! What can be wrong with a pickle.

use crate::{MOST_BYTES, MOST_DEPTH, MOST_PACKETS, MOST_VALUES};

/// Why a file is not read. Places are bytes from the start of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PickleError {
    /// The file is longer than any that ping-exp writes.
    #[error("the file has {bytes} bytes; files of ping-exp up to {MOST_BYTES} bytes are read")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It ends in the middle.
    #[error("the file ends at byte {at}, in the middle of {of}; was it copied whole?")]
    Truncated {
        /// Where the part begins that is not there in full.
        at: usize,
        /// What is cut off.
        of: &'static str,
    },
    /// An instruction that is not for plain data. Nothing was executed.
    #[error(
        "byte {at} has the pickle instruction {name}{target}, which {does}. ping-exp writes plain data only, so this is no file of \
         ping-exp, or somebody changed it. Nothing was executed"
    )]
    Refused {
        /// Where.
        at: usize,
        /// The instruction's name in Python's `pickletools`.
        name: &'static str,
        /// What it names, in quotes and with a space before; empty where it names nothing.
        target: String,
        /// What Python would do.
        does: &'static str,
    },
    /// No instruction of pickle has this code.
    #[error(
        "byte {at} is {code:#04x}, which is no pickle instruction: this is no pickle of ping-exp"
    )]
    Unknown {
        /// Where.
        at: usize,
        /// The byte.
        code: u8,
    },
    /// An instruction that can't be carried out.
    #[error("byte {at}: the pickle instruction {name} {why}")]
    Malformed {
        /// Where.
        at: usize,
        /// The instruction's name in Python's `pickletools`.
        name: &'static str,
        /// What is wrong.
        why: &'static str,
    },
    /// A value that contains itself.
    #[error("the data contain themselves, which ping-exp never writes")]
    Circular,
    /// Values in values in values.
    #[error("the data are nested deeper than {MOST_DEPTH} levels; ping-exp writes five")]
    TooDeep,
    /// More than ping-exp can have measured.
    #[error("the file makes more than {MOST_VALUES} values: more than ping-exp can have measured")]
    TooBig,
    /// The same replies named again and again, or counts that can't be.
    #[error(
        "the file stands for more than {MOST_PACKETS} packets: more than ping-exp can have measured"
    )]
    TooMany,
    /// A pickle of something else.
    #[error("this is no file of ping-exp: {place} should be {wanted}, and is {found}")]
    Shape {
        /// Which part, as `experiments["a"].responses[3]`.
        place: String,
        /// What ping-exp writes there.
        wanted: &'static str,
        /// What is there.
        found: &'static str,
    },
}
