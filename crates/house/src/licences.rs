//! Licences: what is built into the program may be passed on with it.
//!
//! Counted are dependencies for building and running, not those for tests alone. An expression such as `MIT OR GPL-2.0` is fine
//! where one way through it is allowed (SPDX specification, annex on licence expressions).

use cargo_metadata::{DependencyKind, Metadata, PackageId};
use spdx::{Expression, LicenseItem, ParseMode};
use std::collections::BTreeSet;

/// Licences, by SPDX identifier, under which a dependency may come.
pub const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "OFL-1.1",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Licensed {
    pub package: String,
    pub expression: Option<String>,
}

/// Everything that is built into some crate of the workspace, and the workspace's own crates.
pub fn dependencies(metadata: &Metadata) -> Vec<Licensed> {
    let Some(resolve) = &metadata.resolve else { return Vec::new() };
    let mut reached: BTreeSet<&PackageId> = BTreeSet::new();
    let mut next: Vec<&PackageId> = metadata.workspace_members.iter().collect();
    while let Some(id) = next.pop() {
        if !reached.insert(id) {
            continue;
        }
        let node = resolve.nodes.iter().find(|n| n.id == *id);
        for dependency in node.into_iter().flat_map(|n| &n.deps) {
            if dependency.dep_kinds.iter().any(|k| k.kind != DependencyKind::Development) {
                next.push(&dependency.pkg);
            }
        }
    }
    let all = metadata.packages.iter().filter(|p| reached.contains(&p.id));
    all.map(|p| Licensed {
        package: format!("{} {}", p.name, p.version),
        expression: p.license.clone(),
    })
    .collect()
}

pub fn problems(packages: &[Licensed]) -> Vec<String> {
    packages.iter().filter_map(problem).collect()
}

fn problem(licensed: &Licensed) -> Option<String> {
    let Licensed { package, expression } = licensed;
    let Some(text) = expression else {
        return Some(format!("{package} names no licence"));
    };
    // Old packages write MIT/Apache-2.0.
    let expression = match Expression::parse_mode(text, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("{package}: `{text}` is no licence: {}", error.reason)),
    };
    let allowed = expression.evaluate(|requirement| match &requirement.license {
        LicenseItem::Spdx { id, .. } => ALLOWED.contains(&id.name),
        LicenseItem::Other(_) => false,
    });
    (!allowed).then(|| format!("{package}: `{text}` is not in ALLOWED"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(expression: Option<&str>) -> Option<String> {
        problem(&Licensed {
            package: "made-up 1.0.0".into(),
            expression: expression.map(Into::into),
        })
    }

    #[test]
    fn one_allowed_way_is_enough() {
        for fine in
            ["MIT", "MIT OR GPL-3.0-only", "MIT/Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
        {
            assert_eq!(problem_of(Some(fine)), None, "{fine}");
        }
        assert_eq!(problem_of(Some("(MIT OR GPL-2.0-only) AND Unicode-3.0")), None);
    }

    #[test]
    fn a_licence_that_binds_the_whole_program_is_found() {
        for bad in ["GPL-3.0-only", "MIT AND AGPL-3.0-only", "LGPL-2.1-or-later"] {
            assert!(problem_of(Some(bad)).is_some(), "{bad}");
        }
    }

    #[test]
    fn no_licence_and_no_sense_are_found() {
        assert!(problem_of(None).is_some());
        assert!(problem_of(Some("ask me")).is_some());
    }
}
