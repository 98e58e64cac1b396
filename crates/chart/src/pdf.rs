//! A drawing as PDF: shapes as shapes, words as words that can be searched and copied, in the font that they were measured with.
//!
//! ```text
//! SVG ──usvg──► groups, paths, glyphs with places ──► one page's content stream
//!                                          └────────► the two faces, of each only the glyphs that are used
//! ```
//!
//! The SVG that is drawn here has plain colours, straight lines, curves, clips and text, nothing else, and PDF has the same; a converter
//! of any SVG (svg2pdf, krilla) would bring a second renderer, or one of another version than PNG's, into the program. No date and no random
//! number gets in: one description gives one file.

use crate::draw::Drawing;
use crate::error::ChartError;
use crate::figure::Figure;
use crate::render::{fonts, tree};
use crate::theme::Theme;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::types::{
    CidFontType, FontFlags, LineCapStyle, LineJoinStyle, SystemInfo, UnicodeCmap,
};
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect, Ref, Str, TextStr};
use resvg::tiny_skia::{PathSegment, Transform};
use resvg::usvg::{self, fontdb};
use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, GlyphId, MetadataProvider};
use std::collections::BTreeMap;
use std::io::Write as _;
use subsetter::GlyphRemapper;

/// Points of PDF (72 to an inch) in a CSS pixel (96 to an inch).
const POINTS: f32 = 0.75;

const SYSTEM: SystemInfo =
    SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };

impl Figure {
    /// A PDF of one page, dark on white, as large as the figure is on paper.
    ///
    /// # Errors
    /// See [`Drawing::pdf`].
    pub fn pdf(&self) -> Result<Vec<u8>, ChartError> {
        self.draw(Theme::Light).pdf()
    }
}

impl Drawing {
    /// The drawing as a PDF of one page, 96 CSS pixels to an inch.
    ///
    /// # Errors
    /// [`ChartError::TextLost`] when words would be left out, [`ChartError::Svg`] for an adaptive drawing, [`ChartError::Encode`] when a font
    /// could not be cut to what is used.
    pub fn pdf(&self) -> Result<Vec<u8>, ChartError> {
        let tree = tree(self, fonts())?;
        let mut page = Page {
            tree: &tree,
            content: Content::new(),
            alphas: Vec::new(),
            faces: BTreeMap::new(),
        };
        let height = self.height as f32 * POINTS;
        page.content.transform([POINTS, 0.0, 0.0, -POINTS, 0.0, height]);
        page.group(tree.root(), 1.0);
        page.finish(&self.title, self.width as f32 * POINTS, height)
    }
}

/// One face of the font, as far as it is used.
struct Face {
    id: fontdb::ID,
    glyphs: GlyphRemapper,
    /// What each used glyph stands for, by its number in the file, and how wide it is in thousandths of the font size.
    used: BTreeMap<u16, (String, f32)>,
}

struct Page<'a> {
    tree: &'a usvg::Tree,
    content: Content,
    /// Opacities, by whose places graphics states are named.
    alphas: Vec<f32>,
    /// By the number of the font's name.
    faces: BTreeMap<usize, Face>,
}

