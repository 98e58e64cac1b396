//! Bytes to text, and the JSON in it: files as people keep and post them.
//!
//! ```text
//!   bytes ──gzip, BOM, UTF-16──► text ──┬─ { … }          a whole object, whatever stands around it
//!                                       ├─ Nov 28 host: { …   the same, each line behind a head of one length
//!                                       └─ all else       lines of ping and mtr
//! ```

use crate::bounds::{MOST_BYTES, MOST_SAMPLES, MOST_UNPACKED};
use crate::error::ForeignError;
use flate2::read::MultiGzDecoder;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;

/// How gzip begins (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How often an object behind heads of lines is looked for: each time takes a copy of the text.
const MOST_HEADED: usize = 64;

/// Never more than is believed, whatever the file claims.
pub(crate) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, ForeignError> {
    if bytes.len() > MOST_BYTES {
        return Err(ForeignError::TooLong { most: MOST_BYTES });
    }
    if !bytes.starts_with(&GZIP) {
        return Ok(characters(bytes));
    }
    let mut unpacked = Vec::new();
    // One more than is believed, so that a longer one is refused and not cut.
    MultiGzDecoder::new(bytes).take(MOST_UNPACKED as u64 + 1).read_to_end(&mut unpacked).map_err(
        |e| ForeignError::Gzip { why: e.to_string().escape_debug().take(200).collect() },
    )?;
    if unpacked.len() > MOST_UNPACKED {
        return Err(ForeignError::UnpacksTooLong);
    }
    Ok(Cow::Owned(characters(&unpacked).into_owned()))
}

/// As UTF-8, or as UTF-16 where a mark or a zero beside the first character says so (PowerShell's `>` writes it).
fn characters(bytes: &[u8]) -> Cow<'_, str> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = bytes.as_chunks().0.iter().map(|two| unit(*two));
        let read = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        Cow::Owned(read.collect())
    };
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest),
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [1..=255, 0, ..] => utf16(bytes, u16::from_le_bytes),
        [0, 1..=255, ..] => utf16(bytes, u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes),
    }
}

/// An object of JSON in a text.
pub(crate) struct JsonObject<'a> {
    pub text: Cow<'a, str>,
    /// The line on which it begins, from 0.
    pub line: usize,
    /// The names of its members; empty where it breaks off.
    names: HashMap<String, IgnoredAny>,
    /// Why it is none.
    pub fault: Option<ForeignError>,
}

impl JsonObject<'_> {
    /// Whether it has such a member; of one that breaks off, whether such a name stands anywhere in it.
    pub fn has(&self, name: &str) -> bool {
        match self.fault {
            None => self.names.contains_key(name),
            Some(_) => self.text.contains(&format!("\"{name}\"")),
        }
    }
}

/// The objects of a text that somebody `wants`, and what stands between objects.
///
/// # Errors
/// There are more than are believed.
pub(crate) fn objects(
    text: &str,
    wants: impl Fn(&JsonObject<'_>) -> bool,
) -> Result<(Vec<JsonObject<'_>>, String), ForeignError> {
    let (mut found, mut between) = (Vec::new(), String::new());
    let (mut at, mut line, mut head) = (0, 0, 0);
    let mut headed = MOST_HEADED;
    let last_line = |part: &str, head: usize| match part.rfind('\n') {
        Some(newline) => part.len() - newline - 1,
        None => head + part.len(),
    };
    while let Some(brace) = text[at..].find('{').map(|more| at + more) {
        let before = &text[at..brace];
        between.push_str(before);
        line += newlines(before);
        head = last_line(before, head);
        let (mut end, object) = object(&text[brace..], line, head, &mut headed);
        end += brace;
        while !text.is_char_boundary(end) {
            end += 1;
        }
        let whole = &text[brace..end];
        if wants(&object) {
            found.push(object);
        } else if object.fault.is_some() {
            // What is no object, as a shell's `${X}`, is text.
            between.push_str(whole);
        }
        if found.len() > MOST_SAMPLES {
            return Err(ForeignError::TooMany);
        }
        line += newlines(whole);
        head = last_line(whole, head);
        at = end;
    }
    between.push_str(&text[at..]);
    Ok((found, between))
}

pub(crate) fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// The object that begins with a text, behind `head` bytes of its line; and where it ends, or breaks off.
fn object<'a>(
    rest: &'a str,
    line: usize,
    head: usize,
    headed: &mut usize,
) -> (usize, JsonObject<'a>) {
    let whole = |text: &str| {
        let mut read = serde_json::Deserializer::from_str(text).into_iter();
        let names = read.next().unwrap_or_else(|| Ok(HashMap::new()));
        names.map(|names| (names, read.byte_offset()))
    };
    let error = match whole(rest) {
        Ok((names, length)) => {
            let text = Cow::Borrowed(&rest[..length]);
            return (length, JsonObject { text, line, names, fault: None });
        }
        Err(error) => error,
    };
    if *headed > 0
        && let Some(text) = without_nan(rest)
        && let Ok((names, length)) = whole(&text)
    {
        *headed -= 1;
        let text = Cow::Owned(text[..length].to_owned());
        return (length, JsonObject { text, line, names, fault: None });
    }
    // What a journal or a mail puts before each line is as long on each.
    let may_be = head > 0 && error.line() > 1 && *headed > 0;
    let bare: Option<String> = may_be.then(|| {
        *headed -= 1;
        let lines = rest.split_inclusive('\n').enumerate();
        lines.filter_map(|(n, line)| line.get(if n == 0 { 0 } else { head }..)).collect()
    });
    if let Some(bare) = bare
        && let Ok((names, length)) = whole(&bare)
    {
        let lines = newlines(&bare[..length]);
        let end = rest.split_inclusive('\n').take(lines + 1).map(str::len).sum::<usize>();
        let text = Cow::Owned(bare[..length].to_owned());
        return (end, JsonObject { text, line, names, fault: None });
    }
    let before = rest.split_inclusive('\n').take(error.line() - 1).map(str::len).sum::<usize>();
    let length = (before + error.column()).clamp(1, rest.len());
    let cut = (length..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
    let fault = Some(ForeignError::json(&error).on(line));
    let text = Cow::Borrowed(&rest[..cut]);
    (cut, JsonObject { text, line, names: HashMap::new(), fault })
}

/// With a text as long in place of each `nan` and `inf` that stands for a value; none where there is none.
fn without_nan(text: &str) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    let is_end = |byte: Option<&u8>| byte.is_none_or(|byte| b",}] \t\r\n".contains(byte));
    let mut found = false;
    for (at, _) in text.match_indices("nan").chain(text.match_indices("inf")) {
        let from = if text[..at].ends_with('-') { at - 1 } else { at };
        let is_value = text[..from].trim_end().ends_with([':', ',', '[']);
        if is_value && is_end(bytes.get(at + 3)) {
            bytes[from..at + 3].fill(b' ');
            (bytes[from], bytes[at + 2]) = (b'"', b'"');
            found = true;
        }
    }
    found.then(|| String::from_utf8(bytes).ok()).flatten()
}

