//! The u32 filter's matches, in `tc`'s words.
//!
//! ```text
//!   ip src 10.0.0.0/8        ip6 dst 2001:db8::/32      ip tos EF
//!   ip dport 443 0xffff      ip protocol tcp            u32 0x0 0x0 at 0     (matches every packet)
//! ```
//!
//! Ports are taken to lie 20 bytes into an IPv4 packet and 40 into an IPv6 one, as `tc` does: packets with options
//! or extension headers do not match. Use `flower` where that matters.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use quell_units::Dscp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::packet::{Prefix, protocol_number};

/// One condition; a filter's conditions must all hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    Address {
        /// Source (true) or destination.
        source: bool,
        /// The prefix; its family is the packet's.
        prefix: Prefix,
    },
    Port {
        /// IPv6 (true) or IPv4.
        v6: bool,
        /// Source (true) or destination.
        source: bool,
        value: u16,
        mask: u16,
    },
    /// The protocol, or IPv6's next header.
    Protocol {
        /// IPv6 (true) or IPv4.
        v6: bool,
        value: u8,
        mask: u8,
    },
    /// The TOS byte, or IPv6's traffic class.
    Tos {
        /// IPv6 (true) or IPv4.
        v6: bool,
        value: u8,
        mask: u8,
    },
    /// Any bits of the packet.
    Raw {
        /// 8, 16 or 32.
        width: u8,
        value: u32,
        /// Which of them must agree.
        mask: u32,
        /// Bytes from the network header, or from the one behind it; a multiple of the width.
        at: i32,
        next_header: bool,
    },
}

/// Why a text is not a [`Match`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a u32 match: {why}")]
pub struct MatchError {
    text: String,
    why: String,
}

/// One comparison as the kernel makes it: (32 bits at `at`) & `mask` = `value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchKey {
    /// Bits that count, in packet order.
    pub mask: u32,
    pub value: u32,
    /// Bytes from the network header, or from the one behind it; a multiple of four.
    pub at: i32,
    pub next_header: bool,
}

impl Match {
    /// The comparisons that this match comes to; several for long IPv6 prefixes, one with an empty mask for `/0`.
    pub fn keys(&self) -> Vec<MatchKey> {
        match *self {
            Match::Address { source, prefix } => address_keys(source, prefix),
            Match::Port { v6, source, value, mask } => {
                let start = if v6 { 40 } else { 20 };
                vec![narrow(16, value.into(), mask.into(), start + if source { 0 } else { 2 })]
            }
            Match::Protocol { v6, value, mask } => {
                vec![narrow(8, value.into(), mask.into(), if v6 { 6 } else { 9 })]
            }
            Match::Tos { v6: false, value, mask } => vec![narrow(8, value.into(), mask.into(), 1)],
            Match::Tos { v6: true, value, mask } => {
                let mask = u32::from(mask) << 20;
                let value = (u32::from(value) << 20) & mask;
                vec![MatchKey { mask, value, at: 0, next_header: false }]
            }
            Match::Raw { width, value, mask, at, next_header } => {
                vec![MatchKey { next_header, ..narrow(width, value, mask, at) }]
            }
        }
    }
}

fn narrow(width: u8, value: u32, mask: u32, at: i32) -> MatchKey {
    let shift = 32u32.saturating_sub(width.into()).saturating_sub(8 * (at & 3) as u32);
    let mask = mask << shift;
    MatchKey { mask, value: (value << shift) & mask, at: at & !3, next_header: false }
}

