//! What was measured, sorted into groups by one factor, and by what all groups have in common.

use crate::analysis::series::is_own;
use crate::analysis::{Results, StreamResult};
use quell_model::metric::Metric;
use quell_model::{CellId, CellRecord, CellStatus};
use quell_store::{CellData, Run};
use std::collections::{HashMap, HashSet};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// As it stands in tables: a letter for a run, else the name of what it is.
    pub label: String,
    /// What it is, where the label does not say it: a run and how it came about.
    pub detail: String,
}

#[derive(Clone, Default)]
pub struct Wanted<'a> {
    /// What tells the groups apart; of one run its scenarios, of several the runs where nobody says.
    pub by: Option<By<'a>>,
    /// Only these scenarios, in this order; all where empty.
    pub scenarios: Vec<String>,
    /// Only these streams; those of the probes where empty.
    pub streams: Vec<String>,
    /// Only these metrics; the usual ones where empty.
    pub metrics: Vec<Metric>,
    /// The part of the first group's figure that a difference has to exceed to count as better or worse.
    pub margin: f64,
}

#[derive(Debug)]
pub struct Source<'a> {
    pub run: &'a Run,
    pub results: &'a Results,
}

/// What tells groups apart.
#[derive(Clone)]
pub enum By<'a> {
    Run,
    Scenario,
    Probe,
    /// A field: its name, and what it is by the run's number and the scenario.
    Field(&'a str, &'a dyn Fn(usize, &str) -> Option<Value>),
}

/// The value of a field, and the scenario without it where each value has a scenario of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    pub value: String,
    pub scenario: String,
}

impl By<'_> {
    fn name(&self) -> String {
        match self {
            By::Run => "run".to_owned(),
            By::Scenario => "scenario".to_owned(),
            By::Probe => "probe".to_owned(),
            By::Field(name, _) => (*name).to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// There is one group, or none.
    #[error(
        "there is nothing to compare {one} with: by {by} there is no other; name a second run, or another --by"
    )]
    Alone {
        one: String,
        /// What tells groups apart.
        by: String,
    },
    /// No stream was measured in all groups.
    #[error("nothing was measured in all of them by the same probe in the same scenario: {}", have.join("; "))]
    NothingInCommon { have: Vec<String> },
    #[error("nothing that was measured in all of them is of the same kind and unit: {}", have.join("; "))]
    DifferentUnits { have: Vec<String> },
    /// No cell of a run ran to its end.
    #[error(
        "no measurement of the run {run} ran to its end: {why}; `quell show {run}` shows what there is"
    )]
    NothingWhole { run: String, why: String },
    #[error("there is no {what} {name:?}; there are {}", known.join(", "))]
    Unknown { what: &'static str, name: String, known: Vec<String> },
    /// A field that no run has.
    #[error(
        "no run has the field {field}: write its path as for --set, as in topology.link.dsl.up.rate, or one of kernel, quell, seed"
    )]
    NoField { field: String },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    pub run: &'a Run,
    pub record: &'a CellRecord,
    pub data: &'a CellData,
    pub row: &'a StreamResult,
}

impl Member<'_> {
    /// What two repeats have in common that began alike.
    pub fn start(&self) -> (u32, u64) {
        (self.record.id.repeat, self.record.seed)
    }
}

pub(super) type Key = (Option<String>, Option<String>, Option<String>);

pub(super) struct Sorted<'a> {
    pub by: String,
    pub groups: Vec<Group>,
    pub sets: Vec<(Key, Vec<Vec<Member<'a>>>)>,
    pub notes: Vec<String>,
}

