//! Experiments: what a person writes, the plans of its cells, their execution, and the claims that are checked afterwards.
//!
//! ```text
//!   file ──spec──► Experiment ──plan──► cells ──run──► run folder        judge: claims (expect) against results
//!                                                │        results: a run, with what its experiment says of it
//!                                                │
//!                                              agent: carries out the tasks of one host
//! ```

pub mod agent;
pub mod builtin;
pub mod expect;
pub mod judge;
pub mod kinds;
pub mod line_files;
pub mod machines;
pub mod measured_link;
pub mod part;
pub mod plan;
pub mod prepare;
pub mod results;
pub mod run;
pub mod spec;
pub mod sweep;

pub use prepare::{PrepareError, Ready, prepare, run_to_repeat, text_of};
pub use quell_units::nearest;
