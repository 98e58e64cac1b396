//! From a placed figure to SVG.
//!
//! Own layout rather than a plot library's: text is measured with the embedded font before anything is placed, so
//! nothing is cut and nothing collides, and the SVG stays small and follows the page's colours.

use crate::figure::Figure;
use crate::font::FAMILY;
use crate::layout::{FigureLayout, PanelCell};
use crate::legend::SeriesSlots;
use crate::margins;
use crate::mark::Mark;
use crate::paint::{self, Frame};
use crate::style::{ANNOTATION, LABEL, NOTE, PANEL_TITLE, SPACING, SUBTITLE, TICK, TITLE};
use crate::svg::{Anchor, Canvas, Rect, TextBox, TextLook, escape};
use crate::theme::{Paint, Theme, style_sheet};

/// Fonts for browsers without ours: none is wider, so that nothing collides there either. `system-ui` comes late, as
/// it is a much wider face on some systems.
const FALLBACK: &str =
    "'Open Sans', 'Segoe UI', 'Helvetica Neue', Arial, 'Liberation Sans', system-ui, sans-serif";

#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// The SVG document, without XML declaration, ready to be put into HTML.
    pub svg: String,
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// Every piece of text, and the box it takes.
    pub texts: Vec<TextBox>,
    /// What it is called, for those who can't see it.
    pub(crate) title: String,
    pub(crate) theme: Theme,
}

impl Figure {
    /// Lays the figure out and draws it. The same description gives the same bytes on every machine.
    #[must_use]
    pub fn draw(&self, theme: Theme) -> Drawing {
        draw(self, theme)
    }

    /// An SVG for browsers, following the reader's light or dark preference.
    #[must_use]
    pub fn svg(&self) -> String {
        self.draw(Theme::Adaptive).svg
    }
}

fn draw(figure: &Figure, theme: Theme) -> Drawing {
    let series = SeriesSlots::of(figure);
    let layout = FigureLayout::of(figure, &series);
    let width = f64::from(figure.width);
    let mut canvas = Canvas::new(theme);
    canvas.rect(Rect { x: 0.0, y: 0.0, w: width, h: layout.height }, Paint::Ground, 1.0);

    let edge = SPACING.edge;
    let y = lines(&mut canvas, &layout.title, edge, edge, TITLE);
    let gap = if layout.title.is_empty() { 0.0 } else { 2.0 };
    lines(&mut canvas, &layout.subtitle, edge, y + gap, SUBTITLE);
    layout.legend.draw(&mut canvas, layout.legend_at.0, layout.legend_at.1);
    for cell in &layout.cells {
        draw_cell(&mut canvas, cell, &series);
    }
    if layout.cells.is_empty() {
        no_data(&mut canvas, width / 2.0, layout.height / 2.0);
    }
    let height = NOTE.room(&layout.note, 0.0);
    lines(&mut canvas, &layout.note, edge, layout.height - edge - height, NOTE);

    document(canvas, figure.title.trim(), figure.width, layout.height as u32)
}

pub(crate) fn document(canvas: Canvas, title: &str, w: u32, h: u32) -> Drawing {
    let theme = canvas.theme;
    let style = match theme {
        Theme::Adaptive => format!("<style>{}</style>\n", style_sheet()),
        Theme::Light => String::new(),
    };
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"quell-chart\" width=\"{w}\" height=\"{h}\" \
         viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{}\" \
         font-family=\"'{FAMILY}', {FALLBACK}\">\n{style}{}</svg>\n",
        escape(title),
        canvas.body
    );
    Drawing { svg, width: w, height: h, texts: canvas.texts, title: title.to_owned(), theme }
}

/// Lines from `top` downwards; returns where they end.
fn lines(canvas: &mut Canvas, lines: &[String], x: f64, top: f64, look: TextLook) -> f64 {
    let leading = look.line();
    for (i, line) in lines.iter().enumerate() {
        canvas.text(x, top + leading * i as f64 + look.size * 1.02, Anchor::Start, line, look);
    }
    top + leading * lines.len() as f64
}

fn no_data(canvas: &mut Canvas, x: f64, y: f64) {
    let look = TextLook { size: 13.0, paint: Paint::Soft, ..ANNOTATION };
    canvas.text(x, y, Anchor::Middle, "no data", look);
}

