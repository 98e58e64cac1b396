//! What holds for every row of the table.

use super::*;
use crate::command::{GROUPS, PARENTS, parser};

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
fn what_reports_does_so_for_programs_too_and_nothing_else_has_the_option() {
    for command in COMMANDS {
        let parser = of(command.name);
        let json = parser.get_arguments().any(|a| a.get_long() == Some("json"));
        assert_eq!(json, command.prints == Prints::Report, "{}", command.name);
    }
}

#[test]
fn every_option_is_explained_and_every_text_about_a_command_fits_its_line() {
    let parents = PARENTS.iter().map(|(name, about)| (*name, *about));
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
