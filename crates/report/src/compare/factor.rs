//! What was measured, sorted into groups by one factor, and by what all groups have in common.

use crate::analysis::series::is_own;
use crate::analysis::{Results, StreamResult};
use crate::figures::common::distinct;
use crate::insight::Pair;
use quell_model::manifest::Backend;
use quell_model::metric::Metric;
use quell_model::{CellId, CellRecord, CellStatus};
use quell_store::{CellData, Run};
use std::collections::HashMap;

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
pub struct MeasuredRun<'a> {
    pub run: &'a Run,
    pub results: &'a Results,
}

#[derive(Clone)]
pub enum By<'a> {
    Run,
    Scenario,
    Probe,
    /// Scenarios that belong together, as a line as it is and shaped.
    Pair(&'a [Pair]),
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
            By::Pair(_) => "pair".to_owned(),
            By::Field(name, _) => (*name).to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    #[error(
        "there is nothing to compare {one} with: by {by} there is no other; name a second run, or another --by"
    )]
    Alone { one: String, by: String },
    #[error("nothing was measured in all of them by the same probe in the same scenario: {}", have.join("; "))]
    NothingInCommon { have: Vec<String> },
    #[error("nothing that was measured in all of them is of the same kind and unit: {}", have.join("; "))]
    DifferentUnits { have: Vec<String> },
    #[error(
        "no measurement of the run {run} ran to its end: {why}; `quell show {run}` shows what there is"
    )]
    NothingWhole { run: String, why: String },
    #[error("there is no {what} {name:?}; there are {}", known.join(", "))]
    Unknown { what: &'static str, name: String, known: Vec<String> },
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

/// What the members of a set have in common: scenario, probe and stream, where groups are not told apart by it.
pub(super) type SetKey = (Option<String>, Option<String>, Option<String>);

type Sets<'a> = Vec<(SetKey, Vec<Vec<Member<'a>>>)>;

pub(super) struct Sorted<'a> {
    pub by: String,
    pub groups: Vec<Group>,
    pub sets: Sets<'a>,
    pub notes: Vec<String>,
}

pub(super) fn sort<'a>(
    sources: &'a [MeasuredRun<'a>],
    wanted: &Wanted,
) -> Result<Sorted<'a>, CompareError> {
    let by = match (&wanted.by, sources) {
        (Some(by), _) => by.clone(),
        (None, [_]) => By::Scenario,
        (None, _) => By::Run,
    };
    let mut notes = Vec::new();
    let mut sorter = Sorter::default();
    for (index, member) in members(sources, wanted, &by, &mut notes)? {
        for (group, key) in places(&by, index, &member) {
            sorter.add(group, key, member);
        }
    }
    if let (By::Field(field, _), []) = (&by, &sorter.groups[..]) {
        return Err(CompareError::NoField { field: (*field).to_owned() });
    }
    if sorter.twice {
        let said =
            "Repeats with the same seed in virtual time are the same packets; they count once.";
        notes.push(said.to_owned());
    }
    if let Some([one, other]) = sorter.mixed {
        notes.push(format!(
            "Runs of one group differ in more than {}, as {one} and {other}, whose same seeds are not the same packets: all are taken together.",
            by.name()
        ));
    }
    let Sorter { groups, mut sets, .. } = sorter;
    let groups = match by {
        By::Run => runs(sources),
        _ => groups.into_iter().map(|label| Group { label, detail: String::new() }).collect(),
    };
    if groups.len() < 2 {
        let name = |g: &Group| if g.detail.is_empty() { &g.label } else { &g.detail }.clone();
        let one = groups.first().map_or("nothing".to_owned(), name);
        return Err(CompareError::Alone { one, by: by.name() });
    }
    sets.iter_mut().for_each(|(_, of_groups)| of_groups.resize_with(groups.len(), Vec::new));
    let sets = in_all(&groups, sets, &mut notes)?;
    Ok(Sorted { by: by.name(), groups, sets, notes })
}

