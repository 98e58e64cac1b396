//! Our edits to the kernel's source: each says where, what stood there and what comes instead.
//!
//! ```text
//! # why
//! --- file
//! <<<<
//! lines that stand there, exactly once
//! ====
//! lines that come instead
//! >>>>
//! ```
//!
//! No context is guessed and nothing is applied with an offset: a source in which the lines are not found, or found twice, is
//! one that we have not looked at, and is refused.

use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("{file}, line {line}: {what}")]
    Malformed { file: String, line: usize, what: &'static str },
    #[error(
        "{file}, line {line}: in the kernel's {place} the lines to replace are there {count} times instead of once; \
         take a source as Debian's packages linux-source-6.1 and linux-source-6.12 have it"
    )]
    Anchor { file: String, line: usize, place: String, count: usize },
    #[error("the kernel's {place}: {error}")]
    File { place: String, error: String },
}

#[derive(Debug, PartialEq, Eq)]
struct Edit {
    line: usize,
    place: String,
    old: String,
    new: String,
}

/// Applies these edits to a source tree. Either every file is changed or none is.
pub(crate) fn apply_all(tree: &Path, files: &[(&str, &str)]) -> Result<(), EditError> {
    let mut changed: BTreeMap<String, String> = BTreeMap::new();
    for &(file, text) in files {
        for edit in parse(file, text)? {
            let failed = |e: std::io::Error| EditError::File {
                place: edit.place.clone(),
                error: e.to_string(),
            };
            let before = match changed.remove(&edit.place) {
                Some(text) => text,
                None => std::fs::read_to_string(tree.join(&edit.place)).map_err(failed)?,
            };
            changed.insert(edit.place.clone(), apply(file, &edit, &before)?);
        }
    }
    for (place, text) in changed {
        std::fs::write(tree.join(&place), text)
            .map_err(|e| EditError::File { place, error: e.to_string() })?;
    }
    Ok(())
}

fn apply(file: &str, edit: &Edit, before: &str) -> Result<String, EditError> {
    let count = before.matches(&edit.old).count();
    if count != 1 {
        let (file, place) = (file.to_string(), edit.place.clone());
        return Err(EditError::Anchor { file, line: edit.line, place, count });
    }
    Ok(before.replacen(&edit.old, &edit.new, 1))
}

/// The last line of what is replaced may be the beginning of one, so line ends are not part of it.
fn parse(file: &str, text: &str) -> Result<Vec<Edit>, EditError> {
    enum At {
        Outside,
        Old,
        New,
    }
    let mut edits = Vec::new();
    let (mut at, mut place, mut start) = (At::Outside, None::<&str>, 0);
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let mut lines = 0;
    for (index, line) in text.lines().enumerate() {
        lines = index + 1;
        let malformed =
            |what| Err(EditError::Malformed { file: file.to_string(), line: index + 1, what });
        match (&at, line) {
            (At::Outside, "<<<<") => {
                if place.is_none() {
                    return malformed("an edit before any `--- file`");
                }
                (at, start) = (At::Old, index + 1);
                old.clear();
                new.clear();
            }
            (At::Outside, line) => match line.strip_prefix("--- ") {
                Some(name) => place = Some(name),
                None if line.is_empty() || line.starts_with('#') => {}
                None => return malformed("neither a comment nor `--- file` nor `<<<<`"),
            },
            (At::Old, "====") if old.is_empty() => return malformed("nothing to replace"),
            (At::Old, "====") => at = At::New,
            (At::Old, line) => old.push(line),
            (At::New, ">>>>") => {
                at = At::Outside;
                edits.push(Edit {
                    line: start,
                    place: place.unwrap_or_default().to_string(),
                    old: old.join("\n"),
                    new: new.join("\n"),
                });
            }
            (At::New, line) => new.push(line),
        }
    }
    if !matches!(at, At::Outside) {
        let (file, what) = (file.to_string(), "the edit does not end");
        return Err(EditError::Malformed { file, line: lines, what });
    }
    Ok(edits)
}

