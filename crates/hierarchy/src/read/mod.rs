//! What `tc` printed on another machine, read back.
//!
//! ```text
//!   $ sudo tc -s -d qdisc show         ─ a command: whose what follows is
//!   [sudo] password for lee:           ─ passed over
//!   qdisc htb 1: dev eth0 root …       ─ text: a record, with the indented lines behind it
//!   [{"kind":"htb","handle":"1:",…     ─ JSON: a record each, also where tc 6.1 leaves JSON's rules
//! ```
//!
//! `tc`'s text is made for people and has no grammar of its own; what is not known of a line is passed over, but what begins like a
//! record and is none is refused with its line.

mod context;
mod json;
mod json_records;
pub(crate) mod posted;
mod readings;
mod text;

use crate::assemble::assemble;
use crate::model::Hierarchy;
use crate::record::{Record, What};
use context::{Context, command};
use thiserror::Error;

#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub hierarchy: Hierarchy,
    /// Lines that are nothing that `tc` prints, by what they stand below.
    pub passed_over: Vec<PassedOver>,
    /// Devices that were read several times, of which the last reading is shown.
    pub repeated: Vec<String>,
    /// Their first readings; none where each device was read once.
    pub before: Option<Hierarchy>,
    /// From the first reading to the last, where a time of day stands before each.
    pub seconds: Option<f64>,
}

/// Lines that are nothing that `tc` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// The queue, class or filter that they stand below; none where they belong to nothing.
    pub below: Option<String>,
    pub count: usize,
    /// The first of them, and its number.
    pub line: usize,
    pub text: String,
}

/// Why a text can't be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// A line begins like one of `tc`'s, and is none.
    #[error("line {line}: {why}")]
    Line {
        /// Its number, from 1.
        line: usize,
        why: String,
    },
    /// Nothing in it is of `tc`.
    #[error(
        "nothing in it is what tc prints. Give the output of `tc -s -d qdisc show`, `tc -s -d class show dev DEV` and \
         `tc -s -d filter show dev DEV`, one after the other, as text or with -j"
    )]
    Nothing,
}

/// Reads outputs of `tc -s -d qdisc`, `class` and `filter show`, as text or JSON, in any order. Records that name no device belong to
/// `nameless`, where that is given.
pub fn read(text: &str, nameless: Option<&str>) -> Result<Reading, ReadError> {
    let text = &*posted::as_printed(text);
    let mut records: Vec<Record> = Vec::new();
    let mut context = Context::default();
    let mut passed_over: Vec<PassedOver> = Vec::new();
    let (mut below, mut of_tc) = (None, false);
    let mut times: Vec<(usize, f64)> = Vec::new();
    let mut lines = NumberedLines { text, at: 0, number: 1 };
    let line_error = |(line, why): (usize, String)| ReadError::Line {
        line,
        why: quell_wire::text::printable(&why, 300),
    };
    while let Some((number, line)) = lines.next() {
        let line = behind_prompt(line);
        let trimmed = line.trim();
        if trimmed.is_empty() {
            below = None;
            continue;
        }
        let begins = text::begins_record(line);
        let clock = if begins { None } else { time_of_day(trimmed) };
        times.extend(clock.map(|seconds| (number, seconds)));
        of_tc |= begins;
        if let Some(told) = command(trimmed) {
            records.extend(asked(&told));
            (below, of_tc) = (None, true);
            context = told;
        } else if is_json(trimmed) {
            let start = lines.at_of(line);
            let mut reader = json::Reader::new(&text[start..], number);
            json_records::read(&mut reader, &context, &mut records).map_err(line_error)?;
            lines.go_on(start + reader.at(), reader.line());
            (below, of_tc) = (None, true);
        } else if begins {
            let mut more = Vec::new();
            while let Some((_, next)) = lines.peek().filter(|(_, next)| text::goes_on(next)) {
                more.push(next);
                lines.next();
            }
            records.extend(text::record(number, line, &more, &context).map_err(line_error)?);
            let name: Vec<&str> = line.split_whitespace().take(3).collect();
            below = Some(quell_wire::text::printable(&name.join(" "), 60));
        } else if clock.is_none() {
            let known = passed_over.iter_mut().find(|lost| lost.below == below);
            match known {
                Some(lost) => lost.count += 1,
                None => {
                    let text = quell_wire::text::printable(trimmed, 60);
                    let (below, line) = (below.clone(), number);
                    passed_over.push(PassedOver { below, count: 1, line, text });
                }
            }
        }
    }
    let nothing = |record: &Record| matches!(record.what, What::Asked(_));
    if records.iter().all(nothing) && (!of_tc || !passed_over.is_empty()) {
        return Err(ReadError::Nothing);
    }
    let mut earlier = readings::keep_last(&mut records);
    records.iter_mut().chain(&mut earlier.records).for_each(clean);
    let is_ifb = |name: &str| name.starts_with("ifb");
    let hierarchy = assemble(records, nameless, is_ifb).map_err(line_error)?;
    let time_before = |line: usize| times.iter().rev().find(|(at, _)| *at < line).map(|(_, s)| *s);
    let seconds = earlier.lines.and_then(|(first, last)| {
        let passed = (time_before(last)? - time_before(first)?).rem_euclid(86_400.0);
        (passed > 0.0).then_some(passed)
    });
    let before = match earlier.records.is_empty() {
        true => None,
        false => Some(assemble(earlier.records, nameless, is_ifb).map_err(line_error)?),
    };
    Ok(Reading { hierarchy, passed_over, repeated: earlier.devices, before, seconds })
}

