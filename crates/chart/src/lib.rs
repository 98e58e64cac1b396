//! A figure described in data, laid out, and written as SVG, PNG or PDF.
//!
//! ```text
//! Figure ── Panel ── Axis, Axis, Mark…        description: figure, axis, mark
//!    │
//!    ├─ extent, scale, ticks                  what is to be seen, and which values get a label
//!    ├─ font, margins, layout                 words are measured first, plots get what is left
//!    ├─ thin, marker, paint, legend, draw           places in pixels become SVG
//!    └─ render, png, pdf                      SVG becomes pixels or a page, and every word is accounted for
//! Sheet                                        a picture without axes: others place text, boxes and curves
//! ```
//!
//! The crate knows nothing of what its numbers mean and computes no result: quantiles and intervals come in
//! ready-made. It reads no clock, no file and no system font, so that one description gives one picture,
//! byte for byte, everywhere.
//!
//! Layout and drawing are our own. Plot libraries place first and measure later, if at all; a figure that must be
//! fit for print needs text that is never cut, ticks that never collide, gaps that stay gaps, spikes that survive
//! thinning, and an SVG that follows the page's light or dark colours.
//!
//! ```
//! use quell_chart::{Axis, Figure, Polyline, Mark, Panel};
//!
//! let figure = Figure::new("Delay under load").panel(
//!     Panel::new(Axis::linear("Time").unit("s"), Axis::linear("Round-trip time").unit("ms"))
//!         .mark(Polyline::with_gaps("home", [(0.0, Some(20.0)), (1.0, None), (2.0, Some(24.0))]))
//!         .mark(Mark::event(1.0, "load starts")),
//! );
//! let svg = figure.svg();
//! let png = figure.png(2.0)?;
//! # assert!(svg.contains("load starts") && png.len() > 1000);
//! # Ok::<(), quell_chart::ChartError>(())
//! ```

mod axis;
mod draw;
mod error;
mod extent;
mod figure;
mod font;
mod layout;
mod legend;
mod margins;
mod mark;
mod marker;
mod paint;
mod pdf;
mod png;
mod render;
mod scale;
mod sheet;
mod style;
mod svg;
mod theme;
mod thin;
mod ticks;

pub use axis::{Axis, Scale, decent};
pub use draw::Drawing;
pub use error::ChartError;
pub use figure::{Figure, Legend, Panel};
pub use mark::{Band, Bars, Boxes, Ecdf, FiveNumbers, Mark, Polyline, Scatter, Spans, Stack};
pub use sheet::{Sheet, Tone, Type};
pub use svg::{Rect, TextBox, TextRole};
pub use theme::{Look, Theme, looks, style_sheet};
