//! Text that came from elsewhere, made fit for a terminal and a log.
//!
//! ```text
//!   "ok\nCPU 0 %\u{1b}[2J"  ──►  "ok\x0aCPU 0 %\x1b[2J"
//! ```
//!
//! Nothing in it can move the cursor, ring, begin a line, or turn the direction of reading: such characters are shown by their number.

use std::fmt::Write;

/// What the peer said, as it may be shown: at most `limit` characters of it, then `…`. Control characters (C0, DEL, C1, so ESC and CSI
/// too), line and paragraph separators, marks of writing direction and invisible characters become `\x1b` or `\u{202e}`.
pub fn printable(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let mut room = limit;
    for char in text.chars() {
        let before = out.len();
        put(&mut out, char);
        let wide = out[before..].chars().count();
        if wide > room {
            out.truncate(before);
            out.push('…');
            return out;
        }
        room -= wide;
    }
    out
}

pub fn line(text: &str) -> String {
    printable(text, usize::MAX)
}

/// The same of a text that has several lines, which stay, and so do tabs.
pub fn lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\n' | '\t' => out.push(char),
            _ => put(&mut out, char),
        }
    }
    out
}

/// A JSON text that means the same and commands no terminal: beyond ASCII, and DEL, such characters stand as `\u202e`. Those of ASCII
/// are escaped in JSON anyway.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if char >= '\x7f' && acts(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // A `String` takes whatever is written.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(char);
        }
    }
    out
}

/// Adds a character, or its number where it would do something else than stand there.
pub fn put(out: &mut String, char: char) {
    match char {
        _ if !acts(char) => out.push(char),
        // A `String` takes whatever is written.
        '\0'..='\u{ff}' => drop(write!(out, "\\x{:02x}", char as u32)),
        _ => drop(write!(out, "\\u{{{:x}}}", char as u32)),
    }
}

/// Whether a terminal or an editor would do something else than show it.
fn acts(char: char) -> bool {
    char.is_control()
        || matches!(char,
            // Soft hyphen, Arabic letter mark, Mongolian vowel separator.
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            // Zero width, marks of direction, line and paragraph separators, embeddings, overrides.
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            // Word joiner, invisible operators, isolates, deprecated controls.
            | '\u{2060}'..='\u{206f}'
            // Byte order mark, interlinear annotation, tags.
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_says_can_not_move_the_cursor_or_begin_a_line() {
        assert_eq!(
            printable("a\u{1b}[2J\u{7}\r\n#9 forged", 99),
            "a\\x1b[2J\\x07\\x0d\\x0a#9 forged"
        );
        assert_eq!(printable("\u{9b}1m\u{7f}", 99), "\\x9b1m\\x7f");
    }

    #[test]
    fn what_a_peer_says_is_read_in_the_order_in_which_it_stands() {
        let said = "\u{202e}evil\u{2066}\u{200f}\u{2028}\u{feff}";
        assert_eq!(printable(said, 99), "\\u{202e}evil\\u{2066}\\u{200f}\\u{2028}\\u{feff}");
    }

    #[test]
    fn plain_words_of_any_language_stay() {
        for said in ["", "iperf 3.17", "Grüße, 日本 🦀 \\n"] {
            assert_eq!(printable(said, 99), said);
        }
    }

    #[test]
    fn json_means_the_same_when_it_is_made_fit_for_a_terminal() {
        let safe = json("\"a\u{202e}\u{9b}\u{7f}\u{e0041}ü🦀\"");
        assert_eq!(safe, "\"a\\u202e\\u009b\\u007f\\udb40\\udc41ü🦀\"");
    }

    #[test]
    fn lines_stay_where_a_text_has_several() {
        assert_eq!(lines("a\tb\r\n\u{2066}c"), "a\tb\\x0d\n\\u{2066}c");
        assert_eq!(line("a\nb"), "a\\x0ab");
    }

    #[test]
    fn what_a_peer_says_has_an_end_and_no_mark_is_cut() {
        assert_eq!(printable("abc", 3), "abc");
        assert_eq!(printable("abcd", 3), "abc…");
        assert_eq!(printable("ab\n", 4), "ab…");
        assert_eq!(printable(&"\u{1b}".repeat(100_000), 8), "\\x1b\\x1b…");
    }
}
