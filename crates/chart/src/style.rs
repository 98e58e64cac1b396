//! The words of a figure and the room around them: sizes, weights and distances in CSS pixels.

use crate::font::{self, Weight};
use crate::svg::{TextLook, TextRole};
use crate::theme::Paint;

pub(crate) const TITLE: TextLook =
    TextLook { size: 16.0, weight: Weight::Bold, paint: Paint::Ink, role: TextRole::Heading };
pub(crate) const SUBTITLE: TextLook =
    TextLook { size: 12.5, weight: Weight::Regular, paint: Paint::Soft, ..TITLE };
pub(crate) const NOTE: TextLook = TextLook { size: 10.5, ..SUBTITLE };
pub(crate) const PANEL_TITLE: TextLook = TextLook { size: 12.5, ..TITLE };
pub(crate) const LABEL: TextLook =
    TextLook { size: 11.5, weight: Weight::Regular, paint: Paint::Ink, role: TextRole::AxisLabel };
pub(crate) const TICK: TextLook =
    TextLook { size: 11.0, paint: Paint::Soft, role: TextRole::Tick, ..LABEL };
pub(crate) const ANNOTATION: TextLook =
    TextLook { size: 11.0, role: TextRole::Annotation, ..LABEL };
pub(crate) const LEGEND: TextLook = TextLook { role: TextRole::Legend, ..LABEL };

/// Distances.
pub(crate) struct Spacing {
    /// From the edge of the picture.
    pub edge: f64,
    /// Between panels beside each other, and below each other.
    pub columns: f64,
    pub rows: f64,
    /// Between a plot and its ticks, and between these and the axis' name.
    pub tick: f64,
    pub label: f64,
    /// In a legend: behind a sample, between columns, between rows.
    pub sample: f64,
    pub names: f64,
    pub name_rows: f64,
}

pub(crate) const SPACING: Spacing = Spacing {
    edge: 18.0,
    columns: 30.0,
    rows: 18.0,
    tick: 7.0,
    label: 8.0,
    sample: 7.0,
    names: 20.0,
    name_rows: 4.0,
};

impl TextLook {
    pub(crate) fn width(&self, text: &str) -> f64 {
        font::width(text, self.size, self.weight)
    }

    /// From one line to the next.
    pub(crate) fn line(&self) -> f64 {
        self.size * font::LEADING
    }

    /// At least one line; see [`font::wrap`].
    pub(crate) fn wrap(&self, text: &str, limit: f64) -> Vec<String> {
        font::wrap(text, self.size, self.weight, limit)
    }

    /// No line for no words.
    pub(crate) fn lines(&self, text: &str, limit: f64) -> Vec<String> {
        if text.trim().is_empty() { Vec::new() } else { self.wrap(text, limit) }
    }

    /// The height of so many lines, and some air where there is one.
    pub(crate) fn room(&self, lines: &[String], air: f64) -> f64 {
        if lines.is_empty() { 0.0 } else { lines.len() as f64 * self.line() + air }
    }
}
