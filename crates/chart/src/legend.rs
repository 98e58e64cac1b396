//! The names of the series and the look that belongs to each.

use crate::extent::has_data;
use crate::figure::Figure;
use crate::mark::Mark;
use crate::marker::markers;
use crate::style::{LEGEND, SPACING};
use crate::svg::{Anchor, Canvas, Rect, TextLook};
use crate::theme::{self, Paint};
use std::collections::BTreeMap;

/// How the marks of a series look in the legend.
#[derive(Clone, Copy, Debug, Default)]
struct Kinds {
    line: bool,
    marker: bool,
    fill: bool,
    data: bool,
}

impl Kinds {
    fn width(&self) -> f64 {
        match (self.line, self.fill) {
            // Long enough to tell the dash patterns apart.
            (true, _) => 26.0,
            (false, true) => 16.0,
            (false, false) => 9.0,
        }
    }
}

/// The series of a figure, in order of appearance.
#[derive(Debug, Default)]
pub(crate) struct SeriesSlots {
    slots: BTreeMap<String, usize>,
    entries: Vec<(String, usize, Kinds)>,
}

impl SeriesSlots {
    pub(crate) fn of(figure: &Figure) -> SeriesSlots {
        let mut series = SeriesSlots::default();
        let first = figure.first.iter().cloned().enumerate();
        series.slots.extend(first.map(|(slot, name)| (name, slot)));
        for panel in &figure.panels {
            for mark in &panel.marks {
                let data = has_data(panel, mark);
                let mut add = |name: &str, kinds: Kinds| series.add(name, Kinds { data, ..kinds });
                let kinds = Kinds::default();
                match mark {
                    Mark::Polyline(m) => add(&m.name, Kinds { line: true, ..kinds }),
                    Mark::Ecdf(m) => add(&m.name, Kinds { line: true, ..kinds }),
                    Mark::Scatter(m) => add(&m.name, Kinds { marker: true, ..kinds }),
                    Mark::Boxes(m) => add(&m.name, Kinds { fill: true, ..kinds }),
                    Mark::Bars(m) => add(&m.name, Kinds { fill: true, ..kinds }),
                    Mark::Spans(m) => add(&m.name, Kinds { fill: true, ..kinds }),
                    Mark::Band(m) => add(&m.name, Kinds { fill: true, ..kinds }),
                    Mark::Stack(m) => {
                        m.layers
                            .iter()
                            .for_each(|(name, _)| add(name, Kinds { fill: true, ..kinds }));
                    }
                    Mark::Event { .. } | Mark::Phase { .. } | Mark::Reference { .. } => {}
                }
            }
        }
        series
    }

    fn add(&mut self, name: &str, kinds: Kinds) {
        let next = self.slots.len();
        let slot = *self.slots.entry(name.to_owned()).or_insert(next);
        if name.trim().is_empty() {
            return;
        }
        match self.entries.iter_mut().find(|entry| entry.0 == name) {
            Some((_, _, known)) => {
                known.line |= kinds.line;
                known.marker |= kinds.marker;
                known.fill |= kinds.fill;
                known.data |= kinds.data;
            }
            None => self.entries.push((name.to_owned(), slot, kinds)),
        }
    }

    pub(crate) fn slot(&self, name: &str) -> usize {
        self.slots.get(name).copied().unwrap_or(0)
    }

    /// Arranges the names in columns of equal width, at most `width` wide in all.
    pub(crate) fn arrange(&self, width: f64, one_column: bool) -> Block {
        // Swatches begin where the titles do: no wider than the widest needs.
        let sample = self.entries.iter().map(|(_, _, kinds)| kinds.width()).fold(0.0, f64::max);
        let limit = (width - sample - SPACING.sample).max(30.0);
        let items: Vec<Item> = self
            .entries
            .iter()
            .map(|(name, slot, kinds)| {
                let name = if kinds.data { name.clone() } else { format!("{name} (no data)") };
                let lines = LEGEND.wrap(&name, limit);
                Item { lines, slot: *slot, kinds: *kinds }
            })
            .collect();
        let widest = items.iter().map(Item::width).fold(0.0, f64::max) + sample + SPACING.sample;
        let columns = if one_column {
            1
        } else {
            let most =
                ((width + SPACING.names) / (widest + SPACING.names)).floor().max(1.0) as usize;
            // No row much shorter than the others: 7 in rows of 6 become 4 and 3.
            let rows = items.len().div_ceil(most.max(1)).max(1);
            items.len().div_ceil(rows).max(1)
        };
        let heights: Vec<f64> = items
            .chunks(columns)
            .map(|row| row.iter().map(Item::height).fold(0.0, f64::max) + SPACING.name_rows)
            .collect();
        Block { items, columns, widest, heights, sample }
    }
}

#[derive(Debug)]
struct Item {
    lines: Vec<String>,
    slot: usize,
    kinds: Kinds,
}

impl Item {
    fn width(&self) -> f64 {
        let text = self.lines.iter().map(|l| LEGEND.width(l));
        text.fold(0.0, f64::max)
    }

    fn height(&self) -> f64 {
        LEGEND.room(&self.lines, 0.0)
    }
}

#[derive(Debug)]
pub(crate) struct Block {
    items: Vec<Item>,
    columns: usize,
    widest: f64,
    heights: Vec<f64>,
    sample: f64,
}

impl Block {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn height(&self) -> f64 {
        self.heights.iter().sum()
    }

    pub(crate) fn width(&self) -> f64 {
        self.widest
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, x: f64, y: f64) {
        let mut top = y;
        for (row, height) in self.items.chunks(self.columns).zip(&self.heights) {
            for (column, item) in row.iter().enumerate() {
                let left = x + column as f64 * (self.widest + SPACING.names);
                swatch(canvas, left, top + LEGEND.line() / 2.0, self.sample, item);
                let paint = if item.kinds.data { Paint::Ink } else { Paint::Soft };
                let look = TextLook { paint, ..LEGEND };
                for (i, line) in item.lines.iter().enumerate() {
                    let base = top + LEGEND.line() * (i as f64 + 0.5) + LEGEND.size * 0.35;
                    canvas.text(
                        left + self.sample + SPACING.sample,
                        base,
                        Anchor::Start,
                        line,
                        look,
                    );
                }
            }
            top += height;
        }
    }
}

fn swatch(canvas: &mut Canvas, x: f64, y: f64, width: f64, item: &Item) {
    let paint = Paint::Slot(item.slot);
    if item.kinds.fill {
        let opacity = if item.kinds.line { 0.25 } else { 1.0 };
        canvas.rect(Rect { x, y: y - 5.0, w: width, h: 10.0 }, paint, opacity);
    }
    if item.kinds.line {
        canvas.line((x, y), (x + width, y), paint, 2.0, theme::dash(item.slot));
    }
    if item.kinds.marker {
        markers(canvas, &[(x + width / 2.0, y)], item.slot, 3.5, 1.0);
    }
}
