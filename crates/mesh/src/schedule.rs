//! A mesh's file as what each agent is to measure, and when: pings spread over their interval by the seed, bulk tests so that no two
//! share a host or a known hop.
//!
//! ```text
//!   fra   ██speed►ams──────────────██web──    a bulk test takes its two hosts, and each hop between them that is known
//!   ams   ██──────────██speed►nyc─────────
//!   nyc   ────────────██──────────────────    every slot is planned, or refused with the reason
//! ```

use crate::file::{DayHours, MeshFile, ProbeClass};
use crate::folder::{FolderError, MeshReader, PairRow, Select};
use crate::peers::peers;
use crate::plan::{AgentPlan, GUARD, PLAN_FORMAT, PlannedProbe};
use crate::record::PathHop;
use quell_stats::Rng;
use quell_units::Span;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

/// The hops from an agent to a peer, as they were seen.
pub type KnownPaths = BTreeMap<(String, String), Vec<IpAddr>>;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schedule {
    pub plans: Vec<AgentPlan>,
    pub refused: Vec<RefusedProbe>,
}

/// What the file asks for and nobody will do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedProbe {
    pub agent: String,
    pub peer: String,
    pub class: String,
    pub why: String,
}

/// The newest path of each pair in the folder, from this time on.
pub fn known_paths(folder: &MeshReader, from_ns: i64) -> Result<KnownPaths, FolderError> {
    let rows = folder.rows(&Select::times(from_ns, i64::MAX))?;
    let path = |row: PairRow<Vec<PathHop>>| {
        let hops = row.what.into_iter().filter_map(|hop| hop.address).collect();
        ((row.pair.agent.to_string(), row.pair.peer.to_string()), hops)
    };
    Ok(rows.into_iter().map(path).collect())
}

impl MeshFile {
    pub fn schedule(&self, revision: u64, paths: &KnownPaths) -> Schedule {
        let names: Vec<&str> = self.agents.keys().map(String::as_str).collect();
        let (mut refused, mut bulk) = (Vec::new(), Vec::new());
        let mut plans: BTreeMap<&str, Vec<PlannedProbe>> = BTreeMap::new();
        for (agent, peers) in &peers(&names, self.peers, self.seed) {
            let plan = plans.entry(agent).or_default();
            for (name, class) in &self.probes {
                let targets = class.to.iter().map(String::as_str);
                let others = peers.iter().copied().filter(|_| class.to.is_empty());
                for peer in targets.chain(others) {
                    match self.probe(agent, peer, name, class) {
                        Ok(probe) if probe.kind.is_bulk() => bulk.push((*agent, probe)),
                        Ok(probe) => plan.push(probe),
                        Err(why) => refused.push(RefusedProbe::new(agent, peer, name, why)),
                    }
                }
            }
        }
        // The order in which they choose their times is the seed's, so that no name goes first.
        bulk.sort_by_key(|(agent, probe)| self.draw(agent, &probe.peer, &probe.class));
        let mut cycle = Cycle::new(self.bulk_hours, &bulk);
        for (agent, mut probe) in bulk {
            let hops = paths.get(&(agent.to_owned(), probe.peer.clone()));
            match cycle.place(agent, &probe, hops.map_or(&[], Vec::as_slice)) {
                Ok(offset) => {
                    probe.offset = offset;
                    plans.entry(agent).or_default().push(probe);
                }
                Err(why) => {
                    refused.push(RefusedProbe::new(agent, &probe.peer, &probe.class, why));
                }
            }
        }
        let plan = |(agent, probes): (&str, _)| AgentPlan {
            format: PLAN_FORMAT,
            agent: agent.to_owned(),
            revision,
            lease: self.lease,
            probes,
        };
        Schedule { plans: plans.into_iter().map(plan).collect(), refused }
    }

    fn draw(&self, agent: &str, peer: &str, class: &str) -> u64 {
        Rng::new(self.seed).derive(&format!("time/{agent}/{peer}/{class}")).u64()
    }

