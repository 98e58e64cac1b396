//! Where everything goes.
//!
//! The room for words depends on the ticks, the ticks on the size of the plots, and that on the room for words.
//! Three rounds settle it; margins only grow from round to round, so a later round never cuts what an
//! earlier one placed. If the plots would become too low, the figure grows.

use crate::extent::{AxisRequest, has_data};
use crate::figure::{Figure, Legend, Panel};
use crate::legend::{Block, SeriesSlots};
use crate::margins::{self, Flags, MarginSide, Reference};
use crate::scale::ScaleRange;
use crate::style::{ANNOTATION, LABEL, NOTE, PANEL_TITLE, SPACING, SUBTITLE, TICK, TITLE};
use crate::svg::Rect;

/// A panel with everything around it placed.
#[derive(Clone)]
pub(crate) struct PanelCell<'a> {
    pub panel: &'a Panel,
    /// `None`: there's nothing to show.
    pub ranges: Option<(ScaleRange, ScaleRange)>,
    /// Left edge of the words and the plot together.
    pub origin: f64,
    pub plot: Rect,
    pub x: MarginSide,
    pub y: MarginSide,
    pub x_words: bool,
    pub title: Vec<String>,
    pub y_label: Vec<String>,
    pub x_label: Vec<String>,
    pub flags: Flags,
    pub references: Vec<Reference>,
    /// Values that a logarithmic axis has no place for.
    left_out: usize,
}

pub(crate) struct FigureLayout<'a> {
    pub height: f64,
    pub title: Vec<String>,
    pub subtitle: Vec<String>,
    pub note: Vec<String>,
    pub legend: Block,
    pub legend_at: (f64, f64),
    pub cells: Vec<PanelCell<'a>>,
}

impl<'a> FigureLayout<'a> {
    pub(crate) fn of(figure: &'a Figure, series: &SeriesSlots) -> FigureLayout<'a> {
        let width = f64::from(figure.width);
        let edge = SPACING.edge;
        let inner = width - 2.0 * edge;
        // A browser without our font takes one that is wider, DejaVu Sans by 6 to 9 %, bold by more; lines that go all the way across would
        // run out of the picture there.
        let text = inner / 1.15;
        let title = TITLE.lines(&figure.title, text);
        let subtitle = SUBTITLE.lines(&figure.subtitle, text);
        let right = figure.legend == Legend::Right;
        let legend = series.arrange(if right { inner * 0.3 } else { inner }, right);
        let legend_shown = figure.legend != Legend::Hidden && !legend.is_empty();
        let aside = if right && legend_shown { legend.width() + 22.0 } else { 0.0 };
        let legend_rows = if legend_shown && !right { legend.height() + 8.0 } else { 0.0 };

        let mut y = edge + TITLE.room(&title, 2.0) + SUBTITLE.room(&subtitle, 4.0) + 4.0;
        let mut legend_at = (edge, y);
        if figure.legend == Legend::Top {
            y += legend_rows;
        }
        let mut grid = Grid::new(figure, inner - aside, y);
        let below = if figure.legend == Legend::Bottom { legend_rows } else { 0.0 };
        let mut note = Vec::new();
        let mut bottom = 0.0;
        for _ in 0..3 {
            note = NOTE.lines(&grid.note(figure), text);
            let footer = NOTE.room(&note, 8.0) + below + edge;
            bottom = grid.settle(f64::from(figure.height) - footer);
        }
        if right {
            legend_at = (width - edge - legend.width(), y + TICK.line() * 1.2);
            bottom = bottom.max(legend_at.1 + legend.height());
        } else if figure.legend == Legend::Bottom {
            legend_at.1 = bottom + 8.0;
            bottom += legend_rows;
        }
        // The last round may have found more to say than was reckoned with.
        note = NOTE.lines(&grid.note(figure), text).max(note);
        let legend =
            if legend_shown { legend } else { SeriesSlots::default().arrange(inner, false) };
        let height = (bottom + NOTE.room(&note, 8.0) + edge).ceil().max(f64::from(figure.height));
        FigureLayout { height, title, subtitle, note, legend, legend_at, cells: grid.cells }
    }
}

/// The panels of a figure in rows and columns.
struct Grid<'a> {
    cells: Vec<PanelCell<'a>>,
    columns: usize,
    width: f64,
    top: f64,
    left: Vec<f64>,
    right: Vec<f64>,
    heights: Vec<f64>,
}

