//! Reads the pickles of ping-exp without executing them. Pure: bytes in, values out.
//!
//! ```text
//!   bytes ──machine──► values, by number ──document──► PingExp
//!          opcodes of data only;           the keys that
//!          those that run code             ping-exp writes
//!          are refused by name
//! ```
//!
//! A pickle is a program for a small stack machine, and some of its instructions call any function of the Python that loads it. This
//! machine has only the instructions that plain data needs: numbers, texts, tuples, lists, dictionaries and references to what was
//! made before (protocols 0 to 4 of Python's `pickle`, instructions as `pickletools` names them). Every other instruction is refused
//! with its name and place before anything after it is looked at.
//!
//! Whatever the bytes are, reading ends in time and memory proportional to their number: lengths are checked against what is there,
//! values are stored once and referred to by number, and depth and circles are checked without recursion.

mod bounds;
mod document;
mod error;
mod machine;
mod opcode;
mod packets;
mod text;
mod value;

pub use bounds::{MOST_BYTES, MOST_DEPTH, MOST_PACKETS, MOST_VALUES};
pub use document::{Experiment, PingExp, Reply, Summary};
pub use error::PickleError;
pub use packets::{Fate, Packet};

/// Reads a file that ping-exp wrote with `-w`.
///
/// # Errors
/// [`PickleError`] says at which byte something is refused, or which part of the data is not as ping-exp writes it.
pub fn read(bytes: &[u8]) -> Result<PingExp, PickleError> {
    if bytes.len() > MOST_BYTES {
        return Err(PickleError::TooLong { bytes: bytes.len() });
    }
    let (values, root) = machine::load(bytes)?;
    values.check_shape(root, MOST_DEPTH)?;
    document::of(&values, root)
}
