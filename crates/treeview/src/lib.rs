//! Hierarchies of queues, drawn.
//!
//! ```text
//!   Hierarchy ──fold: what is alike becomes one──┬─► text      lines of a terminal
//!   (rates) ─────words──────────────────────────┼─► picture   cards and arrows, SVG and PNG
//!   kernel ──live::read──┘                       ├─► dot       for Graphviz
//!                                                └─► document  JSON
//! ```

mod dot;
mod fold;
mod json;
pub mod live;
mod picture;
mod place;
mod text;
mod words;

pub use dot::dot;
pub use json::document;
pub use picture::picture;
pub use place::{Rates, View};
pub use text::{Look, text};
