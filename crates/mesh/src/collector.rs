//! The collector's side of the wire: whose records are taken, what is stored, who may measure. No socket and no clock in it.
//!
//! ```text
//!   report ──► whose is it? ──► behind what came before? ──► append ──► answer: received
//!                                                               └─ sync ──► answer: stored
//!   keys   ──► the plans; a broker that lost them gets them again
//! ```

use crate::folder::{FolderError, MeshFolder};
use crate::messages::{
    self, AgentReport, CollectorAnswer, FORMAT, SlotCounts, USUAL_LEASE, to_agent,
};
use crate::name::check_name;
use crate::plan::{ALL_PLANS, AgentPlan};
use crate::record::{Record, RecordKind};
use quell_metrics::{MetricHistogram, MetricKind, MetricsPage, RTT_SECONDS};
use quell_model::frame;
use quell_model::rows::EchoStatus;
use quell_units::fmt::plural;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

/// Seconds that an agent's clock may be ahead of the collector's.
const CLOCK_AHEAD: i64 = 60;

/// Peers and classes of one agent: each takes memory and place, and no true mesh has so many.
const MOST_PAIRS: usize = 10_000;

/// Letters of a subject that a person is shown.
const SHOWN: usize = 80;

pub struct Collector {
    folder: MeshFolder,
    agents: BTreeMap<String, KnownAgent>,
    plans: BTreeMap<String, KeptPlan>,
    /// Plans that this connection told of; before it told all, nobody is answered the first time, since no plan means silence.
    told: BTreeSet<String>,
    has_plans: bool,
    is_changed: bool,
    refused: u64,
    /// Why nothing can be stored.
    trouble: Option<String>,
}

/// A plan as it stands in its key.
#[derive(Debug, Clone)]
struct KeptPlan {
    text: Vec<u8>,
    /// None where it can't be read.
    plan: Option<AgentPlan>,
}

impl KeptPlan {
    fn new(text: &[u8]) -> Self {
        Self { text: text.into(), plan: serde_json::from_slice(text).ok() }
    }
}

#[derive(Debug, Clone)]
struct KnownAgent {
    run: u64,
    journal: u64,
    host: String,
    version: String,
    heard_ns: u64,
    left: bool,
    plan: Option<u64>,
    trouble: Option<String>,
    /// Seconds that what came last is ahead of the collector's clock.
    ahead: i64,
    pairs: BTreeSet<(String, String)>,
    /// Records of more pairs than that.
    refused: u64,
    /// All records before these have come, and are on the disk.
    received: u64,
    stored: u64,
    slots: SlotCounts,
    rtt: MetricHistogram,
    dropped: u64,
}

/// A message to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutMessage {
    pub subject: String,
    pub payload: Vec<u8>,
}

impl Collector {
    pub fn new(folder: MeshFolder) -> Self {
        let (agents, plans, told) = Default::default();
        let (has_plans, is_changed) = (false, false);
        Self { folder, agents, plans, told, has_plans, is_changed, refused: 0, trouble: None }
    }

    /// A message came on an agent's subject. The broker lets nobody else write there; that it is the agent of this name is all that is believed.
    /// Errors with why it is no agent's.
    pub fn heard(
        &mut self,
        subject: &str,
        payload: &[u8],
        now_ns: u64,
        wall_ns: i64,
    ) -> Result<Option<OutMessage>, String> {
        if !self.has_plans {
            return Ok(None);
        }
        let agent = messages::sender(subject).ok_or("the name is none");
        let read = agent.map_err(str::to_owned).and_then(|agent| {
            let report = messages::read_report(payload).map_err(|error| error.to_string())?;
            Ok((agent, report))
        });
        let (agent, (report, records)) = read.map_err(|why| {
            self.refused += 1;
            let subject = quell_wire::text::printable(subject, SHOWN);
            format!("a message of {} bytes on {subject} is refused: {why}", payload.len())
        })?;
        let known = self.known(agent, &report, now_ns);
        if let Err(why) = known {
            return Ok(Some(self.answer(agent, &report, Some(why))));
        }
        if report.format != FORMAT {
            let why = format!("it speaks format {}, and the collector {FORMAT}", report.format);
            return Ok(Some(self.answer(agent, &report, Some(why))));
        }
        let refused = self.take(agent, report.after, wall_ns, &records).err();
        Ok(Some(self.answer(agent, &report, refused)))
    }