    fn probe(
        &self,
        agent: &str,
        peer: &str,
        name: &str,
        class: &ProbeClass,
    ) -> Result<PlannedProbe, String> {
        for end in [agent, peer] {
            let may = self.agents.get(end).and_then(|entry| entry.may.as_ref());
            if may.is_some_and(|may| !may.contains(&class.kind)) {
                return Err(format!("{end} takes no part in probes of this kind"));
            }
        }
        let (kind, port) = class.parts()?;
        let of_target = || self.targets.get(peer).map(|entry| entry.address.clone());
        let address = self.agents.get(peer).map(|entry| entry.address.to_string());
        let address = address.or_else(of_target).ok_or_else(|| format!("{peer} has no address"))?;
        let to = match (port, address.parse::<IpAddr>()) {
            (Some(port), Ok(address)) => SocketAddr::new(address, port).to_string(),
            _ => address,
        };
        let interval = class.interval;
        let offset = Span::from_nanos(self.draw(agent, peer, name) % interval.nanos().max(1));
        let (class, peer) = (name.to_owned(), peer.to_owned());
        Ok(PlannedProbe { class, peer, to, kind, interval, offset })
    }
}

impl RefusedProbe {
    fn new(agent: &str, peer: &str, class: &str, why: String) -> Self {
        let (agent, peer, class) = (agent.to_owned(), peer.to_owned(), class.to_owned());
        Self { agent, peer, class, why }
    }
}

/// The time in which all bulk tests come round, and when each host and hop is busy in it.
struct Cycle {
    hours: DayHours,
    length: u64,
    /// Begin and end of each test; each test twice, a cycle apart.
    busy: HashMap<String, BTreeMap<u64, u64>>,
}

impl Cycle {
    fn new(hours: DayHours, bulk: &[(&str, PlannedProbe)]) -> Self {
        let longest = bulk.iter().map(|(_, probe)| probe.interval.nanos()).max().unwrap_or(1);
        let is_all_day = hours == DayHours::default();
        let length = if is_all_day { longest } else { DayHours::DAY.nanos() };
        Self { hours, length, busy: HashMap::new() }
    }

    /// When within its interval a test has its hosts for itself, each time that it comes round.
    fn place(&mut self, agent: &str, test: &PlannedProbe, hops: &[IpAddr]) -> Result<Span, String> {
        let interval = test.interval.nanos();
        let duration = test.kind.lasts();
        let takes = duration.nanos().saturating_add(GUARD.nanos());
        let is_all_day = self.hours == DayHours::default();
        if !is_all_day && interval != self.length {
            return Err(format!("with bulk-hours its interval must be 24h, not {}", test.interval));
        }
        let (from, window) = match is_all_day {
            true => (0, interval),
            false => (self.hours.from.nanos(), self.hours.length.nanos()),
        };
        if !self.length.is_multiple_of(interval) {
            let cycle = Span::from_nanos(self.length);
            return Err(format!("its interval must divide {cycle}, and is {}", test.interval));
        }
        let Some(last) = window.checked_sub(takes) else {
            let window = Span::from_nanos(window);
            return Err(format!("it takes {duration} and 2 s more, and there is only {window}"));
        };
        let hops = hops.iter().map(|hop| format!("hop {hop}"));
        let hosts = [format!("host {agent}"), format!("host {}", test.peer)];
        let things: Vec<String> = hosts.into_iter().chain(hops).collect();
        // From the time that was drawn on, then from the beginning.
        let drawn = test.offset.nanos() % (last + 1);
        for (mut at, end) in [(drawn, last), (0, drawn)] {
            while at <= end {
                let offset = (from + at) % self.length % interval;
                let Some(wait) = self.busy_for(&things, offset, interval, takes) else {
                    self.take(&things, offset, interval, takes);
                    return Ok(Span::from_nanos(offset));
                };
                at += wait;
            }
        }
        Err("no time is left in which both hosts and all hops are free".to_owned())
    }

