//! How a command fails, and with which exit code.

use std::fmt;

/// What the exit codes mean, the same for every command; those of a program that a command runs come on top.
pub const EXIT_CODES: [(u8, &str); 4] = [
    (0, "fine"),
    (1, "a check failed"),
    (2, "wrong usage"),
    (SYSTEM, "the system would not let us"),
];

pub const SYSTEM: u8 = 3;

/// Characters of what was read that a person is shown, with what is said of it: a file's one line may be all of the file.
const LONGEST: usize = 1000;

/// A failure that a person is told about.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// A check failed: exit code 1.
    pub fn check(text: impl fmt::Display) -> Self {
        Failure { code: 1, text: text.to_string() }
    }

    /// Wrong usage: exit code 2.
    pub fn usage(text: impl fmt::Display) -> Self {
        Failure { code: 2, text: text.to_string() }
    }

    /// The system refused: exit code 3.
    pub fn system(text: impl fmt::Display) -> Self {
        Failure { code: SYSTEM, text: text.to_string() }
    }

    /// As [`Failure::usage`], of an error that is one line, whatever the names and the file in it hold, and however long they are.
    pub fn unusable(error: impl fmt::Display) -> Self {
        Self::usage(quell_wire::text::printable(&error.to_string(), LONGEST))
    }

    /// As [`Failure::system`], likewise.
    pub fn unreadable(error: impl fmt::Display) -> Self {
        Self::system(quell_wire::text::printable(&error.to_string(), LONGEST))
    }

    pub fn code(&self) -> u8 {
        self.code
    }
}

impl From<quell_store::StoreError> for Failure {
    fn from(error: quell_store::StoreError) -> Self {
        Self::system(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What a file holds must not reach the terminal as its commands.
        f.write_str(&quell_wire::text::lines(&self.text))
    }
}