fn address_keys(source: bool, prefix: Prefix) -> Vec<MatchKey> {
    let words = |bits: u128, length: u8, start: i32, width: u8| -> Vec<MatchKey> {
        let length = length.min(width);
        let count = (u32::from(length).div_ceil(32)).max(if width == 32 { 1 } else { 0 });
        (0..count)
            .map(|i| {
                let covered = u32::from(length).saturating_sub(32 * i).min(32);
                let mask = u32::MAX.checked_shl(32 - covered).unwrap_or(0);
                let word = (bits >> (u32::from(width) - 32 - 32 * i)) as u32;
                let at = start + 4 * i as i32;
                MatchKey { mask, value: word & mask, at, next_header: false }
            })
            .collect()
    };
    match prefix.address {
        IpAddr::V4(v4) => {
            words(u32::from(v4).into(), prefix.length, if source { 12 } else { 16 }, 32)
        }
        IpAddr::V6(v6) => words(v6.into(), prefix.length, if source { 8 } else { 24 }, 128),
    }
}

/// All comparisons of a filter, those on the same word made one. `None` if two contradict each other.
pub fn merge_keys(matches: &[Match]) -> Option<Vec<MatchKey>> {
    let mut merged: Vec<MatchKey> = Vec::new();
    for key in matches.iter().flat_map(Match::keys) {
        match merged.iter_mut().find(|o| (o.at, o.next_header) == (key.at, key.next_header)) {
            Some(other) if (other.value ^ key.value) & other.mask & key.mask != 0 => return None,
            Some(other) => {
                other.mask |= key.mask;
                other.value |= key.value;
            }
            None => merged.push(key),
        }
    }
    Some(merged)
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = |v6: bool| if v6 { "ip6" } else { "ip" };
        let side = |source: bool| if source { "src" } else { "dst" };
        match *self {
            Match::Address { source, prefix } => {
                write!(f, "{} {} {prefix}", family(prefix.address.is_ipv6()), side(source))
            }
            Match::Port { v6, source, value, mask } => {
                let port = if source { "sport" } else { "dport" };
                write!(f, "{} {port} {value} {mask:#x}", family(v6))
            }
            Match::Protocol { v6, value, mask } => {
                write!(f, "{} protocol {value} {mask:#x}", family(v6))
            }
            Match::Tos { v6: false, value, mask } => write!(f, "ip tos {value:#x} {mask:#x}"),
            Match::Tos { v6: true, value, mask } => write!(f, "ip6 priority {value:#x} {mask:#x}"),
            Match::Raw { width, value, mask, at, next_header } => {
                let from = if next_header { "nexthdr+" } else { "" };
                write!(f, "u{width} {value:#x} {mask:#x} at {from}{at}")
            }
        }
    }
}

impl FromStr for Match {
    type Err = MatchError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|why| MatchError { text: text.to_owned(), why })
    }
}

fn parse(text: &str) -> Result<Match, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["match", rest @ ..] if !rest.is_empty() => parse(&rest.join(" ")),
        [family @ ("ip" | "ip6"), field, rest @ ..] => in_header(*family == "ip6", field, rest),
        [width @ ("u8" | "u16" | "u32"), value, mask, "at", at] => {
            let width: u8 =
                width[1..].parse().map_err(|_| "the width is 8, 16 or 32".to_owned())?;
            let (at, next_header) =
                at.strip_prefix("nexthdr+").map_or((*at, false), |at| (at, true));
            let at: i32 = at.parse().map_err(|_| format!("`{at}` is no offset"))?;
            if at % i32::from(width / 8) != 0 {
                return Err(format!("the offset must be a multiple of {}", width / 8));
            }
            let fits = |n: u32| width == 32 || n < 1 << width;
            let (value, mask) = (number(value)?, number(mask)?);
            if !fits(value) || !fits(mask) {
                return Err(format!("a number has more than {width} bits"));
            }
            Ok(Match::Raw { width, value, mask, at, next_header })
        }
        _ => Err("write \"ip|ip6 src|dst|sport|dport|protocol|tos VALUE [MASK]\" or \
                  \"u8|u16|u32 VALUE MASK at OFFSET\""
            .to_owned()),
    }
}

