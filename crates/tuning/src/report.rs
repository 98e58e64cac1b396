//! What `quell tune` reports.

use crate::conf::Override;
use crate::cures::Cure;
use crate::files::{self, Files, record_of_log};
use crate::host::{Settings, settings_of};
use crate::proof::Proof;
use crate::{CommandError, Folders, routes};
use crate::{Proposal, Reach, SettingAction, Tuning, TuningRecord, dotted, same};
use quell_act::{Log, RouteGoal, Standing};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct PlanReport<'a> {
    pub wanted: String,
    pub lines: Vec<PlanLine<'a>>,
    /// Whether all of it is set already.
    pub in_force: bool,
    pub one_transfer_now: Option<Reach>,
    pub one_transfer_then: Option<Reach>,
    pub routes: Vec<String>,
    pub cures: &'a [Cure],
    pub remarks: &'a [String],
    pub proof: Option<&'a Proof>,
}

#[derive(Debug, Serialize)]
pub struct PlanLine<'a> {
    pub key: String,
    pub action: &'static str,
    pub value: Option<&'a str>,
    pub now: Option<&'a str>,
    pub default: Option<&'a str>,
    pub default_from: Option<&'a str>,
    pub why: &'a str,
    pub source: &'a str,
}

impl<'a> PlanReport<'a> {
    pub fn of(
        plan: &'a Tuning,
        now: &Settings,
        routes: &[RouteGoal],
        proof: Option<&'a Proof>,
    ) -> Self {
        let is_set = |(key, set): (&str, &str)| now.get(key).is_some_and(|now| same(now, set));
        PlanReport {
            wanted: plan.wish.words(),
            lines: plan.lines.iter().map(line).collect(),
            in_force: plan.settings().all(is_set),
            one_transfer_now: plan.reach_now,
            one_transfer_then: plan.reach_then,
            routes: routes::commands(routes),
            cures: &plan.cures,
            remarks: &plan.remarks,
            proof,
        }
    }
}

fn line(line: &Proposal) -> PlanLine<'_> {
    let (action, value) = match &line.wanted {
        SettingAction::Set(value) => ("set", Some(value.as_str())),
        SettingAction::Keep => ("keep", None),
        SettingAction::Leave => ("leave", None),
        SettingAction::Sealed => ("cannot", None),
    };
    PlanLine {
        key: dotted(line.key),
        action,
        value,
        now: line.now.as_deref(),
        default: line.default.as_ref().map(|known| known.value.as_str()),
        default_from: line.default.as_ref().map(|known| known.from),
        why: &line.why,
        source: line.source,
    }
}

#[derive(Debug, Serialize)]
pub struct SettingReport {
    pub key: String,
    pub before: String,
    pub set: String,
}

pub fn settings(record: &TuningRecord) -> Vec<SettingReport> {
    let one = |s: &crate::Setting| SettingReport {
        key: dotted(&s.key),
        before: s.before.clone(),
        set: s.set.clone(),
    };
    record.settings.iter().map(one).collect()
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum StatusReport {
    Nothing {
        applied: bool,
        in_order: bool,
        /// How an unfinished change stands.
        #[serde(skip)]
        standing: Option<String>,
    },
    Applied(Box<AppliedStatus>),
}

#[derive(Debug, Serialize)]
pub struct AppliedStatus {
    pub applied: bool,
    pub wanted: String,
    pub standing: String,
    /// In seconds since 1970.
    pub since: u64,
    pub in_order: bool,
    pub settings: Vec<SettingStatus>,
    pub routes: Vec<RouteGoal>,
    /// How the file for the next boot stands.
    pub file: String,
    pub overridden: Vec<Override>,
    #[serde(skip)]
    pub waiting: bool,
}

#[derive(Debug, Serialize)]
pub struct SettingStatus {
    pub key: String,
    pub before: String,
    pub set: String,
    pub now: Option<String>,
    /// as set, as before, changed, gone
    pub state: &'static str,
}

impl StatusReport {
    pub fn in_order(&self) -> bool {
        match self {
            StatusReport::Nothing { in_order, .. } => *in_order,
            StatusReport::Applied(status) => status.in_order,
        }
    }
}

pub fn status(folders: &Folders) -> Result<StatusReport, CommandError> {
    let files = Files::of(folders);
    let log = files::log(folders)?;
    let standing = |log: &Log| log.standing_words(quell_sys::clock::monotonic_ns(), "quell tune");
    let recorded = files.recorded()?.or_else(|| log.as_ref().and_then(record_of_log));
    let Some(record) = recorded else {
        let unfinished = log.as_ref().map(standing).filter(|(_, broken)| *broken);
        let in_order = unfinished.is_none();
        let standing = unfinished.map(|(how, _)| how);
        return Ok(StatusReport::Nothing { applied: false, in_order, standing });
    };
    // After a boot no log is needed: the file for the boot has done it.
    let (standing, mut broken) =
        log.as_ref().map_or(("in force since the boot".to_owned(), false), standing);
    let now = settings_of(&record);
    let setting = |setting: &crate::Setting| {
        let there = now.get(&setting.key);
        SettingStatus {
            key: dotted(&setting.key),
            before: setting.before.clone(),
            set: setting.set.clone(),
            now: there.map(|v| v.split_whitespace().collect::<Vec<_>>().join(" ")),
            state: match there {
                None => "gone",
                Some(there) if same(there, &setting.set) => "as set",
                Some(there) if same(there, &setting.before) => "as before",
                Some(_) => "changed",
            },
        }
    };
    let settings: Vec<SettingStatus> = record.settings.iter().map(setting).collect();
    broken |= settings.iter().any(|setting| setting.state != "as set");
    let routes = routes::as_they_are(log.as_ref());
    broken |= routes.iter().any(|route| route.route.is_none());
    let waiting = log.as_ref().is_some_and(|log| matches!(log.standing, Standing::Awaiting(_)));
    let (file, wrong) = boot_file(&files, &record, waiting);
    let overridden = files.overridden(&record);
    broken |= wrong || !overridden.is_empty();
    Ok(StatusReport::Applied(Box::new(AppliedStatus {
        applied: true,
        wanted: record.wanted,
        standing,
        since: record.at,
        in_order: !broken,
        settings,
        routes,
        file,
        overridden,
        waiting,
    })))
}

/// How the file for the next boot stands, and whether that is wrong.
fn boot_file(files: &Files, record: &TuningRecord, waiting: bool) -> (String, bool) {
    let path = files.conf.display();
    match files.boot_text() {
        _ if waiting => {
            ("nothing is kept for the next boot before it is confirmed".to_owned(), false)
        }
        _ if record.file.is_empty() => ("until the next boot; no file keeps it".to_owned(), false),
        Some(text) if text == record.file => (format!("{path} sets it at the next boot"), false),
        Some(_) => (format!("{path} is no longer as it was written"), true),
        None => (format!("{path} is gone: at the next boot nothing of it is set"), true),
    }
}
