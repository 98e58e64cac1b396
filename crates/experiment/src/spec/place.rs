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

/// A message in one line: what a file has between its quotes may be anything.
pub fn one_line(message: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    message.chars().map(escaped).collect()
}

/// The place of a parser's message about `span`. `again` tells whether another text gets the same message.
pub fn of_message(
    text: &str,
    span: Range<usize>,
    message: &str,
    again: &dyn Fn(&str) -> bool,
) -> Place {
    let start = floor(text, span.start);
    let region = match element(text, start, again) {
        Some(element) => element,
        None => table(text, start).unwrap_or(start..floor(text, span.end).max(start)),
    };
    let wrong = if message.starts_with("missing") { None } else { quoted(message).next() };
    let is_key = message.contains("unknown field");
    let at = wrong.and_then(|word| find(text, region.clone(), word, is_key));
    let mut place = place(text, at.unwrap_or(region.start));
    if is_key || message.starts_with("missing") {
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
        return elements(text, "timeline")
            .find(|r| value(text, r, "at") == Some(at))
            .map(|r| r.start);
    }
    let twice = problem.strip_prefix("the ").filter(|_| problem.contains(" is there twice"));
    let start = twice.unwrap_or(problem);
    if let Some((what, rest)) = start.split_once(" `")
        && let Some((name, rest)) = rest.split_once('`')
        && let Some((_, path)) = LISTS.iter().find(|(list, _)| *list == what)
    {
        let mut named = elements(text, path).filter(|r| value(text, r, "name") == Some(name));
        let element = if twice.is_some() { named.nth(1) } else { named.next() };
        if let Some(element) = element {
            let inside = quoted(rest).find_map(|word| find_any(text, element.clone(), word));
            return Some(inside.unwrap_or(element.start));
        }
    }
    let head = 0..headers(text, 0).next().map_or(text.len(), |(at, _)| at);
    let key = problem.split_once(" = ").and_then(|(key, _)| find(text, head, key, true));
    key.or_else(|| find_any(text, 0..text.len(), quoted(problem).next()?))
}

/// What messages call the elements of lists, and where those stand.
const LISTS: [(&str, &str); 6] = [
    ("scenario", "scenario"),
    ("probe", "probe"),
    ("load", "load"),
    ("queue", "queue"),
    ("link", "topology.link"),
    ("tunnel", "topology.tunnel"),
];

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

/// The element that a message about a list of tables speaks of: the parser names the list's first one, whichever is wrong. It is
/// the last of the shortest list that gets the same message.
fn element(text: &str, start: usize, again: &dyn Fn(&str) -> bool) -> Option<Range<usize>> {
    let line = text[start..].lines().next()?.trim();
    let path = line.strip_prefix("[[")?.split_once("]]")?.0.trim();
    let all: Vec<Range<usize>> = elements(text, path).collect();
    let shortened = |count: usize| {
        let mut rest = text.to_string();
        all[count..].iter().rev().for_each(|r| rest.replace_range(r.clone(), ""));
        rest
    };
    // With fewer elements there can't be more errors, so halves tell.
    let (mut right, mut wrong) = (0, all.len());
    while wrong - right > 1 {
        let middle = (right + wrong) / 2;
        if again(&shortened(middle)) { wrong = middle } else { right = middle }
    }
    all.get(wrong.checked_sub(1)?).cloned()
}

/// The table whose header begins at a byte, with those inside it: the parser names the header, wherever in there the mistake is.
fn table(text: &str, start: usize) -> Option<Range<usize>> {
    let line = text[start..].split_inclusive('\n').next()?;
    let path = line.trim().strip_prefix('[')?.split_once(']')?.0.trim();
    let end = headers(text, start + line.len()).find(|(_, line)| !is_inside(line, path));
    Some(start..end.map_or(text.len(), |(at, _)| at))
}

/// Whether a table's header, with its brackets, is of one inside the table of this path.
fn is_inside(header: &str, path: &str) -> bool {
    let header = header.trim_start().trim_start_matches('[').trim_start();
    header.strip_prefix(path).is_some_and(|rest| rest.trim_start().starts_with('.'))
}

