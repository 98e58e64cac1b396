//! Where in a file an error is: the line and key of a wrong word.
//!
//! The parser knows places only roughly: what stands in an element whose `kind` decides about its fields is blamed on the element's
//! first line. And what is found wrong after parsing has no place at all. So the place is looked for in the text, by the words of
//! the message. A place that is not found is left out; the message then stands by itself.

use std::ops::Range;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The key to whose value it belongs; none where the place is a key itself, or in the middle of a list.
    pub key: Option<String>,
}

/// The place of a parser's message about `span`.
pub fn of_message(text: &str, span: Range<usize>, message: &str) -> Place {
    let start = floor(text, span.start);
    let wrong = if message.starts_with("missing") { None } else { quoted(message).next() };
    let at = wrong.and_then(|word| {
        let is_key = message.contains("unknown field");
        find(text, region(text, start, span.end), word, is_key)
    });
    let mut place = place(text, at.unwrap_or(start));
    if message.contains("unknown field") || message.starts_with("missing") {
        place.key = None;
    }
    place
}

/// The line of something that was found wrong after parsing, by how the message names it: ``load `bulk` …``, `repeat = 0 …`.
pub fn of_problem(text: &str, problem: &str) -> Option<usize> {
    let at = subject(text, problem)?;
    Some(place(text, at).line)
}

fn subject(text: &str, problem: &str) -> Option<usize> {
    if let Some(rest) = problem.strip_prefix("expect \"") {
        // The claim may hold quotes of its own only where TOML has them escaped; then its line is not found.
        let claim = rest.split_once('"')?.0;
        return text.find(&format!("\"{claim}\"")).or_else(|| text.find(&format!("'{claim}'")));
    }
    if let Some(rest) = problem.strip_prefix("timeline at ") {
        let at = rest.split([' ', ':']).next()?;
        return elements(text, "timeline").find(|r| value(text, r, "at") == Some(at)).map(|r| r.start);
    }
    let twice = problem.strip_prefix("the ").filter(|_| problem.contains(" is there twice"));
    let start = twice.unwrap_or(problem);
    if let Some((what, rest)) = start.split_once(" `")
        && let Some((name, rest)) = rest.split_once('`')
        && ["scenario", "probe", "load", "queue", "link", "tunnel"].contains(&what)
    {
        let mut named = elements(text, what).filter(|r| value(text, r, "name") == Some(name));
        let element = if twice.is_some() { named.nth(1)? } else { named.next()? };
        let wrong = quoted(rest).next();
        let inside = wrong.and_then(|word| find(text, element.clone(), word, false));
        return Some(inside.unwrap_or(element.start));
    }
    let key = problem.split_once(" = ")?.0;
    let head = 0..header(text, 0).unwrap_or(text.len());
    find(text, head, key, true)
}

/// The words between backticks or quotes, in order.
fn quoted(message: &str) -> impl Iterator<Item = &str> {
    let mut rest = message;
    std::iter::from_fn(move || {
        let start = rest.find(['`', '"'])?;
        let mark = if rest[start..].starts_with('`') { '`' } else { '"' };
        let inside = &rest[start + 1..];
        let end = inside.find(mark)?;
        rest = &inside[end + 1..];
        Some(&inside[..end])
    })
}

/// What a span speaks of: where it is an element's header, the whole element.
fn region(text: &str, start: usize, end: usize) -> Range<usize> {
    let line = text[..start].rfind('\n').map_or(0, |n| n + 1);
    if text[line..].trim_start().starts_with('[') {
        let next = text[start..].find('\n').map_or(text.len(), |n| start + n + 1);
        start..header(text, next).unwrap_or(text.len())
    } else {
        start..floor(text, end).max(start)
    }
}

/// The elements of a list of tables: `[[load]]`, or `[[topology.link]]`.
fn elements<'a>(text: &'a str, what: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    lines(text, 0)
        .filter(move |(_, line)| {
            let inside = line.trim_start().strip_prefix("[[").and_then(|l| l.split_once("]]"));
            inside.is_some_and(|(path, _)| path.trim().rsplit('.').next() == Some(what))
        })
        .map(move |(at, line)| {
            let after = (at + line.len()).min(text.len());
            at..header(text, after).unwrap_or(text.len())
        })
}