/// The streams that are compared, with the number of their run, in the order of the file or in the one that was asked for.
fn members<'a>(
    sources: &'a [MeasuredRun<'a>],
    wanted: &Wanted,
    by: &By,
    notes: &mut Vec<String>,
) -> Result<Vec<(usize, Member<'a>)>, CompareError> {
    let mut members: Vec<(usize, Member)> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let found = whole(source, notes)?;
        members.extend(found.into_iter().map(|member| (index, member)));
    }
    let scenarios = distinct(members.iter().map(|(_, m)| &m.record.id.scenario));
    known("scenario", &wanted.scenarios, &scenarios)?;
    known("stream", &wanted.streams, &distinct(members.iter().map(|(_, m)| &m.row.stream)))?;
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
    Ok(members)
}

/// Puts streams into groups and sets, in the order in which they come.
#[derive(Default)]
struct Sorter<'a> {
    groups: Vec<String>,
    /// Where each stands in `groups`.
    numbers: HashMap<String, usize>,
    sets: Sets<'a>,
    places: HashMap<SetKey, usize>,
    counted: HashMap<(SetKey, String, (u32, u64)), Vec<Member<'a>>>,
    /// Whether some packets came twice.
    twice: bool,
    /// Two runs of one group whose same seeds are not the same packets.
    mixed: Option<[&'a str; 2]>,
}

impl<'a> Sorter<'a> {
    fn add(&mut self, group: String, key: SetKey, member: Member<'a>) {
        // The same seed in virtual time is the same packets, unless the runs differ in something else: they say nothing more a second time.
        let before = self.counted.entry((key.clone(), group.clone(), member.start())).or_default();
        if member.run.manifest.kernel.virtual_time {
            if before.iter().any(|earlier| earlier.row == member.row) {
                self.twice = true;
                return;
            }
            if let Some(other) = before.first() {
                self.mixed.get_or_insert([&other.run.manifest.run, &member.run.manifest.run]);
            }
        }
        before.push(member);
        let at = *self.numbers.entry(group).or_insert_with_key(|group| {
            self.groups.push(group.clone());
            self.groups.len() - 1
        });
        let set = *self.places.entry(key).or_insert_with_key(|key| {
            self.sets.push((key.clone(), Vec::new()));
            self.sets.len() - 1
        });
        let of_groups = &mut self.sets[set].1;
        of_groups.resize_with(of_groups.len().max(at + 1), Vec::new);
        of_groups[at].push(member);
    }
}

/// The streams of cells that ran to their end with all of their tasks; what is left out is said.
fn whole<'a>(
    source: &MeasuredRun<'a>,
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

/// The group and the set of a stream, each; none where it has no part in the comparison.
fn places(by: &By, source: usize, member: &Member) -> Vec<(String, SetKey)> {
    let CellId { scenario, probe, .. } = &member.record.id;
    let stream = &member.row.stream;
    let set =
        |scenario: &str| (Some(scenario.to_owned()), Some(probe.clone()), Some(stream.clone()));
    match by {
        By::Run => vec![(source.to_string(), set(scenario))],
        By::Scenario => vec![(scenario.clone(), (None, Some(probe.clone()), Some(stream.clone())))],
        By::Pair(pairs) => {
            let place = |pair: &Pair| {
                let before = (pair.before == *scenario).then_some("as it is");
                let after = || (pair.after == *scenario).then(|| pair.word());
                Some((before.or_else(after)?.to_owned(), set(&pair.name())))
            };
            pairs.iter().filter_map(place).collect()
        }
        // Streams that stand for a probe have its name.
        By::Probe if *probe == CellId::TOGETHER || stream == probe => {
            vec![(stream.clone(), (Some(scenario.clone()), None, None))]
        }
        By::Probe => Vec::new(),
        By::Field(_, value) => {
            value(source, scenario).map(|v| (v.value, set(&v.scenario))).into_iter().collect()
        }
    }
}

fn runs(sources: &[MeasuredRun]) -> Vec<Group> {
    let group = |(index, source): (usize, &MeasuredRun)| {
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
        let (backend, version) = (m.kernel.backend, &m.kernel.version);
        let detail = match backend {
            // What another program measured has neither seed nor kernel.
            Backend::Unknown => format!("{}{changes}", m.run),
            _ => {
                let backend = backend.name();
                format!("{} · seed {} · {backend} kernel {version}{changes}", m.run, m.seed)
            }
        };
        Group { label, detail }
    };
    sources.iter().enumerate().map(group).collect()
}

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

fn named((scenario, probe, stream): &SetKey) -> String {
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