pub(super) fn sort<'a>(
    sources: &'a [Source<'a>],
    wanted: &Wanted,
) -> Result<Sorted<'a>, CompareError> {
    let by = match (&wanted.by, sources) {
        (Some(by), _) => by.clone(),
        (None, [_]) => By::Scenario,
        (None, _) => By::Run,
    };
    let mut notes = Vec::new();
    let mut members: Vec<(usize, Member)> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let found = whole(source, &mut notes)?;
        members.extend(found.into_iter().map(|member| (index, member)));
    }
    let scenarios = distinct(members.iter().map(|(_, m)| &m.record.id.scenario));
    known("scenario", &wanted.scenarios, &scenarios)?;
    known("stream", &wanted.streams, &distinct(members.iter().map(|(_, m)| &m.row.stream)))?;
    // The order of the file, or the one that was asked for.
    let order = |scenario: &String| wanted.scenarios.iter().position(|s| s == scenario);
    members.retain(|(_, m)| wanted.scenarios.is_empty() || order(&m.record.id.scenario).is_some());
    members.sort_by_key(|(source, m)| match by {
        By::Scenario => (order(&m.record.id.scenario), *source),
        _ => (None, *source),
    });
    let mut own = HashMap::new();
    members.retain(|(_, m)| match &wanted.streams[..] {
        [] => is_measured(m, &mut own),
        streams => streams.contains(&m.row.stream),
    });
    let mut groups: Vec<String> = Vec::new();
    let mut sets: Vec<(Key, Vec<Vec<Member>>)> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut counted: HashMap<(Key, String, (u32, u64)), Vec<Member>> = HashMap::new();
    let mut twice = false;
    let mut mixed: Option<[&str; 2]> = None;
    for (index, member) in members {
        let Some((group, key)) = place(&by, index, &member) else { continue };
        // The same seed in virtual time is the same packets, unless the runs differ in something else: they say nothing more a second time.
        let before = counted.entry((key.clone(), group.clone(), member.start())).or_default();
        if member.run.manifest.kernel.virtual_time {
            if before.iter().any(|earlier| earlier.row == member.row) {
                twice = true;
                continue;
            }
            if let Some(other) = before.first() {
                mixed.get_or_insert([&other.run.manifest.run, &member.run.manifest.run]);
            }
        }
        before.push(member);
        let at = groups.iter().position(|g| *g == group).unwrap_or_else(|| {
            groups.push(group);
            groups.len() - 1
        });
        let set = *places.entry(key).or_insert_with_key(|key| {
            sets.push((key.clone(), Vec::new()));
            sets.len() - 1
        });
        let of_groups = &mut sets[set].1;
        of_groups.resize_with(of_groups.len().max(at + 1), Vec::new);
        of_groups[at].push(member);
    }
    if let (By::Field(field, _), []) = (&by, &groups[..]) {
        return Err(CompareError::NoField { field: (*field).to_owned() });
    }
    if twice {
        notes.push(
            "Repeats with the same seed in virtual time are the same packets; they count once."
                .to_owned(),
        );
    }
    let by_name = by.name();
    if let Some([one, other]) = mixed {
        notes.push(format!(
            "Runs of one group differ in more than {by_name}, as {one} and {other}, whose same seeds are not the same packets: all are taken together."
        ));
    }
    let groups = match by {
        By::Run => runs(sources),
        _ => groups.into_iter().map(|label| Group { label, detail: String::new() }).collect(),
    };
    if groups.len() < 2 {
        let one = groups.first().map_or("nothing".to_owned(), |g| {
            if g.detail.is_empty() { g.label.clone() } else { g.detail.clone() }
        });
        return Err(CompareError::Alone { one, by: by_name });
    }
    sets.iter_mut().for_each(|(_, of_groups)| of_groups.resize_with(groups.len(), Vec::new));
    let sets = in_all(&groups, sets, &mut notes)?;
    Ok(Sorted { by: by_name, groups, sets, notes })
}

/// The streams of cells that ran to their end with all of their tasks; what is left out is said.
fn whole<'a>(
    source: &Source<'a>,
    notes: &mut Vec<String>,
) -> Result<Vec<Member<'a>>, CompareError> {
    let run = source.run;
    let cells: HashMap<&CellId, (&CellRecord, &CellData)> =
        run.iter().map(|(record, data)| (&record.id, (record, data))).collect();
    let out: Vec<&CellRecord> = run.manifest.cells.iter().filter(|c| !is_whole(c)).collect();
    let why = |record: &CellRecord| match record.failed().next() {
        Some((task, why)) if record.status == CellStatus::Complete => {
            format!("{} failed: {why}", task.id)
        }
        _ => record.reason.clone().unwrap_or_else(|| "it did not come to its end".to_owned()),
    };
    if let Some(first) = out.first() {
        let (all, why) = (run.manifest.cells.len(), why(first));
        let name = &run.manifest.run;
        if out.len() == all {
            return Err(CompareError::NothingWhole { run: name.clone(), why });
        }
        let more = if out.len() > 1 { " and others" } else { "" };
        notes.push(format!(
            "{name}: {} of {all} measurements are left out: {}{more}: {why}",
            out.len(),
            first.id
        ));
    }
    let member = |row: &'a StreamResult| {
        let (record, data) = cells.get(&row.cell)?;
        is_whole(record).then_some(Member { run, record, data, row })
    };
    Ok(source.results.rows.iter().filter_map(member).collect())
}

/// Whether all of a cell's figures are what was asked for. What was measured by hand may be ended by hand.
fn is_whole(record: &CellRecord) -> bool {
    let by_hand = matches!(&record.tasks[..], [only] if !only.id.contains('/'));
    let ended =
        record.status == CellStatus::Complete || by_hand && record.status == CellStatus::Stopped;
    ended && record.failed().next().is_none()
}

