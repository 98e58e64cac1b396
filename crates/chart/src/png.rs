//! SVG to PNG through resvg, which drops text silently when a font is missing: here that is an error.

use crate::draw::Drawing;
use crate::error::ChartError;
use crate::figure::Figure;
use crate::render::{fonts, tree};
use crate::theme::Theme;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb;
use std::sync::Arc;

const LIMIT: u32 = 16_384;

impl Figure {
    /// A PNG, dark on white, with `scale` pixels for each CSS pixel (2 suits screens, 4 print).
    ///
    /// # Errors
    /// See [`Drawing::png`].
    pub fn png(&self, scale: f32) -> Result<Vec<u8>, ChartError> {
        self.draw(Theme::Light).png(scale)
    }
}

impl Drawing {
    /// The drawing as PNG with `scale` pixels for each CSS pixel.
    ///
    /// # Errors
    /// [`ChartError::Size`] when a side would be empty or above 16 384 px, [`ChartError::TextLost`] when the renderer would leave words out,
    /// [`ChartError::Svg`] for an adaptive drawing, as the renderer knows no CSS variables.
    pub fn png(&self, scale: f32) -> Result<Vec<u8>, ChartError> {
        render_with(self, scale, fonts())
    }
}

fn render_with(
    drawing: &Drawing,
    scale: f32,
    fonts: Arc<fontdb::Database>,
) -> Result<Vec<u8>, ChartError> {
    let size =
        ChartError::Size { width: drawing.width, height: drawing.height, scale, limit: LIMIT };
    let side = |px: u32| {
        let px = f64::from(px) * f64::from(scale);
        (px >= 1.0 && px <= f64::from(LIMIT)).then_some(px.round() as u32)
    };
    let (Some(width), Some(height)) = (side(drawing.width), side(drawing.height)) else {
        return Err(size);
    };
    let tree = tree(drawing, fonts)?;
    let mut pixels = Pixmap::new(width, height).ok_or(size)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    let png = pixels.encode_png().map_err(|error| ChartError::Encode(error.to_string()))?;
    Ok(with_density(png, scale))
}

/// The same with how many pixels are a metre, which print and page programs take its size from (PNG, 11.3.5.3: `pHYs`). A CSS pixel is a 96th of
/// an inch.
fn with_density(mut png: Vec<u8>, scale: f32) -> Vec<u8> {
    // The signature, and the first chunk, which is 25 bytes.
    const AFTER_HEADER: usize = 8 + 25;
    let per_metre = (f64::from(scale) * 96.0 / 0.0254).round() as u32;
    let mut chunk = b"pHYs".to_vec();
    chunk.extend(per_metre.to_be_bytes());
    chunk.extend(per_metre.to_be_bytes());
    chunk.push(1);
    let mut crc = flate2::Crc::new();
    crc.update(&chunk);
    let whole = [&9u32.to_be_bytes()[..], &chunk, &crc.sum().to_be_bytes()].concat();
    if png.len() >= AFTER_HEADER {
        png.splice(AFTER_HEADER..AFTER_HEADER, whole);
    }
    png
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Figure, Panel, Polyline};

    fn figure() -> Figure {
        Figure::new("Title").panel(
            Panel::new(Axis::linear("Time").unit("s"), Axis::linear("Delay").unit("ms"))
                .mark(Polyline::new("one", [(0.0, 1.0), (1.0, 3.0)])),
        )
    }

    /// The trap this module is built around: resvg itself would give a picture without a word and no error.
    #[test]
    fn without_its_font_a_png_is_refused() {
        let drawing = figure().draw(Theme::Light);
        let empty = Arc::new(fontdb::Database::new());
        assert!(matches!(
            render_with(&drawing, 1.0, empty),
            Err(ChartError::TextLost { drawn: 0, .. })
        ));
    }

    #[test]
    fn a_text_that_the_renderer_lost_is_noticed() {
        let mut drawing = figure().draw(Theme::Light);
        let start = drawing.svg.find("<text").unwrap();
        let end = start + drawing.svg[start..].find("</text>").unwrap() + "</text>".len();
        drawing.svg.replace_range(start..end, "");
        assert!(matches!(drawing.png(1.0), Err(ChartError::TextLost { .. })));
    }

    #[test]
    fn where_there_are_words_there_are_dark_pixels() {
        let drawing = figure().draw(Theme::Light);
        let png = drawing.png(2.0).unwrap();
        let picture = Pixmap::decode_png(&png).unwrap();
        assert_eq!((picture.width(), picture.height()), (drawing.width * 2, drawing.height * 2));
        assert!(drawing.texts.len() > 8);
        for text in &drawing.texts {
            let r = text.rect;
            let dark = |x: u32, y: u32| picture.pixel(x, y).is_some_and(|p| p.green() < 160);
            let any = (r.x as u32 * 2..r.right() as u32 * 2)
                .any(|x| (r.y as u32 * 2..r.bottom() as u32 * 2).any(|y| dark(x, y)));
            assert!(any, "no ink where {:?} should be", text.text);
        }
    }

    #[test]
    fn a_png_says_how_large_it_is_on_paper() {
        let png = figure().png(300.0 / 96.0).unwrap();
        let at = png.windows(4).position(|w| w == b"pHYs").expect("its density");
        // 300 to an inch are 11 811 to a metre.
        assert_eq!(png[at + 4..at + 13], [0, 0, 0x2e, 0x23, 0, 0, 0x2e, 0x23, 1]);
        assert!(Pixmap::decode_png(&png).is_ok(), "and the chunk's checksum is right");
    }

    #[test]
    fn impossible_sizes_and_adaptive_drawings_are_refused() {
        let drawing = figure().draw(Theme::Light);
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e9] {
            assert!(matches!(drawing.png(scale), Err(ChartError::Size { .. })), "{scale}");
        }
        assert!(matches!(figure().draw(Theme::Adaptive).png(1.0), Err(ChartError::Svg(_))));
    }
}
