//! Where the lines of a test go: to standard output or to a file, each with what shall stand before it.

use crate::failure::Failure;
use crate::text::{WIDEST, columns};
use quell_sys::wall::local_time;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// How a moment is written where nobody says, as iperf3 has it.
pub const STAMP: &str = "%c ";

/// Columns that are left to a line whatever stands before it.
const LEAST: usize = 40;

pub struct Lines {
    file: Option<File>,
    title: String,
    stamp: Option<String>,
}

impl Lines {
    /// To a file, at its end, or to standard output.
    pub fn new(
        file: Option<&Path>,
        title: Option<&str>,
        stamp: Option<&str>,
    ) -> Result<Self, Failure> {
        let open = |path: &Path| {
            quell_store::append_output(path)
                .map_err(|e| Failure::system(format!("writing {}: {e}", path.display())))
        };
        Ok(Self {
            file: file.map(open).transpose()?,
            title: title.map(|title| format!("{title}:  ")).unwrap_or_default(),
            stamp: stamp.map(str::to_owned),
        })
    }

    /// Columns that a line may take, behind what stands before it on a terminal.
    pub fn width(&self) -> usize {
        match columns() {
            columns if self.file.is_none() && columns < WIDEST => {
                columns.saturating_sub(self.before().chars().count()).max(LEAST)
            }
            _ => WIDEST,
        }
    }

    fn before(&self) -> String {
        match &self.stamp {
            Some(format) => format!("{}{}", local_time(format), self.title),
            None => self.title.clone(),
        }
    }

    pub fn put(&mut self, text: &str) -> Result<(), Failure> {
        let before = self.before();
        let text = match before.is_empty() {
            true => text.to_owned(),
            false => led(&before, text),
        };
        match &mut self.file {
            Some(file) => file
                .write_all(text.as_bytes())
                .map_err(|e| Failure::system(format!("writing the log file: {e}"))),
            None => quell_sys::reader::print(std::io::stdout().lock(), text.as_bytes())
                .map_err(|e| Failure::system(format!("could not write to stdout: {e}"))),
        }
    }
}

/// Each line with this before it; empty ones stay empty.
fn led(before: &str, text: &str) -> String {
    let line = |line: &str| if line == "\n" { line.to_owned() } else { format!("{before}{line}") };
    text.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_a_line_stands_before_each() {
        assert_eq!(led("vpn:  ", "one\n\ntwo\n"), "vpn:  one\n\nvpn:  two\n");
    }
}
