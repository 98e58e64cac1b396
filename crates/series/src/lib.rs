//! The rate, delay and loss of one direction of a line over time.
//!
//! ```text
//!   files of others ──formats──► LineSeries ──► integral   how many bits pass by when, exactly
//!                                     │
//!                                     └──formats──► files of others
//! ```
//!
//! A series repeats after its end. Times are nanoseconds from its beginning; rates bits a second; a loss is a share of the packets.

pub mod access_class;
pub mod formats;
mod integral;
pub mod measured_line;
mod steps;

pub use formats::{Format, SeriesFile};
pub use measured_line::MeasuredLine;
pub use steps::Steps;

use quell_units::{Rate, Ratio, Span};
use serde::{Deserialize, Serialize};

/// One direction of a line. None is what a file says nothing of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineSeries {
    /// What the line carries when it is busy.
    pub rate: Option<Steps<Rate>>,
    /// How long a packet travels that meets no queue, one way.
    pub delay: Option<Steps<Span>>,
    pub loss: Option<Steps<Ratio>>,
    /// What a packet meets that comes to an idle line, where that was measured apart (CellReplay).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trains: Vec<PacketTrain>,
}

/// When the packets of a short train arrived that came to an idle line: its first packet after the delay of that moment, the others so much later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketTrain {
    pub at: Span,
    pub offsets: Vec<Span>,
}

/// Why a file is no series: where, and what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", .line.map_or(String::new(), |line| format!("line {line}: ")))]
pub struct SeriesError {
    pub line: Option<u64>,
    pub what: String,
}

impl SeriesError {
    pub(crate) fn at(line: u64, what: impl Into<String>) -> Self {
        Self { line: Some(line), what: what.into() }
    }

    pub(crate) fn whole(what: impl Into<String>) -> Self {
        Self { line: None, what: what.into() }
    }
}
