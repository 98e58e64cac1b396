//! Text for a person, in lines that standard output has room for.
//!
//! ```text
//!   terminal ──► its columns, 60 to 100 ─┐
//!   pipe, file ──► 100                   ├─► width ─┬─ lines    a paragraph behind its head, broken between words
//!                                        │          ├─ fitted   a line, broken only where a terminal has no room for it
//!                                                   └─ Columns  a table that gives up blanks first, then columns
//! ```
//!
//! What is for a program (JSON, a command to be typed again, a path) is never broken.

mod table;

use crate::failure::Failure;
pub use quell_finding::WIDEST;
use std::io::IsTerminal;
use std::sync::OnceLock;
pub use table::{Column, Columns};

/// A JSON document as it is printed: indented, and commanding no terminal, whatever the names in it hold.
pub fn document(document: &impl serde::Serialize) -> String {
    // Texts and numbers are always JSON.
    quell_wire::text::json(&serde_json::to_string_pretty(document).unwrap_or_default())
}

/// The narrowest terminal that is written for; a narrower one breaks lines by itself.
pub const NARROWEST: usize = 60;

/// Columns that a line may take: those of the terminal on standard output, and no more than in a pipe.
pub fn columns() -> usize {
    let terminal = terminal_size::terminal_size_of(std::io::stdout());
    terminal.map_or(WIDEST, |(width, _)| usize::from(width.0).clamp(NARROWEST, WIDEST))
}

/// A text in lines of at most so many columns, the later ones indented as wide as the head of the first.
pub fn lines(head: &str, text: &str, width: usize) -> String {
    // A blank more begins no line.
    broken_between(head, head.chars().count(), text.split(' '), width) + "\n"
}

