//! How a command fails, and with which exit code.

use std::fmt;

/// A failure that a person is told about.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A check failed.
    Check,
    /// Used wrongly: wrong arguments, wrong files.
    Usage,
    /// The system would not let us.
    System,
}

impl Failure {
    /// A check failed: exit code 1.
    pub fn check(text: impl fmt::Display) -> Self {
        Failure { kind: Kind::Check, text: text.to_string() }
    }

    /// Wrong usage: exit code 2.
    pub fn usage(text: impl fmt::Display) -> Self {
        Failure { kind: Kind::Usage, text: text.to_string() }
    }

    /// The system refused: exit code 3.
    pub fn system(text: impl fmt::Display) -> Self {
        Failure { kind: Kind::System, text: text.to_string() }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self.kind {
            Kind::Check => 1,
            Kind::Usage => 2,
            Kind::System => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What a file holds must not reach the terminal as its commands.
        for c in self.text.chars() {
            match c {
                '\n' | '\t' => fmt::Write::write_char(f, c)?,
                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                c => fmt::Write::write_char(f, c)?,
            }
        }
        Ok(())
    }
}
