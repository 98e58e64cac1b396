//! What can go wrong: only turning the SVG into pixels or a page.

use thiserror::Error;

/// Why a figure couldn't become a picture.
///
/// Describing and laying out a figure never fails: hostile numbers and names are drawn as far as they can be.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChartError {
    /// The renderer kept fewer pieces of text than the figure has, as without its font.
    #[error(
        "drawing a picture: the figure has {expected} pieces of text and the renderer kept {drawn}; \
         the picture was not made, as it would mislead"
    )]
    TextLost { expected: usize, drawn: usize },
    /// The renderer refused our SVG: a defect of this crate.
    #[error("drawing a picture: the renderer refused the SVG: {0}")]
    Svg(String),
    /// The picture would be empty or larger than memory allows.
    #[error(
        "drawing a PNG of {width}x{height} px at scale {scale}: the picture must have between 1 \
         and {limit} px on each side; choose another scale"
    )]
    Size {
        width: u32,
        height: u32,
        /// Pixels per CSS pixel asked for.
        scale: f32,
        limit: u32,
    },
    /// The encoder of a PNG or PDF failed.
    #[error("drawing a picture: the encoder failed: {0}")]
    Encode(String),
}
