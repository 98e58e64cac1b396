//! `quell man`: manual pages from the table of commands.

use crate::command::{Command, GROUPS, PARENTS, Prints, REFUSED, about, below, told, told_parser};
use crate::failure::{EXIT_CODES, Failure};
use crate::text::hand_out;
use clap::Args;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use quell_experiment::nearest;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command, for example ping or shape apply; by default quell itself
    pub command: Vec<String>,
    /// Write all pages into this folder instead, made where it is absent
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    pub folder: Option<PathBuf>,
}

pub fn man(args: &ManArgs, commands: &[Command]) -> Result<ExitCode, Failure> {
    let pages = pages(commands).map_err(Failure::system)?;
    let Some(folder) = &args.folder else {
        let name = args.command.join(" ");
        let wanted = if name.is_empty() { "quell.1".to_owned() } else { file(&name) };
        let page = pages.iter().find(|(name, _)| *name == wanted).ok_or_else(|| {
            let names: Vec<&str> = told(commands).map(|c| c.name).collect();
            Failure::usage(format!("there is no command `{name}`{}", nearest::hint(&name, &names)))
        })?;
        return show(&page.1);
    };
    let failed = |what: &std::path::Path, e: std::io::Error| {
        Failure::system(format!("writing {}: {e}", what.display()))
    };
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    for (name, page) in &pages {
        let file = folder.join(name);
        quell_store::write_output(&file, page).map_err(|e| failed(&file, e))?;
        println!("{}", crate::results::shown(&file));
    }
    Ok(ExitCode::SUCCESS)
}

