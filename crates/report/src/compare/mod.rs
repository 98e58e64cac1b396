//! Runs beside each other, or scenarios of one: by how much they differ, and how sure that is.
//!
//! ```text
//!   runs with their results ──factor──► groups × what is alike in all of them ──measure──► differences, with intervals
//!                                                                                  ├─► text    for the terminal
//!                                                                                  ├─► json    for other programs
//!                                                                                  ├─► changed what the others changed, in words
//!                                                                                  ├─► worse   for a check that fails
//!                                                                                  └─► figures, page
//! ```
//!
//! What is compared is held against the first group. Repeats that began alike (the same seed) are compared pair by pair; else the two
//! figures' own intervals are taken together. Of many figures some differ by chance: those that differ beyond that are told from those that may.

mod comparison;
mod factor;
pub mod figures;
mod json;
mod measure;
mod page;
mod text;

pub use comparison::Comparison;
pub use factor::{By, CompareError, Group, MeasuredRun, Value, Wanted};
pub use json::render as json;
pub use measure::{Against, Basis, Measure, Set, Towards, Verdict, Why};
pub use page::{render as page, section};
pub use text::{changed, is_all_unknown, render_in as text, sentences as worse, unknown};