impl Page<'_> {
    fn group(&mut self, group: &usvg::Group, alpha: f32) {
        self.content.save_state();
        self.content.transform(matrix(group.transform()));
        if let Some(clip) = group.clip_path() {
            for node in clip.root().children() {
                if let usvg::Node::Path(path) = node {
                    self.trace(path, clip.transform());
                }
            }
            self.content.clip_nonzero();
            self.content.end_path();
        }
        let alpha = alpha * group.opacity().get();
        for node in group.children() {
            match node {
                usvg::Node::Group(inner) => self.group(inner, alpha),
                usvg::Node::Path(path) if path.is_visible() => self.path(path, alpha),
                usvg::Node::Text(text) => self.text(text, alpha),
                // Drawings have no pictures in them.
                usvg::Node::Path(_) | usvg::Node::Image(_) => {}
            }
        }
        self.content.restore_state();
    }

    fn path(&mut self, path: &usvg::Path, alpha: f32) {
        if let Some(fill) = path.fill() {
            self.alpha(alpha * fill.opacity().get());
            self.fill_colour(fill.paint());
            self.trace(path, Transform::identity());
            match fill.rule() {
                usvg::FillRule::NonZero => self.content.fill_nonzero(),
                usvg::FillRule::EvenOdd => self.content.fill_even_odd(),
            };
        }
        if let Some(stroke) = path.stroke() {
            self.alpha(alpha * stroke.opacity().get());
            let [r, g, b] = colour(stroke.paint());
            self.content.set_stroke_rgb(r, g, b);
            self.content.set_line_width(stroke.width().get());
            self.content.set_line_cap(match stroke.linecap() {
                usvg::LineCap::Butt => LineCapStyle::ButtCap,
                usvg::LineCap::Round => LineCapStyle::RoundCap,
                usvg::LineCap::Square => LineCapStyle::ProjectingSquareCap,
            });
            self.content.set_line_join(match stroke.linejoin() {
                usvg::LineJoin::Round => LineJoinStyle::RoundJoin,
                usvg::LineJoin::Bevel => LineJoinStyle::BevelJoin,
                _ => LineJoinStyle::MiterJoin,
            });
            let dashes = stroke.dasharray().unwrap_or_default();
            self.content.set_dash_pattern(dashes.iter().copied(), stroke.dashoffset());
            self.trace(path, Transform::identity());
            self.content.stroke();
        }
    }

    fn trace(&mut self, path: &usvg::Path, by: Transform) {
        let path = path.data().clone().transform(by);
        let mut at = (0.0, 0.0);
        for segment in path.iter().flat_map(|path| path.segments()) {
            match segment {
                PathSegment::MoveTo(p) => self.content.move_to(p.x, p.y),
                PathSegment::LineTo(p) => self.content.line_to(p.x, p.y),
                // PDF has cubic curves only.
                PathSegment::QuadTo(c, p) => {
                    let near = |end: f32, control: f32| end + (control - end) * 2.0 / 3.0;
                    self.content.cubic_to(
                        near(at.0, c.x),
                        near(at.1, c.y),
                        near(p.x, c.x),
                        near(p.y, c.y),
                        p.x,
                        p.y,
                    )
                }
                PathSegment::CubicTo(a, b, p) => {
                    self.content.cubic_to(a.x, a.y, b.x, b.y, p.x, p.y)
                }
                PathSegment::Close => self.content.close_path(),
            };
            if let PathSegment::MoveTo(p)
            | PathSegment::LineTo(p)
            | PathSegment::QuadTo(_, p)
            | PathSegment::CubicTo(_, _, p) = segment
            {
                at = (p.x, p.y);
            }
        }
    }

    fn text(&mut self, text: &usvg::Text, alpha: f32) {
        for span in text.layouted().iter().filter(|span| span.visible) {
            let Some(fill) = &span.fill else { continue };
            self.alpha(alpha * fill.opacity().get());
            self.fill_colour(fill.paint());
            for run in span.positioned_glyphs.chunk_by(|a, b| a.font == b.font) {
                self.run(run);
            }
        }
    }

    fn run(&mut self, glyphs: &[usvg::layout::PositionedGlyph]) {
        let Some(first) = glyphs.first() else { return };
        let size = first.font_size();
        let (number, codes) = self.codes(first.font, glyphs);
        let start = first.outline_transform();
        let units = (start.sx.hypot(start.ky) / size).max(f32::MIN_POSITIVE);
        let scaled = start.pre_scale(1.0 / units / size, 1.0 / units / size);
        self.content.begin_text();
        self.content.set_font(Name(format!("F{number}").as_bytes()), size);
        self.content.set_text_matrix(matrix(scaled));
        let mut positioned = self.content.show_positioned();
        let mut items = positioned.items();
        // Where the next glyph comes by the widths alone, in font sizes.
        let mut pen = 0.0;
        for (glyph, (code, width)) in glyphs.iter().zip(codes) {
            let at = glyph.outline_transform();
            let place = (at.tx - start.tx).hypot(at.ty - start.ty) / size;
            // Kerning, in thousandths; smaller than a hundredth of a pixel is rounding.
            let off = (pen - place) * 1000.0;
            if off.abs() > 1.0 {
                items.adjust(off);
                pen = place;
            }
            items.show(Str(&code.to_be_bytes()));
            pen += width / 1000.0;
        }
        items.finish();
        positioned.finish();
        self.content.end_text();
    }

    /// The number of a face, and of each glyph its number in the file and its width.
    fn codes(
        &mut self,
        id: fontdb::ID,
        glyphs: &[usvg::layout::PositionedGlyph],
    ) -> (usize, Vec<(u16, f32)>) {
        let known = self.faces.iter().find(|(_, face)| face.id == id).map(|(number, _)| *number);
        let number = known.unwrap_or(self.faces.len());
        let face = self.faces.entry(number).or_insert_with(|| Face {
            id,
            glyphs: GlyphRemapper::new(),
            used: BTreeMap::new(),
        });
        let codes = self.tree.fontdb().with_face_data(id, |bytes, index| {
            let font = FontRef::from_index(bytes, index).ok()?;
            let metrics = font.glyph_metrics(Size::new(1000.0), LocationRef::default());
            let one = |glyph: &usvg::layout::PositionedGlyph| {
                let old = u16::try_from(glyph.id.0).unwrap_or(0);
                let width = metrics.advance_width(GlyphId::new(old.into())).unwrap_or(0.0);
                let code = face.glyphs.remap(old);
                face.used.entry(code).or_insert_with(|| (glyph.text.clone(), width));
                (code, width)
            };
            Some(glyphs.iter().map(one).collect::<Vec<_>>())
        });
        (number, codes.flatten().unwrap_or_default())
    }

    fn alpha(&mut self, alpha: f32) {
        let at = self.alphas.iter().position(|known| *known == alpha).unwrap_or_else(|| {
            self.alphas.push(alpha);
            self.alphas.len() - 1
        });
        self.content.set_parameters(Name(format!("A{at}").as_bytes()));
    }

    fn fill_colour(&mut self, paint: &usvg::Paint) {
        let [r, g, b] = colour(paint);
        self.content.set_fill_rgb(r, g, b);
    }

    fn finish(self, title: &str, width: f32, height: f32) -> Result<Vec<u8>, ChartError> {
        let mut last = 0;
        let mut next = || {
            last += 1;
            Ref::new(last)
        };
        let (catalog, pages, page, content, info) = (next(), next(), next(), next(), next());
        let alphas: Vec<Ref> = self.alphas.iter().map(|_| next()).collect();
        let fonts: Vec<[Ref; 5]> =
            self.faces.iter().map(|_| std::array::from_fn(|_| next())).collect();
        let mut pdf = Pdf::new();
        pdf.catalog(catalog).pages(pages);
        pdf.document_info(info).title(TextStr(title)).producer(TextStr("Quell"));
        pdf.pages(pages).kids([page]).count(1);
        let mut sheet = pdf.page(page);
        sheet.media_box(Rect::new(0.0, 0.0, width, height)).parent(pages).contents(content);
        let mut resources = sheet.resources();
        let mut states = resources.ext_g_states();
        for (at, id) in alphas.iter().enumerate() {
            states.pair(Name(format!("A{at}").as_bytes()), id);
        }
        states.finish();
        let mut named = resources.fonts();
        for (number, ids) in self.faces.keys().zip(&fonts) {
            named.pair(Name(format!("F{number}").as_bytes()), ids[0]);
        }
        named.finish();
        resources.finish();
        sheet.finish();
        for (alpha, id) in self.alphas.iter().zip(&alphas) {
            pdf.ext_graphics(*id).stroking_alpha(*alpha).non_stroking_alpha(*alpha);
        }
        for (face, ids) in self.faces.values().zip(&fonts) {
            embed(&mut pdf, self.tree, face, *ids)?;
        }
        let packed = packed(&self.content.finish())?;
        pdf.stream(content, &packed).filter(Filter::FlateDecode);
        Ok(pdf.finish())
    }
}