fn in_header(v6: bool, field: &str, rest: &[&str]) -> Result<Match, String> {
    let (value, mask) = match rest {
        [value] => (*value, None),
        [value, mask] => (*value, Some(number(mask)?)),
        _ => return Err(format!("`{field}` takes a value and perhaps a mask")),
    };
    let byte = |n: u32| u8::try_from(n).map_err(|_| format!("{n:#x} does not fit a byte"));
    let word = |n: u32| u16::try_from(n).map_err(|_| format!("{n:#x} does not fit 16 bits"));
    match field {
        "src" | "dst" => {
            let prefix: Prefix = value.parse()?;
            if prefix.address.is_ipv6() != v6 || mask.is_some() {
                return Err(
                    "the prefix must be of the family named, with its length after a slash".into(),
                );
            }
            Ok(Match::Address { source: field == "src", prefix })
        }
        "sport" | "dport" => Ok(Match::Port {
            v6,
            source: field == "sport",
            value: word(number(value)?)?,
            mask: word(mask.unwrap_or(0xffff))?,
        }),
        "protocol" => Ok(Match::Protocol {
            v6,
            value: protocol_number(value).ok_or_else(|| format!("`{value}` is no protocol"))?,
            mask: byte(mask.unwrap_or(0xff))?,
        }),
        "tos" | "dsfield" | "priority" | "class" => {
            // A DSCP is the upper six bits; the lower two are ECN's and must not matter.
            let (value, usual) = match (number(value), value.parse::<Dscp>()) {
                (Ok(number), _) => (byte(number)?, 0xff),
                (_, Ok(dscp)) => (dscp.tos_byte(), 0xfc),
                _ => return Err(format!("`{value}` is neither a byte nor a DSCP")),
            };
            Ok(Match::Tos { v6, value, mask: byte(mask.unwrap_or(usual))? })
        }
        _ => Err(format!("`{field}` is not src, dst, sport, dport, protocol or tos")),
    }
}

fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u32::from_str_radix(hex, 16),
        _ => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is no number"))
}

impl Serialize for Match {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Match {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<MatchKey> {
        text.parse::<Match>().unwrap().keys()
    }

    #[test]
    fn a_port_lies_in_its_half_of_a_word() {
        assert_eq!(
            keys("ip sport 80"),
            [MatchKey { mask: 0xffff_0000, value: 80 << 16, at: 20, next_header: false }]
        );
        assert_eq!(
            keys("ip6 dport 53"),
            [MatchKey { mask: 0xffff, value: 53, at: 40, next_header: false }]
        );
    }

    #[test]
    fn a_long_ipv6_prefix_takes_as_many_words_as_it_covers() {
        let found = keys("ip6 src 2001:db8:1::/40");
        assert_eq!(
            found,
            [
                MatchKey { mask: 0xffff_ffff, value: 0x2001_0db8, at: 8, next_header: false },
                MatchKey { mask: 0xff00_0000, value: 0, at: 12, next_header: false },
            ]
        );
    }

    #[test]
    fn a_named_dscp_ignores_the_ecn_bits() {
        assert_eq!(
            keys("ip tos EF"),
            [MatchKey { mask: 0xfc << 16, value: 0xb8 << 16, at: 0, next_header: false }]
        );
        assert_eq!(
            keys("ip tos 0x10"),
            [MatchKey { mask: 0xff << 16, value: 0x10 << 16, at: 0, next_header: false }]
        );
    }

    #[test]
    fn conditions_on_one_word_are_made_one_and_contradictions_noticed() {
        let two = ["ip sport 80", "ip dport 443"].map(|text| text.parse().unwrap());
        let merged = merge_keys(&two).unwrap();
        assert_eq!(
            merged,
            [MatchKey { mask: u32::MAX, value: 80 << 16 | 443, at: 20, next_header: false }]
        );
        let never = ["ip sport 80", "ip sport 81"].map(|text| text.parse().unwrap());
        assert_eq!(merge_keys(&never), None);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "ip", "ip src ::1", "ip sport 65536", "u8 0x100 0xff at 0", "u16 1 1 at 1"]
        {
            assert!(text.parse::<Match>().is_err(), "{text}");
        }
    }
}