/// Whether it is what the cell measures: not a load beside its probe.
/// Which cells have streams of their probe is found once for each.
fn is_measured(member: &Member, own: &mut HashMap<*const CellRecord, bool>) -> bool {
    let probe = &member.record.id.probe;
    let has_own = *own.entry(member.record).or_insert_with(|| {
        let echoes = member.data.echoes.iter().map(|s| &s.stream);
        let mut all = echoes.chain(member.data.flows.iter().map(|f| &f.stream));
        all.any(|s| is_own(s, probe))
    });
    !has_own || is_own(&member.row.stream, probe)
}

/// The group and the set of a stream; none where it has no part in the comparison.
fn place(by: &By, source: usize, member: &Member) -> Option<(String, Key)> {
    let CellId { scenario, probe, .. } = &member.record.id;
    let stream = || Some(member.row.stream.clone());
    match by {
        By::Run => {
            Some((source.to_string(), (Some(scenario.clone()), Some(probe.clone()), stream())))
        }
        By::Scenario => Some((scenario.clone(), (None, Some(probe.clone()), stream()))),
        // Streams that stand for a probe have its name.
        By::Probe if *probe == CellId::TOGETHER => {
            Some((member.row.stream.clone(), (Some(scenario.clone()), None, None)))
        }
        By::Probe => (member.row.stream == *probe)
            .then(|| (probe.clone(), (Some(scenario.clone()), None, None))),
        By::Field(_, value) => {
            let Value { value, scenario } = value(source, scenario)?;
            Some((value, (Some(scenario), Some(probe.clone()), stream())))
        }
    }
}

fn runs(sources: &[Source]) -> Vec<Group> {
    let group = |(index, source): (usize, &Source)| {
        let m = &source.run.manifest;
        let letter = char::from(b'A' + (index % 26) as u8).to_string();
        let label = match index / 26 {
            0 => letter,
            round => format!("{letter}{round}"),
        };
        let changes = if m.changes.is_empty() {
            String::new()
        } else {
            format!(" · {}", m.changes.join(" "))
        };
        let (backend, version) = (m.kernel.backend.name(), &m.kernel.version);
        let detail = format!("{} · seed {} · {backend} kernel {version}{changes}", m.run, m.seed);
        Group { label, detail }
    };
    sources.iter().enumerate().map(group).collect()
}

type Sets<'a> = Vec<(Key, Vec<Vec<Member<'a>>>)>;

/// The sets that the first group and another have; which are left out is said.
fn in_all<'a>(
    groups: &[Group],
    sets: Sets<'a>,
    notes: &mut Vec<String>,
) -> Result<Sets<'a>, CompareError> {
    let is_common = |of: &[Vec<Member>]| !of[0].is_empty() && of[1..].iter().any(|m| !m.is_empty());
    let (common, alone): (Sets, Sets) = sets.into_iter().partition(|(_, of)| is_common(of));
    let of_group = |sets: &Sets, group: usize| {
        let has = sets.iter().filter(|(_, of)| !of[group].is_empty());
        let mut names: Vec<String> = has.map(|(key, _)| named(key)).collect();
        let more = names.len().saturating_sub(6);
        names.truncate(6);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        names.join(", ") + &more
    };
    if common.is_empty() {
        let have = |(index, group): (usize, &Group)| {
            format!("{} has {}", group.label, of_group(&alone, index))
        };
        return Err(CompareError::NothingInCommon {
            have: groups.iter().enumerate().map(have).collect(),
        });
    }
    for (index, group) in groups.iter().enumerate() {
        let names = of_group(&alone, index);
        if !names.is_empty() {
            notes.push(format!("Only {} has {names}: left out.", group.label));
        }
    }
    Ok(common)
}

fn named((scenario, probe, stream): &Key) -> String {
    let probe = probe.as_ref().filter(|p| Some(*p) != stream.as_ref());
    let parts: Vec<&str> =
        [scenario.as_ref(), probe, stream.as_ref()].into_iter().flatten().map(|s| &**s).collect();
    parts.join(".")
}

fn known(what: &'static str, wanted: &[String], known: &[String]) -> Result<(), CompareError> {
    match wanted.iter().find(|name| !known.contains(name)) {
        Some(name) => {
            Err(CompareError::Unknown { what, name: name.clone(), known: known.to_vec() })
        }
        None => Ok(()),
    }
}

fn distinct<'n>(names: impl Iterator<Item = &'n String>) -> Vec<String> {
    let mut seen = HashSet::new();
    names.filter(|name| seen.insert((*name).clone())).cloned().collect()
}
