//! No circles: of two files of a crate at most one uses the other, directly or through others.
//!
//! ```text
//!   file ──syn──► what it names (use lines, paths) ──resolve──► the file that defines it ──► arrows ──► loops
//! ```
//!
//! A name counts for the file that defines it, not for the one that hands it on by `use`; so a `mod.rs` that only opens its folder is
//! tied to nobody. What a `#[cfg(test)]` needs is no arrow. Methods are not followed: whose they are, only the compiler knows.

use crate::tree::File;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, UseTree};

/// A module by the names from the crate's root, which is empty.
type Path = Vec<String>;

/// What a module holds: where it is written, which names it takes from where, and what it defines itself.
#[derive(Default)]
struct Module {
    file: String,
    taken: Vec<NameImport>,
    defined: BTreeSet<String>,
    /// Paths of one and more parts in everything else.
    named: BTreeSet<Path>,
}

/// A name bound by `use`.
struct NameImport {
    /// None for a glob.
    name: Option<String>,
    /// What it stands for, as written.
    path: Path,
    /// Others can take it from here.
    handed_on: bool,
}

/// The modules of one crate.
type Crate = BTreeMap<Path, Module>;

/// One line for each loop of files that use each other, with the names that tie it; and one for each file that can't be read.
pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    let roots = files
        .iter()
        .filter(|f| ["/src/lib.rs", "/src/main.rs"].iter().any(|root| f.path.ends_with(root)));
    for root in roots {
        let mut modules = Crate::new();
        match read(files, root, &[], &mut modules) {
            Ok(()) => found.extend(loops(&arrows(&modules))),
            Err(problem) => found.push(problem),
        }
    }
    found
}

/// Reads a module's file and those of the modules below it.
fn read(files: &[File], file: &File, at: &[String], modules: &mut Crate) -> Result<(), String> {
    let parsed = syn::parse_file(&file.text).map_err(|e| format!("{}: {e}", file.path))?;
    items(files, file, parsed.items, at, modules)
}

fn items(
    files: &[File],
    file: &File,
    items: Vec<Item>,
    at: &[String],
    modules: &mut Crate,
) -> Result<(), String> {
    let mut module = Module { file: file.path.clone(), ..Module::default() };
    for item in items {
        let item = match item {
            Item::Use(taken) => {
                let handed_on = !matches!(taken.vis, syn::Visibility::Inherited);
                let mut bound = Vec::new();
                leaves(&taken.tree, &mut Vec::new(), &mut bound);
                let taken =
                    bound.into_iter().map(|(name, path)| NameImport { name, path, handed_on });
                module.taken.extend(taken);
                continue;
            }
            item => item,
        };
        let tokens = quote::ToTokens::to_token_stream(&item);
        if tokens.to_string().starts_with("# [cfg (test)]") {
            continue;
        }
        if let Item::Mod(inner) = item {
            let name = inner.ident.to_string();
            let below = [at, std::slice::from_ref(&name)].concat();
            match inner.content {
                Some((_, content)) => self::items(files, file, content, &below, modules)?,
                None => {
                    let lies = file_of(files, file, &name)
                        .ok_or_else(|| format!("{}: where is `mod {name}`?", file.path))?;
                    read(files, lies, &below, modules)?;
                }
            }
            continue;
        }
        module.defined.extend(name_of(&item));
        paths(tokens, &mut module);
    }
    modules.insert(at.to_vec(), module);
    Ok(())
}

/// The file of `mod name` in another file.
fn file_of<'a>(files: &'a [File], parent: &File, name: &str) -> Option<&'a File> {
    let (folder, own) = parent.path.rsplit_once('/')?;
    let folder = match own {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_string(),
        own => format!("{folder}/{}", own.trim_end_matches(".rs")),
    };
    let places = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
    files.iter().find(|f| places.contains(&f.path))
}

/// The name under which an item can be used from elsewhere.
fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(it) => &it.ident,
        Item::Enum(it) => &it.ident,
        Item::Fn(it) => &it.sig.ident,
        Item::Macro(it) => it.ident.as_ref()?,
        Item::Static(it) => &it.ident,
        Item::Struct(it) => &it.ident,
        Item::Trait(it) => &it.ident,
        Item::Type(it) => &it.ident,
        Item::Union(it) => &it.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// What a `use` binds, leaf by leaf.