    /// Notes who speaks. Errors where another one has the name.
    fn known(&mut self, agent: &str, report: &AgentReport, now_ns: u64) -> Result<(), String> {
        let lease_ns = self.lease_ns(agent);
        let stored = self.folder.next(agent);
        let known = self.agents.entry(agent.into()).or_insert_with(|| KnownAgent {
            run: report.run,
            journal: report.journal,
            host: report.host.clone(),
            version: report.version.clone(),
            heard_ns: now_ns,
            left: false,
            plan: None,
            trouble: None,
            ahead: 0,
            pairs: BTreeSet::new(),
            refused: 0,
            received: stored,
            stored,
            slots: SlotCounts::default(),
            rtt: MetricHistogram::new(RTT_SECONDS),
            dropped: 0,
        });
        let age_ns = now_ns.saturating_sub(known.heard_ns);
        let is_free = known.left || known.journal == report.journal || age_ns >= lease_ns;
        if !is_free {
            return Err(format!(
                "agent `{agent}` is at work on host {}, heard {:.0} s ago; give each agent a name of its own",
                known.host,
                age_ns as f64 / 1e9
            ));
        }
        (known.run, known.journal) = (report.run, report.journal);
        (known.host, known.version) = (report.host.clone(), report.version.clone());
        (known.heard_ns, known.left) = (now_ns, report.leaves);
        (known.plan, known.trouble) = (report.plan, report.trouble.clone());
        Ok(())
    }

    fn lease_ns(&self, agent: &str) -> u64 {
        let plan = self.plans.get(agent).and_then(|kept| kept.plan.as_ref());
        plan.map_or(USUAL_LEASE, |plan| plan.lease).nanos()
    }

    /// Takes what is new of a batch that nothing is missing before. Errors where no agent sends what is in it.
    fn take(
        &mut self,
        agent: &str,
        after: Option<u64>,
        wall_ns: i64,
        records: &[Record],
    ) -> Result<(), String> {
        let Some(known) = self.agents.get_mut(agent) else { return Ok(()) };
        if after.is_some_and(|after| after >= known.received) {
            return Ok(());
        }
        let new = records.partition_point(|record| record.number < known.received);
        if new == records.len() {
            return Ok(());
        }
        let newest_ns = records[new..].iter().filter_map(|r| r.kind.newest_ns()).max();
        known.ahead = newest_ns.map_or(0, |ns| ns.saturating_sub(wall_ns) / 1_000_000_000);
        let runs: Vec<_> = records[new..].split(|record| !known.takes(record)).collect();
        let behind = records.last().filter(|_| runs.len() > 1).map(|r| r.number.saturating_add(1));
        for run in runs {
            // What is between is gone from its journal: thinned there, or stored by a collector whose disk is lost. Or it was refused.
            run.iter().take(1).for_each(|first| self.folder.skip_to(agent, first.number));
            match self.folder.append(agent, wall_ns, run) {
                Ok(next) => {
                    let taken = run.iter().take_while(|record| record.number < next);
                    taken.for_each(|record| known.count(&record.kind));
                }
                Err(why @ (FolderError::Name(_) | FolderError::Batch { .. })) => {
                    return Err(why.to_string());
                }
                Err(why) => {
                    self.trouble = Some(why.to_string());
                    return Ok(());
                }
            }
            known.received = self.folder.next(agent);
        }
        behind.into_iter().for_each(|number| self.folder.skip_to(agent, number));
        known.received = self.folder.next(agent);
        Ok(())
    }

    fn answer(&self, agent: &str, report: &AgentReport, refused: Option<String>) -> OutMessage {
        let (known, wanted) = (self.agents.get(agent), self.wanted(agent));
        let kept = self.plans.get(agent).filter(|_| refused.is_none() && report.plan != wanted);
        let answer = CollectorAnswer {
            format: FORMAT,
            run: report.run,
            asked_ns: Some(report.asked_ns),
            received: known.map_or(0, |known| known.received),
            stored: known.map_or(0, |known| known.stored),
            plan: wanted,
            text: kept.map(|kept| kept.text.clone()),
            refused,
        };
        message(agent, &answer)
    }

    fn wanted(&self, agent: &str) -> Option<u64> {
        // Of one that we can't read, the agent is to say so.
        self.plans.get(agent).map(|kept| kept.plan.as_ref().map_or(0, |plan| plan.revision))
    }

    /// Puts what came on the disk; of each agent, what is there then. None where that failed.
    pub fn sync(&mut self) -> Option<BTreeMap<String, u64>> {
        self.trouble = self.folder.sync().err().map(|why| why.to_string());
        let received = self.agents.iter().map(|(agent, known)| (agent.clone(), known.received));
        self.trouble.is_none().then(|| received.collect())
    }

