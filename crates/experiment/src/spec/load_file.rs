//! Reading an experiment file, with errors that say file, line and the right word.

use super::Experiment;
use crate::nearest;
use std::path::{Path, PathBuf};

/// Largest file that is read. The built-in ones have some 4 kB.
const LARGEST: u64 = 1 << 20;

/// Why an experiment can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file can't be opened or read.
    #[error("experiment file {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        error: std::io::Error,
    },
    /// The file is far too large to be an experiment.
    #[error("experiment file {}: {size} bytes is too large; an experiment has at most {LARGEST}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// The text is not an experiment.
    #[error("{name}, {place}: {why}")]
    Text {
        /// The file or the built-in experiment.
        name: String,
        /// `line 3, column 9`, or what part of it.
        place: String,
        /// What is wrong, and the right words.
        why: String,
    },
}

/// Reads a file whole, unless it is far too large.
pub fn read_file(path: &Path) -> Result<String, ReadError> {
    let failed = |error| ReadError::File { path: path.into(), error };
    let file = std::fs::File::open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if meta.is_dir() {
        return Err(failed(std::io::Error::from(std::io::ErrorKind::IsADirectory)));
    }
    let mut text = String::new();
    // One byte more than allowed, so that a device or a growing file is noticed without being read whole.
    let read = std::io::Read::read_to_string(
        &mut std::io::Read::take(file, LARGEST + 1),
        &mut text,
    );
    if meta.len() > LARGEST || text.len() as u64 > LARGEST {
        return Err(ReadError::TooLarge { path: path.into(), size: meta.len().max(text.len() as u64) });
    }
    read.map_err(failed)?;
    Ok(text)
}

/// Parses a text; `name` says in errors where it is from. What fits together is checked by [`super::check::check`].
pub fn parse(name: &str, text: &str) -> Result<Experiment, ReadError> {
    parse_as(name, text)
}

/// Parses any of our files, as a topology by itself.
pub fn parse_as<T: serde::de::DeserializeOwned>(name: &str, text: &str) -> Result<T, ReadError> {
    toml::from_str(text).map_err(|error: toml::de::Error| ReadError::Text {
        name: name.into(),
        place: place(text, error.span()),
        why: explain(error.message()),
    })
}

fn place(text: &str, span: Option<std::ops::Range<usize>>) -> String {
    let Some(span) = span else { return "somewhere".into() };
    let before = &text[..span.start.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
    format!("line {line}, column {column}")
}

/// The parser's message, with the nearest right word where a word is not known. serde words such messages the same for all formats:
/// ``unknown field `x`, expected one of `a`, `b` ``.
fn explain(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let unknown = message.contains("unknown field") || message.contains("unknown variant");
    match quoted.split_first() {
        Some((wrong, right)) if unknown => match nearest::nearest(wrong, right) {
            Some(word) => format!("{message}; did you mean `{word}`?"),
            None => message.to_string(),
        },
        _ => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
name = "x"
duration = "1s"
[topology]
hosts = ["a", "b"]
[[topology.link]]
name = "l"
ends = ["a", "b"]
[[scenario]]
name = "s"
[[probe]]
kind = "ping"
name = "p"
from = "a"
to = "b"
"#;

    fn error(from: &str, to: &str) -> String {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD, "the test changes something");
        parse("x.toml", &text).expect_err("something is wrong in it").to_string()
    }

    #[test]
    fn a_small_experiment_can_be_read() {
        parse("x.toml", GOOD).expect("it is right");
    }

    #[test]
    fn a_misspelt_key_is_named_with_its_line_and_the_right_one() {
        let error = error("duration", "duraton");
        assert!(error.contains("line 3"), "{error}");
        assert!(error.contains("did you mean `duration`?"), "{error}");
    }

    #[test]
    fn a_misspelt_key_deep_inside_too() {
        let error = error("ends = [\"a\", \"b\"]", "ends = [\"a\", \"b\"]\nup = { dealy = \"3ms\" }");
        assert!(error.contains("did you mean `delay`?"), "{error}");
        assert!(error.contains("line 9"), "{error}");
    }

    #[test]
    fn a_misspelt_kind_is_told_from_the_right_ones() {
        let error = error("kind = \"ping\"", "kind = \"pong\"");
        assert!(error.contains("did you mean `ping`?"), "{error}");
    }

    #[test]
    fn a_wrong_unit_says_what_is_allowed() {
        let error = error("\"1s\"", "\"1Mbit\"");
        assert!(error.contains("1Mbit") && error.contains("20ms"), "{error}");
        assert!(error.contains("line 3"), "{error}");
    }

    #[test]
    fn a_missing_file_a_folder_and_an_endless_file_are_refused() {
        for path in ["/nonexistent.toml", "/", "/dev/zero"] {
            let error = read_file(Path::new(path)).expect_err(path).to_string();
            assert!(error.contains(path), "{error}");
        }
    }
}
