//! What other programs measured, read from what they wrote. Pure: bytes in, packets and flows out.
//!
//! ```text
//!   bytes ──text──► objects of JSON ─┬─► flent   raw values of each series          ┐
//!     (gzip, UTF-16,                 ├─► irtt    round trips                        │
//!      bounded)                      ├─► iperf3  intervals, whole or line by line   ├─► Imported, one of each test: streams of packets
//!                                    └─► mtr     counts of each hop                 │   and flows, what is known beside them, what is
//!          └─► all else ─► ping, mtr  what they print                               │   left out
//!         ──serde-pickle───► pingexp  replies of each stream                        ┘
//! ```
//!
//! Times are nanoseconds from the first moment that the file tells of, sending times where they are known. What a file does not say is none,
//! never zero; a value that can't be is unknown, and named. Whatever the bytes are, reading ends in bounded memory: files, what they unpack to and
//! their samples are counted ([`MOST_BYTES`], [`MOST_UNPACKED`], [`MOST_SAMPLES`]).

mod bounds;
mod error;
mod flent;
mod imported;
mod iperf3;
mod irtt;
mod json;
mod mtr;
mod order;
mod ping;
mod pingexp;
mod replies;
mod text;

pub use bounds::{MOST_BYTES, MOST_SAMPLES, MOST_UNPACKED};
pub use error::ForeignError;
pub use imported::{FlowDirection, Imported, Stream, StreamCounts, Tool};

use bounds::{MOST_OBJECTS, MOST_PRINTED, MOST_TESTS};
use text::{JsonObject, newlines};

/// Reads the tests in a file: of this program, or of all, where none is named. There is at least one.
///
/// # Errors
/// [`ForeignError`] says where what stands is not as that program writes it, or what is more than is believed.
pub fn read(bytes: &[u8], tool: Option<Tool>) -> Result<Vec<Imported>, ForeignError> {
    let is_pickle = pingexp::is_pickle(bytes) && tool.is_none();
    if is_pickle || tool == Some(Tool::PingExp) {
        return Ok(vec![something(pingexp::read(bytes)?)?]);
    }
    let text = text::decode(bytes)?;
    let (objects, between) = text::objects(&text, |object| of(object).is_some())?;
    let mut tests = Tests { left: MOST_SAMPLES, ..Tests::default() };
    let mut objects = objects.into_iter().filter_map(|o| Some((of(&o)?, o))).peekable();
    while let Some((whose, object)) = objects.next() {
        let mut lines = vec![object];
        while is_line(&lines[0])
            && let Some((_, line)) = objects.next_if(|(_, next)| is_line(next) && !begins(next))
        {
            match line.fault {
                Some(fault) => tests.refuse(line.line, fault),
                None => lines.push(line),
            }
        }
        if tool.is_none_or(|tool| tool == whose) {
            let read = read_json(whose, &lines, &mut tests.left);
            tests.add(read, lines[0].line)?;
        } else {
            tests.other = Some(whose);
        }
    }
    let is_short = between.len() <= MOST_PRINTED;
    for (whose, read) in [(Tool::Ping, ping::read as TextReader), (Tool::Mtr, mtr::read)] {
        if is_short && tool.is_none_or(|tool| tool == whose) {
            for test in read(&between, &mut tests.left)? {
                tests.add(something(test), 0)?;
            }
        }
    }
    tests.done(tool).map_err(|error| match (error, other_form(&between)) {
        (ForeignError::Unknown, Some((what, form))) => ForeignError::OtherForm { what, form },
        (error, _) => error,
    })
}

/// What programs print that is not read, and how they print what is.
fn other_form(text: &str) -> Option<(&'static str, &'static str)> {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["[ ID] Interval", "[ID] Interval"]) {
        Some(("iperf3's lines for people", "the JSON of `iperf3 -J`"))
    } else if has(&["icmp_seq=", "ttl=", "TTL="]) {
        Some(("a ping in another language", "what `LC_ALL=C ping` prints"))
    } else {
        None
    }
}

type TextReader = fn(&str, &mut usize) -> Result<Vec<Imported>, ForeignError>;

