//! How wide text is, measured with the very outlines that the PNG is drawn with.
//!
//! The font is Noto Sans (SIL Open Font License 1.1), carried by the `notosans` crate. Kerning is not
//! counted: it only ever makes text narrower here, so a measured box is never too small.

use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider};
use std::sync::OnceLock;

/// Name under which both weights are known.
pub(crate) const FAMILY: &str = "Noto Sans";
/// Part of the font size above the baseline that a line's box takes.
pub(crate) const ASCENT: f64 = 0.80;
/// Part of the font size below the baseline.
pub(crate) const DESCENT: f64 = 0.22;
/// Distance of baselines, in font sizes.
pub(crate) const LEADING: f64 = 1.32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Regular,
    Bold,
}

/// Advance widths in font sizes: a table for Latin, the font for everything else.
struct Face {
    font: FontRef<'static>,
    latin: [f32; 256],
}

impl Face {
    fn load(bytes: &'static [u8]) -> Self {
        let font = FontRef::new(bytes).expect("the embedded font was parsed by the test `faces`");
        let mut face = Self { font, latin: [0.0; 256] };
        for code in 0u8..=255 {
            face.latin[usize::from(code)] = face.ask(char::from(code));
        }
        face
    }

    fn ask(&self, c: char) -> f32 {
        // What the font lacks is drawn by another font or as a box: count a full em, or two for wide scripts.
        let absent = if u32::from(c) >= 0x1100 { 1.1 } else { 1.0 };
        let metrics = self.font.glyph_metrics(Size::new(1.0), LocationRef::default());
        self.font.charmap().map(c).and_then(|glyph| metrics.advance_width(glyph)).unwrap_or(absent)
    }

    fn advance(&self, c: char) -> f32 {
        self.latin.get(c as usize).copied().unwrap_or_else(|| self.ask(c))
    }
}

fn face(weight: Weight) -> &'static Face {
    static REGULAR: OnceLock<Face> = OnceLock::new();
    static BOLD: OnceLock<Face> = OnceLock::new();
    match weight {
        Weight::Regular => REGULAR.get_or_init(|| Face::load(notosans::REGULAR_TTF)),
        Weight::Bold => BOLD.get_or_init(|| Face::load(notosans::BOLD_TTF)),
    }
}

/// Width of one line of text in CSS pixels.
pub(crate) fn width(text: &str, size: f64, weight: Weight) -> f64 {
    let face = face(weight);
    text.chars().map(|c| f64::from(face.advance(c))).sum::<f64>() * size
}

/// Breaks text into lines no wider than `limit`: at spaces where possible, inside a word where it must.
///
/// Always gives at least one line, and loses no visible character.
pub(crate) fn wrap(text: &str, size: f64, weight: Weight, limit: f64) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let joined = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if width(&joined, size, weight) <= limit {
            line = joined;
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for c in word.chars() {
            line.push(c);
            if line.chars().nth(1).is_some() && width(&line, size, weight) > limit {
                line.pop();
                lines.push(std::mem::replace(&mut line, c.to_string()));
            }
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Whether `wrap` would have to break inside a word.
pub(crate) fn breaks_words(text: &str, size: f64, limit: f64) -> bool {
    text.split_whitespace().any(|word| width(word, size, Weight::Regular) > limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces() {
        assert!(width("Hamburg", 10.0, Weight::Regular) > 30.0);
        assert!(
            width("Hamburg", 10.0, Weight::Bold) > width("Hamburg", 10.0, Weight::Regular),
            "bold is a face of its own"
        );
    }

    #[test]
    fn wrapping_keeps_every_character_and_the_limit() {
        let text = "round-trip time of averyverylongsinglewordwithoutanybreak at the home link";
        let lines = wrap(text, 11.0, Weight::Regular, 90.0);
        assert!(lines.iter().all(|line| width(line, 11.0, Weight::Regular) <= 90.0), "{lines:?}");
        let visible = |s: &str| s.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        assert_eq!(visible(&lines.concat()), visible(text));
    }

    #[test]
    fn wrapping_nothing_or_into_nothing_ends() {
        assert_eq!(wrap("", 11.0, Weight::Regular, 90.0), [""]);
        assert_eq!(wrap("abc", 11.0, Weight::Regular, 0.0), ["a", "b", "c"]);
    }
}