/// The time of day in a line, in seconds: `Sat Nov 28 12:00:07 UTC 2026`, `2026-11-28T12:00:07.25`.
fn time_of_day(line: &str) -> Option<f64> {
    let words = line.split(|c: char| !(c.is_ascii_digit() || matches!(c, ':' | '.')));
    words.take(40).find_map(|word| {
        let parts: Vec<&str> = word.split(':').collect();
        let [hours, minutes, seconds] = parts.as_slice() else { return None };
        let short = |part: &str| part.len() == 2;
        let whole = seconds.split('.').next().is_some_and(short);
        if !short(hours) || !short(minutes) || !whole {
            return None;
        }
        let [hours, minutes, seconds] = [hours, minutes, seconds].map(|part| part.parse::<f64>());
        let (hours, minutes, seconds) = (hours.ok()?, minutes.ok()?, seconds.ok()?);
        (hours < 24.0 && minutes < 60.0 && seconds < 61.0)
            .then_some(hours * 3600.0 + minutes * 60.0 + seconds)
    })
}

/// That filters were asked for, and where: an empty answer is one too.
fn asked(context: &Context) -> Option<Record> {
    let device = context.device.clone().filter(|_| context.filters)?;
    let parent = match context.parent.as_deref() {
        None | Some("root" | "ingress" | "egress") => None,
        Some(parent) => Some(text::handle(parent).ok()?),
    };
    Some(Record { device: Some(device), line: 0, what: What::Asked(parent) })
}

struct NumberedLines<'a> {
    text: &'a str,
    at: usize,
    number: usize,
}

impl<'a> NumberedLines<'a> {
    fn peek(&self) -> Option<(usize, &'a str)> {
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return None;
        }
        let end = rest.find('\n').unwrap_or(rest.len());
        Some((self.number, rest[..end].trim_end_matches('\r')))
    }

    fn next(&mut self) -> Option<(usize, &'a str)> {
        let found = self.peek()?;
        let rest = &self.text[self.at..];
        self.at += rest.find('\n').map_or(rest.len(), |end| end + 1);
        self.number += 1;
        Some(found)
    }

    fn at_of(&self, piece: &str) -> usize {
        piece.as_ptr() as usize - self.text.as_ptr() as usize
    }

    /// Goes on behind something that was read otherwise.
    fn go_on(&mut self, at: usize, number: usize) {
        self.at = at;
        self.number = number;
    }
}

/// The line without sudo's question, behind which output may begin.
fn behind_prompt(line: &str) -> &str {
    match line.strip_prefix("[sudo] ") {
        Some(prompt) => prompt.find(": ").map_or("", |at| &prompt[at + 2..]),
        None => line,
    }
}

fn is_json(line: &str) -> bool {
    let mut chars = line.chars();
    match chars.next() {
        Some('[') => matches!(chars.as_str().trim_start().chars().next(), None | Some('{' | ']')),
        Some('{') => matches!(chars.as_str().trim_start().chars().next(), None | Some('"' | '}')),
        _ => false,
    }
}

/// Takes out of names and words all that would do something else on a terminal than stand there, and what is longer than any name.
fn clean(record: &mut Record) {
    let fit = |text: &mut String| {
        if text.len() > 160 || text.chars().any(|c| !c.is_ascii_graphic() && c != ' ') {
            *text = quell_wire::text::printable(text, 160);
        }
    };
    record.device.iter_mut().for_each(fit);
    match &mut record.what {
        What::Queue(node) | What::Class(node) => {
            fit(&mut node.kind);
            node.settings.iter_mut().for_each(|setting| {
                fit(&mut setting.name);
                fit(&mut setting.value);
            });
        }
        What::Filter(filter) => {
            fit(&mut filter.protocol);
            fit(&mut filter.kind);
            fit(&mut filter.name);
            filter.matches.iter_mut().chain(&mut filter.hardware).for_each(fit);
            filter.deeds.iter_mut().for_each(|deed| {
                fit(&mut deed.words);
                deed.to.iter_mut().for_each(fit);
            });
        }
        What::Asked(_) => {}
    }
}
