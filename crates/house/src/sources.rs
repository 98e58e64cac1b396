//! Source files: short enough to read, and every crate opens with the picture of what it does.

use crate::tree::File;

pub const LONGEST: usize = 1_000;

/// Endings of files that people write and read as source.
const SOURCE: [&str; 8] = [".rs", ".c", ".h", ".sh", ".py", ".js", ".css", ".html"];

pub fn too_long(files: &[File]) -> Vec<String> {
    let sources = files.iter().filter(|f| SOURCE.iter().any(|ending| f.path.ends_with(ending)));
    sources
        .filter_map(|file| {
            let lines = file.text.lines().count();
            let fault = format!(
                "{}: {lines} lines; at most {LONGEST}: which of its concepts is a file of its own?",
                file.path
            );
            (lines > LONGEST).then_some(fault)
        })
        .collect()
}

/// Crates whose first file does not open with `//!`.
pub fn without_opening(files: &[File]) -> Vec<String> {
    let is_root = |path: &str| {
        let rest =
            path.strip_prefix("crates/").and_then(|p| p.split_once('/')).map(|(_, rest)| rest);
        matches!(rest, Some("src/lib.rs" | "src/main.rs"))
    };
    files
        .iter()
        .filter(|f| is_root(&f.path) && !f.text.starts_with("//! "))
        .map(|f| format!("{}: opens without `//!`: say first what the crate does", f.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_1001_lines_is_found_and_one_of_1000_is_not() {
        let long = File::new("crates/x/src/long.rs", &"line\n".repeat(1001));
        let good = File::new("crates/x/src/good.rs", &"line\n".repeat(1000));
        let data = File::new("crates/x/tests/golden.txt", &"line\n".repeat(5000));
        let found = too_long(&[long, good, data]);
        assert!(found.len() == 1 && found[0].contains("long.rs"), "{found:?}");
    }

    #[test]
    fn a_crate_that_does_not_say_what_it_is_is_found() {
        let silent = File::new("crates/x/src/lib.rs", "pub fn f() {}\n");
        let good = File::new("crates/y/src/lib.rs", "//! Says so.\n");
        let inner = File::new("crates/y/src/inner/lib.rs", "pub fn f() {}\n");
        let found = without_opening(&[silent, good, inner]);
        assert!(found.len() == 1 && found[0].contains("crates/x"), "{found:?}");
    }
}
