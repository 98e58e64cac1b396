//! What a client asks for.

use super::Wishes;
use serde::{Deserialize, Serialize};

/// The client's parameters, by iperf3's names. What is false or absent is left out, as iperf3 does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parameters {
    #[serde(skip_serializing_if = "is_false")]
    pub tcp: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub udp: bool,
    /// SCTP, which Quell does not speak.
    #[serde(skip_serializing_if = "is_false")]
    pub sctp: bool,
    /// Seconds at the start that do not count.
    pub omit: u32,
    /// Seconds; 0 when it ends by bytes or blocks.
    pub time: u32,
    /// Bytes after which it ends; 0 for none.
    pub num: u64,
    /// Blocks after which it ends; 0 for none.
    pub blockcount: u64,
    /// Maximum segment size of TCP in bytes.
    #[serde(rename = "MSS", skip_serializing_if = "Option::is_none")]
    pub mss: Option<u32>,
    #[serde(skip_serializing_if = "is_false")]
    pub nodelay: bool,
    /// How many streams each way.
    pub parallel: u32,
    #[serde(skip_serializing_if = "is_false")]
    pub reverse: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub bidirectional: bool,
    /// Socket buffers in bytes (`-w`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Bytes of each write or datagram.
    pub len: u64,
    /// Most bits a second of each stream; 0 or absent is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u64>,
    /// Most bits a second of each stream by the kernel's pacing (`SO_MAX_PACING_RATE`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fqrate: Option<u64>,
    /// Microseconds between looks at the rate, with iperf3's own pacing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing_timer: Option<u64>,
    /// Blocks that may be sent at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    #[serde(rename = "TOS", skip_serializing_if = "Option::is_none")]
    pub tos: Option<i32>,
    /// A text that is handed through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_data: Option<String>,
    /// The CPU on which the server shall work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_affinity: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// The server shall send what it printed (1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get_server_output: Option<i32>,
    /// Numbers of datagrams have 64 bits (1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_counters_64bit: Option<i32>,
    /// The payload repeats (1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeating_payload: Option<i32>,
    /// Datagrams are not to be fragmented (1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dont_fragment: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_version: Option<String>,
    /// What a Quell client wants beyond that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quell: Option<Wishes>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Parameters {
    /// How many streams send from the client and how many from the server.
    pub fn streams(&self) -> (u32, u32) {
        match (self.bidirectional, self.reverse) {
            (true, _) => (self.parallel, self.parallel),
            (false, true) => (0, self.parallel),
            (false, false) => (self.parallel, 0),
        }
    }

    /// Whether numbers of datagrams have 64 bits.
    pub fn wide(&self) -> bool {
        self.udp_counters_64bit.is_some_and(|flag| flag != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_iperf3_are_read() {
        let text = r#"{"udp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":2,"reverse":true,"len":1448,
            "bandwidth":1048576,"pacing_timer":1000,"client_version":"3.12","unheard_of":{"a":[1]}}"#;
        let parameters: Parameters = serde_json::from_str(text).unwrap();
        assert!(parameters.udp && !parameters.tcp && parameters.reverse);
        assert_eq!(parameters.streams(), (0, 2));
        assert_eq!(parameters.bandwidth, Some(1 << 20));
        assert_eq!(parameters.quell, None);
    }

    #[test]
    fn what_is_not_asked_for_is_not_said() {
        let plain =
            Parameters { tcp: true, time: 10, parallel: 1, len: 131_072, ..Parameters::default() };
        let text = serde_json::to_string(&plain).unwrap();
        assert_eq!(
            text,
            r#"{"tcp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":1,"len":131072}"#
        );
    }

    #[test]
    fn both_ways_means_streams_from_both() {
        let both = Parameters { bidirectional: true, parallel: 3, ..Parameters::default() };
        assert_eq!(both.streams(), (3, 3));
    }
}
