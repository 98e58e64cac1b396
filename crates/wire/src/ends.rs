//! What the two ends of a path tell each other of it: `quell doctor --peer` asks, `quell serve` answers.
//!
//! ```text
//!   doctor                                  serve
//!     │── QUELL-E1 (8 bytes) ────────────────►│   one that does not know it resets the connection
//!     │── length (4 bytes), Ask as JSON ─────►│   one question after another
//!     │◄─ length, Answer as JSON ─────────────│
//!     │◄══ bytes, datagrams: as was asked ═══►│
//! ```
//!
//! A question that the other end does not know is refused, and the next may be asked: so either end may be the newer one. Where there is a
//! secret, both prove it first ([`crate::auth`]).

use crate::iperf3::{self, HelloToken};
pub use iperf3::LENGTH;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// With what a client begins. The hyphen is in no iperf3 cookie, so that every older server turns it away at once.
pub const HELLO: &[u8; 8] = b"QUELL-E1";
/// Most that is asked and answered.
pub struct AskLimits {
    /// Bytes of a question or an answer.
    pub text: usize,
    pub asks: usize,
    /// Bytes of a connection at once.
    pub bytes: u32,
    /// UDP sockets of one question.
    pub flows: u32,
    /// Datagrams at once, and the bytes of UDP's payload in each.
    pub datagrams: usize,
    pub datagram: u32,
    /// How long is listened for them.
    pub hearing_ms: u32,
}

pub const MOST: AskLimits = AskLimits {
    text: 64 << 10,
    asks: 64,
    bytes: 1 << 20,
    flows: 32,
    datagrams: 128,
    datagram: 9_972,
    hearing_ms: 5_000,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    View,
    /// So many bytes of the connection, behind the answer.
    Give {
        bytes: u32,
    },
    /// It shall take so many bytes, which follow the question, and answer then.
    Take {
        bytes: u32,
    },
    /// UDP sockets say hello with this token, to the port of the connection; it answers when all have come, or no more do.
    Flows {
        token: HelloToken,
        count: u32,
    },
    /// It shall send datagrams of these sizes over the first socket, unfragmented, and say then what came back from the path meanwhile.
    Say {
        sizes: Vec<u32>,
        wait_ms: u32,
    },
    /// It shall tell, after so long, which datagrams came over the first socket.
    Hear {
        wait_ms: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    View(EndView),
    /// To `Give`, before the bytes; to `Take`, behind them; to `Hear` at once.
    Ready,
    /// To `Flows`: where those come from that came.
    Flows {
        /// Addresses as this end sees them.
        from: Vec<SocketAddr>,
    },
    Said {
        /// The MTUs that routers named, or its own device.
        too_big: Vec<u32>,
        /// What it handed to its kernel, which took it: sizes.
        sent: Vec<u32>,
    },
    Heard {
        sizes: Vec<u32>,
    },
    Refused {
        why: String,
    },
}

/// A TCP connection as one of its ends sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndView {
    pub local: Option<SocketAddr>,
    pub remote: Option<SocketAddr>,
    /// `tcpi_options`: 1 timestamps, 2 SACK, 4 window scaling, 8 ECN.
    pub options: u8,
    /// What it sends at most in a segment, options of TCP not counted.
    pub snd_mss: u32,
    /// The MSS that it told the other end when the connection was opened.
    pub advmss: u32,
    /// The path MTU that it believes in.
    pub pmtu: u32,
    pub told_scale: u8,
    pub got_scale: u8,
    /// Whether it offers SACK, window scaling and timestamps (its settings); none where they can't be read.
    pub offers: Option<Offers>,
    /// MTU of its device; none where that is not known.
    pub device_mtu: Option<u32>,
    /// What its device's link does, in Mbit/s; none where it has no speed.
    pub link_mbit: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offers {
    pub sack: bool,
    pub window_scaling: bool,
    pub timestamps: bool,
}

pub fn framed(value: &impl Serialize) -> Vec<u8> {
    iperf3::frame(value).unwrap_or_default()
}

/// The length of what follows; none where it is too long to be believed.
pub fn length(bytes: [u8; LENGTH]) -> Option<usize> {
    iperf3::length(bytes, MOST.text)
}

/// What a text says; none for what is no such thing.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    iperf3::read(text).ok()
}

impl Ask {
    /// Errors where it asks for too much.
    pub fn bounded(&self) -> Result<(), &'static str> {
        let fits = match self {
            Self::View => true,
            Self::Give { bytes } | Self::Take { bytes } => *bytes <= MOST.bytes,
            Self::Flows { count, .. } => (1..=MOST.flows).contains(count),
            Self::Say { sizes, wait_ms } => {
                sizes.len() <= MOST.datagrams
                    && sizes.iter().all(|size| *size <= MOST.datagram)
                    && *wait_ms <= MOST.hearing_ms
            }
            Self::Hear { wait_ms } => *wait_ms <= MOST.hearing_ms,
        };
        if fits { Ok(()) } else { Err("it asks for too much") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_and_answered_is_read_as_it_was_written() {
        let token = HelloToken::new([7; 16]);
        let asks = [
            Ask::View,
            Ask::Flows { token, count: 3 },
            Ask::Say { sizes: vec![100, 1472], wait_ms: 500 },
        ];
        for ask in asks {
            let bytes = framed(&ask);
            let (head, text) = bytes.split_first_chunk().unwrap();
            assert_eq!(length(*head), Some(text.len()));
            assert_eq!(read::<Ask>(text), Some(ask));
        }
        let answer = Answer::Flows { from: vec!["192.0.2.1:4000".parse().unwrap()] };
        assert_eq!(read::<Answer>(&framed(&answer)[LENGTH..]), Some(answer));
    }

    #[test]
    fn what_is_too_much_is_refused_and_what_is_strange_is_nothing() {
        let too_much = [
            Ask::Give { bytes: MOST.bytes + 1 },
            Ask::Say { sizes: vec![9_973], wait_ms: 0 },
            Ask::Say { sizes: vec![1; 129], wait_ms: 0 },
            Ask::Hear { wait_ms: 5_001 },
            Ask::Flows { token: HelloToken::new([0; 16]), count: 33 },
        ];
        too_much.iter().for_each(|ask| assert!(ask.bounded().is_err(), "{ask:?}"));
        assert_eq!(length([0, 1, 0, 1]), None);
        assert_eq!(read::<Ask>(br#"{"sing":{}}"#), None);
        // An end that is newer tells more, and one that is older less.
        let view: EndView = read(br#"{"snd_mss":1448,"colour":"blue"}"#).unwrap();
        assert_eq!((view.snd_mss, view.offers), (1448, None));
    }

    #[test]
    fn no_iperf3_cookie_begins_as_the_hello() {
        assert!(!HELLO.iter().all(u8::is_ascii_alphanumeric));
    }
}
