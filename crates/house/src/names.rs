//! A name means few things: no type name has more than three definitions in product code, so that whoever searches for it finds it.

use crate::glossary::defined;
use crate::tree::File;
use std::collections::BTreeMap;

const MOST: usize = 3;

/// Names with more definitions than that, and where these are; `allowed` has a name a line that may have them still.
pub fn problems(files: &[File], allowed: &str) -> Vec<String> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in files.iter().filter(|f| is_product(&f.path)) {
        let product = file.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        // An associated type (`type Error = …;` in an `impl`) is no name of its own.
        let own = product
            .lines()
            .filter(|l| !l.trim_start().starts_with("type ") || l.starts_with("type "));
        for name in own.filter_map(defined) {
            names.entry(name).or_default().push(&file.path);
        }
    }
    let mut problems: Vec<String> = names
        .iter()
        .filter(|(name, places)| places.len() > MOST && !allowed.lines().any(|a| a == **name))
        .map(|(name, places)| format!("`{name}` is {} types: {}", places.len(), places.join(", ")))
        .collect();
    problems.sort();
    problems
}

fn is_product(path: &str) -> bool {
    let test =
        path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs");
    path.starts_with("crates/") && path.ends_with(".rs") && !test
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_four_types_is_found_and_one_of_three_is_not() {
        let mut files: Vec<File> = (0..4)
            .map(|i| File::new(&format!("crates/c{i}/src/lib.rs"), "pub enum Kind {}\n"))
            .collect();
        let found = problems(&files, "");
        assert!(found.len() == 1 && found[0].starts_with("`Kind` is 4 types"), "{found:?}");
        assert!(problems(&files, "Kind\n").is_empty());
        files[3] = File::new(
            "crates/d/src/lib.rs",
            "impl X {\n    type Kind = u8;\n}\n#[cfg(test)]\nmod tests {\n    struct Kind;\n}\n",
        );
        assert!(problems(&files, "").is_empty());
    }
}
