//! What the marks of a panel ask of its axes.

use crate::axis::Axis;
use crate::figure::Panel;
use crate::mark::Mark;
use crate::scale::{Extent, drawable};

/// Asked of both axes by a panel's marks.
pub(crate) struct AxisRequest {
    pub x: Extent,
    pub y: Extent,
}

impl AxisRequest {
    pub(crate) fn of(panel: &Panel) -> AxisRequest {
        let mut asked = AxisRequest { x: Extent::new(), y: Extent::new() };
        asked.y.pad = 0.05;
        asked.x.pad = 0.0;
        if panel.y.names().is_some() {
            asked.x.pad = 0.05;
        }
        for mark in &panel.marks {
            asked.add(panel, mark);
        }
        asked
    }

    fn point(&mut self, panel: &Panel, x: f64, y: f64) {
        if drawable(x) && drawable(y) {
            let off_x = panel.x.is_log() && x <= 0.0;
            let off_y = panel.y.is_log() && y <= 0.0;
            // A point counts once, whichever coordinate has no place.
            if off_x || off_y {
                self.x.left_out += usize::from(off_x);
                self.y.left_out += usize::from(off_y && !off_x);
                return;
            }
            self.x.add(&panel.x, x);
            self.y.add(&panel.y, y);
        }
    }

    fn add(&mut self, panel: &Panel, mark: &Mark) {
        match mark {
            Mark::Polyline(line) => line.points.iter().for_each(|&(x, y)| self.point(panel, x, y)),
            Mark::Scatter(scatter) => {
                self.x.pad = self.x.pad.max(0.012);
                scatter.points.iter().for_each(|&(x, y)| self.point(panel, x, y));
            }
            Mark::Ecdf(ecdf) => {
                self.x.pad = self.x.pad.max(0.02);
                self.y.pad = 0.0;
                ecdf.points.iter().for_each(|&(x, y)| self.point(panel, x, y));
                self.y.add(&panel.y, 1.0);
                if !panel.y.is_log() {
                    self.y.zero = true;
                }
            }
            Mark::Stack(stack) => {
                self.y.zero = true;
                for (i, total) in totals(&stack.layers, stack.x.len()).into_iter().enumerate() {
                    self.point(panel, stack.x[i], total);
                }
            }
            Mark::Band(band) => {
                for &(x, low, high) in &band.points {
                    self.point(panel, x, low);
                    self.point(panel, x, high);
                }
            }
            Mark::Boxes(boxes) => {
                for (category, five) in &boxes.items {
                    let numbers = [five.low, five.q1, five.median, five.q3, five.high];
                    if exists(panel, *category) {
                        self.along(panel, numbers.into_iter().chain(five.outliers.iter().copied()));
                    }
                }
            }
            Mark::Bars(bars) => {
                self.y.zero = true;
                // Room for a value's label.
                self.y.pad = self.y.pad.max(0.16);
                for bar in bars.items.iter().filter(|bar| exists(panel, bar.category)) {
                    let ends = bar.interval.map_or([bar.value; 2], |(low, high)| [low, high]);
                    self.along(panel, [bar.value].into_iter().chain(ends));
                }
            }
            Mark::Spans(spans) => {
                for (_, from, to) in spans.items.iter().filter(|(at, ..)| exists(panel, *at)) {
                    self.along(panel, [*from, *to].into_iter());
                }
            }
            // Annotations don't make an empty panel look as if it had data, but are never out of sight either.
            Mark::Event { x, .. } => self.annotation_x(&panel.x, *x),
            Mark::Phase { from, to, .. } => {
                self.annotation_x(&panel.x, *from);
                self.annotation_x(&panel.x, *to);
            }
            Mark::Reference { y, .. } => {
                if !(panel.y.is_log() && *y <= 0.0) {
                    self.y.add(&panel.y, *y);
                }
            }
        }
    }

    fn annotation_x(&mut self, axis: &Axis, x: f64) {
        if !(axis.is_log() && x <= 0.0) {
            self.x.add(axis, x);
        }
    }

    /// Adds to the axis that carries values when the other one has categories.
    fn along(&mut self, panel: &Panel, values: impl Iterator<Item = f64>) {
        let (extent, axis) = if panel.y.names().is_some() {
            (&mut self.x, &panel.x)
        } else {
            (&mut self.y, &panel.y)
        };
        values.for_each(|v| extent.add(axis, v));
    }
}

pub(crate) fn exists(panel: &Panel, category: usize) -> bool {
    let names = panel.y.names().or_else(|| panel.x.names());
    names.is_some_and(|names| category < names.len())
}

/// The height of a stack at each x; NaN where no layer has a value.
pub(crate) fn totals(layers: &[(String, Vec<f64>)], count: usize) -> Vec<f64> {
    let value = |i: usize| {
        let known = layers.iter().filter_map(|(_, v)| v.get(i).copied()).filter(|v| drawable(*v));
        known.fold(f64::NAN, |sum, v| if sum.is_nan() { v.max(0.0) } else { sum + v.max(0.0) })
    };
    (0..count).map(value).collect()
}

pub(crate) fn has_data(panel: &Panel, mark: &Mark) -> bool {
    let place = |axis: &Axis, v: f64| drawable(v) && !(axis.is_log() && v <= 0.0);
    let point = |x: f64, y: f64| place(&panel.x, x) && place(&panel.y, y);
    match mark {
        Mark::Polyline(line) => line.points.iter().any(|&(x, y)| point(x, y)),
        Mark::Scatter(scatter) => scatter.points.iter().any(|&(x, y)| point(x, y)),
        Mark::Ecdf(ecdf) => ecdf.points.iter().any(|&(x, y)| point(x, y)),
        Mark::Stack(stack) => stack
            .layers
            .iter()
            .any(|(_, v)| v.iter().zip(&stack.x).any(|(y, x)| drawable(*x) && drawable(*y))),
        Mark::Band(band) => band.points.iter().any(|&(x, l, h)| point(x, l) && point(x, h)),
        Mark::Boxes(boxes) => {
            boxes.items.iter().any(|(at, five)| exists(panel, *at) && drawable(five.median))
        }
        Mark::Bars(bars) => {
            bars.items.iter().any(|bar| exists(panel, bar.category) && drawable(bar.value))
        }
        Mark::Spans(spans) => spans
            .items
            .iter()
            .any(|(at, from, to)| exists(panel, *at) && drawable(*from) && drawable(*to)),
        Mark::Event { .. } | Mark::Phase { .. } | Mark::Reference { .. } => false,
    }
}