    /// How much later it may be tried again; none where nothing is taken in any round of it.
    fn busy_for(&self, things: &[String], offset: u64, interval: u64, takes: u64) -> Option<u64> {
        let rounds = (0..self.length / interval).map(|round| offset + round * interval);
        let waits = rounds.flat_map(|at| [at, at + self.length]).filter_map(|at| {
            let of = |thing: &String| {
                let (_, end) = self.busy.get(thing)?.range(..at + takes).next_back()?;
                end.checked_sub(at).filter(|wait| *wait > 0)
            };
            things.iter().filter_map(of).max()
        });
        waits.max()
    }

    fn take(&mut self, things: &[String], offset: u64, interval: u64, takes: u64) {
        for thing in things {
            let busy = self.busy.entry(thing.clone()).or_default();
            for at in (0..2 * self.length / interval).map(|round| offset + round * interval) {
                busy.insert(at, at + takes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ProbeKind;
    use proptest::prelude::*;

    fn mesh(agents: usize, head: &str, probes: &str) -> MeshFile {
        let mut text = format!("seed = 3\n{head}\n");
        for n in 0..agents {
            text += &format!("[agents.a{n}]\naddress = \"10.0.{}.{}\"\n", n / 250, n % 250 + 1);
        }
        MeshFile::parse("mesh.toml", &(text + probes)).unwrap()
    }

    /// Times at which a test runs in a day, with its hosts and hops.
    fn slots(schedule: &Schedule, paths: &KnownPaths) -> Vec<(u64, u64, Vec<String>)> {
        let day = DayHours::DAY.nanos();
        let mut slots = Vec::new();
        for plan in &schedule.plans {
            for probe in plan.probes.iter().filter(|probe| probe.kind.is_bulk()) {
                let ProbeKind::Flow { duration, .. } = probe.kind else { panic!("a flow") };
                let hops = paths.get(&(plan.agent.clone(), probe.peer.clone()));
                let mut things = vec![plan.agent.clone(), probe.peer.clone()];
                things.extend(hops.into_iter().flatten().map(IpAddr::to_string));
                let mut at = probe.offset.nanos();
                while at < day {
                    slots.push((at, at + duration.nanos(), things.clone()));
                    at += probe.interval.nanos();
                }
            }
        }
        slots.sort();
        slots
    }

    fn clashes(slots: &[(u64, u64, Vec<String>)]) -> usize {
        let mut until: HashMap<&str, u64> = HashMap::new();
        let mut found = 0;
        for (at, end, things) in slots {
            for thing in things {
                let last = until.entry(thing).or_default();
                found += usize::from(*last > *at);
                *last = *end;
            }
        }
        found
    }

    #[test]
    fn no_two_bulk_tests_share_a_host_or_a_known_hop_and_each_is_planned_or_refused() {
        let flows = "[probes.speed]\nkind = \"flow\"\ninterval = \"6h\"\nduration = \"10s\"\n\
                     [probes.long]\nkind = \"flow\"\ninterval = \"24h\"\nduration = \"30s\"\nport = 9\n";
        let night = "[probes.speed]\nkind = \"flow\"\ninterval = \"24h\"\nduration = \"10s\"\n";
        let hop: IpAddr = "192.0.2.1".parse().unwrap();
        let hour = "bulk-hours = \"23:30-00:30\"";
        for (head, probes, agents, shared, refused) in [
            ("peers = 8", flows, 20, false, 0..=0),
            // One hop for 20 × 8 tests of 12 s four times a day, and of 32 s once a day: there is room.
            ("peers = 8", flows, 20, true, 0..=0),
            (&format!("peers = 8\n{hour}"), night, 20, false, 0..=0),
            // 3600 s hold 300 tests of 12 s on one hop: of 600, 300 are refused.
            (&format!("peers = 30\n{hour}"), night, 20, true, 80..=180),
        ] {
            let file = mesh(agents, head, probes);
            let mut paths = KnownPaths::new();
            for plan in file.schedule(1, &paths).plans {
                for probe in plan.probes.iter().filter(|_| shared) {
                    paths.insert((plan.agent.clone(), probe.peer.clone()), vec![hop]);
                }
            }
            let schedule = file.schedule(1, &paths);
            assert_eq!(clashes(&slots(&schedule, &paths)), 0, "{head} {shared}");
            let planned: usize = schedule.plans.iter().map(|plan| plan.probes.len()).sum();
            let peers = file.peers.min(agents - 1);
            assert_eq!(planned + schedule.refused.len(), agents * peers * file.probes.len());
            assert!(refused.contains(&schedule.refused.len()), "{}", schedule.refused.len());
            assert!(schedule.refused.iter().all(|r| r.why.starts_with("no time is left")));
            if head.contains("bulk-hours") {
                let hours = file.bulk_hours;
                let within = |(at, end, _): &(u64, u64, _)| {
                    hours.hold(*at as i64, Span::from_nanos(end - at))
                };
                assert!(slots(&schedule, &paths).iter().all(within));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn whatever_the_intervals_no_host_is_in_two_bulk_tests(
            agents in 2_usize..9, seconds in 1_u64..200, every in prop::sample::select(vec!["5min", "7min", "30min", "1h"]),
        ) {
            let probes = format!(
                "[probes.a]\nkind = \"flow\"\ninterval = \"{every}\"\nduration = \"{seconds}s\"\n\
                 [probes.b]\nkind = \"flow\"\ninterval = \"1h\"\nduration = \"7s\"\n",
            );
            let file = mesh(agents, "", &probes);
            let schedule = file.schedule(1, &KnownPaths::new());
            prop_assert_eq!(clashes(&slots(&schedule, &KnownPaths::new())), 0);
            let planned: usize = schedule.plans.iter().map(|plan| plan.probes.len()).sum();
            prop_assert_eq!(planned + schedule.refused.len(), 2 * agents * (agents - 1));
        }
    }

    #[test]
    fn what_can_never_be_is_refused_with_its_reason() {
        let flow = |interval: &str, duration: &str| {
            format!(
                "[probes.x]\nkind = \"flow\"\ninterval = \"{interval}\"\nduration = \"{duration}\"\n"
            )
        };
        let day = "[probes.y]\nkind = \"flow\"\ninterval = \"24h\"\n";
        let night = "bulk-hours = \"02:00-03:00\"";
        for (head, probes, why) in [
            ("", flow("10s", "10s"), "it takes 10s and 2 s more, and there is only 10s"),
            ("", flow("7h", "10s") + day, "its interval must divide 24h"),
            (night, flow("6h", "10s"), "with bulk-hours its interval must be 24h, not 6h"),
            (night, flow("24h", "2h"), "it takes 2h and 2 s more, and there is only 1h"),
        ] {
            let refused = mesh(2, head, &probes).schedule(1, &KnownPaths::new()).refused;
            assert_eq!(refused.len(), 2, "{refused:?}");
            assert!(refused[0].why.starts_with(why), "{}", refused[0].why);
        }
    }

    #[test]
    fn probes_are_spread_over_their_interval_and_an_agent_takes_part_in_what_it_may() {
        let file = mesh(100, "", "[probes.voice]\nkind = \"stamp\"\ninterval = \"1s\"\n");
        let schedule = file.schedule(4, &KnownPaths::new());
        let mut tenths = [0; 10];
        for probe in schedule.plans.iter().flat_map(|plan| &plan.probes) {
            tenths[(probe.offset.nanos() / 100_000_000) as usize] += 1;
        }
        assert!(tenths.iter().all(|n| (240..=360).contains(n)), "{tenths:?}");
        let example = MeshFile::parse("mesh.toml", crate::file::EXAMPLE).unwrap();
        let schedule = example.schedule(1, &KnownPaths::new());
        let told: Vec<_> =
            schedule.refused.iter().map(|r| (&*r.agent, &*r.peer, &*r.why)).collect();
        let why = "home takes no part in probes of this kind";
        let is = [
            ("ams", "home", why),
            ("fra", "home", why),
            ("home", "ams", why),
            ("home", "fra", why),
        ];
        assert_eq!(told, is);
        let to: Vec<_> = schedule.plans[0].probes.iter().map(|p| (&*p.class, &*p.to)).collect();
        assert!(
            to.contains(&("voice", "192.0.2.10:5201")) && to.contains(&("route", "203.0.113.30"))
        );
        assert!(to.contains(&("web", "https://www.wikipedia.org/")), "{to:?}");
    }
}
