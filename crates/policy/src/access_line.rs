//! A line as people know it: its rates, and what the modem and the way behind it are like.
//!
//! ```text
//!   10/50   10Mbit/50Mbit   50down/10up   "down=50 up=10"        up and down; a bare number is Mbit/s
//!   --rtt 20ms   --buffer 100p | 256kB | 250ms   --kind dsl      the same for every experiment that tries a line
//! ```

use quell_units::{Buffer, Bytes, Rate, Span};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LineRates {
    pub up: Rate,
    pub down: Rate,
}

/// Rates as somebody typed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypedLine {
    pub rates: LineRates,
    /// No rate has its direction beside it.
    plain: bool,
}

impl TypedLine {
    /// What there is to ask where more goes up than down and nobody named a direction: hardly any home has such a line, and many people name the
    /// larger rate first.
    pub fn doubt(self) -> Option<String> {
        let LineRates { up, down } = self.rates;
        (self.plain && up > down).then(|| {
            format!(
                "{up} up is more than {down} down: reversed? --line is up/down; or name both, as --line {}",
                format!("{down}up/{up}down").replace("Mbit", "")
            )
        })
    }
}

impl FromStr for TypedLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}`: give the line's rates, up/down, as 10/50 (Mbit/s), 512kbit/2Mbit or 50down/10up"
            )
        };
        let mut rates: Vec<(Option<RateDirection>, Rate)> = Vec::new();
        let mut named = None;
        for piece in text.split([' ', '/', ',', ';', '\t']).filter(|piece| !piece.is_empty()) {
            let (way, rest) = RateDirection::of(piece);
            let rest = rest.trim_matches(['=', ':']);
            if rest.is_empty() {
                // A word by itself: of the rate before it, else of the next.
                match rates.last_mut() {
                    Some((none @ None, _)) => *none = way,
                    _ => named = way,
                }
                continue;
            }
            rates.push((way.or(named.take()), rate(rest).ok_or_else(wrong)?));
        }
        match rates.as_slice() {
            [(None | Some(RateDirection::Up), up), (None | Some(RateDirection::Down), down)]
            | [(Some(RateDirection::Down) | None, down), (Some(RateDirection::Up), up)]
            | [(Some(RateDirection::Down), down), (None, up)] => {
                let plain = rates.iter().all(|(way, _)| way.is_none());
                Ok(TypedLine { rates: LineRates { up: *up, down: *down }, plain })
            }
            _ => Err(wrong()),
        }
    }
}

impl FromStr for LineRates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(|line: TypedLine| line.rates)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RateDirection {
    Up,
    Down,
}

impl RateDirection {
    /// What a piece says of its way, and the rest of it.
    fn of(piece: &str) -> (Option<RateDirection>, &str) {
        let words = [
            ("upload", RateDirection::Up),
            ("download", RateDirection::Down),
            ("up", RateDirection::Up),
            ("down", RateDirection::Down),
        ];
        let lower = piece.to_ascii_lowercase();
        for (word, way) in words {
            if lower.starts_with(word) {
                return (Some(way), &piece[word.len()..]);
            }
            if lower.ends_with(word) {
                return (Some(way), &piece[..piece.len() - word.len()]);
            }
        }
        (None, piece)
    }
}

/// A rate with its unit, or a bare number of Mbit/s.
fn rate(text: &str) -> Option<Rate> {
    if let Ok(megabits) = text.parse::<f64>() {
        // A tenth of a kilobit is finer than any line is known.
        let bits = (megabits > 0.0 && megabits <= 1e6)
            .then(|| (megabits * 10_000.0).round() as u64 * 100)?;
        return (bits > 0).then(|| Rate::from_bps(bits));
    }
    // Of a line `10M` can only be bits.
    let rate = text.parse().or_else(|_| format!("{text}bit").parse());
    rate.ok().filter(|rate: &Rate| rate.bps() > 0)
}

impl TryFrom<String> for LineRates {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<LineRates> for String {
    fn from(line: LineRates) -> String {
        let megabits = |rate: Rate| rate.bps() as f64 / 1e6;
        format!("{}/{}", megabits(line.up), megabits(line.down))
    }
}

/// What holds packets in front of a slow line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineBuffer {
    /// As the device counts it.
    Room(Buffer),
    /// What the line carries in that time.
    Time(Span),
}

impl LineBuffer {
    /// At a rate. Less than two full packets is none.
    pub fn at(self, rate: Rate) -> Buffer {
        match self {
            LineBuffer::Room(buffer) => buffer,
            LineBuffer::Time(time) => {
                Buffer::Bytes(Bytes::new(rate.bytes_in(time).get().max(2 * 1514)))
            }
        }
    }
}

impl FromStr for LineBuffer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = text.parse() {
            return Ok(LineBuffer::Time(time));
        }
        text.parse().map(LineBuffer::Room).map_err(|_| {
            format!(
                "`{text}`: give the buffer as a time (250ms), in packets (100p) or in bytes (256kB)"
            )
        })
    }
}

/// What sort of line it is, with figures for what nobody said: the round-trip time to a server that is near, and the modem's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    Dsl,
    Docsis,
    Fibre,
    Lte,
}

/// Assumptions, not measurements: of the order that such lines have where nobody tuned them.
const KINDS: [(LineKind, &str, u64, LineBuffer); 4] = [
    (LineKind::Dsl, "dsl", 30, LineBuffer::Room(Buffer::Packets(100))),
    (LineKind::Docsis, "docsis", 20, LineBuffer::Time(Span::from_millis(250))),
    (LineKind::Fibre, "fibre", 10, LineBuffer::Time(Span::from_millis(100))),
    (LineKind::Lte, "lte", 50, LineBuffer::Time(Span::from_millis(1000))),
];

impl FromStr for LineKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |row: &&(LineKind, &str, u64, LineBuffer)| {
            row.1 == text || (row.1, text) == ("fibre", "fiber")
        };
        KINDS.iter().find(named).map(|row| row.0).ok_or_else(|| {
            let names = KINDS.map(|row| row.1);
            let hint = quell_units::nearest::hint(text, &names);
            format!("`{text}` is no kind of line{hint}; there are {}", names.join(", "))
        })
    }
}

/// What is known of a line beside its rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinePath {
    pub rtt: Option<Span>,
    pub buffer: Option<LineBuffer>,
}

impl LinePath {
    /// What was said, and for the rest what lines of that kind are like.
    pub fn of(kind: Option<LineKind>, rtt: Option<Span>, buffer: Option<LineBuffer>) -> Self {
        let row = kind.and_then(|kind| KINDS.iter().find(|row| row.0 == kind));
        LinePath {
            rtt: rtt.or(row.map(|row| Span::from_millis(row.2))),
            buffer: buffer.or(row.map(|row| row.3)),
        }
    }

    /// The changes of `home-link` that make its line one like this.
    pub fn changes(self, line: LineRates) -> Vec<String> {
        let mut changes = Vec::new();
        for (way, rate) in [("up", line.up), ("down", line.down)] {
            let of =
                |field: &str, value: String| format!("topology.link.dsl.{way}.{field}=\"{value}\"");
            changes.push(of("rate", rate.to_string()));
            changes.extend(
                self.rtt.map(|rtt| of("delay", Span::from_nanos(rtt.nanos() / 2).to_string())),
            );
            changes.extend(self.buffer.map(|buffer| of("buffer", buffer.at(rate).to_string())));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_people_write_it() {
        let wanted = LineRates { up: Rate::from_bps(10_000_000), down: Rate::from_bps(50_000_000) };
        for text in [
            "10/50",
            "10Mbit/50Mbit",
            "10M/50M",
            "50down/10up",
            "10up/50down",
            "down=50 up=10",
            "up=10,down=50",
            "50 down 10 up",
            "50Mbit down / 10Mbit up",
            "down: 50 / up: 10",
            "50down/10",
            "10/50down",
            "upload=10 download=50",
            "10000kbit/0.05Gbit",
        ] {
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
        let line: LineRates = "2.5/8".parse().expect("rates");
        assert_eq!((line.up.bps(), line.down.bps()), (2_500_000, 8_000_000));
        assert_eq!(String::from(line), "2.5/8");
        for wrong in
            ["10", "10/", "0/5", "-1/5", "nan/5", "1e9/5", "10up/5up", "up/down", "1/2/3", "10up"]
        {
            assert!(wrong.parse::<LineRates>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_plain_pair_of_more_up_than_down_is_asked_about_and_named_directions_are_not() {
        let doubt = |text: &str| text.parse::<TypedLine>().expect(text).doubt();
        for clear in ["10/50", "10/10", "10down/50up", "50up/10down", "up=50 down=10", "50up/10"] {
            assert_eq!(doubt(clear), None, "{clear}");
        }
        let said = doubt("50/10").expect("a question");
        assert!(said.contains("reversed?") && said.contains("--line 10up/50down"), "{said}");
    }

    #[test]
    fn what_is_said_goes_before_what_lines_of_a_kind_are_like() {
        let line = "10/50".parse().expect("rates");
        let buffer = |text: &str| Some(text.parse::<LineBuffer>().expect(text));
        let of = |kind, rtt, buffer| LinePath::of(kind, rtt, buffer).changes(line);
        assert_eq!(
            of(None, None, None),
            ["topology.link.dsl.up.rate=\"10Mbit\"", "topology.link.dsl.down.rate=\"50Mbit\""]
        );
        let all = of(Some(LineKind::Docsis), Some(Span::from_millis(40)), buffer("100ms"));
        assert_eq!(
            all[..3],
            [
                "topology.link.dsl.up.rate=\"10Mbit\"",
                "topology.link.dsl.up.delay=\"20ms\"",
                "topology.link.dsl.up.buffer=\"125kB\"",
            ]
        );
        assert!(of(Some(LineKind::Dsl), None, None)[2].ends_with("\"100p\""));
        assert!(of(None, None, buffer("256kB"))[1].ends_with("\"256kB\""));
        assert!("many".parse::<LineBuffer>().is_err() && "cabel".parse::<LineKind>().is_err());
    }
}
