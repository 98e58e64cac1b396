//! A command as a row of a table, and what is made of the rows.
//!
//! ```text
//!   rows ─┬─► parser ──► what was typed ──► carry_out ──► the row's function
//!         ├─► help: groups, examples, exit codes
//!         └─► manual pages, completions (documents.rs)
//! ```

use crate::failure::{EXIT_CODES, Failure};
use crate::options::choice;
use crate::text::{Colour, set_colour};
use clap::builder::Resettable;
use clap::{Arg, ArgMatches, Args, Command as Parser};
use std::process::ExitCode;

pub struct Command {
    /// What is typed behind `quell`, as `kernel build`.
    pub name: &'static str,
    /// What it does, in a line that beside its name fits 80 columns.
    pub about: &'static str,
    pub group: Group,
    pub prints: Prints,
    /// How it is called, a line each.
    pub examples: &'static str,
    /// What else there is to know, in paragraphs.
    pub notes: &'static str,
    pub fails: Fails,
    /// Its options and its function; made by [`calls!`](crate::command::calls).
    pub call: Call,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Measure,
    Act,
    Experiment,
    Results,
    Program,
    /// What Quell starts itself; no person is told of it.
    Inner,
}

pub const GROUPS: [(Group, &str); 5] = [
    (Group::Measure, "Measure"),
    (Group::Act, "Shape"),
    (Group::Experiment, "Experiment"),
    (Group::Results, "Look at results"),
    (Group::Program, "This program"),
];

/// What goes to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prints {
    /// What it found: for a person, or with --json for a program.
    Report,
    /// A file's path, or a text to be kept as it is.
    Text,
    /// What the program prints that it runs.
    Program,
}

/// What makes the exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fails {
    Never,
    When(&'static str),
    /// The exit code is that of the program that it runs.
    AsProgram,
}

#[derive(Clone, Copy)]
pub struct Call {
    pub options: fn(Parser) -> Parser,
    pub run: fn(&ArgMatches) -> Result<ExitCode, Failure>,
}

macro_rules! calls {
    ($options:ty, $function:expr) => {
        $crate::command::Call {
            options: <$options as clap::Args>::augment_args,
            run: |typed| $function(&$crate::command::read::<$options>(typed)),
        }
    };
}
pub(crate) use calls;

/// Columns of names in help.
const NAME: usize = 11;

const ABOUT: &str = "Quell makes a Linux network fast under load, and proves it";
const START: &str = "Start with `quell run home-link`: what a full uplink does to calls and transfers, and what good \
                     queues do about it.";
/// What holds for every command, beside the codes.
pub const REFUSED: &str = "A refusal is a sentence on standard error, with --json too; standard output then holds what was \
                           measured, or nothing. A second Ctrl-C ends at once, with 130.";

pub struct Parent {
    pub name: &'static str,
    pub about: &'static str,
    /// In which groups help shows what it holds; none where it is few.
    pub groups: &'static [(&'static str, &'static [&'static str])],
}

const fn parent(name: &'static str, about: &'static str) -> Parent {
    Parent { name, about, groups: &[] }
}

pub const PARENTS: [Parent; 9] = [
    Parent {
        groups: &[
            ("Every day", &["try", "plan", "apply", "confirm", "status", "off"]),
            (
                "For the rest",
                &["change", "follow", "prove", "persist", "hold", "recipe", "import", "recover"],
            ),
        ],
        ..parent("shape", "Queues on a real interface, with a way back")
    },
    parent("tune", "Kernel settings from rate, round-trip time and role"),
    parent("lab", "Experiments, their networks and the lab's kernel"),
    parent("lab kernel", "Build, find or carry the lab's guest kernel"),
    parent("mesh", "Many agents that measure each other, day and night"),
    parent("data", "Runs from and for other programs"),
    parent("series", "A line's rate, delay and loss over time"),
    parent("twin", "A line measured as a whole, for the lab"),
    parent("data export", "A run as files that other programs read"),
];

/// Names that commands had or have elsewhere, and what is typed instead.
pub const RENAMED: [(&str, &str); 12] = [
    ("compare", "quell show RUN RUN"),
    ("runs", "quell show --list"),
    ("report", "quell open"),
    ("view", "quell open"),
    ("import", "quell data import"),
    ("export", "quell data export"),
    ("list", "quell lab list"),
    ("show-experiment", "quell lab show"),
    ("check", "quell lab check"),
    ("kernel", "quell lab kernel"),
    ("rpm", "quell flow HOST --rpm"),
    ("shape revert", "quell shape off --dev DEV"),
];

/// `typed`: the words behind `quell`.
pub fn refuse_old_name(typed: &str) -> Result<(), Failure> {
    let is =
        |old: &str| typed.strip_prefix(old).is_some_and(|r| r.is_empty() || r.starts_with(' '));
    let renamed = RENAMED.iter().find(|(old, _)| is(old));
    renamed.map_or(Ok(()), |(old, new)| {
        Err(Failure::usage(format!("there is no `quell {old}`: type `{new}`")))
    })
}

impl Command {
    pub fn exit_codes(&self) -> Vec<(String, String)> {
        let own = |(code, meaning): (u8, &str)| match (code, self.fails) {
            (1, Fails::Never) => None,
            (1, Fails::When(what)) => Some((code.to_string(), what.to_owned())),
            (0 | 1, Fails::AsProgram) => None,
            _ => Some((code.to_string(), meaning.to_owned())),
        };
        let program = (self.fails == Fails::AsProgram)
            .then(|| ("that of the program".to_owned(), "where it ran".to_owned()));
        program.into_iter().chain(EXIT_CODES.into_iter().filter_map(own)).collect()
    }

