//! How a session is shown.

use clap::ValueEnum;

/// How JSON is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum JsonForm {
    /// One document at the end
    Document,
    /// An object a line
    Lines,
}

/// How it is shown while it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Drawn in place.
    Live,
    /// A line a packet.
    Lines,
    /// Not at all.
    Quiet,
    /// For a program.
    Json(JsonForm),
}
