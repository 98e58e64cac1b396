//! What a run shows. Analysis reads the store, and tables, figures, JSON and the page read analysis; a figure never computes a
//! result.
//!
//! ```text
//!   Run ──► analysis ──► table   for the terminal
//!                    ├─► json    for other programs
//!                    ├─► figures for quell-chart: SVG, PNG
//!                    └─► html    one page: figures, tables, how it was measured
//!       ├─► compare               runs beside each other: differences, with intervals
//!       ├─► export                for other programs
//!       └─► view                  one page to zoom in: every packet
//! ```

#![recursion_limit = "256"]

pub mod analysis;
pub mod compare;
pub mod export;
pub mod figures;
mod hosts;
pub mod html;
pub mod insight;
pub mod json;
mod layout;
pub mod table;
pub mod view;

pub use analysis::Results;
