//! Hierarchies of queues, drawn.
//!
//! ```text
//!   Hierarchy ──fold: what is alike becomes one──┬─► text      lines of a terminal
//!   (rates) ─────words──────────────────────────┼─► picture   cards and arrows, SVG and PNG
//!                                                └─► dot       for Graphviz
//! ```
//!
//! Nothing here knows where a hierarchy was read, or finds anything out about it.

mod dot;
mod fold;
mod picture;
mod place;
mod text;
mod words;

pub use dot::dot;
pub use picture::picture;
pub use place::{Rates, View};
pub use text::{Look, text};
