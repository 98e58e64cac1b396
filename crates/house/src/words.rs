//! Words that don't belong in a source tree: absolute paths of somebody's folders, hosts of private registries, and what a merge leaves
//! where nobody decided.

use crate::tree::File;

/// Folders of one machine. Put together here, so that this file does not hold what it looks for.
pub const PATHS: [&str; 3] =
    [concat!("/", "work", "/"), concat!("/", "root", "/"), concat!("/", "home", "/")];

/// Signs of a registry that is not the public one.
pub const HOSTS: [&str; 3] =
    [concat!("sparse", "+http"), concat!("arti", "factory"), concat!("replace", "-with")];

/// How git marks both sides of a conflict, at the beginning of a line.
pub const CONFLICT: [&str; 2] = [concat!("<<<<", "<<< "), concat!(">>>>", ">>> ")];

/// The one source that the lock file may name.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub fn problems(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            let mut report =
                |what: &str| problems.push(format!("{}:{}: {what}", file.path, number + 1));
            for path in PATHS.iter().filter(|path| stands_alone(line, path)) {
                report(&format!("`{path}` is a folder of one machine"));
            }
            for host in HOSTS.iter().filter(|host| line.to_lowercase().contains(**host)) {
                report(&format!("`{host}` speaks of a registry that others don't have"));
            }
            if CONFLICT.iter().any(|mark| line.starts_with(mark)) {
                report("both sides of a merge stand here");
            }
            let source = line.strip_prefix("source = \"").and_then(|rest| rest.strip_suffix('"'));
            if file.path.ends_with("Cargo.lock") && source.is_some_and(|source| source != REGISTRY)
            {
                report("a dependency does not come from crates.io");
            }
        }
    }
    problems
}

/// Whether an absolute path begins with this folder; `net/…` inside a longer path does not.
fn stands_alone(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_machine_is_found_with_its_line() {
        let text = format!("fine\nsee {}quell for it\n", PATHS[0]);
        let found = problems(&[File::new("docs/x.md", &text)]);
        assert!(found.len() == 1 && found[0].starts_with("docs/x.md:2:"), "{found:?}");
    }

    #[test]
    fn an_undecided_merge_is_found() {
        let text = format!("ours\n{}HEAD\na\n=======\nb\n{}other\n", CONFLICT[0], CONFLICT[1]);
        let found = problems(&[File::new("CHANGELOG.md", &text)]);
        let lines = ["CHANGELOG.md:2:", "CHANGELOG.md:6:"];
        assert!(
            found.len() == 2 && found.iter().zip(lines).all(|(f, l)| f.starts_with(l)),
            "{found:?}"
        );
    }

    #[test]
    fn a_relative_path_with_the_same_word_is_fine() {
        let text = format!("net{}x and root=/dev/root ro\n", PATHS[0]);
        assert_eq!(problems(&[File::new("docs/x.md", &text)]), Vec::<String>::new());
    }

    #[test]
    fn a_registry_of_ones_own_is_found() {
        let text = format!("registry = \"{}s://example.org/\"\n", HOSTS[0]);
        assert_eq!(problems(&[File::new("x.toml", &text)]).len(), 1);
    }

    #[test]
    fn a_locked_package_from_elsewhere_is_found() {
        let text = format!("source = \"{REGISTRY}\"\nsource = \"git+https://example.org/x\"\n");
        let found = problems(&[File::new("Cargo.lock", &text)]);
        assert!(found.len() == 1 && found[0].contains(":2:"), "{found:?}");
    }
}