    fn parser(&self, own_name: &'static str) -> Parser {
        let heading = if self.examples.lines().filter(|l| l.starts_with("quell")).count() == 1 {
            "Example"
        } else {
            "Examples"
        };
        let examples: String = self.examples.lines().map(|line| format!("\n  {line}")).collect();
        let parts = [
            (!examples.is_empty()).then(|| format!("{heading}:{examples}")),
            (!self.notes.is_empty()).then(|| self.notes.to_owned()),
            Some(format!("Exit codes: {}.", sentence(&self.exit_codes()))),
        ];
        let after = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        (self.call.options)(Parser::new(own_name))
            .about(self.about)
            .long_about(Resettable::Reset)
            .hide(self.group == Group::Inner)
            .after_help(after)
    }
}

fn sentence(codes: &[(String, String)]) -> String {
    let words: Vec<String> = codes.iter().map(|(code, what)| format!("{code} {what}")).collect();
    words.join(", ")
}

/// The options of a command out of what was typed.
pub fn read<A: Args>(typed: &ArgMatches) -> A {
    // The parser was made by the same type; where they differ all the same, clap says how.
    A::from_arg_matches(typed).unwrap_or_else(|e| e.exit())
}

pub fn parser(commands: &[Command]) -> Parser {
    parser_of(&commands.iter().collect::<Vec<_>>())
}

pub fn told_parser(commands: &[Command]) -> Parser {
    parser_of(&told(commands).collect::<Vec<_>>())
}

pub fn told(commands: &[Command]) -> impl Iterator<Item = &Command> {
    commands.iter().filter(|command| command.group != Group::Inner)
}

fn parser_of(commands: &[&Command]) -> Parser {
    let codes = EXIT_CODES.map(|(code, what)| (code.to_string(), what.to_owned()));
    let whole = Parser::new("quell")
        .version(crate::version::SHORT)
        .about(ABOUT)
        .max_term_width(100)
        .arg(
            Arg::new("color")
                .long("color")
                .global(true)
                .value_name("WHEN")
                .default_value("auto")
                .value_parser(choice([
                    ("auto", "On a terminal, unless NO_COLOR is set", Colour::Auto),
                    ("always", "Also in a pipe", Colour::Always),
                    ("never", "Nowhere", Colour::Never),
                ]))
                .help("Colour what is serious or lost"),
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\nOptions:\n{{options}}{{after-help}}",
            groups(commands)
        ))
        .after_help(format!("{START}\n\nExit codes: {}. {REFUSED}", sentence(&codes)));
    whole.subcommands(below(commands, "").into_iter().map(|name| node(commands, name)))
}

/// The commands directly below one, each once, in the table's order; those at the top below none.
pub fn below(commands: &[&Command], name: &str) -> Vec<&'static str> {
    let start = if name.is_empty() { String::new() } else { format!("{name} ") };
    let mut found = Vec::new();
    for command in commands {
        let Some(rest) = command.name.strip_prefix(&start) else { continue };
        let end = rest.find(' ').map_or(command.name.len(), |at| start.len() + at);
        let child = &command.name[..end];
        if !found.contains(&child) {
            found.push(child);
        }
    }
    found
}

fn node(commands: &[&Command], name: &'static str) -> Parser {
    let own_name = name.rsplit(' ').next().unwrap_or(name);
    if let Some(command) = commands.iter().find(|c| c.name == name) {
        return command.parser(own_name);
    }
    let held = below(commands, name);
    let parent = parent_of(name);
    let parser = Parser::new(own_name).about(parent.map_or("", |parent| parent.about));
    let parser = parser.subcommand_required(true).arg_required_else_help(true);
    let groups = parent.map_or(&[][..], |parent| parent.groups);
    let parser = match groups.is_empty() {
        true => parser,
        false => parser.help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\nOptions:\n{{options}}",
            held_by_group(commands, name, groups)
        )),
    };
    parser.subcommands(held.into_iter().map(|name| node(commands, name)))
}

fn parent_of(name: &str) -> Option<&'static Parent> {
    PARENTS.iter().find(|parent| parent.name == name)
}

/// What a command is about that may only hold others.
pub fn about(commands: &[&Command], name: &str) -> &'static str {
    let own = commands.iter().find(|c| c.name == name).map(|c| c.about);
    own.or_else(|| Some(parent_of(name)?.about)).unwrap_or_default()
}

fn held_by_group(
    commands: &[&Command],
    parent: &str,
    groups: &[(&str, &'static [&'static str])],
) -> String {
    let mut text = String::new();
    for (title, names) in groups {
        text += &format!("\n{title}:\n");
        for name in *names {
            let about = about(commands, &format!("{parent} {name}"));
            text += &format!("  {name:<NAME$}  {about}\n");
        }
    }
    text
}

fn groups(commands: &[&Command]) -> String {
    let mut text = String::new();
    for (group, title) in GROUPS {
        text += &format!("\n{title}:\n");
        let of_group: Vec<&Command> =
            commands.iter().copied().filter(|c| c.group == group).collect();
        for name in below(&of_group, "") {
            text += &format!("  {name:<NAME$}  {}\n", about(commands, name));
        }
    }
    text
}

pub fn carry_out(commands: &[Command], typed: &ArgMatches) -> Result<ExitCode, Failure> {
    set_colour(typed.get_one("color").copied().unwrap_or(Colour::Auto));
    let mut words = Vec::new();
    let mut inner = typed;
    while let Some((word, next)) = inner.subcommand() {
        words.push(word);
        inner = next;
    }
    let name = words.join(" ");
    let command = commands.iter().find(|command| command.name == name);
    (command.expect("the parser takes only commands of the table").call.run)(inner)
}
