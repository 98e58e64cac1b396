//! What is pinged: streams as people write them, and their addresses.
//!
//! ```text
//!   voip,example.org,EF,160 ──parse──► StreamSpec ──resolve──► Target     every error is told before anything is sent
//!   example.org:853         ──parse──►
//! ```

use crate::PingError;
use quell_sys::resolve::{self, Found, Usual};
use quell_units::Tos;
use quell_wire::LARGEST_PAYLOAD;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

pub const MOST: usize = 256;
const LONGEST: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    pub name: String,
    pub host: String,
    pub tos: Option<Tos>,
    pub size: Option<u32>,
}

impl StreamSpec {
    pub fn host(host: &str) -> Self {
        Self { name: host.into(), host: host.into(), tos: None, size: None }
    }
}

impl FromStr for StreamSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let ([name, host] | [name, host, ..]) = parts[..] else {
            return Err("write ID,HOST[,TOS[,SIZE]], as voip,example.org,EF,160".into());
        };
        if parts.len() > 4 {
            return Err("more than ID,HOST,TOS,SIZE".into());
        }
        if name.is_empty() || host.is_empty() {
            return Err("the ID or the HOST is empty; write ID,HOST[,TOS[,SIZE]]".into());
        }
        if name.chars().any(char::is_control) || name.chars().count() > LONGEST {
            return Err(format!("an ID has at most {LONGEST} printable characters"));
        }
        let given = |index: usize| parts.get(index).copied().filter(|p| !p.is_empty());
        let tos = given(2).map(str::parse).transpose().map_err(|e| format!("{e}"))?;
        let size = given(3).map(size).transpose()?;
        Ok(Self { name: name.into(), host: host.into(), tos, size })
    }
}

pub fn size(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is no size; give bytes from 0 to 65507, as 56");
    let bytes = text.trim().trim_end_matches('B').trim_end();
    bytes.parse().ok().filter(|n| *n <= u32::from(LARGEST_PAYLOAD)).ok_or_else(wrong)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    pub host: String,
    /// Where it goes; the port is 0 for ICMP.
    pub to: SocketAddr,
    pub others: Vec<IpAddr>,
    pub tos: Tos,
    pub size: u32,
}

/// What holds for all streams that do not say otherwise.
#[derive(Debug, Clone, Copy)]
pub struct StreamDefaults<'a> {
    pub host: Usual<'a>,
    pub tos: Tos,
    pub size: u32,
}

/// Finds the addresses. The error names every host that has none, and every name that two streams have.
pub fn resolve(wanted: &[StreamSpec], usual: StreamDefaults<'_>) -> Result<Vec<Target>, PingError> {
    if wanted.len() > MOST {
        return Err(PingError::Unusable(format!(
            "{} streams; at most {MOST} at once",
            wanted.len()
        )));
    }
    let mut targets: Vec<Target> = Vec::new();
    let mut problems = Vec::new();
    for one in wanted {
        if targets.iter().any(|t| t.name == one.name) {
            problems.push(format!(
                "two streams are called `{}`; give them names of their own: -t ID,{}",
                one.name, one.host
            ));
            continue;
        }
        match resolve::resolve(&one.host, usual.host) {
            Ok(Found { to, others }) => targets.push(Target {
                name: one.name.clone(),
                host: one.host.clone(),
                to,
                others,
                tos: one.tos.unwrap_or(usual.tos),
                size: one.size.unwrap_or(usual.size),
            }),
            Err(why) => problems.push(why),
        }
    }
    match problems.is_empty() {
        true => Ok(targets),
        false => Err(PingError::Unusable(problems.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_sys::resolve::Family;

    const HOST: Usual<'_> = Usual { family: Family::Any, own: None, port: None, device: None };
    const USUAL: StreamDefaults<'_> =
        StreamDefaults { host: HOST, tos: Tos::from_byte(0), size: 56 };

    #[test]
    fn a_stream_is_written_as_ping_exp_has_it() {
        let full: StreamSpec = "voip,example.org,EF,160".parse().expect("it is whole");
        assert_eq!((full.name.as_str(), full.host.as_str()), ("voip", "example.org"));
        assert_eq!((full.tos, full.size), (Some(Tos::from_byte(0xb8)), Some(160)));
        let old: StreamSpec = "bulk, example.org, 0x08".parse().expect("TOS as a number");
        assert_eq!((old.tos, old.size), (Some(Tos::from_byte(8)), None));
        let skipped: StreamSpec = "a,b,,1400".parse().expect("the usual TOS");
        assert_eq!((skipped.tos, skipped.size), (None, Some(1400)));
    }

    #[test]
    fn what_is_no_stream_is_refused_with_what_would_be() {
        for (text, word) in [
            ("", "ID,HOST"),
            ("voip", "ID,HOST"),
            (",host", "empty"),
            ("a,", "empty"),
            ("a,b,EFF", "EF"),
            ("a,b,EF,-1", "0 to 65507"),
            ("a,b,EF,70000", "0 to 65507"),
            ("a,b,EF,1,2", "more than"),
            ("a\u{7},b", "printable"),
        ] {
            let why = text.parse::<StreamSpec>().expect_err(text);
            assert!(why.contains(word), "{text}: {why}");
        }
    }

    #[test]
    fn every_wrong_host_is_told_at_once() {
        let wanted =
            ["127.0.0.1", "name.invalid", "other.invalid", "127.0.0.1"].map(StreamSpec::host);
        let why = resolve(&wanted, USUAL).expect_err("two have no address").to_string();
        for word in ["name.invalid", "other.invalid", "two streams are called `127.0.0.1`"] {
            assert!(why.contains(word), "{why}");
        }
        let six = StreamDefaults { host: Usual { family: Family::V6, ..HOST }, ..USUAL };
        let why =
            resolve(&[StreamSpec::host("127.0.0.1")], six).expect_err("it is IPv4").to_string();
        assert!(why.contains("no IPv6 address"), "{why}");
        let why = resolve(&[StreamSpec::host("[::1]:7")], USUAL).expect_err("no ports").to_string();
        assert!(why.contains("--method udp"), "{why}");
    }

    #[test]
    fn streams_have_what_they_ask_for_and_the_usual_for_the_rest() {
        let wanted = ["a,127.0.0.1:99,EF".parse().unwrap(), StreamSpec::host("::1")];
        let host = Usual { port: Some(5201), ..HOST };
        let usual = StreamDefaults { host, tos: Tos::from_byte(2), ..USUAL };
        let got = resolve(&wanted, usual).expect("addresses need no resolver");
        assert_eq!(got[0].to, "127.0.0.1:99".parse().unwrap());
        assert_eq!((got[0].tos.byte(), got[1].tos.byte()), (0xb8, 2));
        assert_eq!(got[1].to, "[::1]:5201".parse().unwrap());
    }
}