/// A page for a person by man(1); in a pipe, and where there is no man(1), as it is.
fn show(page: &[u8]) -> Result<ExitCode, Failure> {
    if std::io::stdout().is_terminal() {
        let man = std::process::Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn();
        if let Ok(mut man) = man {
            if let Some(mut input) = man.stdin.take() {
                // Who leaves the pager reads no further.
                let _ = input.write_all(page);
            }
            man.wait().map_err(Failure::system)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    print(page)
}

fn print(bytes: &[u8]) -> Result<ExitCode, Failure> {
    hand_out(bytes).map(|()| ExitCode::SUCCESS)
}

/// Every manual page with its file's name, that of quell itself first.
fn pages(commands: &[Command]) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut whole = told_parser(commands).disable_help_subcommand(true);
    whole.build();
    let mut pages = vec![("quell.1".to_owned(), first_page(&whole, commands)?)];
    let parents = PARENTS.iter().map(|parent| (parent.name, None));
    for (name, command) in parents.chain(told(commands).map(|c| (c.name, Some(c)))) {
        let parser = name.split(' ').try_fold(&whole, |at, word| at.find_subcommand(word));
        // Parents without commands are no commands.
        let Some(parser) = parser else { continue };
        let page = match command {
            Some(command) => command_page(parser, command, commands)?,
            None => parent_page(parser, name, commands)?,
        };
        pages.push((file(name), page));
    }
    Ok(pages)
}

/// The page's name of a command, as man-pages(7) has it: `quell-kernel-build.1`.
fn file(name: &str) -> String {
    format!("quell-{}.1", name.replace(' ', "-"))
}

fn first_page(whole: &clap::Command, commands: &[Command]) -> std::io::Result<Vec<u8>> {
    let mut list = Roff::new();
    for (group, title) in GROUPS {
        list.control("SH", [title.to_uppercase().as_str()]);
        for command in commands.iter().filter(|c| c.group == group) {
            entry(&mut list, &format!("quell {}", command.name), command.about);
        }
    }
    let codes = EXIT_CODES.map(|(code, what)| (code.to_string(), what.to_owned()));
    let mut end = Roff::new();
    exit_status(&mut end, &codes, Some(REFUSED));
    see_also(&mut end, told(commands).map(|c| c.name));
    page(whole, &list, true, &end)
}

fn parent_page(
    parser: &clap::Command,
    name: &str,
    commands: &[Command],
) -> std::io::Result<Vec<u8>> {
    let commands: Vec<&Command> = told(commands).collect();
    let mut list = Roff::new();
    list.control("SH", ["SUBCOMMANDS"]);
    for name in below(&commands, name) {
        entry(&mut list, &format!("quell {name}"), about(&commands, name));
    }
    let mut end = Roff::new();
    see_also(&mut end, below(&commands, name).into_iter());
    page(parser, &list, false, &end)
}

fn command_page(
    parser: &clap::Command,
    command: &Command,
    commands: &[Command],
) -> std::io::Result<Vec<u8>> {
    let mut notes = Roff::new();
    for paragraph in command.notes.split("\n\n").filter(|p| !p.is_empty()) {
        notes.control("PP", []);
        notes.text([roman(paragraph)]);
    }
    let mut end = Roff::new();
    end.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in command.examples.lines() {
        end.text([roman(line)]);
    }
    end.control("fi", []);
    let refused = (command.prints == Prints::Report).then_some(REFUSED);
    exit_status(&mut end, &command.exit_codes(), refused);
    let beside = commands.iter().filter(|c| c.group == command.group && c.name != command.name);
    see_also(&mut end, beside.map(|c| c.name));
    page(parser, &notes, true, &end)
}

/// A page of the manual's section for commands.
fn page(
    parser: &clap::Command,
    middle: &Roff,
    has_options: bool,
    end: &Roff,
) -> std::io::Result<Vec<u8>> {
    let source = concat!("quell ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(parser.clone()).date(crate::version::day()).source(source).manual("Quell");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    middle.to_writer(&mut page)?;
    if has_options {
        man.render_options_section(&mut page)?;
    }
    end.to_writer(&mut page)?;
    // A break beside a space breaks nothing; mandoc(1) complains of it.
    let needless = [
        (".br\n.sp\n", ".sp\n"),
        (".sp\n.br\n", ".sp\n"),
        (".br\n\n", "\n"),
        ("\n\n.br\n", "\n\n"),
    ];
    let page = String::from_utf8_lossy(&page).into_owned();
    let page = needless.iter().fold(page, |page, (broken, whole)| page.replace(broken, whole));
    Ok(page.into_bytes())
}

/// A name, and below it what it is.
fn entry(list: &mut Roff, name: &str, about: &str) {
    list.control("TP", []);
    list.text([bold(name)]);
    list.text([roman(about)]);
}

fn exit_status(section: &mut Roff, codes: &[(String, String)], refused: Option<&str>) {
    section.control("SH", ["EXIT STATUS"]);
    for (code, what) in codes {
        entry(section, code, what);
    }
    if let Some(refused) = refused {
        section.control("PP", []);
        section.text([roman(refused)]);
    }
}

fn see_also<'a>(section: &mut Roff, names: impl Iterator<Item = &'a str>) {
    let pages = names.map(|name| format!("quell-{}(1)", name.replace(' ', "-")));
    let all: Vec<String> = std::iter::once("quell(1)".to_owned()).chain(pages).collect();
    section.control("SH", ["SEE ALSO"]);
    section.text([roman(all.join(", "))]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Call, Fails, Group};
    use std::collections::BTreeMap;

    /// A table of two commands, one of them below another.
    const TABLE: &[Command] = &[
        Command {
            name: "lab build",
            about: "Build it",
            group: Group::Measure,
            prints: Prints::Text,
            examples: "quell lab build\n.hidden 'first'",
            notes: "One.\n\nTwo.",
            fails: Fails::When("it is wrong"),
            call: Call {
                options: |parser| parser.arg(clap::arg!(--deep <N> "How deep")),
                run: |_| Ok(ExitCode::SUCCESS),
            },
        },
        Command {
            name: "secret",
            about: "Told to nobody",
            group: Group::Inner,
            prints: Prints::Program,
            examples: "",
            notes: "",
            fails: Fails::Never,
            call: Call { options: |parser| parser, run: |_| Ok(ExitCode::SUCCESS) },
        },
    ];

    #[test]
    fn a_page_holds_what_the_table_says() {
        let pages: BTreeMap<String, String> = pages(TABLE)
            .expect("memory takes it")
            .into_iter()
            .map(|(name, page)| (name, String::from_utf8(page).expect("text")))
            .collect();
        let names: Vec<&str> = pages.keys().map(String::as_str).collect();
        assert_eq!(names, ["quell-lab-build.1", "quell-lab.1", "quell.1"]);
        let page = &pages["quell-lab-build.1"];
        for words in [
            "quell\\-lab\\-build \\- Build it",
            ".PP\nOne.\n.PP\nTwo.",
            "\\-\\-deep",
            "How deep",
            // What begins with a point or an apostrophe would be a command of roff.
            "\n\\&.hidden",
            "\\fB1\\fR\nit is wrong",
            "SEE ALSO",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(!pages["quell.1"].contains("secret"));
    }
}
