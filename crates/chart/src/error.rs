//! What can go wrong: only turning the SVG into pixels or a page.

use thiserror::Error;

/// Why a figure couldn't become a picture.
///
/// Describing and laying out a figure never fails: hostile numbers and names are drawn as far as they can be.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChartError {
    /// The embedded font isn't found under the name that the SVG asks for; every word would be missing.
    #[error(
        "drawing a picture: the font {family:?} (weight {weight}) is not among the {loaded} embedded \
         faces, so all text would be missing; the `notosans` crate probably changed its fonts"
    )]
    FontMissing {
        family: &'static str,
        /// CSS weight asked for.
        weight: u16,
        loaded: usize,
    },
    /// The renderer kept fewer pieces of text than the figure has.
    #[error(
        "drawing a picture: the figure has {expected} pieces of text and the renderer kept {drawn}; \
         the picture was not made, as it would mislead"
    )]
    TextLost {
        /// Pieces of text in the SVG.
        expected: usize,
        /// Pieces of text that got outlines.
        drawn: usize,
    },
    /// The renderer refused our SVG: a defect of this crate.
    #[error("drawing a picture: the renderer refused the SVG: {0}")]
    Svg(String),
    /// The picture would be empty or larger than memory allows.
    #[error(
        "drawing a PNG of {width}x{height} px at scale {scale}: the picture must have between 1 \
         and {limit} px on each side; choose another scale"
    )]
    Size {
        /// Width of the figure in CSS pixels.
        width: u32,
        /// Height of the figure in CSS pixels.
        height: u32,
        /// Pixels per CSS pixel asked for.
        scale: f32,
        /// Longest side allowed, in pixels.
        limit: u32,
    },
    /// The encoder of a PNG or PDF failed.
    #[error("drawing a picture: the encoder failed: {0}")]
    Encode(String),
}
