//! Facts: how a cell's network was set up, and what its streams tell beside their rows.
//!
//! ```text
//!   Fact { when: Before, subject: Queues("modem:wan"), value } ◄──► before, tc/modem:wan, …    in journals and tables
//! ```

use quell_units::Span;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// One thing that is known of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub when: When,
    #[serde(rename = "key")]
    pub subject: Subject,
    /// The description: a JSON text or a plain value.
    pub value: String,
}

impl Fact {
    pub fn new(when: When, subject: Subject, value: impl Into<String>) -> Self {
        Fact { when, subject, value: value.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum When {
    Before,
    During,
    After,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no moment of a fact; there are before, during and after")]
pub struct NoMoment(String);

/// What a fact describes. In journals and tables it is a text, so that a version reads what it does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Subject {
    /// A setting of the kernel: `sysctl/net.ipv4.tcp_rmem`.
    Sysctl(String),
    /// The queues of an interface, as JSON: `tc/router:wan`.
    Queues(String),
    /// A change of the network at this time of the measurement, as JSON: `timeline/2s`.
    Change(Span),
    /// The line that packets between two addresses have to share, as `dsl up`: `way/10.0.0.1>10.0.0.2`.
    Way(IpAddr, IpAddr),
    /// All lines with a rate on their path, where there are several, as `lan up, dsl up`: `path/10.0.0.1>10.0.0.2`.
    Path(IpAddr, IpAddr),
    /// A machine behind a host, and its clock, as JSON: `host/server`.
    Host(String),
    /// A stream: `stream/NAME/losses`.
    Stream(String, Told),
    /// What another version tells.
    Other(String),
}

/// Writes each variant with its word, both ways.
macro_rules! words {
    ($type:ident { $($variant:ident $word:literal,)+ }) => {
        impl $type {
            fn known(word: &str) -> Option<Self> {
                match word { $($word => Some($type::$variant),)+ _ => None }
            }

            fn word(&self) -> Option<&'static str> {
                #[allow(unreachable_patterns, reason = "not every such type has other words")]
                match self { $($type::$variant => Some($word),)+ _ => None }
            }
        }
    };
}

words! { When { Before "before", During "during", After "after", } }

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// The line that it has to share, as `dsl up`.
    Way,
    WayBack,
    /// All lines with a rate that it crosses, where there are several, as `lan up, dsl up`.
    Path,
    PathBack,
    /// How long an answer to one of its packets is waited for at most, in nanoseconds.
    Waits,
    /// Datagrams that were sent before the measurement.
    SentBefore,
    /// Datagrams that arrived before the measurement.
    ReceivedBefore,
    /// Where the times of its packets are taken.
    Clock,
    /// Whether its ends have one clock or two: `same`, `apart`.
    Clocks,
    /// Losses by direction that rows don't tell, as JSON.
    Losses,
    /// Packets without an answer that the server left unanswered, or may have, by what it said: at most so many.
    Unanswered,
    /// Errors by kind, as JSON.
    Errors,
    /// Answers of a TCP port by kind, as JSON.
    Answers,
    /// TCP connects that were answered after their SYN was sent again, as JSON.
    Retried,
    /// Datagrams for which the own queue had no room at first, and for how long in all, as JSON: `{"packets":3,"ns":5000000}`.
    HeldBack,
    /// CPU time that its sender's thread took, in nanoseconds, over the flow's whole life.
    SenderCpu,
    ReceiverCpu,
    /// What the program that measured a flow found of the time that it measured ([`crate::MeasuredFlow`]), as JSON.
    Measured,
    /// What held it up, as JSON (`Finding` of quell-finding); one fact each.
    Found,
    /// How well a call, a game and a page work beside the load, as JSON (`Assessment` of quell-grade).
    Grade,
    /// Whom `quell ping` asked, and how, as JSON.
    Target,
    /// A page load ([`crate::page::PageLoad`]), as JSON; one fact each.
    PageLoad,
    /// What is told of a stream that was brought in from another program, or by another version.
    Other(String),
}

words! {
    Told {
        Way "way",
        WayBack "way-back",
        Path "path",
        PathBack "path-back",
        Waits "waits",
        SentBefore "sent-before",
        ReceivedBefore "received-before",
        Clock "clock",
        Clocks "clocks",
        Losses "losses",
        Unanswered "unanswered",
        Errors "errors",
        Answers "answers",
        Retried "retried",
        HeldBack "held-back",
        SenderCpu "sender-cpu",
        ReceiverCpu "receiver-cpu",
        Measured "measured",
        Found "found",
        Grade "grade",
        Target "target",
        PageLoad "page-load",
    }
}

impl Subject {
    pub fn stream(name: impl Into<String>, what: Told) -> Self {
        Subject::Stream(name.into(), what)
    }

