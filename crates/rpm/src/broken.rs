//! How a connection of HTTP/2 ended before its answer was there: who ended it, and what was said.
//!
//! ```text
//!   it agreed on HTTP/2 ──► its settings come ──► an answer
//!         │ nothing at all        │ silence          │ GOAWAY, RST_STREAM: with a reason, and words of its own
//! ```

use crate::http::{RpmError, Spoke};
use quell_wire::text::printable;
use std::net::SocketAddr;

/// Most characters of a peer's words.
const WORDS: usize = 200;

pub fn broken(to: SocketAddr, spoke: Spoke, error: &h2::Error) -> RpmError {
    let why = || reason(error);
    match () {
        () if error.is_io() => RpmError::Left { to, spoke },
        () if error.is_remote() && error.is_go_away() => RpmError::GoneAway { to, why: why() },
        () if error.is_remote() => RpmError::CalledOff { to, why: why() },
        () => RpmError::NotHttp2(to, why()),
    }
}

/// The reason that was given, and the words beside it.
fn reason(error: &h2::Error) -> String {
    let said = error.to_string();
    let why = match error.reason() {
        Some(h2::Reason::NO_ERROR) => "without an error".to_owned(),
        Some(reason) if reason.description() == "unknown reason" => {
            format!("an unknown reason ({})", u32::from(reason))
        }
        Some(reason) => reason.description().to_owned(),
        None => return printable(&said, WORDS),
    };
    match words(&said) {
        Some(words) if !words.is_empty() => format!("{why}, with the words \"{words}\""),
        _ => why,
    }
}

/// The words beside a reason. Only h2's text of an error has them: ` (b"…")` at its end, as Rust writes bytes.
fn words(said: &str) -> Option<String> {
    let (_, escaped) = said.split_once(" (b\"")?;
    let mut bytes = Vec::new();
    let mut rest = escaped.strip_suffix("\")")?.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'0' => 0,
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
                }
                itself => itself,
            },
            plain => plain,
        });
    }
    Some(printable(String::from_utf8_lossy(&bytes).trim(), WORDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_from_what_rust_makes_of_bytes() {
        let said = |bytes: &'static [u8]| {
            words(&format!("connection error: x ({:?})", bytes::Bytes::from_static(bytes)))
        };
        assert_eq!(said(b"go away, \"you\"\\").as_deref(), Some(r#"go away, "you"\"#));
        assert_eq!(
            said("zu m\u{fc}de\u{1b}[2J\0".as_bytes()).as_deref(),
            Some(r"zu müde\x1b[2J\x00")
        );
        assert_eq!(said(&[b'x'; 5000]).map(|words| words.chars().count()), Some(WORDS + 1));
        assert_eq!(words("connection error received: no words"), None);
    }
}
