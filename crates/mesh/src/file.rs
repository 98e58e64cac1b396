//! `mesh.toml`: who measures whom, how, and how often.

use crate::name::check_name;
use crate::plan::ProbeKind;
use crate::rights::HUB;
use quell_units::{Rate, Span, Tos};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What `quell mesh init` writes.
pub const EXAMPLE: &str = include_str!("mesh.toml");

/// A file that can't be, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}, line {line}: {why}")]
pub struct FileError {
    pub name: String,
    pub line: usize,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MeshFile {
    pub seed: u64,
    /// How many others each agent measures.
    #[serde(default = "thirty")]
    pub peers: usize,
    /// How long an agent goes on that hears nothing.
    #[serde(default = "a_minute")]
    pub lease: Span,
    /// When bulk tests may run.
    #[serde(default)]
    pub bulk_hours: DayHours,
    pub agents: BTreeMap<String, AgentEntry>,
    #[serde(default)]
    pub targets: BTreeMap<String, TargetEntry>,
    pub probes: BTreeMap<String, ProbeClass>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentEntry {
    pub address: IpAddr,
    pub site: Option<String>,
    /// The kinds of probes in which it takes part; all where it does not say.
    pub may: Option<Vec<KindName>>,
}

/// What is measured and measures nothing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetEntry {
    /// An address, or of a page its URL.
    pub address: String,
}

/// Probes of one kind, between all peers or to targets.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeClass {
    pub kind: KindName,
    pub interval: Span,
    /// Names of targets; between agents where it does not say.
    #[serde(default)]
    pub to: Vec<String>,
    size: Option<u16>,
    tos: Option<Tos>,
    port: Option<u16>,
    duration: Option<Span>,
    down: Option<bool>,
    rate: Option<Rate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KindName {
    Icmp,
    Stamp,
    Tcp,
    Path,
    Page,
    Flow,
    Rpm,
}

/// Hours of each day in UTC, as `02:00-05:00`; over midnight where the end is before the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct DayHours {
    /// From midnight on.
    pub from: Span,
    pub length: Span,
}

impl DayHours {
    pub const DAY: Span = Span::from_secs(86_400);

    /// Whether all of so long a time from then on is within them.
    pub fn hold(self, wall_ns: i64, duration: Span) -> bool {
        let day = Self::DAY.nanos();
        let since = (wall_ns.rem_euclid(day as i64) as u64 + day - self.from.nanos()) % day;
        self.length == Self::DAY || since.saturating_add(duration.nanos()) <= self.length.nanos()
    }
}

impl Default for DayHours {
    fn default() -> Self {
        Self { from: Span::ZERO, length: Self::DAY }
    }
}

impl TryFrom<String> for DayHours {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let minutes = |text: &str| {
            let (hour, minute) = text.trim().split_once(':')?;
            let (hour, minute): (u64, u64) = (hour.parse().ok()?, minute.parse().ok()?);
            (hour < 24 && minute < 60).then_some(hour * 60 + minute)
        };
        let ends = text.split_once('-').and_then(|(a, b)| Some((minutes(a)?, minutes(b)?)));
        let (from, until) = ends.ok_or_else(|| format!("{text:?} is not like 02:00-05:00"))?;
        let day = 24 * 60;
        let length = (until + day - from) % day;
        let length = if length == 0 { day } else { length };
        Ok(Self { from: Span::from_secs(60 * from), length: Span::from_secs(60 * length) })
    }
}

fn thirty() -> usize {
    30
}

fn a_minute() -> Span {
    Span::from_secs(60)
}

/// A text as what it is meant to be; `name` says in errors where it is from.
pub fn parse<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, FileError> {
    toml::from_str(text).map_err(|why: toml::de::Error| {
        let before = why.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(0, |before| before.matches('\n').count()) + 1;
        let why = why.message().replace(char::is_control, " ");
        FileError { name: name.to_owned(), line, why }
    })
}

impl MeshFile {
    pub fn parse(name: &str, text: &str) -> Result<Self, FileError> {
        let file: Self = parse(name, text)?;
        file.check().map_err(|(of, why)| {
            let line = text.lines().position(|line| line.contains(&of)).unwrap_or(0) + 1;
            FileError { name: name.to_owned(), line, why }
        })?;
        Ok(file)
    }

    /// What is wrong, and what its line has in it.
    fn check(&self) -> Result<(), (String, String)> {
        let names = self.agents.keys().chain(self.targets.keys()).chain(self.probes.keys());
        for name in names {
            check_name(name).map_err(|e| (name.clone(), e.to_string()))?;
        }
        if self.agents.contains_key(HUB) {
            let why =
                format!("{HUB} is whose credentials the collector has; name the agent otherwise");
            return Err((format!("agents.{HUB}"), why));
        }
        if let Some(both) = self.targets.keys().find(|name| self.agents.contains_key(*name)) {
            let why = format!("{both} is an agent too; give the target another name");
            return Err((format!("targets.{both}"), why));
        }
        for (name, class) in &self.probes {
            self.check_class(class).map_err(|why| (format!("probes.{name}"), why))?;
        }
        Ok(())
    }