    fn known(key: &str) -> Option<Self> {
        let (kind, rest) = key.split_once('/')?;
        let subject = match kind {
            "sysctl" => Subject::Sysctl(rest.to_owned()),
            "tc" => Subject::Queues(rest.to_owned()),
            "host" => Subject::Host(rest.to_owned()),
            "timeline" => Subject::Change(rest.parse().ok()?),
            "way" | "path" => {
                let (from, to) = rest.split_once('>')?;
                let of = if kind == "way" { Subject::Way } else { Subject::Path };
                of(from.parse().ok()?, to.parse().ok()?)
            }
            "stream" => {
                let (name, what) = rest.rsplit_once('/')?;
                let told = Told::known(what).unwrap_or_else(|| Told::Other(what.to_owned()));
                Subject::Stream(name.to_owned(), told)
            }
            _ => return None,
        };
        // What another version spelt otherwise is kept as it is.
        (subject.to_string() == key).then_some(subject)
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word().unwrap_or_default())
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Other(what) => f.write_str(what),
            known => f.write_str(known.word().unwrap_or_default()),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Sysctl(name) => write!(f, "sysctl/{name}"),
            Subject::Queues(device) => write!(f, "tc/{device}"),
            Subject::Host(name) => write!(f, "host/{name}"),
            Subject::Change(at) => write!(f, "timeline/{at}"),
            Subject::Way(from, to) => write!(f, "way/{from}>{to}"),
            Subject::Path(from, to) => write!(f, "path/{from}>{to}"),
            Subject::Stream(name, what) => write!(f, "stream/{name}/{what}"),
            Subject::Other(key) => f.write_str(key),
        }
    }
}

impl FromStr for When {
    type Err = NoMoment;

    fn from_str(text: &str) -> Result<Self, NoMoment> {
        When::known(text).ok_or_else(|| NoMoment(text.to_owned()))
    }
}

impl TryFrom<String> for When {
    type Error = NoMoment;

    fn try_from(text: String) -> Result<Self, NoMoment> {
        text.parse()
    }
}

impl From<When> for String {
    fn from(when: When) -> String {
        when.to_string()
    }
}

impl From<String> for Subject {
    fn from(key: String) -> Self {
        Subject::known(&key).unwrap_or(Subject::Other(key))
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> String {
        subject.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 15] = [
        "sysctl/net.ipv4.tcp_rmem",
        "tc/modem:wan",
        "timeline/2s",
        "timeline/1.5s",
        "way/10.0.0.1>10.0.0.2",
        "stream/call/losses",
        "stream/tcp 10.0.0.1:4 > 10.0.0.2:5/way-back",
        "stream/a/b/received-before",
        "stream/old/transmitted",
        "timeline/02.00s",
        "way/router>modem",
        "of another version",
        "path/10.0.0.1>10.0.0.2",
        "stream/call/path",
        "host/server",
    ];

    #[test]
    fn every_key_is_written_as_it_was_read() {
        for key in KEYS {
            assert_eq!(Subject::from(key.to_owned()).to_string(), key);
        }
        let subject = |key: &str| Subject::from(key.to_owned());
        assert_eq!(subject(KEYS[2]), Subject::Change(Span::from_secs(2)));
        assert_eq!(subject(KEYS[7]), Subject::stream("a/b", Told::ReceivedBefore));
        assert_eq!(subject(KEYS[9]), Subject::Other(KEYS[9].into()), "spelt otherwise");
    }

    #[test]
    fn a_moment_that_is_none_is_refused_by_name() {
        let error = "later".parse::<When>().unwrap_err().to_string();
        assert!(error.contains("`later`") && error.contains("before, during and after"), "{error}");
    }
}