#[cfg(test)]
#[path = "../../quell/tests/support/left_out.rs"]
mod left_out;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Series;
    use std::collections::BTreeSet;
    use std::process::Command;

    const EDIT: &str = "# why\n--- a/b.c\n<<<<\none\ntwo\n====\nONE\n>>>>\n";

    #[test]
    fn our_edits_are_well_formed_and_each_file_says_why() {
        for &(file, text) in Series::ALL.iter().flat_map(|series| series.edits()) {
            assert!(!parse(file, text).unwrap().is_empty(), "{file}");
            assert!(text.starts_with("# "), "{file}");
        }
    }

    /// Where the series' package is not installed, this is left out, which is said.
    fn edits_fit(series: Series) {
        let source = series.source();
        if !source.exists() {
            return left_out::for_want_of(format!("there is no {} here", source.display()));
        }
        let edits = series.edits().iter().flat_map(|(file, text)| parse(file, text).unwrap());
        let places: BTreeSet<String> = edits.map(|edit| edit.place).collect();
        let folder = tempfile::tempdir().unwrap();
        // Each is there once; tar need not read on behind the last.
        let mut unpack = Command::new("tar");
        unpack.arg("-C").arg(folder.path()).arg("--occurrence=1").arg("-xJf").arg(&source);
        unpack.args(places.iter().map(|place| format!("{}/{place}", series.package())));
        assert!(unpack.status().unwrap().success(), "{series:?}: a file is not there");
        let fits = apply_all(&folder.path().join(series.package()), series.edits());
        assert_eq!(fits, Ok(()), "{series:?}");
    }

    #[test]
    fn the_edits_fit_the_source_that_debian_has_today() {
        edits_fit(Series::default());
    }

    #[test]
    #[ignore = "make test-long: a second kernel's source"]
    fn the_edits_for_6_12_fit_the_source_that_debian_has_today() {
        edits_fit(Series::V6_12);
    }

    #[test]
    fn lines_are_replaced_where_they_stand_once() {
        let edits = parse("x", EDIT).unwrap();
        assert_eq!(apply("x", &edits[0], "zero\none\ntwo\nthree\n").unwrap(), "zero\nONE\nthree\n");
    }

    #[test]
    fn a_source_without_the_lines_or_with_two_of_them_is_refused() {
        let edits = parse("x", EDIT).unwrap();
        for (text, found) in [("one\nthree\n", 0), ("one\ntwo\none\ntwo\n", 2)] {
            match apply("x", &edits[0], text) {
                Err(EditError::Anchor { line: 3, place, count, .. }) => {
                    assert_eq!((place.as_str(), count), ("a/b.c", found));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_failing_edit_leaves_the_tree_as_it_was() {
        let tree = std::env::temp_dir().join(format!("quell-edit-{}", std::process::id()));
        std::fs::create_dir_all(tree.join("arch/um/os-Linux")).unwrap();
        let util = tree.join("arch/um/os-Linux/util.c");
        std::fs::write(&util, "int other;\n").unwrap();
        // One that fits, before the one that does not.
        std::fs::create_dir_all(tree.join("arch/um/include/linux")).unwrap();
        let clock = tree.join("arch/um/include/linux/time-internal.h");
        std::fs::write(&clock, "#define TIMER_MULTIPLIER 256\n").unwrap();
        assert!(matches!(
            apply_all(&tree, Series::V6_1.edits()),
            Err(EditError::Anchor { count: 0, .. })
        ));
        assert_eq!(std::fs::read_to_string(&clock).unwrap(), "#define TIMER_MULTIPLIER 256\n");
        assert_eq!(std::fs::read_to_string(&util).unwrap(), "int other;\n");
        std::fs::remove_dir_all(&tree).unwrap();
    }

    #[test]
    fn malformed_edits_are_named_by_line() {
        for (text, line) in [
            ("<<<<\na\n====\n>>>>\n", 1),
            ("--- f\n<<<<\n====\n>>>>\n", 3),
            ("--- f\n<<<<\na\n====\nb\n", 5),
            ("--- f\nhello\n", 2),
        ] {
            match parse("x", text) {
                Err(EditError::Malformed { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