fn leaves(tree: &UseTree, before: &mut Path, taken: &mut Vec<(Option<String>, Path)>) {
    let mut leaf = |name: Option<String>, last: Option<String>| {
        // `use a::{self}` is `use a`.
        let last = last.filter(|last| last != "self" || before.is_empty());
        let path: Path = before.iter().cloned().chain(last).collect();
        let name = if name.as_deref() == Some("self") { path.last().cloned() } else { name };
        taken.push((name, path));
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            leaves(&path.tree, before, taken);
            before.pop();
        }
        UseTree::Name(name) => leaf(Some(name.ident.to_string()), Some(name.ident.to_string())),
        UseTree::Rename(rename) => {
            leaf(Some(rename.rename.to_string()), Some(rename.ident.to_string()));
        }
        UseTree::Glob(_) => leaf(None, None),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, before, taken)),
    }
}

/// Collects paths such as `crate::a::B` and `inner::f` out of tokens, those in macros' arguments and `use` lines of functions too.
fn paths(tokens: proc_macro2::TokenStream, module: &mut Module) {
    use proc_macro2::TokenTree::{Group, Ident, Punct};
    let mut path = Path::new();
    // How many of the two colons have come since the last name.
    let mut colons = 0;
    let mut end = |path: &mut Path| {
        let whole = std::mem::take(path);
        if !whole.is_empty() {
            module.named.insert(whole);
        }
    };
    let mut inner = Vec::new();
    for token in tokens {
        match token {
            Ident(name) => {
                if colons != 2 {
                    end(&mut path);
                }
                path.push(name.to_string());
                colons = 0;
            }
            Punct(p) if p.as_char() == ':' => colons += 1,
            Group(group) => {
                // `a::{b, c}` in a function's own `use`.
                let before = if colons == 2 { path.clone() } else { Path::new() };
                end(&mut path);
                colons = 0;
                inner.push((before, group.stream()));
            }
            _ => {
                end(&mut path);
                colons = 0;
            }
        }
    }
    end(&mut path);
    for (before, stream) in inner {
        if before.is_empty() {
            paths(stream, module);
        } else if let Ok(tree) = syn::parse2::<UseTree>(quote::quote!({ #stream })) {
            let mut taken = Vec::new();
            leaves(&tree, &mut before.clone(), &mut taken);
            module.named.extend(taken.into_iter().map(|(_, path)| path));
        }
    }
}

/// The file that defines what a path names as seen from a module; none for what other crates define.
fn definer<'a>(
    modules: &'a Crate,
    at: &[String],
    path: &[String],
    depth: usize,
) -> Option<&'a str> {
    // Two modules can hand on each other's names by globs.
    let depth = depth.checked_sub(1)?;
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => return definer_below(modules, &[], rest, depth),
        "self" => return definer_below(modules, at, rest, depth),
        "super" => return definer_below(modules, at.split_last()?.1, rest, depth),
        _ => {}
    }
    definer_below(modules, at, path, depth)
}

/// The same for the names from a module downward.
fn definer_below<'a>(
    modules: &'a Crate,
    at: &[String],
    path: &[String],
    depth: usize,
) -> Option<&'a str> {
    let module = modules.get(at)?;
    let Some((first, rest)) = path.split_first() else { return Some(&module.file) };
    if first == "super" {
        return definer_below(modules, at.split_last()?.1, rest, depth.checked_sub(1)?);
    }
    let below = [at, std::slice::from_ref(first)].concat();
    if modules.contains_key(&below) {
        return definer_below(modules, &below, rest, depth);
    }
    if module.defined.contains(first) {
        return Some(&module.file);
    }
    for NameImport { name, path: from, .. } in &module.taken {
        let whole = match name {
            Some(name) if name == first => [from, rest].concat(),
            Some(_) => continue,
            None => [from, path].concat(),
        };
        // `use name::…` of another crate has the same first word as itself.
        if (whole != path || at.is_empty())
            && let Some(file) = definer(modules, at, &whole, depth)
        {
            return Some(file);
        }
    }
    None
}

/// Which file uses which, and by what names.
type Arrows<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<String>>>;

