//! An SVG read again by the renderer, with every word accounted for: what PNG and PDF are made of.

use crate::draw::Drawing;
use crate::error::ChartError;
use crate::font::FAMILY;
use crate::theme::Theme;
use resvg::usvg::{self, fontdb};
use std::sync::{Arc, OnceLock};

pub(crate) fn fonts() -> Arc<fontdb::Database> {
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

/// The shapes of a drawing in plain colours, none of its words lost.
pub(crate) fn tree(
    drawing: &Drawing,
    fonts: Arc<fontdb::Database>,
) -> Result<usvg::Tree, ChartError> {
    if drawing.theme == Theme::Adaptive {
        return Err(ChartError::Svg("it uses CSS variables; draw it light".to_owned()));
    }
    let options =
        usvg::Options { fontdb: fonts, font_family: FAMILY.to_owned(), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(&drawing.svg, &options)
        .map_err(|error| ChartError::Svg(error.to_string()))?;
    let expected = drawing.texts.iter().filter(|text| has_ink(&text.text)).count();
    let drawn = texts(tree.root());
    match drawn < expected {
        true => Err(ChartError::TextLost { expected, drawn }),
        false => Ok(tree),
    }
}
