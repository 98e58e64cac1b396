//! A kind of probe or load is told of once: its type is named in its own file and in the table of kinds, and each of its tasks where
//! it is defined, planned and carried out.
//!
//! ```text
//!   kinds/mod.rs   kinds! { … "ping" => Ping(PingProbe) … }  ──►  PingProbe        in 2 files
//!   task.rs        enum TaskKind { Ping { … } … }            ──►  TaskKind::Ping   in 2 files, and where tasks are planned beside kinds
//! ```

use crate::tree::File;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;

/// The crate whose files know kinds; what has such a name elsewhere is something else.
const KNOWN_IN: &str = "crates/experiment/src/";
/// Where the kinds are listed.
const TABLE: &str = "crates/experiment/src/kinds/mod.rs";
/// Where tasks are defined.
const TASKS: &str = "crates/model/src/task.rs";
/// Most files that name a kind's type: its own and the table.
const MOST_OF_TYPE: usize = 2;
/// Most files that name a task: where it is defined, where it is planned, where it is carried out.
const MOST_OF_TASK: usize = 3;

/// Names that stand in too many files, each with these.
pub fn problems(files: &[File]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|f| f.path == path).map(|f| &*f.text);
    let (Some(table), Some(tasks)) = (text(TABLE), text(TASKS)) else {
        return vec![format!("there is no {TABLE} or no {TASKS}")];
    };
    let types = types_of(table);
    let tasks = tasks_of(tasks);
    if types.is_empty() || tasks.is_empty() {
        return vec![format!("there are no kinds in {TABLE} or no tasks in {TASKS}")];
    }
    let sources: Vec<(&str, BTreeSet<String>)> = files
        .iter()
        .filter(|f| f.path.starts_with("crates/") && f.path.contains("/src/"))
        .filter(|f| f.path.ends_with(".rs") && !f.path.ends_with("tests.rs"))
        .map(|f| (&*f.path, names(&f.text)))
        .collect();
    let types = types.into_iter().map(|name| (name, KNOWN_IN, MOST_OF_TYPE));
    let tasks = tasks.into_iter().map(|name| (format!("TaskKind::{name}"), "", MOST_OF_TASK));
    let mut problems = Vec::new();
    for (name, known_in, most) in types.chain(tasks) {
        let in_reach = sources.iter().filter(|(path, _)| path.starts_with(known_in));
        let places: Vec<&str> =
            in_reach.filter(|(_, names)| names.contains(&name)).map(|(path, _)| *path).collect();
        if places.len() > most {
            problems.push(format!(
                "`{name}` is named in {} files, at most {most}; what they have to know of it, the kind itself can tell: {}",
                places.len(),
                places.join(", ")
            ));
        }
    }
    problems
}

/// The types in the lines `"word" => Kind(Type): …` of the table, whatever macro they are in.
fn types_of(table: &str) -> BTreeSet<String> {
    let line = |line: &str| {
        let (_, kind) = line.trim().strip_prefix('"')?.split_once("\" => ")?;
        let (_, of) = kind.split_once('(')?;
        Some(of.split_once(')')?.0.to_owned())
    };
    table.lines().filter_map(line).collect()
}

/// The variants of `TaskKind`.
fn tasks_of(text: &str) -> BTreeSet<String> {
    let items = syn::parse_file(text).map_or(Vec::new(), |file| file.items);
    let variants = items.into_iter().filter_map(|item| match item {
        syn::Item::Enum(it) if it.ident == "TaskKind" => Some(it.variants),
        _ => None,
    });
    variants.flatten().map(|variant| variant.ident.to_string()).collect()
}

/// Names in a file, and pairs as `A::B`, but those in its tests and comments.
fn names(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for item in syn::parse_file(text).map_or(Vec::new(), |file| file.items) {
        let tokens = quote::ToTokens::to_token_stream(&item);
        if !tokens.to_string().starts_with("# [cfg (test)]") {
            collect(tokens, &mut found);
        }
    }
    found
}

fn collect(tokens: TokenStream, found: &mut BTreeSet<String>) {
    // The last name, and how many colons came since.
    let mut last: Option<(String, usize)> = None;
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                let name = name.to_string();
                if let Some((before, 2)) = &last {
                    found.insert(format!("{before}::{name}"));
                }
                found.insert(name.clone());
                last = Some((name, 0));
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => {
                last = last.map(|(name, colons)| (name, colons + 1));
            }
            TokenTree::Group(group) => {
                collect(group.stream(), found);
                last = None;
            }
            _ => last = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASKS_TEXT: &str = "/// Asks with `TaskKind::Ping`.\npub enum TaskKind { Ping, Sink { bind: u16 } }\n\
                              fn about(t: TaskKind) { match t { TaskKind::Ping => {} _ => {} } }";
    const TABLE_TEXT: &str =
        "kinds! {\n    pub enum Probe {\n        \"ping\" => Ping(PingProbe): \"echo\",\n    }\n}";
    const OWN: &str = "pub struct PingProbe;\nfn plan() { f(TaskKind::Ping) }";

    fn tree(others: &[(&str, &str)]) -> Vec<String> {
        let known = [
            (TASKS, TASKS_TEXT),
            (TABLE, TABLE_TEXT),
            ("crates/experiment/src/kinds/ping.rs", OWN),
        ];
        let all = known.iter().chain(others);
        problems(&all.map(|(path, text)| File::new(path, text)).collect::<Vec<_>>())
    }

    #[test]
    fn a_kind_in_its_own_file_and_its_task_where_it_is_carried_out_are_fine() {
        let tests =
            "#[cfg(test)]\nmod tests { use super::PingProbe; const A: B = TaskKind::Ping; }";
        let comment = "//! Beside `TaskKind::Ping` and [`PingProbe`].\nstruct A;";
        let agent = "fn work(t: &Task) { matches!(t.kind, TaskKind::Ping { .. }); }";
        let all = [
            ("crates/a/src/tests.rs", OWN),
            ("crates/a/src/a.rs", tests),
            ("crates/a/src/b.rs", comment),
        ];
        assert_eq!(tree(&all), [""; 0]);
        assert_eq!(tree(&[("crates/experiment/src/agent/work.rs", agent)]), [""; 0]);
        let other = "pub struct PingProbe;";
        assert_eq!(tree(&[("crates/a/src/a.rs", other), ("crates/b/src/b.rs", other)]), [""; 0]);
    }

    #[test]
    fn a_kind_that_a_check_asks_for_by_name_is_found_with_all_places() {
        let found = tree(&[("crates/experiment/src/spec/check.rs", "fn f(p: &PingProbe) {}")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("`PingProbe` is named in 3 files"), "{found:?}");
        assert!(
            found[0].contains("spec/check.rs") && found[0].contains("kinds/ping.rs"),
            "{found:?}"
        );
    }

    #[test]
    fn a_task_that_is_told_from_others_all_over_the_tree_is_found_in_macros_too() {
        let lab = "fn f(t: &Task) -> bool { matches!(t.kind, TaskKind::Ping { .. }) }";
        let found = tree(&[("crates/lab/src/ways.rs", lab), ("crates/lab/src/cell.rs", lab)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("`TaskKind::Ping` is named in 4 files"), "{found:?}");
    }

    #[test]
    fn a_tree_without_kinds_is_told() {
        assert_eq!(problems(&[]), [format!("there is no {TABLE} or no {TASKS}")]);
        let empty = problems(&[File::new(TABLE, ""), File::new(TASKS, "enum Other {}")]);
        assert_eq!(empty, [format!("there are no kinds in {TABLE} or no tasks in {TASKS}")]);
    }
}
