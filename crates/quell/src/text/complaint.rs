//! What goes wrong, on a terminal: broken between words where it has no room, so that a word is not cut in two.
//!
//! What may be copied stays in one piece: what stands between backticks or double quotes, words without blanks (paths), and lines that are set in.

use super::{NARROWEST, WIDEST};
use std::io::IsTerminal;

/// The text as standard error has room for it; in a pipe as it is.
pub fn complaint(text: &str) -> String {
    let error = std::io::stderr();
    if !error.is_terminal() {
        return text.to_owned();
    }
    let wide = terminal_size::terminal_size_of(error).map(|(width, _)| usize::from(width.0));
    wrapped(text, wide.map_or(WIDEST, |wide| wide.clamp(NARROWEST, WIDEST)))
}

fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    for whole in text.split_inclusive('\n') {
        let line = whole.trim_end_matches('\n');
        if line.starts_with(' ') || line.chars().count() <= width {
            out += whole;
            continue;
        }
        let mut used = 0;
        for piece in pieces(line) {
            let takes = piece.chars().count();
            if used > 0 && used + 1 + takes > width {
                out += "\n  ";
                used = 2;
            } else if used > 0 {
                out.push(' ');
                used += 1;
            }
            out += piece;
            used += takes;
        }
        out += &whole[line.len()..];
    }
    out
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_broken_between_lines_and_what_may_be_copied_is_not() {
        let text = format!(
            "quell: {}; make one with `quell run home-link --repeat 3 --duration 10s` in {}\n  {}",
            "there is no run of this name in the folder".repeat(2),
            "/a/path/that/goes/on".repeat(4),
            "x ".repeat(50),
        );
        let told = wrapped(&text, 60);
        assert!(told.contains("`quell run home-link --repeat 3 --duration 10s`"), "{told}");
        assert!(told.contains(&"/a/path/that/goes/on".repeat(4)), "{told}");
        assert!(told.contains(&format!("\n  {}", "x ".repeat(50))), "what is set in stays: {told}");
        let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(joined(&told), joined(&text), "nothing is lost");
        assert!(told.lines().next().is_some_and(|first| first.chars().count() <= 60), "{told}");
        assert_eq!(wrapped("quell: short\n", 60), "quell: short\n");
        // An inch is no quotation.
        let inch = format!("a disk of 3\" {}", "words ".repeat(30));
        assert!(wrapped(&inch, 60).lines().count() > 2);
    }
}
