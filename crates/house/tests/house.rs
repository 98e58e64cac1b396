//! The real tree against every check.

use quell_house::{
    glossary, layers, licences, links, names, prose, reads, sources, tree, waits, words,
};

/// Fails with every problem on a line of its own.
fn none(what: &str, problems: &[String]) {
    assert!(problems.is_empty(), "{what}:\n  {}", problems.join("\n  "));
}

fn files() -> Vec<tree::File> {
    let files = tree::files(&tree::root()).expect("the tree can be read");
    assert!(files.iter().any(|f| f.path == "README.md"), "this is the root of the tree");
    files
}

fn metadata() -> cargo_metadata::Metadata {
    tree::metadata(&tree::root()).expect("cargo knows the workspace, with Cargo.lock as it stands")
}

#[test]
fn every_crate_uses_lower_layers_only() {
    let crates = layers::crates(&metadata());
    let lab = crates.iter().find(|c| c.name == "quell-lab").expect("the lab is a crate");
    assert!(!lab.uses.is_empty(), "cargo tells what a crate uses");
    none("arrows run downward only", &layers::problems(&crates));
}

#[test]
fn every_dependency_may_be_passed_on() {
    let packages = licences::dependencies(&metadata());
    assert!(packages.iter().any(|p| p.package.starts_with("serde ")), "dependencies are reached");
    none("licences", &licences::problems(&packages));
}

#[test]
fn no_source_file_is_too_long_to_read() {
    none("long files", &sources::too_long(&files()));
}

#[test]
fn every_crate_opens_with_what_it_does() {
    none("openings", &sources::without_opening(&files()));
}

#[test]
fn nothing_speaks_of_one_machine() {
    none("words of one machine", &words::problems(&files()));
}

#[test]
fn the_lab_waits_for_things_and_not_for_times() {
    none("waits", &waits::problems(&files()));
}

#[test]
fn a_file_that_a_person_names_is_read_up_to_an_end() {
    none("reads", &reads::problems(&files()));
}

#[test]
fn a_word_of_the_glossary_is_one_type() {
    none("glossary", &glossary::problems(&files()));
}

#[test]
fn a_type_name_has_three_meanings_at_most() {
    none("names", &names::problems(&files(), include_str!("names_to_mend.txt")));
}

#[test]
fn links_in_documents_lead_somewhere() {
    none("links", &links::problems(&files()));
    none("the book", &links::out_of_the_book(&files()));
}

#[test]
fn documents_are_plain_english() {
    none("documents", &prose::problems(&files()));
}

#[test]
fn strings_that_users_read_are_plain_english() {
    none("strings", &prose::problems_of_strings(&files()));
}

/// Where the keys of an experiment file are defined, and whether they are written with `-` for `_`.
/// The tables of queues are held against their rows by `crates/tc/tests/all/tables.rs`.
const KEYS: [(&str, bool); 5] = [
    ("crates/experiment/src/spec/mod.rs", true),
    ("crates/experiment/src/kinds/", true),
    ("crates/lab/src/topology/spec.rs", true),
    ("crates/policy/src/host_fair.rs", true),
    ("crates/tc/src/qdisc/", false),
];

/// Fields of types that are no part of the file, or whose own fields stand there in their place.
const NO_KEYS: [&str; 3] = ["node", "device", "counting"];

#[test]
fn the_reference_of_the_experiment_file_names_every_key() {
    let files = files();
    let text = |path: &str| &files.iter().find(|f| f.path == path).expect("it is there").text;
    let reference = text("docs/experiments.md");
    let mut missing = Vec::new();
    let mut seen = 0;
    for (place, dashes) in KEYS {
        let is_written = |text: &str| !dashes || text.contains("deny_unknown_fields");
        for file in files.iter().filter(|f| f.path.starts_with(place) && is_written(&f.text)) {
            let fields =
                file.text.lines().filter_map(|l| l.strip_prefix("    pub ")?.split_once(": "));
            for (field, _) in fields.filter(|(f, _)| {
                f.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            }) {
                let key = if dashes { field.replace('_', "-") } else { field.into() };
                seen += 1;
                if !NO_KEYS.contains(&field) && !reference.contains(&format!("`{key}`")) {
                    missing.push(format!("`{key}` of {}", file.path));
                }
            }
        }
    }
    assert!(seen > 120, "the fields are found: {seen}");
    none("docs/experiments.md does not name", &missing);
}

#[test]
fn the_map_names_every_crate() {
    let map = tree::files(&tree::root()).expect("the tree can be read");
    let map = &map.iter().find(|f| f.path == "ARCHITECTURE.md").expect("it is there").text;
    let crates = layers::crates(&metadata());
    let unnamed = crates
        .iter()
        .map(|c| c.name.trim_start_matches("quell-"))
        .filter(|n| !map.contains(&format!("`{n}`")));
    none("ARCHITECTURE.md does not name", &unnamed.map(String::from).collect::<Vec<_>>());
}
