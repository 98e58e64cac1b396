//! Where in a file an error is: the line and key of a wrong word.
//!
//! ```text
//!   text ──parser──► tree of keys and values, each with its bytes ──look()──► the wrong one ──► line, column
//! ```
//!
//! serde knows places only roughly: what stands in an element whose `kind` decides about its fields is blamed on the element's
//! first line. And what is found wrong after parsing has no place at all. So the words of the message are looked for, among the keys
//! and values that the parser found. A place that is not found is left out; the message then stands by itself.

use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_edit::DocumentMut;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The key to whose value it belongs; none where the place is a key itself.
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
    let start = span.start.min(text.len());
    // What is no TOML has no tree; of that the parser knows the place exactly.
    let Some(root) = tree(text) else { return place(text, start, key_before(text, start)) };
    let as_key = message.contains("unknown field");
    let word = quoted(message).next().filter(|_| !message.starts_with("missing"));
    if as_key && text.get(span.clone()).is_some_and(|named| Some(named) == word) {
        return place(text, start, None);
    }
    let (path, node) = at(&root, &(start..span.end)).unwrap_or((Vec::new(), &root));
    let element = wrong_element(text, &path, node, again);
    let region = element.unwrap_or(node);
    let begin = region.span().start;
    let key = path.iter().rev().find_map(Step::key).filter(|_| element.is_none());
    if message.starts_with("missing") {
        return place(text, begin, None);
    }
    // What stands in several places is wrong where something else would change the message: at the last such place, since nothing may be
    // wrong there too, but what stands behind the error the parser does not see. What a `kind` decides, that is right.
    let is_wrong = |found: &&Found<'_>| {
        let mut other = text.to_owned();
        other.replace_range(found.value.clone(), "\"\"");
        (message.contains("variant") || found.key != Some("kind")) && !again(&other)
    };
    let named = word.map_or(Vec::new(), |word| look(text, region, Some(word), as_key, key));
    let every = if named.is_empty() { look(text, region, None, false, key) } else { Vec::new() };
    let found = match &named[..] {
        [first, ..] if as_key => Some(first),
        [one] => Some(one),
        [] => every.iter().rev().take(MOST_TRIED).find(is_wrong),
        several => several.iter().rev().take(MOST_TRIED).find(is_wrong).or(several.first()),
    };
    match found {
        Some(found) => place(text, found.at, found.key),
        None => place(text, begin, key.filter(|_| !as_key)),
    }
}

/// Most values that are tried to find the wrong one: each time the whole file is read again.
const MOST_TRIED: usize = 64;

/// The line of something that was found wrong after parsing, by how the message names it: ``load `bulk` …``, `repeat = 0 …`; and by
/// the key that is wrong there, where that is known.
pub fn of_problem(text: &str, problem: &str, key: Option<&str>) -> Option<usize> {
    Some(place(text, subject(text, &tree(text)?, problem, key)?, None).line)
}

fn subject(text: &str, root: &Node<'_>, problem: &str, key: Option<&str>) -> Option<usize> {
    if let Some(rest) = problem.strip_prefix("expect \"") {
        let mut claims = elements(root, "expect");
        let one = claims.find(|claim| claim.get_ref().as_str().is_some_and(|c| opens(rest, c)));
        return one.map(|claim| claim.span().start);
    }
    if let Some(rest) = problem.strip_prefix("timeline at ") {
        let at = rest.split([' ', ':']).next()?;
        return named(root, "timeline", "at", at).next().map(|change| change.span().start);
    }
    let twice = problem.strip_prefix("the ").filter(|_| problem.contains(" is there twice"));
    let start = twice.unwrap_or(problem);
    if let Some((what, rest)) = start.split_once(" `")
        && let Some((name, rest)) = rest.split_once('`')
        && let Some((_, path)) = LISTS.iter().find(|(list, _)| *list == what)
        && let Some(element) = named(root, path, "name", name).nth(usize::from(twice.is_some()))
    {
        let inside = match key {
            Some(key) => place_of(element, key),
            None => quoted(rest).find_map(|word| look_any(text, element, word)),
        };
        return Some(inside.unwrap_or(element.span().start));
    }
    let key = problem.split_once(" = ").and_then(|(key, _)| place_of(root, key));
    key.or_else(|| look_any(text, root, quoted(problem).next()?))
}

