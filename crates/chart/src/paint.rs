//! Drawing marks: from values, through places in pixels, to SVG.

use crate::extent::{exists, totals};
use crate::figure::Panel;
use crate::font;
use crate::legend::SeriesSlots;
use crate::mark::{Bars, Boxes, FiveNumbers, Known, Mark, Spans, Stack};
use crate::marker::markers;
use crate::scale::{ScaleRange, drawable};
use crate::svg::{Anchor, Canvas, Rect, TextLook, escape, num};
use crate::theme::{self, Paint};
use crate::thin::{self, PixelPoint};
use crate::ticks;
use std::fmt::Write as _;

/// A panel's coordinate system in pixels. The origin is the corner of the area that clips.
pub(crate) struct Frame<'a> {
    pub panel: &'a Panel,
    pub series: &'a SeriesSlots,
    pub x: ScaleRange,
    pub y: ScaleRange,
    /// The plot, relative to the clipping area.
    pub plot: Rect,
}

impl Frame<'_> {
    fn px(&self, x: f64) -> Option<f64> {
        self.x.place(x).filter(|_| drawable(x)).map(|at| self.plot.x + at * self.plot.w)
    }

    fn py(&self, y: f64) -> Option<f64> {
        self.y.place(y).filter(|_| drawable(y)).map(|at| self.plot.bottom() - at * self.plot.h)
    }

    fn place(&self, x: f64, y: f64) -> PixelPoint {
        self.px(x).zip(self.py(y))
    }

    /// The foot of bars: zero where it's in sight, else the nearer end.
    fn base(&self, range: &ScaleRange) -> f64 {
        if range.log { range.low } else { 0f64.clamp(range.low, range.high) }
    }

    fn columns(&self) -> f64 {
        self.plot.w.max(1.0)
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas) {
        let grouped = |mark: &&Mark| matches!(mark, Mark::Boxes(_) | Mark::Bars(_));
        let groups = self.panel.marks.iter().filter(grouped).count();
        let mut group = 0;
        for mark in &self.panel.marks {
            match mark {
                Mark::Polyline(line) => {
                    let places: Vec<PixelPoint> =
                        line.points.iter().map(|&(x, y)| self.place(x, y)).collect();
                    let ends = |i: usize| line.points.get(i).and_then(|&(x, _)| self.px(x));
                    self.line(canvas, &line.name, &places, line.step.then_some(&ends));
                }
                Mark::Ecdf(ecdf) => self.ecdf(canvas, &ecdf.name, &ecdf.points),
                Mark::Scatter(scatter) => self.scatter(canvas, &scatter.name, &scatter.points),
                Mark::Stack(stack) => self.stack(canvas, stack),
                Mark::Band(band) => self.band(canvas, &band.name, &band.points),
                Mark::Boxes(boxes) => {
                    self.boxes(canvas, boxes, (group, groups));
                    group += 1;
                }
                Mark::Bars(bars) => {
                    self.bars(canvas, bars, (group, groups));
                    group += 1;
                }
                Mark::Spans(spans) => self.spans(canvas, spans),
                Mark::Event { .. } | Mark::Phase { .. } | Mark::Reference { .. } => {}
            }
        }
    }

    /// The values of bars, at their ends: all of a panel, or none where one has no room. To be drawn where nothing clips.
    pub(crate) fn bar_values(&self, canvas: &mut Canvas, look: TextLook) {
        let bars: Vec<&Bars> = self
            .panel
            .marks
            .iter()
            .filter_map(|mark| if let Mark::Bars(bars) = mark { Some(bars) } else { None })
            .collect();
        let mut labels = Vec::new();
        for (group, of_series) in bars.iter().enumerate() {
            for bar in &of_series.items {
                let Some((middle, width)) = self.share(bar.category, (group, bars.len())) else {
                    continue;
                };
                let end = bar.interval.map_or(bar.value, |(_, high)| high.max(bar.value));
                let Some(along) = self.py(end).filter(|_| self.y.contains(bar.value)) else {
                    continue;
                };
                let value = |of: f64| ticks::value(of, self.panel.y.percent);
                let text = match bar.known {
                    Known::Exactly => value(bar.value),
                    Known::AtLeast => format!("≥{}", value(bar.value)),
                    Known::UpTo(most) => format!("≥{} ≤{}", value(bar.value), value(most)),
                };
                // What stands beside a bar of another series has its own label.
                let needs = font::width(&text, look.size, look.weight);
                if needs > width / 0.84 * if bars.len() > 1 { 1.0 } else { 1.6 } {
                    return;
                }
                labels.push((middle, along, text));
            }
        }
        for (middle, along, text) in labels {
            canvas.text(middle, along - 4.0, Anchor::Middle, &text, look);
        }
    }

    fn spans(&self, canvas: &mut Canvas, spans: &Spans) {
        let slot = self.series.slot(&spans.name);
        for (category, from, to) in &spans.items {
            let place = self.share(*category, (0, 1)).zip(self.px(*from).zip(self.px(*to)));
            let Some(((middle, width), (from, to))) = place else { continue };
            let half = width.min(16.0) / 2.0;
            let area = block((from, to), (middle - half, middle + half));
            let area = Rect { w: area.w.max(0.4), h: area.h.max(0.4), ..area };
            canvas.rect(area, Paint::Slot(slot), 1.0);
        }
    }

    fn line(
        &self,
        canvas: &mut Canvas,
        name: &str,
        places: &[PixelPoint],
        step: Option<&dyn Fn(usize) -> Option<f64>>,
    ) {
        let slot = self.series.slot(name);
        let (d, dots) = path(places, &thin::line(places, self.columns()), step);
        canvas.path(
            &d,
            None,
            Some((Paint::Slot(slot), 1.6, theme::dash(slot))),
            1.0,
            " stroke-linejoin=\"round\"",
        );
        // A single value between two gaps has no length to draw.
        markers(canvas, &dots, slot, 1.6, 1.0);
    }

    fn ecdf(&self, canvas: &mut Canvas, name: &str, points: &[(f64, f64)]) {
        let mut places: Vec<PixelPoint> = points.iter().map(|&(x, y)| self.place(x, y)).collect();
        let first = points.iter().position(|&(x, y)| self.place(x, y).is_some());
        if let Some(foot) = first.and_then(|i| self.place(points[i].0, self.base(&self.y))) {
            places.insert(0, Some(foot));
        }
        self.line(canvas, name, &places, Some(&|_| None));
    }

    fn scatter(&self, canvas: &mut Canvas, name: &str, points: &[(f64, f64)]) {
        let slot = self.series.slot(name);
        let places: Vec<(f64, f64)> =
            points.iter().filter_map(|&(x, y)| self.place(x, y)).collect();
        // Many points get smaller, so that dense places still show their shape.
        let r = match places.len() as f64 / self.columns() {
            crowd if crowd < 0.25 => 2.8,
            crowd if crowd < 1.0 => 2.2,
            crowd if crowd < 4.0 => 1.6,
            _ => 1.1,
        };
        markers(canvas, &places, slot, r, 0.75);
    }

    fn stack(&self, canvas: &mut Canvas, stack: &Stack) {
        let sums = totals(&stack.layers, stack.x.len());
        let tops: Vec<PixelPoint> =
            stack.x.iter().zip(&sums).map(|(&x, &sum)| self.place(x, sum)).collect();
        let kept = thin::line(&tops, self.columns());
        let mut below: Vec<f64> =
            sums.iter().map(|s| if s.is_nan() { f64::NAN } else { 0.0 }).collect();
        for (name, values) in &stack.layers {
            let above: Vec<f64> = below
                .iter()
                .enumerate()
                .map(|(i, b)| {
                    b + values.get(i).copied().filter(|v| drawable(*v)).unwrap_or(0.0).max(0.0)
                })
                .collect();
            let edge = |sums: &[f64]| -> Vec<PixelPoint> {
                stack.x.iter().zip(sums).map(|(&x, &sum)| self.place(x, sum)).collect()
            };
            let (low, high) = (edge(&below), edge(&above));
            let d = area(&low, &high, &kept, stack.step);
            let slot = self.series.slot(name);
            let edge = (Paint::Ground, 0.7, None);
            canvas.path(&d, Some(Paint::Slot(slot)), Some(edge), 1.0, " stroke-linejoin=\"round\"");
            below = above;
        }
    }

    fn band(&self, canvas: &mut Canvas, name: &str, points: &[(f64, f64, f64)]) {
        let both =
            |x: f64, y: f64, other: f64| self.place(x, y).filter(|_| self.py(other).is_some());
        let low: Vec<PixelPoint> = points.iter().map(|&(x, l, h)| both(x, l, h)).collect();
        let high: Vec<PixelPoint> = points.iter().map(|&(x, l, h)| both(x, h, l)).collect();
        let mut kept = thin::line(&low, self.columns());
        kept.extend(thin::line(&high, self.columns()));
        kept.sort_unstable();
        kept.dedup();
        let slot = self.series.slot(name);
        canvas.path(&area(&low, &high, &kept, false), Some(Paint::Slot(slot)), None, 0.2, "");
    }

    /// Middle and width, in pixels along the category axis, of a group's share of a category.
    fn share(&self, category: usize, (group, groups): (usize, usize)) -> Option<(f64, f64)> {
        if !exists(self.panel, category) {
            return None;
        }
        let upright = self.panel.y.names().is_none();
        let (range, from, length) = match upright {
            true => (&self.x, self.plot.x, self.plot.w),
            // Categories on y read from the top.
            false => (&self.y, self.plot.y, self.plot.h),
        };
        let whole = length / (range.high - range.low);
        let each = (whole * 0.72 / groups.max(1) as f64).min(46.0);
        let shift = (group as f64 - (groups.max(1) as f64 - 1.0) / 2.0) * each;
        let middle = from + range.place(category as f64)? * length;
        Some((middle + shift, (each * 0.84).max(1.0)))
    }

    fn boxes(&self, canvas: &mut Canvas, boxes: &Boxes, group: (usize, usize)) {
        let slot = self.series.slot(&boxes.name);
        for (category, five) in &boxes.items {
            if let Some((middle, width)) = self.share(*category, group) {
                self.one_box(canvas, five, slot, middle, width);
            }
        }
    }

    fn one_box(
        &self,
        canvas: &mut Canvas,
        five: &FiveNumbers,
        slot: usize,
        middle: f64,
        width: f64,
    ) {
        let paint = Paint::Slot(slot);
        let outliers: Vec<(f64, f64)> =
            five.outliers.iter().filter_map(|v| Some((middle, self.py(*v)?))).collect();
        markers(canvas, &sparse(&outliers), slot, 1.6, 0.55);
        // A number that a logarithmic axis has no place for stands at the axis' end.
        let at = |v: f64| self.py(if self.y.log && v <= 0.0 { self.y.low } else { v });
        let numbers = [five.low, five.q1, five.median, five.q3, five.high].map(at);
        let [Some(low), Some(q1), Some(median), Some(q3), Some(high)] = numbers else { return };
        let (left, right) = (middle - width / 2.0, middle + width / 2.0);
        let cap = width * 0.22;
        let mut d = String::new();
        segment(&mut d, (middle, low), (middle, q1));
        segment(&mut d, (middle, q3), (middle, high));
        segment(&mut d, (middle - cap, low), (middle + cap, low));
        segment(&mut d, (middle - cap, high), (middle + cap, high));
        canvas.stroke(&d, paint, 1.3, None, 1.0);
        let mut body = block((left, right), (q1, q3));
        // A box without height is still a box.
        body.h = body.h.max(1.0);
        canvas.rect(body, Paint::Ground, 1.0);
        canvas.rect(body, paint, 0.28);
        let outline = format!(
            "M{} {}h{}v{}h-{}z",
            num(body.x, 1),
            num(body.y, 1),
            num(body.w, 1),
            num(body.h, 1),
            num(body.w, 1)
        );
        canvas.stroke(&outline, paint, 1.3, None, 1.0);
        let mut d = String::new();
        segment(&mut d, (left, median), (right, median));
        canvas.stroke(&d, Paint::Ink, 2.0, None, 1.0);
    }

    fn bars(&self, canvas: &mut Canvas, bars: &Bars, group: (usize, usize)) {
        let slot = self.series.slot(&bars.name);
        let Some(foot) = self.py(self.base(&self.y)) else { return };
        let mut whiskers = String::new();
        for bar in &bars.items {
            let Some((middle, width)) = self.share(bar.category, group) else { continue };
            let Some(end) = self.py(bar.value) else { continue };
            let (left, right) = (middle - width / 2.0, middle + width / 2.0);
            canvas.rect(block((left, right), (foot, end)), Paint::Slot(slot), 1.0);
            let ends = bar.interval.and_then(|(low, high)| self.py(low).zip(self.py(high)));
            if let Some((low, high)) = ends {
                let cap = width * 0.12;
                segment(&mut whiskers, (middle, low), (middle, high));
                segment(&mut whiskers, (middle - cap, low), (middle + cap, low));
                segment(&mut whiskers, (middle - cap, high), (middle + cap, high));
            }
        }
        canvas.stroke(&whiskers, Paint::Ink, 1.1, None, 1.0);
    }
}

