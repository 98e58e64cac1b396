//! A table whose rows are printed as they come: which columns there are is decided before the first.
//!
//! ```text
//!   room for all ──► wide          else ──► blanks go ──► else ──► the columns that are given up first go, one after the other
//! ```
//!
//! A figure that is wider than its column is printed whole.

use super::WIDEST;
use std::fmt::Write;

/// A column: its head and its widths.
#[derive(Debug, Clone)]
pub struct Column {
    head: String,
    /// Head where there is little room.
    short: String,
    /// Columns with the blanks before it.
    wide: usize,
    narrow: usize,
    /// Blanks before a text that stands at the left; none of what stands at the right.
    left: Option<usize>,
    /// Which goes first, the highest; 0 stays.
    given_up: u8,
}

impl Column {
    /// Figures at the right, in so many columns where there is room, and at least in so many.
    pub fn right(head: impl Into<String>, wide: usize, narrow: usize) -> Self {
        let head = head.into();
        Self { short: head.clone(), head, wide, narrow, left: None, given_up: 0 }
    }

    /// A text at the left behind so many blanks.
    pub fn left(head: &str, blanks: usize, width: usize) -> Self {
        let wide = blanks + width;
        Self { left: Some(blanks), ..Self::right(head, wide, wide) }
    }

    /// At least so many columns where there is little room.
    pub fn at_least(self, narrow: usize) -> Self {
        Self { narrow, ..self }
    }

    /// Goes where there is too little room, before those of lower numbers.
    pub fn given_up(self, given_up: u8) -> Self {
        Self { given_up, ..self }
    }

    /// Its head where there is little room.
    pub fn or(self, short: &str) -> Self {
        Self { short: short.to_owned(), ..self }
    }
}

/// Columns that there is room for.
#[derive(Debug, Clone)]
pub struct Columns {
    all: Vec<Column>,
    /// The width of each; 0 of those that were given up.
    widths: Vec<usize>,
    narrow: bool,
}

impl Columns {
    /// Those of these that fit beside each other.
    pub fn fitting(all: Vec<Column>, width: usize) -> Self {
        let sum = |widths: &[usize]| widths.iter().sum::<usize>();
        let mut widths: Vec<usize> = all.iter().map(|column| column.wide).collect();
        let narrow = width < WIDEST && sum(&widths) > width;
        if narrow {
            widths = all.iter().map(|column| column.narrow).collect();
            while sum(&widths) > width {
                let left = |at: &usize| widths[*at] > 0 && all[*at].given_up > 0;
                let Some(last) = (0..all.len()).filter(left).max_by_key(|at| all[*at].given_up)
                else {
                    break;
                };
                widths[last] = 0;
            }
        }
        Self { all, widths, narrow }
    }

    /// Columns that they take together.
    pub fn width(&self) -> usize {
        self.widths.iter().sum()
    }

    /// The heads.
    pub fn head(&self) -> String {
        let heads = self.all.iter().map(|c| if self.narrow { &*c.short } else { &*c.head });
        self.row(&heads.collect::<Vec<_>>())
    }

    /// A row: a cell for each column, those that were given up too.
    pub fn row<T: AsRef<str>>(&self, cells: &[T]) -> String {
        let mut line = String::new();
        for ((column, width), cell) in self.all.iter().zip(&self.widths).zip(cells) {
            let cell = cell.as_ref();
            // Writing to a String can't fail.
            let _ = match (width, column.left) {
                (0, _) => Ok(()),
                (width, None) => write!(line, "{cell:>width$}"),
                (width, Some(blanks)) => {
                    write!(line, "{:blanks$}{cell:<1$}", "", width.saturating_sub(blanks))
                }
            };
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(width: usize) -> Columns {
        let all = vec![
            Column::right("bytes", 30, 7),
            Column::left("cache", 1, 5),
            Column::right("p90 ms", 34, 30).given_up(2),
            Column::right("p99 ms", 30, 28).given_up(1).or("p99"),
        ];
        Columns::fitting(all, width)
    }

    #[test]
    fn blanks_go_first_and_then_the_columns_that_matter_least() {
        let cells = ["1", "warm", "2.5", "123.4"];
        for (width, wide, told) in [
            (100, 100, &["bytes", "cache", "p90 ms", "p99 ms"][..]),
            (80, 71, &["bytes", "cache", "p90 ms", "p99"]),
            (60, 41, &["bytes", "cache", "p99"]),
            (30, 13, &["bytes", "cache"]),
            (1, 13, &["bytes", "cache"]),
        ] {
            let columns = columns(width);
            assert_eq!((columns.width(), columns.head().chars().count()), (wide, wide));
            assert!(told.iter().all(|head| columns.head().contains(head)), "{}", columns.head());
            assert_eq!(columns.row(&cells).chars().count(), wide);
        }
        assert_eq!(
            columns(60).row(&cells).split_whitespace().collect::<Vec<_>>(),
            ["1", "warm", "123.4"]
        );
        assert!(
            columns(60)
                .row(&["1", "", "", "1234567890.123456789012345678901"])
                .contains("1234567890.123456789012345678901"),
            "never cut"
        );
    }
}