/// Words in lines of at most so many columns, the later ones indented by so many.
fn broken_between<'a>(
    head: &str,
    indent: usize,
    words: impl Iterator<Item = &'a str>,
    width: usize,
) -> String {
    let (mut out, mut line, mut is_empty) = (String::new(), head.to_owned(), true);
    for word in words {
        let wide = line.chars().count() + usize::from(!is_empty) + word.chars().count();
        if wide > width && !is_empty && !word.is_empty() {
            out += line.trim_end();
            out.push('\n');
            line = " ".repeat(indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    out + line.trim_end()
}

/// What goes wrong, as standard error has room for it, broken between words; in a pipe as it is.
///
/// What may be copied stays in one piece: what stands between backticks or double quotes, words without blanks (paths), and lines that are set in.
pub fn complaint(text: &str) -> String {
    let error = std::io::stderr();
    if !error.is_terminal() {
        return text.to_owned();
    }
    let wide = terminal_size::terminal_size_of(error).map(|(width, _)| usize::from(width.0));
    complaint_in(text, wide.map_or(WIDEST, |wide| wide.clamp(NARROWEST, WIDEST)))
}

fn complaint_in(text: &str, width: usize) -> String {
    let one = |line: &str| match line.starts_with(' ') || line.chars().count() <= width {
        true => line.to_owned(),
        false => broken_between("", 2, pieces(line).into_iter(), width),
    };
    text.split('\n').map(one).collect::<Vec<_>>().join("\n")
}

/// The words of a line, those between marks together.
fn pieces(line: &str) -> Vec<&str> {
    let (mut pieces, mut from, mut open) = (Vec::new(), 0, None);
    for (at, letter) in line.char_indices() {
        match (letter, open) {
            ('`' | '"', None) => open = Some(letter),
            (mark, Some(opened)) if mark == opened => open = None,
            // A mark that nobody closes opens nothing.
            (' ', Some(opened)) if !line[at..].contains(opened) => {
                open = None;
                pieces.push(&line[from..at]);
                from = at + 1;
            }
            (' ', None) => {
                pieces.push(&line[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&line[from..]);
    pieces
}

/// Lines that a pipe gets whole; where a terminal has less room they are broken between words, and go on below what stands behind their label.
pub fn fitted(text: &str, width: usize) -> String {
    let one = |whole: &str| {
        let line = whole.trim_end_matches('\n');
        if width >= WIDEST || line.chars().count() <= width {
            return whole.to_owned();
        }
        let (head, said) = labelled(line);
        let (first, rest) = broken(said, width.saturating_sub(head.chars().count()));
        let label = head.trim_start_matches(' ');
        let indent = if label.is_empty() { head.len() + 2 } else { head.chars().count() };
        let rest = match rest {
            "" => String::new(),
            rest => lines(&" ".repeat(indent), rest, width),
        };
        let text = format!("{head}{first}\n{rest}");
        if whole.ends_with('\n') { text } else { text.trim_end_matches('\n').to_owned() }
    };
    text.split_inclusive('\n').map(one).collect()
}

/// The blanks that a line begins with, and its label where two blanks or more set one apart; and what it says.
fn labelled(line: &str) -> (&str, &str) {
    /// Longest label with the blanks around it.
    const LABEL: usize = 24;
    let blanks = line.len() - line.trim_start_matches(' ').len();
    let behind = line[blanks..].find("  ").map(|at| {
        let gap = &line[blanks + at..];
        blanks + at + gap.len() - gap.trim_start_matches(' ').len()
    });
    line.split_at(behind.filter(|at| line[..*at].chars().count() <= LABEL).unwrap_or(blanks))
}

/// As many words as there is room for, one at least, and those behind them; where there are gaps between cells, whole cells.
fn broken(text: &str, room: usize) -> (&str, &str) {
    let wide = |at: &usize| text[..*at].chars().count();
    let last = |ends: &str| {
        let ends = text.match_indices(ends).map(|(at, _)| at);
        ends.take_while(|at| wide(at) <= room).last()
    };
    let cell = last("  ").filter(|at| wide(at) >= room / 2);
    match cell.or(last(" ")).or(text.find(' ')) {
        Some(at) => (text[..at].trim_end(), text[at..].trim_start()),
        None => (text, ""),
    }
}

/// Prints lines, broken where a terminal has no room for them.
pub fn say(text: &str) {
    put(&fitted(text, columns()));
}

/// Prints what a person reads, coloured where that is wanted. What a file or a peer said in it moves no cursor.
pub fn put(text: &str) {
    let acts = |char: char| char.is_control() && !matches!(char, '\n' | '\t');
    let text = text.replace(acts, "\u{fffd}");
    match is_coloured() {
        true => print!("{}", painted(&text)),
        false => print!("{text}"),
    }
}

/// When there is colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// On a terminal, unless `NO_COLOR` is set (no-color.org).
    Auto,
    Always,
    Never,
}

static COLOUR: OnceLock<bool> = OnceLock::new();

/// Says for all that is printed when there is colour.
pub fn set_colour(wanted: Colour) {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_coloured = match wanted {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => crate::screen::is_live() && !plain,
    };
    // It is said once, before anything is printed.
    let _ = COLOUR.set(is_coloured);
}

pub fn is_coloured() -> bool {
    COLOUR.get().copied().unwrap_or(false)
}

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// What must be seen at a glance in its colour: how bad a finding is, what fails, a loss that is not nothing. A word says the same.
fn painted(text: &str) -> String {
    const HEADS: [(&str, &str); 5] =
        [("SERIOUS", RED), ("WARNING", YELLOW), ("✗ FAILS", RED), ("FAIL ", RED), ("! ", YELLOW)];
    let line = |whole: &str| {
        let start = whole.len() - whole.trim_start().len();
        let head = HEADS.iter().find(|(word, _)| whole[start..].starts_with(word));
        let (head, rest) = match head {
            Some((word, colour)) => {
                let (before, rest) = whole.split_at(start + word.len());
                (format!("{}{colour}{}{PLAIN}", &before[..start], &before[start..]), rest)
            }
            None => (String::new(), whole),
        };
        head + &painted_loss(rest)
    };
    text.split_inclusive('\n').map(line).collect()
}

/// `loss 1.7 %` in red; `loss 0 %` as it is.
fn painted_loss(line: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(at) = rest.find("loss ") {
        let figure = &rest[at + 5..];
        let length = figure.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(figure.len());
        let is_loss = figure[..length].parse::<f64>().is_ok_and(|loss| loss > 0.0);
        let unit = if figure[length..].starts_with(" %") { 2 } else { 0 };
        let (before, after) = rest.split_at(at + 5 + length + unit);
        out += &match is_loss && unit > 0 {
            true => format!("{}{RED}{}{PLAIN}", &before[..at], &before[at..]),
            false => before.to_owned(),
        };
        rest = after;
    }
    out + rest
}

/// Prints what is for a program, byte for byte. A terminal shows it to a person: there what came from elsewhere commands nothing, and what is no text is
/// refused.
pub fn hand_out(bytes: &[u8]) -> Result<(), Failure> {
    let shown = match std::io::stdout().is_terminal() {
        false => None,
        true => Some(quell_wire::text::lines(std::str::from_utf8(bytes).map_err(|_| {
            Failure::usage("this is no text that a terminal shows; write it to a file")
        })?)),
    };
    let bytes = shown.as_ref().map_or(bytes, |shown| shown.as_bytes());
    let written = quell_sys::reader::print(std::io::stdout().lock(), bytes);
    written.map_err(|e| Failure::system(format!("writing to standard output: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_document_commands_no_terminal_and_stays_the_name() {
        let value = serde_json::json!({ "device": "eth0\u{202e}\u{9b}31m" });
        let text = document(&value);
        assert_eq!(text, "{\n  \"device\": \"eth0\\u202e\\u009b31m\"\n}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_paragraph_keeps_within_its_columns_and_behind_its_head() {
        for width in [WIDEST, 80, NARROWEST] {
            let text = lines("counters ", &"words that go on and on ".repeat(30), width);
            assert!(text.lines().count() > 3 && widest(&text) <= width, "{text}");
            assert!(text.lines().skip(1).all(|line| line.starts_with("         ")), "{text}");
        }
        assert_eq!(lines("", "one", 80), "one\n");
    }

    #[test]
    fn a_line_is_broken_on_a_narrow_terminal_and_whole_in_a_pipe() {
        let line = format!("  a {}end\n", "word of it ".repeat(10));
        assert_eq!(fitted(&line, WIDEST), line);
        let text = fitted(&format!("short\n\n{line}last"), 80);
        assert!(widest(&text) <= 80, "{text}");
        assert!(text.starts_with("short\n\n  a word") && text.ends_with("end\nlast"), "{text}");
        assert!(text.contains("\n    word of") || text.contains("\n    of it"), "{text}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&fitted(&line, 80)), words(&line), "nothing is lost");
        let text = fitted(&format!("  errors      {}", "word ".repeat(30)), 80);
        assert!(text.lines().skip(1).all(|line| line.starts_with("              word")), "{text}");
        let long = format!("{}\n", "x".repeat(120));
        assert_eq!(fitted(&long, 80), long, "a path is not broken");
    }

    #[test]
    fn words_are_broken_between_lines_and_what_may_be_copied_is_not() {
        let text = format!(
            "quell: {}; make one with `quell run home-link --repeat 3 --duration 10s` in {}\n  {}",
            "there is no run of this name in the folder".repeat(2),
            "/a/path/that/goes/on".repeat(4),
            "x ".repeat(50),
        );
        let told = complaint_in(&text, 60);
        assert!(told.contains("`quell run home-link --repeat 3 --duration 10s`"), "{told}");
        assert!(told.contains(&"/a/path/that/goes/on".repeat(4)), "{told}");
        assert!(told.contains(&format!("\n  {}", "x ".repeat(50))), "what is set in stays: {told}");
        let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(joined(&told), joined(&text), "nothing is lost");
        assert!(told.lines().next().is_some_and(|first| first.chars().count() <= 60), "{told}");
        assert_eq!(complaint_in("quell: short\n", 60), "quell: short\n");
        // An inch is no quotation.
        let inch = format!("a disk of 3\" {}", "words ".repeat(30));
        assert!(complaint_in(&inch, 60).lines().count() > 2);
    }

    #[test]
    fn what_is_bad_has_a_colour_and_what_is_well_has_none() {
        let text = "SERIOUS   a\n  seen    b\nping 9 → 2 ms, loss 1.7 % → 0; loss 0 %\n";
        let wanted = format!(
            "{RED}SERIOUS{PLAIN}   a\n  seen    b\nping 9 → 2 ms, {RED}loss 1.7 %{PLAIN} → 0; loss 0 %\n"
        );
        assert_eq!(painted(text), wanted);
    }
}