fn draw_cell(canvas: &mut Canvas, cell: &PanelCell, series: &SeriesSlots) {
    let plot = cell.plot;
    // Words above, from the plot upwards: flags, the y axis' name, the title.
    let flags = cell.flags.rows() as f64 * ANNOTATION.line();
    let label_top = plot.y - 4.0 - flags - 4.0 - LABEL.room(&cell.y_label, 0.0);
    let title_top = label_top - 2.0 - PANEL_TITLE.room(&cell.title, 0.0);
    let left = cell.origin;
    lines(canvas, &cell.title, left, title_top, PANEL_TITLE);
    let Some((x, y)) = cell.ranges else {
        lines(canvas, &cell.y_label, left, label_top, LABEL);
        canvas.rect(plot, Paint::Shade, 1.0);
        no_data(canvas, plot.x + plot.w / 2.0, plot.y + plot.h / 2.0);
        return;
    };
    lines(canvas, &cell.y_label, left, label_top, LABEL);

    for mark in &cell.panel.marks {
        if let Mark::Phase { from, to, .. } = mark
            && let Some((a, b)) = margins::visible(&x, *from, *to)
        {
            let area = Rect { x: plot.x + a * plot.w, w: (b - a) * plot.w, ..plot };
            canvas.rect(area, Paint::Shade, 1.0);
        }
    }
    grid(canvas, cell);

    // How far a marker on the edge of the plot may stick out.
    let bleed = |automatic: bool| if automatic { 4.0 } else { 0.0 };
    let (bx, by) = (bleed(x.automatic), bleed(y.automatic));
    let area = Rect { x: plot.x - bx, y: plot.y - by, w: plot.w + 2.0 * bx, h: plot.h + 2.0 * by };
    let inner = Rect { x: bx, y: by, ..plot };
    paint::open_clip(canvas, area, &cell.panel.title);
    Frame { panel: cell.panel, series, x, y, plot: inner }.draw(canvas);
    paint::close_clip(canvas);
    Frame { panel: cell.panel, series, x, y, plot }.bar_values(canvas, ANNOTATION);

    axes(canvas, cell);
    events(canvas, cell);
    references(canvas, cell);
}

/// Places of the y axis' ticks. Categories read from the top.
fn y_at(cell: &PanelCell, value: f64) -> f64 {
    let at = cell.ranges.and_then(|(_, y)| y.place(value)).unwrap_or(0.0);
    let at = if cell.panel.y.names().is_some() { at } else { 1.0 - at };
    cell.plot.y + at * cell.plot.h
}

fn x_at(cell: &PanelCell, value: f64) -> f64 {
    let at = cell.ranges.and_then(|(x, _)| x.place(value)).unwrap_or(0.0);
    cell.plot.x + at * cell.plot.w
}

fn grid(canvas: &mut Canvas, cell: &PanelCell) {
    let plot = cell.plot;
    let level = cell.panel.y.names().is_none();
    if level {
        for label in &cell.y.labels {
            let y = y_at(cell, label.value);
            canvas.line((plot.x, y), (plot.right(), y), Paint::Grid, 1.0, None);
        }
    }
    let distribution = cell.panel.marks.iter().any(|mark| matches!(mark, Mark::Ecdf(_)));
    if !level || distribution || cell.panel.x.is_log() {
        for label in cell.x.labels.iter().filter(|_| cell.panel.x.names().is_none()) {
            let x = x_at(cell, label.value);
            canvas.line((x, plot.y), (x, plot.bottom()), Paint::Grid, 1.0, None);
        }
    }
}

