//! What holds for every row of the table.

use super::*;
use crate::command::{GROUPS, PARENTS, RENAMED, below, parser, refuse_old_name};

/// Longest text about a command.
const WIDEST_ABOUT: usize = 60;

fn told() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(|c| c.group != Group::Inner)
}

/// The parser of a command of the table.
fn of(name: &str) -> clap::Command {
    let mut at = parser(COMMANDS);
    at.build();
    for word in name.split(' ') {
        at = at.find_subcommand(word).unwrap_or_else(|| panic!("{name} is there")).clone();
    }
    at
}

#[test]
fn the_table_is_a_command_line_that_clap_finds_no_fault_with() {
    parser(COMMANDS).debug_assert();
    for (index, command) in COMMANDS.iter().enumerate() {
        assert!(COMMANDS[..index].iter().all(|c| c.name != command.name), "{}", command.name);
    }
}

#[test]
fn every_command_shows_how_it_is_called_and_tells_its_exit_codes() {
    for command in told() {
        let call = format!("quell {}", command.name);
        let lines = command.examples.lines();
        assert!(lines.clone().any(|line| line.contains(&call)), "{call}: an example");
        let help = of(command.name).render_help().to_string();
        lines.for_each(|line| assert!(help.contains(line), "{call}: {line}"));
        // Sentences are broken where the lines end.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("Exit codes: "), "{call}");
        assert!(help.contains(", 3 the system would not let us."), "{call}: {help}");
        let checks = matches!(command.fails, Fails::When(_));
        assert_eq!(help.contains(", 1 "), checks, "{call} tells what makes it 1");
    }
}

#[test]
fn every_example_has_values_that_are_not_refused() {
    let parser = parser(COMMANDS);
    let examples = told().flat_map(|command| command.examples.lines());
    for line in examples.filter(|line| line.starts_with("quell ")) {
        let read = parser.clone().try_get_matches_from(words(line));
        let refused = read.err().filter(|e| e.kind() == clap::error::ErrorKind::ValueValidation);
        assert!(refused.is_none(), "{}", refused.map_or_else(String::new, |e| e.to_string()));
    }
}

#[test]
fn what_reports_does_so_for_programs_too_and_nothing_else_has_the_option() {
    for command in COMMANDS {
        let parser = of(command.name);
        let json = parser.get_arguments().any(|a| a.get_long() == Some("json"));
        assert_eq!(json, command.prints == Prints::Report, "{}", command.name);
    }
}

#[test]
fn every_option_is_explained_and_every_text_about_a_command_fits_its_line() {
    let parents = PARENTS.iter().map(|parent| (parent.name, parent.about));
    for (name, about) in COMMANDS.iter().map(|c| (c.name, c.about)).chain(parents) {
        assert!((1..=WIDEST_ABOUT).contains(&about.chars().count()), "{name}: {about}");
    }
    for command in told() {
        // Those that are hidden are answered with what to type.
        for option in of(command.name).get_arguments().filter(|option| !option.is_hide_set()) {
            assert!(option.get_help().is_some(), "{} {}", command.name, option.get_id());
        }
    }
}

#[test]
fn an_old_name_is_refused_with_one_that_there_is() {
    for (old, new) in RENAMED {
        assert!(COMMANDS.iter().all(|c| c.name != old), "{old} is a command");
        let refused = refuse_old_name(&format!("{old} x")).expect_err(old);
        assert_eq!(refused.code(), 2);
        assert!(refused.to_string().contains(&format!("`{new}`")), "{refused}");
        assert!(faults(old, &format!("`{new}`")).is_empty(), "{new}");
    }
    assert!(["ping", "", "reporter", "shape off"].map(refuse_old_name).iter().all(Result::is_ok));
}

#[test]
fn help_of_a_parent_shows_each_of_its_commands_once_in_its_groups() {
    for parent in PARENTS {
        let help = of(parent.name).render_help().to_string();
        for name in below(&COMMANDS.iter().collect::<Vec<_>>(), parent.name) {
            let own = name.rsplit(' ').next().unwrap_or_default();
            assert_eq!(help.matches(&format!("\n  {own} ")).count(), 1, "{name}: {help}");
        }
        parent.groups.iter().for_each(|(title, _)| assert!(help.contains(title), "{help}"));
    }
}

