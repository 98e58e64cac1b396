//! Links in documents: a relative link must lead to a file or folder of the tree, and its `#part` to a heading. So must a path of the
//! tree that is written as code.

use crate::tree::File;

/// Folders of the tree whose paths documents name.
const FOLDERS: [&str; 5] = ["crates/", "docs/", "experiments/", "tools/", ".ci/"];

pub fn problems(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|f| f.path.ends_with(".md")) {
        for (line, path) in paths(&file.text) {
            let place = path.trim_end_matches('/');
            if !exists(files, place) {
                problems.push(format!("{}:{line}: there is no {place}", file.path));
            }
        }
        for (line, target) in links(&file.text) {
            if let Some(fault) = fault(files, file, target) {
                problems.push(format!("{}:{line}: the link to `{target}`: {fault}", file.path));
            }
        }
    }
    problems
}

/// Documents that the list of the book's pages (`docs/SUMMARY.md`) lacks; and links of these pages that lead out of the book.
pub fn out_of_the_book(files: &[File]) -> Vec<String> {
    let is_page = |path: &str| path.starts_with("docs/") && path.ends_with(".md");
    let pages = || files.iter().filter(|f| is_page(&f.path) && f.path != "docs/SUMMARY.md");
    let summary = files.iter().find(|f| f.path == "docs/SUMMARY.md");
    let listed: Vec<String> = summary
        .iter()
        .flat_map(|summary| links(&summary.text))
        .filter_map(|(_, target)| resolve("docs/SUMMARY.md", target))
        .collect();
    let missing = pages().filter(|page| !listed.contains(&page.path));
    let mut problems: Vec<String> =
        missing.map(|page| format!("docs/SUMMARY.md does not list {}", page.path)).collect();
    for page in pages() {
        for (line, target) in links(&page.text).into_iter().filter(|(_, t)| !t.contains("://")) {
            let path = target.split('#').next().unwrap_or_default();
            let place = resolve(&page.path, path).unwrap_or_default();
            let in_book = place.starts_with("docs/")
                && place.rsplit('/').next().is_some_and(|n| n.contains('.'));
            if !path.is_empty() && !in_book {
                problems.push(format!("{}:{line}: `{target}` is no page of the book", page.path));
            }
        }
    }
    problems
}

/// Each link's target with its line. What stands in a block of code is no link.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for (at, opening) in line.match_indices("](") {
            let rest = &line[at + opening.len()..];
            if let Some(end) = rest.find(')') {
                found.push((index + 1, &rest[..end]));
            }
        }
    }
    found
}

/// Each path of the tree that stands between backticks, with its line.
fn paths(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for piece in line.split('`').skip(1).step_by(2) {
            if FOLDERS.iter().any(|f| piece.starts_with(f)) && !piece.contains(' ') {
                found.push((index + 1, piece));
            }
        }
    }
    found
}

fn exists(files: &[File], place: &str) -> bool {
    files.iter().any(|f| {
        f.path == place || f.path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'))
    })
}

fn fault(files: &[File], from: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, part) = match target.split_once('#') {
        Some((path, part)) => (path, Some(part)),
        None => (target, None),
    };
    let place = if path.is_empty() { Some(from.path.clone()) } else { resolve(&from.path, path) };
    let Some(place) = place else { return Some("it leads out of the tree".into()) };
    let there = files.iter().find(|f| f.path == place);
    match (there, part) {
        (None, _) if !exists(files, &place) => Some(format!("there is no {place}")),
        (Some(file), Some(part))
            if file.path.ends_with(".md") && !headings(&file.text).contains(&part.into()) =>
        {
            Some(format!("{place} has no heading `{part}`"))
        }
        _ => None,
    }
}

fn resolve(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Headings as the anchors that code forges make of them.
fn headings(text: &str) -> Vec<String> {
    let titles =
        text.lines().filter(|l| l.starts_with('#')).map(|l| l.trim_start_matches('#').trim());
    let anchor = |title: &str| {
        let kept = title
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .collect::<String>();
        kept.replace(' ', "-")
    };
    titles.map(anchor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(document: &str) -> Vec<String> {
        problems(&[
            File::new("docs/a.md", document),
            File::new("docs/b.md", "# The `b` file\n"),
            File::new("README.md", ""),
            File::new("experiments/x.toml", ""),
        ])
    }

    #[test]
    fn links_to_what_is_there_are_fine() {
        let text = "# Own part\n[b](b.md) [up](../README.md) [folder](../experiments/) [web](https://example.org/x)\n\
                    [part](b.md#the-b-file) [own](#own-part)\n";
        assert_eq!(found_in(text), Vec::<String>::new());
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        for bad in [
            "[x](c.md)",
            "[x](../nothing/)",
            "[x](../../README.md)",
            "[x](b.md#other)",
            "[x](#other)",
        ] {
            let found = found_in(bad);
            assert_eq!(found.len(), 1, "{bad}: {found:?}");
        }
    }

    #[test]
    fn a_path_that_is_gone_is_found() {
        assert_eq!(
            found_in("see `experiments/x.toml` in `experiments/`, by `cargo test`\n"),
            Vec::<String>::new()
        );
        let found = found_in("\nsee `experiments/y.toml`\n");
        assert!(found.len() == 1 && found[0].starts_with("docs/a.md:2:"), "{found:?}");
    }

    #[test]
    fn a_page_that_the_book_lacks_and_a_link_out_of_it_are_found() {
        let book = |page: &str| {
            let summary = File::new("docs/SUMMARY.md", "- [A](a.md)\n");
            out_of_the_book(&[File::new("docs/a.md", page), summary])
        };
        assert_eq!(
            book("[a](a.md#x) [web](https://example.org) [svg](p/x.svg)\n"),
            Vec::<String>::new()
        );
        assert_eq!(book("[up](../README.md) [folder](how/)\n").len(), 2);
        let found =
            out_of_the_book(&[File::new("docs/b.md", ""), File::new("docs/SUMMARY.md", "")]);
        assert!(found.len() == 1 && found[0].ends_with("docs/b.md"), "{found:?}");
    }

    #[test]
    fn code_holds_no_links() {
        assert_eq!(found_in("```\nlist[0](missing.md)\n```\n"), Vec::<String>::new());
    }
}
