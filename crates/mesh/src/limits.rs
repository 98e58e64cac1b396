//! What an agent does for others at most, whatever plan comes: a file of its own, owned by root.
//!
//! ```toml
//! obey = ["hub"]                          # names or keys of those whose plans count
//! packets-per-second = 200                # of all probes together
//! rate = "100Mbit"                        # of a bulk test, and how long one may last
//! duration = "30s"
//! fill-line = true                        # also tests without a rate, as rpm; else none
//! bulk-hours = "02:00-05:00"              # UTC
//! targets = ["10.0.0.0/8", "192.0.2.7"]   # nothing else is ever sent to
//! pages = ["https://www.example.net/"]    # beginnings of URLs
//! ```

use crate::file::{self, DayHours, FileError};
use crate::name::check_name;
use crate::plan::{AgentPlan, PlannedProbe, ProbeKind};
use quell_policy::PrefixText;
use quell_sys::input;
use quell_sys::trusted::{TrustError, TrustedFolder};
use quell_tc::Prefix;
use quell_units::{Rate, Span};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    pub obey: Vec<String>,
    pub packets_per_second: f64,
    pub rate: Rate,
    pub duration: Span,
    #[serde(default)]
    pub fill_line: bool,
    #[serde(default)]
    pub bulk_hours: DayHours,
    pub targets: Vec<PrefixText>,
    #[serde(default)]
    pub pages: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum LimitsError {
    #[error("{0}; without limits of its own an agent takes no plan")]
    Trust(#[from] TrustError),
    #[error("could not read {}: {error}", .path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error(transparent)]
    File(#[from] FileError),
}

/// A probe that is not started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedStart {
    /// Where it is in the plan; none where all of the plan is refused.
    pub probe: Option<usize>,
    pub why: String,
}

/// Longest file.
const LARGEST: u64 = 1 << 20;

/// Most probes of a plan: 30 peers in 30 classes are 900.
const MOST_PROBES: usize = 4096;

impl Limits {
    /// Reads them where only root and this user could have written them.
    pub fn read(path: &Path) -> Result<Self, LimitsError> {
        let path = TrustedFolder::open(path)?.path().to_owned();
        let text = input::text(&path, LARGEST)
            .map_err(|error| LimitsError::Read { path: path.clone(), error })?;
        Ok(file::parse(&path.to_string_lossy(), &text)?)
    }

    /// Whether plans of whom this name or key belongs to count.
    pub fn obeys(&self, who: &str) -> bool {
        self.obey.iter().any(|one| one == who)
    }

    /// What of a plan is not started, and why; all else may be.
    pub fn check(&self, plan: &AgentPlan) -> Vec<RefusedStart> {
        if plan.probes.len() > MOST_PROBES {
            let count = plan.probes.len();
            let why = format!("the plan has {count} probes; an agent takes up to {MOST_PROBES}");
            return vec![RefusedStart { probe: None, why }];
        }
        let (mut refused, mut sent, mut ids) = (Vec::new(), 0.0, HashSet::new());
        for (at, probe) in plan.probes.iter().enumerate() {
            let packets = packets_per_second(probe);
            let why = if let Err(why) = self.probe(probe) {
                why
            } else if !ids.insert((&probe.class, &probe.peer)) {
                format!("the plan asks for {} to {} twice", probe.class, probe.peer)
            } else if sent + packets > self.packets_per_second {
                let most = self.packets_per_second;
                format!("with it more than {most} packets a second would be sent")
            } else {
                sent += packets;
                continue;
            };
            refused.push(RefusedStart { probe: Some(at), why });
        }
        refused
    }

    fn probe(&self, probe: &PlannedProbe) -> Result<(), String> {
        check_name(&probe.class).and(check_name(&probe.peer)).map_err(|e| e.to_string())?;
        if probe.interval.is_zero() {
            return Err("an interval of 0 has no end".to_owned());
        }
        if probe.offset >= probe.interval {
            let (offset, interval) = (probe.offset, probe.interval);
            return Err(format!("it begins {offset} into an interval of {interval}"));
        }
        let rate = match probe.kind {
            ProbeKind::Page => return self.page(&probe.to),
            ProbeKind::Flow { rate, .. } => rate,
            ProbeKind::Rpm { .. } => None,
            _ => return self.target(&probe.to),
        };
        self.target(&probe.to)?;
        let most = self.rate;
        match rate.map(Rate::from_bps) {
            None if !self.fill_line => {
                return Err(format!("it has no rate; up to {most} is allowed"));
            }
            Some(rate) if rate > most => {
                return Err(format!("its rate is {rate}; up to {most} is allowed"));
            }
            _ => {}
        }
        let (duration, most) = (probe.kind.lasts(), self.duration);
        if duration > most {
            return Err(format!("it lasts {duration}; up to {most} is allowed"));
        }
        if duration > probe.interval {
            return Err(format!("it lasts {duration}, longer than its interval"));
        }
        let day = DayHours::DAY.nanos();
        let is_daily = probe.interval.nanos().is_multiple_of(day);
        let at = (probe.offset.nanos() % day) as i64;
        if self.bulk_hours != DayHours::default()
            && !(is_daily && self.bulk_hours.hold(at, duration))
        {
            return Err("it would run outside of the hours for bulk tests".to_owned());
        }
        Ok(())
    }

    /// An address, with a port or without. A name is none: what it stands for is whoever answers for it.
    fn target(&self, to: &str) -> Result<(), String> {
        let with_port = || to.parse::<SocketAddr>().ok().map(|to| to.ip());
        let address = to.parse::<IpAddr>().ok().or_else(with_port);
        let address = address.ok_or_else(|| format!("its target {to:?} is no address"))?;
        let address = address.to_canonical();
        let within =
            |PrefixText(prefix): &PrefixText| Prefix::new(address, prefix.length) == Some(*prefix);
        let is_of_many = address.is_multicast()
            || address.is_unspecified()
            || address == IpAddr::from([255, 255, 255, 255]);
        match self.targets.iter().any(within) && !is_of_many {
            true => Ok(()),
            false => Err(format!("its target {address} is not among those allowed")),
        }
    }

    fn page(&self, url: &str) -> Result<(), String> {
        // `https://www.example.net` allows neither `https://www.example.network` nor `https://www.example.net@elsewhere`.
        let goes_on = |page: &String| {
            url.strip_prefix(page).is_some_and(|rest| page.ends_with('/') || rest.is_empty())
        };
        match self.pages.iter().any(goes_on) {
            true => Ok(()),
            false => Err("its page is not among those allowed".to_owned()),
        }
    }
}

/// Packets that a probe sends by itself in a second, on the average; those of bulk tests have a rate instead.
pub fn packets_per_second(probe: &PlannedProbe) -> f64 {
    let packets = match probe.kind {
        ProbeKind::Icmp { .. } | ProbeKind::Stamp { .. } => 1.0,
        // A handshake and its end.
        ProbeKind::Tcp => 4.0,
        // A round of hops, three packets to each of some fifteen.
        ProbeKind::Path => 45.0,
        ProbeKind::Page | ProbeKind::Flow { .. } | ProbeKind::Rpm { .. } => 0.0,
    };
    packets / probe.interval.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PLAN_FORMAT;
    use quell_units::Tos;

    const LIMITS: &str = r#"
        obey = ["hub", "UABC"]
        packets-per-second = 10
        rate = "100Mbit"
        duration = "30s"
        bulk-hours = "02:00-05:00"
        targets = ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"]
        pages = ["https://www.example.net/", "https://one.example/page"]
    "#;

    fn limits() -> Limits {
        file::parse("limits", LIMITS).unwrap()
    }

    fn ping(to: &str) -> PlannedProbe {
        PlannedProbe {
            class: "voice".into(),
            peer: "ams".into(),
            to: to.into(),
            kind: ProbeKind::Icmp { size: 64, tos: Tos::from_byte(0) },
            interval: Span::from_secs(1),
            offset: Span::ZERO,
        }
    }

    fn flow(rate: Option<u64>, seconds: u64, hour: u64) -> PlannedProbe {
        let duration = Span::from_secs(seconds);
        PlannedProbe {
            kind: ProbeKind::Flow { duration, down: true, rate },
            interval: Span::from_secs(86_400),
            offset: Span::from_secs(hour * 3600),
            ..ping("10.0.0.1:5201")
        }
    }

    fn rpm(seconds: u64) -> PlannedProbe {
        let kind = ProbeKind::Rpm { duration: Span::from_secs(seconds) };
        PlannedProbe { kind, class: "rpm".into(), ..flow(None, seconds, 2) }
    }

    fn plan(probes: Vec<PlannedProbe>) -> AgentPlan {
        let lease = Span::from_secs(60);
        AgentPlan { format: PLAN_FORMAT, agent: "fra".into(), revision: 1, lease, probes }
    }

    #[test]
    fn a_hostile_plan_starts_nothing_that_the_file_does_not_allow() {
        let page = |to: &str| PlannedProbe { kind: ProbeKind::Page, ..ping(to) };
        let rate = Some(50_000_000);
        let fine = "";
        for (probe, why) in [
            (ping("10.1.2.3"), fine),
            (ping("2001:db8::1"), fine),
            (ping("192.0.2.7"), fine),
            (ping("::ffff:10.1.2.3"), fine),
            (flow(rate, 30, 2), fine),
            (page("https://www.example.net/a?b"), fine),
            (page("https://one.example/page"), fine),
            // Third hosts: as a target, and as whoever a name stands for.
            (ping("192.0.2.8"), "its target 192.0.2.8 is not among"),
            (ping("::ffff:192.0.2.8"), "its target 192.0.2.8 is not among"),
            (ping("127.0.0.1"), "its target 127.0.0.1 is not among"),
            (ping("victim.example"), "is no address"),
            (ping("10.0.0.1, 192.0.2.8"), "is no address"),
            (ping("255.255.255.255"), "is not among"),
            (ping("224.0.0.1"), "is not among"),
            (ping("0.0.0.0"), "is not among"),
            (page("https://www.example.network/"), "its page is not among"),
            (page("https://www.example.net@victim.example/"), "its page is not among"),
            (page("https://one.example/page/../else"), "its page is not among"),
            (page("file:///etc/shadow"), "its page is not among"),
            // Rates and times.
            (PlannedProbe { interval: Span::ZERO, ..ping("10.0.0.1") }, "an interval of 0"),
            (
                PlannedProbe { interval: Span::from_nanos(1), ..ping("10.0.0.1") },
                "more than 10 packets",
            ),
            (PlannedProbe { offset: Span::from_secs(9), ..ping("10.0.0.1") }, "it begins 9s into"),
            (flow(None, 10, 2), "it has no rate; up to 100Mbit"),
            (rpm(10), "it has no rate; up to 100Mbit"),
            (flow(Some(u64::MAX), 10, 2), "its rate is"),
            (flow(rate, 31, 2), "it lasts 31s; up to 30s"),
            (flow(rate, 10, 5), "outside of the hours"),
            (
                PlannedProbe { interval: Span::from_secs(3600), ..flow(rate, 10, 0) },
                "outside of the hours",
            ),
            (
                PlannedProbe {
                    interval: Span::from_secs(5),
                    offset: Span::ZERO,
                    ..flow(rate, 10, 2)
                },
                "longer than its interval",
            ),
            (PlannedProbe { peer: "../etc".into(), ..ping("10.0.0.1") }, "is no name"),
            (PlannedProbe { class: "a b".into(), ..ping("10.0.0.1") }, "is no name"),
        ] {
            let refused = limits().check(&plan(vec![probe.clone()]));
            let told = refused.first().map_or("", |r| &r.why);
            let fits = if why.is_empty() { told.is_empty() } else { told.contains(why) };
            assert!(fits, "{probe:?}: {told}");
        }
    }

    #[test]
    fn what_fills_the_line_needs_a_word_of_its_own() {
        let limits = Limits { fill_line: true, ..limits() };
        assert_eq!(limits.check(&plan(vec![rpm(10), flow(None, 10, 2)])), []);
        let refused = limits.check(&plan(vec![rpm(40)]));
        assert_eq!(refused[0].why, "it lasts 40s; up to 30s is allowed");
    }

    #[test]
    fn a_plan_as_a_whole_is_bounded_too() {
        let to = |n: usize| PlannedProbe { peer: format!("p{n}"), ..ping("10.0.0.1") };
        let refused = limits().check(&plan((0..15).map(to).collect()));
        let at: Vec<_> = refused.iter().map(|r| r.probe.unwrap()).collect();
        assert_eq!(at, [10, 11, 12, 13, 14], "ten packets a second, and no more");
        let refused = limits().check(&plan(vec![to(1), to(1)]));
        assert!(refused[0].probe == Some(1) && refused[0].why.ends_with("twice"), "{refused:?}");
        let million = plan((0..1_000_000).map(to).collect());
        let refused = limits().check(&million);
        assert!(refused.len() == 1 && refused[0].why.contains("1000000 probes"), "{refused:?}");
        assert!(limits().obeys("hub") && limits().obeys("UABC") && !limits().obeys("hu"));
    }

    #[test]
    fn a_file_that_others_may_write_or_with_an_unknown_word_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.toml");
        std::fs::write(&path, LIMITS).unwrap();
        assert_eq!(Limits::read(&path).unwrap(), limits());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let why = Limits::read(&path).unwrap_err().to_string();
        assert!(why.contains("other users may write") && why.contains("no plan"), "{why}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::write(&path, LIMITS.replace("obey", "obeys")).unwrap();
        let why = Limits::read(&path).unwrap_err().to_string();
        assert!(why.contains("agent.toml, line 2: unknown field `obeys`"), "{why}");
        assert!(Limits::read(&dir.path().join("none")).is_err());
    }
}
