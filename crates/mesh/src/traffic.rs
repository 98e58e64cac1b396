//! What a mesh would send and keep, computed from its schedule before anything is sent.

use crate::limits::packets_per_second;
use crate::plan::{PlannedProbe, ProbeKind};
use crate::schedule::{RefusedProbe, Schedule};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What one agent sends, answers to others included.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AgentTraffic {
    /// Whom it measures.
    pub peers: usize,
    pub probes: usize,
    pub packets_per_second: f64,
    /// On the wire without link headers; in 30 days.
    pub bytes_per_month: f64,
    /// Bulk tests in a day that have no rate: how much they move is not known before.
    pub unbounded_per_day: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Traffic {
    pub agents: BTreeMap<String, AgentTraffic>,
    pub pairs: usize,
    pub packets_per_second: f64,
    pub bytes_per_month: f64,
    pub unbounded_per_day: f64,
    pub rows_per_day: f64,
    /// On the collector's disk: rows, and sketches by minutes and hours.
    pub stored_bytes_per_day: f64,
    pub refused: Vec<RefusedProbe>,
}

const DAY: f64 = 86_400.0;

/// Bytes of a packet in Parquet, its part of the sketches included: an estimate, 6.7 of them the packet's row as in a run.
const STORED: f64 = 12.0;

/// IPv4, and ICMP or UDP.
const HEADERS: f64 = 28.0;

/// What a probe's agent and its peer send, each in bytes a second; none where that is not known before.
fn bytes_per_second(probe: &PlannedProbe) -> Option<(f64, f64)> {
    let packets = packets_per_second(probe);
    let both = |bytes: f64| Some((packets * bytes, packets * bytes));
    match probe.kind {
        ProbeKind::Icmp { size, .. } | ProbeKind::Stamp { size, .. } => {
            both(f64::from(size) + HEADERS)
        }
        // TCP's header has options, and IP's is 20 bytes.
        ProbeKind::Tcp => both(60.0),
        // The answers are the hops', not the peer's.
        ProbeKind::Path => Some((packets * 60.0, 0.0)),
        ProbeKind::Flow { duration, down, rate } => {
            let share = duration.as_secs_f64() / probe.interval.as_secs_f64();
            let bytes = rate? as f64 / 8.0 * share;
            Some(if down { (0.0, bytes) } else { (bytes, 0.0) })
        }
        ProbeKind::Page | ProbeKind::Rpm { .. } => None,
    }
}

impl Traffic {
    pub fn of(schedule: &Schedule) -> Self {
        let mut all = Self { refused: schedule.refused.clone(), ..Self::default() };
        for plan in &schedule.plans {
            let own = all.agents.entry(plan.agent.clone()).or_default();
            let peers: BTreeSet<&str> = plan.probes.iter().map(|probe| &*probe.peer).collect();
            (own.peers, own.probes) = (peers.len(), plan.probes.len());
            all.pairs += peers.len();
        }
        for plan in &schedule.plans {
            for probe in &plan.probes {
                all.add(&plan.agent, probe);
            }
        }
        for agent in all.agents.values() {
            all.packets_per_second += agent.packets_per_second;
            all.bytes_per_month += agent.bytes_per_month;
            all.unbounded_per_day += agent.unbounded_per_day;
        }
        all.stored_bytes_per_day = all.rows_per_day * STORED;
        all
    }

    fn add(&mut self, agent: &str, probe: &PlannedProbe) {
        let packets = packets_per_second(probe);
        let bytes = bytes_per_second(probe);
        let (sent, answered) = bytes.unwrap_or_default();
        if matches!(probe.kind, ProbeKind::Icmp { .. } | ProbeKind::Stamp { .. } | ProbeKind::Tcp) {
            self.rows_per_day += DAY / probe.interval.as_secs_f64();
        }
        if let Some(own) = self.agents.get_mut(agent) {
            own.packets_per_second += packets;
            own.bytes_per_month += sent * 30.0 * DAY;
            if bytes.is_none() {
                own.unbounded_per_day += DAY / probe.interval.as_secs_f64();
            }
        }
        if let Some(peer) = self.agents.get_mut(&probe.peer) {
            let is_answered = !matches!(probe.kind, ProbeKind::Path);
            peer.packets_per_second += if is_answered { packets } else { 0.0 };
            peer.bytes_per_month += answered * 30.0 * DAY;
        }
    }

    /// Who sends most.
    pub fn busiest(&self) -> Option<(&str, &AgentTraffic)> {
        let most =
            |a: &&AgentTraffic, b: &&AgentTraffic| a.bytes_per_month.total_cmp(&b.bytes_per_month);
        let (name, agent) = self.agents.iter().max_by(|(_, a), (_, b)| most(a, b))?;
        Some((name, agent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::MeshFile;
    use crate::schedule::KnownPaths;

    #[test]
    fn a_thousand_agents_with_thirty_peers_are_the_figures_of_the_design() {
        let mut text =
            "seed = 1\n[probes.voice]\nkind = \"stamp\"\nsize = 172\ninterval = \"1s\"\n"
                .to_owned();
        (0..1000).for_each(|n| {
            text += &format!("[agents.a{n}]\naddress = \"10.0.{}.{}\"\n", n / 250, n % 250 + 1);
        });
        let file = MeshFile::parse("mesh.toml", &text).unwrap();
        let all = Traffic::of(&file.schedule(1, &KnownPaths::new()));
        assert_eq!((all.pairs, all.refused.len()), (30_000, 0));
        assert_eq!(all.packets_per_second.round(), 60_000.0, "and as many answers as questions");
        assert_eq!(all.rows_per_day.round(), 2_592_000_000.0);
        let month = 60_000.0 * 200.0 * 30.0 * 86_400.0;
        assert!((all.bytes_per_month / month - 1.0).abs() < 1e-9);
        let (_, busiest) = all.busiest().unwrap();
        assert!((55.0..75.0).contains(&busiest.packets_per_second), "{busiest:?}");
    }

    #[test]
    fn a_flow_is_counted_where_it_is_sent_and_one_without_a_rate_is_unknown() {
        for (options, fra, ams, unbounded) in [
            ("rate = \"80Mbit\"\ndown = true", 3.0e9, 3.0e9, 0.0),
            ("rate = \"80Mbit\"\ndown = false", 3.0e9, 3.0e9, 0.0),
            ("", 0.0, 0.0, 1.0),
        ] {
            let text = format!(
                "seed = 1\n[agents.ams]\naddress = \"10.0.0.1\"\n[agents.fra]\naddress = \"10.0.0.2\"\n\
                 [probes.speed]\nkind = \"flow\"\ninterval = \"24h\"\nduration = \"10s\"\n{options}\n"
            );
            let file = MeshFile::parse("mesh.toml", &text).unwrap();
            let all = Traffic::of(&file.schedule(1, &KnownPaths::new()));
            let told = ["fra", "ams"].map(|name| all.agents[name].bytes_per_month.round());
            assert_eq!(told, [fra, ams], "10 MB/s for 10 s each day");
            assert_eq!(all.agents["fra"].unbounded_per_day, unbounded);
            assert_eq!(all.packets_per_second, 0.0);
        }
    }
}
