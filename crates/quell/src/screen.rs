//! Lines that are drawn again and again in the same place of a terminal.
//!
//! Nothing of the terminal is changed (no raw mode, no other screen, no hidden cursor), so nothing has to be restored, however the
//! program ends. Each picture is one write: move up, then each line over the old one, then clear what is left.

use std::io::IsTerminal;

#[derive(Debug, Default)]
pub struct Screen {
    /// Widths of the lines, in characters.
    drawn: Vec<usize>,
}

impl Screen {
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes that put `lines` in the place of those before, on a terminal that is `width` wide now.
    pub fn frame(&mut self, lines: &[String], width: usize) -> Vec<u8> {
        let mut out = self.back(width);
        for line in lines {
            out.extend_from_slice(line.as_bytes());
            // Clear to the end of the line, then go on: old text never shows through and nothing flickers.
            out.extend_from_slice(b"\x1b[K\r\n");
        }
        out.extend_from_slice(b"\x1b[J");
        self.drawn = lines.iter().map(|l| columns(l)).collect();
        out
    }

    pub fn clear(&mut self, width: usize) -> Vec<u8> {
        let mut out = self.back(width);
        out.extend_from_slice(b"\x1b[J");
        self.drawn.clear();
        out
    }

    /// Goes to where the first line begins. A terminal that became narrower has broken lines that were longer.
    fn back(&self, width: usize) -> Vec<u8> {
        let rows: usize = self.drawn.iter().map(|w| w.div_ceil(width.max(1)).max(1)).sum();
        // A key that was pressed may have moved the cursor along its line.
        if rows == 0 { b"\r".to_vec() } else { format!("\r\x1b[{rows}A").into_bytes() }
    }

    /// Writes at once; a terminal that is gone is no error here, the signal for it ends the program.
    pub fn show(bytes: &[u8]) {
        let _ = quell_sys::reader::print(std::io::stdout().lock(), bytes);
    }
}

/// Columns of a line; colours (`ESC [ … m`) take none.
fn columns(line: &str) -> usize {
    let mut parts = line.split("\x1b[");
    let first = parts.next().map_or(0, |part| part.chars().count());
    let behind = |part: &str| part.split_once('m').map_or(part, |(_, rest)| rest).chars().count();
    parts.map(behind).sum::<usize>() + first
}

/// Whether standard output is a terminal that can be drawn on.
pub fn is_live() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|t| t.is_empty() || t == "dumb");
    std::io::stdout().is_terminal() && !dumb
}

pub fn size() -> (usize, usize) {
    terminal_size::terminal_size().map_or((80, 24), |(w, h)| (w.0.into(), h.0.into()))
}

/// Whether the locale says UTF-8: the first that is set of `LC_ALL`, `LC_CTYPE` and `LANG` counts (locale(7)).
pub fn unicode() -> bool {
    let set = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
    locale.is_some_and(|l| l.to_uppercase().replace('-', "").contains("UTF8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(screen: &mut Screen, lines: &[&str], width: usize) -> String {
        let lines: Vec<String> = lines.iter().map(|l| (*l).to_owned()).collect();
        String::from_utf8(screen.frame(&lines, width)).expect("text")
    }

    #[test]
    fn a_picture_goes_over_the_one_before() {
        let mut screen = Screen::new();
        assert_eq!(frame(&mut screen, &["one", "two"], 80), "\rone\x1b[K\r\ntwo\x1b[K\r\n\x1b[J");
        assert_eq!(frame(&mut screen, &["three"], 80), "\r\x1b[2Athree\x1b[K\r\n\x1b[J");
        assert_eq!(screen.clear(80), b"\r\x1b[1A\x1b[J");
        assert_eq!(screen.clear(80), b"\r\x1b[J");
    }

    #[test]
    fn colours_take_no_columns() {
        let mut screen = Screen::new();
        frame(&mut screen, &[&format!("\x1b[1m{}\x1b[0m", "x".repeat(80))], 80);
        assert!(frame(&mut screen, &["z"], 80).starts_with("\r\x1b[1A"), "one row");
    }

    #[test]
    fn lines_that_a_narrower_terminal_broke_are_counted_as_they_stand() {
        let mut screen = Screen::new();
        frame(&mut screen, &[&"x".repeat(99), "", "y"], 100);
        assert!(frame(&mut screen, &["z"], 40).starts_with("\r\x1b[5A"), "3 rows, 1 and 1");
    }
}