    /// Says to agents that what came of them before these numbers is safe.
    pub fn acknowledge(&mut self, safe: BTreeMap<String, u64>) -> Vec<OutMessage> {
        let mut told = Vec::new();
        for (agent, safe) in &safe {
            let Some(known) = self.agents.get_mut(agent).filter(|k| k.stored < *safe) else {
                continue;
            };
            known.stored = *safe;
            let answer = CollectorAnswer {
                format: FORMAT,
                run: known.run,
                asked_ns: None,
                received: known.received,
                stored: known.stored,
                plan: None,
                text: None,
                refused: None,
            };
            told.push(message(agent, &answer));
        }
        told
    }

    /// Whether something came that is not safe yet.
    pub fn is_behind(&self) -> bool {
        self.agents.values().any(|known| known.stored != known.received)
    }

    /// Brings what is stored into the tables, and gives the files that changed.
    pub fn seal(&mut self) -> Vec<PathBuf> {
        let sealed = self.folder.seal();
        sealed.unwrap_or_else(|why| {
            self.is_in_trouble(why.to_string());
            Vec::new()
        })
    }

    /// Why nothing is stored, until something is.
    pub fn is_in_trouble(&mut self, why: String) {
        self.trouble = Some(why);
    }

    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The plans of an earlier process.
    pub fn remember(&mut self, plans: BTreeMap<String, String>) {
        let kept = plans.into_iter().map(|(agent, text)| (agent, KeptPlan::new(text.as_bytes())));
        self.plans.extend(kept);
    }

    /// There is a connection: its broker tells all keys that it has.
    pub fn connected(&mut self) {
        self.told.clear();
    }

    /// A key's value, or that it is gone.
    pub fn key(&mut self, key: &str, value: Option<&[u8]>) {
        if value.is_some() {
            self.told.insert(key.into());
        }
        let text = value.filter(|_| check_name(key).is_ok());
        if self.plans.get(key).map(|kept| &kept.text[..]) != text {
            self.is_changed = true;
            match text {
                Some(text) => drop(self.plans.insert(key.into(), KeptPlan::new(text))),
                None => drop(self.plans.remove(key)),
            }
        }
    }

    /// All keys were told. What is to be written to a broker that lost them, in this order; else its keys are all that there are.
    pub fn all_keys(&mut self) -> VecDeque<(String, Vec<u8>)> {
        self.has_plans = true;
        if !self.told.contains(ALL_PLANS) {
            let lost = self.plans.iter().filter(|(key, _)| !self.told.contains(*key));
            let lost = lost.map(|(key, kept)| (key.clone(), kept.text.clone()));
            return lost.chain([(ALL_PLANS.into(), Vec::new())]).collect();
        }
        let before = self.plans.len();
        self.plans.retain(|key, _| self.told.contains(key));
        self.is_changed |= self.plans.len() != before;
        VecDeque::new()
    }

    /// The plans, where they changed since they were asked for, and all are known.
    pub fn changed_plans(&mut self) -> Option<BTreeMap<String, String>> {
        if !self.has_plans || !std::mem::take(&mut self.is_changed) {
            return None;
        }
        let text = |kept: &KeptPlan| String::from_utf8_lossy(&kept.text).into_owned();
        Some(self.plans.iter().map(|(agent, kept)| (agent.clone(), text(kept))).collect())
    }

    pub fn status(&self, now_ns: u64) -> MeshStatus {
        let names = self.plans.keys().chain(self.agents.keys());
        let names: BTreeSet<&String> = names.collect();
        let agents = names.into_iter().map(|name| self.agent_status(name, now_ns)).collect();
        MeshStatus { agents, refused: self.refused, trouble: self.trouble.clone() }
    }

    /// How agents do, for Prometheus.
    pub fn metrics(&self, now_ns: u64) -> MetricsPage {
        let mut page = MetricsPage::default();
        for one in self.status(now_ns).agents {
            let agent = ("agent", one.name.as_str());
            let mut add = |name, kind, unit, about, labels: &[(&str, &str)], value| {
                page.family(name, kind, unit, about).sample(labels, value);
            };
            let up = "Whether the agent was heard within its lease.";
            let is_up = f64::from(u8::from(!one.is_gone));
            add("quell_mesh_agent_up", MetricKind::Gauge, "", up, &[agent], is_up);
            for (end, count) in one.slots.by_end() {
                let about = "Planned slots by how they ended, since the collector began.";
                let labels = [agent, ("end", end)];
                add("quell_mesh_slots", MetricKind::Counter, "", about, &labels, count as f64);
            }
            let (name, unit) = ("quell_mesh_dropped_records", "records");
            let about = "Records that the agent dropped for want of space.";
            add(name, MetricKind::Counter, unit, about, &[agent], one.dropped as f64);
            let Some(known) = self.agents.get(&one.name) else { continue };
            let (name, about) =
                ("quell_mesh_rtt_seconds", "Round-trip time of packets that were answered.");
            page.family(name, MetricKind::Histogram, "seconds", about)
                .histogram(&[agent], &known.rtt);
        }
        page
    }