#[test]
fn help_names_every_group_and_every_command_once() {
    let help = parser(COMMANDS).render_help().to_string();
    for (_, title) in GROUPS {
        assert!(help.contains(&format!("\n{title}:\n")), "{title}: {help}");
    }
    for command in told() {
        let first = command.name.split(' ').next().unwrap_or_default();
        let line = format!("\n  {first} ");
        assert_eq!(help.matches(&line).count(), 1, "{first}: {help}");
    }
    assert!(!help.contains("host-cell"), "no person is told of those: {help}");
}

/// The documents, by name.
fn documents() -> Vec<(String, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = ["docs", "docs/start", "docs/how"].into_iter().flat_map(|folder| {
        let pages = std::fs::read_dir(root.join(folder)).into_iter().flatten();
        pages.map(|page| page.expect("an entry").path())
    });
    // The list of the book's pages has titles of decisions.
    let pages = pages.filter(|page| {
        page.extension().is_some_and(|e| e == "md") && !page.ends_with("SUMMARY.md")
    });
    let all = pages.chain([root.join("README.md")]);
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        (path.file_name().expect("a name").to_string_lossy().into_owned(), text)
    };
    all.map(read).collect()
}

/// The calls of the program that a document shows: in lines of their own, and in the text between backticks.
fn calls(text: &str) -> Vec<String> {
    let (mut found, mut is_shown) = (Vec::new(), false);
    for line in text.lines() {
        if line.starts_with("```") {
            is_shown = !is_shown;
        } else if is_shown {
            let call = line.trim_start().trim_start_matches(['$', '#']).trim_start();
            found.extend(call.starts_with("quell ").then(|| call.to_owned()));
        } else {
            // Every second piece stands between backticks.
            let between = line.split('`').skip(1).step_by(2);
            found.extend(between.filter(|call| call.starts_with("quell ")).map(str::to_owned));
        }
    }
    found
}

/// The words of a call, as a shell takes them apart; what stands behind it is another's.
fn words(call: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = call.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('|' | '>' | ';' | '&' | '(', None) => break,
            // A remark.
            ('#', None) if word.is_none() => break,
            (' ', None) => {
                words.extend(word.take());
                if letters.peek() == Some(&' ') {
                    break;
                }
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// Faults of what a document tells to type: commands and options that there are not.
fn faults(name: &str, text: &str) -> Vec<String> {
    use clap::error::ErrorKind;
    let parser = parser(COMMANDS);
    let fault = |call: String| {
        // A word in capitals stands for one that a reader chooses.
        let is_any = words(&call).get(1).is_some_and(|w| w.chars().all(char::is_uppercase));
        let error = parser.clone().try_get_matches_from(words(&call)).err().filter(|_| !is_any)?;
        let is_fault = matches!(
            error.kind(),
            ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict
        );
        let said = error.to_string();
        is_fault.then(|| format!("{name}: {call}: {}", said.lines().next().unwrap_or_default()))
    };
    calls(text).into_iter().filter_map(fault).collect()
}

#[test]
fn what_documents_tell_to_type_there_is() {
    let mut count = 0;
    let mut found = Vec::new();
    for (name, text) in documents() {
        count += calls(&text).len();
        found.extend(faults(&name, &text));
    }
    assert!(count > 200, "only {count} calls in all documents");
    assert!(found.is_empty(), "{found:#?}");
    // It can be seen to fail.
    let wrong = "```\n$ quell show a b --figure cdf --dots 7\n```\nand `quell cmopare a`";
    assert_eq!(faults("x", wrong).len(), 2);
}

#[test]
fn no_document_speaks_of_cells() {
    for (name, text) in documents() {
        // Those of ATM are a line's.
        let lines = text.lines().filter(|line| !line.contains("ATM"));
        let text = lines.collect::<Vec<_>>().join("\n");
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(!words.any(|w| matches!(w, "cell" | "cells")), "{name}");
    }
}
