//! How a session is shown.

use clap::ValueEnum;
use quell_units::Span;

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
    /// A line a stream, so often.
    Summaries(Span),
    /// Not at all.
    Quiet,
    /// For a program.
    Json(JsonForm),
}
