//! A sheet on which others place text, boxes and curves: for pictures that have no axes. Text is measured with the font that it is drawn with.

use crate::draw::{Drawing, document};
use crate::font::{self, Weight};
use crate::svg::{Anchor, Canvas, Rect, TextLook, TextRole, num};
use crate::theme::{Theme, dash};
use std::fmt::Write as _;

/// What something on a sheet is painted with.
pub use crate::theme::Paint as Tone;

/// How a piece of text on a sheet looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Type {
    /// Size in CSS pixels.
    pub size: f64,
    pub bold: bool,
    pub tone: Tone,
}

impl Type {
    fn weight(&self) -> Weight {
        if self.bold { Weight::Bold } else { Weight::Regular }
    }

    /// How wide a line of text is, in CSS pixels.
    #[must_use]
    pub fn width(&self, text: &str) -> f64 {
        font::width(text, self.size, self.weight())
    }

    /// Distance of baselines, in CSS pixels.
    #[must_use]
    pub fn leading(&self) -> f64 {
        self.size * font::LEADING
    }

    /// Breaks text into lines that are no wider, at spaces where that is possible. At least one line.
    #[must_use]
    pub fn wrap(&self, text: &str, limit: f64) -> Vec<String> {
        font::wrap(text, self.size, self.weight(), limit)
    }
}

pub struct Sheet {
    canvas: Canvas,
    width: u32,
}

impl Sheet {
    #[must_use]
    pub fn new(width: u32, theme: Theme) -> Self {
        Sheet { canvas: Canvas::new(theme), width }
    }

    /// One line of text that begins at `x`; `top` is the upper edge of its line.
    pub fn text(&mut self, x: f64, top: f64, text: &str, look: Type) {
        self.put(x, top, Anchor::Start, text, look);
    }

    /// One line of text that ends at `x`.
    pub fn text_ending(&mut self, x: f64, top: f64, text: &str, look: Type) {
        self.put(x, top, Anchor::End, text, look);
    }

    fn put(&mut self, x: f64, top: f64, anchor: Anchor, text: &str, look: Type) {
        let paint = look.tone;
        let inner =
            TextLook { size: look.size, weight: look.weight(), paint, role: TextRole::Annotation };
        self.canvas.text(x, top + look.size * 1.02, anchor, text, inner);
    }

    pub fn card(&mut self, area: Rect, round: f64, ground: Tone, edge: Option<(Tone, f64)>) {
        let r = round.min(area.w / 2.0).min(area.h / 2.0).max(0.0);
        let arc = |dx: f64, dy: f64| {
            format!("a{r} {r} 0 0 1 {} {}", num(dx, 2), num(dy, 2), r = num(r, 2))
        };
        let (w, h) = (num(area.w - 2.0 * r, 2), num(area.h - 2.0 * r, 2));
        let d = format!(
            "M{} {}h{w}{}v{h}{}h-{w}{}v-{h}{}z",
            num(area.x + r, 2),
            num(area.y, 2),
            arc(r, r),
            arc(-r, r),
            arc(-r, -r),
            arc(r, -r)
        );
        let stroke = edge.map(|(tone, width)| (tone, width, None));
        self.canvas.path(&d, Some(ground), stroke, 1.0, "");
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), tone: Tone, width: f64) {
        self.canvas.line(from, to, tone, width, None);
    }

    /// A line from left to right that leaves and arrives level, in one curve at `bend`; with an arrow's head if asked for.
    pub fn link(
        &mut self,
        from: (f64, f64),
        bend: f64,
        to: (f64, f64),
        tone: Tone,
        width: f64,
        arrow: bool,
    ) {
        let head = if arrow { 5.0 } else { 0.0 };
        let end = to.0 - head;
        let mut d = format!("M{} {}", num(from.0, 2), num(from.1, 2));
        if (from.1 - to.1).abs() < 0.5 {
            let _ = write!(d, "H{}", num(end, 2));
        } else {
            let (reach, rise) = (
                (bend - from.0).max(4.0),
                (to.1 - from.1).abs().min(14.0) * (to.1 - from.1).signum(),
            );
            let r = rise.abs().min(reach).min((end - bend).max(4.0));
            let r2 = r * (to.1 - from.1).signum();
            let _ = write!(
                d,
                "H{}Q{} {} {} {}V{}Q{} {} {} {}H{}",
                num(bend - r, 2),
                num(bend, 2),
                num(from.1, 2),
                num(bend, 2),
                num(from.1 + r2 / 2.0, 2),
                num(to.1 - r2 / 2.0, 2),
                num(bend, 2),
                num(to.1, 2),
                num(bend + r, 2),
                num(to.1, 2),
                num(end, 2)
            );
        }
        self.canvas.stroke(&d, tone, width, None, 1.0);
        if arrow {
            let (x, y) = (num(to.0, 2), num(to.1, 2));
            let d = format!("M{x} {y}l-7 -3.5v7z");
            self.canvas.path(&d, Some(tone), None, 1.0, "");
        }
    }

    /// A box whose edge is dashed: it stands for others.
    pub fn dashed(&mut self, area: Rect, tone: Tone, width: f64) {
        let Rect { x, y, w, h } = area;
        let d = format!("M{} {}h{}v{}h-{}z", num(x, 2), num(y, 2), num(w, 2), num(h, 2), num(w, 2));
        self.canvas.stroke(&d, tone, width, dash(4), 1.0);
    }

    /// The drawing, `height` CSS pixels high. `title` is for those who can't see it.
    #[must_use]
    pub fn finish(self, title: &str, height: f64) -> Drawing {
        let height = height.ceil().max(1.0);
        let mut under = Canvas::new(self.canvas.theme);
        under.rect(Rect { x: 0.0, y: 0.0, w: self.width.into(), h: height }, Tone::Ground, 1.0);
        under.body.push_str(&self.canvas.body);
        under.texts = self.canvas.texts;
        document(under, title, self.width, height as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Type = Type { size: 10.0, bold: false, tone: Tone::Ink };

    #[test]
    fn words_on_a_sheet_are_known_by_their_boxes_and_become_pixels() {
        let mut sheet = Sheet::new(200, Theme::Light);
        let card = Rect { x: 10.0, y: 10.0, w: 100.0, h: 30.0 };
        sheet.card(card, 4.0, Tone::Ground, Some((Tone::Axis, 1.0)));
        sheet.text(17.0, 17.0, "1:10 <htb>", PLAIN);
        sheet.text_ending(103.0, 17.0, "end", PLAIN);
        sheet.dashed(card, Tone::Axis, 1.0);
        sheet.link((110.0, 20.0), 130.0, (160.0, 60.0), Tone::Slot(0), 1.0, true);
        sheet.link((110.0, 20.0), 130.0, (160.0, 20.0), Tone::Axis, 1.0, false);
        let drawing = sheet.finish("a sheet", 79.2);
        assert_eq!((drawing.width, drawing.height), (200, 80));
        assert!(drawing.svg.contains("1:10 &lt;htb&gt;"), "{}", drawing.svg);
        let [first, last] = drawing.texts.as_slice() else { panic!("{:?}", drawing.texts) };
        assert_eq!(first.rect.w, PLAIN.width("1:10 <htb>"));
        assert!((last.rect.right() - 103.0).abs() < 1e-9 && !first.rect.overlaps(&last.rect));
        assert!(drawing.png(1.0).is_ok());
    }
}
