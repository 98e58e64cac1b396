//! SVG to PNG through resvg, which drops text silently when a font is missing: here that is an error.

use crate::draw::Drawing;
use crate::error::ChartError;
use crate::figure::Figure;
use crate::font::FAMILY;
use crate::theme::Theme;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, fontdb};
use std::sync::{Arc, OnceLock};

const LIMIT: u32 = 16_384;

fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    FONTS
        .get_or_init(|| {
            let mut db = fontdb::Database::new();
            for bytes in [notosans::REGULAR_TTF, notosans::BOLD_TTF] {
                db.load_font_source(fontdb::Source::Binary(Arc::new(bytes)));
            }
            db.set_sans_serif_family(FAMILY);
            Arc::new(db)
        })
        .clone()
}

fn check_fonts(db: &fontdb::Database) -> Result<(), ChartError> {
    for weight in [400, 700] {
        let query = fontdb::Query {
            families: &[fontdb::Family::Name(FAMILY)],
            weight: fontdb::Weight(weight),
            ..fontdb::Query::default()
        };
        let found = db.query(&query).and_then(|id| db.face(id)).map(|face| face.weight.0);
        if found != Some(weight) {
            return Err(ChartError::FontMissing { family: FAMILY, weight, loaded: db.len() });
        }
    }
    Ok(())
}

/// Whether text surely has ink: the embedded font draws all of ASCII, but not every script and no invisible
/// character, and a picture isn't refused for those.
fn has_ink(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_graphic())
}

/// Pieces of text that must have outlines, and got them.
fn texts(group: &usvg::Group) -> usize {
    let of = |node: &usvg::Node| match node {
        usvg::Node::Group(inner) => texts(inner),
        usvg::Node::Text(text) => {
            let wanted = text.chunks().iter().any(|chunk| has_ink(chunk.text()));
            let drawn = !text.layouted().is_empty() && !text.flattened().children().is_empty();
            usize::from(wanted && drawn)
        }
        _ => 0,
    };
    group.children().iter().map(of).sum()
}

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
    /// [`ChartError::Size`] when a side would be empty or above 16 384 px. [`ChartError::FontMissing`] and
    /// [`ChartError::TextLost`] when the renderer would leave words out. [`ChartError::Svg`] for an adaptive
    /// drawing, as the renderer knows no CSS variables: draw with [`Theme::Light`] or [`Theme::Dark`].
    pub fn png(&self, scale: f32) -> Result<Vec<u8>, ChartError> {
        render_with(self, scale, fonts())
    }
}

fn render_with(
    drawing: &Drawing,
    scale: f32,
    fonts: Arc<fontdb::Database>,
) -> Result<Vec<u8>, ChartError> {
    if drawing.theme == Theme::Adaptive {
        return Err(ChartError::Svg("it uses CSS variables; draw it light or dark".to_owned()));
    }
    check_fonts(&fonts)?;
    let size =
        ChartError::Size { width: drawing.width, height: drawing.height, scale, limit: LIMIT };
    let side = |px: u32| {
        let px = f64::from(px) * f64::from(scale);
        (px >= 1.0 && px <= f64::from(LIMIT)).then_some(px.round() as u32)
    };
    let (Some(width), Some(height)) = (side(drawing.width), side(drawing.height)) else {
        return Err(size);
    };
    let options =
        usvg::Options { fontdb: fonts, font_family: FAMILY.to_owned(), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(&drawing.svg, &options)
        .map_err(|error| ChartError::Svg(error.to_string()))?;
    let expected = drawing.texts.iter().filter(|text| has_ink(&text.text)).count();
    let drawn = texts(tree.root());
    if drawn < expected {
        return Err(ChartError::TextLost { expected, drawn });
    }
    let mut pixels = Pixmap::new(width, height).ok_or(size)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| ChartError::Encode(error.to_string()))
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
            Err(ChartError::FontMissing { loaded: 0, .. })
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
    fn impossible_sizes_and_adaptive_drawings_are_refused() {
        let drawing = figure().draw(Theme::Light);
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e9] {
            assert!(matches!(drawing.png(scale), Err(ChartError::Size { .. })), "{scale}");
        }
        assert!(matches!(figure().draw(Theme::Adaptive).png(1.0), Err(ChartError::Svg(_))));
    }
}
