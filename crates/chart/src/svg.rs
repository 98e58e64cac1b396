//! Writing SVG: stable numbers, escaped text, and a memory of where every piece of text stands.

use crate::font::{self, Weight};
use crate::theme::{Paint, Theme};
use std::fmt::Write as _;

/// A rectangle in CSS pixels, y downwards.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Rect {
    pub x: f64,
    pub y: f64,
    pub w: f64,
    pub h: f64,
}

impl Rect {
    #[must_use]
    pub fn right(&self) -> f64 {
        self.x + self.w
    }

    #[must_use]
    pub fn bottom(&self) -> f64 {
        self.y + self.h
    }

    #[must_use]
    pub fn overlaps(&self, other: &Rect) -> bool {
        self.x < other.right()
            && other.x < self.right()
            && self.y < other.bottom()
            && other.y < self.bottom()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextRole {
    /// The figure's title, subtitle, note, or a panel's title.
    Heading,
    /// A number or category at an axis.
    Tick,
    /// An axis' name and unit.
    AxisLabel,
    Legend,
    /// The label of an event, phase or reference line.
    Annotation,
}

/// A piece of text that was drawn, and the box it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct TextBox {
    pub text: String,
    pub role: TextRole,
    pub rect: Rect,
}

/// Prints a number with at most `digits` decimals, the same on every machine.
pub(crate) fn num(v: f64, digits: usize) -> String {
    let mut s = format!("{v:.digits$}");
    if s.contains('.') {
        let kept = s.trim_end_matches('0').trim_end_matches('.').len();
        s.truncate(kept);
    }
    if s == "-0" { "0".to_owned() } else { s }
}

/// Makes any string safe as XML text or attribute value. Characters that XML 1.0 forbids become U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            // They would turn the direction of reading, for what follows too.
            '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

/// Where text stands relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TextLook {
    pub size: f64,
    pub weight: Weight,
    pub paint: Paint,
    pub role: TextRole,
}

pub(crate) struct Canvas {
    pub theme: Theme,
    pub body: String,
    pub texts: Vec<TextBox>,
}

impl Canvas {
    pub(crate) fn new(theme: Theme) -> Self {
        Self { theme, body: String::new(), texts: Vec::new() }
    }

    /// One line of text; `y` is its baseline.
    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str, look: TextLook) {
        if text.trim().is_empty() {
            return;
        }
        let w = font::width(text, look.size, look.weight);
        let left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - w / 2.0,
            Anchor::End => x - w,
        };
        let top = y - font::ASCENT * look.size;
        let h = (font::ASCENT + font::DESCENT) * look.size;
        self.remember(text, look.role, Rect { x: left, y: top, w, h });
        self.open_text(x, y, anchor, look);
        let _ = writeln!(self.body, ">{}</text>", escape(text));
    }

    /// One line of text that reads upwards and ends at (x, y); `x` is the middle of the line.
    pub(crate) fn text_upwards(&mut self, x: f64, y: f64, text: &str, look: TextLook) {
        let w = font::width(text, look.size, look.weight);
        let h = (font::ASCENT + font::DESCENT) * look.size;
        self.remember(text, look.role, Rect { x: x - h / 2.0, y, w: h, h: w });
        let base = x + look.size * 0.35;
        self.open_text(base, y, Anchor::End, look);
        let _ = writeln!(
            self.body,
            " transform=\"rotate(-90 {} {})\">{}</text>",
            num(base, 2),
            num(y, 2),
            escape(text)
        );
    }

    fn remember(&mut self, text: &str, role: TextRole, rect: Rect) {
        self.texts.push(TextBox { text: text.to_owned(), role, rect });
    }

    fn open_text(&mut self, x: f64, y: f64, anchor: Anchor, look: TextLook) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if look.weight == Weight::Bold { " font-weight=\"700\"" } else { "" };
        let _ = write!(
            self.body,
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{weight}{anchor} fill=\"{}\"{}",
            num(x, 2),
            num(y, 2),
            num(look.size, 2),
            look.paint.colour(),
            Paint::classes(self.theme, Some(look.paint), None)
        );
    }

    pub(crate) fn rect(&mut self, r: Rect, fill: Paint, opacity: f64) {
        let opacity = if opacity < 1.0 {
            format!(" fill-opacity=\"{}\"", num(opacity, 2))
        } else {
            String::new()
        };
        let _ = writeln!(
            self.body,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"{}{opacity}/>",
            num(r.x, 2),
            num(r.y, 2),
            num(r.w.max(0.0), 2),
            num(r.h.max(0.0), 2),
            fill.colour(),
            Paint::classes(self.theme, Some(fill), None)
        );
    }

    /// A straight line with an optional dash pattern.
    pub(crate) fn line(
        &mut self,
        from: (f64, f64),
        to: (f64, f64),
        paint: Paint,
        width: f64,
        dash: Option<&str>,
    ) {
        let d = format!("M{} {}L{} {}", num(from.0, 2), num(from.1, 2), num(to.0, 2), num(to.1, 2));
        self.stroke(&d, paint, width, dash, 1.0);
    }

    /// A stroked path without caps.
    pub(crate) fn stroke(
        &mut self,
        d: &str,
        paint: Paint,
        width: f64,
        dash: Option<&str>,
        opacity: f64,
    ) {
        self.path(d, None, Some((paint, width, dash)), opacity, "");
    }

    /// A path with fill, stroke, or both; `extra` is further attributes, written as they are.
    pub(crate) fn path(
        &mut self,
        d: &str,
        fill: Option<Paint>,
        stroke: Option<(Paint, f64, Option<&str>)>,
        opacity: f64,
        extra: &str,
    ) {
        if d.is_empty() {
            return;
        }
        let classes = Paint::classes(self.theme, fill, stroke.map(|(paint, _, _)| paint));
        let fill = fill.map_or("none", |paint| paint.colour());
        let _ = write!(self.body, "<path d=\"{d}\" fill=\"{fill}\"{classes}");
        if let Some((paint, width, dash)) = stroke {
            let _ = write!(
                self.body,
                " stroke=\"{}\" stroke-width=\"{}\"",
                paint.colour(),
                num(width, 2)
            );
            if let Some(dash) = dash {
                let _ = write!(self.body, " stroke-dasharray=\"{dash}\"");
            }
        }
        if opacity < 1.0 {
            let _ = write!(self.body, " opacity=\"{}\"", num(opacity, 2));
        }
        let _ = writeln!(self.body, "{extra}/>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_no_negative_zero() {
        assert_eq!(
            [num(1.0, 2), num(1.50, 2), num(-0.001, 2), num(120.0, 0)],
            ["1", "1.5", "0", "120"]
        );
    }

    #[test]
    fn hostile_names_stay_text() {
        let shown = escape("</text><script>alert('x')</script>\u{0}");
        assert!(
            !shown.contains('<') && !shown.contains('\'') && !shown.contains('\u{0}'),
            "{shown}"
        );
    }
}