/// The elements of a list of tables, as `load` or `topology.link`, with their own tables.
fn elements<'a>(text: &'a str, path: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    lines(text, 0)
        .filter(move |(_, line)| {
            let named = line.trim_start().strip_prefix("[[").and_then(|l| l.split_once("]]"));
            named.is_some_and(|(name, _)| name.trim() == path)
        })
        .map(move |(at, line)| {
            let after = (at + line.len()).min(text.len());
            let end =
                headers(text, after).find(|(_, line)| !is_inside(line, path)).map(|(at, _)| at);
            at..end.unwrap_or(text.len())
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

/// The lines from `from` on that begin a table.
fn headers(text: &str, from: usize) -> impl Iterator<Item = (usize, &str)> {
    lines(text, from).filter(|(_, line)| line.trim_start().starts_with('['))
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

fn find_any(text: &str, region: Range<usize>, word: &str) -> Option<usize> {
    find(text, region.clone(), word, false).or_else(|| find(text, region, word, true))
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
        let word =
            left.trim_end().rsplit(|c: char| c.is_whitespace() || "{,[".contains(c)).next()?;
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

    fn found(span: Range<usize>, message: &str, again: &dyn Fn(&str) -> bool) -> Place {
        of_message(TEXT, span, message, again)
    }

    #[test]
    fn a_wrong_word_is_found_in_its_element_with_its_key() {
        let load = TEXT.find("[[load]]").expect("it is there");
        let first = |_: &str| true;
        let rate = found(load..load + 8, "\"3ms\" is not a rate", &first);
        assert_eq!(rate, Place { line: 13, column: 9, key: Some("rate".into()) });
        let field = found(load..load + 8, "unknown field `rate`, expected `x`", &first);
        assert_eq!(field, Place { line: 13, column: 1, key: None });
        let missing = "missing field `kind`";
        assert_eq!(found(load..load + 8, missing, &first).line, 10);
        let second = |text: &str| text.matches("[[load]]").count() == 2;
        assert_eq!(found(load..load + 8, missing, &second).line, 15, "the second is wrong");
    }

    #[test]
    fn a_wrong_word_in_nested_tables_is_found_in_its_own_line() {
        let text = "[[queue]]\nname = \"q\"\n\n[queue.queue]\nkind = \"htb\"\n\n[[queue.queue.class]]\n\
                    id = \"1:10\"\n\n[queue.queue.class.queue]\nkind = \"fq_codel\"\ntargt = \"5mz\"\n\n\
                    [[load]]\ntargt = 1\n";
        let header = text.find("[queue.queue]").expect("it is there");
        let at = |message: &str| of_message(text, header..header + 13, message, &|_| false);
        let key =
            at("htb class 1:10: queue: fq_codel: unknown field `targt`, expected one of `limit`");
        assert_eq!((key.line, key.column), (12, 1));
        let value = at("htb class 1:10: queue: fq_codel: \"5mz\" is not a time span");
        assert_eq!((value.line, value.key.as_deref()), (12, Some("targt")));
    }

    #[test]
    fn what_is_wrong_after_parsing_has_a_line_too() {
        let line = |problem| of_problem(TEXT, problem);
        assert_eq!(line("load `bulk` names the host `c`, which is not there"), Some(12));
        assert_eq!(line("the load `bulk` is there twice; give each its own name"), Some(15));
        assert_eq!(line("link `dsl`, up: too slow"), Some(6));
        assert_eq!(line("repeat = 0 measures nothing"), Some(2));
        assert_eq!(line("expect \"s.p.loss < 1%\": no probe"), Some(4));
        assert_eq!(line("`c` has no path to `b`"), Some(12));
        assert_eq!(line("there are too many cells"), None);
    }

    #[test]
    fn no_place_is_beyond_the_text() {
        assert_eq!(of_message("ä", 1..9, "`ä` is odd", &|_| true).line, 1);
        assert_eq!(of_message("", 5..9, "missing field `name`", &|_| true).line, 1);
    }
}
