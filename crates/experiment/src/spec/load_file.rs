//! Reading an experiment file, with errors that say file, line and the right word.

use super::{Experiment, derived, error_line};
use crate::nearest;
use std::path::{Path, PathBuf};

const LARGEST: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("experiment file {}: {}", path.display(), words(error))]
    File { path: PathBuf, error: std::io::Error },
    #[error("experiment file {}: too large for an experiment; it may have {LARGEST} bytes", path.display())]
    TooLarge { path: PathBuf },
    #[error("experiment file {}, line {line}: this is not text; an experiment is a TOML file in UTF-8", path.display())]
    NotText {
        path: PathBuf,
        /// Where it stops to be text, from 1.
        line: usize,
    },
    #[error("{name}{place}: {why}")]
    Text {
        name: String,
        /// `, line 3, column 9`; empty where that is not known.
        place: String,
        /// What is wrong, and the right words.
        why: String,
    },
}

pub fn read_file(path: &Path) -> Result<String, ReadError> {
    let failed = |error| ReadError::File { path: path.into(), error };
    let file = quell_sys::input::Input::open(path).map_err(failed)?;
    let length = file.length();
    // Of a device or a growing file one byte more than allowed is read, never all.
    let mut bytes = Vec::new();
    if length <= LARGEST {
        std::io::Read::read_to_end(&mut std::io::Read::take(file, LARGEST + 1), &mut bytes)
            .map_err(failed)?;
    }
    if length > LARGEST || bytes.len() as u64 > LARGEST {
        return Err(ReadError::TooLarge { path: path.into() });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|b| **b == b'\n').count() + 1;
        ReadError::NotText { path: path.into(), line }
    })
}

/// What the system answered, with what to do about it.
fn words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            "there is no such file; `quell lab list` names the built-in experiments".into()
        }
        std::io::ErrorKind::IsADirectory => "this is a folder; name a file in it".into(),
        std::io::ErrorKind::PermissionDenied => "you may not read it; see `ls -l`".into(),
        _ => error.to_string(),
    }
}

/// Parses a text; `name` says in errors where it is from. What fits together is checked by [`super::check::check`].
pub fn parse(name: &str, text: &str) -> Result<Experiment, ReadError> {
    let text = derived::resolve(text).map_err(|derived::NoLine { value, why }| {
        let line = text.find(&value).map(|at| text[..at].matches('\n').count() + 1);
        ReadError::Text {
            name: name.into(),
            place: line.map(|line| format!(", line {line}")).unwrap_or_default(),
            why: error_line::one_line(&format!("\"{value}\": {why}")),
        }
    })?;
    let mut experiment: Experiment = parse_as(name, &text)?;
    experiment.fit_to_machines();
    Ok(experiment)
}

pub fn parse_as<T: serde::de::DeserializeOwned>(name: &str, text: &str) -> Result<T, ReadError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let message = error.message();
        let again = |text: &str| toml::from_str::<T>(text).is_err_and(|e| e.message() == message);
        let found = error.span().map(|span| error_line::of_message(text, span, message, again));
        let at = found.map(|(line, column, _)| format!(", line {line}, column {column}"));
        let twice = error.span().filter(|_| message == "duplicate key").and_then(|s| text.get(s));
        let why = match (twice, found.and_then(|(_, _, key)| key)) {
            (Some(key), _) => format!("`{key}` is there twice; keep one"),
            (None, Some(key)) => format!("`{key}`: {}", explain(message)),
            (None, None) => explain(message),
        };
        let why = error_line::one_line(&why);
        ReadError::Text { name: name.into(), place: at.unwrap_or_default(), why }
    })
}

/// The parser's message in a person's words, with the nearest right one where a word is not known. serde words such messages the
/// same for all formats: ``unknown field `x`, expected one of `a`, `b` ``.
fn explain(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let unknown = message.contains("unknown field") || message.contains("unknown variant");
    match quoted.split_first() {
        Some((wrong, right)) if unknown => match nearest::nearest(wrong, right) {
            Some(word) => format!("{message}; did you mean `{word}`?"),
            None => message.to_string(),
        },
        _ => person(message),
    }
}

/// The words of the parser for a person who doesn't know its types.
fn person(message: &str) -> String {
    if message.contains("recursion") {
        return "it is nested too deeply to be an experiment".into();
    }
    let Some((found, wanted)) = message.rsplit_once(", expected ") else {
        return message.to_string();
    };
    let wanted = match wanted {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "i32" | "i64" => "a whole number",
        "a sequence" => "a list, as in [\"a\", \"b\"]",
        "an array of length 2" => "a list of two, as in [\"a\", \"b\"]",
        "a boolean" => "true or false",
        "a map" => "a table, as in { key = \"value\" }",
        "a string" => "a text, as in \"text\"",
        other if other.starts_with("struct ") || other.contains("enum ") => {
            "a table, as in { key = \"value\" }"
        }
        other => other,
    };
    format!("{found}, expected {wanted}")
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
        let error =
            error("ends = [\"a\", \"b\"]", "ends = [\"a\", \"b\"]\nup = { dealy = \"3ms\" }");
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
        assert!(error.contains("line 3") && error.contains("`duration`"), "{error}");
    }

    #[test]
    fn numbers_and_lists_are_asked_for_in_plain_words() {
        let number = error("duration = \"1s\"", "duration = \"1s\"\nrepeat = -1");
        assert!(number.contains("`repeat`") && number.contains("whole number"), "{number}");
        let list = error("hosts = [\"a\", \"b\"]", "hosts = 5");
        assert!(list.contains("`hosts`") && list.contains("a list"), "{list}");
    }

    #[test]
    fn a_missing_file_a_folder_and_an_endless_file_are_refused() {
        for path in ["/nonexistent.toml", "/", "/dev/zero"] {
            let error = read_file(Path::new(path)).expect_err(path).to_string();
            assert!(error.contains(path), "{error}");
        }
    }
}
