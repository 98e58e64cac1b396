//! The glossary of ARCHITECTURE.md: a word that it gives a type stands for that type, and nothing else in the tree has its name.
//!
//! A row is `` | `Line` | `crates/lab/src/topology/spec.rs` | what it is | ``.

use crate::tree::File;

const PLACE: &str = "ARCHITECTURE.md";
const KINDS: [&str; 5] = ["struct ", "enum ", "union ", "trait ", "type "];

/// Words without their type, and types that take another's word.
pub fn problems(files: &[File]) -> Vec<String> {
    let Some(document) = files.iter().find(|f| f.path == PLACE) else {
        return vec![format!("there is no {PLACE}")];
    };
    let rows: Vec<(&str, &str)> = document.text.lines().filter_map(row).collect();
    if rows.is_empty() {
        return vec![format!("{PLACE}: there is no glossary")];
    }
    let mut problems = Vec::new();
    for (word, home) in rows {
        let defined = files.iter().filter(|f| is_source(&f.path) && defines(&f.text, word));
        let (at_home, elsewhere): (Vec<_>, Vec<_>) = defined.partition(|f| f.path == home);
        if at_home.is_empty() {
            problems.push(format!("{PLACE}: `{word}` is no type of {home}"));
        }
        for file in elsewhere {
            problems.push(format!("{}: `{word}` is the word for a type of {home}", file.path));
        }
    }
    problems
}

fn row(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let code = |cell: &'_ str| -> Option<(usize, usize)> {
        (cell.len() > 2 && cell.starts_with('`') && cell.ends_with('`'))
            .then_some((1, cell.len() - 1))
    };
    let (word, home) = (cells.next()?, cells.next()?);
    let ((a, b), (c, d)) = (code(word)?, code(home)?);
    let (word, home) = (&word[a..b], &home[c..d]);
    (home.starts_with("crates/") && home.ends_with(".rs")).then_some((word, home))
}

fn is_source(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs")
}

fn defines(text: &str, word: &str) -> bool {
    text.lines().any(|line| defined(line) == Some(word))
}

pub fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let bare = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or(rest, |(_, r)| r),
        Some(rest) => rest,
        None => line,
    };
    let name = KINDS.iter().find_map(|kind| bare.trim_start().strip_prefix(kind))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    (end > 0).then(|| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str = "| word | where | what |\n|---|---|---|\n| `Line` | `crates/a/src/line.rs` | one way of a link |\n";

    fn tree(home: &str, other: &str) -> Vec<File> {
        vec![
            File::new("ARCHITECTURE.md", GLOSSARY),
            File::new("crates/a/src/line.rs", home),
            File::new("crates/b/src/lib.rs", other),
        ]
    }

    #[test]
    fn a_word_is_one_type() {
        let lines = "struct Lines;\nenum ConnectLine {}\n// struct Line\nlet line = Line;";
        assert!(problems(&tree("pub struct Line {\n}", lines)).is_empty());
        let second =
            problems(&tree("pub struct Line;", "mod m {\n    pub(super) enum Line<T> {}\n}"));
        assert_eq!(
            second,
            ["crates/b/src/lib.rs: `Line` is the word for a type of crates/a/src/line.rs"]
        );
    }

    #[test]
    fn a_word_that_names_nothing_and_a_glossary_that_is_gone_are_told() {
        let gone = problems(&tree("pub struct Wire;", ""));
        assert_eq!(gone, ["ARCHITECTURE.md: `Line` is no type of crates/a/src/line.rs"]);
        let none = problems(&[File::new("ARCHITECTURE.md", "# Architecture\n")]);
        assert_eq!(none, ["ARCHITECTURE.md: there is no glossary"]);
    }
}