/// A straight stroke.
fn segment(d: &mut String, a: (f64, f64), b: (f64, f64)) {
    let _ = write!(d, "M{} {}L{} {}", num(a.0, 1), num(a.1, 1), num(b.0, 1), num(b.1, 1));
}

fn block(x: (f64, f64), y: (f64, f64)) -> Rect {
    Rect { x: x.0.min(x.1), y: y.0.min(y.1), w: (x.0 - x.1).abs(), h: (y.0 - y.1).abs() }
}

/// Drops markers that stand on the same half pixel.
fn sparse(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut seen = std::collections::HashSet::new();
    let key = |p: &(f64, f64)| (p.1 * 2.0).round() as i64;
    points.iter().filter(|p| seen.insert(key(p))).copied().collect()
}

/// A line through the kept places, and the places that stand alone between gaps.
fn path(
    places: &[PixelPoint],
    kept: &[usize],
    step: Option<&dyn Fn(usize) -> Option<f64>>,
) -> (String, Vec<(f64, f64)>) {
    let mut d = String::new();
    let mut dots = Vec::new();
    let mut run = 0;
    let mut last = (0.0, 0.0);
    for i in kept.iter().copied().chain([usize::MAX]) {
        match places.get(i).copied().flatten() {
            // Nobody sees a step of a third of a pixel.
            Some((x, y)) if run > 1 && (x - last.0).abs().max((y - last.1).abs()) < 0.34 => {}
            Some((x, y)) => {
                let _ = match (run, step.is_some()) {
                    (0, _) => write!(d, "M{} {}", num(x, 1), num(y, 1)),
                    (_, true) => write!(d, "H{}V{}", num(x, 1), num(y, 1)),
                    (_, false) => write!(d, "L{} {}", num(x, 1), num(y, 1)),
                };
                last = (x, y);
                run += 1;
            }
            None => {
                // A step holds until the gap begins, where that is known.
                let end = step.filter(|_| run > 0).and_then(|ends| ends(i)).filter(|x| *x > last.0);
                if let Some(x) = end {
                    let _ = write!(d, "H{}", num(x, 1));
                } else if run == 1 {
                    dots.push(last);
                }
                run = 0;
            }
        }
    }
    (d, dots)
}