impl<'a> Grid<'a> {
    fn new(figure: &'a Figure, width: f64, top: f64) -> Grid<'a> {
        // A panel narrower than 170 px can't hold its words.
        let room = ((width + SPACING.columns) / (170.0 + SPACING.columns)).floor() as usize;
        let columns = figure.columns.min(figure.panels.len()).min(room).max(1);
        let mut asked: Vec<AxisRequest> = figure.panels.iter().map(AxisRequest::of).collect();
        if figure.shared_x
            && let Some(first) = asked.first()
        {
            let mut shared = first.x;
            asked.iter().for_each(|a| shared.merge(&a.x));
            for a in &mut asked {
                a.x = crate::scale::Extent { left_out: a.x.left_out, ..shared };
            }
        }
        let rows = figure.panels.len().div_ceil(columns);
        let cell = |(i, (panel, asked)): (usize, (&'a Panel, &AxisRequest))| {
            let data = panel.marks.iter().any(|mark| has_data(panel, mark));
            let ranges = ScaleRange::find(&panel.x, &asked.x)
                .zip(ScaleRange::find(&panel.y, &asked.y))
                .filter(|_| data);
            PanelCell {
                panel,
                ranges,
                origin: 0.0,
                plot: Rect::default(),
                x: MarginSide::default(),
                y: MarginSide::default(),
                x_words: !figure.shared_x || i + columns >= figure.panels.len(),
                title: Vec::new(),
                y_label: Vec::new(),
                x_label: Vec::new(),
                flags: Flags::default(),
                references: Vec::new(),
                left_out: asked.x.left_out + asked.y.left_out,
            }
        };
        Grid {
            cells: figure.panels.iter().zip(&asked).enumerate().map(cell).collect(),
            columns,
            width,
            top,
            left: vec![0.0; columns],
            right: vec![0.0; columns],
            heights: vec![200.0; rows],
        }
    }

    /// The figure's note, and what the reader must know about values that aren't shown.
    fn note(&self, figure: &Figure) -> String {
        let mut parts = vec![figure.note.trim().to_owned()];
        let mut say = |count: usize, one: &str, many: &str| {
            if count > 0 {
                parts.push(format!("{count} {}.", if count == 1 { one } else { many }));
            }
        };
        let sum = |f: fn(&PanelCell) -> usize| self.cells.iter().map(f).sum::<usize>();
        say(
            sum(|c| c.left_out),
            "value of zero or below has no place on a logarithmic axis and is not shown",
            "values of zero or below have no place on a logarithmic axis and are not shown",
        );
        say(sum(|c| c.flags.left_out), "event label found no room", "event labels found no room");
        parts.retain(|part| !part.is_empty());
        parts.join(" ")
    }

    /// Places everything between `top` and `bottom`; returns where the panels really end.
    fn settle(&mut self, bottom: f64) -> f64 {
        let columns = self.columns;
        let cell_width = (self.width - SPACING.columns * (columns as f64 - 1.0)) / columns as f64;
        let mut above = vec![0.0f64; self.heights.len()];
        let mut under = vec![0.0f64; self.heights.len()];
        let mut least = vec![90.0f64; self.heights.len()];
        for (i, cell) in self.cells.iter_mut().enumerate() {
            let (row, column) = (i / columns, i % columns);
            cell.y_side(self.heights[row], cell_width);
            let plot_width = cell_width - self.left[column] - self.right[column];
            cell.x_side(plot_width.max(40.0));
            let (left, right) = cell.sides(plot_width.max(40.0));
            self.left[column] = self.left[column].max(left);
            self.right[column] = self.right[column].max(right);
            above[row] = above[row].max(cell.above());
            under[row] = under[row].max(cell.under());
            let names = cell.y.least_height(&cell.panel.y);
            let references: usize = cell.references.iter().map(|r| r.lines.len()).sum();
            least[row] = least[row].max(names).max(references as f64 * TICK.line());
        }
        let rows = self.heights.len() as f64;
        let words: f64 =
            above.iter().chain(&under).sum::<f64>() + SPACING.rows * (rows - 1.0).max(0.0);
        let weight = |row: usize| {
            self.cells
                .iter()
                .skip(row * columns)
                .take(columns)
                .map(|c| c.panel.weight)
                .fold(0.0, f64::max)
        };
        let weights: Vec<f64> = (0..self.heights.len()).map(weight).collect();
        let free = (bottom - self.top - words).max(0.0);
        for (row, height) in self.heights.iter_mut().enumerate() {
            *height = (free * weights[row] / weights.iter().sum::<f64>()).max(least[row]);
        }
        let mut y = self.top;
        for row in 0..self.heights.len() {
            y += above[row];
            for (i, cell) in self.cells.iter_mut().enumerate().skip(row * columns).take(columns) {
                let column = i % columns;
                cell.origin = SPACING.edge + column as f64 * (cell_width + SPACING.columns);
                cell.plot = Rect {
                    x: cell.origin + self.left[column],
                    y,
                    w: (cell_width - self.left[column] - self.right[column]).max(40.0),
                    h: self.heights[row],
                };
            }
            y += self.heights[row] + under[row] + SPACING.rows;
        }
        // What was chosen for the sizes before is chosen again for the final ones.
        for cell in &mut self.cells {
            cell.y_side(cell.plot.h, cell_width);
            cell.x_side(cell.plot.w);
        }
        y - SPACING.rows
    }
}

impl PanelCell<'_> {
    fn y_side(&mut self, height: f64, cell_width: f64) {
        self.title = PANEL_TITLE.lines(&self.panel.title, cell_width);
        if let Some((_, range)) = &self.ranges {
            self.y = MarginSide::y(&self.panel.y, range, height, cell_width * 0.38);
            self.references = margins::references(self.panel, range, (cell_width * 0.2).max(60.0));
            self.references.sort_by(|a, b| b.y.total_cmp(&a.y));
        }
        let label = margins::axis_label(&self.panel.y);
        self.y_label = LABEL.lines(&label, cell_width);
    }

    fn x_side(&mut self, width: f64) {
        if let Some((range, _)) = &self.ranges {
            self.x = MarginSide::x(&self.panel.x, range, width);
            self.flags = Flags::arrange(self.panel, range, width);
        }
        let label = margins::axis_label(&self.panel.x);
        self.x_label = LABEL.lines(&label, width);
    }

    /// Room to the left and right of the plot.
    fn sides(&self, width: f64) -> (f64, f64) {
        let Some((range, _)) = &self.ranges else { return (0.0, 0.0) };
        let references = self.references.iter().flat_map(|r| &r.lines);
        let widest = references.map(|l| ANNOTATION.width(l)).fold(0.0, f64::max);
        let (mut left, mut right) =
            (self.y.widest() + SPACING.tick, if widest > 0.0 { widest + 8.0 } else { 0.0 });
        for label in self.x.labels.iter().filter(|_| self.x_words && !self.x.upwards) {
            let at = range.place(label.value).unwrap_or(0.5) * width;
            for line in &label.lines {
                let half = TICK.width(line) / 2.0;
                left = left.max(half - at);
                right = right.max(half - (width - at));
            }
        }
        (left.ceil(), right.ceil())
    }

    fn above(&self) -> f64 {
        let flags = self.flags.rows() as f64 * ANNOTATION.line();
        PANEL_TITLE.room(&self.title, 2.0)
            + LABEL.room(&self.y_label, 4.0)
            + if flags > 0.0 { flags + 4.0 } else { 4.0 }
    }

    fn under(&self) -> f64 {
        if self.ranges.is_none() || !self.x_words {
            return 4.0;
        }
        SPACING.tick + self.x.height() + LABEL.room(&self.x_label, SPACING.label)
    }
}
