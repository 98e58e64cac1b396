//! What journals say of cells, put into the manifest: how each ended, how the network was set up.

use crate::data::CellData;
use crate::journal::Course;
use quell_model::{CellId, CellRecord, CellStatus, Manifest, Subject, TaskRecord};

/// Brings a cell's record up to what its journal says. A failure or a stop that the record already tells of stays: whoever watched the cell
/// knows more than the journal, which just stops.
pub(crate) fn cell(record: &mut CellRecord, course: Option<&Course>) {
    let Some(course) = course.filter(|c| c.begun || c.damage.is_some()) else {
        if matches!(record.status, CellStatus::Complete | CellStatus::Partial) {
            record.status = CellStatus::Partial;
            record.reason.get_or_insert_with(|| "it left no journal".to_owned());
        }
        return;
    };
    for (id, outcome) in &course.ended {
        match record.tasks.iter_mut().find(|t| t.id == *id) {
            Some(task) => task.outcome = Some(outcome.clone()),
            None => record.tasks.push(TaskRecord {
                id: id.clone(),
                host: String::new(),
                outcome: Some(outcome.clone()),
            }),
        }
    }
    if let Some(end) = course.end_ns.or(course.stopped_ns) {
        record.virtual_s.get_or_insert(end as f64 / 1e9);
    }
    if matches!(record.status, CellStatus::Failed | CellStatus::Stopped) {
        return;
    }
    let (status, reason) = match course {
        Course { damage: Some(damage), .. } => {
            (CellStatus::Partial, Some(format!("its journal is damaged {damage}")))
        }
        Course { abort: Some(reason), .. } => (CellStatus::Failed, Some(reason.clone())),
        Course { stopped_ns: Some(after), .. } => {
            let after = *after as f64 / 1e9;
            (CellStatus::Stopped, Some(format!("it was stopped after {after:.1} s")))
        }
        Course { end_ns: Some(_), .. } => (CellStatus::Complete, None),
        Course { reached_ns, .. } => (CellStatus::Partial, Some(cut(*reached_ns))),
    };
    record.status = status;
    record.reason = reason.or(record.reason.take());
}

fn cut(reached_ns: Option<i64>) -> String {
    match reached_ns {
        Some(t_ns) => {
            format!("it has no end: what is there goes up to {:.1} s", t_ns as f64 / 1e9)
        }
        None => "it has no end: nothing was measured yet".to_owned(),
    }
}

/// Takes a cell's facts into the manifest: system settings from the first cell that tells them, queues from the first cell of each
/// scenario.
pub(crate) fn facts(manifest: &mut Manifest, cell: &CellId, data: &CellData) {
    for fact in &data.facts {
        let entry = match &fact.subject {
            Subject::Sysctl(name) => manifest.sysctls.entry(name.clone()),
            Subject::Queues(device) => {
                manifest.queues.entry(format!("{}/{}/{device}", cell.scenario, fact.when))
            }
            _ => continue,
        };
        entry.or_insert_with(|| fact.value.clone());
    }
}

/// Brings the manifest of a run that has no tables up to what its journals say, one for each of its cells.
pub(crate) fn so_far<'a>(
    manifest: &mut Manifest,
    journals: impl Iterator<Item = Option<(&'a Course, &'a CellData)>>,
) {
    for (index, journal) in journals.enumerate() {
        cell(&mut manifest.cells[index], journal.map(|(course, _)| course));
        if let Some((_, data)) = journal {
            let id = manifest.cells[index].id.clone();
            facts(manifest, &id, data);
        }
    }
    totals(manifest);
    // Every cell may have come to its end before the program was killed; the run as a whole still has no tables.
    manifest.complete = false;
}

pub(crate) fn totals(manifest: &mut Manifest) {
    manifest.complete = manifest.cells.iter().all(|c| c.status == CellStatus::Complete);
    if manifest.virtual_s.is_none() {
        let known: Vec<f64> = manifest.cells.iter().filter_map(|c| c.virtual_s).collect();
        manifest.virtual_s = (!known.is_empty()).then(|| known.iter().sum());
    }
}