/// An object that breaks off, ended behind the last object or list in it that does not; none where all of them do.
pub(crate) fn ended(text: &str) -> Option<String> {
    let (mut open, mut kept) = (Vec::new(), None);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        let is_escaped = escaped;
        escaped = quoted && byte == b'\\' && !is_escaped;
        match byte {
            b'"' if !is_escaped => quoted = !quoted,
            _ if quoted => {}
            // As deep as serde reads.
            b'{' | b'[' if open.len() == 128 => return None,
            b'{' => open.push('}'),
            b'[' => open.push(']'),
            b'}' | b']' => {
                open.pop();
                kept = Some((at + 1, open.clone()));
            }
            _ => {}
        }
    }
    let (end, open) = kept?;
    Some(text[..end].chars().chain(open.into_iter().rev()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn packed(bytes: usize) -> Vec<u8> {
        let mut out = GzEncoder::new(Vec::new(), Compression::best());
        let zeros = vec![b' '; 1 << 20];
        for _ in 0..bytes >> 20 {
            out.write_all(&zeros).unwrap();
        }
        out.finish().unwrap()
    }

    #[test]
    fn gzip_is_unpacked_and_a_bomb_is_refused_by_its_size() {
        assert_eq!(decode(&packed(2 << 20)).unwrap().len(), 2 << 20);
        let bomb = packed(MOST_UNPACKED + (1 << 20));
        assert!(bomb.len() < 1 << 20, "{} bytes stand for all that", bomb.len());
        assert_eq!(decode(&bomb), Err(ForeignError::UnpacksTooLong));
    }

    #[test]
    fn a_cut_file_says_so() {
        let whole = packed(1 << 20);
        let error = decode(&whole[..whole.len() - 9]).unwrap_err().to_string();
        assert!(error.contains("copied whole"), "{error}");
    }

    #[test]
    fn objects_are_found_in_what_people_post() {
        let told = |text: &str| {
            let (found, between) =
                objects(text, |o| o.fault.is_none() || o.text.len() > 2).expect("they are few");
            let found = found.iter().map(|o| (o.line, o.text.replace(['\n', ' '], "")));
            (found.collect::<Vec<_>>(), between.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        for (text, objects, between) in [
            ("$ iperf3 -J\n{\n\"a\": 1\n}\n$ ", vec![(1, "{\"a\":1}")], "$ iperf3 -J $"),
            ("{\"a\":1}{\"b\":2}", vec![(0, "{\"a\":1}"), (0, "{\"b\":2}")], ""),
            (
                "12:00 h: {\n12:00 h: \"a\": 1\n12:01 h: }\nend",
                vec![(0, "{\"a\":1}")],
                "12:00 h: end",
            ),
            ("> {\n>  \"a\": 1\n> }\n", vec![(0, "{\"a\":1}")], ">"),
            ("echo ${X} {}", vec![(0, "{}")], "echo ${X}"),
            ("{\"a\": 1,\n$ x\n{\"b\":2}", vec![(0, "{\"a\":1,$"), (2, "{\"b\":2}")], "x"),
        ] {
            let (found, rest) = told(text);
            let found: Vec<_> = found.iter().map(|(line, text)| (*line, &**text)).collect();
            assert_eq!((found, &*rest), (objects, between), "{text}");
        }
    }
}