fn embed(pdf: &mut Pdf, tree: &usvg::Tree, face: &Face, ids: [Ref; 5]) -> Result<(), ChartError> {
    let [font, cid, descriptor, program, cmap] = ids;
    let gone = || ChartError::Encode("the embedded font could not be read again".to_owned());
    let read = tree.fontdb().with_face_data(face.id, |bytes, index| {
        let metrics = FontRef::from_index(bytes, index)
            .ok()?
            .metrics(Size::new(1000.0), LocationRef::default());
        let cut = subsetter::subset(bytes, index, &face.glyphs).ok()?;
        Some((metrics, cut))
    });
    let (metrics, cut) = read.flatten().ok_or_else(gone)?;
    let weight = tree.fontdb().face(face.id).map_or(400, |face| face.weight.0);
    // Six letters before the name say that the font is a part of itself (ISO 32000-1, 9.6.4).
    let name = if weight > 500 { "QUELLB+NotoSans-Bold" } else { "QUELLA+NotoSans-Regular" };
    let name = Name(name.as_bytes());
    pdf.type0_font(font)
        .base_font(name)
        .encoding_predefined(Name(b"Identity-H"))
        .descendant_font(cid)
        .to_unicode(cmap);
    let mut descendant = pdf.cid_font(cid);
    descendant
        .subtype(CidFontType::Type2)
        .base_font(name)
        .system_info(SYSTEM)
        .font_descriptor(descriptor)
        .default_width(0.0)
        .cid_to_gid_map_predefined(Name(b"Identity"));
    let mut widths = descendant.widths();
    for (code, (_, width)) in &face.used {
        widths.consecutive(*code, [*width]);
    }
    widths.finish();
    descendant.finish();
    let bounds = metrics.bounds.unwrap_or_default();
    pdf.font_descriptor(descriptor)
        .name(name)
        .flags(FontFlags::NON_SYMBOLIC)
        .bbox(Rect::new(bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max))
        .italic_angle(0.0)
        .ascent(metrics.ascent)
        .descent(metrics.descent)
        .cap_height(metrics.cap_height.unwrap_or(metrics.ascent))
        .stem_v(if weight > 500 { 140.0 } else { 80.0 })
        .font_file2(program);
    let mut unicode = UnicodeCmap::new(Name(b"Quell"), SYSTEM);
    for (code, (text, _)) in &face.used {
        unicode.pair_with_multiple(*code, text.chars());
    }
    pdf.cmap(cmap, &unicode.finish());
    pdf.stream(program, &packed(&cut)?)
        .filter(Filter::FlateDecode)
        .pair(Name(b"Length1"), i32::try_from(cut.len()).unwrap_or(i32::MAX));
    Ok(())
}

