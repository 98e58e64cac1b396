//! A result that `quell flow HOST --web` sends to the server's page: figures and a few plain words, bounded and cleaned.

use quell_wire::text::printable;
use serde::{Deserialize, Serialize};

pub const LONGEST: usize = 2048;

struct ResultLimits {
    word: usize,
    /// Mbit/s that no line carries.
    mbit: f64,
    /// Milliseconds that nobody waits for an answer.
    ms: f64,
    /// How far a sender's clock may be ahead, in seconds.
    ahead_s: u64,
}

const MOST: ResultLimits = ResultLimits { word: 80, mbit: 1e7, ms: 600_000.0, ahead_s: 86_400 };

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentResult {
    /// When, in seconds since 1970, by the sender's clock.
    pub at_s: u64,
    /// Who says so, as `quell 0.2.0`.
    pub program: String,
    /// `tcp` or `udp`, and what else there is to say of it.
    pub what: String,
    pub up_mbit: Option<f64>,
    pub down_mbit: Option<f64>,
    /// Milliseconds of a ping on an idle line.
    pub idle_ms: Option<f64>,
    pub loaded_ms: Option<f64>,
    /// Packets lost, of all, in percent.
    pub loss_percent: Option<f64>,
}

impl SentResult {
    /// Reads what a stranger sent, at this second since 1970. None where it is no such thing, or where a figure is none that a line could have,
    /// or its time none that a result could.
    pub fn read(bytes: &[u8], now_s: u64) -> Option<Self> {
        if bytes.len() > LONGEST {
            return None;
        }
        let mut sent: Self = serde_json::from_slice(bytes).ok()?;
        let figures = [
            (sent.up_mbit, MOST.mbit),
            (sent.down_mbit, MOST.mbit),
            (sent.idle_ms, MOST.ms),
            (sent.loaded_ms, MOST.ms),
            (sent.loss_percent, 100.0),
        ];
        let can_be = |(figure, most): (Option<f64>, f64)| {
            figure.is_none_or(|figure| (0.0..=most).contains(&figure))
        };
        if !figures.into_iter().all(can_be) || sent.at_s > now_s.saturating_add(MOST.ahead_s) {
            return None;
        }
        sent.program = printable(&sent.program, MOST.word);
        sent.what = printable(&sent.what, MOST.word);
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
        assert_eq!(SentResult::read(GOOD.as_bytes(), 1).unwrap().up_mbit, Some(9.5));
        let forged = GOOD.replace("\"quell\"", "\"\\u001b[2J\\nforged\"");
        assert_eq!(SentResult::read(forged.as_bytes(), 1).unwrap().program, "\\x1b[2J\\x0aforged");
    }

    #[test]
    fn what_no_line_could_have_is_refused() {
        let tomorrow = GOOD.replace("\"at_s\":1", "\"at_s\":86401");
        assert!(SentResult::read(tomorrow.as_bytes(), 1).is_some());
        assert_eq!(SentResult::read(tomorrow.as_bytes(), 0), None);
        for (from, to) in [
            ("9.5", "-1"),
            ("9.5", "1e300"),
            ("9.5", "1.1e7"),
            ("480", "600001"),
            ("\"loss_percent\":null", "\"loss_percent\":1000"),
            ("\"at_s\":1", "\"at_s\":9007199254740992"),
            ("9.5", "\"9\""),
            ("\"at_s\"", "\"at\""),
            ("480", "480,\"x\":1"),
        ] {
            assert_eq!(SentResult::read(GOOD.replace(from, to).as_bytes(), 1), None, "{to}");
        }
        assert_eq!(SentResult::read(&vec![b' '; LONGEST + 1], 1), None);
    }
}