/// The area between two edges; gaps in either split it.
fn area(low: &[PixelPoint], high: &[PixelPoint], kept: &[usize], step: bool) -> String {
    let mut d = String::new();
    let both = |i: &usize| low[*i].zip(high[*i]);
    for run in kept.split(|i| both(i).is_none()) {
        if run.is_empty() {
            continue;
        }
        if let [alone] = run
            && let Some(((x, bottom), (_, top))) = both(alone)
        {
            // A single value between two gaps has no width: give it one that can be seen.
            let (x, bottom, top) = (num(x - 0.8, 1), num(bottom, 1), num(top, 1));
            let _ = write!(d, "M{x} {bottom}V{top}h1.6V{bottom}z");
            continue;
        }
        let upper: Vec<_> = run.iter().filter_map(|&i| high[i]).collect();
        let lower: Vec<_> = run.iter().rev().filter_map(|&i| low[i]).collect();
        let mut pen = 'M';
        for (x, y) in upper {
            let _ = match (pen, step) {
                ('L', true) => write!(d, "H{}V{}", num(x, 1), num(y, 1)),
                _ => write!(d, "{pen}{} {}", num(x, 1), num(y, 1)),
            };
            pen = 'L';
        }
        for (i, (x, y)) in lower.into_iter().enumerate() {
            let _ = match (i, step) {
                // Backwards, a step goes to the earlier value first.
                (1.., true) => write!(d, "V{}H{}", num(y, 1), num(x, 1)),
                _ => write!(d, "L{} {}", num(x, 1), num(y, 1)),
            };
        }
        d.push('z');
    }
    d
}

/// Opens an element that clips its content to `area`; its origin is the area's corner.
pub(crate) fn open_clip(canvas: &mut Canvas, area: Rect, label: &str) {
    let _ = writeln!(
        canvas.body,
        "<svg x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" overflow=\"hidden\" aria-label=\"{}\">",
        num(area.x, 2),
        num(area.y, 2),
        num(area.w, 2),
        num(area.h, 2),
        escape(label)
    );
}

/// Closes [`open_clip`].
pub(crate) fn close_clip(canvas: &mut Canvas) {
    canvas.body.push_str("</svg>\n");
}