/// Whose it is: by the names that only one program writes. One that breaks off has them too.
fn of(object: &JsonObject<'_>) -> Option<Tool> {
    let has = |name: &str| object.has(name);
    if has("round_trips") || has("system_info") && has("stats") {
        Some(Tool::Irtt)
    } else if has("raw_values") || has("x_values") || has("metadata") && has("results") {
        Some(Tool::Flent)
    } else if has("report") || has("hubs") {
        Some(Tool::Mtr)
    } else if has("intervals") || has("start") || is_line(object) {
        Some(Tool::Iperf3)
    } else {
        None
    }
}

/// An event of iperf3's `--json-stream`.
fn is_line(object: &JsonObject<'_>) -> bool {
    object.has("event") && object.has("data")
}

fn begins(object: &JsonObject<'_>) -> bool {
    object.text.contains("\"start\"") && iperf3::event(&object.text).as_deref() == Some("start")
}

fn read_json(
    whose: Tool,
    lines: &[JsonObject<'_>],
    left: &mut usize,
) -> Result<Imported, ForeignError> {
    let object = &lines[0];
    if let Some(fault) = &object.fault {
        // A client that was killed, or somebody who copied, left the rest out.
        let ended = (whose == Tool::Iperf3).then(|| text::ended(&object.text)).flatten();
        let read = ended.and_then(|text| something(iperf3::read(&text).ok()?).ok());
        let mut read = read.ok_or_else(|| fault.clone())?;
        let line = object.line + newlines(&object.text) + 1;
        read.notes.push(format!("It breaks off on line {line}: the rest is unknown."));
        return Ok(read);
    }
    if object.text.bytes().filter(|byte| *byte == b'{').count() > MOST_OBJECTS {
        return Err(ForeignError::TooMany);
    }
    let read = match whose {
        Tool::Flent => flent::read(&object.text, left),
        Tool::Irtt => irtt::read(&object.text, left),
        Tool::Mtr => mtr::read_json(&object.text, left),
        _ if is_line(object) => iperf3::read_lines(lines),
        _ => iperf3::read(&object.text),
    };
    something(read.map_err(|error| error.on(object.line))?)
}

/// Most tests that are named as not read.
const MOST_REFUSED: usize = 16;

/// The tests of a file so far, and what in it is none.
#[derive(Default)]
struct Tests {
    read: Vec<Imported>,
    left: usize,
    /// Why parts of it are not read, each with the line on which it begins.
    refused: Vec<(usize, ForeignError)>,
    more: usize,
    /// A program of which something is in it, and that was not asked for.
    other: Option<Tool>,
}

impl Tests {
    fn add(
        &mut self,
        read: Result<Imported, ForeignError>,
        line: usize,
    ) -> Result<(), ForeignError> {
        if self.read.len() >= MOST_TESTS {
            return Err(ForeignError::TooMany);
        }
        match read {
            Ok(test) => self.read.push(test),
            Err(error) => self.refuse(line, error),
        }
        Ok(())
    }

    fn refuse(&mut self, line: usize, error: ForeignError) {
        match self.refused.len() < MOST_REFUSED {
            true => self.refused.push((line, error)),
            false => self.more += 1,
        }
    }

    fn done(mut self, tool: Option<Tool>) -> Result<Vec<Imported>, ForeignError> {
        let Some(first) = self.read.first_mut() else {
            return Err(match (self.refused.into_iter().next(), tool, self.other) {
                (Some((_, error)), ..) => error,
                (None, Some(wanted), Some(found)) => ForeignError::OtherTool { wanted, found },
                _ => ForeignError::Unknown,
            });
        };
        let said = |(line, error): &(usize, ForeignError)| {
            format!("A test that begins on line {} is not read: {error}", line + 1)
        };
        first.left_out.extend(self.refused.iter().map(said));
        let more = self.more;
        first.left_out.extend((more > 0).then(|| format!("{more} more such tests are not read.")));
        Ok(self.read)
    }
}

fn something(imported: Imported) -> Result<Imported, ForeignError> {
    match imported.streams.iter().all(Stream::is_empty) {
        true => Err(ForeignError::Nothing {
            tool: imported.tool,
            why: imported.failed.unwrap_or_default(),
        }),
        false => Ok(imported),
    }
}
