//! What each end tells the other when data has flowed.

use super::Part;
use super::number::{amount, count, known, signed, small};
use super::shown::{word, words};
use serde::{Deserialize, Deserializer, Serialize};

/// One end's results, by iperf3's names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    /// CPU of the process in percent of one CPU; none where what was told can't be one.
    #[serde(deserialize_with = "known")]
    pub cpu_util_total: Option<f64>,
    #[serde(deserialize_with = "known")]
    pub cpu_util_user: Option<f64>,
    #[serde(deserialize_with = "known")]
    pub cpu_util_system: Option<f64>,
    /// Whether `retransmits` of this end's streams mean something: 1, 0, or -1 when this end does not send.
    #[serde(deserialize_with = "small")]
    pub sender_has_retransmits: i32,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "word")]
    pub congestion_used: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "words")]
    pub server_output_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output_json: Option<serde_json::Value>,
    /// The streams, those of both directions; one with a number that can't be one (a count below zero) is left out when read.
    #[serde(deserialize_with = "readable")]
    pub streams: Vec<StreamResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quell: Option<Part>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamResult {
    /// Its number: 1, 3, 4 …
    pub id: u32,
    /// Bytes that this end sent or received, without the omitted seconds.
    #[serde(deserialize_with = "count")]
    pub bytes: u64,
    /// Segments sent again; -1 where this end does not know.
    #[serde(deserialize_with = "signed")]
    pub retransmits: i64,
    /// Jitter of RFC 3550 in seconds, at a receiver of datagrams; none where what was told can't be one.
    #[serde(deserialize_with = "known")]
    pub jitter: Option<f64>,
    #[serde(deserialize_with = "signed")]
    pub errors: i64,
    /// Those lost in the omitted seconds (newer versions).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted_errors: Option<i64>,
    /// Datagrams sent, or at a receiver the largest number seen.
    #[serde(deserialize_with = "signed")]
    pub packets: i64,
    /// Those in the omitted seconds (newer versions).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted_packets: Option<i64>,
    /// Seconds from the test's start to the stream's.
    #[serde(deserialize_with = "amount")]
    pub start_time: f64,
    /// Seconds from the test's start to the stream's end.
    #[serde(deserialize_with = "amount")]
    pub end_time: f64,
}

fn readable<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<StreamResult>, D::Error> {
    let all = Vec::<serde_json::Value>::deserialize(from)?;
    Ok(all.into_iter().filter_map(|stream| serde_json::from_value(stream).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_names_can_not_act_on_a_terminal() {
        let text = r#"{"congestion_used":"cubic\u001b[2J\u0007\nYou get 9 Gbit/s","server_output_text":"a\nb\u009b2J",
            "quell":{"host":{"quell":"9\u001b]0;x\u0007","kernel":"\u202e6.1"},"streams":[{"id":1,"congestion":"\u001b[31m"}]}}"#;
        let results: Results = serde_json::from_str(text).unwrap();
        let part = results.quell.unwrap();
        let congestion = part.streams[0].congestion.clone().unwrap();
        assert_eq!(congestion, "\\x1b[31m");
        assert_eq!(results.server_output_text.unwrap(), "a\nb\\x9b2J", "its lines stay lines");
        for text in
            [results.congestion_used.unwrap(), part.host.quell, part.host.kernel, congestion]
        {
            let plain = |c: char| !c.is_control() && c != '\u{202e}';
            assert!(text.chars().all(plain) && text.chars().count() <= 65, "{text}");
        }
    }

    #[test]
    fn numbers_that_can_be_none_are_unknown_and_not_zero() {
        for stream in [
            r#"{"id":1,"bytes":-1}"#,
            r#"{"id":1,"bytes":18446744073709551615}"#,
            r#"{"id":1,"bytes":1e300}"#,
            r#"{"id":1,"bytes":"many"}"#,
            r#"{"id":1,"bytes":5,"end_time":-5}"#,
        ] {
            let text = format!(r#"{{"cpu_util_total":-1e9,"streams":[{stream},{{"id":3}}]}}"#);
            let results: Results = serde_json::from_str(&text).unwrap();
            assert_eq!(results.streams.iter().map(|s| s.id).collect::<Vec<_>>(), [3], "{stream}");
            assert_eq!(results.cpu_util_total, None);
        }
        // Jitter is no count: what came is known without it.
        let text = r#"{"streams":[{"id":1,"bytes":5,"jitter":-1e300}]}"#;
        let results: Results = serde_json::from_str(text).unwrap();
        assert_eq!((results.streams[0].bytes, results.streams[0].jitter), (5, None));
    }

    #[test]
    fn results_of_iperf3_are_read_and_ours_have_its_names() {
        let text = r#"{"cpu_util_total":10.5,"cpu_util_user":1.5,"cpu_util_system":9,"sender_has_retransmits":-1,
            "congestion_used":"cubic","streams":[{"id":1,"bytes":123,"retransmits":-1,"jitter":0.0001,"errors":2,
            "packets":100,"start_time":0,"end_time":10.000123}]}"#;
        let results: Results = serde_json::from_str(text).unwrap();
        assert_eq!(results.streams[0].errors, 2);
        let ours = serde_json::to_value(&results).unwrap();
        let theirs: serde_json::Value = serde_json::from_str(text).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().map(|o| o.keys().cloned().collect()).unwrap_or_default()
        };
        assert_eq!(keys(&ours), keys(&theirs));
        assert_eq!(keys(&ours["streams"][0]), keys(&theirs["streams"][0]));
    }

    /// What iperf3 3.12's server said after a test in both directions.
    #[test]
    fn retransmissions_that_are_not_known_come_as_a_huge_number() {
        let text = r#"{"cpu_util_total":2.3409712262028815,"cpu_util_user":0.028070121470566749,"cpu_util_system":2.3128049741793335,
            "sender_has_retransmits":18446744073709551615,"congestion_used":"reno","streams":[{"id":1,"bytes":125000,"retransmits":18446744073709551615,
            "jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1.040237},{"id":3,"bytes":131000,"retransmits":0,"jitter":0,
            "errors":0,"packets":0,"start_time":0,"end_time":1.04024}]}"#;
        let results: Results = serde_json::from_str(text).unwrap();
        assert_eq!((results.sender_has_retransmits, results.streams[0].retransmits), (-1, -1));
        assert_eq!((results.streams[1].retransmits, results.streams[1].bytes), (0, 131_000));
    }
}