    fn agent_status(&self, name: &str, now_ns: u64) -> AgentStatus {
        let plan = self.plans.get(name).and_then(|kept| kept.plan.as_ref());
        let known = self.agents.get(name);
        let heard_s = known.map(|known| now_ns.saturating_sub(known.heard_ns) as f64 / 1e9);
        let lease_ns = self.lease_ns(name);
        let silent_ns = known.map(|known| now_ns.saturating_sub(known.heard_ns));
        let is_gone = known.is_none_or(|known| known.left || silent_ns > Some(lease_ns));
        let since = |silent_ns: u64, plan: &AgentPlan| {
            plan.probes.iter().map(|probe| silent_ns / probe.interval.nanos().max(1)).sum()
        };
        let open = silent_ns.filter(|_| is_gone).zip(plan);
        AgentStatus {
            name: name.into(),
            host: known.map(|known| known.host.clone()),
            version: known.map(|known| known.version.clone()),
            heard_s,
            is_gone,
            wanted: self.wanted(name),
            plan: known.and_then(|known| known.plan),
            probes: plan.map_or(0, |plan| plan.probes.len() as u64),
            stored: known.map_or(0, |known| known.stored),
            slots: known.map(|known| known.slots).unwrap_or_default(),
            open: open.map_or(0, |(silent_ns, plan)| since(silent_ns, plan)),
            dropped: known.map_or(0, |known| known.dropped),
            trouble: known.and_then(KnownAgent::trouble),
        }
    }
}

impl KnownAgent {
    fn takes(&mut self, record: &Record) -> bool {
        let pair = (record.peer.clone(), record.class.clone());
        let takes = self.pairs.contains(&pair) || self.pairs.len() < MOST_PAIRS;
        if takes {
            self.pairs.insert(pair);
        } else {
            self.refused += 1;
        }
        takes
    }

    /// What the agent says, and what it can't know.
    fn trouble(&self) -> Option<String> {
        let ahead = (self.ahead > CLOCK_AHEAD)
            .then(|| format!("its clock is {} s ahead of the collector's", self.ahead));
        let refused = (self.refused > 0).then(|| {
            let refused = plural(self.refused, "record");
            format!("{refused} refused: it has more than {MOST_PAIRS} peers and classes")
        });
        let all: Vec<String> = self.trouble.iter().cloned().chain(ahead).chain(refused).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn count(&mut self, kind: &RecordKind) {
        match kind {
            RecordKind::Packets(samples) => {
                for sample in samples {
                    match sample.status {
                        EchoStatus::Duplicate => {}
                        status if status.is_answered() => {
                            self.slots.ok += 1;
                            let rtt = sample.rtt_ns.map(|ns| ns as f64 / 1e9);
                            rtt.into_iter().for_each(|seconds| self.rtt.observe(seconds));
                        }
                        EchoStatus::NotSent => self.slots.not_started += 1,
                        EchoStatus::Unsure | EchoStatus::Unfinished => self.slots.unknown += 1,
                        _ => self.slots.failed += 1,
                    }
                }
            }
            RecordKind::Thinned(sketch) => {
                self.slots.failed += sketch.lost();
                self.slots.ok += sketch.sent - sketch.lost().min(sketch.sent);
                self.slots.unknown += sketch.unsure;
            }
            RecordKind::Slots { count, end, .. } => self.slots.add(end, *count),
            RecordKind::Dropped { records } => self.dropped += records,
            _ => self.slots.ok += 1,
        }
    }
}

fn message(agent: &str, answer: &CollectorAnswer) -> OutMessage {
    // It holds nothing that can't be encoded.
    let payload = frame::encode(answer).unwrap_or_default();
    OutMessage { subject: to_agent(agent), payload }
}

/// How the mesh does, as the collector sees it since it began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeshStatus {
    pub agents: Vec<AgentStatus>,
    /// Messages that were no agent's, or damaged.
    pub refused: u64,
    pub trouble: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStatus {
    pub name: String,
    pub host: Option<String>,
    pub version: Option<String>,
    /// Seconds since it was last heard.
    pub heard_s: Option<f64>,
    pub is_gone: bool,
    /// The revision of the plan that it is to carry out, and of that which it does.
    pub wanted: Option<u64>,
    pub plan: Option<u64>,
    pub probes: u64,
    /// Records that are on the collector's disk.
    pub stored: u64,
    pub slots: SlotCounts,
    /// Slots that passed since it was last heard, of one that is gone.
    pub open: u64,
    /// Records that it dropped for want of space.
    pub dropped: u64,
    pub trouble: Option<String>,
}
