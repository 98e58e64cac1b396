//! Markers: a shape for each slot, so that no series relies on colour alone.

use crate::svg::{Canvas, num};
use crate::theme::Paint;
use std::fmt::Write;

pub(crate) fn markers(
    canvas: &mut Canvas,
    points: &[(f64, f64)],
    slot: usize,
    radius: f64,
    opacity: f64,
) {
    let shape = shape(slot);
    let drawn = shape.path(radius);
    let mut d = String::with_capacity(points.len() * (drawn.len() + 10));
    for (x, y) in points {
        let _ = write!(d, "M{} {}{drawn}", num(*x, 1), num(*y, 1));
    }
    let paint = Paint::Slot(slot);
    if shape == MarkerShape::Disc {
        let stroke = Some((paint, radius * 2.0, None));
        canvas.path(&d, None, stroke, opacity, " stroke-linecap=\"round\"");
    } else if shape.is_stroked() {
        canvas.path(&d, None, Some((paint, (radius * 0.6).max(0.9), None)), opacity, "");
    } else {
        canvas.path(&d, Some(paint), None, opacity, "");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkerShape {
    Disc,
    Square,
    Triangle,
    Diamond,
    Cross,
    Plus,
    Wedge,
}

fn shape(slot: usize) -> MarkerShape {
    use MarkerShape::*;
    [Disc, Triangle, Square, Diamond, Wedge, Cross, Plus][slot % 7]
}

impl MarkerShape {
    /// Whether the shape is lines rather than an area.
    fn is_stroked(self) -> bool {
        matches!(self, MarkerShape::Cross | MarkerShape::Plus)
    }

    /// Relative path commands that draw the shape around the current point, `r` px from middle to edge.
    ///
    /// A disc is left to the line cap: nothing is shorter in the file than a line without length.
    fn path(self, r: f64) -> String {
        let n = |v: f64| num(v, 1);
        let (r2, h) = (n(2.0 * r), n(r));
        match self {
            MarkerShape::Disc => "h0".to_owned(),
            MarkerShape::Square => format!("m-{h}-{h}h{r2}v{r2}h-{r2}z"),
            MarkerShape::Triangle => {
                format!("m0-{0}l{1} {2}h-{3}z", n(1.2 * r), n(1.15 * r), n(2.1 * r), n(2.3 * r))
            }
            MarkerShape::Wedge => {
                format!("m0 {0}l{1}-{2}h-{3}z", n(1.2 * r), n(1.15 * r), n(2.1 * r), n(2.3 * r))
            }
            MarkerShape::Diamond => {
                let d = n(1.3 * r);
                format!("m0-{d}l{d} {d}l-{d} {d}l-{d}-{d}z")
            }
            MarkerShape::Cross => format!("m-{h}-{h}l{r2} {r2}m0-{r2}l-{r2} {r2}"),
            MarkerShape::Plus => format!("m-{h} 0h{r2}m-{h}-{h}v{r2}"),
        }
    }
}
