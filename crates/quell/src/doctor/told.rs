//! What a person reads while the other end is asked: on a terminal a line that changes, elsewhere a line for each step that takes a second or
//! more. On standard error, so that what was asked for stands alone.

use std::io::{IsTerminal, Write};

/// Columns of the line that changes.
const COLUMNS: usize = 78;

/// Tells how far it is; the line is gone with it.
pub(super) struct Told {
    live: bool,
}

impl Told {
    pub fn new() -> Self {
        Self { live: std::io::stderr().is_terminal() }
    }

    /// What is done for less than a second: for who watches.
    pub fn now(&self, words: &str) {
        if self.live {
            let line: String = words.chars().take(COLUMNS).collect();
            // Standard error may be closed; then nobody wants to know.
            let _ = write!(std::io::stderr(), "\r{line:<COLUMNS$}");
        }
    }

    /// What takes longer, and how long.
    pub fn step(&self, words: &str) {
        self.now(words);
        if !self.live {
            let _ = writeln!(std::io::stderr(), "{words}");
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if self.live {
            let _ = write!(std::io::stderr(), "\r{:<COLUMNS$}\r", "");
        }
    }
}
