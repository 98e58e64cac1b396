//! Where in a file an error is.
//!
//! The parser tells the bytes of what it refuses (`toml::Spanned`), of an element whose `kind` decides about its fields only where it begins: then the wrong
//! word is looked for from there on, and counts where it stands once. What is found wrong after parsing is found by the name of its element.

use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A message in one line: what a file has between its quotes may be anything.
pub fn one_line(message: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    message.chars().map(escaped).collect()
}

/// Line and column, from 1, of a parser's message about these bytes; and the key whose value is wrong, where it stands in that line. `again` tells whether
/// another text gets the same message.
pub fn of_message<'a>(
    text: &'a str,
    span: Range<usize>,
    message: &str,
    again: impl Fn(&str) -> bool,
) -> (usize, usize, Option<&'a str>) {
    let start = (0..=span.start.min(text.len())).rev().find(|i| text.is_char_boundary(*i));
    let start = element(text, start.unwrap_or(0), again);
    let word = quoted(message).filter(|_| !message.starts_with("missing"));
    let at = word.and_then(|word| only(&text[start..], word)).map_or(start, |at| start + at);
    let line = text[..at].rfind('\n').map_or(0, |n| n + 1);
    let column = text[line..at].chars().count() + 1;
    // The innermost table of the line.
    let inner = text[line..at].rsplit(['{', ',']).next().unwrap_or_default();
    let key = inner.split_once('=').map(|(key, _)| key.trim());
    let is_key = |key: &&str| key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    (line_of(text, at), column, key.filter(is_key))
}

/// The element that a message about a list of tables speaks of: the parser names the first, whichever is wrong. What stands before the wrong one gets no such
/// message.
fn element(text: &str, start: usize, again: impl Fn(&str) -> bool) -> usize {
    let header = text[start..].lines().next().filter(|line| line.starts_with("[["));
    let Some(header) = header else { return start };
    let all = text[start..].match_indices(header).map(|(at, _)| start + at);
    all.take_while(|at| *at == start || !again(&text[..*at])).last().unwrap_or(start)
}

/// The line of something that was found wrong after parsing, by how the message names it: ``load `bulk` …``, `repeat = 0 …`; and by
/// the key that is wrong there, where that is known.
pub fn of_problem(text: &str, problem: &str, key: Option<&str>) -> Option<usize> {
    let root = Spanned::new(0..text.len(), DeValue::Table(DeTable::parse(text).ok()?.into_inner()));
    let of_key = |node: &Node<'_>, key: &str| -> Option<usize> {
        let mut keys = node.get_ref().as_table()?.keys();
        keys.find(|known| *known.get_ref() == key).map(|known| known.span().start)
    };
    let at = if let Some(rest) = problem.strip_prefix("expect \"") {
        let claims = elements(&root, "expect");
        let is = |claim: &&Node<'_>| {
            let claim = claim.get_ref().as_str();
            claim.is_some_and(|c| {
                rest.starts_with(c) || rest.starts_with(&*c.escape_debug().to_string())
            })
        };
        claims.into_iter().find(is).map(|claim| claim.span().start)?
    } else if let Some(rest) = problem.strip_prefix("timeline at ") {
        let at = rest.split([' ', ':']).next()?;
        named(&root, "timeline", "at", at).next()?.span().start
    } else {
        let twice = problem.strip_prefix("the ").filter(|_| problem.contains(" is there twice"));
        let words = twice.unwrap_or(problem).split_once(" `");
        let element = words.and_then(|(what, rest)| {
            let path = match what {
                "link" | "tunnel" => format!("topology.{what}"),
                _ => what.to_owned(),
            };
            let (name, said) = rest.split_once('`')?;
            let mut found = named(&root, &path, "name", name);
            found.nth(usize::from(twice.is_some())).map(|element| {
                let start = element.span().start;
                let end = text[start..].find("\n[[").map_or(text.len(), |at| start + at);
                let word = || places(&text[start..end], quoted(said)?).last().map(|at| start + at);
                key.and_then(|key| of_key(element, key)).or_else(word).unwrap_or(start)
            })
        });
        let value = || text.find(&format!("\"{}\"", quoted(problem)?));
        element.or_else(|| of_key(&root, problem.split_once(" = ")?.0)).or_else(value)?
    };
    Some(line_of(text, at))
}

/// A value of the file with its bytes; those of a table with a header are the header's.
type Node<'a> = Spanned<DeValue<'a>>;

/// The elements of a list, as `load` or `topology.link`.
fn elements<'a>(root: &'a Node<'a>, path: &str) -> Vec<&'a Node<'a>> {
    let list = path.split('.').try_fold(root, |node, key| node.get_ref().get(key));
    list.and_then(|list| list.get_ref().as_array()).into_iter().flat_map(|all| all.iter()).collect()
}

fn named<'a>(
    root: &'a Node<'a>,
    path: &str,
    key: &'a str,
    text: &'a str,
) -> impl Iterator<Item = &'a Node<'a>> {
    elements(root, path).into_iter().filter(move |node| {
        node.get_ref().get(key).and_then(|v| v.get_ref().as_str()) == Some(text)
    })
}

/// The first word between backticks or quotes.
fn quoted(message: &str) -> Option<&str> {
    let start = message.find(['`', '"'])?;
    let mark = message[start..].chars().next()?;
    message[start + 1..].split_once(mark).map(|(word, _)| word)
}

fn places<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let of_word = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let all = text.match_indices(word).map(|(at, _)| at);
    all.filter(move |at| {
        let before = text[..*at].chars().next_back();
        let after = &text[at + word.len()..];
        !word.is_empty() && !before.is_some_and(of_word) && !after.starts_with(of_word)
    })
}

/// The only place; none where there are several.
fn only(text: &str, word: &str) -> Option<usize> {
    let mut all = places(text, word);
    all.next().filter(|_| all.next().is_none())
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
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
        let found = |message| of_message(TEXT, load..load + 8, message, |_| true);
        assert_eq!(found("\"3ms\" is not a rate"), (13, 9, Some("rate")));
        assert_eq!(found("unknown field `rate`, expected `x`"), (13, 1, None));
        assert_eq!(found("missing field `kind`").0, 10);
        assert_eq!(found("`bulk` is odd").0, 10, "it is there twice");
        let second = |text: &str| text.matches("[[load]]").count() == 2;
        let missing = of_message(TEXT, load..load + 8, "missing field `kind`", second);
        assert_eq!(missing.0, 15, "the second is wrong");
    }

    #[test]
    fn what_is_wrong_after_parsing_has_a_line_too() {
        let line = |problem| of_problem(TEXT, problem, None);
        assert_eq!(line("load `bulk` names the host `c`, which is not there"), Some(12));
        assert_eq!(line("the load `bulk` is there twice; give each its own name"), Some(15));
        assert_eq!(line("link `dsl`, up: too slow"), Some(6));
        assert_eq!(line("repeat = 0 measures nothing"), Some(2));
        assert_eq!(line("expect \"s.p.loss < 1%\": no probe"), Some(4));
        assert_eq!(line("there are too many measurements"), None);
        assert_eq!(of_problem(TEXT, "load `bulk`: it goes to itself", Some("rate")), Some(13));
    }

    #[test]
    fn no_place_is_beyond_the_text() {
        assert_eq!(of_message("ä", 1..9, "`ä` is odd", |_| true).0, 1);
        assert_eq!(of_message("", 5..9, "missing field `name`", |_| true).0, 1);
    }
}