    fn check_class(&self, class: &ProbeClass) -> Result<(), String> {
        class.parts()?;
        if class.interval.is_zero() {
            return Err("an interval of 0 has no end; take 1s".to_owned());
        }
        if class.kind == KindName::Page && class.to.is_empty() {
            return Err("a page needs `to`, the names of targets with a URL".to_owned());
        }
        for target in &class.to {
            let entry = self.targets.get(target);
            let address =
                &entry.ok_or_else(|| format!("{target} is no target of this file"))?.address;
            let (fits, wanted) = match class.kind {
                KindName::Page => (address.contains("://"), "a URL"),
                _ => (address.parse::<IpAddr>().is_ok(), "an IP address"),
            };
            if !fits {
                return Err(format!(
                    "its target {target} is {address:?}; this kind needs {wanted}"
                ));
            }
        }
        Ok(())
    }
}

impl ProbeClass {
    /// What it asks for, and the port where its kind needs one.
    pub fn parts(&self) -> Result<(ProbeKind, Option<u16>), String> {
        let (size, tos) = (self.size.unwrap_or(64), self.tos.unwrap_or(Tos::from_byte(0)));
        let duration = |default| self.duration.unwrap_or(Span::from_secs(default));
        let (kind, takes): (_, &[&str]) = match self.kind {
            KindName::Icmp => (ProbeKind::Icmp { size, tos }, &["size", "tos"]),
            KindName::Stamp => (ProbeKind::Stamp { size, tos }, &["size", "tos", "port"]),
            KindName::Tcp => (ProbeKind::Tcp, &["port"]),
            KindName::Path => (ProbeKind::Path, &[]),
            KindName::Page => (ProbeKind::Page, &[]),
            KindName::Flow => {
                let (down, rate) = (self.down.unwrap_or(true), self.rate.map(Rate::bps));
                let kind = ProbeKind::Flow { duration: duration(10), down, rate };
                (kind, &["port", "duration", "down", "rate"])
            }
            KindName::Rpm => (ProbeKind::Rpm { duration: duration(20) }, &["port", "duration"]),
        };
        let given = [
            ("size", self.size.is_some()),
            ("tos", self.tos.is_some()),
            ("port", self.port.is_some()),
            ("duration", self.duration.is_some()),
            ("down", self.down.is_some()),
            ("rate", self.rate.is_some()),
        ];
        if let Some((name, _)) = given.into_iter().find(|(n, given)| *given && !takes.contains(n)) {
            return Err(format!("`{name}` is not for this kind, which takes {}", takes.join(", ")));
        }
        let port = self.port.unwrap_or(quell_wire::iperf3::PORT);
        Ok((kind, takes.contains(&"port").then_some(port)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_init_writes_is_one() {
        let file = MeshFile::parse("mesh.toml", EXAMPLE).unwrap();
        assert_eq!((file.agents.len(), file.targets.len(), file.probes.len()), (3, 1, 4));
        assert_eq!(file.bulk_hours, DayHours::try_from("02:00-05:00".to_owned()).unwrap());
        assert!(EXAMPLE.lines().all(|line| line.chars().count() <= 120));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (from, to, line, why) in [
            ("seed = 1", "seeds = 1", 2, "unknown field `seeds`"),
            ("seed = 1 ", "", 1, "missing field `seed`"),
            ("[agents.fra]", "[agents.\"a/b\"]", 8, "\"a/b\" is no name"),
            ("[agents.fra]", "[agents.hub]", 8, "hub is whose credentials the collector has"),
            ("192.0.2.10", "fra.example.net", 9, "invalid IP address"),
            ("[targets.wiki]", "[targets.fra]", 21, "fra is an agent too"),
            ("interval = \"1s\"", "interval = \"0s\"", 25, "an interval of 0 has no end"),
            ("size = 172 ", "duration = \"3s\"", 25, "`duration` is not for this kind"),
            ("to = [\"wiki\"]", "to = [\"wikki\"]", 41, "wikki is no target"),
            ("to = [\"wiki\"]", "", 41, "a page needs `to`"),
            ("https://www.wikipedia.org/", "192.0.2.1", 41, "this kind needs a URL"),
            ("02:00-05:00", "2-5", 5, "\"2-5\" is not like 02:00-05:00"),
            ("\"icmp\"", "\"imcp\"", 18, "unknown variant `imcp`"),
        ] {
            assert!(EXAMPLE.contains(from), "{from}");
            let text = EXAMPLE.replacen(from, to, 1);
            let error = MeshFile::parse("mesh.toml", &text).expect_err(to);
            assert_eq!(error.line, line, "{to}: {error}");
            assert!(error.why.contains(why), "{to}: {error}");
        }
    }

    #[test]
    fn hours_may_go_over_midnight() {
        let hours = DayHours::try_from("22:00-02:00".to_owned()).unwrap();
        let at = |hour: i64| hour * 3_600_000_000_000 + 1_795_824_000_000_000_000;
        let hour = Span::from_secs(3600);
        for (begin, is) in [(21, false), (22, true), (25, true), (26, false), (12, false)] {
            assert_eq!(hours.hold(at(begin), hour), is, "{begin}");
        }
        assert!(DayHours::default().hold(at(23), Span::from_secs(7200)));
        for wrong in ["25:00-01:00", "1-2", "", "02:00", "02:60-03:00"] {
            assert!(DayHours::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
