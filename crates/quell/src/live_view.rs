//! What live views share: a headline, lines that fit, a chart in the rows that are free.
//!
//! ```text
//!   40.00 ms │                    █
//!            │▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄█▄▄
//!          0 └──────────────────×────    a cross: something was lost
//! ```

/// Where it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    pub width: usize,
    pub height: usize,
    /// Whether block characters can be shown.
    pub unicode: bool,
}

/// A column of a chart.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ChartColumn {
    pub value: Option<f64>,
    pub lost: bool,
}

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of the label and its axis.
const LABEL: usize = 13;
const MOST_ROWS: usize = 10;

impl TerminalSize {
    pub fn now() -> Self {
        let (width, height) = crate::screen::size();
        Self { width, height, unicode: crate::screen::unicode() }
    }

    /// How many columns a chart has.
    pub fn chart_columns(&self) -> usize {
        self.width.saturating_sub(LABEL + 1)
    }

    /// The chart of these columns, the newest last, in as many rows as `used` ones leave; nothing where these are too few.
    pub fn chart(
        &self,
        used: usize,
        columns: &[ChartColumn],
        label: impl Fn(f64) -> String,
    ) -> Vec<String> {
        let rows = self.height.saturating_sub(used + 3).min(MOST_ROWS);
        let top = columns.iter().filter_map(|column| column.value).fold(0.0, f64::max);
        if rows < 3 || self.chart_columns() < 10 || top <= 0.0 {
            return Vec::new();
        }
        let columns = &columns[columns.len().saturating_sub(self.chart_columns())..];
        let (side, corner, dash, lost) =
            if self.unicode { ('│', '└', '─', '×') } else { ('|', '+', '-', 'x') };
        let cell = |row: usize, column: &ChartColumn| {
            let eighths = column.value.unwrap_or(0.0) / top * (rows * 8) as f64;
            let here = (eighths - ((rows - 1 - row) * 8) as f64).clamp(0.0, 8.0).round() as usize;
            match self.unicode {
                true => EIGHTHS[here],
                false if here >= 4 => '#',
                false => ' ',
            }
        };
        let mut lines = vec![String::new()];
        for row in 0..rows {
            let label = if row == 0 { label(top) } else { String::new() };
            let bars: String = columns.iter().map(|column| cell(row, column)).collect();
            lines.push(format!("{label:>11} {side}{bars}").trim_end().to_owned());
        }
        let axis: String = columns.iter().map(|it| if it.lost { lost } else { dash }).collect();
        lines.push(format!("{:>11} {corner}{axis}", 0));
        lines
    }
}

/// What is at work, and how it ends.
pub fn headline(left: String, width: usize) -> String {
    let right = "Ctrl-C sums up";
    let gap = width.saturating_sub(left.chars().count() + right.len() + 1);
    if gap < 2 { left } else { format!("{left}{}{right}", " ".repeat(gap)) }
}

/// The first `width` characters, the last of them a tilde where something is missing.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('~');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(height: usize, used: usize, unicode: bool) -> Vec<String> {
        let size = TerminalSize { width: 80, height, unicode };
        let column = |value, lost| ChartColumn { value, lost };
        let columns = [
            column(Some(20.0), false),
            column(Some(40.0), false),
            column(None, true),
            column(Some(5.0), false),
        ];
        size.chart(used, &columns, |top| format!("{top:.0} ms"))
    }

    #[test]
    fn a_chart_takes_the_rows_that_are_free_and_none_where_they_are_few() {
        let wanted = [
            "",
            "      40 ms │ █",
            "            │ █",
            "            │██",
            "            │██ ▄",
            "          0 └──×─",
        ];
        assert_eq!(chart(10, 3, true), wanted);
        assert!(chart(10, 3, false).iter().all(|line| line.is_ascii()));
        assert_eq!(chart(24, 3, true).len(), MOST_ROWS + 2, "80 x 24 is enough");
        assert_eq!(chart(8, 3, true), [""; 0], "too few");
        let size = TerminalSize { width: 80, height: 24, unicode: true };
        assert_eq!(size.chart(3, &[ChartColumn::default()], |_| String::new()), [""; 0]);
    }
}
