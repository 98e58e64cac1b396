//! The protocol of iperf3 (as of 3.12; its source is its only description), with Quell's addition.
//!
//! ```text
//!   client                        control connection (TCP)                         server
//!     │── cookie (37 bytes) ────────────────────────────────────────────────────────►│
//!     │◄─ ParamExchange ─────────────────────────────────────────────────────────────│
//!     │── length (4 bytes, big endian), Parameters as JSON ─────────────────────────►│
//!     │◄─ CreateStreams ─────────────────────────────────────────────────────────────│
//!     │══ data connections: TCP with the cookie first, UDP with a hello and reply ══►│
//!     │◄─ TestStart ─────────────────────────────────────────────────────────────────│
//!     │◄─ TestRunning ───────────────────────────────────────────────────────────────│
//!     │══ data ═════════════════════════════════════════════════════════════════════►│
//!     │── TestEnd ──────────────────────────────────────────────────────────────────►│
//!     │◄─ ExchangeResults ───────────────────────────────────────────────────────────│
//!     │── length, Results as JSON ──────────────────────────────────────────────────►│
//!     │◄─ length, Results as JSON ───────────────────────────────────────────────────│
//!     │◄─ DisplayResults ────────────────────────────────────────────────────────────│
//!     │── IperfDone ────────────────────────────────────────────────────────────────►│
//! ```
//!
//! States are one byte. Streams have the numbers 1, 3, 4, 5 …: 2 is left out. Parameters and results may carry the key `quell`, which
//! iperf3 ignores: a server that leaves it out of its results is no Quell. Where a client's parameters have a [`HelloToken`] there, a Quell server says
//! `CreateTokenStreams` in place of `CreateStreams`: it takes only hellos that carry it.

mod datagram;
mod datagram_log;
mod extension;
mod number;
mod parameters;
mod results;
mod shown;
mod token;

pub use datagram::{Datagram, Greeting, HELLO, Hello, LONG_HELLO, header_size, long_hello};
pub use datagram_log::{DatagramLog, LoggedDatagram, MOST_LOGGED};
pub use extension::{
    Host, HostCounters, LONGEST_REPORT, LossRecord, Moment, Part, PartStream, Report, Wishes,
};
pub use parameters::Parameters;
pub use results::{Results, StreamResult};
pub use token::{HelloToken, TOKEN};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The port of `iperf3 -s`, and of `quell serve`.
pub const PORT: u16 = 5201;
/// Bytes of a cookie: 36 letters and digits, and a zero.
pub const COOKIE: usize = 37;
/// Bytes of the length before a JSON text.
pub const LENGTH: usize = 4;
/// Longest JSON of parameters that a server needs to take, in bytes. Those of iperf3 3.12 with all options have less than 2 kB.
pub const LONGEST_PARAMETERS: usize = 64 << 10;
/// Longest JSON of results, in bytes: an hour's states of eight streams, twice a second, fit.
pub const LONGEST_RESULTS: usize = 16 << 20;

/// Most memory that a text of the other end may take, in bytes.
pub const MOST_MEMORY: usize = 128 << 20;

/// What a test is known by on both ends: whoever knows it belongs to the test.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cookie([u8; COOKIE]);

/// Letters and digits of a cookie (base 32 of RFC 4648, small).
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

impl Cookie {
    /// One from 36 random bytes; 5 bits of each count.
    pub fn from_random(random: &[u8; COOKIE - 1]) -> Self {
        let mut bytes = [0; COOKIE];
        for (to, from) in bytes.iter_mut().zip(random) {
            *to = ALPHABET[usize::from(from & 31)];
        }
        Self(bytes)
    }

    /// Reads one; none unless it is 36 letters and digits and a zero.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; COOKIE] = *bytes.first_chunk()?;
        let (zero, text) = bytes.split_last()?;
        (*zero == 0 && text.iter().all(u8::is_ascii_alphanumeric)).then_some(Self(bytes))
    }

    pub fn bytes(&self) -> &[u8; COOKIE] {
        &self.0
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.0[..COOKIE - 1]).unwrap_or_default()
    }
}

/// Cookies are secrets: logs get the first letters only.
impl std::fmt::Debug for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cookie({}…)", self.text().get(..4).unwrap_or_default())
    }
}

/// Where a test stands; one signed byte on the control connection (`iperf_api.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i8)]
pub enum State {
    /// All data connections are there.
    TestStart = 1,
    /// Data flows.
    TestRunning = 2,
    /// The client's time or bytes are over.
    TestEnd = 4,
    /// The server awaits the client's parameters.
    ParamExchange = 9,
    /// The server awaits data connections.
    CreateStreams = 10,
    /// The server goes away.
    ServerTerminate = 11,
    /// The client goes away.
    ClientTerminate = 12,
    /// The server awaits the client's results.
    ExchangeResults = 13,
    /// The server has sent its results.
    DisplayResults = 14,
    /// The client has all it wanted.
    IperfDone = 16,
    /// A Quell server awaits UDP streams whose hellos carry the test's token.
    CreateTokenStreams = 81,
    /// A Quell server says what it sees while data flows; a [`Report`] behind its length follows.
    Report = 82,
    /// The server is busy, or does not let this client in.
    AccessDenied = -1,
    /// The server failed; two numbers of 4 bytes follow: iperf3's error and `errno`.
    ServerError = -2,
}

impl State {
    const ALL: [State; 14] = [
        State::TestStart,
        State::TestRunning,
        State::TestEnd,
        State::ParamExchange,
        State::CreateStreams,
        State::ServerTerminate,
        State::ClientTerminate,
        State::ExchangeResults,
        State::DisplayResults,
        State::IperfDone,
        State::CreateTokenStreams,
        State::Report,
        State::AccessDenied,
        State::ServerError,
    ];