/// Whether a message begins with this claim in quotes, of which the first is gone; a line break in it is told as one.
fn opens(message: &str, claim: &str) -> bool {
    let quoted = |claim: &str| message.strip_prefix(claim).is_some_and(|r| r.starts_with('"'));
    quoted(claim) || quoted(&claim.escape_debug().to_string())
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

/// A value of the file with its bytes; those of a table with a header are the header's.
type Node<'a> = Spanned<DeValue<'a>>;

/// A step from a value to one inside it.
#[derive(Clone, Copy)]
enum Step<'a> {
    /// A key, and where it stands.
    Key(&'a str, usize),
    Index(usize),
}

impl<'a> Step<'a> {
    fn key(&self) -> Option<&'a str> {
        match self {
            Step::Key(key, _) => Some(key),
            Step::Index(_) => None,
        }
    }
}

/// Where a word stands.
struct Found<'a> {
    at: usize,
    /// The key to whose value it belongs.
    key: Option<&'a str>,
    /// That value's bytes.
    value: Range<usize>,
}

/// All that a text holds; none where it is no TOML.
fn tree(text: &str) -> Option<Node<'_>> {
    let root = DeTable::parse(text).ok()?.into_inner();
    Some(Spanned::new(0..text.len(), DeValue::Table(root)))
}

/// What is inside, with the steps there.
fn inside<'a>(node: &'a Node<'_>) -> Vec<(Step<'a>, &'a Node<'a>)> {
    match node.get_ref() {
        DeValue::Table(keys) => keys
            .iter()
            .map(|(key, node)| (Step::Key(key.get_ref(), key.span().start), node))
            .collect(),
        DeValue::Array(all) => {
            all.iter().enumerate().map(|(index, node)| (Step::Index(index), node)).collect()
        }
        _ => Vec::new(),
    }
}

/// The outermost value that begins where this span does, or else the innermost one around it; and the steps to it.
fn at<'a>(node: &'a Node<'_>, span: &Range<usize>) -> Option<(Vec<Step<'a>>, &'a Node<'a>)> {
    for (step, inner) in inside(node) {
        let begins = inner.span().start == span.start && !inner.span().is_empty();
        if let Some((path, found)) = if begins { Some((vec![], inner)) } else { at(inner, span) } {
            return Some(([vec![step], path].concat(), found));
        }
    }
    let around = node.span().start <= span.start && span.end <= node.span().end;
    around.then(|| (Vec::new(), node))
}

/// Where a word stands by itself, as a key or else in a value, in the parser's order; without a word all values.
fn look<'a>(
    text: &str,
    node: &'a Node<'_>,
    word: Option<&str>,
    as_key: bool,
    key: Option<&'a str>,
) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    let value = node.span();
    let written = text.get(value.clone()).unwrap_or_default();
    // What has a header has no bytes of its own.
    let is_table =
        |node: &Node<'_>| node.get_ref().is_table() && !text[node.span()].starts_with('{');
    let (has_header, is_single) = match node.get_ref() {
        DeValue::Table(_) => (is_table(node), false),
        DeValue::Array(all) => (all.first().is_some_and(is_table), false),
        _ => (false, true),
    };
    let at = match word {
        Some(word) if is_single && !as_key => alone(written, word),
        None if !has_header => Some(0),
        _ => None,
    };
    found.extend(at.map(|at| Found { at: value.start + at, key, value }));
    for (step, inner) in inside(node) {
        if let Step::Key(name, at) = step
            && as_key
            && Some(name) == word
        {
            found.push(Found { at, key: None, value: inner.span() });
        }
        found.extend(look(text, inner, word, as_key, step.key().or(key)));
    }
    found
}

/// The file's first place of a word in a value, or else as a key.
fn look_any(text: &str, node: &Node<'_>, word: &str) -> Option<usize> {
    let first =
        |as_key| look(text, node, Some(word), as_key, None).iter().map(|found| found.at).min();
    first(false).or_else(|| first(true))
}

/// Where a key of this table itself stands.
fn place_of(node: &Node<'_>, key: &str) -> Option<usize> {
    let mut keys = node.get_ref().as_table()?.keys();
    keys.find(|known| *known.get_ref() == key).map(|known| known.span().start)
}

/// The elements of a list, as `load` or `topology.link`.
fn elements<'a>(root: &'a Node<'a>, path: &str) -> impl Iterator<Item = &'a Node<'a>> {
    let list = path.split('.').try_fold(root, |node, key| node.get_ref().get(key));
    list.and_then(|list| list.get_ref().as_array()).into_iter().flat_map(|all| all.iter())
}

/// Those of them that have this text under a key.
fn named<'a>(
    root: &'a Node<'a>,
    path: &str,
    key: &'a str,
    text: &'a str,
) -> impl Iterator<Item = &'a Node<'a>> {
    elements(root, path).filter(move |node| {
        node.get_ref().get(key).and_then(|v| v.get_ref().as_str()) == Some(text)
    })
}