fn axes(canvas: &mut Canvas, cell: &PanelCell) {
    let plot = cell.plot;
    let (left, foot) = (plot.x, plot.bottom());
    canvas.line((left, foot), (plot.right(), foot), Paint::Axis, 1.0, None);
    let zero = cell.ranges.is_some_and(|(_, y)| !y.log && y.low < 0.0 && y.high > 0.0);
    if cell.panel.y.names().is_some() {
        canvas.line((left, plot.y), (left, foot), Paint::Axis, 1.0, None);
    } else if zero {
        canvas.line(
            (left, y_at(cell, 0.0)),
            (plot.right(), y_at(cell, 0.0)),
            Paint::Axis,
            0.8,
            None,
        );
    }
    for minor in &cell.y.minor {
        let y = y_at(cell, *minor);
        canvas.line((left, y), (left + 3.0, y), Paint::Axis, 0.8, None);
    }
    for label in &cell.y.labels {
        let middle = y_at(cell, label.value);
        let first =
            middle - (label.lines.len() as f64 - 1.0) / 2.0 * TICK.line() + TICK.size * 0.36;
        for (i, line) in label.lines.iter().enumerate() {
            let base = first + i as f64 * TICK.line();
            canvas.text(left - SPACING.tick, base, Anchor::End, line, TICK);
        }
    }
    for minor in &cell.x.minor {
        let x = x_at(cell, *minor);
        canvas.line((x, foot), (x, foot + 3.0), Paint::Axis, 0.8, None);
    }
    let categories = cell.panel.x.names().is_some();
    for label in &cell.x.labels {
        let x = x_at(cell, label.value);
        if !categories {
            canvas.line((x, foot), (x, foot + 5.0), Paint::Axis, 1.0, None);
        }
        if !cell.x_words {
            continue;
        }
        if cell.x.upwards {
            canvas.text_upwards(x, foot + SPACING.tick, &label.lines.concat(), TICK);
            continue;
        }
        for (i, line) in label.lines.iter().enumerate() {
            let base = foot + SPACING.tick + TICK.size * 1.02 + i as f64 * TICK.line();
            canvas.text(x, base, Anchor::Middle, line, TICK);
        }
    }
    if cell.x_words {
        let top = foot + SPACING.tick + cell.x.height() + SPACING.label;
        for (i, line) in cell.x_label.iter().enumerate() {
            let base = top + LABEL.size + i as f64 * LABEL.line() - 3.0;
            canvas.text(plot.x + plot.w / 2.0, base, Anchor::Middle, line, LABEL);
        }
    }
}

fn events(canvas: &mut Canvas, cell: &PanelCell) {
    let plot = cell.plot;
    let base = |row: usize| plot.y - 6.0 - row as f64 * ANNOTATION.line();
    for mark in &cell.panel.marks {
        if let Mark::Event { x, .. } = mark
            && cell.ranges.is_some_and(|(range, _)| range.contains(*x))
        {
            let at = x_at(cell, *x);
            let near = |line: f64| (line + plot.x - at).abs() < 1e-6;
            let flag = cell.flags.flags.iter().find(|flag| flag.line.is_some_and(near));
            let row = flag.map(|flag| flag.row);
            let top = row.map_or(plot.y, |row| base(row) + 3.0);
            canvas.line((at, top), (at, plot.bottom()), Paint::Ink, 0.9, Some("3 2.5"));
        }
    }
    for flag in &cell.flags.flags {
        canvas.text(plot.x + flag.left, base(flag.row), Anchor::Start, &flag.text, ANNOTATION);
    }
}

fn references(canvas: &mut Canvas, cell: &PanelCell) {
    let plot = cell.plot;
    // From the top; a label that would meet the one above moves down, and all move up if the last would leave.
    let line_height = ANNOTATION.line();
    let heights: Vec<f64> =
        cell.references.iter().map(|r| ANNOTATION.room(&r.lines, 0.0)).collect();
    let mut tops: Vec<f64> = Vec::new();
    for (reference, height) in cell.references.iter().zip(&heights) {
        let wanted = y_at(cell, reference.y) - height / 2.0;
        let free = tops.last().zip(heights.get(tops.len().wrapping_sub(1))).map(|(t, h)| t + h);
        tops.push(free.map_or(wanted, |free| wanted.max(free)));
    }
    let mut limit = plot.bottom() + line_height / 2.0;
    for (top, height) in tops.iter_mut().zip(&heights).rev() {
        *top = top.min(limit - height);
        limit = *top;
    }
    for (reference, top) in cell.references.iter().zip(tops) {
        let y = y_at(cell, reference.y);
        canvas.line((plot.x, y), (plot.right(), y), Paint::Ink, 1.0, Some("6 3"));
        for (i, line) in reference.lines.iter().enumerate() {
            let base = top + line_height * (i as f64 + 0.5) + ANNOTATION.size * 0.36;
            canvas.text(plot.right() + 8.0, base, Anchor::Start, line, ANNOTATION);
        }
    }
}
