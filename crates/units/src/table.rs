//! A table for a terminal: columns as wide as their widest cell, two blanks between them; and texts in lines of a width.
//!
//! A cell may have several lines, which stand below each other. A column without anything in it takes no room.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows of cells, with rules and lines of text between them.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Align>,
    parts: Vec<TablePart>,
}

#[derive(Debug, Clone)]
enum TablePart {
    Row(Vec<String>),
    Rule,
    Text(String),
}

impl Table {
    pub fn new(columns: impl IntoIterator<Item = Align>) -> Self {
        Self { columns: columns.into_iter().collect(), parts: Vec::new() }
    }

    /// Adds a row: a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        self.parts.push(TablePart::Row(cells));
    }

    pub fn rule(&mut self) {
        self.parts.push(TablePart::Rule);
    }

    /// Adds a line that is in no column.
    pub fn text(&mut self, line: impl Into<String>) {
        self.parts.push(TablePart::Text(line.into()));
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.columns.len()];
        for part in &self.parts {
            let TablePart::Row(cells) = part else { continue };
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.lines().map(columns).max().unwrap_or(0));
            }
        }
        widths
    }

    /// How wide it is, its lines of text left out.
    pub fn width(&self) -> usize {
        let widths = self.widths();
        let shown = widths.iter().filter(|width| **width > 0).count();
        widths.iter().sum::<usize>() + 2 * shown.saturating_sub(1)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for part in &self.parts {
            match part {
                TablePart::Rule => writeln!(f, "{}", "─".repeat(self.width()))?,
                TablePart::Text(line) => writeln!(f, "{line}")?,
                TablePart::Row(cells) => {
                    let cells: Vec<Vec<&str>> = cells.iter().map(|c| c.lines().collect()).collect();
                    for at in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                        let line = cells.iter().map(|lines| lines.get(at).copied().unwrap_or(""));
                        writeln!(f, "{}", self.line(line, &widths))?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Table {
    fn line<'a>(&self, cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
        let shown = cells.zip(&self.columns).zip(widths).filter(|(_, width)| **width > 0);
        let padded: Vec<String> = shown
            .map(|((cell, align), width)| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            })
            .collect();
        padded.join("  ").trim_end().to_owned()
    }
}

/// Columns of a text in a terminal: its characters.
fn columns(text: &str) -> usize {
    text.chars().count()
}

/// Lines of at most so many columns, broken between words where that goes; of no words none.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        if let Some(line) = lines.last_mut()
            && columns(line) + 1 + columns(word) <= width
        {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        let letters: Vec<char> = word.chars().collect();
        lines.extend(letters.chunks(width).map(|part| part.iter().collect::<String>()));
    }
    lines
}

/// A name of at most so many columns, cut in its middle: names begin alike, and those of a sweep end in their value.
pub fn cut(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.to_owned();
    }
    let end = most / 2;
    let (first, last) = (&letters[..most - end - 1], &letters[letters.len() - end..]);
    first.iter().chain(&['…']).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_several_lines_stand_below_each_other_and_an_empty_column_takes_no_room() {
        let mut table = Table::new([Align::Left, Align::Right, Align::Right]);
        table.row(vec!["scenario".into(), "loss\n%".into(), String::new()]);
        table.rule();
        table.row(vec!["bulk".into(), "5.0\n4.1–6.2".into(), String::new()]);
        table.text("  └ a note");
        let wanted = "\
scenario     loss
                %
─────────────────
bulk          5.0
          4.1–6.2
  └ a note
";
        assert_eq!((table.to_string(), table.width()), (wanted.into(), 17));
    }

    #[test]
    fn a_text_is_broken_between_words_and_a_name_is_cut_in_its_middle() {
        assert_eq!(wrap("one two  threefour", 7), ["one two", "threefo", "ur"]);
        assert_eq!(wrap("", 7), Vec::<String>::new());
        assert_eq!(cut("bulk at 2.5Mbit", 9), "bulk…Mbit");
        assert_eq!(cut("bulk", 9), "bulk");
    }
}