/// The text that a key has in a region.
fn value<'a>(text: &'a str, region: &Range<usize>, key: &str) -> Option<&'a str> {
    let at = find(text, region.clone(), key, true)?;
    let line = text[at..].lines().next()?;
    let value = line.split_once('=')?.1.trim_start();
    let mark = value.chars().next().filter(|c| ['"', '\''].contains(c))?;
    value[1..].split(mark).next()
}

/// The next line from `from` on that begins a table.
fn header(text: &str, from: usize) -> Option<usize> {
    lines(text, from).find(|(_, line)| line.trim_start().starts_with('[')).map(|(at, _)| at)
}

/// The lines from `from` on with their places.
fn lines(text: &str, from: usize) -> impl Iterator<Item = (usize, &str)> {
    text[from..].split_inclusive('\n').scan(from, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    })
}

/// The first place of a word by itself in a region, comments left out; as a key, or else as a value.
fn find(text: &str, region: Range<usize>, word: &str, is_key: bool) -> Option<usize> {
    if word.is_empty() {
        return None;
    }
    let of_word = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    lines(&text[..region.end], region.start).find_map(|(at, line)| {
        let code = without_comment(line);
        code.match_indices(word).map(|(i, _)| i).find_map(|i| {
            let before = code[..i].chars().next_back();
            let after = &code[i + word.len()..];
            let alone = !before.is_some_and(of_word) && !after.starts_with(of_word);
            let names = after.trim_start_matches(['"', '\'']).trim_start().starts_with('=');
            (alone && names == is_key).then_some(at + i)
        })
    })
}

fn without_comment(line: &str) -> &str {
    let mut mark = None;
    for (i, c) in line.char_indices() {
        match (mark, c) {
            (None, '#') => return &line[..i],
            (None, '"' | '\'') => mark = Some(c),
            (Some(m), c) if m == c => mark = None,
            _ => {}
        }
    }
    line
}

fn place(text: &str, at: usize) -> Place {
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |n| n + 1);
    let key = before[start..].rsplit_once('=').and_then(|(left, _)| {
        let word = left.trim_end().rsplit(|c: char| c.is_whitespace() || "{,[".contains(c)).next()?;
        let word = word.trim_matches(['"', '\'']);
        (!word.is_empty()).then(|| word.to_string())
    });
    Place {
        line: before.matches('\n').count() + 1,
        column: before[start..].chars().count() + 1,
        key,
    }
}

/// The nearest start of a character at or before a byte.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"name = "x" # the rate is below
repeat = 0
expect = [
  "s.p.loss < 1%",
]
[[topology.link]]
name = "dsl"
up = { rate = "0bit" }

[[load]]
name = "bulk"
from = "c"
rate = "3ms"

[[load]]
name = "bulk"
"#;

    #[test]
    fn a_wrong_word_is_found_in_its_element_with_its_key() {
        let load = TEXT.find("[[load]]").expect("it is there");
        let found = of_message(TEXT, load..load + 8, "\"3ms\" is not a rate");
        assert_eq!(found, Place { line: 13, column: 9, key: Some("rate".into()) });
        let found = of_message(TEXT, load..load + 8, "unknown field `rate`, expected `x`");
        assert_eq!(found, Place { line: 13, column: 1, key: None });
        let found = of_message(TEXT, load..load + 8, "missing field `kind`");
        assert_eq!(found.line, 10);
    }

    #[test]
    fn what_is_wrong_after_parsing_has_a_line_too() {
        let line = |problem| of_problem(TEXT, problem);
        assert_eq!(line("load `bulk` names the host `c`, which is not there"), Some(12));
        assert_eq!(line("the load `bulk` is there twice; give each its own name"), Some(15));
        assert_eq!(line("link `dsl`, up: too slow"), Some(6));
        assert_eq!(line("repeat = 0 measures nothing"), Some(2));
        assert_eq!(line("expect \"s.p.loss < 1%\": no probe"), Some(4));
        assert_eq!(line("`a` has no path to `b`"), None);
    }

    #[test]
    fn no_place_is_beyond_the_text() {
        assert_eq!(of_message("ä", 1..9, "`ä` is odd").line, 1);
        assert_eq!(of_message("", 5..9, "missing field `name`").line, 1);
    }
}