fn arrows(modules: &Crate) -> Arrows<'_> {
    let mut arrows = Arrows::new();
    for (at, module) in modules {
        // What a module only hands on ties its users to the definer, and not itself.
        let used = |t: &&NameImport| {
            let name = t.name.as_ref();
            !t.handed_on || name.is_some_and(|n| module.named.iter().any(|path| path[0] == *n))
        };
        let taken = module.taken.iter().filter(used).map(|t| &t.path);
        // A name alone comes from this module or from a `use` of it.
        for path in taken.chain(module.named.iter().filter(|path| path.len() > 1)) {
            let Some(to) = definer(modules, at, path, 16) else { continue };
            if to != module.file {
                let name = path.last().cloned().unwrap_or_default();
                arrows.entry(&module.file).or_default().entry(to).or_default().insert(name);
            }
        }
    }
    arrows
}

/// The groups of files in which each is reached from each other, and what ties them.
fn loops(arrows: &Arrows<'_>) -> Vec<String> {
    let reached = |from: &str| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut next: Vec<&str> =
            arrows.get(from).into_iter().flatten().map(|(to, _)| *to).collect();
        while let Some(file) = next.pop() {
            if seen.insert(file) {
                next.extend(arrows.get(file).into_iter().flatten().map(|(to, _)| *to));
            }
        }
        seen
    };
    let all: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|from| (*from, reached(from))).collect();
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for (file, reach) in &all {
        if !reach.contains(file) || told.contains(file) {
            continue;
        }
        let ring: Vec<&str> = reach
            .iter()
            .copied()
            .filter(|f| all.get(f).is_some_and(|r| r.contains(file)))
            .collect();
        told.extend(ring.iter().copied());
        let mut text = format!("{} files use each other", ring.len());
        for from in &ring {
            for (to, names) in arrows[from].iter().filter(|(to, _)| ring.contains(*to)) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                text += &format!("\n    {from} -> {to}: {}", names.join(", "));
            }
        }
        found.push(text);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File::new(&format!("crates/a/src/{path}"), text))
            .collect();
        problems(&files)
    }

    #[test]
    fn two_files_that_use_each_other_are_found_with_what_ties_them() {
        let found = crate_of(&[
            ("lib.rs", "mod door;\nmod session;"),
            (
                "door.rs",
                "use crate::session;\npub struct Guest;\nfn open() { session::run(Guest) }",
            ),
            ("session.rs", "use crate::door::Guest;\npub fn run(guest: Guest) {}"),
        ]);
        let wanted = "2 files use each other\
            \n    crates/a/src/door.rs -> crates/a/src/session.rs: run, session\
            \n    crates/a/src/session.rs -> crates/a/src/door.rs: Guest";
        assert_eq!(found, [wanted]);
    }

    #[test]
    fn a_loop_over_three_files_and_through_another_folder_is_one() {
        let found = crate_of(&[
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "pub struct A;\nfn f() { println!(\"{:?}\", crate::b::inner::C) }"),
            ("b/mod.rs", "pub mod inner;\nuse crate::a::A;\npub struct B(A);"),
            (
                "b/inner.rs",
                "pub struct C;\nfn g() { use super::{B as Other}; let _ = Other::new(); }",
            ),
        ]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("3 files use each other"), "{}", found[0]);
    }

    #[test]
    fn a_name_counts_for_the_file_that_defines_it_and_not_for_one_that_hands_it_on() {
        let found = crate_of(&[
            ("lib.rs", "mod queue;\npub use queue::Queue;\npub mod tree;\npub use tree::*;"),
            ("queue.rs", "pub struct Queue;\nuse crate::Node;\nfn f(node: Node) {}"),
            ("tree.rs", "pub struct Node;"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn what_only_tests_use_is_no_arrow() {
        let found = crate_of(&[
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "pub struct A;\n#[cfg(test)]\nmod tests { use crate::b::B; }"),
            ("b.rs", "pub struct B(crate::a::A);"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_module_without_a_file_is_told() {
        let found = crate_of(&[("lib.rs", "mod gone;")]);
        assert_eq!(found, ["crates/a/src/lib.rs: where is `mod gone`?"]);
    }
}