/// The element that a message about a list of tables speaks of: serde names the list's first one, whichever is wrong. It is the last
/// of the shortest list that gets the same message.
fn wrong_element<'a>(
    text: &str,
    path: &[Step<'_>],
    list: &'a Node<'a>,
    again: &dyn Fn(&str) -> bool,
) -> Option<&'a Node<'a>> {
    let all = list.get_ref().as_array().filter(|_| text[list.span().start..].starts_with("[["))?;
    let shortened = |count: usize| {
        let mut document: DocumentMut = text.parse().ok()?;
        let item = path.iter().try_fold(document.as_item_mut(), |item, step| match step {
            Step::Key(key, _) => item.get_mut(key),
            Step::Index(index) => item.get_mut(index),
        });
        let tables = item?.as_array_of_tables_mut()?;
        (count..all.len()).rev().for_each(|index| drop(tables.remove(index)));
        Some(document.to_string())
    };
    // With fewer elements there can't be more errors, so halves tell.
    let (mut right, mut wrong) = (0, all.len());
    while wrong - right > 1 {
        let middle = (right + wrong) / 2;
        if again(&shortened(middle)?) { wrong = middle } else { right = middle }
    }
    all.get(wrong.checked_sub(1)?)
}

/// The first place where a word stands by itself.
fn alone(text: &str, word: &str) -> Option<usize> {
    let of_word = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let before = |at: usize| text[..at].chars().next_back();
    let mut places = text.match_indices(word).map(|(at, _)| at);
    places.find(|at| {
        let after = &text[at + word.len()..];
        !word.is_empty() && !before(*at).is_some_and(of_word) && !after.starts_with(of_word)
    })
}

/// The key of the line in which a value was begun.
fn key_before(text: &str, at: usize) -> Option<&str> {
    let line = text.get(..at)?.rsplit('\n').next()?;
    let key = line.split_once('=')?.0.trim();
    key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)).then_some(key)
}

fn place(text: &str, at: usize, key: Option<&str>) -> Place {
    let at = (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |n| n + 1);
    Place {
        line: before.matches('\n').count() + 1,
        column: before[start..].chars().count() + 1,
        key: key.map(str::to_owned),
    }
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
        let line = |problem| of_problem(TEXT, problem, None);
        assert_eq!(line("load `bulk` names the host `c`, which is not there"), Some(12));
        assert_eq!(line("the load `bulk` is there twice; give each its own name"), Some(15));
        assert_eq!(line("link `dsl`, up: too slow"), Some(6));
        assert_eq!(line("repeat = 0 measures nothing"), Some(2));
        assert_eq!(line("expect \"s.p.loss < 1%\": no probe"), Some(4));
        assert_eq!(line("`c` has no path to `b`"), Some(12));
        assert_eq!(line("there are too many measurements"), None);
        let keyed = of_problem(TEXT, "load `bulk`: it goes to itself", Some("rate"));
        assert_eq!(keyed, Some(13), "no word of the message leads there");
    }

    #[test]
    fn what_only_looks_like_a_table_or_a_value_is_not_taken_for_one() {
        let text = "title = \"\"\"\n[[load]]\nname = \"bulk\"\n\"\"\" # name = \"bulk\"\n\n[[load]]\n\
                    name = \"bulk\"\nrun = [\n  \"tcp\",\n  \"3ms\",\n]\nto = { host = \"c\", rate = \"3ms\" }\n";
        assert_eq!(
            of_problem(text, "load `bulk` is too fast", None),
            Some(6),
            "not the title's lines"
        );
        assert_eq!(of_problem(text, "load `bulk`: `rate` is too low", None), Some(12));
        let load = text.rfind("[[load]]").expect("it is there");
        let wrong = of_message(text, load..load + 8, "\"3ms\" is not a rate", &|_| true);
        assert_eq!(wrong, Place { line: 10, column: 4, key: Some("run".into()) });
        let claims = "expect = [\n  \"a.b.c < 1\",\n  \"say \\\"d\\\" < 2\",\n]\n";
        assert_eq!(of_problem(claims, "expect \"say \"d\" < 2\": no probe", None), Some(3));
    }

    #[test]
    fn of_two_equal_words_the_wrong_one_is_found() {
        let text = "[[probe]]\nto = \"server\"\ninterval = \"server\"\n";
        let same = |text: &str| text.contains("interval = \"server\"");
        let wrong = of_message(text, 0..9, "\"server\" is not a time span", &same);
        assert_eq!(wrong, Place { line: 3, column: 13, key: Some("interval".into()) });
    }

    #[test]
    fn no_place_is_beyond_the_text() {
        assert_eq!(of_message("ä", 1..9, "`ä` is odd", &|_| true).line, 1);
        assert_eq!(of_message("", 5..9, "missing field `name`", &|_| true).line, 1);
    }
}