fn packed(bytes: &[u8]) -> Result<Vec<u8>, ChartError> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.map_err(|error| ChartError::Encode(error.to_string()))
}

fn matrix(t: Transform) -> [f32; 6] {
    [t.sx, t.ky, t.kx, t.sy, t.tx, t.ty]
}

fn colour(paint: &usvg::Paint) -> [f32; 3] {
    match paint {
        usvg::Paint::Color(c) => [c.red, c.green, c.blue].map(|part| f32::from(part) / 255.0),
        _ => [0.0; 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Panel, Polyline};

    fn figure() -> Figure {
        Figure::new("Delay über alles").size(480, 320).panel(
            Panel::new(Axis::linear("Time").unit("s"), Axis::linear("Delay").unit("ms"))
                .mark(Polyline::new("one", [(0.0, 1.0), (1.0, 3.0)])),
        )
    }

    /// The streams of a PDF that were packed, unpacked.
    fn unpacked(pdf: &[u8]) -> Vec<Vec<u8>> {
        let find = |from: usize, what: &[u8]| {
            pdf[from..].windows(what.len()).position(|w| w == what).map(|at| from + at)
        };
        let (mut from, mut all) = (0, Vec::new());
        while let Some(start) = find(from, b"\nstream\n") {
            let end = find(start, b"\nendstream").expect("a stream ends");
            let mut text = Vec::new();
            let read = std::io::Read::read_to_end(
                &mut flate2::read::ZlibDecoder::new(&pdf[start + 8..end]),
                &mut text,
            );
            if read.is_ok() {
                all.push(text);
            }
            from = end;
        }
        all
    }

    #[test]
    fn a_pdf_has_its_size_on_paper_and_the_same_bytes_each_time() {
        let pdf = figure().pdf().expect("a PDF");
        assert!(pdf.starts_with(b"%PDF-1.") && pdf.ends_with(b"%%EOF"));
        let text = String::from_utf8_lossy(&pdf);
        let (_, sheet) = text.split_once("/MediaBox [").expect("a size");
        let numbers = sheet.split(']').next().expect("an end").split_whitespace();
        let numbers: Vec<f32> = numbers.filter_map(|n| n.parse().ok()).collect();
        assert_eq!(numbers, [0.0, 0.0, 360.0, 240.0], "5 by 3.3 inches");
        assert_eq!(pdf, figure().pdf().expect("a PDF"));
    }

    /// Words are words: both faces are embedded with what their glyphs stand for, and the page shows text.
    #[test]
    fn words_can_be_searched_and_lines_are_lines() {
        let pdf = figure().pdf().expect("a PDF");
        let text = String::from_utf8_lossy(&pdf);
        assert_eq!(text.matches("/FontFile2").count(), 2, "regular and bold");
        for letter in ["<0044>", "<00FC>"] {
            assert!(text.contains(letter), "D and ü are among the characters: {text}");
        }
        let streams = unpacked(&pdf);
        let page = streams.last().expect("a page");
        let page = String::from_utf8_lossy(page);
        assert!(page.contains(" Tf") && page.contains("TJ") && page.contains(" l\n"), "{page}");
        assert!(pdf.len() < 40_000, "{} bytes: of each face only what is used", pdf.len());
    }

    #[test]
    fn an_adaptive_drawing_is_refused() {
        assert!(matches!(figure().draw(Theme::Adaptive).pdf(), Err(ChartError::Svg(_))));
    }
}