    pub fn byte(self) -> u8 {
        (self as i8).cast_unsigned()
    }

    /// Reads one; none when no such state exists.
    pub fn read(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.byte() == byte)
    }
}

/// The number of the stream with this index from 0: 1, 3, 4, 5 …
pub fn stream_id(index: usize) -> u32 {
    let index = u32::try_from(index).unwrap_or(u32::MAX - 2);
    if index == 0 { 1 } else { index + 2 }
}

/// The index from 0 of the stream with this number.
pub fn stream_place(id: u32) -> usize {
    (id.max(2) - 2) as usize
}

/// What the stream with this index carries, in bytes, of an amount that so many streams share. Datagrams, of so many bytes, are shared whole: all
/// streams together have as many as one would have. Of a TCP test the first stream gets what can't be shared.
pub fn part_of(amount: u64, place: usize, streams: usize, datagram: Option<u64>) -> u64 {
    let (place, streams) = (place as u64, streams.max(1) as u64);
    let Some(size) = datagram.map(|size| size.max(1)) else {
        return amount / streams + if place == 0 { amount % streams } else { 0 };
    };
    let all = amount.div_ceil(size);
    (all / streams + u64::from(place < all % streams)).saturating_mul(size)
}

/// A value as JSON behind its length.
///
/// Errors only when the value can't be JSON: a map whose keys are not texts, or a text beyond 4 GiB.
pub fn frame<T: Serialize>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let text = serde_json::to_vec(value)?;
    let length = u32::try_from(text.len())
        .map_err(|_| serde::ser::Error::custom("the text is longer than 4 GiB"))?;
    Ok([&length.to_be_bytes()[..], &text].concat())
}

/// The length that stands before a JSON text, if it is at most `longest`.
pub fn length(bytes: [u8; LENGTH], longest: usize) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(bytes)).ok().filter(|length| *length <= longest)
}

/// Errors too where what it would be read into takes more memory than [`MOST_MEMORY`].
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, serde_json::Error> {
    let most = text.iter().fold(text.len(), |most, byte| {
        most + match byte {
            // The largest thing, and the most that a value takes with its name.
            b'{' => 256,
            b',' => 100,
            _ => 0,
        }
    });
    if most > MOST_MEMORY {
        let why = format!("it would take {} MB when it is read", most >> 20);
        return Err(serde::de::Error::custom(why));
    }
    // iperf3 sends a C string's bytes and may count its end.
    serde_json::from_slice(text.strip_suffix(&[0]).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn states_are_iperf3s_bytes() {
        assert_eq!(State::ParamExchange.byte(), 9);
        assert_eq!(State::AccessDenied.byte(), 0xff);
        for state in State::ALL {
            assert_eq!(State::read(state.byte()), Some(state));
        }
        assert_eq!(State::read(3), None);
    }

    #[test]
    fn the_second_number_is_left_out() {
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }

    #[test]
    fn a_cookie_is_36_letters_and_a_zero_and_nothing_else() {
        let cookie = Cookie::from_random(&[255; 36]);
        assert_eq!(cookie.text(), "7".repeat(36));
        assert_eq!(Cookie::read(cookie.bytes()), Some(cookie));
        let mut bytes = *cookie.bytes();
        bytes[36] = b'a';
        assert_eq!(Cookie::read(&bytes), None);
        assert_eq!(Cookie::read(&bytes[..36]), None);
        assert_eq!(Cookie::read(b"GET / HTTP/1.1\r\nHost: example.org\r\n\0\0"), None);
        assert_eq!(format!("{cookie:?}"), "Cookie(7777…)");
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused() {
        assert_eq!(length([0, 0, 1, 0], 256), Some(256));
        assert_eq!(length([0, 0, 1, 1], 256), None);
        assert_eq!(length([255; 4], LONGEST_RESULTS), None);
    }

    #[test]
    fn a_frame_is_a_length_and_a_text() {
        let frame = frame(&Parameters::default()).unwrap();
        let length = length(*frame.first_chunk().unwrap(), 1000).unwrap();
        assert_eq!(length, frame.len() - 4);
        assert_eq!(read::<Parameters>(&frame[4..]).unwrap(), Parameters::default());
        assert!(read::<Parameters>(b"{}\0").is_ok(), "with the end of a C string");
    }

    #[test]
    fn results_that_would_fill_the_memory_are_refused_and_long_ones_are_read() {
        let streams = |one: String| format!(r#"{{"quell":{{"streams":[{one}]}}}}"#);
        for small in [r#"{"id":1,"moments":[{}"#, "{}"] {
            let many = streams(
                small.to_owned() + &",{}".repeat(1 << 20) + if small.len() > 2 { "]}" } else { "" },
            );
            let told = read::<Results>(many.as_bytes()).expect_err("3 MB of text").to_string();
            assert!(told.contains("MB when it is read"), "{told}");
        }
        // All that a server keeps of a test.
        let moment = Moment { t_ns: 1 << 40, bytes: 1 << 40, cwnd: 9, ..Moment::default() };
        let stream = PartStream { moments: vec![moment; 8192], ..PartStream::default() };
        let part = Part { streams: vec![stream], ..Part::default() };
        let text = serde_json::to_vec(&Results { quell: Some(part), ..Results::default() });
        assert!(read::<Results>(&text.expect("it is JSON")).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Cookie::read(&bytes);
            let _ = (read::<Parameters>(&bytes).is_ok(), read::<Results>(&bytes).is_ok());
            let _ = (Datagram::read(&bytes, true), Datagram::read(&bytes, false), Hello::read(&bytes));
        }
    }
}
