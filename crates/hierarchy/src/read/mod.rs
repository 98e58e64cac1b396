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
    /// Lines that are nothing that `tc` prints: how many, and the first of them with its number.
    pub passed_over: Option<(usize, usize, String)>,
    /// Devices that were read several times, of which the last reading is shown.
    pub repeated: Vec<String>,
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
    let mut passed_over: Option<(usize, usize, String)> = None;
    let mut lines = NumberedLines { text, at: 0, number: 1 };
    let line_error = |(line, why): (usize, String)| ReadError::Line {
        line,
        why: quell_wire::text::printable(&why, 300),
    };
    while let Some((number, line)) = lines.next() {
        let line = behind_prompt(line);
        let trimmed = line.trim();
        if trimmed.is_empty() {
            continue;
        }
        if let Some(told) = command(trimmed) {
            records.extend(asked(&told));
            context = told;
        } else if is_json(trimmed) {
            let start = lines.at_of(line);
            let mut reader = json::Reader::new(&text[start..], number);
            json_records::read(&mut reader, &context, &mut records).map_err(line_error)?;
            lines.go_on(start + reader.at(), reader.line());
        } else if text::begins_record(line) {
            let mut more = Vec::new();
            while let Some((_, next)) = lines.peek().filter(|(_, next)| text::goes_on(next)) {
                more.push(next);
                lines.next();
            }
            records.extend(text::record(number, line, &more, &context).map_err(line_error)?);
        } else {
            let (count, ..) =
                passed_over.get_or_insert((0, number, quell_wire::text::printable(trimmed, 60)));
            *count += 1;
        }
    }
    let nothing = |record: &Record| matches!(record.what, What::Asked(_));
    if records.iter().all(nothing) && passed_over.is_some() {
        return Err(ReadError::Nothing);
    }
    let repeated = readings::keep_last(&mut records);
    records.iter_mut().for_each(clean);
    let is_ifb = |name: &str| name.starts_with("ifb");
    let hierarchy = assemble(records, nameless, is_ifb).map_err(line_error)?;
    Ok(Reading { hierarchy, passed_over, repeated })
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
