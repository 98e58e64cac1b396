//! Tables with commas between their cells (RFC 4180), as spreadsheets write them.
//!
//! ```text
//!   # a comment
//!   name,prefixes,…
//!   "Elm St. 9, Town",192.0.2.1,…      a quote goes to the next one, over the ends of lines too; a doubled one stands for itself
//! ```

use std::borrow::Cow;

/// A row of cells with commas between (RFC 4180): the number of the line where it begins, and its cells. One that was quoted is owned.
pub(crate) type CsvRow<'a> = (usize, Vec<Cow<'a, str>>);

/// Rows that are no comments and not empty.
pub(crate) fn rows(text: &str) -> Result<Vec<CsvRow<'_>>, String> {
    let mut left = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut line, mut rows) = (1, Vec::new());
    while !left.is_empty() {
        let (plain, rest) = left.split_once('\n').unwrap_or((left, ""));
        let (cells, rest) = if plain.starts_with('#') {
            (Vec::new(), rest)
        } else if plain.contains('"') {
            quoted(left).ok_or_else(|| format!("line {line}: a quote is not closed"))?
        } else {
            let plain = plain.strip_suffix('\r').unwrap_or(plain);
            (plain.split(',').map(Cow::Borrowed).collect(), rest)
        };
        if cells.iter().any(|cell| !cell.trim().is_empty()) {
            rows.push((line, cells));
        }
        line += left[..left.len() - rest.len()].matches('\n').count();
        left = rest;
    }
    Ok(rows)
}

/// A row with quotes in it, and what is behind it.
fn quoted(text: &str) -> Option<(Vec<Cow<'_, str>>, &str)> {
    let (mut cells, mut cell, mut inside) = (Vec::new(), String::new(), false);
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let next = letters.peek().map(|(_, letter)| *letter);
        match letter {
            '"' if inside && next == Some('"') => {
                letters.next();
                cell.push('"');
            }
            '"' => inside = !inside,
            ',' if !inside => cells.push(Cow::Owned(std::mem::take(&mut cell))),
            '\r' if !inside && next == Some('\n') => {}
            '\n' if !inside => {
                cells.push(Cow::Owned(cell));
                return Some((cells, &text[at + 1..]));
            }
            other => cell.push(other),
        }
    }
    cells.push(Cow::Owned(cell));
    (!inside).then_some((cells, ""))
}

/// A cell as it is written, so that it is read again the same.
pub(crate) fn cell(text: &str) -> Cow<'_, str> {
    let plain = text.trim() == text && !text.contains(['"', ',', '\n', '\r', '#', '\u{feff}']);
    if plain { text.into() } else { format!("\"{}\"", text.replace('"', "\"\"")).into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again(cells in prop::collection::vec("[a ,\"#\r\n\u{feff}é]{0,6}", 1..5)) {
            let line = cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(",") + "\n";
            let rows = rows(&line).expect("rows");
            let blank = cells.iter().all(|cell| cell.trim().is_empty());
            prop_assert_eq!(rows.len(), usize::from(!blank));
            for (_, row) in rows {
                prop_assert_eq!(&row, &cells);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "[a,\"#\r\n]{0,40}") {
            let _ = rows(&text);
        }
    }

    #[test]
    fn rows_know_where_they_begin() {
        let text = "# it's 9\" long\na,b\r\n\n\"c\nd\",e\nf,g";
        let rows = rows(text).expect("rows");
        let told: Vec<(usize, String)> = rows.iter().map(|(n, row)| (*n, row.join("|"))).collect();
        assert_eq!(told, [(2, "a|b".into()), (4, "c\nd|e".into()), (6, "f|g".into())]);
    }
}
