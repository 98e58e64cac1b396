//! A result that `quell flow HOST --web` sends to the server's page: figures and a few plain words, bounded and cleaned.

use quell_wire::text::printable;
use serde::{Deserialize, Serialize};

/// Longest that is read.
pub const LONGEST: usize = 2048;
/// Longest word of it.
const LONGEST_WORD: usize = 80;

/// What a `quell flow` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// When, in seconds since 1970, by the sender's clock.
    pub at_s: u64,
    /// Who says so, as `quell 0.1.0`.
    pub program: String,
    /// `tcp` or `udp`, and what else there is to say of it.
    pub what: String,
    /// Mbit/s up.
    pub up_mbit: Option<f64>,
    /// Mbit/s down.
    pub down_mbit: Option<f64>,
    /// Milliseconds of a ping on an idle line.
    pub idle_ms: Option<f64>,
    /// And beside the load.
    pub loaded_ms: Option<f64>,
    /// Packets lost, of all, in percent.
    pub loss_percent: Option<f64>,
}

impl Sent {
    /// Reads what a stranger sent. None where it is no such thing, or where a figure is none that a line could have.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > LONGEST {
            return None;
        }
        let mut sent: Self = serde_json::from_slice(bytes).ok()?;
        let figures =
            [sent.up_mbit, sent.down_mbit, sent.idle_ms, sent.loaded_ms, sent.loss_percent];
        if !figures.into_iter().flatten().all(|figure| (0.0..1e9).contains(&figure)) {
            return None;
        }
        sent.program = printable(&sent.program, LONGEST_WORD);
        sent.what = printable(&sent.what, LONGEST_WORD);
        Some(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"at_s":1,"program":"quell","what":"tcp","up_mbit":9.5,"down_mbit":null,
        "idle_ms":20,"loaded_ms":480,"loss_percent":null}"#;

    #[test]
    fn a_result_is_read_and_its_words_can_steer_nothing() {
        assert_eq!(Sent::read(GOOD.as_bytes()).unwrap().up_mbit, Some(9.5));
        let forged = GOOD.replace("\"quell\"", "\"\\u001b[2J\\nforged\"");
        assert_eq!(Sent::read(forged.as_bytes()).unwrap().program, "\\x1b[2J\\x0aforged");
    }

    #[test]
    fn what_no_line_could_have_is_refused() {
        for (from, to) in [
            ("9.5", "-1"),
            ("9.5", "1e300"),
            ("9.5", "\"9\""),
            ("\"at_s\"", "\"at\""),
            ("480", "480,\"x\":1"),
        ] {
            assert_eq!(Sent::read(GOOD.replace(from, to).as_bytes()), None, "{to}");
        }
        assert_eq!(Sent::read(&vec![b' '; LONGEST + 1]), None);
    }
}
